//! Builds a matcher, checks its answers against brute force, and times it on one thread and on all cores.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::BooleanMatcher;
use super::brute_force::FilterBruteForce;
use super::filter::{BooleanFilter, FilterMessage, Schema};
use crate::allocated::bytes_of;
use crate::clock::{CpuTimes, median_by, micros, thread_cpu, timed, timed_cpu, timed_process_cpu};

/// How many messages are compared with brute force before anything is timed.
const CHECKED: usize = 20;
/// The number of runs whose median is reported.
const RUNS: usize = 3;
/// The number of messages between two readings of the clock where that must not be felt.
const BLOCK: usize = 64;
/// Fewer messages than these say nothing of 99 %.
const MESSAGES_MIN: usize = 100;

/// What all matchers of one table are given.
#[derive(Debug)]
pub struct MatchWork<'a> {
    /// The standing filters.
    pub filters: &'a [BooleanFilter],
    /// Their attributes.
    pub schema: &'a Schema,
    /// The messages, of which as many are used as there is time for.
    pub messages: &'a [FilterMessage],
    /// How long one run may take.
    pub budget: Duration,
    expected: Vec<Vec<u32>>,
}

impl<'a> MatchWork<'a> {
    /// Work, with the right answers for some of the messages.
    #[must_use]
    pub fn new(
        filters: &'a [BooleanFilter],
        schema: &'a Schema,
        messages: &'a [FilterMessage],
        budget: Duration,
    ) -> Self {
        let brute_force = FilterBruteForce::build(filters, schema);
        let expected = messages.iter().take(CHECKED).map(|message| answer(&brute_force, message)).collect();
        Self { filters, schema, messages, budget, expected }
    }

    /// One line of the table: `M` built, checked and timed.
    ///
    /// # Panics
    /// When an answer differs from brute force: a benchmark of wrong answers is worth nothing.
    #[must_use]
    pub fn measure<M: BooleanMatcher>(&self) -> Value {
        let ((mut matcher, build), bytes) = bytes_of(|| timed_process_cpu(|| M::build(self.filters, self.schema)));
        matcher.prepare(self.messages);
        for (message, expected) in self.messages.iter().zip(&self.expected) {
            assert_eq!(&answer(&matcher, message), expected, "{} and brute force differ", M::NAME);
        }
        let run = median_by((0..RUNS).map(|_| self.one_thread(&matcher)).collect(), |run| run.cpu.percentile(50));
        let (latency, per_second, threads) = self.all_cores(&matcher, run.cpu.count());
        let in_blocks = || (0..RUNS).map(|_| self.in_blocks(&matcher, run.cpu.count())).collect();
        let in_blocks = (!M::USES_ALL_CORES).then(|| median_by(in_blocks(), |mean| *mean));
        let cpu = |percent| if M::USES_ALL_CORES { Value::Null } else { json!(run.cpu.percentile(percent)) };
        json!({
            "matcher": M::NAME,
            "filters": self.filters.len(),
            "build_s": build.as_secs_f64(),
            "bytes_per_filter": (bytes - matcher.text_bytes()) as f64 / self.filters.len() as f64,
            "text_bytes_per_filter": matcher.text_bytes() as f64 / self.filters.len() as f64,
            "messages": run.cpu.count(),
            "matches_per_message": run.matches as f64 / run.cpu.count() as f64,
            "block_cpu_us": in_blocks,
            "p50_wall_us": run.wall.percentile(50),
            "p50_cpu_us": cpu(50),
            "p80_cpu_us": cpu(80),
            "p90_cpu_us": cpu(90),
            "p99_cpu_us": cpu(99),
            "threads": threads,
            "p50_all_cores_us": latency.percentile(50),
            "p80_all_cores_us": latency.percentile(80),
            "p90_all_cores_us": latency.percentile(90),
            "p99_all_cores_us": latency.percentile(99),
            "messages_per_second_all_cores": per_second,
        })
    }

    /// Every message by itself, until the time is over.
    fn one_thread<M: BooleanMatcher>(&self, matcher: &M) -> TimedRun {
        let (mut scratch, mut matched) = (M::Scratch::default(), Vec::new());
        let (mut wall, mut cpu, mut matches) = (Vec::new(), Vec::new(), 0);
        for message in &self.messages[..self.messages.len().min(MESSAGES_MIN) / 10] {
            matcher.match_into(message, &mut scratch, &mut matched); // caches and scratch, as in a running system
        }
        let end = thread_cpu() + self.budget;
        for message in self.messages {
            matched.clear();
            let message = &message.clone(); // in the cache, as one that a program has just read
            let ((), (took_wall, took_cpu)) = both_clocks(|| matcher.match_into(message, &mut scratch, &mut matched));
            matches += black_box(&matched).len();
            wall.push(micros(took_wall));
            cpu.push(micros(took_cpu));
            if wall.len() >= MESSAGES_MIN && thread_cpu() > end {
                break;
            }
        }
        TimedRun { wall: CpuTimes::new(wall), cpu: CpuTimes::new(cpu), matches }
    }

    /// The mean CPU time of a message, in microseconds, of the first `count`, where the clock is read once a block. After
    /// each system call, and a clock is one, the next code runs slower.
    fn in_blocks<M: BooleanMatcher>(&self, matcher: &M, count: usize) -> f64 {
        let (mut scratch, mut matched, mut cpu) = (M::Scratch::default(), Vec::new(), Duration::ZERO);
        for block in self.messages[..count].chunks(BLOCK) {
            let block = block.to_vec();
            cpu += timed_cpu(|| {
                for message in &block {
                    matched.clear();
                    matcher.match_into(message, &mut scratch, &mut matched);
                    black_box(&matched);
                }
            })
            .1;
        }
        micros(cpu) / count as f64
    }

    /// A thread a core, each with messages of its own: how long each takes then, and how many there are a second.
    fn all_cores<M: BooleanMatcher>(&self, matcher: &M, count: usize) -> (CpuTimes, f64, usize) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if M::USES_ALL_CORES { 1 } else { cores };
        let messages = &self.messages[..count];
        let start = Instant::now();
        let times: Vec<f64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|first| scope.spawn(move || latencies(matcher, messages.iter().skip(first).step_by(threads))))
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("matching does not panic")).collect()
        });
        (CpuTimes::new(times), count as f64 / start.elapsed().as_secs_f64(), threads)
    }
}

struct TimedRun {
    wall: CpuTimes,
    cpu: CpuTimes,
    matches: usize,
}

fn both_clocks<T>(work: impl FnOnce() -> T) -> (T, (Duration, Duration)) {
    let ((result, cpu), wall) = timed(|| timed_cpu(work));
    (result, (wall, cpu))
}

fn latencies<'a, M: BooleanMatcher>(matcher: &M, messages: impl Iterator<Item = &'a FilterMessage>) -> Vec<f64> {
    let (mut scratch, mut matched) = (M::Scratch::default(), Vec::new());
    let mut one = |message| {
        matched.clear();
        matcher.match_into(message, &mut scratch, &mut matched);
        black_box(&matched);
    };
    messages.map(|message| micros(timed(|| one(message)).1)).collect()
}

/// The numbers of the filters that are true of `message`, ascending.
#[must_use]
pub fn answer<M: BooleanMatcher>(matcher: &M, message: &FilterMessage) -> Vec<u32> {
    let mut matched = Vec::new();
    matcher.match_into(message, &mut M::Scratch::default(), &mut matched);
    matched.sort_unstable();
    matched
}

//! Measures how long matches take, one message at a time, without the cost of calls from outside.
//!
//! Wall time is how long a caller waits. The thread's CPU time is what the match cost, also on a machine that is busy with
//! other work.

use std::time::Instant;

use crate::error::EngineError;
use crate::index::{Engine, Scratch, SubscriptionId};
use crate::message::{Body, Message, Properties};

/// A message that is ready to be matched.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// One whose parts are in memory.
    Parts {
        /// The topic, in dotted words.
        topic: String,
        /// The properties.
        properties: Properties,
        /// Text, where there is one.
        body: Option<String>,
    },
    /// A record as the text of a JSON object. Reading it belongs to the match.
    Json(Vec<u8>),
}

/// The time that matching one message took: the median of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchTimes {
    /// Wall time in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of this thread in nanoseconds.
    pub cpu_ns: u64,
    /// The number of subscriptions that the message satisfies.
    pub matched: usize,
}

impl Engine {
    /// Match all of `messages` `warm_up` times, then `rounds` times more and measure each match.
    ///
    /// Every round goes through all messages, so that no message finds the caches warm from its last match. The time that
    /// reading the clocks takes is measured first and subtracted.
    ///
    /// # Errors
    /// A damaged snapshot, or a text that is no JSON object.
    pub fn time_matches(
        &self,
        messages: &[Prepared],
        warm_up: usize,
        rounds: usize,
    ) -> Result<Vec<MatchTimes>, EngineError> {
        let (mut scratch, mut matched) = (Scratch::default(), Vec::new());
        let mut clocks = vec![(Vec::with_capacity(rounds), Vec::with_capacity(rounds)); messages.len()];
        let mut counts = vec![0; messages.len()];
        let reading = cost_of_clocks();
        for round in 0..warm_up + rounds.max(1) {
            for (index, prepared) in messages.iter().enumerate() {
                matched.clear();
                let clock = MatchClocks::start();
                prepared.match_into(self, &mut scratch, &mut matched)?;
                let (wall, cpu) = clock.stop();
                counts[index] = matched.len();
                if round >= warm_up {
                    clocks[index].0.push(wall.saturating_sub(reading.0));
                    clocks[index].1.push(cpu.saturating_sub(reading.1));
                }
            }
        }
        let times = clocks.into_iter().zip(counts).map(|((wall, cpu), matched)| MatchTimes {
            wall_ns: median(wall),
            cpu_ns: median(cpu),
            matched,
        });
        Ok(times.collect())
    }
}

impl Prepared {
    fn match_into(
        &self,
        engine: &Engine,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        match self {
            Self::Parts { topic, properties, body } => {
                let body = body.as_deref().map_or(Body::Absent, Body::Text);
                engine.match_into(&Message::new(topic, properties, body), scratch, matched)
            }
            Self::Json(text) => {
                let view = engine.view();
                let properties = view.read_record(text)?;
                view.match_into(&Message::of_record(&properties, None, None), scratch, matched)
            }
        }
    }
}

/// Both clocks, started together.
struct MatchClocks {
    cpu_ns: u64,
    wall: Instant,
}

impl MatchClocks {
    fn start() -> Self {
        Self { cpu_ns: thread_cpu_ns(), wall: Instant::now() }
    }

    /// Nanoseconds of wall and of CPU time since the start.
    fn stop(self) -> (u64, u64) {
        let wall = u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX);
        (wall, thread_cpu_ns().saturating_sub(self.cpu_ns))
    }
}

/// The least time that starting and stopping the clocks takes, in nanoseconds of each. A busy machine reads them more slowly;
/// subtracting that would leave nothing of a short match.
fn cost_of_clocks() -> (u64, u64) {
    const READINGS: usize = 1_001;
    let costs = (0..READINGS).map(|_| MatchClocks::start().stop());
    costs.fold((u64::MAX, u64::MAX), |least, (wall, cpu)| (least.0.min(wall), least.1.min(cpu)))
}

fn median(mut times: Vec<u64>) -> u64 {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

/// The CPU time that this thread has used, in nanoseconds.
#[cfg(unix)]
fn thread_cpu_ns() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Wall time in nanoseconds, where a thread's CPU clock cannot be read.
#[cfg(not(unix))]
fn thread_cpu_ns() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Value;
    use crate::query::selector::{SelectorDialect, parse};
    use std::sync::Arc;

    #[test]
    #[cfg_attr(miri, ignore = "miri has no clock of a thread")]
    fn every_message_is_timed_and_its_matches_counted() {
        let engine = Engine::new();
        for limit in 0..200 {
            engine.add(Arc::new(parse(&format!("a > {limit}"), SelectorDialect::Jms).expect("a selector")));
        }
        let message = |value| Prepared::Parts {
            topic: String::new(),
            properties: [("a".into(), Value::Int(value))].into_iter().collect(),
            body: None,
        };
        let messages = [message(0), message(150), Prepared::Json(br#"{"b": 1, "a": 20}"#.to_vec())];
        let times = engine.time_matches(&messages, 1, 3).expect("no snapshot, no damage");
        assert_eq!(times.iter().map(|time| time.matched).collect::<Vec<_>>(), [0, 150, 20]);
        assert!(times.iter().all(|time| time.wall_ns > 0));
        assert!(engine.time_matches(&[], 1, 3).expect("no damage").is_empty());
        assert!(engine.time_matches(&[Prepared::Json(b"{".to_vec())], 1, 3).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no clock of a thread")]
    fn the_clock_of_a_thread_runs_while_it_works() {
        let start = thread_cpu_ns();
        let wall = Instant::now();
        while wall.elapsed().as_millis() < 20 {}
        assert!(thread_cpu_ns() > start);
    }
}

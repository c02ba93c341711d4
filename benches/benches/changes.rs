//! Measures adding and removing queries while messages are matched, and the engine after many changes.
//!
//! `cargo bench -p tamis-benches --bench changes [-- DIR --filters 500000 --changes 100000 --json PATH]`
//! A change's cost is the CPU time of the thread that makes it, and once more that of the whole program, what it leaves
//! to other threads included. Matching is timed before any change, right after them, in quarters of a second while the
//! engine merges what they have left and is compacted because nobody changes it, and when it has been.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::boolean::filter::{BooleanFilter, FilterMessage as Neutral};
use tamis_benches::boolean::workload::Workload;
use tamis_benches::clock::{CpuTimes, micros, timed_cpu, timed_process_cpu};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message};
use tamis_core::query::Query;
use tamis_core::query::selector::{self, SelectorDialect};

/// How many single changes of each kind are timed while another thread matches.
const TIMED: usize = 5_000;
/// The first of all are timed apart: one of them pays the memory allocator for tidying up what loading has left.
const FIRST: usize = 100;
/// For how long matching is watched after the changes.
const WATCHED: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_millis(250);

fn main() {
    let arguments = Arguments::from_env(&["filters", "changes", "json"]);
    // As many as the aim is for, where a folder has them.
    let (count, changes) = if arguments.directory().is_some() { (500_000, 100_000) } else { (50_000, 10_000) };
    let (count, changes) = (arguments.number("filters", count), arguments.number("changes", changes));
    let workload = Workload::from_arguments(&arguments, count + changes / 2);
    let mut report = BenchReport::new("changes", &arguments);
    // The filters that no engine has yet stand at the end.
    let split = workload.filters.len() - (changes / 2).clamp(1, workload.filters.len() / 2);
    let (held, new) = workload.filters.split_at(split);
    let new: Vec<Arc<Query>> = new.iter().map(query_of).collect();
    let engine = Engine::new();
    engine.change(held.iter().map(query_of).collect(), &[]).expect("in memory");
    engine.settle();
    single_changes(&engine, &new, &workload.messages, &mut report);
    worn(&engine, &new, changes, &workload.messages, &mut report);
    report.finish();
}

fn query_of(filter: &BooleanFilter) -> Arc<Query> {
    Arc::new(selector::parse(&filter.selector, SelectorDialect::Jms).expect("a selector that we wrote"))
}

/// Add and remove one at a time while another thread matches without a pause.
fn single_changes(engine: &Engine, new: &[Arc<Query>], messages: &[Neutral], report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("change", "change", 0),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
        column("mean_cpu_us", "mean", 2),
        column("max_cpu_us", "max", 1),
        column("matched_meanwhile", "messages during", 0),
    ];
    let subscriptions = engine.len();
    let title = format!("one change at {subscriptions} subscriptions, while a thread matches; CPU microseconds");
    report.table("changes", &title, &COLUMNS);
    let stop = AtomicBool::new(false);
    let (first, added, removed, matched) = std::thread::scope(|scope| {
        let matching = scope.spawn(|| match_until(engine, messages, &stop));
        let (ids, first) = add_all(engine, new.iter().cycle().take(FIRST));
        remove_all(engine, &ids);
        let (ids, added) = add_all(engine, new.iter().cycle().take(TIMED));
        let removed = remove_all(engine, &ids);
        stop.store(true, Ordering::Relaxed);
        (first, added, removed, matching.join().expect("matching does not panic"))
    });
    report.line(json!({
        "change": format!("add, the first {FIRST}"), "subscriptions": subscriptions,
        "p50_cpu_us": first.percentile(50), "p99_cpu_us": first.percentile(99), "max_cpu_us": first.percentile(100),
    }));
    for (name, times) in [("add", added), ("remove", removed)] {
        report.line(json!({
            "change": name, "subscriptions": subscriptions, "p50_cpu_us": times.percentile(50),
            "p99_cpu_us": times.percentile(99), "mean_cpu_us": times.mean(), "max_cpu_us": times.percentile(100),
            "matched_meanwhile": matched,
        }));
    }
    engine.settle();
    let ((), took) = timed_process_cpu(|| {
        let (ids, _) = add_all(engine, new.iter().cycle().take(TIMED));
        remove_all(engine, &ids);
        engine.settle();
    });
    let each = micros(took) / (2 * TIMED) as f64;
    report.line(json!({"change": "either, merges included", "subscriptions": subscriptions, "mean_cpu_us": each}));
}

fn add_all<'q>(engine: &Engine, queries: impl Iterator<Item = &'q Arc<Query>>) -> (Vec<SubscriptionId>, CpuTimes) {
    let (mut ids, mut times) = (Vec::new(), Vec::new());
    for query in queries {
        let (id, took) = timed_cpu(|| engine.add(Arc::clone(query)));
        ids.push(id);
        times.push(micros(took));
    }
    (ids, CpuTimes::new(times))
}

fn remove_all(engine: &Engine, ids: &[SubscriptionId]) -> CpuTimes {
    let remove = |id: &SubscriptionId| {
        let (removed, took) = timed_cpu(|| engine.remove(*id).expect("in memory"));
        assert!(removed, "it was added");
        micros(took)
    };
    CpuTimes::new(ids.iter().map(remove).collect())
}

fn match_until(engine: &Engine, messages: &[Neutral], stop: &AtomicBool) -> usize {
    let (mut scratch, mut found, mut count) = (Scratch::new(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        match_one(engine, &messages[count % messages.len()], &mut scratch, &mut found);
        count += 1;
    }
    count
}

fn match_one(engine: &Engine, message: &Neutral, scratch: &mut Scratch, found: &mut Vec<SubscriptionId>) {
    found.clear();
    let message = Message::new("", &message.properties, Body::Absent);
    engine.match_into(&message, scratch, found).expect("in memory");
    black_box(&found);
}

/// Half of `changes` remove one of the oldest, half add one.
fn worn(engine: &Engine, new: &[Arc<Query>], changes: usize, messages: &[Neutral], report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 5] = [
        column("when", "when", 0),
        column("messages", "messages", 0),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
        column("times_fresh", "p50 / fresh", 2),
    ];
    report.table("worn", &format!("matching before and after {changes} changes; CPU microseconds"), &COLUMNS);
    let fresh = window(engine, messages, WINDOW * 2);
    let record = |when: &str, times: &CpuTimes| -> Value {
        json!({
            "when": when, "messages": times.count(), "p50_cpu_us": times.percentile(50),
            "p99_cpu_us": times.percentile(99), "times_fresh": times.percentile(50) / fresh.percentile(50),
        })
    };
    report.line(record("fresh", &fresh));
    let ids = engine.ids().expect("in memory");
    for (id, query) in ids.into_iter().zip(new.iter().cycle()).take(changes / 2) {
        engine.remove(id).expect("in memory");
        engine.add(Arc::clone(query));
    }
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        let when = format!("{:.2} s after them", start.elapsed().as_secs_f64());
        report.line(record(&when, &window(engine, messages, WINDOW)));
    }
    engine.settle();
    report.line(record("compacted", &window(engine, messages, WINDOW * 2)));
}

/// Match for as long as `duration`.
fn window(engine: &Engine, messages: &[Neutral], duration: Duration) -> CpuTimes {
    let (mut scratch, mut found, mut times) = (Scratch::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    for message in messages.iter().cycle() {
        times.push(micros(timed_cpu(|| match_one(engine, message, &mut scratch, &mut found)).1));
        if start.elapsed() > duration {
            break;
        }
    }
    CpuTimes::new(times)
}

//! Adding and removing while messages are matched, and the engine that many changes have worn.
//!
//! `cargo bench -p tamis-benches --bench changes [-- DIR --filters 500000 --changes 100000 --json PATH]`
//! A change's cost is the CPU time of the thread that makes it. Matching is timed before any change, with the changes
//! fresh in the engine, and in quarters of a second after that, while whatever the engine does in the background is
//! going on.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::boolean::filter::{Filter, Message as Neutral};
use tamis_benches::boolean::workload::Workload;
use tamis_benches::clock::{Times, micros, timed_cpu};
use tamis_benches::report::{Column, Report, column};
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message};
use tamis_core::query::Query;
use tamis_core::query::selector::{self, Dialect};

/// How many single changes are timed.
const TIMED: usize = 2_000;
/// For how long matching is watched after the changes.
const WATCHED: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_millis(250);

fn main() {
    let arguments = Arguments::from_env(&["filters", "changes", "json"]);
    let count = arguments.number("filters", 50_000);
    let changes = arguments.number("changes", 10_000);
    let workload = Workload::from_arguments(&arguments, count + changes / 2);
    let mut report = Report::new("changes", &arguments);
    // Filters that no engine has yet stand at the end.
    let split = workload.filters.len() - (changes / 2).min(workload.filters.len() / 2);
    let (held, new) = workload.filters.split_at(split);
    let engine = RwLock::new(engine_of(held));
    single_changes(&engine, new, &workload.messages, &mut report);
    worn(&engine, new, changes, &workload.messages, &mut report);
    report.finish();
}

fn engine_of(filters: &[Filter]) -> Engine {
    let mut engine = Engine::new();
    for filter in filters {
        engine.add(query_of(filter));
    }
    engine
}

fn query_of(filter: &Filter) -> Arc<Query> {
    Arc::new(selector::parse(&filter.selector, Dialect::Jms).expect("a selector that we wrote"))
}

/// Add and remove one at a time while another thread matches without a pause.
fn single_changes(engine: &RwLock<Engine>, new: &[Filter], messages: &[Neutral], report: &mut Report) {
    const COLUMNS: [Column; 5] = [
        column("change", "change", 0),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
        column("mean_cpu_us", "mean", 2),
        column("matched_meanwhile", "messages meanwhile", 0),
    ];
    let subscriptions = engine.read().expect("nobody panics").len();
    let title = format!("one change at {subscriptions} subscriptions, while a thread matches; CPU microseconds");
    report.table("changes", &title, &COLUMNS);
    let queries: Vec<Arc<Query>> = new.iter().cycle().take(TIMED).map(query_of).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let matching = scope.spawn(|| match_until(engine, messages, &stop));
        let (mut added, mut ids) = (Vec::new(), Vec::new());
        for query in queries {
            let mut engine = engine.write().expect("nobody panics");
            let (id, took) = timed_cpu(|| engine.add(query));
            ids.push(id);
            added.push(micros(took));
        }
        let remove = |id: SubscriptionId| {
            let mut engine = engine.write().expect("nobody panics");
            let (removed, took) = timed_cpu(|| engine.remove(id).expect("in memory"));
            assert!(removed);
            micros(took)
        };
        let removed = ids.into_iter().map(remove).collect();
        stop.store(true, Ordering::Relaxed);
        let matched = matching.join().expect("matching does not panic");
        for (name, times) in [("add", Times::new(added)), ("remove", Times::new(removed))] {
            report.line(json!({
                "change": name, "subscriptions": subscriptions, "p50_cpu_us": times.percentile(50),
                "p99_cpu_us": times.percentile(99), "mean_cpu_us": times.mean(), "matched_meanwhile": matched,
            }));
        }
    });
}

fn match_until(engine: &RwLock<Engine>, messages: &[Neutral], stop: &AtomicBool) -> usize {
    let (mut scratch, mut found, mut count) = (Scratch::new(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        match_one(&engine.read().expect("nobody panics"), &messages[count % messages.len()], &mut scratch, &mut found);
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
fn worn(engine: &RwLock<Engine>, new: &[Filter], changes: usize, messages: &[Neutral], report: &mut Report) {
    const COLUMNS: [Column; 5] = [
        column("when", "when", 0),
        column("messages", "messages", 0),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
        column("times_fresh", "p50 / fresh", 2),
    ];
    report.table("worn", &format!("matching before and after {changes} changes; CPU microseconds"), &COLUMNS);
    let fresh = window(engine, messages, WINDOW * 2);
    let mut line = |when: String, times: &Times| {
        report.line(json!({
            "when": when, "messages": times.count(), "p50_cpu_us": times.percentile(50),
            "p99_cpu_us": times.percentile(99), "times_fresh": times.percentile(50) / fresh.percentile(50),
        }));
    };
    line("fresh".to_owned(), &fresh);
    let ids = engine.read().expect("nobody panics").ids().expect("in memory");
    for (id, filter) in ids.into_iter().zip(new.iter().cycle()).take(changes / 2) {
        let query = query_of(filter);
        let mut engine = engine.write().expect("nobody panics");
        engine.remove(id).expect("in memory");
        engine.add(query);
    }
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        let since = start.elapsed().as_secs_f64();
        line(format!("{since:.2} s after them"), &window(engine, messages, WINDOW));
    }
}

/// Match for as long as `duration`.
fn window(engine: &RwLock<Engine>, messages: &[Neutral], duration: Duration) -> Times {
    let (mut scratch, mut found, mut times) = (Scratch::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    for message in messages.iter().cycle() {
        let engine = engine.read().expect("nobody panics");
        times.push(micros(timed_cpu(|| match_one(&engine, message, &mut scratch, &mut found)).1));
        if start.elapsed() > duration {
            break;
        }
    }
    Times::new(times)
}

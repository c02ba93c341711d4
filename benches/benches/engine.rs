//! Measures the time per message of the engine and of brute force, by number of subscriptions, on one core.
//!
//! Plain `cargo bench`, without a harness: it prints a table. Every answer is checked against brute force. The work is
//! seeded: filters on one symbol of 5,000 with a price limit and a region, 1 % with nothing to look up.
//! `cargo bench -p tamis-benches --bench engine -- 1000000` measures other numbers of subscriptions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tamis_benches::clock::{micros, timed};
use tamis_benches::random::SplitMix64;
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::selector::{self, SelectorDialect};

const SYMBOLS: usize = 5_000;
const MESSAGES: usize = 2_000;
const RUNS: usize = 3;
/// The number of evaluations of brute force, which takes long; enough for a steady mean.
const BRUTE_FORCE_EVALUATIONS: usize = 2_000_000;

fn main() {
    let asked: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let counts = if asked.is_empty() { vec![1_000, 10_000, 100_000] } else { asked };
    let messages = messages(&mut SplitMix64::new(7));
    println!("one core, {MESSAGES} messages, median of {RUNS} runs; microseconds per message");
    println!(
        "{:>13} {:>9} {:>9} {:>9} {:>12} {:>8} {:>9}",
        "subscriptions", "mean", "p50", "p99", "brute force", "times", "add ms"
    );
    for count in counts {
        println!("{}", measure(&queries(count, &mut SplitMix64::new(11)), &messages));
    }
}

/// One line of the table.
fn measure(queries: &[Arc<Query>], messages: &[Properties]) -> String {
    let (engine, build) = timed(|| build(queries));
    check(&engine, queries, messages);
    let mut runs: Vec<Vec<Duration>> = (0..RUNS).map(|_| match_times(&engine, messages)).collect();
    runs.sort_by_key(|times| times.iter().sum::<Duration>());
    let mut times = runs.swap_remove(RUNS / 2);
    times.sort_unstable();
    let mean = micros(times.iter().sum::<Duration>()) / times.len() as f64;
    let brute = brute_force_micros(queries, messages);
    format!(
        "{:>13} {:>9.2} {:>9.2} {:>9.2} {:>12.1} {:>8.0} {:>9.0}",
        queries.len(),
        mean,
        micros(times[times.len() / 2]),
        micros(times[times.len() * 99 / 100]),
        brute,
        brute / mean,
        micros(build) / 1_000.0,
    )
}

fn build(queries: &[Arc<Query>]) -> Engine {
    let engine = Engine::new();
    for query in queries {
        engine.add(Arc::clone(query));
    }
    engine
}

fn match_times(engine: &Engine, messages: &[Properties]) -> Vec<Duration> {
    let (mut scratch, mut matched) = (Scratch::new(), Vec::new());
    let mut match_one = |properties: &Properties| {
        matched.clear();
        let message = Message::new("", properties, Body::Absent);
        engine.match_into(&message, &mut scratch, &mut matched).expect("an engine in memory is never damaged");
        black_box(&matched);
    };
    messages.iter().map(|properties| timed(|| match_one(properties)).1).collect()
}

/// The mean over as many messages as are affordable.
fn brute_force_micros(queries: &[Arc<Query>], messages: &[Properties]) -> f64 {
    let affordable = (BRUTE_FORCE_EVALUATIONS / queries.len()).clamp(1, messages.len());
    let (_, took) = timed(|| {
        for properties in &messages[..affordable] {
            black_box(brute_force(queries, properties));
        }
    });
    micros(took) / affordable as f64
}

fn brute_force(queries: &[Arc<Query>], properties: &Properties) -> Vec<SubscriptionId> {
    let message = Message::new("", properties, Body::Absent);
    let is_true = |query: &Query| query.evaluate(&message, None) == Some(true);
    (0..).zip(queries).filter(|(_, query)| is_true(query)).map(|(id, _)| SubscriptionId(id)).collect()
}

/// A benchmark of wrong answers is worth nothing.
fn check(engine: &Engine, queries: &[Arc<Query>], messages: &[Properties]) {
    let mut scratch = Scratch::new();
    for properties in messages.iter().take(20) {
        let mut matched = Vec::new();
        engine.match_into(&Message::new("", properties, Body::Absent), &mut scratch, &mut matched).expect("in memory");
        assert_eq!(matched, brute_force(queries, properties), "the engine and brute force differ");
    }
}

fn queries(count: usize, random: &mut SplitMix64) -> Vec<Arc<Query>> {
    (0..count)
        .map(|_| Arc::new(selector::parse(&filter(random), SelectorDialect::Jms).expect("a good selector")))
        .collect()
}

fn filter(random: &mut SplitMix64) -> String {
    let limit = random.below(1_000);
    if random.below(100) == 0 {
        return format!("price > {} AND volume < {limit}", 900 + limit / 10);
    }
    let region = ["EU", "US", "ASIA"][random.below(3)];
    format!("symbol = 'S{}' AND price > {limit} AND region IN ('{region}', 'ALL')", random.below(SYMBOLS))
}

fn messages(random: &mut SplitMix64) -> Vec<Properties> {
    (0..MESSAGES).map(|_| message(random)).collect()
}

fn message(random: &mut SplitMix64) -> Properties {
    let region = ["EU", "US", "ASIA"][random.below(3)];
    let mut properties = Properties::default();
    properties.insert("symbol".into(), Value::Text(format!("S{}", random.below(SYMBOLS)).into()));
    properties.insert("price".into(), Value::Int(random.below(1_000) as i64));
    properties.insert("volume".into(), Value::Int(random.below(10_000) as i64));
    properties.insert("region".into(), Value::Text(region.into()));
    properties.insert("urgent".into(), Value::Bool(random.below(2) == 0));
    properties
}

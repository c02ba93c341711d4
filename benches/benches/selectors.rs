//! Compares selectors on mail (PNNL paper) and criteria on fields (OpenAMQ paper) with evaluating one by one.
//!
//! `cargo bench -p tamis-benches --bench selectors [-- --messages 20000 --requests 10000 --json PATH]`
//! All times are CPU times of the one thread.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, micros, thread_cpu, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::{Comparison, Expr, Operand, Predicate, Reference};
use tamis_core::query::selector::{self, SelectorDialect};

/// One by one is slow: it is timed for so long at most.
const BASELINE_BUDGET: Duration = Duration::from_millis(200);
const RUNS: usize = 3;

fn main() {
    let arguments = Arguments::from_env(&["messages", "requests", "json"]);
    let messages = arguments.number("messages", 20_000);
    let mut report = BenchReport::new("selectors", &arguments);
    for repeats in [1, 16] {
        newsgroup(messages, repeats, &mut report);
    }
    fields(messages, arguments.number("requests", 10_000), &mut report);
    report.finish();
}

// ---- the PNNL paper -------------------------------------------------------------------------------------------------

/// The PNNL paper, figure 5.
const SENDER: &str = "Someone (Someone@yahoo.com)";
const SUBJECT: &str = "I have a question...";
const BODY: [&str; 3] = [
    "I covered my daffodils, garlic, and rhubarb\nlast night in hopes of saving them from freezing.\n",
    "Should one uncover them during the day if the temp\nis above freezing, and re-cover them in the late\n\
     afternoon? Or can I just leave them covered for a\n",
    "few days till the nights get warmer? (may be a moot\npoint after I look at them...) ",
];

/// The PNNL paper, section 4.1: the selectors in the order of their cost.
const LEVELS: [&str; 4] = [
    "From = \"Someone (Someone@yahoo.com)\"",
    "Subject LIKE \"%question%\"",
    "Body LIKE %garlic%",
    "Body LIKE %warmer%",
];

/// Subscribers, and how many of a hundred have the selector that matches.
const SUBSCRIBERS: [(usize, usize); 6] = [(10, 100), (20, 100), (50, 100), (100, 100), (200, 10), (400, 10)];

/// The post with its middle `repeats` times.
fn newsgroup(messages: usize, repeats: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 8] = [
        column("subscribers", "subscribers, match %", 0),
        column("level_1_us", "level 1", 3),
        column("level_2_us", "level 2", 3),
        column("level_3_us", "level 3", 3),
        column("level_4_us", "level 4", 3),
        column("one_by_one_1_us", "one by one 1", 2),
        column("one_by_one_4_us", "one by one 4", 2),
        column("difference_ns_per_byte", "4-1 ns/byte", 3),
    ];
    let bodies = bodies(repeats);
    let bytes = bodies[0].len();
    let title =
        format!("the PNNL paper: a newsgroup post of {bytes} bytes that differs by a byte each time; µs per message");
    report.table("newsgroup", &title, &COLUMNS);
    for (subscribers, percent) in SUBSCRIBERS {
        let mut line = json!({"subscribers": format!("{subscribers}, {percent} %"), "body_bytes": bytes});
        let mut times = Vec::new();
        for level in 0..LEVELS.len() {
            let queries = subscriptions(level, subscribers, percent);
            let (engine, one_by_one) = newsgroup_times(&queries, &bodies, messages, subscribers * percent / 100);
            line[format!("level_{}_us", level + 1)] = json!(engine);
            line[format!("one_by_one_{}_us", level + 1)] = json!(one_by_one);
            times.push(engine);
        }
        line["difference_ns_per_byte"] = json!((times[3] - times[0]) * 1e3 / bytes as f64);
        report.line(line);
    }
}

/// A prime number of bodies, each with another letter at another place of its middle.
fn bodies(repeats: usize) -> Vec<String> {
    let middle = BODY[1].repeat(repeats);
    let body = |number: usize| {
        let place = number * 31 % middle.len();
        let letter = char::from(b'a' + (number % 26) as u8);
        format!("{}{}{letter}{}{}", BODY[0], &middle[..place], &middle[place + 1..], BODY[2])
    };
    (0..997).map(body).collect()
}

/// `percent` of them with the paper's selector; the others differ from it, and from one another, in what they look for.
fn subscriptions(level: usize, count: usize, percent: usize) -> Vec<Arc<Query>> {
    let matching = count * percent / 100;
    let text = |number: usize| {
        if number < matching {
            return LEVELS[level].to_owned();
        }
        let wanted = format!("else{number}");
        LEVELS[level]
            .replace(SENDER, &wanted)
            .replace("question", &wanted)
            .replace("garlic", &wanted)
            .replace("warmer", &wanted)
    };
    (0..count)
        .map(|number| Arc::new(selector::parse(&text(number), SelectorDialect::Cbm).expect("as printed")))
        .collect()
}

/// Microseconds per message of the engine, and of one query after the other.
fn newsgroup_times(queries: &[Arc<Query>], bodies: &[String], messages: usize, matching: usize) -> (f64, f64) {
    let properties: Properties = [("author", SENDER), ("subject", SUBJECT)]
        .map(|(name, value)| (name.into(), Value::Text(value.into())))
        .into_iter()
        .collect();
    let engine = engine_of(queries);
    let (mut scratch, mut found) = (Scratch::new(), Vec::new());
    let mut one = |number: usize| {
        let message = Message::new("", &properties, Body::Text(&bodies[number % bodies.len()]));
        found.clear();
        engine.match_into(&message, &mut scratch, &mut found).expect("in memory");
        assert_eq!(found.len(), matching);
    };
    let runs = (0..RUNS).map(|_| mean_micros(messages, Duration::MAX, &mut one)).collect();
    let baseline = mean_micros(messages, BASELINE_BUDGET, |number| {
        let message = Message::new("", &properties, Body::Text(&bodies[number % bodies.len()]));
        let matched = queries.iter().filter(|query| query.evaluate(&message, None) == Some(true)).count();
        assert_eq!(matched, matching);
    });
    (median_by(runs, |micros| *micros), baseline)
}

// ---- the OpenAMQ paper -------------------------------------------------------------------------------------------------

const FIELDS: usize = 20;
const FIELDS_PER_MESSAGE: usize = 6;

fn fields(messages: usize, requests: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("requests", "distinct requests", 0),
        column("match_us", "match", 3),
        column("hits_us", "hits", 3),
        column("matches_per_message", "matches", 1),
        column("hits_per_message", "with hits", 1),
        column("one_by_one_us", "one by one", 1),
    ];
    let title = format!(
        "the OpenAMQ paper: {requests} requests of 1 to 3 fields out of {FIELDS}, messages of {FIELDS_PER_MESSAGE}; µs a \
         message (its goal: 10)"
    );
    report.table("fields", &title, &COLUMNS);
    for distinct in [100.min(requests), requests] {
        report.line(fields_line(messages, requests, distinct));
    }
}

fn fields_line(messages: usize, requests: usize, distinct: usize) -> Json {
    let mut random = SplitMix64::new(5);
    // As many values as keep the answers at a few dozen, whether requests are alike or not.
    let values = if distinct < requests { 50 } else { 500 };
    let queries = distinct_requests(distinct, values, &mut random);
    let queries: Vec<Arc<Query>> = (0..requests).map(|number| Arc::clone(&queries[number % distinct])).collect();
    let engine = engine_of(&queries);
    let all: Vec<Properties> = (0..1_000).map(|_| fields_message(values, &mut random)).collect();
    let message = |number: usize| Message::new("", &all[number % all.len()], Body::Absent);
    let (mut scratch, mut found) = (Scratch::new(), Vec::new());
    let (mut matches, mut with_hits) = (0, 0);
    let match_us = mean_micros(messages, BASELINE_BUDGET * 5, |number| {
        found.clear();
        engine.match_into(&message(number), &mut scratch, &mut found).expect("in memory");
        black_box(&found);
    });
    let hits_us = mean_micros(messages, BASELINE_BUDGET * 5, |number| {
        black_box(engine.hits(&message(number)).expect("in memory"));
    });
    for number in 0..100 {
        check_fields(&engine, &queries, &message(number), &mut matches, &mut with_hits);
    }
    let one_by_one_us = mean_micros(messages, BASELINE_BUDGET, |number| {
        black_box(brute_force(&queries, &message(number)));
    });
    json!({
        "requests": format!("{distinct} of {requests}"), "match_us": match_us, "hits_us": hits_us,
        "matches_per_message": matches as f64 / 100.0, "hits_per_message": with_hits as f64 / 100.0,
        "one_by_one_us": one_by_one_us,
    })
}

fn check_fields(
    engine: &Engine,
    queries: &[Arc<Query>],
    message: &Message<'_>,
    matches: &mut usize,
    with_hits: &mut usize,
) {
    let mut found = Vec::new();
    engine.match_into(message, &mut Scratch::new(), &mut found).expect("in memory");
    assert_eq!(found, brute_force(queries, message), "the engine and brute force differ");
    let hits = engine.hits(message).expect("in memory");
    let met = |query: &Query| query.criteria().iter().filter(|one| one.evaluate(message, None) == Some(true)).count();
    let expected: Vec<(u64, usize)> =
        (0..).zip(queries).map(|(id, query)| (id, met(query))).filter(|(_, met)| *met > 0).collect();
    assert_eq!(hits.iter().map(|hit| (hit.id.0, hit.hits)).collect::<Vec<_>>(), expected);
    *matches += found.len();
    *with_hits += hits.len();
}

fn brute_force(queries: &[Arc<Query>], message: &Message<'_>) -> Vec<SubscriptionId> {
    let is_true = |query: &Query| query.evaluate(message, None) == Some(true);
    (0..).zip(queries).filter(|(_, query)| is_true(query)).map(|(id, _)| SubscriptionId(id)).collect()
}

/// Requests of which no two are equal; of 50, one asks for the presence of a field only, and half ask for any field.
fn distinct_requests(count: usize, values: usize, random: &mut SplitMix64) -> Vec<Arc<Query>> {
    let mut known = hashbrown::HashSet::new();
    let mut queries = Vec::with_capacity(count);
    while queries.len() < count {
        let criteria = (0..1 + random.below(3)).map(|_| criterion(values, random)).collect();
        let query = Query::fields(criteria, random.percent(50)).expect("few criteria");
        if known.insert(query.to_string()) {
            queries.push(Arc::new(query));
        }
    }
    queries
}

fn criterion(values: usize, random: &mut SplitMix64) -> Expr {
    let field = Reference::property(&field_name(random.below(FIELDS)));
    if random.percent(1) {
        return Predicate::Exists(field).into();
    }
    let value = Operand::Literal(Value::Text(field_value(random.below(values)).into()));
    Predicate::Compare(Operand::Reference(field), Comparison::Equal, value).into()
}

fn fields_message(values: usize, random: &mut SplitMix64) -> Properties {
    let mut message = Properties::default();
    while message.len() < FIELDS_PER_MESSAGE {
        let value = Value::Text(field_value(random.below(values)).into());
        message.insert(field_name(random.below(FIELDS)).into(), value);
    }
    message
}

fn field_name(number: usize) -> String {
    format!("field{number}")
}

fn field_value(number: usize) -> String {
    format!("value{number}")
}

// ---- both ------------------------------------------------------------------------------------------------------

fn engine_of(queries: &[Arc<Query>]) -> Engine {
    let engine = Engine::new();
    engine.change(queries.to_vec(), &[]).expect("in memory");
    engine.settle();
    engine
}

/// The mean CPU time of `one(0)`, `one(1)` and so on, after some to warm up; `count` of them or until time is over.
fn mean_micros(count: usize, budget: Duration, mut one: impl FnMut(usize)) -> f64 {
    (0..count.min(100)).for_each(&mut one);
    let start = thread_cpu();
    let mut done = 0;
    while done < count && thread_cpu() - start < budget {
        let round = 50.min(count - done);
        let ((), _) = timed_cpu(|| (done..done + round).for_each(&mut one));
        done += round;
    }
    micros(thread_cpu() - start) / done as f64
}

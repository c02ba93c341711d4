//! Runs workload B of the ITMO paper: groupings that change while messages come, and predicates of 10 to 500 ns.
//!
//! `cargo bench -p tamis-benches --bench workload_b [-- --filters 500000 --messages 5000 --json PATH]`
//! tamis beside ITMO's own algorithm over the same queries, and brute force. The groupings change every 17 messages:
//! ten times a second at the paper's 10,000 messages a minute. All times are CPU times of the one thread.

use std::hint::black_box;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{CpuTimes, micros, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_benches::workload_b::{EXPENSIVE_COUNT, ExpensivePredicates, MESSAGES_PER_CHANGE, WorkloadB};
use tamis_core::hierarchy::Hierarchies;
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message, Properties};
use tamis_core::query::Query;
use tamis_core::query::expr::Expr;

/// The minimum number of messages of the baselines, whose answers are compared.
const BASELINE_MESSAGES: usize = 100;
const CHECKED: usize = 20;

const COLUMNS: [ReportColumn; 8] = [
    column("matcher", "matcher", 0),
    column("messages", "messages", 0),
    column("matches_per_message", "matches", 1),
    column("expensive_calls_per_message", "expensive calls", 1),
    column("p50_cpu_us", "p50", 2),
    column("p80_cpu_us", "p80", 2),
    column("p90_cpu_us", "p90", 2),
    column("p99_cpu_us", "p99", 2),
];

fn main() {
    let arguments = Arguments::from_env(&["filters", "messages", "json"]);
    let mut workload = WorkloadB::new(arguments.number("filters", 500_000), arguments.number("messages", 3_000), 7);
    let expensive = ExpensivePredicates::new(8);
    let (messages, queries) = (workload.messages(), workload.queries(&expensive));
    let mut report = BenchReport::new("workload_b", &arguments);
    let title = format!(
        "workload B: {} filters, {EXPENSIVE_COUNT} expensive predicates in a tenth of them, groupings changed every \
         {MESSAGES_PER_CHANGE} messages; microseconds per message",
        queries.len()
    );
    report.table("workload_b", &title, &COLUMNS);
    measure_tamis(&mut workload, &queries, &messages, &expensive, &mut report);
    let hierarchies: Hierarchies = [("group".to_owned(), workload.hierarchy())].into_iter().collect();
    let few = &messages[..messages.len().min(BASELINE_MESSAGES)];
    let grouped = GroupedQueries::new(&queries);
    line("grouped (ITMO)", few, &expensive, &mut report, |message, found| {
        grouped.match_into(message, &hierarchies, found)
    });
    line("brute force", few, &expensive, &mut report, |message, found| {
        brute_force(&queries, message, &hierarchies, found)
    });
    let wasted = expensive.calls_when_deleted();
    report.note(&format!("expensive predicates called for a deleted message, by all three: {wasted}"));
    report.record("deleted", json!({"expensive_calls_when_deleted": wasted, "expensive_calls": expensive.calls()}));
    assert_eq!(wasted, 0, "`deleted` had decided");
    report.finish();
}

fn measure_tamis(
    workload: &mut WorkloadB,
    queries: &[Arc<Query>],
    messages: &[Properties],
    expensive: &ExpensivePredicates,
    report: &mut BenchReport,
) {
    let engine = Engine::new();
    engine.change(queries.to_vec(), &[]).expect("in memory");
    engine.settle();
    engine.set_hierarchy("group", workload.hierarchy());
    check(&engine, queries, &messages[..messages.len().min(CHECKED)]);
    let (mut scratch, mut random) = (Scratch::new(), SplitMix64::new(9));
    let (mut changes, mut after_changes, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    line("tamis", messages, expensive, report, |message, matched| {
        found.clear();
        engine.match_into(message, &mut scratch, &mut found).expect("in memory");
        matched.extend(found.iter().map(|id| id.0 as usize));
    });
    line_with("tamis, groupings changing", messages, expensive, report, |message, matched| {
        let is_changed = count % MESSAGES_PER_CHANGE == 0;
        if is_changed {
            workload.change_hierarchy(&mut random);
            let hierarchy = workload.hierarchy();
            changes.push(micros(timed_cpu(|| engine.set_hierarchy("group", hierarchy)).1));
        }
        count += 1;
        found.clear();
        let ((), took) = timed_cpu(|| engine.match_into(message, &mut scratch, &mut found).expect("in memory"));
        matched.extend(found.iter().map(|id| id.0 as usize));
        if is_changed {
            after_changes.push(micros(took));
        }
        micros(took)
    });
    check(&engine, queries, &messages[..messages.len().min(CHECKED)]);
    let (changes, after_changes) = (CpuTimes::new(changes), CpuTimes::new(after_changes));
    report.note(&format!(
        "{:<28}a change of the groupings: p50 {:.2}, p99 {:.2}; the first message after one: p50 {:.2}, p99 {:.2}",
        "",
        changes.percentile(50),
        changes.percentile(99),
        after_changes.percentile(50),
        after_changes.percentile(99),
    ));
    report.record(
        "changes",
        json!({"change_p50_us": changes.percentile(50), "change_p99_us": changes.percentile(99),
            "first_match_p50_us": after_changes.percentile(50), "first_match_p99_us": after_changes.percentile(99)}),
    );
}

/// Time `work`, which appends to its list what matched.
fn line(
    name: &str,
    messages: &[Properties],
    expensive: &ExpensivePredicates,
    report: &mut BenchReport,
    mut work: impl FnMut(&Message<'_>, &mut Vec<usize>),
) {
    line_with(name, messages, expensive, report, |message, found| micros(timed_cpu(|| work(message, found)).1));
}

/// The same for work that times itself.
fn line_with(
    name: &str,
    messages: &[Properties],
    expensive: &ExpensivePredicates,
    report: &mut BenchReport,
    mut work: impl FnMut(&Message<'_>, &mut Vec<usize>) -> f64,
) {
    let (calls, mut matches, mut found) = (expensive.calls(), 0, Vec::new());
    let one = |properties| {
        found.clear();
        let took = work(&Message::new("", properties, Body::Absent), &mut found);
        matches += black_box(&found).len();
        took
    };
    let times = CpuTimes::new(messages.iter().map(one).collect());
    report.line(json!({
        "matcher": name, "messages": messages.len(),
        "matches_per_message": matches as f64 / messages.len() as f64,
        "expensive_calls_per_message": (expensive.calls() - calls) as f64 / messages.len() as f64,
        "p50_cpu_us": times.percentile(50), "p80_cpu_us": times.percentile(80),
        "p90_cpu_us": times.percentile(90), "p99_cpu_us": times.percentile(99),
    }));
}

fn check(engine: &Engine, queries: &[Arc<Query>], messages: &[Properties]) {
    let mut scratch = Scratch::new();
    for properties in messages {
        let (mut matched, mut expected) = (Vec::new(), Vec::new());
        let message = || Message::new("", properties, Body::Absent);
        engine.match_into(&message(), &mut scratch, &mut matched).expect("in memory");
        brute_force(queries, &message(), &engine.hierarchies(), &mut expected);
        let expected: Vec<SubscriptionId> = expected.into_iter().map(|number| SubscriptionId(number as u64)).collect();
        assert_eq!(matched, expected, "the engine and brute force differ");
    }
}

fn brute_force(queries: &[Arc<Query>], message: &Message<'_>, hierarchies: &Hierarchies, found: &mut Vec<usize>) {
    let is_true = |query: &Query| query.evaluate(message, Some(hierarchies)) == Some(true);
    found.extend(queries.iter().enumerate().filter(|(_, query)| is_true(query)).map(|(number, _)| number));
}

/// The ITMO paper, section "Algorithm", over queries: the filters of a symbol by hash, the others in groups by their first
/// predicate, each from left to right. Every message remembers what its expensive predicates said.
struct GroupedQueries<'q> {
    by_symbol: HashMap<String, Vec<OtherConditions<'q>>>,
    groups: Vec<(&'q Expr, Vec<OtherConditions<'q>>)>,
}

type OtherConditions<'q> = (usize, &'q [Expr]);

impl<'q> GroupedQueries<'q> {
    fn new(queries: &'q [Arc<Query>]) -> Self {
        let mut built = Self { by_symbol: HashMap::new(), groups: Vec::new() };
        let mut places: HashMap<String, usize> = HashMap::new();
        for (number, query) in queries.iter().enumerate() {
            let (first, rest) = query.criteria().split_first().expect("a query has a predicate");
            let start = Query::new(first.clone()).expect("one predicate").to_string();
            if start.starts_with("symbol = ") {
                built.by_symbol.entry(start).or_default().push((number, rest));
                continue;
            }
            let place = *places.entry(start).or_insert_with(|| {
                built.groups.push((first, Vec::new()));
                built.groups.len() - 1
            });
            built.groups[place].1.push((number, rest));
        }
        built
    }

    fn match_into(&self, message: &Message<'_>, hierarchies: &Hierarchies, found: &mut Vec<usize>) {
        let is_true = |expr: &Expr| expr.evaluate(message, Some(hierarchies)) == Some(true);
        let symbol = match message.properties.get("symbol") {
            Some(tamis_core::message::Value::Text(symbol)) => format!("symbol = '{symbol}'"),
            _ => String::new(),
        };
        let admitted = self.groups.iter().filter(|(start, _)| is_true(start)).map(|(_, group)| group);
        for (number, rest) in self.by_symbol.get(&symbol).into_iter().chain(admitted).flatten() {
            if rest.iter().all(is_true) {
                found.push(*number);
            }
        }
    }
}

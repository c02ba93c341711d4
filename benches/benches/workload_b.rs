//! Runs workload B of the ITMO paper: groupings that change while messages come, and predicates of 10 to 500 ns.
//!
//! `cargo bench -p tamis-benches --bench workload_b [-- --filters 500000 --messages 5000 --json PATH]`
//! tamis beside every algorithm of the paper over the same queries, and brute force, with half of the messages deleted and
//! with nine tenths. The groupings change every 17 messages: ten times a second at the paper's 10,000 messages a minute.
//! The paper's algorithms look up the group of a message's leaf in a table, which a change of the groupings writes, and
//! ask expensive predicates of what they have found, each once a message. All times are CPU times of the one thread.

use std::hint::black_box;
use std::sync::Arc;

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::boolean::BooleanMatcher;
use tamis_benches::boolean::access_predicate::AccessPredicate;
use tamis_benches::boolean::bdd::Bdd;
use tamis_benches::boolean::be_tree::BeTree;
use tamis_benches::boolean::brute_force::FilterBruteForce;
use tamis_benches::boolean::filter::ABSENT;
use tamis_benches::boolean::grouped::Grouped;
use tamis_benches::boolean::k_index::KIndex;
use tamis_benches::boolean::workload::Workload;
use tamis_benches::clock::{CpuTimes, micros, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_benches::workload_b::{EXPENSIVE_COUNT, ExpensivePredicates, MESSAGES_PER_CHANGE, WorkloadB};
use tamis_core::hierarchy::Hierarchies;
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message, Properties};
use tamis_core::query::Query;

/// How many messages the baselines are given, whose answers are compared.
const BASELINE_MESSAGES: usize = 300;
const CHECKED: usize = 20;
/// The shares of deleted messages. The paper: most; and at best 10 % of the messages need complex conditions.
const DELETED_PERCENTS: [usize; 2] = [50, 90];

const COLUMNS: [ReportColumn; 10] = [
    column("matcher", "matcher", 0),
    column("messages", "messages", 0),
    column("matches_per_message", "matches", 1),
    column("expensive_calls_per_message", "expensive calls", 1),
    column("asked_percent", "messages with calls, %", 1),
    column("mean_cpu_us", "mean", 2),
    column("p50_cpu_us", "p50", 2),
    column("p80_cpu_us", "p80", 2),
    column("p90_cpu_us", "p90", 2),
    column("p99_cpu_us", "p99", 2),
];

fn main() {
    let arguments = Arguments::from_env(&["filters", "messages", "json"]);
    let mut report = BenchReport::new("workload_b", &arguments);
    for deleted in DELETED_PERCENTS {
        measure(&arguments, deleted, &mut report);
    }
    report.finish();
}

/// What all lines of a table are about.
#[derive(Clone, Copy)]
struct TableWork<'a> {
    deleted_percent: usize,
    messages: &'a [Properties],
    expensive: &'a ExpensivePredicates,
}

fn measure(arguments: &Arguments, deleted: usize, report: &mut BenchReport) {
    let (filters, messages) = (arguments.number("filters", 500_000), arguments.number("messages", 3_000));
    let mut workload = WorkloadB::with_deleted(filters, messages, 7, deleted);
    let expensive = ExpensivePredicates::new(8);
    let (messages, queries) = (workload.messages(), workload.queries(&expensive));
    let title = format!(
        "workload B, {deleted} % of the messages deleted: {filters} filters, {EXPENSIVE_COUNT} expensive predicates in a \
         tenth of them, groupings changed every {MESSAGES_PER_CHANGE} messages; microseconds per message"
    );
    report.table("workload_b", &title, &COLUMNS);
    let work = TableWork { deleted_percent: deleted, messages: &messages, expensive: &expensive };
    measure_tamis(&mut workload, &queries, work, report);
    let few = TableWork { messages: &messages[..messages.len().min(BASELINE_MESSAGES)], ..work };
    let neutral = workload.neutral_with_groups();
    paper::<Grouped>(&mut workload, &neutral, &queries, few, report);
    paper::<KIndex>(&mut workload, &neutral, &queries, few, report);
    paper::<BeTree>(&mut workload, &neutral, &queries, few, report);
    paper::<Bdd>(&mut workload, &neutral, &queries, few, report);
    paper::<AccessPredicate>(&mut workload, &neutral, &queries, few, report);
    paper::<FilterBruteForce>(&mut workload, &neutral, &queries, few, report);
    let wasted = expensive.calls_when_deleted();
    report.note(&format!("expensive predicates called for a deleted message, by all of them: {wasted}"));
    report.record("deleted", json!({"expensive_calls_when_deleted": wasted, "expensive_calls": expensive.calls()}));
    assert_eq!(wasted, 0, "`deleted` had decided");
}

fn measure_tamis(workload: &mut WorkloadB, queries: &[Arc<Query>], work: TableWork<'_>, report: &mut BenchReport) {
    let engine = Engine::new();
    engine.change(queries.to_vec(), &[]).expect("in memory");
    engine.settle();
    engine.set_hierarchy("group", workload.hierarchy());
    check(&engine, queries, &work.messages[..work.messages.len().min(CHECKED)]);
    let (mut scratch, mut random) = (Scratch::new(), SplitMix64::new(9));
    let (mut changes, mut after_changes, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    line("tamis", work, report, |message, matched| {
        found.clear();
        engine.match_into(message, &mut scratch, &mut found).expect("in memory");
        matched.extend(found.iter().map(|id| id.0 as usize));
    });
    line_with("tamis, groupings changing", work, report, |message, matched| {
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
    check(&engine, queries, &work.messages[..work.messages.len().min(CHECKED)]);
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
    given: TableWork<'_>,
    report: &mut BenchReport,
    mut work: impl FnMut(&Message<'_>, &mut Vec<usize>),
) {
    line_with(name, given, report, |message, found| micros(timed_cpu(|| work(message, found)).1));
}

/// The same for work that times itself.
fn line_with(
    name: &str,
    given: TableWork<'_>,
    report: &mut BenchReport,
    mut work: impl FnMut(&Message<'_>, &mut Vec<usize>) -> f64,
) {
    let TableWork { deleted_percent, messages, expensive } = given;
    let (calls, mut asked, mut matches, mut found) = (expensive.calls(), 0, 0, Vec::new());
    let one = |properties| {
        found.clear();
        let before = expensive.calls();
        let took = work(&Message::new("", properties, Body::Absent), &mut found);
        asked += usize::from(expensive.calls() > before);
        matches += black_box(&found).len();
        took
    };
    let times = CpuTimes::new(messages.iter().map(one).collect());
    report.line(json!({
        "matcher": name, "deleted_percent": deleted_percent, "messages": messages.len(),
        "matches_per_message": matches as f64 / messages.len() as f64,
        "expensive_calls_per_message": (expensive.calls() - calls) as f64 / messages.len() as f64,
        "asked_percent": 100.0 * asked as f64 / messages.len() as f64, "mean_cpu_us": times.mean(),
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

/// Time one of the paper's algorithms, with groupings that change.
fn paper<M: BooleanMatcher>(
    workload: &mut WorkloadB,
    neutral: &Workload,
    queries: &[Arc<Query>],
    work: TableWork<'_>,
    report: &mut BenchReport,
) {
    let mut matcher = M::build(&neutral.filters, &neutral.schema);
    matcher.prepare(&neutral.messages);
    let last = workload.expensive_of_filters(work.expensive);
    let group = neutral.schema.columns.iter().position(|column| column.name == "group").expect("workload B has it");
    let mut groups = groups_of_leaves(workload, neutral);
    let (mut scratch, mut given) = (M::Scratch::default(), neutral.messages[..work.messages.len()].to_vec());
    let mut match_into = |groups: &[i64], number: usize, message: &Message<'_>, found: &mut Vec<u32>| {
        let leaf = neutral.messages[number].values[group];
        given[number].values[group] = if leaf == ABSENT { ABSENT } else { groups[leaf as usize] };
        matcher.match_into(&given[number], &mut scratch, found);
        found.retain(|filter| match &last[*filter as usize] {
            Some(expr) => expr.evaluate(message, None) == Some(true),
            None => true,
        });
    };
    let hierarchies: Hierarchies = [("group".to_owned(), workload.hierarchy())].into_iter().collect();
    for (number, properties) in work.messages.iter().enumerate().take(CHECKED) {
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        let message = || Message::new("", properties, Body::Absent);
        match_into(&groups, number, &message(), &mut found);
        found.sort_unstable();
        brute_force(queries, &message(), &hierarchies, &mut expected);
        assert!(found.iter().map(|filter| *filter as usize).eq(expected), "{} and brute force differ", M::NAME);
    }
    let (mut random, mut number, mut found) = (SplitMix64::new(9), 0, Vec::new());
    line_with(M::NAME, work, report, |message, matched| {
        if number % MESSAGES_PER_CHANGE == 0 {
            workload.change_hierarchy(&mut random);
            groups = groups_of_leaves(workload, neutral);
        }
        found.clear();
        let ((), took) = timed_cpu(|| match_into(&groups, number, message, &mut found));
        matched.extend(found.iter().map(|filter| *filter as usize));
        number += 1;
        micros(took)
    });
}

/// By the number of a text: that of the group in which this leaf is now.
fn groups_of_leaves(workload: &WorkloadB, neutral: &Workload) -> Vec<i64> {
    let texts = &neutral.schema.texts;
    let place = |text: &str| texts.iter().position(|known| known == text);
    let mut groups = vec![ABSENT; texts.len()];
    for (leaf, group) in workload.leaves() {
        if let (Some(leaf), Some(group)) = (place(&leaf), place(group)) {
            groups[leaf] = group as i64;
        }
    }
    groups
}

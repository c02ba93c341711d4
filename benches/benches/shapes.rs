//! Compares the engine with simple matchers, and with those specialised in one shape; the worst result comes first.
//!
//! `cargo bench -p tamis-benches --bench shapes [-- --count 100000 --seed 1 --only rectangles --json PATH]`; with
//! `TAMIS_SHAPES=full`, 500,000 queries. All times are CPU times of the one thread.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{micros, thread_cpu};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_benches::shapes::Shape;
use tamis_benches::shapes::baselines::{Baseline, BruteForce, FlatColumns, OnePredicate};
use tamis_benches::shapes::made::shapes;
use tamis_benches::shapes::special::special;
use tamis_core::index::{Engine, Scratch};
use tamis_core::message::{Body, Message, Properties};
use tamis_core::query::Query;

/// Each way is timed for so long at most.
const BUDGET: Duration = Duration::from_millis(200);
const COLUMNS: [ReportColumn; 10] = [
    column("shape", "shape", 0),
    column("ratio", "ratio to the best", 2),
    column("special_ratio", "ratio to the special thing", 2),
    column("engine_us", "engine", 2),
    column("brute_us", "brute force", 1),
    column("access_us", "one access predicate", 1),
    column("flat_us", "flat columns", 1),
    column("special_us", "the special thing", 2),
    column("matches", "matches", 1),
    column("queries", "queries", 0),
];

fn main() {
    let arguments = Arguments::from_env(&["count", "seed", "only", "json"]);
    let is_full = std::env::var("TAMIS_SHAPES").is_ok_and(|size| size == "full");
    let count = arguments.number("count", if is_full { 500_000 } else { 100_000 });
    let seed = arguments.number("seed", 1);
    let mut report = BenchReport::new("shapes", &arguments);
    let mut lines: Vec<Json> =
        shapes(count, seed as u64, arguments.text("only")).map(|shape| measure(&shape)).collect();
    let ratio = |line: &Json| {
        let of = |name: &str| line[name].as_f64().unwrap_or_default();
        of("ratio").max(of("special_ratio"))
    };
    lines.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let title = format!(
        "queries of many shapes (seed {seed}): µs per message, and how often the best simple way's and the special thing's; worst first"
    );
    report.table("shapes", &title, &COLUMNS);
    lines.into_iter().for_each(|line| report.line(line));
    report.finish();
}

fn measure(shape: &Shape) -> Json {
    let engine = engine_of(&shape.queries);
    let mut brute = BruteForce::new(&shape.queries);
    let (mut access, mut flat) = (OnePredicate::new(&shape.queries), FlatColumns::new(&shape.queries));
    let mut special = special(shape.name, &shape.queries);
    let others = [
        Some(as_baseline(&mut brute)),
        access.as_mut().map(as_baseline),
        flat.as_mut().map(as_baseline),
        special.as_mut().map(as_baseline_of),
    ];
    check(shape, &engine, others);
    let matches = mean_matches(shape, &engine);
    let (mut scratch, mut found) = (Scratch::new(), Vec::new());
    let engine_us = mean_micros(shape, |properties| {
        found.clear();
        engine.match_into(&message(properties), &mut scratch, &mut found).expect("in memory");
        black_box(&found);
    });
    let brute_us = baseline_micros(shape, &mut brute);
    let access_us = access.as_mut().map(|access| baseline_micros(shape, access));
    let flat_us = flat.as_mut().map(|flat| baseline_micros(shape, flat));
    let special_us = special.as_mut().map(|special| baseline_micros(shape, as_baseline_of(special)));
    let best = [Some(brute_us), access_us, flat_us].into_iter().flatten().fold(f64::INFINITY, f64::min);
    json!({
        "shape": shape.name, "ratio": engine_us / best, "special_us": special_us,
        "special_ratio": special_us.map(|special_us| engine_us / special_us), "engine_us": engine_us, "brute_us": brute_us,
        "access_us": access_us, "flat_us": flat_us, "matches": matches, "queries": shape.queries.len(),
    })
}

fn as_baseline<B: Baseline>(baseline: &mut B) -> &mut dyn Baseline {
    baseline
}

fn as_baseline_of(special: &mut Box<dyn Baseline>) -> &mut dyn Baseline {
    &mut **special
}

fn message(properties: &Properties) -> Message<'_> {
    Message::new("", properties, Body::Absent)
}

fn engine_of(queries: &[Arc<Query>]) -> Engine {
    let engine = Engine::new();
    engine.change(queries.to_vec(), &[]).expect("in memory");
    engine.settle();
    engine
}

/// The mean number of matches of all messages.
fn mean_matches(shape: &Shape, engine: &Engine) -> f64 {
    let (mut scratch, mut found) = (Scratch::new(), Vec::new());
    for properties in &shape.messages {
        engine.match_into(&message(properties), &mut scratch, &mut found).expect("in memory");
    }
    found.len() as f64 / shape.messages.len() as f64
}

/// Compare the answers to some of the messages with evaluating each query.
fn check(shape: &Shape, engine: &Engine, others: [Option<&mut dyn Baseline>; 4]) {
    const CHECKED: usize = 10;
    let mut answers = Vec::new();
    for properties in &shape.messages[..CHECKED] {
        let mut found = Vec::new();
        engine.match_into(&message(properties), &mut Scratch::new(), &mut found).expect("in memory");
        let is_true = |query: &Arc<Query>| query.is_true(&message(properties), None);
        let expected: Vec<u32> =
            (0..).zip(&shape.queries).filter(|(_, query)| is_true(query)).map(|(id, _)| id).collect();
        assert!(found.iter().map(|id| id.0).eq(expected.iter().map(|id| u64::from(*id))), "{}: the engine", shape.name);
        answers.push(expected);
    }
    for other in others.into_iter().flatten() {
        for (properties, expected) in shape.messages.iter().zip(&answers) {
            let mut found = Vec::new();
            other.match_into(properties, &mut found);
            found.sort_unstable();
            assert_eq!(found, *expected, "{}: a baseline", shape.name);
        }
    }
}

fn baseline_micros(shape: &Shape, baseline: &mut dyn Baseline) -> f64 {
    let mut found = Vec::new();
    mean_micros(shape, |properties| {
        found.clear();
        baseline.match_into(properties, &mut found);
        black_box(&found);
    })
}

/// The mean CPU time of a message, over all of them as often as the budget allows, once at least after one to warm up. The
/// clock is read once per block, because reading it takes as long as matching few queries.
fn mean_micros(shape: &Shape, mut one: impl FnMut(&Properties)) -> f64 {
    one(&shape.messages[0]);
    let mut messages = shape.messages.iter().cycle();
    let (start, mut done, mut block) = (thread_cpu(), 0_usize, 1);
    loop {
        messages.by_ref().take(block).for_each(&mut one);
        done += block;
        let spent = thread_cpu() - start;
        if spent > BUDGET && (done >= shape.messages.len() || spent > 2 * BUDGET) {
            return micros(spent) / done as f64;
        }
        // At most a thirtieth of the budget, at the speed so far.
        block = (done / 32 * BUDGET.as_micros() as usize / spent.as_micros().max(1) as usize).clamp(1, 2 * block);
    }
}

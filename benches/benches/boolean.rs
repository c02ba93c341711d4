//! Compares tamis on Boolean filters with brute force and with every algorithm of the ITMO paper.
//!
//! The last table is the one that the paper prints.
//!
//! `cargo bench -p tamis-benches --bench boolean -- [DIR] [--counts 1000,10000] [--seconds 2] [--only tamis] [--json PATH]`
//! where `DIR` has `schema.json`, `filters.jsonl` and `messages.jsonl` of the neutral format (`boolean/workload.rs`).
//! Build seconds are CPU, from text for tamis and a-tree, from parsed trees for the others; bytes are what the
//! matcher holds, the text of the filters not among it (tamis keeps it in coded form, the others do not have it). Without `DIR` the work is that of workload B, as far as all
//! algorithms can do it. A folder is measured with 1,000 to 1,000,000 filters, as far as it has them.

use std::time::Duration;

use serde_json::{Value, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::boolean::BooleanMatcher;
use tamis_benches::boolean::a_tree::ATree;
use tamis_benches::boolean::access_predicate::AccessPredicate;
use tamis_benches::boolean::bdd::Bdd;
use tamis_benches::boolean::be_tree::BeTree;
use tamis_benches::boolean::brute_force::FilterBruteForce;
use tamis_benches::boolean::from_properties::FromProperties;
use tamis_benches::boolean::grouped::{Grouped, GroupedInThreads};
use tamis_benches::boolean::k_index::KIndex;
use tamis_benches::boolean::measure::MatchWork;
use tamis_benches::boolean::tamis::FilterTamis;
use tamis_benches::boolean::workload::Workload;
use tamis_benches::report::{BenchReport, ReportColumn, column};

/// No number of filters is too many for a matcher of this limit.
const EVERY: usize = usize::MAX;

const COSTS: [ReportColumn; 11] = [
    column("matcher", "matcher", 0),
    column("build_s", "build s", 2),
    column("bytes_per_filter", "bytes", 0),
    column("matches_per_message", "matches", 1),
    column("messages", "messages", 0),
    column("block_cpu_us", "cpu in blocks", 2),
    column("p50_wall_us", "wall p50", 2),
    column("p50_cpu_us", "cpu p50", 2),
    column("p80_cpu_us", "cpu p80", 2),
    column("p90_cpu_us", "cpu p90", 2),
    column("p99_cpu_us", "cpu p99", 2),
];

/// How many filters the ITMO paper's table is about.
const PAPER_FILTERS: usize = 500_000;

/// The ITMO paper, table 1.
const PAPER: [(&str, [u32; 4]); 4] = [
    ("paper: k-index", [2356, 3578, 4295, 4493]),
    ("paper: BE-tree", [1866, 2876, 3293, 3429]),
    ("paper: BDD", [2065, 3220, 3822, 3974]),
    ("paper: new (grouped)", [1083, 1716, 2039, 2111]),
];

fn main() {
    let arguments = Arguments::from_env(&["counts", "seconds", "only", "json"]);
    let counts = Workload::counts(&arguments, &[1_000, 10_000]);
    let most = counts.iter().copied().max().unwrap_or(0);
    let workload = Workload::from_arguments(&arguments, most);
    let mut report = BenchReport::new("boolean", &arguments);
    for count in counts {
        if count > workload.filters.len() {
            report.note(&format!("\n{count} filters: skipped, the workload has {}", workload.filters.len()));
            continue;
        }
        let budget = Duration::from_secs(arguments.number("seconds", 2) as u64);
        let work = MatchWork::new(&workload.filters[..count], &workload.schema, &workload.messages, budget);
        measure_all(&work, arguments.text("only"), &mut report);
    }
    report.finish();
}

fn measure_all(work: &MatchWork<'_>, only: Option<&str>, report: &mut BenchReport) {
    let count = work.filters.len();
    report.table("costs", &format!("{count} filters, one thread, microseconds per message"), &COSTS);
    let mut measured = Vec::new();
    run::<FilterTamis>(EVERY, work, only, report, &mut measured);
    run::<FromProperties>(EVERY, work, only, report, &mut measured);
    run::<AccessPredicate>(EVERY, work, only, report, &mut measured);
    run::<KIndex>(EVERY, work, only, report, &mut measured);
    run::<BeTree>(EVERY, work, only, report, &mut measured);
    run::<Bdd>(EVERY, work, only, report, &mut measured);
    run::<Grouped>(EVERY, work, only, report, &mut measured);
    run::<GroupedInThreads>(EVERY, work, only, report, &mut measured);
    run::<ATree>(10_000, work, only, report, &mut measured);
    run::<FilterBruteForce>(EVERY, work, only, report, &mut measured);
    paper_table(&measured, count, report);
}

fn run<M: BooleanMatcher>(
    most: usize,
    work: &MatchWork<'_>,
    only: Option<&str>,
    report: &mut BenchReport,
    measured: &mut Vec<Value>,
) {
    if only.is_some_and(|names| !names.split(',').any(|name| name == M::NAME)) {
        return;
    }
    if work.filters.len() > most {
        report.note(&format!("{:<28}skipped above {most} filters; --only '{}' runs it", M::NAME, M::NAME));
        return;
    }
    let line = work.measure::<M>();
    report.line(line.clone());
    measured.push(line);
}

/// The paper's columns: how long a message takes with one thread at work, and with one on every core.
fn paper_table(measured: &[Value], count: usize, report: &mut BenchReport) {
    let columns = ["50 %", "80 %", "90 %", "99 %"];
    let ways = [("one thread, CPU", "cpu_us"), ("all cores at work, wall", "all_cores_us")];
    for (title, unit) in ways {
        let keys = ["p50", "p80", "p90", "p99"];
        let shown: Vec<ReportColumn> = std::iter::once(column("matcher", "matcher", 0))
            .chain(keys.iter().zip(columns).map(|(key, title)| column(key, title, 1)))
            .collect();
        report.table("paper", &format!("as in the ITMO paper: {count} filters, {title}, microseconds"), &shown);
        for line in measured {
            let mut record = json!({"matcher": line["matcher"], "filters": count, "way": title});
            for key in keys {
                record[key] = line[format!("{key}_{unit}")].clone();
            }
            if !record["p50"].is_null() {
                report.line(record);
            }
        }
        for (name, times) in PAPER.iter().filter(|_| count == PAPER_FILTERS) {
            report.line(json!({
                "matcher": name, "filters": PAPER_FILTERS, "way": "16 cores, as printed",
                "p50": times[0], "p80": times[1], "p90": times[2], "p99": times[3],
            }));
        }
    }
}

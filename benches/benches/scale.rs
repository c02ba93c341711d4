//! Measures how the engine grows with filters and threads, and what writing and opening a snapshot costs.
//!
//! `cargo bench -p tamis-benches --bench scale [-- DIR --counts 1000,10000,100000,1000000 --json PATH]`

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_benches::allocated::bytes_of;
use tamis_benches::arguments::Arguments;
use tamis_benches::boolean::BooleanMatcher;
use tamis_benches::boolean::filter::FilterMessage as Neutral;
use tamis_benches::boolean::tamis::FilterTamis;
use tamis_benches::boolean::workload::Workload;
use tamis_benches::clock::{CpuTimes, median_by, micros, thread_cpu, timed, timed_cpu, timed_process_cpu};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message};

/// How long matching is timed for each number of filters, and for each number of threads.
const BUDGET: Duration = Duration::from_secs(1);
const RUNS: usize = 3;

fn main() {
    let arguments = Arguments::from_env(&["counts", "json"]);
    let mut counts = Workload::counts(&arguments, &[1_000, 10_000, 50_000]);
    counts.sort_unstable();
    let most = counts.last().copied().unwrap_or(0);
    let workload = Workload::from_arguments(&arguments, most);
    let mut report = BenchReport::new("scale", &arguments);
    let engine = growth(&workload, &counts, &mut report);
    threads(&engine, &workload.messages, &mut report);
    snapshot(&engine, &workload.messages, &mut report);
    report.finish();
}

/// Returns the largest engine.
fn growth(workload: &Workload, counts: &[usize], report: &mut BenchReport) -> Engine {
    const COLUMNS: [ReportColumn; 6] = [
        column("filters", "filters", 0),
        column("build_s", "build s", 2),
        column("bytes_per_filter", "bytes", 0),
        column("mean_cpu_us", "mean", 2),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
    ];
    report.table("growth", "cost by number of filters, one thread, CPU microseconds", &COLUMNS);
    let (mut points, mut largest) = (Vec::new(), None);
    let mut counts: Vec<usize> = counts.iter().map(|count| *count.min(&workload.filters.len())).collect();
    counts.dedup();
    for count in counts {
        let filters = &workload.filters[..count];
        let ((matcher, build), bytes) =
            bytes_of(|| timed_process_cpu(|| FilterTamis::build(filters, &workload.schema)));
        let bytes = bytes - matcher.text_bytes();
        let engine = matcher.into_engine();
        let runs = (0..RUNS).map(|_| match_times(&engine, &workload.messages)).collect();
        let times = median_by(runs, CpuTimes::mean);
        report.line(json!({
            "filters": count, "build_s": build.as_secs_f64(), "bytes_per_filter": bytes as f64 / count as f64,
            "mean_cpu_us": times.mean(), "p50_cpu_us": times.percentile(50), "p99_cpu_us": times.percentile(99),
        }));
        points.push(((count as f64).ln(), times.mean().ln()));
        largest = Some(engine);
    }
    let exponent = slope(&points);
    report.note(&format!("the mean grows as N^{exponent:.2}"));
    report.record("exponent", json!({"exponent": exponent}));
    largest.unwrap_or_default()
}

fn match_times(engine: &Engine, messages: &[Neutral]) -> CpuTimes {
    let (mut scratch, mut found, mut times) = (Scratch::new(), Vec::new(), Vec::new());
    let end = thread_cpu() + BUDGET;
    for message in messages {
        found.clear();
        let message = Message::new("", &message.properties, Body::Absent);
        let matched = timed_cpu(|| engine.match_into(&message, &mut scratch, &mut found));
        matched.0.expect("in memory");
        black_box(&found);
        times.push(micros(matched.1));
        if thread_cpu() > end {
            break;
        }
    }
    CpuTimes::new(times)
}

/// Of the straight line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let above: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    above / points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

fn threads(engine: &Engine, messages: &[Neutral], report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 3] = [
        column("threads", "threads", 0),
        column("messages_per_second", "messages/s", 0),
        column("efficiency", "share of n times one", 2),
    ];
    report.table("threads", &format!("threads that match concurrently, {} filters", engine.len()), &COLUMNS);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut one = 0.0;
    for count in 1..=cores {
        let rate = median_by((0..RUNS).map(|_| throughput(engine, messages, count)).collect(), |rate| *rate);
        one = if count == 1 { rate } else { one };
        let efficiency = rate / (one * count as f64);
        report.line(json!({"threads": count, "messages_per_second": rate, "efficiency": efficiency}));
    }
}

/// Messages a second of `threads` threads together.
fn throughput(engine: &Engine, messages: &[Neutral], threads: usize) -> f64 {
    let end = Instant::now() + BUDGET;
    let work = || {
        let (mut scratch, mut found, mut count) = (Scratch::new(), Vec::new(), 0_usize);
        while Instant::now() < end {
            found.clear();
            let message = Message::new("", &messages[count % messages.len()].properties, Body::Absent);
            engine.match_into(&message, &mut scratch, &mut found).expect("in memory");
            black_box(&found);
            count += 1;
        }
        count
    };
    let total: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("matching does not panic")).sum()
    });
    total as f64 / BUDGET.as_secs_f64()
}

fn snapshot(engine: &Engine, messages: &[Neutral], report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("filters", "filters", 0),
        column("file_bytes_per_filter", "file bytes", 0),
        column("save_s", "save s", 2),
        column("open_ms", "open ms", 3),
        column("first_match_us", "first match µs", 1),
        column("p50_cpu_us", "p50 after", 2),
    ];
    report.table("snapshot", "a snapshot, opened while the file is in the page cache", &COLUMNS);
    let path = std::env::temp_dir().join(format!("tamis-bench-{}.snapshot", std::process::id()));
    let ((), save) = timed(|| {
        engine.save(&path, false, &|id: SubscriptionId| id.0.to_le_bytes().to_vec()).expect("room for the snapshot")
    });
    let file_bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
    let open_ms = median_by((0..RUNS).map(|_| open_millis(&path)).collect(), |millis| *millis);
    let opened = Engine::open(&path, false, &|_, _| None).expect("just written");
    let first = first_match(&opened, &messages[0]);
    let times = match_times(&opened, messages);
    report.line(json!({
        "filters": engine.len(), "file_bytes_per_filter": file_bytes as f64 / engine.len() as f64,
        "save_s": save.as_secs_f64(), "open_ms": open_ms, "first_match_us": first, "p50_cpu_us": times.percentile(50),
    }));
    drop(opened);
    std::fs::remove_file(&path).expect("it is ours");
}

fn open_millis(path: &Path) -> f64 {
    let (engine, took) = timed(|| Engine::open(path, false, &|_, _| None).expect("just written"));
    drop(engine);
    micros(took) / 1e3
}

fn first_match(engine: &Engine, message: &Neutral) -> f64 {
    let (mut scratch, mut found) = (Scratch::new(), Vec::new());
    let message = Message::new("", &message.properties, Body::Absent);
    let (matched, took) = timed(|| engine.match_into(&message, &mut scratch, &mut found));
    matched.expect("just written");
    micros(took)
}

//! Measures the journal on this machine's disk: a sync, group commit, the broker's share, and recovery.
//!
//! `cargo bench -p tamis-benches --bench journal [-- --place DIR --megabytes 500 --body 1024 --records 1000000 --json PATH]`
//! DIR is where the files go, the folder for temporary files otherwise; they are removed. What depends on the disk is wall
//! time, and another machine's disk is another benchmark; what depends on the processor is CPU time. Recovery of ten
//! gigabytes is measured on `--megabytes` and multiplied, the last segment with the others.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{CpuTimes, micros, timed, timed_cpu, timed_process_cpu};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::broker::durable::{Content, DefinitionId, Durable, DurableOptions, RecordId, TimeToLive};
use tamis_core::journal::{Committer, Disk, Log, LogOptions, RealDisk, inspect};

const SYNCS: usize = 1_000;
const BODY_BYTES: usize = 256;
/// How many times five milliseconds the disk is given.
const CATCHING_UP_MAX: usize = 400;
/// The time from start to the first delivery of a large journal.
const RECOVERED_BYTES: f64 = 10e9;

fn main() {
    let arguments = Arguments::from_env(&["place", "megabytes", "body", "records", "json"]);
    let parent = arguments.path("place").unwrap_or_else(std::env::temp_dir);
    let place = LogDirectory(parent.join(format!("tamis-bench-{}", std::process::id())));
    std::fs::create_dir_all(&place.0).expect("a folder to write in");
    let records = arguments.number("records", 1_000_000);
    let mut report = BenchReport::new("journal", &arguments);
    syncs(&place.0, &mut report);
    commits(&place.0, records, &mut report);
    durable(&place.0, records / 2, &mut report);
    recovery(&place.0, arguments.number("megabytes", 500), arguments.number("body", 1024), &mut report);
    report.finish();
}

/// The folder of this run, which is removed however the run ends.
struct LogDirectory(PathBuf);

impl Drop for LogDirectory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

/// The disk alone: write 4 KiB further on each time, and sync.
fn syncs(place: &Path, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 4] = [
        column("file", "file", 0),
        column("p50_us", "p50", 1),
        column("p99_us", "p99", 1),
        column("syncs", "syncs", 0),
    ];
    report.table("syncs", "appending 4 KiB and fdatasync, wall microseconds", &COLUMNS);
    let path = place.join("syncs");
    let disk = disk();
    drop(disk.create(&path, (SYNCS * 4096) as u64).expect("room"));
    let file = OpenOptions::new().write(true).open(&path).expect("there");
    for name in ["allocated", "used again"] {
        let times = CpuTimes::new((0..SYNCS).map(|number| sync_once(&file, number)).collect());
        let (p50, p99) = (times.percentile(50), times.percentile(99));
        report.line(json!({"file": name, "p50_us": p50, "p99_us": p99, "syncs": SYNCS}));
    }
    let body = [7_u8; BODY_BYTES];
    let (_, cpu) = timed_cpu(|| {
        for _ in 0..100_000 {
            black_box(crc32c_of(black_box(&body)));
        }
    });
    report.note(&format!("CRC32C of {BODY_BYTES} bytes: {:.1} ns", micros(cpu) / 100.0));
}

fn crc32c_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

fn sync_once(file: &File, number: usize) -> f64 {
    let block = [number as u8 | 1; 4096];
    let (_, wall) = timed(|| {
        file.write_all_at(&block, (number * 4096) as u64).expect("written");
        file.sync_data().expect("synced");
    });
    micros(wall)
}

/// Group commit of bodies of 256 bytes.
fn commits(place: &Path, records: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("commit", "records per commit", 0),
        column("records_per_s", "records/s", 0),
        column("commits_per_s", "commits/s", 0),
        column("append_ns", "append, CPU ns", 0),
        column("commit_ns", "committing, CPU ns", 0),
        column("records", "records", 0),
    ];
    report.table("commits", "group commit of records of 256 bytes; CPU time per record", &COLUMNS);
    for size in [1, 16, 256, 4096] {
        report.line(one_by_one(&place.join(format!("commit-{size}")), size, records.min(size * 2_000)));
    }
    report.line(threaded(&place.join("commit-thread"), records));
}

/// Append `size` records, commit them, and so on, in one thread.
fn one_by_one(dir: &Path, size: usize, records: usize) -> serde_json::Value {
    let committer = Committer::manual(|| {});
    let (log, _) = Log::open(disk(), dir, LogOptions::default(), &committer).expect("a log");
    let body = [7_u8; BODY_BYTES];
    let (mut appending, mut committing) = (0.0, 0.0);
    let started = Instant::now();
    for _ in 0..records / size {
        let (_, cpu) = timed_cpu(|| {
            for _ in 0..size {
                log.append(1, 0, &[], &[&body]).expect("appended");
            }
        });
        appending += cpu.as_secs_f64();
        let (_, cpu) = timed_cpu(|| committer.commit_once());
        committing += cpu.as_secs_f64();
    }
    let wall = started.elapsed().as_secs_f64();
    let done = (records / size * size) as f64;
    json!({
        "commit": size.to_string(), "records_per_s": done / wall, "commits_per_s": done / size as f64 / wall,
        "append_ns": appending * 1e9 / done, "commit_ns": committing * 1e9 / done, "records": done,
    })
}

/// Append without a pause while the thread commits what there is.
fn threaded(dir: &Path, records: usize) -> serde_json::Value {
    let committer = Committer::start(|| {}).expect("a thread");
    let (log, _) = Log::open(disk(), dir, LogOptions::default(), &committer).expect("a log");
    let body = [7_u8; BODY_BYTES];
    let started = Instant::now();
    let (appending, all) = timed_process_cpu(|| {
        let (_, cpu) = timed_cpu(|| {
            for _ in 0..records {
                while log.append(1, 0, &[], &[&body]).is_err() {
                    std::thread::yield_now(); // what may wait in memory is bounded
                }
            }
        });
        drop(committer);
        cpu
    });
    let wall = started.elapsed().as_secs_f64();
    let done = records as f64;
    json!({
        "commit": "as they come", "records_per_s": done / wall, "commits_per_s": null,
        "append_ns": appending.as_secs_f64() * 1e9 / done,
        "commit_ns": (all - appending).as_secs_f64() * 1e9 / done, "records": done,
    })
}

/// The cost of a persistent message for the broker's thread, from publish to settled, without the disk's time.
fn durable(place: &Path, messages: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 5] = [
        column("held", "messages held", 0),
        column("message_ns", "stored and settled, CPU ns", 0),
        column("compact_ns", "compaction, CPU ns", 0),
        column("live_megabytes", "live, MB", 0),
        column("file_megabytes", "journal, MB", 0),
    ];
    report.table("durable", "a persistent message of 256 bytes, on the broker's thread; segments of 4 MiB", &COLUMNS);
    let options = DurableOptions { segment_bytes: 4 << 20, ..DurableOptions::default() };
    // The last of them: one message in sixteen stays, so that every segment has to be copied before it can go.
    for (name, held, staying) in
        [("100", 100, false), ("a quarter", messages / 4, false), ("one in 16 stays", 100, true)]
    {
        let dir = place.join("durable");
        let committer = Committer::start(|| {}).expect("a thread");
        let (mut durable, _) = Durable::open(disk(), &dir, options, &committer).expect("a journal");
        let queue = durable.define(b"queue", b"", &[], None, 0).expect("defined").0;
        let mut live = std::collections::VecDeque::new();
        let (mut working, mut compacting) = (0.0, 0.0);
        for _ in 0..messages / 64 {
            let (_, cpu) = timed_cpu(|| publish_and_settle(&mut durable, queue, &mut live, held, staying));
            working += cpu.as_secs_f64();
            let (_, cpu) = timed_cpu(|| durable.compact(2 * 64 * 320, || false));
            compacting += cpu.as_secs_f64();
        }
        // Live and stored bytes are compared when the disk has caught up.
        for _ in 0..CATCHING_UP_MAX {
            durable.compact(1 << 20, || false);
            std::thread::sleep(Duration::from_millis(5));
        }
        let done = (messages / 64 * 64) as f64;
        report.line(json!({
            "held": name, "message_ns": working * 1e9 / done, "compact_ns": compacting * 1e9 / done,
            "live_megabytes": durable.size_bytes().0 as f64 / 1e6,
            "file_megabytes": durable.size_bytes().1 as f64 / 1e6,
        }));
        drop(committer);
        drop(std::fs::remove_dir_all(&dir));
    }
}

fn publish_and_settle(
    durable: &mut Durable,
    queue: DefinitionId,
    live: &mut std::collections::VecDeque<RecordId>,
    held: usize,
    staying: bool,
) {
    let content = Content { route: b"\0\x05queue", properties: &[0x10, 0, 2], body: &[7; BODY_BYTES], shared: None };
    for number in 0..64 {
        let saved = loop {
            match durable.message(content, &[queue], 0, TimeToLive::FOREVER) {
                Ok(saved) => break saved,
                Err(_) => std::thread::yield_now(),
            }
        };
        if staying && number % 16 == 0 {
            continue;
        }
        live.push_back(saved.record);
        if live.len() > held
            && let Some(oldest) = live.pop_front()
        {
            durable.settled(oldest, queue);
        }
    }
    while durable.flush(0).is_err() {
        std::thread::yield_now();
    }
}

/// Open a journal full of messages that nobody has settled.
fn recovery(place: &Path, megabytes: usize, body: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("what", "what", 0),
        column("records", "records", 0),
        column("seconds", "wall, s", 2),
        column("cpu_seconds", "CPU, s", 2),
        column("cpu_ns", "CPU ns per record", 0),
        column("seconds_10gb", "10 GB, CPU s", 2),
    ];
    let title = format!("opening a journal of {megabytes} MB with bodies of {body} bytes, warm");
    report.table("recovery", &title, &COLUMNS);
    let dir = place.join("recovery");
    let messages = megabytes * 1_000_000 / (body + 64);
    fill(&dir, messages, body);
    let committer = Committer::manual(|| {});
    let options = LogOptions { index_heads: true, ..LogOptions::default() };
    let opened = measure(|| Log::open(disk(), &dir, options, &committer).expect("a log"));
    let bytes = opened.0.0.size_bytes() as f64;
    let mut line = |what: &str, (seconds, cpu): (f64, f64)| {
        report.line(json!({
            "what": what, "records": messages, "seconds": seconds, "cpu_seconds": cpu,
            "cpu_ns": cpu * 1e9 / messages as f64, "seconds_10gb": cpu * RECOVERED_BYTES / bytes,
        }));
    };
    line("the log", opened.1);
    drop(opened.0);
    let opened = measure(|| Durable::open(disk(), &dir, DurableOptions::default(), &committer).expect("a journal"));
    assert_eq!(opened.0.1.messages.len(), messages, "all of them are there");
    line("messages and queues", opened.1);
    drop(opened.0);
    let inspected = measure(|| inspect(&disk(), &dir).expect("a log"));
    assert!(inspected.0.damage.is_empty());
    line("every record checked", inspected.1);
    report.note("The first two lines read the records of the last segment only, and the indexes of the others.");
}

/// The result of `work`, and its seconds: on the wall, and of this thread's CPU time.
fn measure<T>(work: impl FnOnce() -> T) -> (T, (f64, f64)) {
    let ((result, cpu), wall) = timed(|| timed_cpu(work));
    (result, (wall.as_secs_f64(), cpu.as_secs_f64()))
}

fn fill(dir: &Path, messages: usize, body: usize) {
    let committer = Committer::start(|| {}).expect("a thread");
    let (mut durable, _) = Durable::open(disk(), dir, DurableOptions::default(), &committer).expect("a journal");
    let queue = durable.define(b"queue", b"", &[], None, 0).expect("defined").0;
    let body = vec![7; body];
    let content = Content { route: b"\0\x05queue", properties: &[0x10, 0, 2], body: &body, shared: None };
    for _ in 0..messages {
        while durable.message(content, &[queue], 0, TimeToLive::FOREVER).is_err() {
            std::thread::yield_now();
        }
    }
    drop(committer);
}

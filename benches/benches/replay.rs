//! Measures replay from a stream on disk, all of it and by queries that few messages satisfy.
//!
//! Each of these queries is asked in a form that the summaries of the log serve, and in one that they do not serve.
//!
//! `cargo bench -p tamis-benches --bench replay [-- --messages 2000000 --place DIR --json PATH]`
//! Messages of 256 bytes with four headers. The log is in DIR, the folder for temporary files otherwise, and in the cache of
//! the system. Time as a clock shows it; the thread that calls the broker is all that works then.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, timed};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::amqp::method::{BasicAck, BasicConsume, BasicPublish, BasicQos, ChannelOpen, QueueDeclare};
use tamis_core::amqp::properties::put_content;
use tamis_core::amqp::{FieldValue, Method, PropertyFields, RawTable, Table};
use tamis_core::broker::durable::DurableOptions;
use tamis_core::broker::topology::StoredQuery;
use tamis_core::broker::{Access, Broker, BrokerOptions, ConnectionId, Control, Login, Storage};
use tamis_core::journal::{Committer, RealDisk};

const FRAME_MAX: usize = 128 * 1024;
const BODY_BYTES: usize = 256;
const RUNS: usize = 3;
/// Messages among which one satisfies a query.
const RARE: usize = 1_000_000;
const PREFETCH: u16 = 4_000;

/// What is asked, with a query that summaries serve, and one with the same answer that they do not serve.
const QUERIES: [(&str, &str, &str); 4] = [
    ("a rare value", "kind = 'rare'", "kind LIKE '%rare'"),
    ("one of many values", "id = 'order-0000777'", "id LIKE '%order-0000777'"),
    ("a rare number", "price > 999", "price + 0 > 999"),
    ("no such value", "kind = 'none'", "kind LIKE '%none'"),
];

fn main() {
    let arguments = Arguments::from_env(&["messages", "place", "json"]);
    let messages = arguments.number("messages", 2_000_000);
    let parent = arguments.path("place").unwrap_or_else(std::env::temp_dir);
    let place = parent.join(format!("tamis-bench-{}", std::process::id()));
    let mut report = BenchReport::new("replay", &arguments);
    replay(messages, &place, &mut report);
    report.finish();
    drop(std::fs::remove_dir_all(&place));
}

struct AllPermitted;

impl Control for AllPermitted {
    fn allowed(&mut self, _: &Access<'_>) -> bool {
        true
    }

    fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
        Err(format!("there is no query {key}"))
    }
}

/// A reader for whom nothing has happened for so long has reached the end: it waits less long for the disk.
const IDLE_MAX: Duration = Duration::from_millis(100);

struct StreamOnDisk {
    broker: Broker,
    publisher: ConnectionId,
    out: Vec<u8>,
    began: Instant,
}

impl StreamOnDisk {
    fn new(place: &Path) -> Self {
        let committer = Committer::start(|| {}).expect("a thread");
        let journal = DurableOptions::default();
        let storage = Storage { disk: Arc::new(RealDisk), dir: place.to_owned(), committer, journal };
        let opened = Broker::open(BrokerOptions::default(), Box::new(AllPermitted), storage, 0, 0);
        let mut broker = opened.expect("opened").0;
        let publisher = broker.connect(login(), 0);
        let mut world = Self { broker, publisher, out: Vec::new(), began: Instant::now() };
        world.send(publisher, ChannelOpen::default());
        let arguments: Table = [("x-queue-type", text("stream"))].into_iter().collect();
        let bytes = arguments.to_bytes();
        let arguments = RawTable::new(&bytes);
        world.send(publisher, QueueDeclare { queue: "log", durable: true, arguments, ..Default::default() });
        world.commit();
        world
    }

    /// The time of the broker's clock.
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn send<'m>(&mut self, connection: ConnectionId, method: impl Into<Method<'m>>) {
        let mut bytes = Vec::new();
        method.into().encode(1, &mut bytes);
        self.broker.receive(connection, &bytes, self.now());
    }

    /// The bytes that the broker has for a connection.
    fn take(&mut self, connection: ConnectionId) -> usize {
        self.out.clear();
        self.broker.output(connection, &mut self.out);
        self.out.len()
    }

    fn commit(&mut self) {
        std::thread::sleep(Duration::from_millis(1));
        self.broker.committed(self.now());
        while !self.broker.wants_input(self.publisher) || self.broker.has_work() {
            std::thread::sleep(Duration::from_micros(200));
            self.broker.committed(self.now());
            self.broker.work(self.now());
        }
    }

    fn publish(&mut self, messages: usize) {
        let mut bytes = Vec::new();
        for number in 0..messages {
            let is_rare = number % RARE == RARE / 2;
            let headers: Table = [
                ("kind", text(if is_rare { "rare" } else { ["new", "changed", "gone"][number % 3] })),
                ("id", text(&format!("order-{number:07}"))),
                ("price", FieldValue::I32(if is_rare { 1_000 } else { (number * 7_919 % 1_000) as i32 })),
                ("region", text(["EU", "UK", "US", "JP", "BR"][number % 5])),
            ]
            .into_iter()
            .collect();
            let headers = headers.to_bytes();
            let mut properties = Vec::new();
            PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() }.encode(&mut properties);
            BasicPublish { routing_key: "log", ..Default::default() }.encode(1, &mut bytes);
            put_content(&mut bytes, 1, &properties, &[7; BODY_BYTES], FRAME_MAX);
            if bytes.len() > 200_000 || number + 1 == messages {
                self.broker.receive(self.publisher, &bytes, self.now());
                while self.broker.has_work() {
                    self.broker.work(self.now());
                }
                bytes.clear();
                if !self.broker.wants_input(self.publisher) {
                    self.commit();
                }
            }
        }
    }

    /// Wait until all messages are on disk.
    fn sync(&mut self, messages: usize) {
        while (self.broker.metrics().enqueued as usize) < messages {
            self.commit();
        }
        std::thread::sleep(Duration::from_millis(300));
        self.broker.committed(self.now());
    }

    /// Read the stream from its beginning. Returns the seconds until all `expected` messages are acknowledged and the end
    /// is reached.
    fn read(&mut self, query: &str, expected: usize) -> f64 {
        let now = self.now();
        let reader = self.broker.connect(login(), now);
        self.send(reader, ChannelOpen::default());
        self.send(reader, BasicQos { prefetch_size: 0, prefetch_count: PREFETCH, global: false });
        let mut arguments = vec![("x-stream-offset", text("first"))];
        if !query.is_empty() {
            arguments.push(("x-query", text(query)));
        }
        let bytes = arguments.into_iter().collect::<Table>().to_bytes();
        let consume =
            BasicConsume { queue: "log", consumer_tag: "c", arguments: RawTable::new(&bytes), ..Default::default() };
        self.take(reader);
        let before = self.broker.metrics().delivered;
        let began = Instant::now();
        self.send(reader, consume);
        let (mut delivered, mut worked) = (0, began);
        while worked.elapsed() < IDLE_MAX {
            self.broker.committed(self.now()); // which tells the time, too
            let has_work = self.broker.has_work();
            while self.broker.has_work() {
                self.broker.work(self.now());
            }
            while self.take(reader) > 0 {}
            let now = (self.broker.metrics().delivered - before) as usize;
            if now > delivered {
                delivered = now;
                self.send(reader, BasicAck { delivery_tag: delivered as u64, multiple: true });
            } else if !has_work {
                std::thread::sleep(Duration::from_micros(100)); // the disk is read in another thread
                continue;
            }
            worked = Instant::now();
        }
        let seconds = (worked - began).as_secs_f64();
        assert_eq!(delivered, expected, "{query}");
        self.broker.disconnect(reader, self.now());
        seconds
    }
}

fn replay(messages: usize, place: &Path, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 4] = [
        column("query", "query", 0),
        column("found", "messages found", 0),
        column("reads_all_s", "reading all, s", 3),
        column("skips_s", "with summaries, s", 3),
    ];
    let mut world = StreamOnDisk::new(place);
    let (_, published) = timed(|| {
        world.publish(messages);
        world.sync(messages);
    });
    let (_, summarized) = timed(|| await_summaries(place));
    world.commit();
    let title = format!(
        "{messages} messages of {BODY_BYTES} bytes, medians of {RUNS} runs (published in {:.1} s, summarized {:.1} s later)",
        published.as_secs_f64(),
        summarized.as_secs_f64()
    );
    report.table("replay", &title, &COLUMNS);
    let mut median = |query: &str, found| median_by((0..RUNS).map(|_| world.read(query, found)).collect(), |s| *s);
    report.line(json!({"messages": messages, "query": "none", "found": messages, "reads_all_s": median("", messages), "skips_s": null}));
    let rare = (messages + RARE / 2 - 1) / RARE;
    for (name, served, unserved) in QUERIES {
        let found = match name {
            "one of many values" => 1,
            "no such value" => 0,
            _ => rare,
        };
        report.line(json!({
            "messages": messages,
            "query": name,
            "found": found,
            "reads_all_s": median(unserved, found),
            "skips_s": median(served, found),
        }));
    }
}

/// The time to wait for summaries. A reader has those made that it lacks.
const SUMMARIES_S_MAX: u64 = 20;

/// Wait until every sealed segment has its summaries, as far as they come by themselves.
fn await_summaries(place: &Path) {
    let count = |extension: &str| {
        let folders = std::fs::read_dir(place.join("streams")).expect("a folder").flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).expect("a folder").flatten());
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(extension) && !name.starts_with("spare")).count()
    };
    let began = Instant::now();
    while count(".summary") + 1 < count(".segment") && began.elapsed().as_secs() < SUMMARIES_S_MAX {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300)); // the last of them may be on its way
}

fn login() -> Login {
    Login { user: "bench".to_owned(), vhost: "/".to_owned(), ..Login::default() }
}

fn text(text: &str) -> FieldValue {
    FieldValue::Text(text.as_bytes().into())
}

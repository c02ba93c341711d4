//! Measures the broker's data plane per message, from the bytes of a publish to the bytes of its delivery.
//!
//! `cargo bench -p tamis-benches --bench data_plane [-- --messages 200000 --place DIR --json PATH]`
//! CPU time of the thread that calls the broker; sockets and the shell around it are not in it (`benchmarks/broker.py` has
//! all of it). Reads are of 256 KiB at the most and cut wherever that falls. Durable messages have their journal in DIR,
//! the folder for temporary files otherwise; the time of its thread and of the disk is not counted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, micros, timed_cpu};
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::amqp::method::{
    BasicAck, BasicConsume, BasicPublish, BasicQos, ChannelOpen, ConfirmSelect, ExchangeDeclare, QueueBind,
    QueueDeclare,
};
use tamis_core::amqp::properties::put_content;
use tamis_core::amqp::{FieldValue, Method, PropertyFields, RawTable, Table};
use tamis_core::broker::durable::DurableOptions;
use tamis_core::broker::topology::StoredQuery;
use tamis_core::broker::{Access, Broker, BrokerOptions, ConnectionId, Control, Login, Storage};
use tamis_core::journal::{Committer, RealDisk};

const READ_BYTES: usize = 256 * 1024;
const FRAME_MAX: usize = 128 * 1024;
const RUNS: usize = 3;
/// Messages that a consumer acknowledges together.
const ACKNOWLEDGED: u64 = 100;

fn main() {
    let arguments = Arguments::from_env(&["messages", "place", "json"]);
    let messages = arguments.number("messages", 200_000);
    let parent = arguments.path("place").unwrap_or_else(std::env::temp_dir);
    let place = parent.join(format!("tamis-bench-{}", std::process::id()));
    let mut report = BenchReport::new("data_plane", &arguments);
    one_to_one(messages, &place, &mut report);
    fan_out(&mut report);
    standing_queries(&place, &mut report);
    report.finish();
    drop(std::fs::remove_dir_all(&place));
}

struct Everything;

impl Control for Everything {
    fn allowed(&mut self, _: &Access<'_>) -> bool {
        true
    }

    fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
        Err(format!("there is no query {key}"))
    }
}

/// A broker, a publisher and consumers, and room for what they read.
struct BrokerUnderLoad {
    broker: Broker,
    publisher: ConnectionId,
    consumers: Vec<ConnectionId>,
    out: Vec<u8>,
    delivered: u64,
}

impl BrokerUnderLoad {
    fn new(mut broker: Broker, consumers: usize) -> Self {
        let mut connect = || {
            let login = Login { user: "bench".to_owned(), vhost: "/".to_owned(), ..Login::default() };
            broker.connect(login, 0)
        };
        let publisher = connect();
        let consumers: Vec<ConnectionId> = (0..consumers).map(|_| connect()).collect();
        let mut world = Self { broker, publisher, consumers, out: Vec::new(), delivered: 0 };
        world.send(publisher, ChannelOpen::default());
        for index in 0..world.consumers.len() {
            world.send(world.consumers[index], ChannelOpen::default());
        }
        world
    }

    fn send<'m>(&mut self, connection: ConnectionId, method: impl Into<Method<'m>>) {
        let mut bytes = Vec::new();
        method.into().encode(1, &mut bytes);
        self.receive(connection, &bytes);
        self.write(connection);
    }

    /// Hand bytes to the broker, and go on with what it puts off.
    fn receive(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.broker.receive(connection, bytes, 0);
        while self.broker.has_work() {
            self.broker.work(0);
        }
    }

    /// Take everything that the broker has for a connection.
    fn write(&mut self, connection: ConnectionId) -> usize {
        let mut count = 0;
        loop {
            self.out.clear();
            self.broker.output(connection, &mut self.out);
            if self.out.is_empty() {
                return count;
            }
            count += self.out.len();
        }
    }

    /// Let what waits for the disk happen, as far as the publisher waits for it.
    fn commit(&mut self) {
        self.broker.committed(0);
        self.write(self.publisher);
        self.wait_for(&[self.publisher]);
    }

    /// Wait until all that was asked for is done: definitions wait for the disk.
    fn finish(&mut self) {
        let all: Vec<_> = self.consumers.iter().copied().chain([self.publisher]).collect();
        self.wait_for(&all);
    }

    fn wait_for(&mut self, connections: &[ConnectionId]) {
        while self.broker.has_work() || connections.iter().any(|connection| !self.broker.wants_input(*connection)) {
            std::thread::sleep(Duration::from_micros(200));
            self.broker.committed(0);
            self.broker.work(0);
            connections.iter().for_each(|connection| _ = self.write(*connection));
        }
    }

    fn acknowledge(&mut self, count: u64) {
        let mut acks = Vec::new();
        while self.delivered + ACKNOWLEDGED <= count {
            self.delivered += ACKNOWLEDGED;
            BasicAck { delivery_tag: self.delivered, multiple: true }.encode(1, &mut acks);
        }
        self.receive(self.consumers[0], &acks);
        self.write(self.consumers[0]);
    }
}

fn published(exchange: &str, routing_key: &str, size: usize, delivery_mode: u8) -> Vec<u8> {
    let (mut bytes, mut properties) = (Vec::new(), Vec::new());
    PropertyFields { delivery_mode: Some(delivery_mode), ..Default::default() }.encode(&mut properties);
    BasicPublish { exchange, routing_key, ..Default::default() }.encode(1, &mut bytes);
    put_content(&mut bytes, 1, &properties, &vec![7; size], FRAME_MAX);
    bytes
}

fn in_memory() -> Broker {
    Broker::new(BrokerOptions::default(), Box::new(Everything), 0, 0)
}

fn on_disk(place: &Path) -> Broker {
    drop(std::fs::remove_dir_all(place));
    let committer = Committer::start(|| {}).expect("a thread");
    let journal = DurableOptions::default();
    let storage = Storage { disk: Arc::new(RealDisk), dir: place.to_owned(), committer, journal };
    Broker::open(BrokerOptions::default(), Box::new(Everything), storage, 0, 0).expect("opened").0
}

fn one_to_one(messages: usize, place: &Path, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 4] = [
        column("body_bytes", "body, bytes", 0),
        column("no_ack_ns", "transient, no acks, CPU ns", 0),
        column("acked_ns", "transient, acks, CPU ns", 0),
        column("durable_ns", "persistent, acks, confirms, CPU ns", 0),
    ];
    let title = format!("one publisher to one consumer, medians of {RUNS} runs of {messages} messages");
    report.table("one_to_one", &title, &COLUMNS);
    for size in [16, 256, 1024] {
        let median = |run: &dyn Fn() -> f64| median_by((0..RUNS).map(|_| run()).collect(), |ns| *ns);
        report.line(json!({
            "body_bytes": size,
            "no_ack_ns": median(&|| run(in_memory(), messages, size, false, false)),
            "acked_ns": median(&|| run(in_memory(), messages, size, true, false)),
            "durable_ns": median(&|| run(on_disk(place), messages, size, true, true)),
        }));
    }
}

/// CPU nanoseconds per message.
fn run(broker: Broker, messages: usize, size: usize, acknowledges: bool, durable: bool) -> f64 {
    let mut world = BrokerUnderLoad::new(broker, 1);
    let consumer = world.consumers[0];
    world.send(consumer, QueueDeclare { queue: "work", durable, ..Default::default() });
    if durable {
        world.send(world.publisher, ConfirmSelect { no_wait: true });
        world.finish();
    }
    world.send(consumer, BasicQos { prefetch_size: 0, prefetch_count: 2_000, global: false });
    world.send(consumer, BasicConsume { queue: "work", no_ack: !acknowledges, ..Default::default() });
    let one = published("", "work", size, 1 + u8::from(durable));
    let count = (READ_BYTES / one.len()).min(1_500);
    let stream = one.repeat(count * 2);
    // Two reads of every three end in the middle of a frame.
    let read = one.len() * count * 2 / 3;
    let rounds = messages / (count * 2) + 1;
    let mut sent = 0;
    let (_, cpu) = timed_cpu(|| {
        for _ in 0..rounds {
            for piece in stream.chunks(read) {
                world.receive(world.publisher, piece);
                sent += piece.len();
                world.write(consumer);
                if acknowledges {
                    world.acknowledge((sent / one.len()) as u64);
                }
                if durable {
                    world.commit();
                }
            }
        }
    });
    cpu.as_secs_f64() * 1e9 / (rounds * count * 2) as f64
}

fn fan_out(report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 2] = [column("queues", "queues", 0), column("message_us", "CPU µs per message", 1)];
    report.table("fan_out", "one publish of 256 bytes to many queues, with consumers on ten connections", &COLUMNS);
    for queues in [100, 1_000] {
        let mut world = BrokerUnderLoad::new(in_memory(), 10);
        for number in 0..queues {
            let consumer = world.consumers[number % 10];
            let queue = &*format!("q{number}");
            world.send(consumer, QueueDeclare { queue, ..Default::default() });
            world.send(consumer, QueueBind { queue, exchange: "amq.fanout", ..Default::default() });
            world.send(consumer, BasicConsume { queue, consumer_tag: queue, no_ack: true, ..Default::default() });
        }
        let bytes = published("amq.fanout", "", 256, 1);
        let rounds = 200_000 / queues;
        let (_, cpu) = timed_cpu(|| {
            for _ in 0..rounds {
                world.receive(world.publisher, &bytes);
                for index in 0..world.consumers.len() {
                    world.write(world.consumers[index]);
                }
            }
        });
        report.line(json!({ "queues": queues, "message_us": micros(cpu) / rounds as f64 }));
    }
}

/// Messages that are published before the disk is waited for.
const PUBLISHED_AT_ONCE: usize = 500;

fn standing_queries(place: &Path, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 3] = [
        column("queries", "distinct queries", 0),
        column("bindings_us", "bindings of durable queues, CPU µs", 1),
        column("readers_us", "live readers of a stream, CPU µs", 1),
    ];
    let title = "one persistent message of 256 bytes, which one of the queries is true of";
    report.table("standing_queries", title, &COLUMNS);
    for queries in [10, 100, 1_000, 10_000] {
        report.line(json!({
            "queries": queries,
            "bindings_us": median_by((0..RUNS).map(|_| ask(place, queries, false)).collect(), |us| *us),
            "readers_us": median_by((0..RUNS).map(|_| ask(place, queries, true)).collect(), |us| *us),
        }));
    }
}

/// CPU microseconds per message with so many readers of one stream, or bindings of one exchange.
fn ask(place: &Path, queries: usize, are_readers: bool) -> f64 {
    const ROUNDS: usize = 40;
    let mut world = BrokerUnderLoad::new(on_disk(place), 1);
    let consumer = world.consumers[0];
    let stream = Table::from_iter([("x-queue-type", FieldValue::Text(b"stream"[..].into()))]).to_bytes();
    world.send(world.publisher, ConfirmSelect { no_wait: true });
    world.send(
        consumer,
        QueueDeclare { queue: "log", durable: true, arguments: RawTable::new(&stream), ..Default::default() },
    );
    world.send(consumer, ExchangeDeclare { exchange: "asks", exchange_type: "x-query", ..Default::default() });
    world.send(consumer, BasicQos { prefetch_size: 0, prefetch_count: 60_000, global: false });
    for number in 0..queries {
        let query = Table::from_iter([("x-query", FieldValue::Text(format!("price = {number}").as_bytes().into()))]);
        let (bytes, name) = (query.to_bytes(), &*format!("q{number}"));
        let (arguments, consumer_tag) = (RawTable::new(&bytes), name);
        if are_readers {
            let consume = BasicConsume { queue: "log", consumer_tag, arguments, no_wait: true, ..Default::default() };
            world.send(consumer, consume);
            continue;
        }
        world.send(consumer, QueueDeclare { queue: name, durable: true, no_wait: true, ..Default::default() });
        let bind = QueueBind { queue: name, exchange: "asks", arguments, no_wait: true, ..Default::default() };
        world.send(consumer, bind);
        world.send(consumer, BasicConsume { queue: name, consumer_tag, no_wait: true, ..Default::default() });
    }
    world.finish();
    let (exchange, routing_key) = if are_readers { ("", "log") } else { ("asks", "") };
    let (mut bytes, mut count, mut number) = (Vec::new(), 0, 0_usize);
    let mut publish = |world: &mut BrokerUnderLoad| {
        bytes.clear();
        for _ in 0..PUBLISHED_AT_ONCE {
            number = (number + 7_919) % queries;
            put_priced(&mut bytes, exchange, routing_key, number);
        }
        world.receive(world.publisher, &bytes);
        count += PUBLISHED_AT_ONCE as u64;
        while world.broker.metrics().delivered < count {
            world.commit();
            world.receive(consumer, &[]);
            world.write(consumer);
            std::thread::sleep(Duration::from_micros(200)); // for the disk, and not counted
        }
        let mut ack = Vec::new();
        BasicAck { delivery_tag: count, multiple: true }.encode(1, &mut ack);
        world.receive(consumer, &ack);
    };
    publish(&mut world);
    let (_, cpu) = timed_cpu(|| (0..ROUNDS).for_each(|_| publish(&mut world)));
    micros(cpu) / (ROUNDS * PUBLISHED_AT_ONCE) as f64
}

/// Append a publish of a persistent message with this price.
fn put_priced(bytes: &mut Vec<u8>, exchange: &str, routing_key: &str, price: usize) {
    let headers = Table::from_iter([("price", FieldValue::I32(price as i32))]).to_bytes();
    let fields =
        PropertyFields { delivery_mode: Some(2), headers: Some(RawTable::new(&headers)), ..Default::default() };
    let mut properties = Vec::new();
    fields.encode(&mut properties);
    BasicPublish { exchange, routing_key, ..Default::default() }.encode(1, bytes);
    put_content(bytes, 1, &properties, &[7; 256], FRAME_MAX);
}

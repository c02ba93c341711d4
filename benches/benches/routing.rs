//! Measures binding, unbinding and routing through exchanges beside a loop over all bindings.
//!
//! `cargo bench -p tamis-benches --bench routing [-- --bindings 100000 --filters 10000 --json PATH]`
//! CPU time of the program, merges of the engine in other threads included; a message's is that of its thread. The loop
//! evaluates one binding after the other, on properties that it is given, and its answers are compared with the
//! exchange's before anything is timed.

use std::hint::black_box;
use std::time::Duration;

use serde_json::json;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{CpuTimes, micros, timed_cpu, timed_process_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::amqp::{BasicProperties, PropertyFields, RawTable, Table};
use tamis_core::broker::topology::{
    Bind, ExchangeKind, ExchangeSettings, Published, QueueId, QueueSettings, RouteScratch, Target, Topology, VhostId,
};
use tamis_core::message::{Body, Message, Properties as Values, Value};
use tamis_core::query::Query;
use tamis_core::query::selector::{self, SelectorDialect};
use tamis_core::topic::{self, TopicPattern};

/// The number of messages that are timed.
const MESSAGES: usize = 20_000;
/// The number of bindings of a removed queue that are taken away per slice.
const SLICE: usize = 1_000;
/// The loop is timed for so long.
const LOOP: Duration = Duration::from_millis(500);

fn main() {
    let arguments = Arguments::from_env(&["bindings", "filters", "json"]);
    let (bindings, filters) = (arguments.number("bindings", 100_000), arguments.number("filters", 10_000));
    let mut report = BenchReport::new("routing", &arguments);
    changes(bindings, filters, &mut report);
    messages(bindings, filters, &mut report);
    report.finish();
}

/// A vhost in which everything is bound.
struct RoutingBroker {
    topology: Topology,
    vhost: VhostId,
    scratch: RouteScratch,
    routed: Vec<QueueId>,
}

impl RoutingBroker {
    fn new() -> Self {
        let mut topology = Topology::new();
        let vhost = topology.add_vhost("/");
        let arguments = RawTable::default();
        let kind = ExchangeKind::Query;
        let settings = ExchangeSettings { kind, durable: false, auto_delete: false, internal: false, arguments };
        topology.declare_exchange(vhost, "query", &settings).expect("an exchange");
        Self { topology, vhost, scratch: RouteScratch::default(), routed: Vec::new() }
    }

    fn queue(&mut self, name: &str) -> QueueId {
        let arguments = RawTable::default();
        let settings = QueueSettings { durable: false, exclusive: false, auto_delete: false, arguments, creator: None };
        self.topology.declare_queue(self.vhost, name, &settings, 0, false).expect("a queue").0
    }

    fn bind(&mut self, binding: &RoutingBinding, queue: &str) {
        let bind = binding.to(queue);
        assert!(self.topology.bind(self.vhost, &bind, 0, &mut |_| unreachable!()).expect("bound"));
    }

    fn unbind(&mut self, binding: &RoutingBinding, queue: &str) {
        assert!(self.topology.unbind(self.vhost, &binding.to(queue), 0).expect("unbound"));
    }

    fn route(&mut self, message: &Published<'_>) -> usize {
        self.routed.clear();
        let count = self.topology.route(self.vhost, message, &mut self.scratch, &mut self.routed).expect("routed");
        black_box(&self.routed);
        count
    }
}

struct RoutingBinding {
    exchange: &'static str,
    key: String,
    arguments: Vec<u8>,
}

impl RoutingBinding {
    fn to<'a>(&'a self, queue: &'a str) -> Bind<'a> {
        let arguments = RawTable::new(&self.arguments);
        Bind { source: self.exchange, target: Target::Queue(queue), key: &self.key, arguments }
    }
}

/// Topic patterns of three or four words, one in three of them with a `*`, some with `#`.
fn topic_bindings(count: usize) -> Vec<RoutingBinding> {
    (0..count)
        .map(|number| {
            let key = match number % 3 {
                0 => format!("device.{number}.*.status"),
                1 => format!("device.{number}.#"),
                _ => format!("device.{number}.{}.status", number % 7),
            };
            RoutingBinding { exchange: "amq.topic", key, arguments: Vec::new() }
        })
        .collect()
}

const REGIONS: [&str; 8] = ["EU", "US", "APAC", "LATAM", "MEA", "ANZ", "UK", "IN"];

fn headers_of(number: usize) -> Table {
    let region = REGIONS[number % REGIONS.len()];
    let mut table: Table =
        [("customer", format!("c{}", number / 4).as_str()), ("region", region)].into_iter().collect();
    table.insert("x-match", "all");
    table
}

fn selector_of(number: usize) -> String {
    let (low, region) = (number % 100, REGIONS[number % REGIONS.len()]);
    match number % 2 {
        0 => format!("price > {low} AND customer = 'c{}' AND region IN ('{region}', 'US')", number / 4),
        _ => format!("customer = 'c{}' AND (price BETWEEN {low} AND 150 OR urgent = TRUE)", number / 4),
    }
}

fn headers_bindings(count: usize) -> Vec<RoutingBinding> {
    let binding = |number| RoutingBinding {
        exchange: "amq.headers",
        key: String::new(),
        arguments: headers_of(number).to_bytes(),
    };
    (0..count).map(binding).collect()
}

fn selector_bindings(count: usize) -> Vec<RoutingBinding> {
    let binding = |number| {
        let table: Table = [("x-query", selector_of(number).as_str())].into_iter().collect();
        RoutingBinding { exchange: "query", key: String::new(), arguments: table.to_bytes() }
    };
    (0..count).map(binding).collect()
}

/// Make bindings to one queue, unbind them one by one; make them again, delete the queue and sweep.
fn changes(bindings: usize, filters: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 7] = [
        column("what", "bindings of one queue", 0),
        column("bindings", "bindings", 0),
        column("made_cpu_us", "bound", 2),
        column("unbound_cpu_us", "unbound", 2),
        column("deleted_cpu_us", "queue deleted", 2),
        column("at_once_ms", "at once, ms in total", 2),
        column("slice_max_ms", "longest slice, ms", 2),
    ];
    report.table("bindings", "binding and unbinding; CPU microseconds each", &COLUMNS);
    for (what, all) in [
        ("topic patterns", topic_bindings(bindings)),
        ("headers", headers_bindings(filters)),
        ("selectors", selector_bindings(filters)),
    ] {
        let mut world = RoutingBroker::new();
        world.queue("q");
        let each = |took: Duration| micros(took) / all.len() as f64;
        let ((), made) = timed_process_cpu(|| all.iter().for_each(|binding| world.bind(binding, "q")));
        let ((), unbound) = timed_process_cpu(|| all.iter().for_each(|binding| world.unbind(binding, "q")));
        all.iter().for_each(|binding| world.bind(binding, "q"));
        let id = world.topology.queue(world.vhost, "q", 0).expect("a queue");
        let ((), at_once) = timed_process_cpu(|| world.topology.remove_queue(id));
        let (mut swept, mut longest, mut is_more) = (Duration::ZERO, Duration::ZERO, true);
        while is_more {
            let (more, slice) = timed_process_cpu(|| world.topology.sweep(SLICE));
            (is_more, swept, longest) = (more, swept + slice, longest.max(slice));
        }
        report.line(json!({
            "what": what, "bindings": all.len(), "made_cpu_us": each(made), "unbound_cpu_us": each(unbound),
            "deleted_cpu_us": each(at_once + swept), "at_once_ms": micros(at_once) / 1e3,
            "slice_max_ms": micros(longest) / 1e3,
        }));
    }
}

/// One message with its wire form and what the loop needs of it.
struct Sample {
    key: String,
    properties: Vec<u8>,
    values: Values,
}

impl Sample {
    fn published<'a>(&'a self, exchange: &'a str) -> Published<'a> {
        let properties = BasicProperties::from_checked(&self.properties);
        Published { exchange, routing_key: &self.key, further_keys: &[], properties, body: b"" }
    }
}

fn samples(random: &mut SplitMix64, count: usize, bindings: usize, filters: usize) -> Vec<Sample> {
    let sample = |_| {
        let customer = format!("c{}", random.below(filters / 4 + 1));
        let (region, price, urgent) = (*random.pick(&REGIONS), random.below(200) as i32, random.percent(10));
        let mut table: Table = [("customer", customer.as_str()), ("region", region)].into_iter().collect();
        table.insert("price", price);
        table.insert("urgent", urgent);
        let headers = table.to_bytes();
        let fields = PropertyFields {
            headers: Some(RawTable::new(&headers)),
            content_type: Some("text/plain"),
            ..PropertyFields::default()
        };
        let mut properties = Vec::new();
        fields.encode(&mut properties);
        let values = [
            ("customer".into(), Value::Text(customer.into())),
            ("region".into(), Value::Text(region.into())),
            ("price".into(), Value::Int(price.into())),
            ("urgent".into(), Value::Bool(urgent)),
        ];
        let key = format!("device.{}.{}.status", random.below(bindings), random.below(7));
        Sample { key, properties, values: values.into_iter().collect() }
    };
    (0..count).map(sample).collect()
}

/// The baseline: each binding is asked in turn.
enum RoutingCase {
    Topic(TopicPattern),
    Query(Query),
}

impl RoutingCase {
    fn is_met(&self, sample: &Sample) -> bool {
        match self {
            Self::Topic(pattern) => pattern.is_match(&sample.key),
            Self::Query(query) => {
                query.evaluate(&Message::new(&sample.key, &sample.values, Body::Absent), None) == Some(true)
            }
        }
    }
}

fn read(text: &str) -> RoutingCase {
    RoutingCase::Query(selector::parse(text, SelectorDialect::Jms).expect("a selector that we wrote"))
}

/// Every binding leads to a queue of its own.
fn messages(bindings: usize, filters: usize, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 6] = [
        column("what", "exchange", 0),
        column("bindings", "bindings", 0),
        column("p50_cpu_us", "p50", 2),
        column("p99_cpu_us", "p99", 2),
        column("loop_cpu_us", "one by one", 1),
        column("queues", "queues", 2),
    ];
    report.table("routes", "CPU microseconds per message, beside a loop over all bindings", &COLUMNS);
    let headers = |number| {
        let region = REGIONS[number % REGIONS.len()];
        read(&format!("customer = 'c{}' AND region = '{region}'", number / 4))
    };
    let topics = topic_bindings(bindings);
    let patterns =
        topics.iter().map(|binding| RoutingCase::Topic(TopicPattern::new(&binding.key, topic::TopicDialect::Amqp)));
    let patterns: Vec<RoutingCase> = patterns.collect();
    let mut random = SplitMix64::new(7);
    let fresh = samples(&mut random, MESSAGES, bindings, filters);
    // As many names as are remembered, and come again.
    let known = samples(&mut random, 4_000, bindings, filters);
    let again: Vec<&Sample> = (0..MESSAGES).map(|_| random.pick(&known)).collect();
    let fresh: Vec<&Sample> = fresh.iter().collect();
    let selectors: Vec<RoutingCase> = (0..filters).map(|number| read(&selector_of(number))).collect();
    // A name is remembered when it comes for the second time.
    let twice: Vec<&Sample> = known.iter().chain(&known).collect();
    for (what, all, tests, warm, samples) in [
        ("topic, known names", &topics, &patterns, &twice[..], &again),
        ("topic, new names", &topics, &patterns, &[], &fresh),
        ("headers", &headers_bindings(filters), &(0..filters).map(headers).collect(), &[], &fresh),
        ("x-query", &selector_bindings(filters), &selectors, &[], &fresh),
    ] {
        let mut world = RoutingBroker::new();
        for (number, binding) in all.iter().enumerate() {
            let queue = format!("q{number}");
            world.queue(&queue);
            world.bind(binding, &queue);
        }
        let exchange = all[0].exchange;
        check(&mut world, exchange, tests, samples);
        for sample in warm {
            world.route(&sample.published(exchange));
        }
        let (times, queues) = route_all(&mut world, exchange, samples);
        report.line(json!({
            "what": what, "bindings": all.len(), "p50_cpu_us": times.percentile(50),
            "p99_cpu_us": times.percentile(99), "loop_cpu_us": one_by_one(tests, samples), "queues": queues,
        }));
    }
    by_key(&fresh, report);
}

/// Routes that a key alone decides, and routes to many queues.
fn by_key(samples: &[&Sample], report: &mut BenchReport) {
    let mut world = RoutingBroker::new();
    for (number, sample) in samples.iter().enumerate().take(1_000) {
        let queue = format!("q{number}");
        world.queue(&queue);
        let bound = |exchange, key: &str| RoutingBinding { exchange, key: key.to_owned(), arguments: Vec::new() };
        world.bind(&bound("amq.fanout", ""), &queue);
        world.bind(&bound("amq.direct", &sample.key), &queue);
        world.bind(&bound("amq.topic", "device.#"), &queue);
    }
    for exchange in ["amq.direct", "amq.fanout", "amq.topic"] {
        let (times, queues) = route_all(&mut world, exchange, &samples[..1_000]);
        report.line(json!({
            "what": exchange, "bindings": 1_000, "p50_cpu_us": times.percentile(50),
            "p99_cpu_us": times.percentile(99), "queues": queues,
        }));
    }
}

fn check(world: &mut RoutingBroker, exchange: &str, tests: &[RoutingCase], samples: &[&Sample]) {
    for sample in samples.iter().take(20) {
        let expected = tests.iter().filter(|test| test.is_met(sample)).count();
        assert_eq!(world.route(&sample.published(exchange)), expected, "{}", sample.key);
    }
}

/// The times, and to how many queues a message went on average.
fn route_all(world: &mut RoutingBroker, exchange: &str, samples: &[&Sample]) -> (CpuTimes, f64) {
    let (mut times, mut queues) = (Vec::with_capacity(samples.len()), 0);
    // Reading the clock takes 0.2 us: several messages at a time.
    const AT_ONCE: usize = 10;
    for some in samples.chunks(AT_ONCE) {
        let (count, took) =
            timed_cpu(|| some.iter().map(|sample| world.route(&sample.published(exchange))).sum::<usize>());
        queues += count;
        times.push(micros(took) / some.len() as f64);
    }
    (CpuTimes::new(times), queues as f64 / samples.len() as f64)
}

fn one_by_one(tests: &[RoutingCase], samples: &[&Sample]) -> f64 {
    let (mut took, mut count) = (Duration::ZERO, 0);
    for sample in samples.iter().cycle() {
        took += timed_cpu(|| black_box(tests.iter().filter(|test| test.is_met(sample)).count())).1;
        count += 1;
        if took > LOOP {
            break;
        }
    }
    micros(took) / f64::from(count)
}

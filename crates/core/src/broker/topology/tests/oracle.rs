//! Random topologies, changed at random, against a plain loop over all bindings.
//!
//! The loop knows nothing of engines, keys or names: a topic pattern is matched by its definition, headers are compared
//! one by one, and a query is evaluated of properties that are made anew for each binding.

use std::collections::BTreeSet;

use super::*;
use crate::amqp::{FieldValue, RawValue};
use crate::message::{Body, Message, Properties as Values, Value};
use crate::query::selector::{self, SelectorDialect};
use crate::query::{Query, boolean};
use crate::testing::Random;
use crate::testing::{or_few, rounds};
use crate::topic::{self, TopicPattern};

/// A binding as the test remembers it.
#[derive(Clone, Debug, PartialEq)]
struct BoundCondition {
    source: &'static str,
    target: Target<'static>,
    key: String,
    arguments: Table,
}

const EXCHANGES: [(&str, ExchangeKind, Option<&str>); 7] = [
    ("amq.direct", ExchangeKind::Direct, None),
    ("amq.fanout", ExchangeKind::Fanout, None),
    ("amq.topic", ExchangeKind::Topic, None),
    ("amq.headers", ExchangeKind::Headers, None),
    ("topic", ExchangeKind::Topic, Some("query")),
    ("query", ExchangeKind::Query, Some("headers")),
    ("headers", ExchangeKind::Headers, Some("topic")),
];
const QUEUES: [&str; 6] = ["q0", "q1", "q2", "q3", "q4", "q5"];

#[test]
fn every_message_goes_where_a_plain_loop_over_all_bindings_sends_it() {
    let (mut routed, mut unrouted) = (0, 0);
    for seed in rounds(rounds(0..150)) {
        let mut random = Random(seed);
        let mut world = TestTopology::new();
        for (name, kind, alternate) in &EXCHANGES[4..] {
            let alternate = alternate.expect("one of ours");
            world.exchange(name, *kind, &table([("alternate-exchange", alternate.into())]));
        }
        for name in QUEUES {
            world.queue(name);
        }
        let mut bound: Vec<BoundCondition> = Vec::new();
        for _ in 0..or_few(60, 8) {
            for _ in 0..1 + random.below(6) {
                change(&mut random, &mut world, &mut bound);
            }
            _ = world.topology.sweep(random.below(20));
            let exchange = EXCHANGES[random.below(EXCHANGES.len())].0;
            let key = random.key(false);
            let (bytes, body) = random.message();
            let properties = BasicProperties::parse(&bytes).expect("properties");
            let found = world.route_with(exchange, &key, properties, body);
            let expected = by_definition(&bound, exchange, &key, properties, body);
            *(if found.is_empty() { &mut unrouted } else { &mut routed }) += 1;
            assert_eq!(found, expected, "seed {seed}: {exchange} {key:?} {:?} {body:?} {bound:#?}", properties);
        }
        assert_eq!(world.topology.counts().2, bound.len(), "seed {seed}");
        leaves_no_trace(&mut world, &mut random);
    }
    // A test whose messages all went nowhere, or everywhere, would prove nothing.
    assert!(cfg!(miri) || routed > 1_000 && unrouted > 1_000, "{routed} routed, {unrouted} not");
}

/// Everything is removed in some order: then there is nothing.
fn leaves_no_trace(world: &mut TestTopology, random: &mut Random) {
    let queues: Vec<QueueId> = world.topology.queues(world.vhost).map(|queue| queue.id).collect();
    let (first, second) = queues.split_at(random.below(queues.len()));
    first.iter().for_each(|queue| world.topology.remove_queue(*queue));
    for (name, ..) in &EXCHANGES[4..] {
        world.topology.delete_exchange(world.vhost, name, false).expect("deleted");
    }
    second.iter().for_each(|queue| world.topology.remove_queue(*queue));
    assert_eq!(world.topology.counts().1, 0);
    while world.topology.sweep(10) {}
    let Topology { queues, exchanges, by_ends, bindings, .. } = &world.topology;
    let to_exchanges = |number: &BindingId| matches!(bindings[*number].destination, Destination::Exchange(_));
    assert!(queues.len() == 0 && exchanges.len() == 7 && by_ends.len() == bindings.len());
    assert!(by_ends.iter().all(to_exchanges), "only bindings between predeclared exchanges are left");
    let asked: usize = exchanges.iter().map(|(_, exchange)| exchange.conditions.len()).sum();
    assert!(asked <= bindings.len());
    if bindings.len() == 0 {
        assert!(exchanges.iter().all(|(_, exchange)| exchange.queries.is_none() && exchange.always.is_empty()));
    }
}

fn change(random: &mut Random, world: &mut TestTopology, bound: &mut Vec<BoundCondition>) {
    match random.below(12) {
        0 if !bound.is_empty() => {
            let gone = bound.swap_remove(random.below(bound.len()));
            assert!(world.unbind(gone.source, gone.target, &gone.key, &gone.arguments));
        }
        1 if random.one_in(3) => {
            let name = QUEUES[random.below(QUEUES.len())];
            let gone = world.topology.delete_queue(world.vhost, name, ME, (false, false), |_| (0, 0));
            assert!(gone.expect("deleted").is_some());
            bound.retain(|binding| binding.target != Target::Queue(name));
            if random.one_in(2) {
                _ = world.topology.sweep(random.below(20));
            }
            world.queue(name);
        }
        2 if random.one_in(3) => {
            let (name, kind, alternate) = EXCHANGES[4 + random.below(3)];
            world.topology.delete_exchange(world.vhost, name, false).expect("deleted");
            bound.retain(|binding| binding.source != name && binding.target != Target::Exchange(name));
            world.exchange(name, kind, &table([("alternate-exchange", alternate.expect("one of ours").into())]));
        }
        _ => {
            let (source, kind, _) = EXCHANGES[random.below(EXCHANGES.len())];
            let target = match random.one_in(5) {
                true => Target::Exchange(EXCHANGES[random.below(EXCHANGES.len())].0),
                false => Target::Queue(QUEUES[random.below(QUEUES.len())]),
            };
            let arguments = random.arguments(kind == ExchangeKind::Headers);
            let binding = BoundCondition { source, target, key: random.key(true), arguments };
            let is_new = world.bind(source, target, &binding.key, &binding.arguments).expect("bound");
            let is_known = bound.iter().any(|other| same(other, &binding));
            assert_eq!(is_new, !is_known, "{binding:?}");
            if is_new {
                bound.push(binding);
            }
        }
    }
}

fn same(a: &BoundCondition, b: &BoundCondition) -> bool {
    let fields = |binding: &BoundCondition| {
        let mut fields: Vec<_> = binding.arguments.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
        fields.sort();
        fields
    };
    (a.source, a.target, &a.key) == (b.source, b.target, &b.key) && fields(a) == fields(b)
}

/// The definition: names of queues, sorted.
fn by_definition(
    bound: &[BoundCondition],
    exchange: &'static str,
    key: &str,
    properties: BasicProperties<'_>,
    body: &[u8],
) -> Vec<String> {
    let (mut queues, mut passed) = (BTreeSet::new(), BTreeSet::new());
    let mut pending = vec![exchange];
    while let Some(name) = pending.pop() {
        if !passed.insert(name) {
            continue;
        }
        let (_, kind, alternate) = EXCHANGES.iter().find(|(other, ..)| *other == name).expect("an exchange");
        let mut any = false;
        for binding in bound.iter().filter(|binding| binding.source == name) {
            if takes(binding, *kind, key, properties, body) {
                any = true;
                match binding.target {
                    Target::Queue(queue) => drop(queues.insert(queue.to_owned())),
                    Target::Exchange(next) => pending.push(next),
                }
            }
        }
        if !any {
            pending.extend(alternate);
        }
    }
    queues.into_iter().collect()
}

fn takes(
    binding: &BoundCondition,
    kind: ExchangeKind,
    key: &str,
    properties: BasicProperties<'_>,
    body: &[u8],
) -> bool {
    let by_kind = match kind {
        ExchangeKind::Address(_) => false,
        ExchangeKind::Direct => binding.key == key,
        ExchangeKind::Fanout | ExchangeKind::Query => true,
        ExchangeKind::Topic => TopicPattern::new(&binding.key, topic::TopicDialect::Amqp).is_match(key),
        ExchangeKind::Headers => headers_match(&binding.arguments, properties),
    };
    by_kind && query_is_true(&binding.arguments, key, properties, body)
}

fn headers_match(arguments: &Table, properties: BasicProperties<'_>) -> bool {
    let mode = arguments.get("x-match").and_then(FieldValue::as_str).unwrap_or("all");
    let headers = properties.headers().map(|table| table.parse().expect("a table")).unwrap_or_default();
    let mut tests = arguments
        .iter()
        .filter(|(name, _)| *name != "x-match" && !name.starts_with("x-query"))
        .filter(|(name, _)| mode.ends_with("-with-x") || !name.starts_with("x-"))
        .map(|(name, wanted)| header_matches(name, wanted, &headers));
    if mode.starts_with("all") { tests.all(|is_met| is_met) } else { tests.any(|is_met| is_met) }
}

/// As RabbitMQ has it, but that dotted names reach into tables and one element of a list is enough, as in queries.
fn header_matches(name: &str, wanted: &FieldValue, headers: &Table) -> bool {
    let nested = || {
        let (outer, inner) = name.split_once('.')?;
        match headers.get(outer)? {
            FieldValue::Table(table) => table.get(inner),
            _ => None,
        }
    };
    match (headers.get(name).or_else(nested), wanted) {
        (None, _) => false,
        (Some(_), FieldValue::Void) => true,
        (Some(FieldValue::Array(found)), FieldValue::Array(wanted)) => found == wanted,
        (Some(FieldValue::Array(found)), wanted) => found.iter().any(|one| equal(one, wanted)),
        (Some(found), wanted) => equal(found, wanted),
    }
}

fn equal(a: &FieldValue, b: &FieldValue) -> bool {
    let number = |value: &FieldValue| match value {
        FieldValue::F64(number) => Some(*number),
        FieldValue::Decimal { scale: 1, unscaled } => Some(f64::from(*unscaled) / 10.0),
        whole => whole.as_i64().map(|whole| whole as f64),
    };
    let bytes = |value: &FieldValue| match value {
        FieldValue::Text(bytes) | FieldValue::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    match (number(a), number(b), bytes(a), bytes(b)) {
        (Some(a), Some(b), ..) => a == b,
        (.., Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn query_is_true(arguments: &Table, key: &str, properties: BasicProperties<'_>, body: &[u8]) -> bool {
    let text = |name: &str| arguments.get(name).and_then(FieldValue::as_str);
    let Some(query) = text("x-query") else { return true };
    let query: Query = match text("x-query-language") {
        Some("boolean") => boolean::parse(query, &[] as &[&str]),
        _ => selector::parse(query, SelectorDialect::Jms),
    }
    .expect("a query");
    let mode = text("x-query-body").unwrap_or("none");
    let values = values(properties, body, mode == "json");
    let body = if mode == "none" { Body::Absent } else { Body::from_bytes(body) };
    query.evaluate(&Message::new(key, &values, body), None) == Some(true)
}

/// Headers under their names, properties above them, and a JSON body under `body`.
fn values(properties: BasicProperties<'_>, body: &[u8], is_json: bool) -> Values {
    let mut values = Values::default();
    let of = |value: RawValue<'_>| super::super::conditions::view::value(value);
    for field in properties.headers().iter().flat_map(RawTable::iter) {
        let (name, value) = field.expect("a table");
        let is_of_body = name == "body" || name.starts_with("body.");
        if !(name.starts_with('\0') || name == "user_id" || is_json && is_of_body) {
            values.insert(name.into(), of(value));
        }
    }
    let fields = properties.fields();
    let texts = [("message_id", fields.message_id), ("type", fields.message_type), ("user_id", fields.user_id)];
    for (name, text) in texts {
        values.extend(text.map(|text| (name.into(), Value::Text(text.into()))));
    }
    for (name, number) in [("priority", fields.priority), ("delivery_mode", fields.delivery_mode)] {
        values.extend(number.map(|number| (name.into(), Value::Int(number.into()))));
    }
    let micros = |seconds: u64| Value::Timestamp(i64::try_from(seconds).expect("small") * 1_000_000);
    values.extend(fields.timestamp.map(|seconds| ("timestamp".into(), micros(seconds))));
    if is_json {
        values.extend(crate::json::parse(body).ok().map(|value| ("body".into(), value)));
    }
    values
}

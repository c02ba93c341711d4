//! Messages with further routing keys, in their headers CC and BCC.

use super::client::{TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{BasicGet, ExchangeDeclare, QueueBind, QueueDeclare, TxCommit, TxSelect};
use crate::amqp::{BasicProperties, FieldValue, PropertyFields, RawTable, Table};
use crate::broker::topology::StoredQuery;
use crate::broker::{Access, Broker, BrokerOptions, ConnectionId, Control, UserLimits};
use crate::journal::{Dice, SimulatedDisk};

fn keys(keys: &[&str]) -> FieldValue {
    FieldValue::Array(keys.iter().map(|key| text(key)).collect())
}

fn send(world: &mut TestBroker, id: ConnectionId, route: [&str; 2], headers: RawTable<'_>, body: &[u8]) {
    let properties = PropertyFields { headers: Some(headers), delivery_mode: Some(2), ..Default::default() };
    world.broker.receive(id, &published(route[0], route[1], &properties, body), world.now);
}

/// The bodies in some queues, and the headers that their receivers see.
fn got(world: &mut TestBroker, id: ConnectionId, queues: &[&'static str]) -> (Vec<String>, Vec<Table>) {
    let (mut all, mut headers) = (Vec::new(), Vec::new());
    for queue in queues {
        let seen = world.ask(id, 1, BasicGet { queue, no_ack: true, ..Default::default() });
        all.push(bodies(&seen).concat());
        let table = BasicProperties::from_checked(&seen[0].properties).headers();
        headers.extend(table.map(|table| table.parse().expect("headers")));
    }
    (all, headers)
}

const QUEUES: [&str; 4] = ["a", "b", "c", "d"];

fn world() -> (TestBroker, ConnectionId) {
    let mut world = TestBroker::default();
    let id = world.connect();
    QUEUES.into_iter().for_each(|queue| world.declare(id, queue));
    (world, id)
}

#[test]
fn a_message_goes_by_all_of_its_keys_to_each_queue_once() {
    let (mut world, id) = world();
    for exchange in ["amq.direct", "amq.topic"] {
        for queue in QUEUES {
            world.ask(id, 1, QueueBind { queue, exchange, routing_key: queue, ..Default::default() });
        }
    }
    world.ask(id, 1, QueueBind { queue: "d", exchange: "amq.topic", routing_key: "*.d", ..Default::default() });
    let headers = table(&[("CC", keys(&["b", "a"])), ("BCC", keys(&["c", "b"])), ("n", FieldValue::I32(1))]);
    for exchange in ["", "amq.direct", "amq.topic"] {
        // Twice: a route that is remembered must not hide the copies, nor be one with them.
        for body in ["1", "2"] {
            world.publish(id, exchange, "a", b"plain");
            assert_eq!(got(&mut world, id, &QUEUES).0, ["plain", "", "", ""], "{exchange}");
            send(&mut world, id, [exchange, "a"], headers, body.as_bytes());
            let (all, seen) = got(&mut world, id, &QUEUES);
            assert_eq!(all, [body, body, body, ""], "{exchange}");
            let expected: Table = [("CC", keys(&["b", "a"])), ("n", FieldValue::I32(1))].into_iter().collect();
            assert!(seen.iter().all(|headers| *headers == expected), "{seen:?}");
        }
    }
    send(&mut world, id, ["amq.topic", "none"], table(&[("CC", keys(&["x.d"]))]), b"x");
    assert_eq!(got(&mut world, id, &QUEUES).0, ["", "", "", "x"]);
    assert_eq!(world.broker.metrics().messages, 0);
}

#[test]
fn an_alternate_exchange_is_tried_with_all_keys_when_none_was_taken() {
    let (mut world, id) = world();
    let arguments = table(&[("alternate-exchange", text(""))]);
    let exchange = ExchangeDeclare { exchange: "first", exchange_type: "direct", arguments, ..Default::default() };
    world.ask(id, 1, exchange);
    world.ask(id, 1, QueueBind { queue: "d", exchange: "first", routing_key: "d", ..Default::default() });
    send(&mut world, id, ["first", "a"], table(&[("BCC", keys(&["b", "none"]))]), b"1");
    assert_eq!(got(&mut world, id, &QUEUES).0, ["1", "1", "", ""]);
    send(&mut world, id, ["first", "a"], table(&[("CC", keys(&["d"]))]), b"2");
    assert_eq!(got(&mut world, id, &QUEUES).0, ["", "", "", "2"]);
}

#[test]
fn headers_that_are_no_keys_are_refused_by_name() {
    for (name, value) in [("CC", text("a")), ("BCC", FieldValue::I32(0)), ("CC", FieldValue::Array(vec![1.into()]))] {
        let (mut world, id) = world();
        send(&mut world, id, ["", "a"], table(&[(name, value)]), b"x");
        let (_, code, reason) = closed(&world.seen(id)).expect("closed");
        assert_eq!((code, reason.contains(&format!("header '{name}'"))), (406, true), "{reason}");
        assert_eq!(world.broker.metrics().messages, 0);
    }
}

/// Lets nobody publish with the key `secret`.
struct KeyedControl;

impl Control for KeyedControl {
    fn allowed(&mut self, access: &Access<'_>) -> bool {
        access.routing_key != Some("secret")
    }

    fn has_topic_rules(&mut self, _: &str, _: &str) -> bool {
        true
    }

    fn stored_query(&mut self, _: &str) -> Result<StoredQuery, String> {
        Err("none".to_owned())
    }

    fn limits(&mut self, _: &str) -> UserLimits {
        UserLimits::default()
    }
}

#[test]
fn each_key_needs_permission_also_in_a_transaction() {
    for in_transaction in [false, true] {
        for header in ["CC", "BCC"] {
            let broker = Broker::new(BrokerOptions::default(), Box::new(KeyedControl), 0, 0);
            let mut world = TestBroker { broker, now: 0 };
            let id = world.connect();
            if in_transaction {
                world.ask(id, 1, TxSelect {});
            }
            send(&mut world, id, ["amq.topic", "open"], table(&[(header, keys(&["open"]))]), b"x");
            assert_eq!(names(&world.seen(id)), [""; 0]);
            send(&mut world, id, ["amq.topic", "open"], table(&[(header, keys(&["open", "secret"]))]), b"x");
            let (_, code, reason) = closed(&world.seen(id)).expect("closed");
            assert_eq!((code, reason.contains("topic 'secret'")), (403, true), "{reason}");
        }
    }
}

#[test]
fn a_transaction_sends_copies_when_it_is_committed() {
    let (mut world, id) = world();
    world.ask(id, 1, TxSelect {});
    send(&mut world, id, ["", "a"], table(&[("CC", keys(&["b"]))]), b"1");
    assert_eq!(world.broker.metrics().messages, 0);
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"]);
    assert_eq!(got(&mut world, id, &QUEUES).0, ["1", "1", "", ""]);
}

#[test]
fn blind_copies_stay_unseen_after_a_restart_and_dead_letters_know_them() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    let letters = table(&[("x-dead-letter-exchange", text("amq.direct"))]);
    let anew = [("x-dead-letter-exchange", text("amq.direct")), ("x-dead-letter-routing-key", text("anew"))];
    for (queue, arguments) in [("a", letters), ("b", table(&anew)), ("c", table(&[])), ("d", table(&[]))] {
        world.send(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
    }
    world.send(id, 1, QueueBind { queue: "c", exchange: "amq.direct", routing_key: "c", ..Default::default() });
    world.send(id, 1, QueueBind { queue: "d", exchange: "amq.direct", routing_key: "anew", ..Default::default() });
    world.commit();
    send(&mut world, id, ["", "a"], table(&[("CC", keys(&["b"])), ("BCC", keys(&["c"]))]), b"1");
    world.commit();
    drop(world);
    disk.power_cut(&mut Dice::new(1));
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    let cc: Table = [("CC", keys(&["b"]))].into_iter().collect();
    assert_eq!(got(&mut world, id, &["c"]), (vec!["1".to_owned()], vec![cc]), "the original of the blind copy");
    for queue in ["a", "b"] {
        world.ask(id, 1, BasicGet { queue, ..Default::default() });
    }
    world.ask(id, 1, crate::amqp::method::BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    let (all, headers) = got(&mut world, id, &["c", "d"]);
    assert_eq!(all, ["1", "1"], "by the key of the blind copy, and by the queue's own");
    let seen = |headers: &Table| (headers.get("CC").cloned(), headers.get("BCC").cloned());
    assert_eq!(headers.iter().map(seen).collect::<Vec<_>>(), [(Some(keys(&["b"])), None), (None, None)]);
    let Some(FieldValue::Array(deaths)) = headers[0].get("x-death") else { panic!("{headers:?}") };
    let FieldValue::Table(death) = &deaths[0] else { panic!("{deaths:?}") };
    assert_eq!(death.get("routing-keys"), Some(&keys(&["a", "b"])));
}

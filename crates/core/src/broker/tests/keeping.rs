//! Tests of what survives a crash, and of when it is promised.

use super::client::{Easy, PERSISTENT, TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{
    BasicAck, BasicConsume, BasicGet, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete, QueuePurge, TxCommit,
    TxSelect,
};
use crate::amqp::{FieldValue, Method};
use crate::broker::durable::DurableOptions;
use crate::broker::{BrokerOptions, ConnectionId, Event};
use crate::journal::{Dice, SimulatedDisk};

pub(super) fn declare(world: &mut TestBroker, id: ConnectionId, queue: &'static str) {
    world.send(id, 1, QueueDeclare { queue, durable: true, ..Default::default() });
    world.commit();
    assert_eq!(names(&world.seen(id)), ["queue.declare-ok"]);
}

pub(super) fn publish(world: &mut TestBroker, id: ConnectionId, queue: &str, body: &str) {
    let bytes = published("", queue, &PERSISTENT, body.as_bytes());
    world.broker.receive(id, &bytes, world.now);
}

pub(super) fn crash(disk: &SimulatedDisk, world: TestBroker) -> TestBroker {
    drop(world); // it writes nothing on its way out: its committer has no thread
    disk.power_cut(&mut Dice::new(1));
    TestBroker::on_disk(disk, BrokerOptions::default()).0
}

pub(super) fn drain(world: &mut TestBroker, queue: &'static str) -> Vec<(String, bool)> {
    let id = world.connect();
    let mut drained = Vec::new();
    loop {
        let seen = world.ask(id, 1, BasicGet { queue, no_ack: true, ..Default::default() });
        let Method::BasicGetOk(ok) = seen[0].method() else { return drained };
        drained.push((bodies(&seen).remove(0), ok.redelivered));
    }
}

#[test]
fn a_confirm_comes_when_the_message_is_on_disk_and_not_before() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.confirm_select(id);
    publish(&mut world, id, "work", "1");
    publish(&mut world, id, "work", "2");
    assert_eq!(names(&world.seen(id)), [""; 0]);
    world.commit();
    assert_eq!(world.seen(id)[0].method(), Method::BasicAck(BasicAck { delivery_tag: 2, multiple: true }));
    publish(&mut world, id, "work", "3");
    let mut world = crash(&disk, world);
    let drained = drain(&mut world, "work");
    assert_eq!(drained[..2], [("1".to_owned(), true), ("2".to_owned(), true)]);
}

#[test]
fn a_message_that_no_segment_can_hold_is_refused_with_the_reason() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.confirm_select(id);
    for confirms in [true, false] {
        let id = if confirms { id } else { world.connect() };
        publish(&mut world, id, "work", &"x".repeat(600_000));
        let (channel, code, text) = closed(&world.seen(id)).expect("closed");
        assert_eq!((channel, code), (1, 406));
        assert!(text.starts_with("PRECONDITION_FAILED - the message cannot be kept: a record of 600"), "{text}");
    }
    assert_eq!(drain(&mut world, "work"), []);
}

#[test]
fn definitions_are_answered_when_they_are_on_disk_and_come_back() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    world.send(
        id,
        1,
        ExchangeDeclare { exchange: "logs", exchange_type: "topic", durable: true, ..Default::default() },
    );
    world.send(id, 1, QueueDeclare { queue: "work", durable: true, ..Default::default() });
    world.send(id, 1, QueueBind { queue: "work", exchange: "logs", routing_key: "a.#", ..Default::default() });
    world.send(id, 1, BasicConsume { queue: "work", consumer_tag: "c", no_ack: true, ..Default::default() });
    world.publish(id, "logs", "a.b", b"0");
    assert_eq!(names(&world.seen(id)), [""; 0]);
    world.commit();
    let expected = ["exchange.declare-ok", "queue.declare-ok", "queue.bind-ok", "basic.consume-ok", "basic.deliver"];
    assert_eq!(names(&world.seen(id)), expected);
    let mut world = crash(&disk, world);
    let id = world.connect();
    let bytes = published("logs", "a.b", &PERSISTENT, b"1");
    world.broker.receive(id, &bytes, 0);
    assert_eq!(drain(&mut world, "work"), [("1".to_owned(), false)]);
}

#[test]
fn what_is_acknowledged_purged_or_deleted_does_not_come_back() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    for queue in ["acked", "purged", "deleted"] {
        declare(&mut world, id, queue);
        publish(&mut world, id, queue, "1");
        publish(&mut world, id, queue, "2");
    }
    world.consume(id, "acked", "c", false);
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    world.send(id, 1, QueuePurge { queue: "purged", ..Default::default() });
    world.send(id, 1, QueueDelete { queue: "deleted", ..Default::default() });
    world.commit();
    let mut world = crash(&disk, world);
    assert_eq!(drain(&mut world, "acked"), [("2".to_owned(), true)]);
    assert_eq!(drain(&mut world, "purged"), []);
    let id = world.connect();
    let seen = world.ask(id, 1, QueueDeclare { queue: "deleted", passive: true, ..Default::default() });
    assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(404));
    assert_eq!(world.broker.metrics().messages, 0);
}

#[test]
fn after_a_clean_stop_only_what_was_delivered_is_flagged() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    publish(&mut world, id, "work", "1");
    publish(&mut world, id, "work", "2");
    world.ask(id, 1, BasicGet { queue: "work", ..Default::default() });
    world.broker.stop("over", 0);
    world.commit();
    drop(world);
    let (mut world, found) = TestBroker::on_disk(&disk, BrokerOptions::default());
    assert!(found.is_clean);
    assert_eq!(drain(&mut world, "work"), [("1".to_owned(), true), ("2".to_owned(), false)]);
}

#[test]
fn a_commit_is_answered_when_it_is_on_disk() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.ask(id, 1, TxSelect {});
    publish(&mut world, id, "work", "1");
    assert_eq!(world.broker.metrics().messages, 0);
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), [""; 0]);
    world.commit();
    assert_eq!(names(&world.seen(id)), ["tx.commit-ok"]);
    let mut world = crash(&disk, world);
    assert_eq!(drain(&mut world, "work").len(), 1);
}

#[test]
fn after_a_failed_sync_nothing_is_confirmed_and_the_caller_is_told() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.confirm_select(id);
    disk.fail_sync_after(0);
    publish(&mut world, id, "work", "1");
    world.commit();
    world.publish(id, "", "none", b"transient");
    world.commit();
    assert!(!names(&world.seen(id)).contains(&"basic.ack"));
    assert!(world.broker.fatal().is_some());
    assert!(matches!(world.broker.take_events()[..], [Event::Fatal { .. }]));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_full_disk_blocks_publishers_until_there_is_room() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, "work");
    world.confirm_select(id);
    disk.limit(Some(0));
    let body = "x".repeat(100_000);
    let mut seen = Vec::new();
    for _ in 0..30 {
        publish(&mut world, id, "work", &body);
        world.commit();
        seen.extend(world.seen(id));
    }
    assert!(names(&seen).contains(&"connection.blocked") && !world.broker.wants_input(id));
    let other = world.connect();
    let got = world.ask(other, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
    assert_eq!(names(&got), ["basic.get-ok"], "consumers go on");
    disk.limit(None);
    for _ in 0..20 {
        world.commit();
        world.broker.work(0);
    }
    let seen = world.seen(id);
    assert!(names(&seen).contains(&"connection.unblocked") && world.broker.wants_input(id));
    assert_eq!(world.broker.metrics().blocked, 0);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_disk_that_messages_filled_has_room_when_they_are_consumed() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let publisher = world.connect();
    declare(&mut world, publisher, "work");
    disk.limit(Some(8 << 20));
    let (body, mut count) = ("x".repeat(100_000), 0);
    while world.broker.metrics().blocked == 0 {
        publish(&mut world, publisher, "work", &body);
        world.commit();
        count += 1;
        assert!(count < 1_000, "the disk has an end");
    }
    let consumer = world.connect();
    let get = BasicGet { queue: "work", no_ack: true, ..Default::default() };
    while names(&world.ask(consumer, 1, get)) == ["basic.get-ok"] {
        world.commit();
    }
    (0..10).for_each(|_| world.commit());
    assert_eq!(world.broker.metrics().blocked, 0);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn on_a_full_disk_definitions_have_a_reserve_and_are_refused_when_that_is_full() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let publisher = world.connect();
    declare(&mut world, publisher, "work");
    disk.limit(Some(0));
    let body = "x".repeat(100_000);
    while world.broker.metrics().blocked == 0 {
        publish(&mut world, publisher, "work", &body);
        world.commit();
    }
    let id = world.connect();
    declare(&mut world, id, "more");
    let is_stuck = |world: &TestBroker| world.broker.durability.is_stuck();
    let name = |number: usize| &*Box::leak(format!("{number:0>250}").into_boxed_str());
    let durable = |queue| QueueDeclare { queue, durable: true, ..Default::default() };
    let mut count = 0;
    while !is_stuck(&world) {
        for _ in 0..50 {
            world.send(id, 1, QueueDeclare { no_wait: true, ..durable(name(count)) });
            count += 1;
        }
        world.commit();
        assert!(count < 10_000, "the reserve has an end");
    }
    assert!(count >= 500, "the reserve is a segment, and held {count}");
    let other = world.connect();
    world.declare(other, "transient");
    assert_eq!(names(&world.ask(other, 1, durable("work"))), ["queue.declare-ok"], "it is there and needs no room");
    let (_, code, text) = closed(&world.ask(other, 1, durable("new"))).expect("refused");
    assert_eq!((code, text.contains("low on disk")), (506, true), "{text}");
    // One that was let in before that has its answer when there is room, or is refused after a while.
    assert_eq!(names(&world.ask(id, 1, durable(name(count - 1)))), [""; 0]);
    for seconds in [0, 9, 11] {
        world.now = seconds * 1_000_000;
        world.broker.tick(world.now, 0);
        assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), (seconds == 11).then_some(506));
    }
    disk.limit(None);
    world.commit();
    world.commit();
    assert_eq!(world.broker.metrics().blocked, 0);
    let mut world = crash(&disk, world);
    let id = world.connect();
    assert_eq!(names(&world.ask(id, 1, durable(name(count - 1)))), ["queue.declare-ok"]);
    assert!(closed(&world.ask(id, 1, QueueDeclare { passive: true, ..durable("new") })).is_some());
}

/// A broker with a mebibyte for messages.
fn cramped(disk: &SimulatedDisk) -> TestBroker {
    TestBroker::on_disk(disk, BrokerOptions { memory_bytes_max: 1 << 20, ..BrokerOptions::default() }).0
}

/// Publish `count` persistent numbers of `digits` digits to a durable and a transient queue; nobody is blocked.
fn publish_saved_and_spilled(world: &mut TestBroker, count: u32, digits: usize, each_commit: u32) {
    let id = world.connect();
    declare(world, id, "saved");
    world.declare(id, "spilled");
    for number in 0..count {
        let body = format!("{number:0digits$}");
        publish(world, id, "saved", &body);
        world.publish(id, "", "spilled", body.as_bytes());
        if number % each_commit == 0 {
            world.commit();
        }
        assert!(world.broker.wants_input(id), "at {number}");
    }
}

fn assert_saved_and_spilled(world: &mut TestBroker, count: u32, digits: usize) {
    let expected: Vec<_> = (0..count).map(|number| (format!("{number:0digits$}"), false)).collect();
    for queue in ["saved", "spilled"] {
        assert_eq!(drain(world, queue), expected);
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_does_not_fit_into_memory_waits_on_disk() {
    let mut world = cramped(&SimulatedDisk::new());
    publish_saved_and_spilled(&mut world, 1000, 1000, 50);
    let metrics = world.broker.metrics();
    assert!(metrics.message_bytes < 1 << 20, "{} bytes", metrics.message_bytes);
    assert_eq!(metrics.messages, 2000);
    assert_saved_and_spilled(&mut world, 1000, 1000);
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().message_bytes), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_first_messages_leave_memory_too_when_places_in_queues_take_most_of_it() {
    let mut world = cramped(&SimulatedDisk::new());
    // With half of the memory held by the first 1,000 bodies there would be room for 3,200 places.
    publish_saved_and_spilled(&mut world, 2400, 500, 10);
    assert_saved_and_spilled(&mut world, 2400, 500);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn dead_letters_wait_on_disk_too() {
    let mut world = cramped(&SimulatedDisk::new());
    let id = world.connect();
    declare(&mut world, id, "dead");
    let arguments = table(&[
        ("x-message-ttl", FieldValue::I32(1)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ]);
    world.ask(id, 1, QueueDeclare { queue: "short", arguments, ..Default::default() });
    for number in 0..1000u32 {
        world.publish(id, "", "short", format!("{number:01000}").as_bytes());
        if number % 50 == 49 {
            world.now += 1_000_000;
            world.broker.tick(world.now, super::client::EPOCH_US + world.now as i64);
            world.commit();
            while world.broker.has_work() {
                world.broker.work(world.now);
            }
        }
    }
    let metrics = world.broker.metrics();
    assert_eq!((metrics.expired, metrics.messages), (1000, 1000));
    assert!(metrics.message_bytes < 1 << 20, "{} bytes", metrics.message_bytes);
    assert_eq!(drain(&mut world, "dead").len(), 1000);
}

#[test]
fn a_definition_that_has_to_wait_for_room_is_answered_when_it_is_on_disk() {
    let disk = SimulatedDisk::new();
    let tight = DurableOptions { segment_bytes: 1 << 20, pending_bytes_max: 20_000 };
    let mut world =
        TestBroker::open_journal(&disk, BrokerOptions::default(), Easy::default(), tight).expect("opened").0;
    let id = world.connect();
    world.confirm_select(id);
    let name = |number: usize| &*Box::leak(format!("{number:0>200}").into_boxed_str());
    let durable = |queue| QueueDeclare { queue, durable: true, ..Default::default() };
    for number in 0..100 {
        world.send(id, 1, durable(name(number)));
    }
    publish(&mut world, id, name(99), "into a queue that is not recorded");
    let seen = world.seen(id);
    assert_eq!(names(&seen), ["basic.nack"], "no answer promises what is not kept");
    world.commit();
    let first = names(&world.seen(id)).len();
    assert!((10..100).contains(&first), "{first} had room, and the others wait");
    let other = world.connect();
    assert_eq!(names(&world.ask(other, 1, durable(name(99)))), [""; 0], "to declare it again is the same promise");
    let mut count = first;
    while count < 100 {
        world.commit();
        let more = names(&world.seen(id)).len();
        assert!(more > 0, "they go on");
        count += more;
    }
    assert_eq!(names(&world.seen(other)), ["queue.declare-ok"]);
    let mut world = crash(&disk, world);
    let id = world.connect();
    for number in 0..100 {
        let passive = QueueDeclare { passive: true, ..durable(name(number)) };
        assert_eq!(names(&world.ask(id, 1, passive)), ["queue.declare-ok"], "{number}");
    }
}

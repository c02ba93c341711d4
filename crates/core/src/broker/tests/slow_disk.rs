//! What has to come from the disk holds up those who asked for it, and nobody else.

use super::client::{PERSISTENT, TestBroker, bodies, names, published, table, text};
use super::keeping::{crash, declare, publish};
use super::opening_streams::stream;
use crate::amqp::PropertyFields;
use crate::amqp::method::{BasicAck, BasicConsume, BasicGet, BasicQos, QueueDeclare};
use crate::broker::ConnectionId;
use crate::journal::SimulatedDisk;

const NEVER_READY: u64 = u64::MAX;

/// A broker that was started again with a durable queue "cold" of one message, and whose disk is slow now.
fn restarted() -> (SimulatedDisk, TestBroker) {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, Default::default()).0;
    let id = world.connect();
    declare(&mut world, id, "cold");
    publish(&mut world, id, "cold", "1");
    world.commit();
    let world = crash(&disk, world);
    disk.slow_down_reads(NEVER_READY);
    (disk, world)
}

/// Let the alarm ring that the broker asks for.
fn ring(world: &mut TestBroker) {
    world.now = world.broker.take_alarm().expect("somebody waits");
    world.broker.work(world.now);
}

fn deliveries(world: &mut TestBroker, id: ConnectionId) -> Vec<String> {
    bodies(&world.seen(id))
}

#[test]
fn a_message_that_comes_from_the_disk_holds_up_no_other_queue() {
    let (disk, mut world) = restarted();
    let (id, other) = (world.connect(), world.connect());
    assert!(world.consume(id, "cold", "a", true).is_empty());
    world.declare(other, "warm");
    world.consume(other, "warm", "b", true);
    world.publish(other, "", "warm", b"2");
    assert_eq!((deliveries(&mut world, id), deliveries(&mut world, other)), (vec![], vec!["2".to_owned()]));
    assert!(!world.broker.has_work(), "it waits for the alarm, and is not busy meanwhile");
    ring(&mut world);
    assert_eq!(deliveries(&mut world, id), [""; 0]);
    disk.slow_down_reads(1);
    ring(&mut world);
    assert_eq!(deliveries(&mut world, id), ["1"]);
    assert_eq!(world.broker.take_alarm(), None);
}

#[test]
fn who_has_asked_for_a_second_waits_for_the_disk() {
    let (_, mut world) = restarted();
    let id = world.connect();
    world.consume(id, "cold", "a", true);
    let mut seen = Vec::new();
    while seen.is_empty() {
        ring(&mut world);
        seen = deliveries(&mut world, id);
    }
    assert_eq!((seen, world.now / 1_000), (vec!["1".to_owned()], 1_001));
}

#[test]
fn basic_get_answers_when_the_message_is_there() {
    let (disk, mut world) = restarted();
    let (id, gone) = (world.connect(), world.connect());
    let get = || BasicGet { queue: "cold", no_ack: true, ..Default::default() };
    assert!(world.ask(id, 1, get()).is_empty() && world.ask(gone, 1, get()).is_empty());
    world.send(id, 1, BasicQos { prefetch_count: 7, ..Default::default() });
    world.broker.disconnect(gone, world.now);
    ring(&mut world);
    assert!(world.seen(id).is_empty(), "what follows waits as well");
    disk.slow_down_reads(1);
    ring(&mut world);
    let seen = world.seen(id);
    assert_eq!((names(&seen), bodies(&seen)), (vec!["basic.get-ok", "basic.qos-ok"], vec!["1".to_owned()]));
}

#[test]
fn a_dead_letter_is_published_when_its_message_is_there() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, Default::default()).0;
    let id = world.connect();
    let arguments = table(&[("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))]);
    world.send(id, 1, QueueDeclare { queue: "cold", durable: true, arguments, ..Default::default() });
    world.commit();
    assert_eq!(names(&world.seen(id)), ["queue.declare-ok"]);
    declare(&mut world, id, "dead");
    let expiring = PropertyFields { expiration: Some("5"), ..PERSISTENT };
    world.broker.receive(id, &published("", "cold", &expiring, b"1"), world.now);
    world.commit();
    let mut world = crash(&disk, world);
    disk.slow_down_reads(NEVER_READY);
    world.now += 10_000;
    world.broker.work(world.now);
    assert_eq!(world.broker.metrics().letters_waiting, 1);
    ring(&mut world);
    assert_eq!(world.broker.metrics().letters_waiting, 1);
    disk.slow_down_reads(1);
    ring(&mut world);
    world.commit();
    assert_eq!((world.broker.metrics().letters_waiting, world.broker.metrics().messages), (0, 1));
}

#[test]
fn a_reader_of_a_stream_reads_on_when_the_disk_is_ready() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, Default::default()).0;
    let id = world.connect();
    world.send(id, 1, stream("log", &[]));
    world.commit_streams();
    for body in ["1", "2", "3"] {
        publish(&mut world, id, "log", body);
    }
    world.commit();
    disk.slow_down_reads(NEVER_READY);
    let reader = world.connect();
    world.ask(reader, 1, BasicQos { prefetch_count: 2, ..Default::default() });
    let arguments = table(&[("x-stream-offset", text("first"))]);
    let seen = world.ask(reader, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
    assert_eq!(names(&seen), ["basic.consume-ok"]);
    ring(&mut world);
    assert_eq!(deliveries(&mut world, reader), [""; 0]);
    disk.slow_down_reads(1);
    ring(&mut world);
    assert_eq!(deliveries(&mut world, reader), ["1", "2"]);
    world.send(reader, 1, BasicAck { delivery_tag: 2, multiple: true });
    assert_eq!(deliveries(&mut world, reader), ["3"]);
}

//! Connections end in bounded time, also when the client does not read what is left for it.

use super::client::{TestBroker, closed, names};
use crate::amqp::frame::HEARTBEAT;
use crate::amqp::method::{
    BasicCancel, BasicConsume, BasicGet, ChannelClose, ConnectionClose, ConnectionCloseOk, QueueDeclare, QueueDelete,
};
use crate::broker::{BrokerOptions, ConnectionId, Flow, Login};
use crate::journal::SimulatedDisk;
use crate::testing::or_few;

const SECOND_US: u64 = 1_000_000;

/// A client that has stopped reading, with deliveries that wait for it.
fn clogged(world: &mut TestBroker, heartbeat_s: u16) -> ConnectionId {
    let publisher = world.connect();
    let id = world.connect_as(Login { heartbeat_s, ..Login::default() });
    world.ask(id, 1, crate::amqp::method::ChannelOpen::default());
    world.declare(id, "work");
    world.consume(id, "work", "c", true);
    world.publish(publisher, "", "work", b"never read");
    world.broker.set_writable(id, false);
    id
}

/// Let time pass; the client says nothing and its socket takes nothing.
fn wait(world: &mut TestBroker, seconds: u64) {
    for _ in 0..seconds {
        world.now += SECOND_US;
        (0..10).for_each(|_| world.broker.tick(world.now, 0));
    }
}

#[test]
fn a_missed_heartbeat_ends_a_connection_that_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 10);
    wait(&mut world, 18);
    assert!(!world.broker.is_over(id), "it has another 2 seconds");
    wait(&mut world, 4);
    assert!(world.broker.is_over(id));
    let mut bytes = Vec::new();
    assert_eq!((world.broker.output(id, &mut bytes), bytes.len()), (Flow::Ended, 0));
}

#[test]
fn a_connection_that_an_operator_closes_ends_though_its_client_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.broker.close(id, "an operator", world.now);
    wait(&mut world, 9);
    assert!(!world.broker.is_over(id), "it has 10 seconds to answer");
    wait(&mut world, 3);
    assert!(world.broker.is_over(id));
}

#[test]
fn a_close_of_the_client_itself_ends_though_it_does_not_read() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.send(id, 0, ConnectionClose::default());
    wait(&mut world, 9);
    assert!(!world.broker.is_over(id), "it has 10 seconds to read");
    wait(&mut world, 3);
    assert!(world.broker.is_over(id));
}

#[test]
fn who_reads_gets_everything_before_the_end() {
    let mut world = TestBroker::default();
    let id = clogged(&mut world, 0);
    world.send(id, 0, ConnectionClose::default());
    world.broker.set_writable(id, true);
    assert_eq!(names(&world.seen(id)), ["basic.deliver", "connection.close-ok"]);
    let id = world.connect();
    world.broker.close(id, "an operator", world.now);
    assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), Some(320));
    world.send(id, 0, ConnectionCloseOk {});
    assert!(world.broker.is_over(id));
}

/// A client whose frames wait because it does not read the answers to those before.
fn with_frames_that_wait(world: &mut TestBroker) -> ConnectionId {
    let id = world.connect_as(Login { heartbeat_s: 10, ..Login::default() });
    world.ask(id, 1, crate::amqp::method::ChannelOpen::default());
    world.declare(id, "work");
    (0..20).for_each(|_| world.publish(id, "", "work", &[0; 100_000]));
    (0..20).for_each(|_| world.send(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() }));
    assert!(!world.broker.wants_input(id), "its frames wait");
    id
}

#[test]
fn a_client_that_does_not_read_while_its_frames_wait_ends_with_its_heartbeat() {
    let mut world = TestBroker::default();
    let id = with_frames_that_wait(&mut world);
    world.broker.set_writable(id, false);
    wait(&mut world, 18);
    assert!(!world.broker.is_over(id), "it has another 2 seconds");
    wait(&mut world, 4);
    assert!(world.broker.is_over(id));
}

#[test]
fn a_client_that_reads_slowly_while_its_frames_wait_goes_on() {
    let mut world = TestBroker::default();
    let id = with_frames_that_wait(&mut world);
    world.broker.options.output_bytes_at_once = 50_000;
    let mut count = 0;
    while !world.broker.wants_input(id) {
        wait(&mut world, 15);
        assert_eq!(world.broker.output(id, &mut Vec::new()), Flow::Open);
        count += 1;
    }
    assert!(count > 5, "{count} pieces");
    wait(&mut world, 15);
    world.broker.receive(id, &HEARTBEAT, world.now);
    wait(&mut world, 15);
    assert!(world.broker.wants_input(id));
}

#[test]
fn answers_that_wait_for_the_disk_and_what_is_got_behind_them_are_bounded() {
    const BODY_BYTES: usize = 100_000;
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let id = world.connect();
    world.declare(id, "work");
    (0..50).for_each(|_| world.publish(id, "", "work", &[0; BODY_BYTES]));
    let before = world.broker.memory().buffers;
    world.send(id, 1, QueueDeclare { queue: "durable", durable: true, ..Default::default() });
    for _ in 0..50 {
        world.send(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
    }
    assert!(names(&world.seen(id)).is_empty(), "the first answer waits for the disk");
    let delivered = world.broker.metrics().delivered as usize;
    let bytes_max = BrokerOptions::default().output_bytes_max;
    assert!((1..=bytes_max / BODY_BYTES + 1).contains(&delivered), "{delivered} are delivered");
    let counted = (world.broker.memory().buffers - before) as usize;
    assert!(counted >= delivered * BODY_BYTES, "{counted} bytes are counted");
    world.commit();
    let mut seen = names(&world.seen(id));
    while world.broker.has_work() {
        seen.extend(names(&world.more(id)));
    }
    assert_eq!((seen[0], seen.len()), ("queue.declare-ok", 51));
    assert!(seen[1..].iter().all(|name| *name == "basic.get-ok"), "{seen:?}");
    assert!(world.broker.wants_input(id));
}

/// Consumers of a channel by turns from two queues, one of which goes with its last consumer.
fn with_consumers(count: usize) -> (TestBroker, ConnectionId) {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    world.send(id, 1, QueueDeclare { queue: "auto", auto_delete: true, no_wait: true, ..Default::default() });
    for number in 0..count {
        let queue = ["work", "auto"][number % 2];
        world.send(id, 1, BasicConsume { queue, no_wait: true, ..Default::default() });
        while world.broker.has_work() {
            world.broker.work(0);
        }
    }
    world.seen(id);
    assert_eq!(world.broker.metrics().consumers as usize, count);
    (world, id)
}

#[test]
fn consumers_end_with_their_channel_connection_or_queue() {
    const COUNT: usize = or_few(2_000, 20);
    let (mut world, id) = with_consumers(COUNT);
    let other = world.connect();
    world.consume(other, "work", "other", true);
    assert_eq!(names(&world.ask(id, 1, ChannelClose::default())), ["channel.close-ok"]);
    assert_eq!((world.broker.metrics().consumers, world.broker.metrics().queues), (1, 1));
    world.publish(other, "", "work", b"x");
    assert_eq!(names(&world.seen(other)), ["basic.deliver"]);
    let (mut world, id) = with_consumers(COUNT);
    world.broker.disconnect(id, 0);
    assert_eq!((world.broker.metrics().consumers, world.broker.metrics().queues), (0, 1));
    let (mut world, id) = with_consumers(COUNT);
    let other = world.connect();
    world.ask(other, 1, QueueDelete { queue: "work", ..Default::default() });
    assert_eq!(names(&world.seen(id)), vec!["basic.cancel"; COUNT / 2]);
    assert_eq!(world.broker.metrics().consumers as usize, COUNT / 2);
    world.ask(id, 1, BasicCancel { consumer_tag: "none", no_wait: true });
}

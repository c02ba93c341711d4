//! Memory runs short: what counts, and who has to wait or go.

use super::client::{TestBroker, closed, names, published, table, text};
use crate::amqp::PropertyFields;
use crate::amqp::method::{BasicGet, BasicNack, QueueBind, QueueDeclare, TxSelect};
use crate::amqp::table::FieldValue;
use crate::broker::queues::letter::CONGESTED_LETTERS;
use crate::broker::{BrokerOptions, ConnectionId};

/// What a process may have that nothing counts, under a low limit.
const TOLERATED_BYTES: u64 = 32 << 20;

/// A message of 60,000 bytes, and all of it but the end.
fn message() -> (Vec<u8>, Vec<u8>) {
    let whole = published("", "none", &PropertyFields::default(), &[7; 60_000]);
    let half = whole[..whole.len() - 10].to_vec();
    (whole, half)
}

fn world() -> TestBroker {
    TestBroker::new(BrokerOptions { memory_bytes_max: 100_000, ..BrokerOptions::default() })
}

#[test]
fn messages_that_are_not_whole_yet_count_as_memory() {
    let mut world = world();
    let [first, second, third] = [(); 3].map(|()| world.connect());
    let (whole, half) = message();
    world.broker.receive(first, &half, 0);
    let metrics = world.broker.metrics();
    assert!(metrics.message_bytes > 50_000 && metrics.blocked == 0, "{metrics:?}");
    world.broker.receive(second, &half, 0);
    assert_eq!(world.broker.metrics().blocked, 1);
    world.publish(third, "", "none", b"x");
    assert_eq!(names(&world.seen(third)), ["connection.blocked"]);
    world.broker.disconnect(first, 0);
    assert_eq!((world.broker.metrics().blocked, names(&world.seen(third))), (0, vec!["connection.unblocked"]));
    world.broker.receive(second, &whole[half.len()..], 0);
    assert_eq!(world.broker.metrics().message_bytes, 0, "it was whole, and went nowhere");
}

#[test]
fn a_shortage_that_nobody_can_end_ends_with_whoever_has_most_of_it() {
    let mut world = world();
    let [first, second, third] = [(); 3].map(|()| world.connect());
    let (whole, half) = message();
    world.ask(first, 1, TxSelect {});
    world.broker.receive(first, &whole, 0);
    assert!(world.broker.metrics().message_bytes > 60_000, "an open transaction counts");
    world.broker.receive(second, &half, 0);
    world.publish(third, "", "none", b"x");
    assert_eq!(world.broker.metrics().blocked, 1);
    world.broker.tick(1, 0);
    let (_, code, text) = closed(&world.seen(first)).expect("the one with most");
    assert_eq!((code, text.contains("low on memory")), (506, true), "{text}");
    assert_eq!((world.broker.metrics().blocked, closed(&world.seen(second))), (0, None));
    assert_eq!(names(&world.seen(third)), ["connection.blocked", "connection.unblocked"]);
}

#[test]
fn memory_that_nothing_counts_blocks_publishers_beyond_what_is_tolerated() {
    let mut world = world();
    let publisher = world.connect();
    let tolerated = world.broker.memory().total() + TOLERATED_BYTES;
    world.broker.note_process_memory(tolerated);
    assert_eq!(world.broker.memory().uncounted, 0);
    world.broker.note_process_memory(tolerated + 100_000);
    assert_eq!(world.broker.memory().uncounted, 100_000);
    world.broker.tick(1, 0);
    world.publish(publisher, "", "none", b"x");
    assert_eq!((world.broker.metrics().blocked, names(&world.seen(publisher))), (1, vec!["connection.blocked"]));
    world.broker.note_process_memory(tolerated);
    world.broker.tick(2, 0);
    assert_eq!((world.broker.metrics().blocked, names(&world.seen(publisher))), (0, vec!["connection.unblocked"]));
}

#[test]
fn dead_letters_wait_while_the_process_has_far_too_much() {
    let mut world = world();
    let (id, reader) = (world.connect(), world.connect());
    world.declare(id, "dead");
    let to_dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
    world.send(id, 1, QueueDeclare { queue: "work", arguments: table(&to_dead), ..Default::default() });
    world.publish(id, "", "work", b"x");
    world.broker.note_process_memory(TOLERATED_BYTES + 500_000);
    world.broker.tick(1, 0);
    world.ask(reader, 1, BasicGet { queue: "work", ..Default::default() });
    world.send(reader, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: false });
    assert_eq!(world.broker.metrics().letters, 0);
    world.broker.note_process_memory(0);
    world.broker.tick(2, 0);
    assert_eq!(world.broker.metrics().letters, 1);
}

#[test]
fn dead_letters_to_several_queues_wait_while_memory_is_short_and_those_to_one_do_not() {
    for (exchange, expected) in [("amq.fanout", 0), ("", 1)] {
        let mut world = world();
        let (id, reader) = (world.connect(), world.connect());
        for queue in ["dead", "further"] {
            world.declare(id, queue);
            world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
        }
        let to_dead = [("x-dead-letter-exchange", text(exchange)), ("x-dead-letter-routing-key", text("dead"))];
        world.send(id, 1, QueueDeclare { queue: "work", arguments: table(&to_dead), ..Default::default() });
        world.publish(id, "", "work", b"x");
        let limit = world.broker.memory_bytes_max();
        let counted = world.broker.memory().total();
        world.broker.note_process_memory(TOLERATED_BYTES + limit + limit / 20);
        assert!(counted < limit);
        world.broker.tick(1, 0);
        assert_eq!(world.broker.metrics().blocked, 1);
        world.ask(reader, 1, BasicGet { queue: "work", ..Default::default() });
        world.send(reader, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: false });
        assert_eq!(world.broker.metrics().letters, expected, "to exchange '{exchange}'");
        world.broker.note_process_memory(0);
        world.broker.tick(2, 0);
        assert_eq!(world.broker.metrics().letters, 1);
    }
}

/// A world in which memory is short for good, beside a publisher whose messages a consumer takes at once.
fn short_beside_a_passing_publisher(no_ack: bool) -> (TestBroker, ConnectionId, ConnectionId) {
    let mut world = world();
    let (id, reader) = (world.connect(), world.connect());
    world.declare(id, "read");
    world.declare(id, "unread");
    world.consume(reader, "read", "tag", no_ack);
    world.publish(id, "", "read", b"first");
    world.seen(reader);
    let limit = world.broker.memory_bytes_max();
    world.broker.note_process_memory(TOLERATED_BYTES + limit + limit / 20);
    world.broker.tick(1, 0);
    assert_eq!(world.broker.metrics().blocked, 1);
    (world, id, reader)
}

#[test]
fn a_publisher_whose_messages_are_taken_at_once_goes_on_while_memory_is_short() {
    let (mut world, id, reader) = short_beside_a_passing_publisher(true);
    for _ in 0..100 {
        assert!(world.broker.wants_input(id));
        world.publish(id, "", "read", b"x");
        assert_eq!(names(&world.seen(reader)), ["basic.deliver"]);
    }
    // In two pieces.
    let whole = published("", "read", &PropertyFields::default(), &[7; 5000]);
    world.broker.receive(id, &whole[..3000], 0);
    assert!(world.broker.wants_input(id));
    world.broker.receive(id, &whole[3000..], 0);
    assert_eq!(names(&world.seen(reader)), ["basic.deliver"]);
    assert_eq!(names(&world.seen(id)), [""; 0]);
    world.publish(id, "", "unread", b"x");
    assert_eq!((names(&world.seen(id)), world.broker.wants_input(id)), (vec!["connection.blocked"], false));
}

#[test]
fn a_publisher_waits_with_all_others_when_memory_is_very_short() {
    let (mut world, id, reader) = short_beside_a_passing_publisher(true);
    let limit = world.broker.memory_bytes_max();
    world.broker.note_process_memory(TOLERATED_BYTES + limit + limit / 4);
    world.broker.tick(2, 0);
    world.publish(id, "", "read", b"x");
    assert_eq!((names(&world.seen(id)), world.broker.wants_input(id)), (vec!["connection.blocked"], false));
    assert_eq!(names(&world.seen(reader)), ["basic.deliver"], "what it had sent by then");
}

#[test]
fn what_a_consumer_keeps_unacknowledged_stops_its_publisher_in_the_end() {
    let (mut world, id, _) = short_beside_a_passing_publisher(false);
    let mut count = 0;
    while world.broker.wants_input(id) {
        world.publish(id, "", "read", &[7; 500]);
        count += 1;
        assert!(count < 1_000, "{:?}", world.broker.memory());
    }
    assert!(count > 1 && names(&world.seen(id)).contains(&"connection.blocked"), "{count}");
}

/// Let a second pass in ten ticks.
fn ten_ticks(world: &mut TestBroker) {
    for _ in 0..10 {
        world.now += 100_000;
        world.broker.tick(world.now, 0);
        while world.broker.has_work() {
            world.broker.work(world.now);
        }
    }
}

/// Twice as many messages as letters may wait, in each of the queues `left` and `right`, which expire at once. Letters wait
/// for memory.
fn with_many_that_expire() -> (TestBroker, u64) {
    let (mut world, count) = (TestBroker::new(BrokerOptions::default()), CONGESTED_LETTERS * 2);
    let id = world.connect();
    world.declare(id, "dead");
    for queue in ["left", "right"] {
        let further = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
        let arguments = [&further[..], &[("x-message-ttl", FieldValue::from(1_i64))]].concat();
        world.send(id, 1, QueueDeclare { queue, arguments: table(&arguments), ..Default::default() });
        for _ in 0..count {
            world.publish(id, "", queue, b"x");
        }
    }
    world.broker.note_process_memory(1 << 50);
    (world, 2 * count as u64)
}

#[test]
fn what_expires_waits_in_its_queue_while_too_many_dead_letters_wait() {
    let (mut world, count) = with_many_that_expire();
    let mut most = 0;
    for _ in 0..10 {
        ten_ticks(&mut world);
        most = most.max(world.broker.metrics().letters_waiting);
    }
    assert!((CONGESTED_LETTERS as u64..CONGESTED_LETTERS as u64 + 10_000).contains(&most), "{most} letters");
    let reader = world.connect();
    world.consume(reader, "left", "tag", true);
    assert_eq!(names(&world.seen(reader)), [""; 0], "nobody gets what has expired");
    world.broker.note_process_memory(0);
    (0..10).for_each(|_| ten_ticks(&mut world));
    assert_eq!(world.broker.metrics().letters, count);
}

#[test]
fn a_get_takes_no_turns_while_too_many_dead_letters_wait() {
    let (mut world, count) = with_many_that_expire();
    (0..10).for_each(|_| ten_ticks(&mut world));
    let reader = world.connect();
    world.send(reader, 1, BasicGet { queue: "left", no_ack: true, ..Default::default() });
    assert_eq!((world.broker.wants_input(reader), world.broker.turn.has_next()), (false, false));
    ten_ticks(&mut world);
    assert_eq!(names(&world.seen(reader)), [""; 0], "it waits");
    world.broker.note_process_memory(0);
    (0..10).for_each(|_| ten_ticks(&mut world));
    assert_eq!((names(&world.seen(reader)), world.broker.metrics().letters), (vec!["basic.get-empty"], count));
    assert!(world.broker.wants_input(reader));
}

#[test]
fn a_publisher_that_waited_for_another_reason_goes_on_when_only_memory_is_short() {
    let (mut world, id, reader) = short_beside_a_passing_publisher(true);
    let limit = world.broker.memory_bytes_max();
    for _ in 0..3 {
        world.broker.note_process_memory(TOLERATED_BYTES + limit * 2);
        world.broker.tick(1, 0);
        world.publish(id, "", "read", b"x");
        assert!(!world.broker.wants_input(id), "far too much: every publisher waits");
        world.broker.note_process_memory(TOLERATED_BYTES + limit + limit / 20);
        world.broker.tick(2, 0);
        assert!(world.broker.wants_input(id));
        world.seen(reader);
        world.publish(id, "", "read", b"x");
        assert!(world.broker.wants_input(id), "and it goes on passing");
    }
    assert_eq!(world.broker.metrics().blocked, 1, "memory is still short");
}

#[test]
fn a_publisher_whose_consumer_was_late_once_tries_again() {
    let (mut world, id, reader) = short_beside_a_passing_publisher(true);
    for _ in 0..5 {
        world.publish(id, "", "read", b"x");
    }
    world.broker.set_writable(reader, false);
    world.publish(id, "", "read", b"waits");
    assert!(!world.broker.wants_input(id), "its consumer does not read");
    world.broker.set_writable(reader, true);
    world.seen(reader);
    world.broker.tick(2, 0);
    world.publish(id, "", "read", b"x");
    assert!(world.broker.wants_input(id), "and now it does");
    assert_eq!(world.broker.metrics().blocked, 1, "memory is still short");
}

#[test]
fn a_publisher_whose_consumers_have_left_stops_trying() {
    let (mut world, id, reader) = short_beside_a_passing_publisher(true);
    for _ in 0..100 {
        world.publish(id, "", "read", b"x");
    }
    world.broker.disconnect(reader, 0);
    let mut tries = 0;
    for now in 2..200 {
        world.broker.tick(now, 0);
        tries += usize::from(world.broker.wants_input(id));
        world.publish(id, "", "read", b"x");
    }
    assert!((1..=40).contains(&tries), "{tries}");
}

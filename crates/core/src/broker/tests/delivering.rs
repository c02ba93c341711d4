//! From publish to consumer: order, credit, acknowledgement, requeue.

use super::client::{TestBroker, bodies, names, published};
use crate::amqp::method::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicNack, BasicPublish, BasicQos, BasicRecover, BasicReject,
    ChannelClose, ChannelOpen, QueueDeclare, QueueDelete, QueuePurge,
};
use crate::amqp::{Method, PropertyFields};
use crate::broker::{BrokerOptions, ConnectionId, Flow, Login};
use crate::testing::{Random, fewer, or_few};
use std::collections::BTreeSet;

fn qos(prefetch_count: u16, global: bool) -> BasicQos {
    BasicQos { prefetch_size: 0, prefetch_count, global }
}

#[test]
fn what_is_published_is_delivered_once_in_order() {
    let mut world = TestBroker::default();
    let (publisher, consumer) = (world.connect(), world.connect());
    world.declare(consumer, "work");
    world.publish(publisher, "", "work", b"1");
    assert_eq!(bodies(&world.consume(consumer, "work", "c", true)), ["1"]);
    for body in ["2", "3", "4"] {
        world.publish(publisher, "", "work", body.as_bytes());
    }
    assert_eq!(bodies(&world.seen(consumer)), ["2", "3", "4"]);
    let metrics = world.broker.metrics();
    assert_eq!((metrics.messages, metrics.message_bytes, metrics.delivered), (0, 0, 4));
}

#[test]
fn qos_is_for_later_consumers_or_for_the_whole_channel_as_the_client_takes_it() {
    for (qos_is_for_channel, expected) in [(false, &["1"][..]), (true, &["1", "2", "3"][..])] {
        let mut world = TestBroker::default();
        let publisher = world.connect();
        let id = world.connect_as(Login { qos_is_for_channel, ..Login::default() });
        world.ask(id, 1, ChannelOpen::default());
        world.declare(id, "work");
        world.ask(id, 1, qos(1, false));
        world.consume(id, "work", "c", false);
        for body in ["1", "2", "3", "4"] {
            world.publish(publisher, "", "work", body.as_bytes());
        }
        let mut seen = world.seen(id);
        seen.extend(world.ask(id, 1, qos(3, false)));
        assert_eq!(bodies(&seen), expected);
    }
}

/// A connection with the channels 1 and 2 open.
fn with_two_channels(world: &mut TestBroker) -> ConnectionId {
    let id = world.connect();
    world.ask(id, 2, ChannelOpen::default());
    id
}

#[test]
fn a_tag_is_that_of_one_consumer_of_its_channel_until_it_is_gone() {
    const TAGS: [&str; 4] = ["a", "b", "ab", "c"];
    let (mut random, mut world) = (Random(11), TestBroker::default());
    let mut id = with_two_channels(&mut world);
    world.declare(id, "work");
    world.declare(id, "other");
    let mut tags = BTreeSet::new();
    for _ in 0..fewer(2_000) {
        let (channel, consumer_tag) = (1 + random.below(2) as u16, TAGS[random.below(4)]);
        let queue = ["work", "other"][random.below(2)];
        match random.below(20) {
            0 => {
                world.ask(id, channel, ChannelClose::default());
                world.ask(id, channel, ChannelOpen::default());
                tags.retain(|(of, _)| *of != channel);
            }
            1..10 => {
                let seen = names(&world.ask(id, channel, BasicCancel { consumer_tag, no_wait: false }));
                assert_eq!(seen, ["basic.cancel-ok"]);
                tags.remove(&(channel, consumer_tag));
            }
            _ => {
                let seen = names(&world.ask(id, channel, BasicConsume { queue, consumer_tag, ..Default::default() }));
                if tags.insert((channel, consumer_tag)) {
                    assert_eq!(seen, ["basic.consume-ok"]);
                } else {
                    assert_eq!(seen, ["connection.close"]);
                    world.broker.disconnect(id, 0);
                    id = with_two_channels(&mut world);
                    tags.clear();
                }
            }
        }
        assert_eq!(world.broker.metrics().consumers as usize, tags.len());
    }
}

#[test]
fn the_stream_may_be_cut_anywhere() {
    const LONG: usize = or_few(9000, 100);
    let mut world = TestBroker::default();
    let (publisher, consumer) = (world.connect(), world.connect());
    world.declare(consumer, "work");
    world.consume(consumer, "work", "c", true);
    let mut stream = Vec::new();
    for body in [&b"one"[..], b"", b"three", &[b'x'; LONG]] {
        stream.extend(published("", "work", &PropertyFields::default(), body));
    }
    for size in [1, 2, 3, 5, 7, 8, 11, 64, 1000, 4096] {
        for piece in stream.chunks(size) {
            world.broker.receive(publisher, piece, 0);
        }
        let seen = world.seen(consumer);
        assert_eq!(seen.iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), [3, 0, 5, LONG], "cut at {size}");
    }
}

#[test]
fn a_consumer_gets_no_more_than_its_credit() {
    let mut world = TestBroker::default();
    let (publisher, consumer) = (world.connect(), world.connect());
    world.declare(consumer, "work");
    (0..5).for_each(|_| world.publish(publisher, "", "work", b"m"));
    world.ask(consumer, 1, qos(2, false));
    assert_eq!(world.consume(consumer, "work", "c", false).len(), 2);
    assert_eq!(bodies(&world.ask(consumer, 1, BasicAck { delivery_tag: 1, multiple: false })).len(), 1);
    assert_eq!(bodies(&world.ask(consumer, 1, BasicAck { delivery_tag: 3, multiple: true })).len(), 2);
    assert_eq!(bodies(&world.ask(consumer, 1, BasicAck { delivery_tag: 0, multiple: true })).len(), 0);
    assert_eq!(world.broker.metrics().messages, 0);
}

#[test]
fn consumers_of_a_channel_share_its_credit() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "a");
    world.declare(id, "b");
    world.ask(id, 1, qos(3, true));
    world.consume(id, "a", "ca", false);
    world.consume(id, "b", "cb", false);
    for _ in 0..4 {
        world.publish(id, "", "a", b"a");
        world.publish(id, "", "b", b"b");
    }
    assert_eq!(bodies(&world.seen(id)), ["a", "b", "a"]);
    assert_eq!(bodies(&world.ask(id, 1, qos(0, true))).len(), 5);
}

#[test]
fn rejected_messages_go_back_to_where_they_were() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    for body in ["1", "2", "3", "4"] {
        world.publish(id, "", "work", body.as_bytes());
    }
    world.ask(id, 1, qos(3, false));
    assert_eq!(bodies(&world.consume(id, "work", "c", false)), ["1", "2", "3"]);
    world.ask(id, 1, BasicCancel { consumer_tag: "c", no_wait: false });
    world.ask(id, 1, BasicReject { delivery_tag: 2, requeue: true });
    world.ask(id, 1, BasicNack { delivery_tag: 3, multiple: true, requeue: true });
    let mut got = Vec::new();
    for _ in 0..4 {
        let seen = world.ask(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
        let Method::BasicGetOk(ok) = seen[0].method() else { panic!("{:?}", seen[0].method()) };
        got.push((bodies(&seen).remove(0), ok.redelivered, ok.message_count));
    }
    let text = |body: &str| body.to_owned();
    assert_eq!(got, [(text("1"), true, 3), (text("2"), true, 2), (text("3"), true, 1), (text("4"), false, 0)]);
    assert_eq!(names(&world.ask(id, 1, BasicGet { queue: "work", ..Default::default() })), ["basic.get-empty"]);
}

#[test]
fn what_a_lost_consumer_had_goes_to_the_next() {
    let mut world = TestBroker::default();
    let (lost, next) = (world.connect(), world.connect());
    world.declare(next, "work");
    for body in ["1", "2", "3"] {
        world.publish(next, "", "work", body.as_bytes());
    }
    world.consume(lost, "work", "c", false);
    assert_eq!(world.consume(next, "work", "c", false).len(), 0);
    world.broker.disconnect(lost, 0);
    let seen = world.seen(next);
    assert_eq!(bodies(&seen), ["1", "2", "3"]);
    assert!(seen.iter().all(|seen| matches!(seen.method(), Method::BasicDeliver(it) if it.redelivered)));
}

#[test]
fn recover_delivers_again_and_settles_nothing() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    world.publish(id, "", "work", b"1");
    world.consume(id, "work", "c", false);
    let seen = world.ask(id, 1, BasicRecover { requeue: true });
    assert_eq!(names(&seen), ["basic.recover-ok", "basic.deliver"]);
    assert_eq!(names(&world.ask(id, 1, BasicAck { delivery_tag: 2, multiple: false })), [""; 0]);
}

#[test]
fn consumers_take_turns() {
    let mut world = TestBroker::default();
    let (publisher, a, b) = (world.connect(), world.connect(), world.connect());
    world.declare(a, "work");
    world.consume(a, "work", "c", true);
    world.consume(b, "work", "c", true);
    for body in ["1", "2", "3", "4"] {
        world.publish(publisher, "", "work", body.as_bytes());
    }
    assert_eq!(
        (bodies(&world.seen(a)), bodies(&world.seen(b))),
        (vec!["1".into(), "3".into()], vec!["2".into(), "4".into()])
    );
}

#[test]
fn a_consumer_that_does_not_read_gets_no_more_than_fits_its_buffer_and_stops_nobody() {
    let options = BrokerOptions { output_bytes_max: 10_000, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let (publisher, slow, fast) = (world.connect(), world.connect(), world.connect());
    world.declare(fast, "work");
    world.consume(slow, "work", "c", true);
    world.consume(fast, "work", "c", true);
    let mut got = 0;
    let count = or_few(100, 20);
    for _ in 0..count {
        world.publish(publisher, "", "work", &[0; 1000]);
        got += world.seen(fast).len();
    }
    assert!(got >= count - 10, "{got} of {count} went to the fast one");
    assert!(world.seen(slow).len() <= 10);
    world.broker.set_writable(slow, false);
    world.publish(publisher, "", "work", b"m");
    world.publish(publisher, "", "work", b"m");
    assert_eq!((world.seen(fast).len(), world.seen(slow).len()), (2, 0));
}

#[test]
fn a_client_that_asks_for_more_than_it_reads_waits() {
    let options = BrokerOptions { output_bytes_max: 50_000, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let id = world.connect();
    world.declare(id, "work");
    let count = or_few(100, 20);
    (0..count).for_each(|_| world.publish(id, "", "work", &[0; 10_000]));
    let mut gets = Vec::new();
    (0..count).for_each(|_| BasicGet { queue: "work", no_ack: true, ..Default::default() }.encode(1, &mut gets));
    world.broker.receive(id, &gets, 0);
    assert!(!world.broker.wants_input(id));
    assert!(world.broker.connections().next().expect("one")().bytes_waiting < 100_000);
    assert_eq!(bodies(&world.seen(id)).len(), count);
    assert!(world.broker.wants_input(id));
}

#[test]
fn a_purged_or_deleted_queue_leaves_nothing_behind() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    let count = fewer(5000);
    (0..count).for_each(|_| world.publish(id, "", "work", b"m"));
    let seen = world.ask(id, 1, QueuePurge { queue: "work", ..Default::default() });
    assert!(matches!(seen[0].method(), Method::QueuePurgeOk(it) if it.message_count as usize == count));
    (0..10).for_each(|tick| world.broker.tick(tick, 0));
    assert_eq!(world.broker.metrics().messages, 0);
    world.publish(id, "", "work", b"m");
    world.consume(id, "work", "c", false);
    let seen = world.ask(id, 1, QueueDelete { queue: "work", ..Default::default() });
    assert_eq!(names(&seen), ["queue.delete-ok", "basic.cancel"]);
    assert_eq!(names(&world.ask(id, 1, BasicAck { delivery_tag: 1, multiple: false })), [""; 0], "no error");
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().queues), (0, 0));
}

#[test]
fn queues_go_with_their_last_consumer_or_their_connection() {
    let mut world = TestBroker::default();
    let (id, other) = (world.connect(), world.connect());
    world.ask(id, 1, QueueDeclare { queue: "auto", auto_delete: true, ..Default::default() });
    world.ask(id, 1, QueueDeclare { queue: "mine", exclusive: true, ..Default::default() });
    let seen = world.ask(other, 1, QueueDeclare { queue: "mine", passive: true, ..Default::default() });
    assert_eq!(super::client::closed(&seen).map(|(_, code, _)| code), Some(405));
    assert_eq!(world.broker.metrics().queues, 2);
    world.consume(id, "auto", "c", true);
    world.ask(id, 1, BasicCancel { consumer_tag: "c", no_wait: false });
    assert_eq!(world.broker.metrics().queues, 1);
    world.broker.disconnect(id, 0);
    assert_eq!(world.broker.metrics().queues, 0);
}

#[test]
fn a_mandatory_message_without_a_queue_comes_back() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.confirm_select(id);
    let mut bytes = Vec::new();
    BasicPublish { exchange: "", routing_key: "none", mandatory: true, ..Default::default() }.encode(1, &mut bytes);
    crate::amqp::properties::put_content(&mut bytes, 1, &[], b"m", 4096);
    world.broker.receive(id, &bytes, 0);
    let seen = world.seen(id);
    assert_eq!(names(&seen), ["basic.return", "basic.ack"]);
    assert_eq!(seen[0].body, b"m");
}

#[test]
fn confirms_of_one_read_are_one_ack() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    world.confirm_select(id);
    let mut bytes = Vec::new();
    (0..10).for_each(|_| bytes.extend(published("", "work", &PropertyFields::default(), b"m")));
    world.broker.receive(id, &bytes, 0);
    let seen = world.seen(id);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].method(), Method::BasicAck(BasicAck { delivery_tag: 10, multiple: true }));
}

#[test]
fn an_ended_connection_is_told_once() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.send(id, 0, crate::amqp::method::ConnectionClose::default());
    let mut bytes = Vec::new();
    assert_eq!(world.broker.output(id, &mut bytes), Flow::Ended);
    assert_eq!(names(&super::client::read(&bytes).0), ["connection.close-ok"]);
    assert_eq!(world.broker.metrics().connections, 0);
}

#[test]
fn the_answer_to_a_deletion_comes_before_the_consumer_hears_of_it() {
    let disk = crate::journal::SimulatedDisk::new();
    for durable in [false, true] {
        let mut world = TestBroker::on_disk(&disk, crate::broker::BrokerOptions::default()).0;
        let id = world.connect();
        world.send(id, 1, QueueDeclare { queue: "work", durable, ..Default::default() });
        world.commit();
        world.seen(id);
        world.consume(id, "work", "c", false);
        world.send(id, 1, QueueDelete { queue: "work", ..Default::default() });
        if durable {
            assert_eq!(names(&world.seen(id)), [""; 0], "both wait for the disk");
            world.commit();
        }
        assert_eq!(names(&world.seen(id)), ["queue.delete-ok", "basic.cancel"]);
    }
}

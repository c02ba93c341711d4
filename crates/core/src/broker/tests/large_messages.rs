//! Large messages arrive in pieces and leave in pieces: each comes as it was sent, and is in memory once.

use std::sync::Arc;

use super::client::{EPOCH_US, ReceivedMethod, TestBroker, closed, names, published, table, text};
use crate::amqp::method::{
    BasicConsume, BasicGet, BasicPublish, BasicQos, BasicReject, ChannelOpen, QueueBind, QueueDeclare,
};
use crate::amqp::properties::put_content;
use crate::amqp::{Method, PropertyFields};
use crate::broker::{BrokerOptions, ConnectionId, Flow};
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::{Random, fewer};

fn body(size: usize, seed: u8) -> Vec<u8> {
    (0..size).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// The frames of a publish to the queue `work`, one by one.
fn frames(channel: u16, body: &[u8], frame_max: usize) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    BasicPublish { routing_key: "work", ..Default::default() }.encode(channel, &mut bytes);
    put_content(&mut bytes, channel, &[0, 0], body, frame_max);
    let mut frames = Vec::new();
    while bytes.len() > 7 {
        let size = u32::from_be_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]) as usize;
        let remaining = bytes.split_off(size + 8);
        frames.push(std::mem::replace(&mut bytes, remaining));
    }
    frames
}

/// The messages that a consumer gets, with their delivery tags, and how the publisher was closed.
#[derive(PartialEq)]
struct Outcome {
    delivered: Vec<(Vec<u8>, u64)>,
    end: Option<(u16, u16, String)>,
}

/// What comes of the publisher's bytes, in these pieces.
fn outcome(pieces: &[&[u8]]) -> Outcome {
    let mut world = TestBroker::default();
    let (publisher, consumer) = (world.connect(), world.connect());
    drop(world.ask(publisher, 2, ChannelOpen::default()));
    world.declare(consumer, "work");
    drop(world.consume(consumer, "work", "c", true));
    let mut delivered = Vec::new();
    let mut end = None;
    for piece in pieces {
        world.broker.receive(publisher, piece, world.now);
        for message in world.more(consumer) {
            let Method::BasicDeliver(delivery) = message.method() else { panic!("only deliveries") };
            delivered.push((message.body.clone(), delivery.delivery_tag));
        }
        end = end.or(closed(&world.seen(publisher)));
    }
    Outcome { delivered, end }
}

#[test]
fn messages_are_the_same_wherever_their_bytes_are_cut() {
    let mut random = Random(7);
    for round in 0..fewer(60) {
        // Frames of two channels, in any order between the two.
        let mut queues = [Vec::new(), Vec::new()];
        for (index, queue) in queues.iter_mut().enumerate() {
            for _ in 0..=random.below(2) {
                let size = random.pick(&[0, 1, 100, 4088, 4089, 10_000, 150_000]);
                queue.extend(frames(1 + index as u16, &body(size, random.bits() as u8), random.pick(&[4096, 131_072])));
            }
            queue.reverse();
        }
        let mut stream = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            stream.extend(queues[random.below(2)].pop().unwrap_or_default());
        }
        let fault = random.below(4);
        if fault == 0 {
            // Any octet: an end, a size, a channel, or a byte of a body.
            let at = random.below(stream.len());
            stream[at] = stream[at].wrapping_add(1 + random.below(255) as u8);
        }
        let expected = outcome(&[&stream]);
        let mut pieces = Vec::new();
        let mut remaining = &stream[..];
        let piece_max = random.pick(&[3, 100, 5_000, 300_000]);
        while !remaining.is_empty() {
            // The first byte of a piece of a byte each costs most: not too many of them.
            let size = 1 + random.below(piece_max.max(stream.len() / 2_000));
            let (piece, rest) = remaining.split_at(size.min(remaining.len()));
            pieces.push(piece);
            remaining = rest;
        }
        assert!(outcome(&pieces) == expected, "round {round}");
    }
}

#[test]
fn a_large_body_is_wanted_in_pieces_while_another_client_waits() {
    let mut world = TestBroker::default();
    let [publisher, other] = [world.connect(), world.connect()];
    world.declare(other, "work");
    let bytes = frames(1, &body(300_000, 1), 131_072).concat();
    world.broker.receive(publisher, &bytes[..100_000], 0);
    assert!(!world.broker.wants_pieces(publisher), "nobody waits");
    (0..8).for_each(|_| world.publish(other, "", "work", b"x"));
    assert!(world.broker.wants_pieces(publisher) && !world.broker.wants_pieces(other));
    world.broker.receive(publisher, &bytes[100_000..250_000], 0);
    assert!(!world.broker.wants_pieces(publisher), "little is missing");
    world.broker.receive(publisher, &bytes[250_000..], 0);
    world.broker.receive(publisher, &bytes[..100_000], 0);
    assert!(world.broker.wants_pieces(publisher), "the next one");
    world.broker.disconnect(publisher, 0);
    assert!(!world.broker.wants_pieces(publisher), "it has gone");
}

#[test]
fn a_channel_that_is_closed_during_a_frame_drops_the_rest_of_it() {
    let options = BrokerOptions { message_bytes_max: 50_000, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let id = world.connect();
    world.declare(id, "work");
    // The first message is too large, so that its channel is closed when its header comes.
    let refused = frames(1, &body(60_000, 1), 131_072).concat();
    world.broker.receive(id, &refused[..200], world.now);
    assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), Some(406));
    world.broker.receive(id, &refused[200..30_000], world.now);
    world.broker.receive(id, &refused[30_000..], world.now);
    drop(world.ask(id, 1, crate::amqp::method::ChannelCloseOk {}));
    assert_eq!(names(&world.ask(id, 1, ChannelOpen::default())), ["channel.open-ok"]);
    let taken = frames(1, &body(40_000, 2), 131_072).concat();
    taken.chunks(9_999).for_each(|piece| world.broker.receive(id, piece, world.now));
    let seen = world.ask(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
    assert_eq!(seen[0].body, body(40_000, 2));
}

/// The bytes that a connection is handed in pieces, and the most memory that was in use meanwhile.
fn taken(world: &mut TestBroker, id: ConnectionId) -> (Vec<ReceivedMethod>, u64) {
    let (mut bytes, mut most) = (Vec::new(), 0);
    loop {
        most = most.max(world.broker.memory().total());
        let mut piece = Vec::new();
        let flow = world.broker.output(id, &mut piece);
        assert!(piece.len() <= BrokerOptions::default().output_bytes_at_once);
        bytes.extend_from_slice(&piece);
        if piece.is_empty() || flow == Flow::Ended {
            break;
        }
    }
    let (seen, used) = super::client::read(&bytes);
    assert_eq!(used, bytes.len(), "whole frames");
    (seen, most)
}

const LARGE: usize = 4 << 20;

#[test]
fn deliveries_answers_and_returns_of_a_large_message_are_what_was_sent() {
    let mut world = TestBroker::default();
    let (publisher, consumer, getter) = (world.connect(), world.connect(), world.connect());
    for (queue, id) in [("first", consumer), ("second", getter)] {
        world.declare(id, queue);
        drop(world.ask(id, 1, QueueBind { queue, exchange: "amq.fanout", ..Default::default() }));
    }
    world.send(consumer, 1, BasicConsume { queue: "first", no_ack: true, ..Default::default() });
    drop(world.seen(consumer));
    let at_first = world.broker.memory().total();
    for round in 0..3 {
        let sent = body(LARGE, round);
        world.publish(publisher, "amq.fanout", "", &sent);
        world.send(getter, 1, BasicGet { queue: "second", no_ack: true, ..Default::default() });
        let (delivered, _) = taken(&mut world, consumer);
        let (got, _) = taken(&mut world, getter);
        assert_eq!((names(&delivered), names(&got)), (vec!["basic.deliver"], vec!["basic.get-ok"]));
        assert!(delivered[0].body == sent && got[0].body == sent);
        let bytes = {
            let mut bytes = Vec::new();
            BasicPublish { routing_key: "nobody", mandatory: true, ..Default::default() }.encode(1, &mut bytes);
            put_content(&mut bytes, 1, &[0, 0], &sent, 4096);
            bytes
        };
        world.broker.receive(publisher, &bytes, world.now);
        let (returned, most) = taken(&mut world, publisher);
        assert!(names(&returned) == ["basic.return"] && returned[0].body == sent);
        assert!(most < at_first + (LARGE + LARGE / 2) as u64 + (1 << 20), "a return is in memory once: {most}");
    }
    world.broker.tick(world.now, EPOCH_US);
    world.broker.tick(world.now, EPOCH_US);
    let left = world.broker.memory().total() - at_first;
    assert!(left < 2 << 20, "{left} bytes are left");
}

#[test]
fn a_large_message_and_small_ones_keep_their_order() {
    let mut world = TestBroker::default();
    let (publisher, consumer) = (world.connect(), world.connect());
    world.declare(consumer, "work");
    drop(world.consume(consumer, "work", "c", true));
    let sizes = [10, 200_000, 3, 130_000, 131_072, 1, 0, 400_000, 5];
    let mut bytes = Vec::new();
    for (index, size) in sizes.into_iter().enumerate() {
        bytes.extend(published("", "work", &PropertyFields::default(), &body(size, index as u8)));
    }
    world.broker.receive(publisher, &bytes, world.now);
    let mut found = Vec::new();
    for _ in 0..sizes.len() {
        found.extend(world.more(consumer).into_iter().map(|message| message.body));
    }
    let expected: Vec<_> = sizes.into_iter().enumerate().map(|(index, size)| body(size, index as u8)).collect();
    assert!(found == expected);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_large_message_to_many_streams_is_kept_once_until_it_is_written_and_read_as_it_was_sent() {
    const STREAMS: usize = 12;
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, reader) = (world.connect(), world.connect());
    let names: [&'static str; STREAMS] =
        std::array::from_fn(|number| &*Box::leak(format!("s{number}").into_boxed_str()));
    for queue in names {
        let arguments = table(&[("x-queue-type", text("stream"))]);
        world.ask(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        world.commit_streams();
        world.ask(id, 1, QueueBind { queue, exchange: "amq.fanout", ..Default::default() });
        world.ask(reader, 1, BasicQos { prefetch_count: 10, ..Default::default() });
        world.ask(reader, 1, BasicConsume { queue, no_wait: true, ..Default::default() });
    }
    world.seen(id);
    world.seen(reader);
    let (large, before) = (body(300_000, 3), world.broker.memory());
    world.publish(id, "amq.fanout", "", b"before");
    world.publish(id, "amq.fanout", "", &large);
    world.publish(id, "amq.fanout", "", b"behind");
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
    // Waiting to be written, it counts once; for live readers it counts with each stream, up to their limit.
    let grown = world.broker.memory().journal - before.journal;
    assert!((13 * 300_000..13 * 300_000 + 50_000).contains(&grown), "{grown} bytes");
    world.commit();
    let mut seen = Vec::new();
    for _ in 0..STREAMS {
        while world.broker.has_work() {
            world.broker.work(world.now);
        }
        seen.append(&mut taken(&mut world, reader).0);
    }
    let deliveries: Vec<&[u8]> = seen.iter().map(|it| &it.body[..]).collect();
    assert_eq!(deliveries.len(), 3 * STREAMS);
    assert_eq!(deliveries.iter().filter(|body| **body == large).count(), STREAMS);
    assert!(world.broker.memory().journal <= before.journal);
    // Somebody who reads it from the disk gets the same, also after a crash.
    drop(world);
    disk.power_cut(&mut Dice::new(9));
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let reader = world.connect();
    world.ask(reader, 1, BasicQos { prefetch_count: 10, ..Default::default() });
    for queue in names {
        let arguments = table(&[("x-stream-offset", text("first"))]);
        world.send(reader, 1, BasicConsume { queue, arguments, no_wait: true, ..Default::default() });
        while world.broker.has_work() {
            world.broker.work(world.now);
        }
        let (seen, _) = taken(&mut world, reader);
        let found: Vec<&[u8]> = seen.iter().map(|it| &it.body[..]).collect();
        assert_eq!(found, [b"before", &large[..], b"behind"]);
    }
}

/// How many have the bytes of each message that is stored.
fn holders(world: &TestBroker) -> Vec<usize> {
    let messages = &world.broker.messages;
    let shared = messages.audit().filter_map(|(id, ..)| messages.shared_body(id));
    shared.map(|body| Arc::strong_count(&body.bytes) - 1).collect()
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn queues_and_the_journal_have_a_large_message_together() {
    let disk = SimulatedDisk::new();
    let large = body(300_000, 5);
    for pieces in [1, 2] {
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let id = world.connect();
        let letters = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
        for (queue, arguments) in [("work", table(&letters)), ("dead", table(&[]))] {
            world.ask(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        }
        world.commit();
        world.seen(id);
        // In one read, and in two.
        let properties = PropertyFields { delivery_mode: Some(2), ..Default::default() };
        let bytes = published("", "work", &properties, &large);
        bytes.chunks(bytes.len().div_ceil(pieces)).for_each(|piece| world.broker.receive(id, piece, 0));
        assert_eq!(holders(&world), [2], "the store and the journal");
        world.commit();
        assert_eq!(holders(&world), [1], "the store");
        world.send(id, 1, BasicGet { queue: "work", ..Default::default() });
        let (got, _) = taken(&mut world, id);
        let Method::BasicGetOk(delivery) = got[0].method() else { panic!("{:?}", names(&got)) };
        world.send(id, 1, BasicReject { delivery_tag: delivery.delivery_tag, requeue: false });
        while world.broker.has_work() {
            world.broker.work(0);
        }
        assert!(holders(&world).contains(&2), "the letter");
        world.commit();
        while world.broker.has_work() {
            world.broker.work(0);
        }
        assert_eq!(holders(&world), [1], "the letter alone is left");
        drop(world);
        disk.power_cut(&mut Dice::new(9));
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let id = world.connect();
        world.send(id, 1, BasicGet { queue: "dead", no_ack: true, ..Default::default() });
        assert!(taken(&mut world, id).0[0].body == large);
        world.commit();
    }
}

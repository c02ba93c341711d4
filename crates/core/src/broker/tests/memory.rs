//! Everything that takes memory counts, leaves memory when it can, and stops somebody when it cannot.

use super::client::{TestBroker, bodies, closed, names, published};
use crate::amqp::method::{
    BasicAck, BasicConsume, BasicGet, BasicNack, BasicQos, ChannelClose, ChannelOpen, QueueBind, QueueDeclare,
    QueueDelete,
};
use crate::amqp::{Method, PropertyFields};
use crate::broker::{BrokerOptions, ConnectionId, Flow, Login};
use crate::journal::{Disk, SimulatedDisk};
use std::path::Path;

const MEBIBYTE: u64 = 1 << 20;

fn on_disk(memory_bytes_max: u64) -> TestBroker {
    on(&SimulatedDisk::new(), memory_bytes_max)
}

fn on(disk: &SimulatedDisk, memory_bytes_max: u64) -> TestBroker {
    let options = BrokerOptions { memory_bytes_max, output_bytes_max: 16 * 1024, ..BrokerOptions::default() };
    TestBroker::on_disk(disk, options).0
}

/// The names of the files that have entries of queues, or had some.
fn spill_files(disk: &SimulatedDisk) -> Vec<String> {
    disk.list(Path::new("/data/spill")).unwrap_or_default()
}

/// Queues bound to amq.fanout, by their names.
fn fan_out(world: &mut TestBroker, id: ConnectionId, count: usize) -> Vec<&'static str> {
    let queues: Vec<&'static str> =
        (0..count).map(|number| &*Box::leak(format!("q{number}").into_boxed_str())).collect();
    for queue in &queues {
        world.send(id, 1, QueueDeclare { queue, no_wait: true, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
    }
    queues
}

pub(super) fn rest(world: &mut TestBroker) {
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
}

/// Publish to the fan-out until `count` are taken or the publisher is blocked. Returns how many were taken.
fn publish_until_blocked(world: &mut TestBroker, id: ConnectionId, count: u32) -> u32 {
    for number in 0..count {
        if !world.broker.wants_input(id) {
            return number;
        }
        world.publish(id, "amq.fanout", "", number.to_string().as_bytes());
        rest(world);
    }
    count
}

/// Let a large message be delivered to many consumers that wait, each on a connection of its own, or be fetched by as many
/// with basic.get. Returns the most memory that was in use, and the number of rounds of reading until all had it.
fn large_to_many(is_fetched: bool) -> (u64, usize) {
    const COUNT: usize = 60;
    let mut world = TestBroker::new(BrokerOptions { memory_bytes_max: 64 * MEBIBYTE, ..BrokerOptions::default() });
    let id = world.connect();
    let queues = fan_out(&mut world, id, COUNT);
    let readers: Vec<ConnectionId> = queues.iter().map(|_| world.connect()).collect();
    if !is_fetched {
        readers.iter().zip(&queues).for_each(|(reader, queue)| drop(world.consume(*reader, queue, "large", true)));
    }
    world.publish(id, "amq.fanout", "", &vec![7; 4 << 20]);
    if is_fetched {
        let get = |queue| BasicGet { queue, no_ack: true, ..Default::default() };
        readers.iter().zip(&queues).for_each(|(reader, queue)| world.send(*reader, 1, get(queue)));
    }
    let (mut most, mut count, mut rounds) = (0, 0, 0);
    while count < COUNT && rounds < COUNT {
        rest(&mut world);
        most = most.max(world.broker.memory().total());
        count += readers.iter().map(|reader| world.seen(*reader).len()).sum::<usize>();
        rounds += 1;
        world.now += 100_000;
        world.broker.tick(world.now, 0);
    }
    assert_eq!((count, world.broker.metrics().messages), (COUNT, 0), "all have it");
    (most, rounds)
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_large_message_to_many_is_copied_as_memory_allows() {
    for is_fetched in [false, true] {
        let (most, rounds) = large_to_many(is_fetched);
        assert!((32 * MEBIBYTE..=65 * MEBIBYTE).contains(&most), "{most} bytes are in use");
        assert!((4..20).contains(&rounds), "{rounds} rounds");
    }
}

/// Let consumers stop reading that send heartbeats, and others read a little twice a minute. Returns the number of consumers
/// that have been cut after so many seconds, and whether another client has got a large message by then.
fn after_not_reading(memory_bytes_max: u64, seconds: u64) -> (usize, bool) {
    const COUNT: usize = 40;
    let mut world = TestBroker::new(BrokerOptions { memory_bytes_max, ..BrokerOptions::default() });
    let id = world.connect();
    let queues = fan_out(&mut world, id, COUNT);
    let login = Login { heartbeat_s: 60, ..Login::default() };
    let readers: Vec<ConnectionId> = queues.iter().map(|_| world.connect_as(login.clone())).collect();
    for (reader, queue) in readers.iter().zip(&queues) {
        drop(world.ask(*reader, 1, ChannelOpen::default()));
        drop(world.consume(*reader, queue, "c", true));
    }
    (0..10).for_each(|_| world.publish(id, "amq.fanout", "", &[7; 10_000]));
    rest(&mut world);
    readers.iter().for_each(|reader| world.broker.set_writable(*reader, false));
    let other = world.connect();
    world.broker.options.output_bytes_at_once = 100;
    world.declare(other, "large");
    world.publish(other, "", "large", &vec![7; 4 << 20]);
    world.send(other, 1, BasicConsume { queue: "large", no_ack: true, ..Default::default() });
    let mut got = 0;
    for second in 1..=seconds {
        world.now += 1_000_000;
        if second % 30 == 0 {
            for reader in &readers[..2] {
                world.broker.set_writable(*reader, true);
                assert_eq!(world.broker.output(*reader, &mut Vec::new()), Flow::Open);
                world.broker.set_writable(*reader, false);
            }
        }
        readers.iter().for_each(|reader| world.broker.receive(*reader, &crate::amqp::frame::HEARTBEAT, world.now));
        (0..10).for_each(|_| world.broker.tick(world.now, 0));
        rest(&mut world);
        for reader in readers.iter().filter(|reader| world.broker.is_over(**reader)).copied().collect::<Vec<_>>() {
            assert_eq!(world.broker.output(reader, &mut Vec::new()), Flow::Ended);
        }
        world.broker.options.output_bytes_at_once = 256 << 10;
        got += bodies(&world.seen(other)).len();
        world.broker.options.output_bytes_at_once = 100;
    }
    (COUNT + 2 - world.broker.metrics().connections as usize, got == 1)
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn clients_that_do_not_read_hold_up_large_messages_of_others_for_a_minute_at_most() {
    assert_eq!(after_not_reading(12 * MEBIBYTE, 55), (0, false), "nobody is cut in a minute");
    assert_eq!(after_not_reading(12 * MEBIBYTE, 65), (38, true), "those that take a little stay");
    assert_eq!(after_not_reading(500 * MEBIBYTE, 300), (0, true), "nobody is cut where there is room");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn entries_that_nobody_reads_wait_on_disk() {
    let disk = SimulatedDisk::new();
    let mut world = on(&disk, 2 * MEBIBYTE);
    let id = world.connect();
    let queues = fan_out(&mut world, id, 50);
    assert_eq!(publish_until_blocked(&mut world, id, 5_000), 5_000, "250,000 entries of 24 bytes, and nobody waits");
    let memory = world.broker.memory();
    assert!(memory.entries < MEBIBYTE && memory.total() < 2 * MEBIBYTE, "{memory:?}");
    let reader = world.connect();
    for queue in [queues[0], queues[49]] {
        let mut taken = bodies(&world.consume(reader, queue, queue, true));
        while taken.len() < 5_000 {
            taken.extend(bodies(&world.more(reader)));
        }
        assert!(taken.into_iter().eq((0..5_000).map(|number| number.to_string())), "all of {queue}, in order");
    }
    let full = spill_files(&disk).len();
    assert!(full > 2, "5 MB in files of 1 MiB");
    for queue in queues {
        world.send(reader, 1, QueueDelete { queue, no_wait: true, ..Default::default() });
    }
    rest(&mut world);
    assert_eq!(spill_files(&disk).len(), full, "nobody who serves clients removes a file");
    (0..full).for_each(|_| world.commit());
    assert_eq!(spill_files(&disk), Vec::<String>::new());
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn entries_that_cannot_leave_memory_block_their_publisher() {
    let options = BrokerOptions { memory_bytes_max: 2 * MEBIBYTE, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let id = world.connect();
    let queues = fan_out(&mut world, id, 50);
    let taken = publish_until_blocked(&mut world, id, 5_000);
    assert!((500..2_000).contains(&taken), "{taken} messages of 50 entries");
    assert_eq!(names(&world.seen(id)).last(), Some(&"connection.blocked"));
    assert!(world.broker.memory().total() < MEBIBYTE * 5 / 2, "{:?}", world.broker.memory());
    let other = world.connect();
    for queue in queues {
        world.send(other, 1, QueueDelete { queue, no_wait: true, ..Default::default() });
    }
    rest(&mut world);
    let memory = world.broker.memory();
    assert_eq!((memory.entries, memory.messages, world.broker.metrics().blocked), (0, 0, 0), "{memory:?}");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn messages_that_left_memory_stay_away_when_a_durable_queue_is_done_with_them() {
    const COUNT: u32 = 2_000;
    let mut world = on_disk(MEBIBYTE);
    let id = world.connect();
    world.send(id, 1, QueueDeclare { queue: "kept", durable: true, no_wait: true, ..Default::default() });
    world.send(id, 1, QueueDeclare { queue: "passing", no_wait: true, ..Default::default() });
    for queue in ["kept", "passing"] {
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", no_wait: true, ..Default::default() });
    }
    for number in 0..COUNT {
        let message = published(
            "amq.fanout",
            "",
            &PropertyFields { delivery_mode: Some(2), ..Default::default() },
            format!("{number:01000}").as_bytes(),
        );
        world.broker.receive(id, &message, 0);
        if number % 20 == 0 {
            world.commit();
        }
    }
    world.commit();
    let reader = world.connect();
    let mut taken = world.consume(reader, "kept", "c", true).len() as u32;
    while taken < COUNT {
        taken += world.more(reader).len() as u32;
        world.commit();
    }
    let memory = world.broker.memory();
    assert!(memory.total() < MEBIBYTE, "{memory:?}");
    world.publish(id, "", "none", b"x");
    assert!(world.broker.wants_input(id), "publishers go on");
    let mut taken = bodies(&world.consume(reader, "passing", "d", true));
    while taken.len() < COUNT as usize {
        taken.extend(bodies(&world.more(reader)));
        world.commit();
    }
    assert!(taken.into_iter().eq((0..COUNT).map(|number| format!("{number:01000}"))));
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().lost), (0, 0));
}

/// A consumer with `count` deliveries that it has not acknowledged.
fn holding(world: &mut TestBroker, count: usize) -> ConnectionId {
    let id = world.connect();
    world.declare(id, "work");
    for number in 0..count {
        world.publish(id, "", "work", number.to_string().as_bytes());
    }
    let reader = world.connect();
    let mut taken = world.consume(reader, "work", "c", false).len();
    while taken < count {
        taken += world.more(reader).len();
    }
    reader
}

fn depth(world: &mut TestBroker) -> u32 {
    let id = world.connect();
    let seen = world.ask(id, 1, QueueDeclare { queue: "work", passive: true, ..Default::default() });
    let Method::QueueDeclareOk(ok) = seen[0].method() else { panic!("the queue is there") };
    ok.message_count
}

#[test]
#[cfg_attr(miri, ignore = "looks at counts that take miri minutes")]
fn very_many_deliveries_are_settled_a_part_at_a_time() {
    const COUNT: usize = 35_000;
    let mut world = TestBroker::default();
    let reader = holding(&mut world, COUNT);
    world.send(reader, 1, BasicQos { prefetch_count: 1, global: true, ..Default::default() });
    world.seen(reader);
    world.send(reader, 1, BasicNack { delivery_tag: 0, multiple: true, requeue: true });
    world.send(reader, 1, BasicAck { delivery_tag: 0, multiple: true });
    let before = depth(&mut world) as usize;
    assert!((1..=20_000).contains(&before), "{before} came back at once");
    let mut steps = 0;
    while world.broker.has_work() {
        world.broker.work(0);
        steps += 1;
    }
    assert!((2..=8).contains(&steps), "{steps} steps");
    // What was delivered again in between was acknowledged by the second method.
    let left = depth(&mut world) as usize;
    assert!(left >= COUNT - 2, "{left} are left");
    world.seen(reader);
}

#[test]
#[cfg_attr(miri, ignore = "looks at counts that take miri minutes")]
fn what_a_client_settled_before_it_went_is_settled_and_the_rest_comes_back() {
    const COUNT: usize = 50_000;
    let mut world = TestBroker::default();
    let reader = holding(&mut world, COUNT);
    world.send(reader, 1, BasicAck { delivery_tag: 40_000, multiple: true });
    assert!(world.broker.has_work());
    world.broker.disconnect(reader, 0);
    rest(&mut world);
    assert_eq!(depth(&mut world), 10_000);
    let id = world.connect();
    let first = world.ask(id, 1, BasicGet { queue: "work", no_ack: true, ..Default::default() });
    assert_eq!(bodies(&first), ["40000"]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at counts that take miri minutes")]
fn a_channel_that_closes_gives_back_very_many_deliveries_in_order() {
    const COUNT: usize = 30_000;
    let mut world = TestBroker::default();
    let reader = holding(&mut world, COUNT);
    let close = ChannelClose { reply_code: 200, reply_text: "", class_id: 0, method_id: 0 };
    assert_eq!(names(&world.ask(reader, 1, close)), ["channel.close-ok"]);
    world.ask(reader, 1, ChannelOpen::default());
    rest(&mut world);
    let mut taken = bodies(&world.consume(reader, "work", "d", true));
    while taken.len() < COUNT {
        taken.extend(bodies(&world.more(reader)));
    }
    assert!(taken.into_iter().eq((0..COUNT).map(|number| number.to_string())));
}

#[test]
#[cfg_attr(miri, ignore = "looks at counts that take miri minutes")]
fn definitions_are_refused_when_they_take_half_of_the_memory() {
    let options = BrokerOptions { memory_bytes_max: MEBIBYTE, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let id = world.connect();
    let bind = |queue| QueueBind { queue, exchange: "amq.fanout", ..Default::default() };
    let mut made = 0;
    let refused = loop {
        let queue = &*Box::leak(format!("q{made}").into_boxed_str());
        let seen = world.ask(id, 1, QueueDeclare { queue, ..Default::default() });
        match closed(&seen) {
            Some((_, code, text)) => break (code, text.contains("low on memory")),
            None => made += 1,
        }
        if made == 1 {
            assert_eq!(names(&world.ask(id, 1, bind("q0"))), ["queue.bind-ok"]);
        }
        assert!(made < 5_000, "{:?}", world.broker.memory());
    };
    assert_eq!((refused, made > 100), ((506, true), true), "after {made}");
    let id = world.connect();
    assert!(closed(&world.ask(id, 1, QueueDeclare { queue: "q0", ..Default::default() })).is_none(), "it is there");
    assert_eq!(names(&world.ask(id, 1, bind("q0"))), ["queue.bind-ok"], "so is its binding");
    world.publish(id, "", "q0", b"x");
    assert!(world.broker.wants_input(id), "there is room for messages");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn deliveries_that_nobody_acknowledges_do_not_grow_over_the_limit() {
    let mut world = on_disk(2 * MEBIBYTE);
    let id = world.connect();
    world.declare(id, "work");
    let mut published = 0;
    while world.broker.wants_input(id) {
        world.publish(id, "", "work", published.to_string().as_bytes());
        published += 1;
        if published % 100 == 0 {
            world.commit();
            rest(&mut world);
        }
        assert!(published < 50_000);
    }
    let reader = world.connect();
    world.send(reader, 1, BasicConsume { queue: "work", consumer_tag: "c", no_wait: true, ..Default::default() });
    let mut tags = 0;
    while let count @ 1.. = world.more(reader).len() {
        tags += count as u64;
    }
    let memory = world.broker.memory();
    assert!(memory.total() < MEBIBYTE * 5 / 2 && tags < published, "{tags} of {published} are out: {memory:?}");
    // Whoever acknowledges gets the others.
    while tags < published {
        world.send(reader, 1, BasicAck { delivery_tag: tags, multiple: true });
        world.broker.tick(world.now, 0);
        tags +=
            world.seen(reader).iter().filter(|seen| matches!(seen.method(), Method::BasicDeliver(_))).count() as u64;
    }
    world.send(reader, 1, BasicAck { delivery_tag: tags, multiple: true });
    rest(&mut world);
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().blocked), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_index_of_the_journals_current_segment_counts_until_it_is_full() {
    let options = BrokerOptions { memory_bytes_max: 16 * MEBIBYTE, ..BrokerOptions::default() };
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), options).0;
    let id = world.connect();
    world.send(id, 1, QueueDeclare { queue: "kept", durable: true, no_wait: true, ..Default::default() });
    world.commit();
    let persistent = PropertyFields { delivery_mode: Some(2), ..Default::default() };
    let (mut highest, mut has_fallen) = (0, false);
    for _ in 0..1_500 {
        let message = published("", "kept", &persistent, b"x");
        world.broker.receive(id, &message.repeat(20), 0);
        world.commit();
        world.ask(id, 1, BasicGet { queue: "kept", no_ack: true, ..Default::default() });
        let bytes = world.broker.durability.index_memory_bytes();
        assert!(bytes < MEBIBYTE, "{bytes} of a segment of a mebibyte");
        has_fallen |= bytes < highest / 2;
        highest = highest.max(bytes);
    }
    assert!(highest > MEBIBYTE / 8 && has_fallen, "{highest}");
    let memory = world.broker.memory();
    assert!(memory.journal >= world.broker.durability.index_memory_bytes(), "{memory:?}");
}

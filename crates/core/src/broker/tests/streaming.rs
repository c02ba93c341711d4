//! Streams: numbered for ever, read from anywhere, by query, in slices.

use std::collections::BTreeSet;

use super::client::{EPOCH_US, ReceivedMethod, TestBroker, bodies, closed, names, published, table, text};
use super::memory::rest;
use crate::amqp::method::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicQos, QueueBind, QueueDeclare, QueueDelete,
};
use crate::amqp::{BasicProperties, FieldValue, Method, PropertyFields, RawTable, Table};
use crate::broker::{BrokerOptions, ConnectionId, Event};
use crate::journal::{Dice, Disk, SimulatedDisk};
use crate::testing::or_few;

pub(super) fn declare(world: &mut TestBroker, id: ConnectionId, more: &[(&str, FieldValue)]) {
    let arguments = table(&[&[("x-queue-type", text("stream"))], more].concat());
    world.send(id, 1, QueueDeclare { queue: "log", durable: true, arguments, ..Default::default() });
    world.commit_streams();
    assert_eq!(names(&world.seen(id)), ["queue.declare-ok"]);
}

pub(super) fn publish(world: &mut TestBroker, id: ConnectionId, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let headers: Table = [("price", FieldValue::I32(number as i32))].into_iter().collect();
        let headers = headers.to_bytes();
        let properties = PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() };
        let bytes = published("", "log", &properties, number.to_string().as_bytes());
        world.broker.receive(id, &bytes, world.now);
    }
}

pub(super) fn read(
    world: &mut TestBroker,
    id: ConnectionId,
    prefetch_count: u16,
    arguments: &[(&str, FieldValue)],
) -> Vec<ReceivedMethod> {
    world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count, global: false });
    let consume = BasicConsume { queue: "log", consumer_tag: "c", arguments: table(arguments), ..Default::default() };
    let mut seen = world.ask(id, 1, consume);
    if seen.is_empty() {
        world.commit(); // the offset of a named reader is recorded before it gets anything
        seen = world.seen(id);
    }
    assert!(matches!(seen[0].method(), Method::BasicConsumeOk(_)), "{:?}", closed(&seen));
    seen.remove(0);
    seen
}

pub(super) fn offsets(seen: &[ReceivedMethod]) -> Vec<i64> {
    let offset = |seen: &ReceivedMethod| {
        BasicProperties::from_checked(&seen.properties).headers()?.get("x-stream-offset")?.as_i64()
    };
    seen.iter().filter_map(offset).collect()
}

#[test]
fn a_reader_begins_where_it_likes_and_sees_only_what_is_on_disk() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, first) = (world.connect(), world.connect());
    declare(&mut world, id, &[]);
    world.confirm_select(id);
    assert_eq!(read(&mut world, first, 100, &[("x-stream-offset", text("first"))]).len(), 0);
    publish(&mut world, id, 1..6);
    assert_eq!((world.seen(first).len(), world.seen(id).len()), (0, 0), "nothing is on disk yet");
    world.commit();
    assert_eq!(names(&world.seen(id)), ["basic.ack"]);
    let seen = world.seen(first);
    assert_eq!((bodies(&seen).join(" "), offsets(&seen)), ("1 2 3 4 5".to_owned(), vec![1, 2, 3, 4, 5]));
    for (offset, expected) in [
        (text("first"), "1 2 3 4 5"),
        (text("last"), "5"),
        (text("next"), ""),
        (FieldValue::I64(4), "4 5"),
        (FieldValue::Timestamp(EPOCH_US as u64 / 1_000_000), "1 2 3 4 5"),
        (FieldValue::Timestamp(EPOCH_US as u64 / 1_000_000 + 1), ""),
        (text("1h"), "1 2 3 4 5"),
    ] {
        let reader = world.connect();
        let seen = read(&mut world, reader, 100, &[("x-stream-offset", offset.clone())]);
        assert_eq!(bodies(&seen).join(" "), expected, "{offset:?}");
        world.broker.disconnect(reader, 0);
    }
}

#[test]
fn what_was_read_can_be_read_again_after_a_crash_under_the_same_number() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    let count = or_few(100, 10);
    publish(&mut world, id, 1..count as u32);
    world.commit();
    publish(&mut world, id, count as u32..2 * count as u32);
    drop(world); // it writes nothing on its way out: its committer has no thread
    disk.power_cut(&mut Dice::new(3));
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    let seen = read(&mut world, id, 1000, &[("x-stream-offset", text("first"))]);
    assert!(seen.len() >= count - 1, "{}", seen.len());
    let numbers: Vec<i64> = bodies(&seen).iter().map(|body| body.parse().expect("a number")).collect();
    assert_eq!(offsets(&seen), numbers);
}

#[test]
fn a_reader_has_credit_and_what_it_acknowledges_stays() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    publish(&mut world, id, 0..10);
    world.commit();
    assert_eq!(read(&mut world, id, 3, &[("x-stream-offset", text("first"))]).len(), 3);
    assert_eq!(bodies(&world.ask(id, 1, BasicAck { delivery_tag: 2, multiple: true })), ["3", "4"]);
    world.ask(id, 1, BasicCancel { consumer_tag: "c", no_wait: false });
    assert_eq!(bodies(&read(&mut world, id, 100, &[("x-stream-offset", text("first"))])).len(), 10);
    let seen = world.ask(id, 1, QueueDeclare { queue: "log", passive: true, ..Default::default() });
    assert!(matches!(seen[0].method(), Method::QueueDeclareOk(ok) if ok.message_count == 10));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_reader_gets_what_its_query_asks_for_and_nobody_waits_for_it() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    publish(&mut world, id, 0..20_000);
    world.commit();
    let arguments = [("x-stream-offset", text("first")), ("x-query", text("price >= 19998"))];
    let mut seen = read(&mut world, id, 100, &arguments);
    assert!(world.broker.has_work(), "it reads in slices");
    for _ in 0..1_000 {
        world.broker.work(0);
    }
    seen.extend(world.seen(id));
    assert_eq!(bodies(&seen), ["19998", "19999"]);
    assert!(!world.broker.has_work());
    let seen = world.ask(
        id,
        1,
        BasicConsume { queue: "log", arguments: table(&[("x-query", text("price >> 3"))]), ..Default::default() },
    );
    assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(406));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn retention_removes_the_oldest_and_readers_are_told_how_much_they_missed() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, slow) = (world.connect(), world.connect());
    let bounds = [
        ("x-max-length-bytes", FieldValue::I32(200_000)),
        ("x-stream-max-segment-size-bytes", FieldValue::I32(65_536)),
    ];
    declare(&mut world, id, &bounds);
    publish(&mut world, id, 0..1);
    world.commit();
    assert_eq!(read(&mut world, slow, 1, &[("x-stream-offset", text("first"))]).len(), 1);
    for start in 0..20 {
        publish(&mut world, id, start * 1000..(start + 1) * 1000);
        world.commit();
    }
    let seen = world.ask(slow, 1, BasicAck { delivery_tag: 1, multiple: false });
    let headers = BasicProperties::from_checked(&seen[0].properties).headers().expect("headers");
    let missed = headers.get("x-stream-missed").and_then(|value| value.as_i64());
    assert_eq!(missed, Some(offsets(&seen)[0] - 2));
    assert!(missed > Some(1000));
}

/// The first message that a stream still has after 20 hours with 500 messages in each; `bounds` are its arguments.
fn first_after_a_day(bounds: &[(&'static str, FieldValue)]) -> i64 {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let (id, reader) = (world.connect(), world.connect());
    declare(&mut world, id, &[bounds, &[("x-stream-max-segment-size-bytes", FieldValue::I32(65_536))]].concat());
    for hour in 0..20 {
        let seconds = hour * 3_600;
        world.broker.tick(seconds * 1_000_000, EPOCH_US + seconds as i64 * 1_000_000);
        publish(&mut world, id, 0..500);
        world.commit();
    }
    offsets(&read(&mut world, reader, 1, &[("x-stream-offset", text("first"))]))[0]
}

#[test]
fn retention_by_age_and_by_bytes_work_alone_and_together() {
    let (age, bytes) = (("x-max-age", text("4h")), ("x-max-length-bytes", FieldValue::I32(400_000)));
    let by_age = first_after_a_day(std::slice::from_ref(&age));
    let by_bytes = first_after_a_day(std::slice::from_ref(&bytes));
    assert_eq!(first_after_a_day(&[]), 1, "without a bound all of it stays");
    assert!((6_000..=7_501).contains(&by_age), "{by_age}: up to a segment more than the last four hours");
    assert!((2..6_000).contains(&by_bytes), "{by_bytes}: more than four hours");
    assert_eq!(first_after_a_day(&[age.clone(), bytes]), by_age, "the stricter bound counts");
    let few_bytes = ("x-max-length-bytes", FieldValue::I32(100_000));
    assert!(first_after_a_day(&[age, few_bytes]) > by_age, "the stricter bound counts");
}

#[test]
fn streams_take_messages_from_exchanges_and_refuse_what_they_cannot_do() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    world.send(id, 1, QueueBind { queue: "log", exchange: "amq.topic", routing_key: "a.#", ..Default::default() });
    world.publish(id, "amq.topic", "a.b", b"1");
    world.commit();
    world.seen(id);
    assert_eq!(bodies(&read(&mut world, id, 10, &[("x-stream-offset", text("first"))])), ["1"]);
    let named = table(&[("x-stream-reader", text("audit"))]);
    let refusals: [(Method<'static>, u16); 3] = [
        (BasicGet { queue: "log", ..Default::default() }.into(), 540),
        (BasicConsume { queue: "log", ..Default::default() }.into(), 406),
        (BasicConsume { queue: "log", no_ack: true, arguments: named, ..Default::default() }.into(), 406),
    ];
    for (method, code) in refusals {
        let id = world.connect();
        world.send(id, 1, method);
        assert_eq!(closed(&world.seen(id)).map(|(_, code, _)| code), Some(code), "{method:?}");
    }
    let seen = world.ask(id, 1, QueueDelete { queue: "log", ..Default::default() });
    assert_eq!(names(&seen), [""; 0]);
    world.commit();
    assert_eq!(names(&world.seen(id)), ["queue.delete-ok", "basic.cancel"]);
    world.ask(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    (1..20).for_each(|_| world.commit());
    assert!(disk.paths().iter().all(|path| !path.starts_with("/data/streams")));
}

#[test]
fn what_a_crash_leaves_of_a_deleted_stream_is_removed_at_the_next_start() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    publish(&mut world, id, 0..10);
    world.commit();
    let arguments = table(&[("x-queue-type", text("stream"))]);
    world.send(id, 1, QueueDeclare { queue: "other", durable: true, arguments, ..Default::default() });
    world.commit_streams();
    world.send(id, 1, QueueDelete { queue: "other", ..Default::default() });
    world.commit();
    disk.put("/data/streams/notes.txt".as_ref(), b"not ours".to_vec());
    let streams = |disk: &SimulatedDisk| {
        let paths = disk.paths().into_iter().filter(|path| path.starts_with("/data/streams"));
        paths.map(|path| path.iter().nth(3).expect("a name").to_string_lossy().into_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(streams(&disk).len(), 3, "two logs and the notes");
    // Its definition is gone, its files are not: the broker has not come to that.
    drop(world); // it writes nothing on its way out: its committer has no thread
    disk.power_cut(&mut Dice::new(1));
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    (1..20).for_each(|_| world.commit());
    let left = streams(&disk);
    assert!(left.len() == 2 && left.iter().any(|name| name.starts_with("log.")), "{left:?}");
    let id = world.connect();
    assert_eq!(bodies(&read(&mut world, id, 100, &[("x-stream-offset", text("first"))])).len(), 10);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_stream_on_a_full_disk_blocks_its_publishers_with_its_first_message() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    world.confirm_select(id);
    disk.limit(Some(0));
    publish(&mut world, id, 0..1);
    assert_eq!(world.broker.metrics().blocked, 0, "nobody has looked at the disk yet");
    world.commit();
    assert_eq!(names(&world.seen(id)), ["connection.blocked"]);
    assert!(world.broker.metrics().blocked == 1 && !world.broker.wants_input(id));
    let events = world.broker.take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Blocked { reason } if reason == "low on disk")));
    // Whoever publishes anything now waits too, and a queue can still be consumed.
    let other = world.connect();
    world.publish(other, "", "none", b"x");
    assert_eq!(names(&world.seen(other)), ["connection.blocked"]);
    disk.limit(None);
    world.commit();
    assert_eq!(names(&world.seen(id)), ["basic.ack", "connection.unblocked"]);
    assert_eq!((world.broker.metrics().blocked, world.broker.wants_input(id)), (0, true));
    publish(&mut world, id, 1..3);
    world.commit();
    let reader = world.connect();
    let seen = read(&mut world, reader, 100, &[("x-stream-offset", text("first"))]);
    assert_eq!(bodies(&seen), ["0", "1", "2"]);
}

#[test]
fn a_stream_that_is_deleted_while_the_disk_is_full_takes_nothing_with_it() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    disk.limit(Some(0));
    publish(&mut world, id, 0..1);
    world.commit();
    assert_eq!(world.broker.metrics().blocked, 1);
    let other = world.connect();
    world.send(other, 1, QueueDelete { queue: "log", ..Default::default() });
    (0..20).for_each(|_| world.broker.tick(world.now, EPOCH_US));
    world.commit();
    disk.limit(None);
    world.commit();
    assert_eq!((world.broker.fatal(), world.broker.metrics().blocked), (None, 0));
    assert!(!disk.paths().iter().any(|path| path.starts_with("/data/streams")), "{:?}", disk.paths());
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn streams_that_have_much_to_write_together_let_publishers_wait() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    let arguments = table(&[("x-queue-type", text("stream"))]);
    for number in 0..20 {
        let queue = &*Box::leak(format!("log{number}").into_boxed_str());
        world.send(id, 1, QueueDeclare { queue, durable: true, arguments, ..Default::default() });
        world.send(id, 1, QueueBind { queue, exchange: "amq.fanout", ..Default::default() });
        world.commit_streams();
    }
    world.seen(id);
    for _ in 0..6 {
        let bytes = published("amq.fanout", "", &PropertyFields::default(), &[7; 200_000]);
        world.broker.receive(id, &bytes, world.now);
    }
    assert!(!world.broker.wants_input(id), "20 streams with a megabyte each, and one message more");
    world.commit();
    assert!(world.broker.wants_input(id) && names(&world.seen(id)).is_empty(), "it passed, and nobody was told");
}

#[test]
fn the_first_stream_survives_a_power_cut_with_what_was_confirmed() {
    for seed in 0..40 {
        let disk = SimulatedDisk::new();
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let id = world.connect();
        declare(&mut world, id, &[]);
        world.confirm_select(id);
        publish(&mut world, id, 0..3);
        world.commit();
        assert_eq!(names(&world.seen(id)), ["basic.ack"]);
        drop(world);
        disk.power_cut(&mut Dice::new(seed));
        let mut world = TestBroker::open(&disk, BrokerOptions::default()).expect("whole").0;
        let id = world.connect();
        let seen = read(&mut world, id, 100, &[("x-stream-offset", text("first"))]);
        assert_eq!(bodies(&seen), ["0", "1", "2"], "seed {seed}");
    }
}

#[test]
fn each_missing_file_of_the_data_directory_is_named_and_put_back_everything_is_there() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    publish(&mut world, id, 0..3);
    world.commit();
    drop(world);
    let opened = || TestBroker::open(&disk, BrokerOptions::default()).map(|(world, found)| (world, found.definitions));
    let expected = opened().expect("whole").1;
    let kept: Vec<_> = disk.paths().into_iter().map(|path| (disk.contents(&path).expect("there"), path)).collect();
    let put_back = || kept.iter().for_each(|(bytes, path)| disk.put(path, bytes.clone()));
    let is_spare = |path: &std::path::Path| path.to_string_lossy().contains("spare");
    for (_, path) in kept.iter().filter(|(_, path)| !is_spare(path)) {
        Disk::remove(&disk, path).expect("removed");
        let reason = opened().map(|_| ()).expect_err("a file is missing");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(reason.contains(&format!("{name} is missing")), "{reason}");
        put_back();
        assert_eq!(opened().expect("whole").1, expected);
    }
    let places: BTreeSet<_> = kept.iter().filter_map(|(_, path)| Some(path.parent()?.to_owned())).collect();
    assert_eq!(places.len(), 2, "the journal and one stream");
    for place in places {
        let inside: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(&place)).collect();
        inside.iter().for_each(|path| Disk::remove(&disk, path).expect("removed"));
        Disk::remove_dir(&disk, &place).expect("removed");
        let reason = opened().map(|_| ()).expect_err("a directory is missing");
        assert!(reason.contains(&*place.to_string_lossy()), "{reason}");
        put_back();
        let (mut world, definitions) = opened().expect("whole");
        assert_eq!(definitions, expected);
        let id = world.connect();
        let seen = read(&mut world, id, 100, &[("x-stream-offset", text("first"))]);
        assert_eq!(bodies(&seen), ["0", "1", "2"]);
    }
}

#[test]
fn many_readers_that_catch_up_share_the_time_of_one() {
    const READERS: usize = or_few(10, 3);
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    for _ in 0..400 {
        world.broker.receive(id, &published("", "log", &PropertyFields::default(), &[7; 1000]), world.now);
    }
    world.commit();
    let readers: Vec<ConnectionId> = (0..READERS).map(|_| world.connect()).collect();
    let mut seen: Vec<Vec<i64>> = Vec::new();
    for reader in &readers {
        seen.push(offsets(&read(&mut world, *reader, 1000, &[("x-stream-offset", text("first"))])));
    }
    let mut longest = 0;
    while world.broker.has_work() {
        let before = world.broker.metrics().delivered;
        world.broker.work(world.now);
        longest = longest.max(world.broker.metrics().delivered - before);
        for (reader, seen) in readers.iter().zip(&mut seen) {
            seen.extend(offsets(&world.seen(*reader)));
        }
    }
    assert!(longest <= 140, "{longest} kilobytes are read in one call");
    assert!(seen.iter().all(|seen| seen.iter().copied().eq(1..=400)), "no gap and no double");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn large_and_small_records_come_whole_to_all_readers() {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[("x-stream-max-segment-size-bytes", FieldValue::I32(16 << 20))]);
    // Around the sizes from which on a body is shared, and from which on it is more than is read at once.
    let around = |size: usize| [size - 40, size - 1, size, 1];
    let sizes = [around(128 << 10), around(256 << 10), around(600 << 10)].concat();
    let mut dice = Dice::new(1);
    let bodies: Vec<Vec<u8>> = sizes.iter().map(|size| (0..*size).map(|_| dice.roll() as u8).collect()).collect();
    for body in &bodies {
        world.broker.receive(id, &published("", "log", &PropertyFields::default(), body), world.now);
        rest(&mut world);
        world.commit();
        assert_eq!(closed(&world.seen(id)), None);
    }
    let readers: Vec<ConnectionId> = (0..3).map(|_| world.connect()).collect();
    let mut came: Vec<Vec<Vec<u8>>> = vec![Vec::new(); readers.len()];
    let first = [("x-stream-offset", text("first"))];
    for (reader, came) in readers.iter().zip(&mut came) {
        came.extend(read(&mut world, *reader, 1000, &first).into_iter().map(|seen| seen.body));
    }
    while world.broker.has_work() {
        world.broker.work(world.now);
        for (reader, came) in readers.iter().zip(&mut came) {
            came.extend(world.seen(*reader).into_iter().map(|seen| seen.body));
        }
    }
    assert!(came.iter().all(|came| *came == bodies), "{:?}", came.iter().map(Vec::len).collect::<Vec<_>>());
}

#[test]
fn readers_that_acknowledge_read_no_more_in_a_round_than_their_part() {
    const READERS: usize = or_few(60, 5);
    const KILOBYTES: usize = 100;
    // A kilobyte takes 8 steps, and readers have an eighth of a turn: 10 records.
    let options = BrokerOptions { turn_budget: 640, ..BrokerOptions::default() };
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, options).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    for _ in 0..KILOBYTES {
        world.broker.receive(id, &published("", "log", &PropertyFields::default(), &[7; 1000]), world.now);
    }
    world.commit();
    let readers: Vec<ConnectionId> = (0..READERS).map(|_| world.connect()).collect();
    let first = [("x-stream-offset", text("first"))];
    let mut seen: Vec<Vec<i64>> = readers.iter().map(|id| offsets(&read(&mut world, *id, 4, &first))).collect();
    world.broker.work(world.now);
    while world.broker.has_work() || seen.iter().any(|seen| seen.len() < KILOBYTES) {
        let before = world.broker.metrics().delivered;
        for (reader, seen) in readers.iter().zip(&mut seen) {
            seen.extend(offsets(&world.seen(*reader)));
            let delivery_tag = seen.len() as u64;
            if delivery_tag > 0 {
                world.send(*reader, 1, BasicAck { delivery_tag, multiple: true });
            }
            seen.extend(offsets(&world.seen(*reader)));
        }
        world.broker.work(world.now);
        let read = world.broker.metrics().delivered - before;
        assert!(read <= 22, "{read} records of a kilobyte in what was left of a round, and the next one");
        let behind = seen.iter().map(Vec::len).min().expect("readers");
        let ahead = seen.iter().map(Vec::len).max().expect("readers");
        assert!(ahead <= 2 * behind + 8, "one reader has {ahead} messages, another one {behind}");
    }
    assert!(seen.iter().all(|seen| seen.iter().copied().eq(1..=KILOBYTES as i64)), "no gap and no double");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_reader_without_acknowledgement_has_the_credit_of_its_socket_and_holds_up_nobody() {
    const OUTPUT_BYTES_MAX: usize = 20_000;
    let disk = SimulatedDisk::new();
    let options = BrokerOptions { output_bytes_max: OUTPUT_BYTES_MAX, ..BrokerOptions::default() };
    let mut world = TestBroker::on_disk(&disk, options).0;
    let (id, slow, fast) = (world.connect(), world.connect(), world.connect());
    declare(&mut world, id, &[]);
    let consume = BasicConsume { queue: "log", consumer_tag: "c", no_ack: true, ..Default::default() };
    world.ask(slow, 1, consume);
    world.ask(fast, 1, consume);
    let mut seen = Vec::new();
    for round in 0..100 {
        publish(&mut world, id, 50 * round..50 * round + 50);
        world.commit();
        while world.broker.has_work() {
            world.broker.work(0);
        }
        seen.extend(offsets(&world.seen(fast)));
    }
    let everything: Vec<i64> = (1..=5_000).collect();
    assert_eq!(seen, everything, "the slow one holds nobody up");
    let waiting: Vec<usize> = world.broker.connections().map(|overview| overview().bytes_waiting).collect();
    let most = waiting.iter().max().copied().unwrap_or(0);
    assert!((OUTPUT_BYTES_MAX..OUTPUT_BYTES_MAX + 1_000).contains(&most), "{waiting:?}");
    let mut pieces = Vec::new();
    loop {
        let piece = offsets(&world.seen(slow));
        if piece.is_empty() {
            break;
        }
        pieces.extend(piece);
        while world.broker.has_work() {
            world.broker.work(0);
        }
    }
    assert_eq!(pieces, everything, "it gets everything when it reads");
    assert_eq!(
        world
            .broker
            .queues()
            .map(|overview| overview())
            .find(|queue| queue.name == "log")
            .map(|queue| queue.unacknowledged),
        Some(0)
    );
}

/// A stream that keeps nothing.
const NO_HISTORY: [(&str, FieldValue); 1] = [("x-max-length-bytes", FieldValue::I32(0))];

#[test]
fn a_stream_without_history_delivers_and_confirms_at_once() {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let [id, reader] = [world.connect(), world.connect()];
    declare(&mut world, id, &NO_HISTORY);
    publish(&mut world, id, 0..1);
    world.commit(); // from now on numbers are on disk long before they are used
    world.confirm_select(id);
    assert_eq!(read(&mut world, reader, 100, &[("x-query", text("price > 6"))]).len(), 0);
    publish(&mut world, id, 5..9);
    assert_eq!(names(&world.seen(id)), ["basic.ack"; 4]);
    world.broker.work(world.now);
    let seen = world.seen(reader);
    assert_eq!((bodies(&seen), offsets(&seen)), (vec!["7".to_owned(), "8".to_owned()], vec![4, 5]));
    let passive = QueueDeclare { queue: "log", passive: true, ..Default::default() };
    let answers = world.ask(id, 1, passive);
    let Method::QueueDeclareOk(answer) = answers[0].method() else { panic!("an answer") };
    assert_eq!(answer.message_count, 0, "nothing is kept");
}

#[test]
fn a_reader_without_credit_misses_what_a_stream_without_history_does_not_keep() {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let [id, reader] = [world.connect(), world.connect()];
    declare(&mut world, id, &NO_HISTORY);
    assert_eq!(read(&mut world, reader, 2, &[]).len(), 0);
    publish(&mut world, id, 0..5);
    world.commit();
    world.broker.work(world.now);
    assert_eq!(offsets(&world.seen(reader)), [1, 2]);
    world.send(reader, 1, BasicAck { delivery_tag: 2, multiple: true });
    publish(&mut world, id, 5..6);
    world.broker.work(world.now);
    let seen = world.seen(reader);
    let missed = BasicProperties::from_checked(&seen[0].properties).headers().and_then(|it| it.get("x-stream-missed"));
    assert_eq!((offsets(&seen), missed.and_then(|value| value.as_i64())), (vec![6], Some(3)));
}

#[test]
fn a_stream_without_history_refuses_what_needs_one() {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &NO_HISTORY);
    for (argument, value, reason) in [
        ("x-stream-reader", text("ann"), "the stream keeps no history to go on in"),
        ("x-stream-offset", text("1h"), "the stream keeps no history: expected next, or a number"),
    ] {
        let id = world.connect();
        world.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
        let arguments = table(&[(argument, value)]);
        let seen = world.ask(id, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
        assert!(closed(&seen).is_some_and(|why| why.2.contains(reason)), "{:?}", closed(&seen));
    }
    let sized = [&NO_HISTORY[..], &[("x-stream-max-segment-size-bytes", FieldValue::I32(65_536))]].concat();
    let arguments = table(&[&[("x-queue-type", text("stream"))], &sized[..]].concat());
    let seen = world.ask(id, 1, QueueDeclare { queue: "other", durable: true, arguments, ..Default::default() });
    assert!(closed(&seen).is_some_and(|why| why.2.contains("has no segments")), "{:?}", closed(&seen));
}

#[test]
fn a_small_stream_takes_little_room() {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[("x-max-length-bytes", FieldValue::I32(1 << 20))]);
    publish(&mut world, id, 0..1);
    world.commit();
    assert_eq!(world.broker.streams.file_bytes(), 1 << 18);
    for _ in 0..40 {
        publish(&mut world, id, 0..1_000);
        world.commit();
    }
    let bytes = world.broker.streams.file_bytes();
    assert!((1 << 20..3 << 19).contains(&bytes), "{bytes}");
}

#[test]
fn arguments_that_a_reader_has_not_are_refused_by_name() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    for (name, expected) in [
        ("x-stream-ofset", "did you mean x-stream-offset?"),
        ("X-Stream-Ofset", "did you mean x-stream-offset?"),
        ("x-stream-readr", "did you mean x-stream-reader?"),
        ("x-querry", "did you mean x-query?"),
        ("x-priority", "a reader of a stream has none"),
        ("x-stream-filter", "a reader of a stream has none"),
        ("x-anything", "expected one of x-stream-offset, x-stream-reader"),
    ] {
        let reader = world.connect();
        world.ask(reader, 1, BasicQos { prefetch_size: 0, prefetch_count: 4, global: false });
        let arguments = table(&[(name, FieldValue::I32(1))]);
        let seen = world.ask(reader, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
        let (_, code, told) = closed(&seen).expect(name);
        assert_eq!(code, 406);
        assert!(told.contains(&format!("'{name}'")) && told.contains(expected), "{told}");
    }
    let reader = world.connect();
    assert_eq!(read(&mut world, reader, 4, &[("mine", FieldValue::I32(1))]), []);
}

#[test]
fn several_queries_of_a_reader_give_one_copy_live_and_in_replay() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, reader) = (world.connect(), world.connect());
    declare(&mut world, id, &[]);
    let list = |texts: &[&str]| FieldValue::Array(texts.iter().map(|it| text(it)).collect());
    let queries = list(&["price = 3", "price > 6", "price >= 8", "TOPIC('log') AND price = 0"]);
    publish(&mut world, id, 0..12);
    world.commit();
    let arguments = [("x-stream-offset", text("first")), ("x-query", queries)];
    let replayed = read(&mut world, reader, 100, &arguments);
    assert_eq!(offsets(&replayed), [1, 4, 8, 9, 10, 11, 12]);
    publish(&mut world, id, 0..12);
    world.commit();
    assert_eq!(world.broker.live_reader_count(), 1);
    assert_eq!(offsets(&world.seen(reader)), [13, 16, 20, 21, 22, 23, 24]);
    // A binding, too.
    world.declare(id, "bound");
    let arguments = table(&[("x-query", list(&["price = 3", "price < 4"]))]);
    let bind =
        crate::amqp::method::QueueBind { queue: "bound", exchange: "amq.fanout", arguments, ..Default::default() };
    world.ask(id, 1, bind);
    for (price, expected) in [(3, 1), (2, 1), (5, 0)] {
        let headers = table(&[("price", FieldValue::I32(price))]);
        let properties = PropertyFields { headers: Some(headers), ..Default::default() };
        world.broker.receive(id, &published("amq.fanout", "", &properties, b"x"), 0);
        let queue =
            world.broker.queues().map(|overview| overview()).find(|queue| queue.name == "bound").expect("there");
        assert_eq!(queue.ready, expected, "{price}");
        world.ask(id, 1, crate::amqp::method::QueuePurge { queue: "bound", ..Default::default() });
    }
    for (queries, expected) in [
        (list(&[]), "expected at least one query in the list"),
        (list(&["price = 3", "price >> 3"]), "query 2: position 7: expected a number"),
        (FieldValue::Array(vec![FieldValue::I32(3)]), "x-query: expected text in UTF-8"),
    ] {
        let reader = world.connect();
        world.ask(reader, 1, BasicQos { prefetch_size: 0, prefetch_count: 4, global: false });
        let arguments = table(&[("x-query", queries)]);
        let seen = world.ask(reader, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
        let (_, code, told) = closed(&seen).expect("refused");
        assert_eq!(code, 406);
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_reader_that_hangs_loses_its_channel_and_its_name_is_free() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, hung) = (world.connect(), world.connect());
    declare(&mut world, id, &[]);
    publish(&mut world, id, 1..4);
    world.commit();
    let arguments = [
        ("x-stream-offset", text("first")),
        ("x-stream-reader", text("audit")),
        ("x-consumer-timeout", FieldValue::I32(2_000)),
    ];
    assert_eq!(offsets(&read(&mut world, hung, 9, &arguments)), [1, 2, 3]);
    world.ask(hung, 1, BasicAck { delivery_tag: 1, multiple: false });
    while world.now < 5_000_000 {
        world.now += 100_000;
        world.broker.tick(world.now, super::client::EPOCH_US + world.now as i64);
    }
    let (_, code, told) = closed(&world.seen(hung)).expect("closed");
    assert!(code == 406 && told.contains("timed out"), "{told}");
    let next = world.connect();
    let seen = read(&mut world, next, 9, &arguments);
    assert_eq!(offsets(&seen), [2, 3]);
    assert!(matches!(seen[0].method(), Method::BasicDeliver(it) if it.redelivered));
}

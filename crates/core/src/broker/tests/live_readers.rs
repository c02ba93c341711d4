//! Live readers of streams: in one matching table, from memory, and back to the log where that is safer.

use std::collections::HashMap;

use super::client::{EPOCH_US, ReceivedMethod, TestBroker, bodies, published, table, text};
use super::streaming::{declare, offsets, publish, read};
use crate::amqp::method::{BasicAck, BasicCancel, BasicConsume, BasicQos, QueueDeclare, QueueDelete};
use crate::amqp::{BasicProperties, FieldValue, PropertyFields, RawTable, Table};
use crate::broker::simulation::Faults;
use crate::broker::topology::QueryLimits;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::hierarchy::Hierarchy;
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::fewer;

/// A broker with a stream, and so many connections.
fn world<const COUNT: usize>(options: BrokerOptions) -> (TestBroker, [ConnectionId; COUNT]) {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), options).0;
    let ids = std::array::from_fn(|_| world.connect());
    declare(&mut world, ids[0], &[]);
    (world, ids)
}

fn query_count(world: &TestBroker) -> usize {
    let queue = world.broker.streams.queues()[0];
    let stream = world.broker.queues[queue].stream.as_ref().expect("a stream");
    stream.query_count()
}

/// Let the broker do what it has put off. Returns what each connection got.
fn delivered<const COUNT: usize>(world: &mut TestBroker, ids: [ConnectionId; COUNT]) -> [Vec<String>; COUNT] {
    while world.broker.has_work() {
        world.broker.work(world.now);
    }
    ids.map(|id| bodies(&world.seen(id)))
}

#[test]
fn readers_with_the_same_query_are_one_in_the_table_as_long_as_one_is_there() {
    let (mut world, ids) = world::<5>(BrokerOptions::default());
    for (id, query) in ids.into_iter().skip(1).zip(["price > 3", "price>3", "price > 4", "price > 3"]) {
        read(&mut world, id, 100, &[("x-query", text(query))]);
    }
    assert_eq!((world.broker.live_reader_count(), query_count(&world)), (4, 2));
    publish(&mut world, ids[0], 0..6);
    assert_eq!(delivered(&mut world, ids).concat(), [""; 0], "nothing is on disk yet");
    world.commit();
    let found = delivered(&mut world, ids);
    assert_eq!(found[1..], [vec!["4", "5"], vec!["4", "5"], vec!["5"], vec!["4", "5"]]);
    for (id, left) in [(ids[1], 2), (ids[3], 1), (ids[2], 1)] {
        world.ask(id, 1, BasicCancel { consumer_tag: "c", no_wait: true });
        assert_eq!(query_count(&world), left);
    }
    publish(&mut world, ids[0], 9..10);
    world.commit();
    assert_eq!(delivered(&mut world, ids), [vec![], vec![], vec![], vec![], vec!["9"]]);
    world.broker.disconnect(ids[4], 0);
    assert_eq!((world.broker.live_reader_count(), query_count(&world)), (0, 0));
}

#[test]
fn a_reader_without_credit_falls_back_and_the_others_go_on() {
    let (mut world, ids) = world::<3>(BrokerOptions::default());
    read(&mut world, ids[1], 2, &[]);
    read(&mut world, ids[2], 100, &[("x-query", text("price >= 0"))]);
    publish(&mut world, ids[0], 0..5);
    world.commit();
    assert_eq!(delivered(&mut world, ids)[1..], [vec!["0", "1"], vec!["0", "1", "2", "3", "4"]]);
    assert_eq!((world.broker.live_reader_count(), query_count(&world)), (1, 1));
    let metrics = world.broker.metrics();
    assert_eq!((metrics.stream_readers_live, metrics.stream_readers_replaying, metrics.stream_lag_max), (1, 1, 3));
    world.send(ids[1], 1, BasicAck { delivery_tag: 2, multiple: true });
    assert_eq!(delivered(&mut world, ids)[1..], [vec!["2", "3"], vec![]]);
    world.send(ids[1], 1, BasicAck { delivery_tag: 4, multiple: true });
    assert_eq!(delivered(&mut world, ids)[1..], [vec!["4"], vec![]]);
    assert_eq!(world.broker.live_reader_count(), 2);
}

#[test]
fn live_readers_follow_hierarchies_that_change() {
    let (mut world, ids) = world::<2>(BrokerOptions::default());
    let tree = |child: &str| {
        let parents = [("top".to_owned(), None), (child.to_owned(), Some("top".to_owned()))];
        HashMap::from([("grp".to_owned(), Hierarchy::new(HashMap::from(parents)).expect("a tree"))])
    };
    let publish = |world: &mut TestBroker, group: &str| {
        let headers = Table::from_iter([("grp", text(group))]).to_bytes();
        let properties = PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() };
        world.broker.receive(ids[0], &published("", "log", &properties, group.as_bytes()), 0);
        world.commit();
        delivered(world, ids)[1].concat()
    };
    world.broker.set_hierarchies(tree("a"), 0);
    read(&mut world, ids[1], 100, &[("x-query", text("grp UNDER 'top'"))]);
    assert_eq!(["a", "b"].map(|group| publish(&mut world, group)), ["a", ""]);
    world.broker.set_hierarchies(tree("b"), 0);
    assert_eq!(["a", "b"].map(|group| publish(&mut world, group)), ["", "b"]);
    assert_eq!(world.broker.live_reader_count(), 1);
}

#[test]
fn a_reader_that_begins_at_a_time_to_come_waits_for_it() {
    let (mut world, ids) = world::<2>(BrokerOptions::default());
    publish(&mut world, ids[0], 0..1);
    world.commit();
    let begin = FieldValue::Timestamp(EPOCH_US as u64 / 1_000_000 + 100);
    read(&mut world, ids[1], 100, &[("x-stream-offset", begin)]);
    for (number, seconds) in [(1, 50), (2, 100), (3, 150)] {
        world.broker.tick(seconds * 1_000_000, EPOCH_US + seconds as i64 * 1_000_000);
        publish(&mut world, ids[0], number..number + 1);
        world.commit();
    }
    assert_eq!(delivered(&mut world, ids)[1], ["2", "3"]);
    assert_eq!(world.broker.live_reader_count(), 1);
}

#[test]
fn what_takes_too_long_for_all_queries_together_is_matched_for_each_alone() {
    let limits = QueryLimits { match_ns_max: 10_000, ..QueryLimits::default() };
    let (mut world, ids) = world::<4>(BrokerOptions { queries: limits, ..BrokerOptions::default() });
    for (id, query) in
        ids.into_iter().skip(1).zip(["body LIKE '%x%'", "body LIKE '%q%' OR CONTAINS(body, 'y')", "price > 0"])
    {
        read(&mut world, id, 100, &[("x-query", text(query)), ("x-query-body", text("text"))]);
    }
    publish(&mut world, ids[0], 1..2);
    world.commit();
    assert_eq!(delivered(&mut world, ids)[1..], [vec![], vec![], vec!["1"]]);
    let headers = Table::from_iter([("price", FieldValue::I32(7))]).to_bytes();
    let properties = PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() };
    let body = "x y ".repeat(5_000);
    world.broker.receive(ids[0], &published("", "log", &properties, body.as_bytes()), 0);
    world.commit();
    let found = delivered(&mut world, ids);
    assert_eq!(found[3], [body], "one that does not look at the body is not held up by those that do");
    assert!(world.broker.metrics().matches_cut > 0);
    publish(&mut world, ids[0], 2..3);
    world.commit();
    assert_eq!(delivered(&mut world, ids)[3], ["2"]);
    assert_eq!(world.broker.live_reader_count(), 3);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn live_readers_read_the_log_when_too_much_waits_in_memory() {
    let (mut world, ids) = world::<2>(BrokerOptions::default());
    read(&mut world, ids[1], 1_000, &[]);
    for _ in 0..168 {
        world.broker.receive(ids[0], &published("", "log", &PropertyFields::default(), &[7; 100_000]), 0);
    }
    assert_eq!(world.broker.live_reader_count(), 0);
    world.commit();
    let mut seen = Vec::new();
    while world.broker.has_work() || seen.len() < 168 {
        world.broker.work(0);
        seen.extend(offsets(&world.seen(ids[1])));
    }
    assert!(seen.iter().copied().eq(1..=168), "{seen:?}");
    assert_eq!((world.broker.live_reader_count(), world.broker.memory().journal < 4 << 20), (1, true));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_stream_that_keeps_the_most_falls_back_and_the_others_stay_live() {
    let (mut world, ids) = world::<3>(BrokerOptions::default());
    let arguments = table(&[("x-queue-type", text("stream"))]);
    world.send(ids[0], 1, QueueDeclare { queue: "small", durable: true, arguments, ..Default::default() });
    world.commit_streams();
    read(&mut world, ids[1], 1_000, &[]);
    world.ask(ids[2], 1, BasicQos { prefetch_size: 0, prefetch_count: 9, global: false });
    world.ask(ids[2], 1, BasicConsume { queue: "small", ..Default::default() });
    assert_eq!(world.broker.live_reader_count(), 2);
    for _ in 0..167 {
        world.broker.receive(ids[0], &published("", "log", &PropertyFields::default(), &[7; 100_000]), 0);
    }
    assert_eq!(world.broker.live_reader_count(), 2, "there is still room");
    for _ in 0..2 {
        world.broker.receive(ids[0], &published("", "small", &PropertyFields::default(), &[7; 50_000]), 0);
    }
    assert_eq!(world.broker.live_reader_count(), 1);
    let fallbacks: Vec<_> = world
        .broker
        .consumers()
        .map(|overview| overview())
        .map(|it| (it.queue, it.progress.expect("a reader").fallbacks))
        .collect();
    assert!(
        fallbacks.contains(&("log".to_owned(), 1)) && fallbacks.contains(&("small".to_owned(), 0)),
        "{fallbacks:?}"
    );
}

#[test]
fn a_stream_that_is_deleted_leaves_nothing_of_its_live_readers() {
    let (mut world, ids) = world::<2>(BrokerOptions::default());
    read(&mut world, ids[1], 100, &[]);
    publish(&mut world, ids[0], 0..5);
    assert!(world.broker.streams.tail_bytes() > 0);
    world.send(ids[0], 1, QueueDelete { queue: "log", ..Default::default() });
    world.commit();
    assert_eq!((world.broker.streams.tail_bytes(), world.broker.clients.counts().2), (0, 0));
}

/// The numbers that a reader got, each with how many it was told to have missed before.
type Numbers = Vec<(i64, i64)>;

pub(super) fn numbers(seen: &[ReceivedMethod]) -> Numbers {
    let missed = |seen: &ReceivedMethod| {
        BasicProperties::from_checked(&seen.properties).headers()?.get("x-stream-missed")?.as_i64()
    };
    offsets(seen).into_iter().zip(seen.iter().map(|it| missed(it).unwrap_or(0))).collect()
}

/// Publish to a reader that acknowledges by chance, while retention removes old messages, until it was switched between live
/// and replay 1,000 times. Returns what it got, and the number of the last message.
fn numbers_across_switches(faults: Faults) -> (Numbers, i64) {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let [publisher, reader] = [world.connect(), world.connect()];
    let bytes = [("x-max-length-bytes", 100_000), ("x-stream-max-segment-size-bytes", 65_536)];
    declare(&mut world, publisher, &bytes.map(|(name, value)| (name, FieldValue::I32(value))));
    world.broker.faults = faults;
    read(&mut world, reader, 4, &[]);
    let (mut dice, mut seen, mut last) = (Dice::new(3), Numbers::new(), 0);
    let (mut switches, mut was_live) = (0, 1);
    let mut round = |count: u32, acknowledges| {
        publish(&mut world, publisher, last..last + count);
        last += count;
        world.commit();
        if acknowledges {
            world.send(reader, 1, BasicAck { delivery_tag: 0, multiple: true });
        }
        while world.broker.has_work() {
            world.broker.work(world.now);
        }
        seen.extend(numbers(&world.seen(reader)));
        let live = world.broker.live_reader_count();
        switches += usize::from(live != was_live);
        was_live = live;
        switches
    };
    let mut rounds = 0;
    loop {
        let is_burst = dice.once_in(1_500); // more than is kept
        if round(if is_burst { 2_000 } else { dice.below(4) as u32 }, !dice.once_in(3)) >= fewer(1_000) {
            break;
        }
        rounds += 1;
        assert!(rounds < 100_000, "it is not switched");
    }
    (0..1_000).for_each(|_| _ = round(0, true));
    (seen, i64::from(last))
}

/// Whether a reader got each message up to `last` once and in order, but for those that it was told to have missed.
fn is_complete(numbers: &Numbers, last: i64) -> bool {
    let mut next = 1;
    let follows = |(number, missed): &(i64, i64)| std::mem::replace(&mut next, number + 1) + missed == *number;
    numbers.iter().all(follows) && next == last + 1
}

#[test]
fn a_reader_that_is_switched_a_thousand_times_gets_each_message_once_and_in_order() {
    let (numbers, last) = numbers_across_switches(Faults::default());
    assert!(is_complete(&numbers, last), "{} of {last}", numbers.len());
    assert!(cfg!(miri) || numbers.iter().any(|(_, missed)| *missed > 0), "retention has passed it");
}

#[test]
fn control_a_reader_that_forgets_its_place_at_a_switch_is_caught() {
    let (numbers, last) = numbers_across_switches(Faults { forgets_place: true, ..Faults::default() });
    assert!(!is_complete(&numbers, last));
}

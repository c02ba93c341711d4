//! Named readers against a naive one: what was not acknowledged comes again, and what was recorded as read does not.

use std::collections::BTreeSet;

use super::client::{ReceivedMethod, TestBroker, closed, names, table, text};
use super::streaming::{declare, offsets, publish, read};
use crate::amqp::method::{BasicAck, BasicCancel, BasicConsume, BasicDeliver, BasicNack, BasicQos, ChannelClose};
use crate::amqp::{BasicProperties, FieldValue, Method};

use crate::broker::simulation::Faults;
use crate::broker::{BrokerOptions, ConnectionId, ReaderOverview};
use crate::journal::{Dice, SimulatedDisk};
use crate::testing::fewer;

const PROGRAMS: u64 = fewer(400) as u64;
const NAME: (&str, &str) = ("x-stream-reader", "audit");

fn named(name: &str, start: &str) -> [(&'static str, FieldValue); 2] {
    [(NAME.0, text(name)), ("x-stream-offset", text(start))]
}

fn readers(world: &TestBroker) -> Vec<ReaderOverview> {
    world.broker.queues().map(|overview| overview()).find(|queue| queue.name == "log").expect("a stream").readers
}

/// A stream, one named reader of it, and what the reader must get and must not.
struct World {
    disk: SimulatedDisk,
    broker: TestBroker,
    publisher: ConnectionId,
    faults: Faults,
    published: u32,
    /// The connection of the reader while it reads, and its deliveries: number and whether it was acknowledged.
    reader: Option<(ConnectionId, Vec<(u64, bool)>)>,
    /// The same of a reader that has cancelled its consumer, until there is another one.
    left: Option<(ConnectionId, Vec<(u64, bool)>)>,
    /// The numbers that were acknowledged, and those that must not come again.
    acknowledged: BTreeSet<u64>,
    recorded: BTreeSet<u64>,
    /// The numbers that have come.
    seen: BTreeSet<u64>,
    /// Whether the broker has recorded what has come: not while it is read, and not after a crash until it is left.
    is_known: bool,
    /// The last number that may have come before a crash, as far as the broker knows.
    maybe_seen: u64,
    is_divisible: bool,
}

impl World {
    fn new(faults: Faults, dice: &mut Dice) -> Self {
        let disk = SimulatedDisk::new();
        let (mut broker, publisher) = Self::open(&disk, faults);
        declare(&mut broker, publisher, &[("x-stream-max-segment-size-bytes", FieldValue::I32(65_536))]);
        let is_divisible = dice.once_in(2);
        Self {
            disk,
            broker,
            publisher,
            faults,
            published: 0,
            reader: None,
            left: None,
            acknowledged: BTreeSet::new(),
            recorded: BTreeSet::new(),
            seen: BTreeSet::new(),
            is_known: true,
            maybe_seen: 0,
            is_divisible,
        }
    }

    fn open(disk: &SimulatedDisk, faults: Faults) -> (TestBroker, ConnectionId) {
        let mut broker = TestBroker::on_disk(disk, BrokerOptions::default()).0;
        broker.broker.faults = faults;
        let publisher = broker.connect();
        (broker, publisher)
    }

    /// Whether the reader asks for this message.
    fn is_wanted(&self, number: u64) -> bool {
        !self.is_divisible || number > 7
    }

    fn attach(&mut self, dice: &mut Dice) -> Result<(), String> {
        if self.reader.is_some() {
            return Ok(());
        }
        self.record();
        self.left = None;
        let connection = self.broker.connect();
        let prefetch_count = 1 + dice.below(9) as u16;
        self.broker.ask(connection, 1, BasicQos { prefetch_size: 0, prefetch_count, global: false });
        let mut arguments = named("audit", ["first", "next"][usize::from(!self.recorded.is_empty())]).to_vec();
        if self.is_divisible {
            arguments.push(("x-query", text("price > 7")));
        }
        let arguments = table(&arguments);
        let consume = BasicConsume { queue: "log", consumer_tag: "c", arguments, ..Default::default() };
        self.broker.send(connection, 1, consume);
        self.broker.commit();
        self.is_known = false;
        self.reader = Some((connection, Vec::new()));
        self.take()
    }

    /// Hold what the reader got against what it has to get.
    fn take(&mut self) -> Result<(), String> {
        let Some((connection, mut delivered)) = self.reader.take() else { return Ok(()) };
        while self.broker.broker.has_work() {
            self.broker.broker.work(0);
        }
        let seen = self.broker.seen(connection);
        if let Some(why) = closed(&seen) {
            return Err(format!("closed: {why:?}"));
        }
        for received in &seen {
            let Method::BasicDeliver(BasicDeliver { redelivered, .. }) = received.method() else { continue };
            let number = offsets(std::slice::from_ref(received))[0] as u64;
            let has_come = !self.seen.insert(number);
            if has_come && !redelivered {
                return Err(format!("{number} came again without a mark"));
            }
            if redelivered && !has_come && number > self.maybe_seen {
                return Err(format!("{number} is marked, and has never come"));
            }
            if self.recorded.contains(&number) {
                return Err(format!("{number} was acknowledged, and came again"));
            }
            let from = delivered.last().map_or(0, |(last, _)| *last);
            let lost = (from + 1..number).find(|other| self.is_wanted(*other) && !self.acknowledged.contains(other));
            if let Some(lost) = lost {
                return Err(format!("{lost} was not acknowledged, and {number} came"));
            }
            if number <= from {
                return Err(format!("{number} came after {from}"));
            }
            delivered.push((number, false));
        }
        self.reader = Some((connection, delivered));
        Ok(())
    }

    /// Acknowledge one delivery, or all up to it.
    fn acknowledge(&mut self, dice: &mut Dice) {
        let Some((connection, delivered)) = self.reader.as_mut().or(self.left.as_mut()) else { return };
        if delivered.is_empty() {
            return;
        }
        let (index, multiple) = (dice.below(delivered.len() as u64) as usize, dice.once_in(2));
        if delivered[index].1 {
            return;
        }
        for at in if multiple { 0..index + 1 } else { index..index + 1 } {
            delivered[at].1 = true;
            self.acknowledged.insert(delivered[at].0);
        }
        self.broker.send(*connection, 1, BasicAck { delivery_tag: index as u64 + 1, multiple });
    }

    /// Note what the broker has recorded: everything before the first delivery that was not acknowledged.
    fn record(&mut self) {
        let delivered = self.reader.iter().chain(&self.left).flat_map(|(_, delivered)| delivered);
        let settled = delivered.take_while(|(_, is_settled)| *is_settled).map(|(number, _)| *number);
        self.recorded.extend(settled.collect::<Vec<_>>());
    }

    fn detach(&mut self, dice: &mut Dice) {
        self.record();
        let is_left = self.reader.is_none();
        let Some((connection, delivered)) = self.reader.take().or_else(|| self.left.take()) else { return };
        self.is_known = true;
        match dice.below(3) {
            0 => self.broker.broker.disconnect(connection, 0),
            1 if !is_left => {
                self.broker.send(connection, 1, BasicCancel { consumer_tag: "c", no_wait: true });
                self.left = Some((connection, delivered));
            }
            _ => self.broker.send(connection, 1, ChannelClose::default()),
        }
    }

    fn tick(&mut self) {
        self.broker.broker.tick(0, super::client::EPOCH_US);
        self.broker.commit();
        self.record();
    }

    /// A power cut, which keeps what was synced.
    fn restart(&mut self, dice: &mut Dice) {
        self.broker.commit();
        (self.reader, self.left) = (None, None);
        if !self.is_known {
            self.maybe_seen = u64::from(self.published);
        }
        drop(std::mem::take(&mut self.broker));
        self.disk.power_cut(&mut Dice::new(dice.below(1 << 30)));
        (self.broker, self.publisher) = Self::open(&self.disk, self.faults);
    }
}

/// Run the program of a seed. Returns how often the reader resumed.
fn run(seed: u64, faults: Faults) -> Result<usize, String> {
    let mut dice = Dice::new(seed);
    let mut world = World::new(faults, &mut dice);
    let mut resumed = 0;
    for _ in 0..60 {
        match dice.below(12) {
            0..3 => {
                let count = 1 + dice.below(6) as u32;
                publish(&mut world.broker, world.publisher, world.published + 1..world.published + 1 + count);
                world.published += count;
                world.broker.commit();
            }
            3..5 => {
                resumed += usize::from(world.reader.is_none());
                world.attach(&mut dice)?;
            }
            5..8 => world.acknowledge(&mut dice),
            8 => world.tick(),
            9 => world.detach(&mut dice),
            10 if dice.once_in(3) => world.restart(&mut dice),
            _ => {}
        }
        world.take()?;
    }
    // In the end it gets everything.
    world.detach(&mut dice);
    world.attach(&mut dice)?;
    while let Some((connection, delivered)) = &mut world.reader {
        let (connection, count) = (*connection, delivered.len());
        delivered.iter_mut().for_each(|(number, is_settled)| {
            *is_settled = true;
            world.acknowledged.insert(*number);
        });
        if count > 0 {
            world.broker.send(connection, 1, BasicAck { delivery_tag: count as u64, multiple: true });
        }
        world.take()?;
        if world.reader.as_ref().is_some_and(|(_, delivered)| delivered.len() == count) {
            break;
        }
    }
    let left = (1..=u64::from(world.published)).find(|it| world.is_wanted(*it) && !world.acknowledged.contains(it));
    left.map_or(Ok(resumed), |left| Err(format!("{left} never came")))
}

#[test]
fn a_named_reader_gets_what_a_naive_one_gets() {
    let mut resumed = 0;
    for seed in 1..=PROGRAMS {
        resumed += run(seed, Faults::default()).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(resumed as u64 > 2 * PROGRAMS, "{resumed}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_place_behind_what_was_not_acknowledged_is_caught() {
    let faults = Faults { forgets_unacknowledged: true, ..Faults::default() };
    let violation = (1..PROGRAMS).find_map(|seed| run(seed, faults).err()).expect("a fault that nothing notices");
    assert!(violation.contains("was not acknowledged") || violation.contains("never came"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn what_comes_again_without_a_mark_is_caught() {
    let faults = Faults { forgets_delivered: true, ..Faults::default() };
    let violation = (1..PROGRAMS).find_map(|seed| run(seed, faults).err()).expect("a fault that nothing notices");
    assert!(violation.contains("without a mark"), "{violation}");
}

#[test]
fn a_new_name_misses_nothing_that_comes_after_its_answer() {
    for no_wait in [false, true] {
        let disk = SimulatedDisk::new();
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let (id, reader) = (world.connect(), world.connect());
        declare(&mut world, id, &[]);
        publish(&mut world, id, 1..4);
        world.commit();
        world.ask(reader, 1, BasicQos { prefetch_size: 0, prefetch_count: 9, global: false });
        let arguments = table(&named("audit", "next"));
        let consume = BasicConsume { queue: "log", arguments, no_wait, ..Default::default() };
        assert_eq!(names(&world.ask(reader, 1, consume)), [""; 0], "it is answered when it is on disk");
        publish(&mut world, id, 4..6);
        world.commit();
        let seen = world.seen(reader);
        let answers = seen.iter().filter(|it| matches!(it.method(), Method::BasicConsumeOk(_))).count();
        assert_eq!((offsets(&seen), answers), (vec![4, 5], usize::from(!no_wait)));
        drop(world);
        disk.power_cut(&mut Dice::new(3));
        let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
        let reader = world.connect();
        let seen = read(&mut world, reader, 9, &named("audit", "next"));
        assert_eq!(offsets(&seen), [4, 5]);
        let is_marked = |it: &ReceivedMethod| {
            let Method::BasicDeliver(BasicDeliver { redelivered, .. }) = it.method() else { return false };
            redelivered
        };
        assert!(seen.iter().all(is_marked));
    }
}

#[test]
fn a_name_is_read_by_one_and_is_listed_until_it_is_forgotten() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, reader, other) = (world.connect(), world.connect(), world.connect());
    declare(&mut world, id, &[]);
    publish(&mut world, id, 1..11);
    world.commit();
    assert_eq!(read(&mut world, reader, 4, &named("audit", "first")).len(), 4);
    world.ask(other, 1, BasicQos { prefetch_size: 0, prefetch_count: 4, global: false });
    let arguments = table(&named("audit", "first"));
    let seen = world.ask(other, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
    assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(405));
    world.ask(reader, 1, BasicAck { delivery_tag: 1, multiple: false });
    let of = |next, lag, is_reading| vec![ReaderOverview { name: "audit".to_owned(), next, lag, is_reading }];
    assert_eq!(readers(&world), of(2, 9, true));
    assert!(world.broker.forget_reader("/", "log", "audit").is_err(), "it is read");
    world.broker.disconnect(reader, 0);
    assert_eq!(readers(&world), of(2, 9, false));
    world.commit();
    drop(world);
    disk.power_cut(&mut Dice::new(3));
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    assert_eq!(readers(&world), of(2, 9, false));
    assert_eq!(world.broker.forget_reader("/", "log", "audit"), Ok(true));
    assert_eq!(world.broker.forget_reader("/", "log", "audit"), Ok(false));
    assert_eq!(world.broker.forget_reader("/", "no such", "audit"), Ok(false));
    world.commit();
    drop(world);
    disk.power_cut(&mut Dice::new(4));
    let world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    assert_eq!(readers(&world), []);
}

/// A stream with six messages, and a connection that has read four of them under a name.
fn with_four_of_six() -> (TestBroker, ConnectionId) {
    let mut world = TestBroker::on_disk(&SimulatedDisk::new(), BrokerOptions::default()).0;
    let (id, reader) = (world.connect(), world.connect());
    declare(&mut world, id, &[]);
    publish(&mut world, id, 1..7);
    world.commit();
    assert_eq!(offsets(&read(&mut world, reader, 4, &named("audit", "first"))), [1, 2, 3, 4]);
    (world, reader)
}

#[test]
fn what_is_put_back_comes_again_when_the_reader_resumes() {
    for multiple in [false, true] {
        let (mut world, reader) = with_four_of_six();
        world.ask(reader, 1, BasicAck { delivery_tag: 1, multiple: false });
        world.ask(reader, 1, BasicNack { delivery_tag: 2, multiple, requeue: true });
        world.ask(reader, 1, BasicAck { delivery_tag: 6, multiple: true });
        world.broker.disconnect(reader, 0);
        let reader = world.connect();
        assert_eq!(offsets(&read(&mut world, reader, 9, &named("audit", "first"))), [2, 3, 4, 5, 6]);
    }
}

#[test]
fn what_is_acknowledged_after_the_consumer_was_cancelled_does_not_come_again() {
    for is_closed in [false, true] {
        let (mut world, reader) = with_four_of_six();
        world.ask(reader, 1, BasicCancel { consumer_tag: "c", no_wait: true });
        assert_eq!((readers(&world)[0].next, readers(&world)[0].is_reading), (1, false));
        world.ask(reader, 1, BasicAck { delivery_tag: 2, multiple: true });
        if is_closed {
            world.broker.disconnect(reader, 0);
            assert_eq!(readers(&world)[0].next, 3);
        }
        let next = world.connect();
        assert_eq!(offsets(&read(&mut world, next, 9, &named("audit", "first"))), [3, 4, 5, 6]);
        if !is_closed {
            // Too late: another one reads under the name.
            world.ask(reader, 1, BasicAck { delivery_tag: 4, multiple: true });
            world.broker.tick(0, super::client::EPOCH_US);
            assert_eq!(readers(&world)[0].next, 3);
        }
    }
}

#[test]
fn names_that_cannot_be_are_refused() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let id = world.connect();
    declare(&mut world, id, &[]);
    for name in [text(""), text(&"n".repeat(256)), FieldValue::I32(3)] {
        let reader = world.connect();
        world.ask(reader, 1, BasicQos { prefetch_size: 0, prefetch_count: 4, global: false });
        let arguments = table(&[(NAME.0, name)]);
        let seen = world.ask(reader, 1, BasicConsume { queue: "log", arguments, ..Default::default() });
        assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(406));
    }
    assert_eq!(readers(&world), []);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_named_reader_that_retention_has_passed_is_told_how_much_it_missed() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let (id, reader) = (world.connect(), world.connect());
    let bounds = [
        ("x-max-length-bytes", FieldValue::I32(100_000)),
        ("x-stream-max-segment-size-bytes", FieldValue::I32(65_536)),
    ];
    declare(&mut world, id, &bounds);
    publish(&mut world, id, 1..4);
    world.commit();
    assert_eq!(read(&mut world, reader, 1, &named("audit", "first")).len(), 1);
    world.ask(reader, 1, BasicAck { delivery_tag: 1, multiple: false });
    world.broker.disconnect(reader, 0);
    for _ in 0..10 {
        publish(&mut world, id, 0..1_000);
        world.commit();
    }
    let reader = world.connect();
    let seen: Vec<ReceivedMethod> = read(&mut world, reader, 1, &named("audit", "first"));
    assert!(matches!(seen[0].method(), Method::BasicDeliver(_)), "{:?}", names(&seen));
    let headers = BasicProperties::from_checked(&seen[0].properties).headers().expect("headers");
    let number = |name| headers.get(name).and_then(|value| value.as_i64()).expect("a number");
    let missed = number("x-stream-missed");
    assert!(missed > 1_000 && number("x-stream-offset") == 2 + missed, "{missed}");
}

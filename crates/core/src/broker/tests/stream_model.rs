//! Readers of streams against a naive one: every record from its start that satisfies its query, in order, each once.
//!
//! Random programs publish, sync, read, acknowledge, attach, detach, let retention pass and restart. What a reader gets next
//! must always be the next record of the model; a gap must be told by `x-stream-missed`. A stream without history owes a
//! reader only what comes while the reader can take it, and no number twice.

use std::collections::BTreeMap;

use super::client::{ReceivedMethod, TestBroker, closed, names, published, table, text};
use crate::amqp::method::{BasicAck, BasicCancel, BasicConsume, BasicQos, ChannelClose, QueueDeclare};
use crate::amqp::{BasicProperties, FieldValue, Method, PropertyFields, RawTable, Table};

use crate::broker::simulation::Faults;
use crate::broker::streams::numbers::BLOCK;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::{Dice, Disk, SimulatedDisk};
use crate::testing::fewer;

type IsTrue = fn(i32) -> bool;

/// The queries of readers, and what they are true of.
const QUERIES: [(&str, IsTrue); 5] = [
    ("", |_| true),
    ("price = 3", |price| price == 3),
    ("price > 6 OR price = 0", |price| price > 6 || price == 0),
    ("price > 100", |_| false),
    ("NOT price = 3", |price| price != 3),
];
const PROGRAMS: u64 = fewer(3_000) as u64;
const STEPS: u64 = 60;

struct Reader {
    connection: ConnectionId,
    no_ack: bool,
    query: usize,
    /// The least number that it may get next.
    next: u64,
    /// The delivery tag of the last delivery, and of the last one that was acknowledged.
    tags: (u64, u64),
}

struct World {
    keeps_history: bool,
    /// The last number of the blocks of a stream without history that are on disk.
    safe_through: u64,
    disk: SimulatedDisk,
    broker: TestBroker,
    publisher: ConnectionId,
    faults: Faults,
    /// The price of each message, by its number.
    prices: BTreeMap<u64, i32>,
    published: u64,
    synced: u64,
    /// The first number of a stream without history since the last restart: it does not count what was missed before.
    begin: u64,
    readers: Vec<Reader>,
    /// How often readers were live, and the deliveries.
    seen_live: usize,
    delivered: u64,
}

impl World {
    fn new(keeps_history: bool, faults: Faults, dice: &mut Dice) -> Self {
        let disk = SimulatedDisk::new();
        let (mut broker, publisher) = Self::open(&disk, faults, dice);
        let mut bounds = vec![("x-queue-type", text("stream"))];
        bounds.extend(match keeps_history {
            true => vec![
                ("x-max-length-bytes", FieldValue::I32(200_000)),
                ("x-stream-max-segment-size-bytes", FieldValue::I32(65_536)),
            ],
            false => vec![("x-max-length-bytes", FieldValue::I32(0))],
        });
        let declare = QueueDeclare { queue: "log", durable: true, arguments: table(&bounds), ..Default::default() };
        broker.send(publisher, 1, declare);
        broker.commit_streams();
        assert_eq!(names(&broker.seen(publisher)), ["queue.declare-ok"]);
        let (prices, readers) = (BTreeMap::new(), Vec::new());
        let (published, synced, seen_live, delivered) = (0, 0, 0, 0);
        let mut world = Self {
            keeps_history,
            safe_through: 0,
            disk,
            broker,
            publisher,
            faults,
            prices,
            published,
            synced,
            begin: 0,
            readers,
            seen_live,
            delivered,
        };
        world.note_numbers();
        world
    }

    /// Note the numbers that a stream without history begins with: behind all that it has ever given.
    fn note_numbers(&mut self) {
        let queue = self.broker.broker.streams.queues()[0];
        let log = self.broker.broker.queues[queue].stream.as_ref().expect("a stream").log;
        if let Some(numbers) = self.broker.broker.streams.numbers(log) {
            let last = numbers.next().previous().0;
            assert!(last >= self.synced, "{last} is given again");
            (self.published, self.synced, self.begin, self.safe_through) = (last, last, last + 1, last);
        }
    }

    fn open(disk: &SimulatedDisk, faults: Faults, dice: &mut Dice) -> (TestBroker, ConnectionId) {
        let turn_budget = [20, 100, 8_192][dice.below(3) as usize];
        let output_bytes_max = [500, BrokerOptions::default().output_bytes_max][dice.below(2) as usize];
        let options = BrokerOptions { turn_budget, output_bytes_max, ..BrokerOptions::default() };
        let mut broker = TestBroker::on_disk(disk, options).0;
        broker.broker.faults = faults;
        broker.broker.streams.summarizer.run_bytes = [200, 1_000][dice.below(2) as usize];
        let publisher = broker.connect();
        (broker, publisher)
    }

    fn publish(&mut self, count: u64, size: usize, dice: &mut Dice) {
        for _ in 0..count {
            let price = dice.below(10) as i32;
            let headers: Table = [("price", FieldValue::I32(price))].into_iter().collect();
            let headers = headers.to_bytes();
            let properties = PropertyFields { headers: Some(RawTable::new(&headers)), ..Default::default() };
            let bytes = published("", "log", &properties, &vec![7; size]);
            self.broker.broker.receive(self.publisher, &bytes, 0);
            self.published += 1;
            self.prices.insert(self.published, price);
        }
        if !self.keeps_history {
            self.synced = self.synced.max(self.published.min(self.safe_through));
        }
    }

    fn attach(&mut self, dice: &mut Dice) {
        let query = dice.below(QUERIES.len() as u64) as usize;
        let (start, next) = match dice.below(4) {
            0 => (text("first"), self.first_kept()),
            1 if self.keeps_history => (text("next"), self.synced + 1),
            1 => (text("next"), self.published + 1),
            2 => (FieldValue::I64(self.synced as i64 + 2), self.synced + 2),
            _ => {
                let number = 1 + dice.below(self.synced + 1);
                (FieldValue::I64(number as i64), number)
            }
        };
        let mut arguments = vec![("x-stream-offset", start)];
        if query > 0 {
            arguments.push(("x-query", text(QUERIES[query].0)));
        }
        let connection = self.broker.connect();
        let prefetch_count = 1 + dice.below(6) as u16 * 4;
        self.broker.ask(connection, 1, BasicQos { prefetch_size: 0, prefetch_count, global: dice.below(2) == 0 });
        let (arguments, no_ack) = (table(&arguments), dice.below(4) == 0);
        let consume = BasicConsume { queue: "log", consumer_tag: "c", no_ack, arguments, ..Default::default() };
        self.broker.send(connection, 1, consume);
        self.readers.push(Reader { connection, no_ack, query, next, tags: (0, 0) });
    }

    fn detach(&mut self, dice: &mut Dice) -> Result<(), String> {
        let Some(index) = self.any_reader(dice) else { return Ok(()) };
        self.take(index)?;
        let Reader { connection, .. } = self.readers.remove(index);
        match dice.below(3) {
            0 => self.broker.broker.disconnect(connection, 0),
            1 => self.broker.send(connection, 1, BasicCancel { consumer_tag: "c", no_wait: true }),
            _ => self.broker.send(connection, 1, ChannelClose::default()),
        }
        Ok(())
    }

    fn any_reader(&self, dice: &mut Dice) -> Option<usize> {
        (!self.readers.is_empty()).then(|| dice.below(self.readers.len() as u64) as usize)
    }

    /// Acknowledge some of what a reader has, or all of it.
    fn acknowledge(&mut self, index: usize, dice: &mut Dice) {
        let Reader { connection, tags: (last, acknowledged), .. } = &mut self.readers[index];
        if *last == *acknowledged {
            return;
        }
        *acknowledged += 1 + dice.below(*last - *acknowledged);
        let ack = BasicAck { delivery_tag: *acknowledged, multiple: true };
        self.broker.send(*connection, 1, ack);
    }

    fn change_credit(&mut self, index: usize, dice: &mut Dice) {
        let qos = BasicQos { prefetch_size: 0, prefetch_count: 1 + dice.below(9) as u16, global: true };
        self.broker.send(self.readers[index].connection, 1, qos);
    }

    fn sync(&mut self) {
        while !self.keeps_history && self.broker.broker.has_work() {
            self.broker.broker.work(0); // what was put off has its number now
        }
        if self.published >= self.begin {
            self.safe_through = (self.published + BLOCK / 2).next_multiple_of(BLOCK);
        }
        self.broker.commit();
        self.synced = self.published;
    }

    /// The end of this broker, with or without what was not synced, and the beginning of another one.
    fn restart(&mut self, dice: &mut Dice) {
        self.readers.clear();
        drop(std::mem::take(&mut self.broker)); // it writes nothing on its way out: its committer has no thread
        self.disk.power_cut(&mut Dice::new(dice.below(1 << 30)));
        (self.broker, self.publisher) = Self::open(&self.disk, self.faults, dice);
        if !self.keeps_history {
            self.note_numbers();
            self.prices.split_off(&(self.published + 1));
            return;
        }
        let id = self.broker.connect();
        self.broker.ask(id, 1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
        let last = table(&[("x-stream-offset", text("last"))]);
        let consume = BasicConsume { queue: "log", consumer_tag: "c", arguments: last, ..Default::default() };
        let found: Vec<u64> = self.broker.ask(id, 1, consume).iter().filter_map(|it| Some(stamps(it)?.0)).collect();
        // What was written and not synced may be there or not; it is synced now.
        self.synced = found.first().copied().unwrap_or(0);
        self.published = self.synced;
        self.prices.split_off(&(self.synced + 1));
        self.broker.broker.disconnect(id, 0);
    }

    /// Damage the summaries of a segment, or lose them.
    fn damage_summaries(&self, dice: &mut Dice) {
        let queue = self.broker.broker.streams.queues()[0];
        let dir = &self.broker.broker.queues[queue].stream.as_ref().expect("a stream").dir;
        let names = self.disk.list(dir).expect("names").into_iter().filter(|name| name.ends_with(".summary"));
        for name in names {
            let path = dir.join(name);
            let file = self.disk.open_to_write(&path).expect("a file");
            match dice.below(4) {
                0 => self.disk.remove(&path).expect("removed"),
                1 => file.write_at(dice.below(file.size_bytes().expect("a size")), &[7]).expect("written"),
                2 => file.zero(0, file.size_bytes().expect("a size") / 2).expect("written"),
                _ => {}
            }
        }
    }

    /// Hold what a reader got against the model.
    fn take(&mut self, index: usize) -> Result<(), String> {
        let reader = &mut self.readers[index];
        let (query, is_true) = QUERIES[reader.query];
        for received in self.broker.seen(reader.connection) {
            if let Some(why) = closed(std::slice::from_ref(&received)) {
                return Err(format!("closed: {why:?}"));
            }
            let Some((number, missed)) = stamps(&received) else { continue };
            if number > self.synced {
                return Err(format!("{number} was delivered, and {} is synced", self.synced));
            }
            if number < reader.next {
                return Err(format!("{number} came again or late to a reader of '{query}' that is at {}", reader.next));
            }
            if missed > number - reader.next {
                return Err(format!("{missed} were missed between {} and {number}", reader.next));
            }
            let skipped = self.prices.range(reader.next..number);
            let skipped = skipped.filter(|(number, price)| **number >= self.begin && is_true(**price));
            let skipped: Vec<u64> = skipped.map(|(number, _)| *number).collect();
            if skipped.len() as u64 > missed {
                return Err(format!("{skipped:?} did not come to a reader of '{query}' before {number}"));
            }
            if !is_true(self.prices[&number]) {
                return Err(format!("{number} does not satisfy '{query}'"));
            }
            reader.next = number + 1;
            reader.tags.0 += u64::from(!reader.no_ack);
            self.delivered += 1;
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<(), String> {
        (0..self.readers.len()).try_for_each(|index| self.take(index))
    }

    /// Let readers have everything, and check that nothing is missing.
    fn drain(&mut self, dice: &mut Dice) -> Result<(), String> {
        self.sync();
        self.deliver_all(dice)?;
        let first = self.first_kept();
        if !self.keeps_history {
            // Now every reader has credit, and so this message comes to all.
            self.publish(1, 10, dice);
            self.sync();
            self.deliver_all(dice)?;
        }
        for reader in &self.readers {
            let (query, is_true) = QUERIES[reader.query];
            let left = self.prices.range(reader.next.max(first)..).find(|(_, price)| is_true(**price));
            if let Some((number, _)) = left {
                return Err(format!("{number} never came to a reader of '{query}' that is at {}", reader.next));
            }
        }
        Ok(())
    }

    /// Let readers have what they ask for.
    fn deliver_all(&mut self, dice: &mut Dice) -> Result<(), String> {
        loop {
            for index in 0..self.readers.len() {
                while self.readers[index].tags.0 > self.readers[index].tags.1 {
                    self.acknowledge(index, dice);
                }
            }
            while self.broker.broker.has_work() {
                self.broker.broker.work(0);
            }
            let before = self.delivered;
            self.take_all()?;
            if self.delivered == before {
                return Ok(());
            }
        }
    }

    /// The first message that retention has left.
    fn first_kept(&self) -> u64 {
        let queue = self.broker.broker.streams.queues()[0];
        let stream = self.broker.broker.queues[queue].stream.as_ref().expect("a stream");
        self.published + 1 - self.broker.broker.streams.length(stream.log)
    }
}

/// The number of a delivery, and how many its reader missed before it.
fn stamps(received: &ReceivedMethod) -> Option<(u64, u64)> {
    let Method::BasicDeliver(_) = received.method() else { return None };
    let headers = BasicProperties::from_checked(&received.properties).headers()?;
    let number = |name| headers.get(name).and_then(|value| value.as_i64()).map(|number| number as u64);
    Some((number("x-stream-offset")?, number("x-stream-missed").unwrap_or(0)))
}

/// Run the program of a seed. Returns the deliveries, and how often a reader was seen live after a step.
fn run(keeps_history: bool, seed: u64, faults: Faults) -> Result<(u64, usize), String> {
    let mut dice = Dice::new(seed);
    let mut world = World::new(keeps_history, faults, &mut dice);
    for _ in 0..STEPS {
        match dice.below(24) {
            0..4 => {
                let count = 1 + dice.below(8);
                world.publish(count, 10, &mut dice);
            }
            4..10 => world.sync(),
            10..13 if world.readers.len() < 8 => world.attach(&mut dice),
            13 => world.detach(&mut dice)?,
            14..18 => {
                world.take_all()?;
                if let Some(index) = world.any_reader(&mut dice) {
                    world.acknowledge(index, &mut dice);
                }
            }
            18 => {
                if let Some(index) = world.any_reader(&mut dice) {
                    world.change_credit(index, &mut dice);
                }
            }
            19..22 => world.broker.broker.work(0),
            22 if dice.below(8) == 0 => {
                let count = 40 + dice.below(40);
                world.publish(count, 4_000, &mut dice); // retention removes whole segments
            }
            23 => match dice.below(8) {
                0..2 => world.restart(&mut dice),
                2..5 => world.damage_summaries(&mut dice),
                _ => {}
            },
            _ => {}
        }
        world.take_all()?;
        world.seen_live += world.broker.broker.live_reader_count();
    }
    world.drain(&mut dice)?;
    Ok((world.delivered, world.seen_live))
}

/// The first seed that catches a fault, and how.
fn caught(faults: Faults) -> String {
    (1..PROGRAMS).find_map(|seed| run(true, seed, faults).err()).expect("a fault that nothing notices")
}

/// Run programs without a fault.
fn run_all(keeps_history: bool) {
    let (mut delivered, mut seen_live) = (0, 0);
    for seed in 1..=PROGRAMS {
        let found = run(keeps_history, seed, Faults::default());
        let found = found.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        delivered += found.0;
        seen_live += found.1;
    }
    assert!(delivered > PROGRAMS * 10 && seen_live > PROGRAMS as usize * 5, "{delivered} deliveries, {seen_live} live");
}

#[test]
fn readers_get_what_a_naive_reader_gets() {
    run_all(true);
}

#[test]
fn readers_of_a_stream_without_history_get_what_comes() {
    run_all(false);
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_reader_that_is_live_too_early_is_caught() {
    let violation = caught(Faults { goes_live_early: true, ..Faults::default() });
    assert!(violation.contains("did not come") || violation.contains("never came"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_reader_that_falls_back_too_far_is_caught() {
    let violation = caught(Faults { forgets_place: true, ..Faults::default() });
    assert!(violation.contains("came again"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_delivers_before_the_disk_has_it_is_caught() {
    let violation = caught(Faults { delivers_unsynced: true, ..Faults::default() });
    assert!(violation.contains("is synced"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_reader_that_passes_over_too_much_is_caught() {
    let violation = caught(Faults { skips_too_far: true, ..Faults::default() });
    assert!(violation.contains("did not come") || violation.contains("never came"), "{violation}");
}

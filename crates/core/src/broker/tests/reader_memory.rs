//! Readers of streams take no more memory together than the broker may have.

use super::client::{TestBroker, closed, published, table, text};
use super::live_readers::numbers;
use super::memory::rest;
use super::streaming::{declare, offsets, read};
use crate::amqp::method::{BasicAck, BasicConsume};
use crate::amqp::{FieldValue, PropertyFields};
use crate::broker::streams::reading::READER_FILES_MAX;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::SimulatedDisk;

const MEBIBYTE: u64 = 1 << 20;
const READERS: usize = 60;

/// Readers of a stream of a connection each, and the offsets that each has got.
struct ManyReaders {
    world: TestBroker,
    publisher: ConnectionId,
    readers: Vec<ConnectionId>,
    offsets: Vec<Vec<i64>>,
    missed: Vec<i64>,
    /// The most memory that was in use.
    most: u64,
}

impl ManyReaders {
    fn new(memory_bytes_max: u64, arguments: &[(&str, FieldValue)]) -> Self {
        let options = BrokerOptions { memory_bytes_max, ..BrokerOptions::default() };
        let mut world = TestBroker::on_disk(&SimulatedDisk::new(), options).0;
        let publisher = world.connect();
        declare(&mut world, publisher, arguments);
        let readers = (0..READERS).map(|_| world.connect()).collect();
        let (offsets, missed) = (vec![Vec::new(); READERS], vec![0; READERS]);
        Self { world, publisher, readers, offsets, missed, most: 0 }
    }

    fn publish(&mut self, size: usize) {
        let bytes = published("", "log", &PropertyFields::default(), &vec![7; size]);
        self.world.broker.receive(self.publisher, &bytes, self.world.now);
        rest(&mut self.world);
        self.world.commit();
    }

    fn consume(&mut self) {
        for (index, reader) in self.readers.iter().enumerate() {
            let arguments = table(&[("x-stream-offset", text("first"))]);
            let consume =
                BasicConsume { queue: "log", consumer_tag: "c", no_ack: true, arguments, ..Default::default() };
            let seen = self.world.ask(*reader, 1, consume);
            assert_eq!(closed(&seen), None);
            self.offsets[index].extend(offsets(&seen));
        }
    }

    /// Let everybody take what there is, and a tenth of a second pass.
    fn round(&mut self) {
        rest(&mut self.world);
        self.most = self.most.max(self.world.broker.memory().total());
        for (index, reader) in self.readers.iter().enumerate() {
            for (offset, missed) in numbers(&self.world.seen(*reader)) {
                self.offsets[index].push(offset);
                self.missed[index] += missed;
            }
        }
        self.world.now += 100_000;
        self.world.broker.tick(self.world.now, 0);
    }

    /// Go on until all have got this number of messages; return the number of rounds.
    fn rounds(&mut self, count: usize) -> usize {
        let rounds = (0..READERS).find(|_| {
            self.round();
            self.offsets.iter().all(|offsets| offsets.len() == count)
        });
        rounds.unwrap_or_else(|| panic!("{:?} {:?}", self.offsets, self.world.broker.memory()))
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_large_message_is_copied_to_readers_as_memory_allows() {
    for is_live in [false, true] {
        let mut many =
            ManyReaders::new(64 * MEBIBYTE, &[("x-stream-max-segment-size-bytes", FieldValue::I32(16 << 20))]);
        if is_live {
            many.consume();
            many.round();
            assert_eq!(many.world.broker.live_reader_count(), READERS);
        }
        many.publish(4 << 20);
        if !is_live {
            many.consume();
        }
        let rounds = many.rounds(1);
        assert!((32 * MEBIBYTE..=66 * MEBIBYTE).contains(&many.most), "{} bytes are in use", many.most);
        assert!((3..20).contains(&rounds), "{rounds} rounds");
        many.publish(1);
        many.rounds(2);
        assert!(many.offsets.iter().all(|offsets| *offsets == [1, 2]), "{:?}", many.offsets);
        assert_eq!(many.world.broker.live_reader_count(), READERS);
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn readers_of_a_stream_without_history_are_told_of_a_message_that_there_was_no_memory_for() {
    let mut many = ManyReaders::new(64 * MEBIBYTE, &[("x-max-length-bytes", FieldValue::I32(0))]);
    many.consume();
    many.round();
    many.publish(4 << 20);
    many.round();
    assert!(many.most <= 66 * MEBIBYTE, "{} bytes are in use", many.most);
    many.round();
    many.publish(1);
    many.round();
    for (offsets, missed) in many.offsets.iter().zip(&many.missed) {
        assert_eq!(offsets.len() as i64 + missed, 2, "{offsets:?} and {missed} missed");
    }
    let told = many.missed.iter().sum::<i64>();
    assert!((20..60).contains(&told), "{told} readers were told");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn readers_that_are_far_from_each_other_keep_little_of_what_they_read() {
    let mut many = ManyReaders::new(16 * MEBIBYTE, &[]);
    for _ in 0..READERS {
        many.publish(300 * 1024);
    }
    for index in 0..READERS {
        let start = [("x-stream-offset", FieldValue::I64(1 + index as i64))];
        many.offsets[index] = offsets(&read(&mut many.world, many.readers[index], 1, &start));
    }
    many.rounds(1);
    assert!(many.world.broker.memory().journal < 3 * MEBIBYTE, "{:?}", many.world.broker.memory());
    for reader in &many.readers {
        many.world.send(*reader, 1, BasicAck { delivery_tag: 1, multiple: false });
    }
    many.publish(1);
    many.rounds(2);
    for (index, offsets) in many.offsets.iter().enumerate() {
        assert_eq!(*offsets, [1 + index as i64, 2 + index as i64]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads more than miri does in minutes")]
fn readers_share_the_files_of_segments_and_keep_few_open() {
    const FAR_READERS: i64 = 200;
    for is_together in [false, true] {
        let options = BrokerOptions { memory_bytes_max: 256 * MEBIBYTE, ..BrokerOptions::default() };
        let mut world = TestBroker::on_disk(&SimulatedDisk::new(), options).0;
        let publisher = world.connect();
        declare(&mut world, publisher, &[("x-stream-max-segment-size-bytes", FieldValue::I32(64 << 10))]);
        for _ in 0..=FAR_READERS {
            // Nearly a whole segment.
            let bytes = published("", "log", &PropertyFields::default(), &vec![7; 30 << 10]);
            world.broker.receive(publisher, &bytes, world.now);
            rest(&mut world);
            world.commit();
        }
        let place = |index: i64| if is_together { 1 } else { 1 + index };
        let readers: Vec<ConnectionId> = (0..FAR_READERS).map(|_| world.connect()).collect();
        for (index, reader) in (0..).zip(&readers) {
            let start = [("x-stream-offset", FieldValue::I64(place(index)))];
            let mut first = offsets(&read(&mut world, *reader, 1, &start));
            rest(&mut world);
            first.extend(offsets(&world.seen(*reader)));
            assert_eq!(first, [place(index)]);
        }
        let open = world.broker.durability.reader_files();
        let open_max = if is_together { 2 } else { READER_FILES_MAX + 1 };
        assert!((1..=open_max).contains(&open), "{open} files are open");
        for (index, reader) in (0..).zip(&readers) {
            world.send(*reader, 1, BasicAck { delivery_tag: 1, multiple: false });
            rest(&mut world);
            assert_eq!(offsets(&world.seen(*reader)), [place(index) + 1]);
        }
        readers.iter().for_each(|reader| world.broker.disconnect(*reader, world.now));
        assert_eq!(world.broker.durability.reader_files(), 0, "files go with their readers");
    }
}

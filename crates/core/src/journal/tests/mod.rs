//! Tests the journal against cuts, rot, errors and power cuts, each with a planted fault that the test must catch.

mod appending;
mod formats;
mod missing;
mod power;
mod reading;
mod rot;
mod torn;
mod trouble;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    AppendError, Appended, Committer, Damage, Dice, Log, LogItem, LogOptions, LogReader, LogRecovery, OpenError,
    Sequence,
};
use super::{SimulatedDisk, Start};
use crate::testing::{fewer, or_few, rounds};

/// A log on a simulated disk, with whoever commits it.
struct TestLog {
    disk: SimulatedDisk,
    committer: Committer,
    log: Log,
    recovery: LogRecovery,
}

impl TestLog {
    fn open(disk: &SimulatedDisk, options: LogOptions) -> Self {
        Self::try_open(disk, options).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_open(disk: &SimulatedDisk, options: LogOptions) -> Result<Self, OpenError> {
        let committer = Committer::manual(|| {});
        let (log, recovery) = Log::open(Arc::new(disk.clone()), dir(), options, &committer)?;
        Ok(Self { disk: disk.clone(), committer, log, recovery })
    }

    fn append(&self, number: u64, size: usize) -> Result<Appended, AppendError> {
        let body = body_of(number, size);
        self.log.append(kind_of(number), time_of(number), &head_of(number), &[&body])
    }

    /// Append records numbered `from` to `to`, exclusive, and commit them.
    fn commit(&self, from: u64, to: u64, size: usize) {
        for number in from..to {
            let appended = self.append(number, size).expect("appended");
            assert_eq!(appended.sequence, Sequence(number));
        }
        self.committer.commit_once();
    }
}

fn dir() -> &'static Path {
    Path::new("/data/journal")
}

fn small(segment_bytes: u32) -> LogOptions {
    LogOptions { segment_bytes, index_heads: true, ..LogOptions::default() }
}

/// The body of the record with a number. A reader that gets another body has found a fault.
fn body_of(number: u64, size: usize) -> Vec<u8> {
    let mut dice = Dice::new(number);
    (0..size).map(|_| dice.roll() as u8).collect()
}

fn head_of(number: u64) -> Vec<u8> {
    number.to_le_bytes()[..(number % 5) as usize].to_vec()
}

fn kind_of(number: u64) -> u8 {
    (number % 7) as u8
}

fn time_of(number: u64) -> i64 {
    1_000_000 + number as i64 * 10
}

/// Everything a reader finds: the numbers of the records, which have to be right in every byte, and the damage.
fn read_all(mut reader: LogReader, size_of: impl Fn(u64) -> usize) -> (Vec<u64>, Vec<Damage>) {
    let (mut numbers, mut damage) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next().expect("readable") {
        match item {
            LogItem::Record(record) => {
                let number = record.sequence.0;
                assert_eq!(record.body, body_of(number, size_of(number)), "the body of {number}");
                assert_eq!(record.head, head_of(number), "the head of {number}");
                assert_eq!((record.kind, record.time_us), (kind_of(number), time_of(number)));
                numbers.push(number);
            }
            LogItem::Damaged(found) => damage.push(found),
            LogItem::Missed(first, last) => panic!("missed {first} to {last}"),
        }
    }
    (numbers, damage)
}

/// The segments' files, oldest first.
fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".segment") && !name.starts_with("spare")
    };
    disk.paths().into_iter().filter(is_segment).collect()
}

/// The seed of a random test: from `TAMIS_SEED`, or its own. It is printed, so that a failure can be had again.
fn seed(test: &str, own: u64) -> u64 {
    let seed = std::env::var("TAMIS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(own);
    println!("{test}: TAMIS_SEED={seed}");
    seed
}

fn all_from_first(log: &Log) -> LogReader {
    log.reader(Start::First).expect("a reader")
}

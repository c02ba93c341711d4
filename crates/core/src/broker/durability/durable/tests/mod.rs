//! The broker's journal against an oracle: recovery finds exactly what the records up to some point say.
//!
//! That point is not before the last one that was reported synced.

mod copies;
mod oracle;
mod recovering;
mod working;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use super::records::{self, MessageHead, kind};
use super::{Content, DefinitionId, Durable, DurableOptions, RecordId, RecoveredJournal, Saved, TimeToLive};
use crate::journal::{Committer, Dice, Sequence, SimulatedDisk, Wait};

thread_local! {
    /// A planted fault: recovery takes the place of a copy, and nothing else of it, where it has read the original.
    pub(super) static COPIES_SAY_LITTLE: Cell<bool> = const { Cell::new(false) };
}

impl Durable {
    /// Record a message as an earlier version did: without its time to live.
    pub(crate) fn message_of_version_1(&mut self, content: Content<'_>, queue: DefinitionId, time_us: i64) {
        let mut head = Vec::new();
        MessageHead::of(&content, TimeToLive::FOREVER).put(kind::MESSAGE_1, &mut head);
        records::put_queues(&mut head, &[queue]);
        self.append_to(kind::MESSAGE_1, time_us, &head, &[content.route, content.properties, content.body])
            .expect("recorded");
    }
}

/// A journal on a simulated disk, with whoever commits it.
struct JournalHarness {
    committer: Committer,
    durable: Durable,
    recovered: RecoveredJournal,
}

impl JournalHarness {
    fn open(disk: &SimulatedDisk, segment_bytes: u32) -> Self {
        Self::try_open(disk, segment_bytes).expect("a journal")
    }

    fn try_open(disk: &SimulatedDisk, segment_bytes: u32) -> Option<Self> {
        Self::open_with(disk, DurableOptions { segment_bytes, ..DurableOptions::default() })
    }

    fn open_with(disk: &SimulatedDisk, options: DurableOptions) -> Option<Self> {
        let committer = Committer::manual(|| {});
        let (durable, recovered) =
            Durable::open(Arc::new(disk.clone()), Path::new("/data/journal"), options, &committer).ok()?;
        Some(Self { committer, durable, recovered })
    }

    fn define(&mut self, key: &str) -> DefinitionId {
        self.durable.define(key.as_bytes(), b"value", &[], None, 0).expect("defined").0
    }

    fn publish(&mut self, number: u64, size: usize, queues: &[DefinitionId]) -> Saved {
        let message = TestMessage::new(number, size);
        let time_to_live = time_to_live(number);
        self.durable.message(message.content(), queues, number as i64, time_to_live).expect("recorded")
    }

    fn commit(&mut self) {
        self.durable.flush(0).expect("recorded");
        self.committer.commit_once();
    }

    /// The numbers of the messages of each queue, in its order; every byte is checked.
    fn queues(&self) -> Vec<(DefinitionId, Vec<u64>)> {
        let number_of = |index: u32| {
            let message = self.recovered.messages[index as usize];
            let number = number_of(&self.durable, message.record);
            assert_eq!((message.time_us, message.time_to_live), (number as i64, time_to_live(number)));
            number
        };
        let queue = |queue: &super::RecoveredQueue| {
            (queue.queue, queue.entries.iter().map(|entry| number_of(entry.message)).collect())
        };
        self.recovered.queues.iter().map(queue).collect()
    }
}

/// Every third message lives for ever, others for a time that can be told from their number.
fn time_to_live(number: u64) -> TimeToLive {
    TimeToLive::from_ms((!number.is_multiple_of(3)).then_some(number * 1000))
}

/// A message that can be told from its number.
struct TestMessage {
    route: [u8; 8],
    rest: Vec<u8>,
    properties: usize,
}

impl TestMessage {
    fn new(number: u64, size: usize) -> Self {
        let mut dice = Dice::new(number);
        let rest: Vec<u8> = (0..size).map(|_| dice.roll() as u8).collect();
        Self { route: number.to_le_bytes(), properties: size / 3, rest }
    }

    fn content(&self) -> Content<'_> {
        let (properties, body) = self.rest.split_at(self.properties);
        Content { route: &self.route, properties, body, shared: None }
    }
}

/// Which message it is, read back and compared.
fn number_of(durable: &Durable, record: RecordId) -> u64 {
    let mut buffer = Vec::new();
    let content = durable.load(record, Wait::ForDisk, &mut buffer).expect("readable");
    let number = u64::from_le_bytes(content.route.try_into().expect("a number"));
    let message = TestMessage::new(number, content.properties.len() + content.body.len());
    assert_eq!(content, message.content(), "message {number}");
    number
}

/// The seed of a random test: from `TAMIS_SEED`, or its own. It is printed, so that a failure can be had again.
fn seed(test: &str, own: u64) -> u64 {
    let seed = std::env::var("TAMIS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(own);
    println!("{test}: TAMIS_SEED={seed}");
    seed
}

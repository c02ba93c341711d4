//! The offsets of a stream's named readers, and what each has not acknowledged.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::journal::Sequence;

use crate::broker::ids::{ChannelSlot, ConsumerSlot, Handle};
use crate::broker::topology::QueueId;

/// The maximum number of deliveries to a named reader that are noted: more than its credit. The others were put back, and come
/// again when it resumes, because those that are noted do.
const UNSETTLED_MAX: usize = 2 * 65_536;

/// The offset of a named reader, as its stream keeps it.
#[derive(Debug, Default)]
pub(crate) struct ReaderOffset {
    /// The offset that is recorded; None before that.
    pub(super) recorded: Option<RecordedOffset>,
    /// The last number that may have been delivered to it.
    pub(super) delivered: Sequence,
    /// Whether a consumer reads under this name.
    pub(super) is_read: bool,
    /// Who read under this name last, and has not acknowledged everything.
    pub(super) left_by: Option<LeftId>,
}

/// The offset of a named reader as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedOffset {
    /// The number that it reads next.
    pub next: Sequence,
    /// The last number that was delivered to it; None while it reads, when it may be any.
    pub delivered: Option<Sequence>,
}

/// The unacknowledged deliveries of a consumer that is a named reader.
#[derive(Debug)]
pub(crate) struct NamedReader {
    pub(super) name: Box<str>,
    /// The numbers of deliveries that were not acknowledged: of too many the first ones, which decide where it resumes.
    unsettled: BTreeSet<Sequence>,
    /// The last number that may have been delivered under this name before this consumer.
    delivered_before: Sequence,
    /// The last number that was delivered to this consumer.
    delivered: Sequence,
    /// Whether it is among those whose offsets are recorded in the next tick.
    pub(super) is_listed: bool,
}

/// A named reader, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderOverview {
    /// Its name.
    pub name: String,
    /// The number that it reads next.
    pub next: u64,
    /// The number of messages from there to the end of the stream.
    pub lag: u64,
    /// Whether a consumer reads under this name now.
    pub is_reading: bool,
}

/// The named readers of a stream.
pub(crate) type ReaderOffsets = HashMap<Box<str>, ReaderOffset>;

/// The channel and the former consumer of a reader that was cancelled.
pub(crate) type LeftId = (Handle<ChannelSlot>, Handle<ConsumerSlot>);

/// The readers that were cancelled on one channel.
pub(crate) type LeftReaders = HashMap<Handle<ConsumerSlot>, LeftReader>;

/// A named reader that was cancelled.
#[derive(Debug)]
pub(crate) struct LeftReader {
    pub(super) queue: Handle<QueueId>,
    pub(super) named: Box<NamedReader>,
    /// Where it resumes when everything is acknowledged.
    pub(super) position: Sequence,
}

impl NamedReader {
    /// The reader of this name, under which everything up to `delivered_before` may have been delivered.
    pub fn new(name: Box<str>, delivered_before: Sequence) -> Self {
        let (unsettled, delivered) = (BTreeSet::new(), Sequence(0));
        Self { name, unsettled, delivered_before, delivered, is_listed: false }
    }

    /// Note a delivery. Returns whether it may have been delivered under this name before.
    pub fn deliver(&mut self, sequence: Sequence) -> bool {
        self.unsettled.insert(sequence);
        if self.unsettled.len() > UNSETTLED_MAX {
            self.unsettled.pop_last();
        }
        self.delivered = self.delivered.max(sequence);
        sequence <= self.delivered_before
    }

    /// The last number that may have been delivered under this name.
    pub(super) fn delivered(&self) -> Sequence {
        self.delivered.max(self.delivered_before)
    }

    /// Note that a delivery was acknowledged.
    pub(super) fn settle(&mut self, sequence: Sequence) {
        self.unsettled.remove(&sequence);
    }

    /// The first delivery that was not acknowledged.
    pub(super) fn first_unsettled(&self) -> Option<Sequence> {
        self.unsettled.first().copied()
    }
}

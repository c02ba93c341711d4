//! The live records of the journal: where each lies, and which queues hold it.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::ids::{DefinitionId, RecordId};
use crate::broker::slab::Slab;
use crate::journal::{Location, SegmentNumber, Sequence};

/// The location of a record that is in no segment any more: its queue was deleted, and it is not released yet.
const NOWHERE: Location = Location { segment: SegmentNumber(0), offset: 0 };

/// The bytes that the allocator adds to the two allocations of a [`QueuePositions`].
const ALLOCATOR_BYTES: usize = 32;

/// The queues that hold a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordHolders {
    /// The record is a definition.
    DefinitionRecord,
    /// A message that is kept for lack of memory only; no durable queue holds it.
    Spilled,
    /// One queue, to which the record itself added the message.
    One(DefinitionId),
    /// Several queues, each with the message's position there, sorted.
    QueuePositions(Box<QueuePositions>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuePositions {
    /// A position of 0 is settled.
    positions: Vec<(DefinitionId, Sequence)>,
    live: usize,
}

impl RecordHolders {
    /// The memory that it takes besides its record.
    fn size_bytes(&self) -> usize {
        match self {
            Self::QueuePositions(many) => {
                ALLOCATOR_BYTES
                    + size_of::<QueuePositions>()
                    + many.positions.capacity() * size_of::<(DefinitionId, Sequence)>()
            }
            _ => 0,
        }
    }

    pub fn of(queues: &[DefinitionId], position: Sequence) -> Self {
        match queues {
            [queue] => Self::One(*queue),
            _ => Self::many(queues.iter().map(|&queue| (queue, position)).collect()),
        }
    }

    pub fn many(mut positions: Vec<(DefinitionId, Sequence)>) -> Self {
        positions.sort_unstable();
        Self::QueuePositions(Box::new(QueuePositions { live: positions.len(), positions }))
    }
}

/// A live record: 40 bytes.
#[derive(Clone, Debug)]
struct LiveRecord {
    /// The sequence of its first record.
    id: u64,
    location: Location,
    size_bytes: u32,
    holders: RecordHolders,
}

/// The records of a segment.
#[derive(Clone, Debug, Default)]
struct SegmentRecords {
    /// The slots of the records that were put into it, dead ones too: a slot that was used again lies elsewhere now, or is
    /// listed twice, which does no harm.
    slots: Vec<u32>,
    /// The index at which compaction goes on.
    cursor: usize,
    live: usize,
    /// The segment may be removed once this sequence is synced, which is behind everything that made its records needless.
    free_after: Sequence,
}

impl SegmentRecords {
    fn size_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}

/// All live records, by slot, and their segments, by ordinal.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveRecords {
    slots: Slab<RecordId, LiveRecord>,
    segments: VecDeque<SegmentRecords>,
    /// The ordinal of the first of `segments`.
    base: SegmentNumber,
    live_bytes: u64,
    /// The memory of all lists of queues.
    holder_bytes: usize,
    /// The memory of the lists of records of all segments.
    listed_bytes: usize,
}

impl LiveRecords {
    pub fn insert(&mut self, id: u64, location: Location, size_bytes: u32, holders: RecordHolders) -> RecordId {
        self.holder_bytes += holders.size_bytes();
        self.live_bytes += u64::from(size_bytes);
        let record = self.slots.insert(LiveRecord { id, location, size_bytes, holders });
        self.enter(record, location.segment);
        record
    }

    /// Free the slot of a record that nobody holds any more. `last` is the sequence of the last record appended.
    pub fn free(&mut self, record: RecordId, last: Sequence) {
        self.leave(record, last);
        self.holder_bytes -= self.slots.remove(record).holders.size_bytes();
    }

    /// Let these hold a record, and nobody else.
    pub fn set_holders(&mut self, record: RecordId, holders: RecordHolders) {
        self.holder_bytes += holders.size_bytes();
        let before = std::mem::replace(&mut self.slots[record].holders, holders);
        self.holder_bytes -= before.size_bytes();
    }

    /// Take a record out of its segment: its bytes there are not needed any more.
    pub fn leave(&mut self, record: RecordId, last: Sequence) {
        let slot = &mut self.slots[record];
        if slot.location == NOWHERE {
            return;
        }
        self.live_bytes -= u64::from(slot.size_bytes);
        let segment = slot.location.segment;
        slot.location = NOWHERE;
        if let Some(segment) = self.segment(segment) {
            segment.live -= 1;
            segment.free_after = last;
        }
    }

    /// Note that a record has moved.
    pub fn relocate(&mut self, record: RecordId, location: Location, size_bytes: u32, last: Sequence) {
        self.leave(record, last);
        let slot = &mut self.slots[record];
        slot.location = location;
        slot.size_bytes = size_bytes;
        self.live_bytes += u64::from(size_bytes);
        self.enter(record, location.segment);
    }

    fn enter(&mut self, record: RecordId, ordinal: SegmentNumber) {
        self.segments_through(ordinal);
        if let Some(segment) = self.segment(ordinal) {
            let before = segment.size_bytes();
            segment.slots.push(record.0);
            segment.live += 1;
            let grown = segment.size_bytes() - before;
            self.listed_bytes += grown;
        }
    }

    /// Add segments up to `ordinal`.
    fn segments_through(&mut self, ordinal: SegmentNumber) {
        if self.segments.is_empty() {
            self.base = ordinal;
        }
        while self.base.0 + (self.segments.len() as u32) <= ordinal.0 {
            self.segments.push_back(SegmentRecords::default());
        }
    }

    fn segment(&mut self, ordinal: SegmentNumber) -> Option<&mut SegmentRecords> {
        self.segments.get_mut(ordinal.0.checked_sub(self.base.0)? as usize)
    }

    /// The sequence that must be synced before segment `ordinal` may be removed; None while it has live records.
    pub fn empty_after(&mut self, ordinal: SegmentNumber) -> Option<Sequence> {
        match self.segment(ordinal) {
            None => Some(Sequence(0)),
            Some(segment) => (segment.live == 0).then_some(segment.free_after),
        }
    }

    /// Forget the segments up to `ordinal`, which are gone.
    pub fn forget_through(&mut self, ordinal: SegmentNumber) {
        while self.base <= ordinal
            && let Some(gone) = self.segments.pop_front()
        {
            self.listed_bytes -= gone.size_bytes();
            self.base = self.base.next();
        }
    }

    /// The next record that is alive in segment `ordinal` and was not asked for before.
    pub fn next_in(&mut self, ordinal: SegmentNumber) -> Option<RecordId> {
        loop {
            let segment = self.segment(ordinal)?;
            let record = RecordId(*segment.slots.get(segment.cursor)?);
            segment.cursor += 1;
            if self.slots.get(record).is_some_and(|slot| slot.location.segment == ordinal) {
                return Some(record);
            }
        }
    }

    /// Let [`LiveRecords::next_in`] begin again.
    pub fn start_again(&mut self, ordinal: SegmentNumber) {
        if let Some(segment) = self.segment(ordinal) {
            segment.cursor = 0;
        }
    }

    /// Whether a slot still holds the record with this id, at this location.
    pub fn is_at(&self, record: RecordId, id: u64, location: Location) -> bool {
        self.slots.get(record).is_some_and(|slot| slot.id == id && slot.location == location)
    }

    /// Whether a slot still holds the record with this id.
    pub fn is_record(&self, record: RecordId, id: u64) -> bool {
        self.slots.get(record).is_some_and(|slot| slot.id == id)
    }

    /// The number of live records.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The memory of all records.
    pub fn memory_bytes(&self) -> usize {
        self.slots.size_bytes() + self.listed_bytes + self.holder_bytes
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn id(&self, record: RecordId) -> u64 {
        self.slots[record].id
    }

    pub fn location(&self, record: RecordId) -> Location {
        self.slots[record].location
    }

    pub fn size_bytes(&self, record: RecordId) -> u32 {
        self.slots[record].size_bytes
    }

    pub fn holders(&self, record: RecordId) -> &RecordHolders {
        &self.slots[record].holders
    }

    /// The queues that still hold a message, with its positions there.
    pub fn queues(&self, record: RecordId) -> SmallVec<[(DefinitionId, Sequence); 1]> {
        let slot = &self.slots[record];
        match &slot.holders {
            RecordHolders::One(queue) => SmallVec::from_buf([(*queue, Sequence(slot.id))]),
            RecordHolders::QueuePositions(many) => {
                many.positions.iter().copied().filter(|entry| entry.1 != Sequence(0)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    pub fn position(&self, record: RecordId, queue: DefinitionId) -> Option<Sequence> {
        let slot = self.slots.get(record)?;
        match &slot.holders {
            RecordHolders::One(only) if *only == queue => Some(Sequence(slot.id)),
            RecordHolders::QueuePositions(many) => {
                let index = many.positions.binary_search_by_key(&queue, |entry| entry.0).ok()?;
                Some(many.positions[index].1).filter(|position| *position != Sequence(0))
            }
            _ => None,
        }
    }

    /// Note that a queue is done with a message. Returns its position there and whether the queue was the last; None when
    /// the queue does not have it.
    pub fn settle(&mut self, record: RecordId, queue: DefinitionId) -> Option<(Sequence, bool)> {
        let position = self.position(record, queue)?;
        match &mut self.slots[record].holders {
            RecordHolders::QueuePositions(many) => {
                let index = many.positions.binary_search_by_key(&queue, |entry| entry.0).ok()?;
                many.positions[index].1 = Sequence(0);
                many.live -= 1;
                Some((position, many.live == 0))
            }
            _ => Some((position, true)),
        }
    }

    /// Add queues that have a message at `position`. One that has it already is done with that, and it is not recorded yet.
    pub fn add_positions(&mut self, record: RecordId, queues: &[DefinitionId], position: Sequence) {
        let mut positions = self.queues(record).into_vec();
        positions.extend(queues.iter().map(|&queue| (queue, position)));
        positions.sort_unstable();
        positions.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                kept.1 = later.1;
            }
            is_same
        });
        self.set_holders(record, RecordHolders::many(positions));
    }

    /// Keep a record that no durable queue holds any more, for lack of memory.
    pub fn keep_spilled(&mut self, record: RecordId) {
        self.set_holders(record, RecordHolders::Spilled);
    }

    /// Whether a record is kept for lack of memory only.
    pub fn is_spilled(&self, record: RecordId) -> bool {
        *self.holders(record) == RecordHolders::Spilled
    }

    /// The number of slots, those without a record too.
    pub fn end(&self) -> u32 {
        self.slots.end()
    }

    /// Whether there is such a record, and it is a message.
    pub fn is_message(&self, record: RecordId) -> bool {
        self.slots.get(record).is_some_and(|slot| slot.holders != RecordHolders::DefinitionRecord)
    }
}

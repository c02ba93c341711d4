//! What is alive in the journal: every live record, where it lies, and which queues hold it.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{DefinitionId, RecordId};
use crate::journal::{Location, SegmentNumber, Sequence};

/// Where a record is that lies in no segment any more: its queue was deleted, and its holder has yet to let go of it.
const NOWHERE: Location = Location { segment: SegmentNumber(0), offset: 0 };

/// Who holds a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordHolders {
    /// Nobody: the slot is free.
    Free,
    /// It is a definition.
    DefinitionRecord,
    /// A message that is held so many times, by no durable queue.
    Spilled(u32),
    /// One queue, since the record itself.
    One(DefinitionId),
    /// RecoveringQueues, each with its position there; sorted. More than four bytes a queue, but only for messages of several.
    QueuePositions(Box<QueuePositions>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuePositions {
    /// A position of 0 is settled.
    places: Vec<(DefinitionId, Sequence)>,
    live: usize,
}

impl RecordHolders {
    pub fn of(queues: &[DefinitionId], position: Sequence) -> Self {
        match queues {
            [queue] => Self::One(*queue),
            _ => Self::many(queues.iter().map(|&queue| (queue, position)).collect()),
        }
    }

    pub fn many(mut places: Vec<(DefinitionId, Sequence)>) -> Self {
        places.sort_unstable();
        Self::QueuePositions(Box::new(QueuePositions { live: places.len(), places }))
    }
}

/// 40 bytes a live record.
#[derive(Clone, Debug)]
struct LiveRecord {
    /// The number of its first record.
    id: u64,
    location: Location,
    size_bytes: u32,
    places: RecordHolders,
}

/// What is known of a segment.
#[derive(Clone, Debug, Default)]
struct SegmentRecords {
    /// The records that were put into it, dead ones too: a slot that was given again lies elsewhere now, or is named
    /// twice, which does no harm.
    slots: Vec<u32>,
    /// How far compaction has come in it.
    cursor: usize,
    live: usize,
    /// It may go when this is synced: whatever made its last record needless came before.
    free_after: Sequence,
}

/// All live records. LiveRecords are found by number, segments by ordinal.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveRecords {
    slots: Vec<LiveRecord>,
    free: Vec<u32>,
    segments: VecDeque<SegmentRecords>,
    /// The ordinal of the first of `segments`.
    base: SegmentNumber,
    live_bytes: u64,
}

impl LiveRecords {
    pub fn insert(&mut self, id: u64, location: Location, size_bytes: u32, places: RecordHolders) -> RecordId {
        let slot = LiveRecord { id, location, size_bytes, places };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("fewer than four billion live records")
            }
        };
        self.live_bytes += u64::from(size_bytes);
        self.enter(index, location.segment);
        RecordId(index)
    }

    /// Nobody holds the record any more. `last` is the number of the last record appended.
    pub fn free(&mut self, record: RecordId, last: Sequence) {
        self.leave(record, last);
        self.slots[record.0 as usize].places = RecordHolders::Free;
        self.free.push(record.0);
    }

    /// Count it out of its segment: its bytes there are of no use any more.
    pub fn leave(&mut self, record: RecordId, last: Sequence) {
        let slot = &mut self.slots[record.0 as usize];
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

    /// The record lies elsewhere now.
    pub fn relocate(&mut self, record: RecordId, location: Location, size_bytes: u32, last: Sequence) {
        self.leave(record, last);
        let slot = &mut self.slots[record.0 as usize];
        slot.location = location;
        slot.size_bytes = size_bytes;
        self.live_bytes += u64::from(size_bytes);
        self.enter(record.0, location.segment);
    }

    fn enter(&mut self, index: u32, ordinal: SegmentNumber) {
        self.segments_through(ordinal);
        if let Some(segment) = self.segment(ordinal) {
            segment.slots.push(index);
            segment.live += 1;
        }
    }

    /// See to it that `ordinal` has its place.
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

    /// Whether segment `ordinal` has nothing that is alive, once the number is synced that comes back.
    pub fn empty_after(&mut self, ordinal: SegmentNumber) -> Option<Sequence> {
        match self.segment(ordinal) {
            None => Some(Sequence(0)),
            Some(segment) => (segment.live == 0).then_some(segment.free_after),
        }
    }

    /// Segments up to `ordinal` are gone.
    pub fn forget_through(&mut self, ordinal: SegmentNumber) {
        while self.base <= ordinal && self.segments.pop_front().is_some() {
            self.base = self.base.next();
        }
    }

    /// The next record that is alive in segment `ordinal` and was not asked for before.
    pub fn next_in(&mut self, ordinal: SegmentNumber) -> Option<RecordId> {
        loop {
            let segment = self.segment(ordinal)?;
            let index = *segment.slots.get(segment.cursor)?;
            segment.cursor += 1;
            let slot = &self.slots[index as usize];
            if slot.places != RecordHolders::Free && slot.location.segment == ordinal {
                return Some(RecordId(index));
            }
        }
    }

    /// Ask for all of them again.
    pub fn start_again(&mut self, ordinal: SegmentNumber) {
        if let Some(segment) = self.segment(ordinal) {
            segment.cursor = 0;
        }
    }

    /// Whether a record still is what it was when it had this number, at this place.
    pub fn is_at(&self, record: RecordId, id: u64, location: Location) -> bool {
        let slot = &self.slots[record.0 as usize];
        slot.places != RecordHolders::Free && slot.id == id && slot.location == location
    }

    /// How many records are alive.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn id(&self, record: RecordId) -> u64 {
        self.slots[record.0 as usize].id
    }

    pub fn location(&self, record: RecordId) -> Location {
        self.slots[record.0 as usize].location
    }

    pub fn size_bytes(&self, record: RecordId) -> u32 {
        self.slots[record.0 as usize].size_bytes
    }

    pub fn places(&self, record: RecordId) -> &RecordHolders {
        &self.slots[record.0 as usize].places
    }

    /// The live places of a message of durable queues.
    pub fn queues(&self, record: RecordId) -> SmallVec<[(DefinitionId, Sequence); 1]> {
        let slot = &self.slots[record.0 as usize];
        match &slot.places {
            RecordHolders::One(queue) => SmallVec::from_buf([(*queue, Sequence(slot.id))]),
            RecordHolders::QueuePositions(many) => {
                many.places.iter().copied().filter(|place| place.1 != Sequence(0)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    pub fn position(&self, record: RecordId, queue: DefinitionId) -> Option<Sequence> {
        let slot = self.slots.get(record.0 as usize)?;
        match &slot.places {
            RecordHolders::One(only) if *only == queue => Some(Sequence(slot.id)),
            RecordHolders::QueuePositions(many) => {
                let place = many.places.binary_search_by_key(&queue, |place| place.0).ok()?;
                Some(many.places[place].1).filter(|position| *position != Sequence(0))
            }
            _ => None,
        }
    }

    /// A queue lets go: its position there, and whether it was the last. None when the queue does not have it.
    pub fn settle(&mut self, record: RecordId, queue: DefinitionId) -> Option<(Sequence, bool)> {
        let position = self.position(record, queue)?;
        match &mut self.slots[record.0 as usize].places {
            RecordHolders::QueuePositions(many) => {
                let place = many.places.binary_search_by_key(&queue, |place| place.0).ok()?;
                many.places[place].1 = Sequence(0);
                many.live -= 1;
                Some((position, many.live == 0))
            }
            _ => Some((position, true)),
        }
    }

    /// Further queues have it, all at `position`; those that have it already keep theirs.
    pub fn add_places(&mut self, record: RecordId, queues: &[DefinitionId], position: Sequence) {
        let further = queues.iter().map(|&queue| (queue, position));
        self.extend_places(record, further);
    }

    pub fn extend_places(&mut self, record: RecordId, further: impl Iterator<Item = (DefinitionId, Sequence)>) {
        let mut places = self.queues(record);
        let known = places.len();
        places.extend(further);
        // The first of each queue stays: sorting is stable, and those that were there come first.
        places.sort_by_key(|place| place.0);
        places.dedup_by_key(|place| place.0);
        if places.len() > known {
            self.slots[record.0 as usize].places = RecordHolders::many(places.into_vec());
        }
    }

    /// One holder of a spilled message lets go; whether it was the last.
    pub fn release(&mut self, record: RecordId) -> bool {
        match &mut self.slots[record.0 as usize].places {
            RecordHolders::Spilled(references) => {
                *references = references.saturating_sub(1);
                *references == 0
            }
            _ => false,
        }
    }

    /// Every record that is alive.
    pub fn iter(&self) -> impl Iterator<Item = RecordId> {
        let is_live = |(_, slot): &(u32, &LiveRecord)| slot.places != RecordHolders::Free;
        (0..).zip(&self.slots).filter(is_live).map(|(index, _)| RecordId(index))
    }
}

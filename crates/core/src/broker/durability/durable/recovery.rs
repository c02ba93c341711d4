//! Recovers the journal: reads the heads of its records in order to learn which records are alive.

use hashbrown::{HashMap, HashSet};

use crate::journal::{Damage, Location, OpenError, ReadError, RecordHead, Sequence};

use super::live_records::{LiveRecords, RecordHolders};
use super::records::{self, DefinitionRecord, MessageHead, RECORD_BYTES, kind};
use super::{Defined, DefinitionId, Durable, RecordId, TimeToLive};

/// Marks a position that belongs to no record of a message.
const NONE: u32 = u32::MAX;
/// The maximum hole in the sequences that is filled; a larger one begins a new run.
const HOLE_MAX: u64 = 1024;

/// Everything that was alive when the broker ended.
#[derive(Clone, Debug, Default)]
pub struct RecoveredJournal {
    /// Definitions in the order in which they were first made, so that each follows what it depends on.
    pub definitions: Vec<RecoveredDefinition>,
    /// Messages, in no particular order.
    pub messages: Vec<RecoveredMessage>,
    /// Queues that have messages.
    pub queues: Vec<RecoveredQueue>,
    /// The damage. A damaged index loses nothing, a damaged record its content.
    pub damage: Vec<Damage>,
    /// Whether the broker was stopped and had not crashed.
    pub is_clean: bool,
}

/// A recovered definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredDefinition {
    /// The id.
    pub id: DefinitionId,
    /// The key.
    pub key: Vec<u8>,
    /// The value that was last recorded under the key.
    pub value: Vec<u8>,
}

/// A recovered message, without its bytes: [`Durable::load`] reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredMessage {
    /// The record of the message.
    pub record: RecordId,
    /// The time at which it was recorded.
    pub time_us: i64,
    /// Its time to live, from then on.
    pub time_to_live: TimeToLive,
    /// The size of exchange and routing key together.
    pub route_bytes: u32,
    /// The size of its properties.
    pub properties_bytes: u32,
    /// The size of its body.
    pub body_bytes: u32,
}

/// A queue's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredQueue {
    /// The queue's definition.
    pub queue: DefinitionId,
    /// The entries, in order.
    pub entries: Vec<RecoveredEntry>,
}

/// An entry of a recovered queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredEntry {
    /// The index of the message in [`RecoveredJournal::messages`].
    pub message: u32,
    /// Whether the entry may have been delivered before. After a crash, this holds for all entries.
    pub redelivered: bool,
}

/// A queue that has a message, with the message's position there.
type QueuePosition = (DefinitionId, Sequence);

/// A definition as its record has it.
#[derive(Debug)]
struct DefinitionHead {
    slot: RecordId,
    parents: Vec<DefinitionId>,
    /// Key and value; None when they are in the body.
    bytes: Option<(Vec<u8>, Vec<u8>)>,
    location: Location,
}

/// The state after reading some of the records.
#[derive(Debug, Default)]
struct JournalReading {
    slots: LiveRecords,
    /// Messages by slot. Those of other slots say nothing.
    messages: Vec<RecoveredMessage>,
    positions: RecordPositions,
    definitions: HashMap<DefinitionId, DefinitionHead>,
    /// The message of the copy that is to follow at once, and the positions that are not in the copy's own head.
    copy_positions: (u64, Vec<QueuePosition>),
    stopped: Option<(Sequence, Location)>,
    last: Sequence,
}

/// The messages that records put into queues, by the sequence of the record.
#[derive(Debug, Default)]
struct RecordPositions {
    /// Runs of slots with their first sequence, ascending.
    runs: Vec<(u64, Vec<u32>)>,
    /// The slots of records whose segment is removed.
    moved: HashMap<u64, u32>,
}

impl RecordPositions {
    /// Add a record. Sequences ascend.
    fn push(&mut self, sequence: Sequence, slot: RecordId) {
        if let Some((first, slots)) = self.runs.last_mut() {
            let hole = sequence.0 - *first - slots.len() as u64;
            if hole <= HOLE_MAX {
                slots.extend(std::iter::repeat_n(NONE, hole as usize));
                slots.push(slot.0);
                return;
            }
        }
        self.runs.push((sequence.0, vec![slot.0]));
    }

    /// Note that a copy has the position of a record that may not be there any more.
    fn set(&mut self, position: u64, slot: RecordId) {
        if self.find(position) != Some(slot) {
            self.moved.insert(position, slot.0);
        }
    }

    fn find(&self, position: u64) -> Option<RecordId> {
        if let Some(slot) = self.moved.get(&position) {
            return Some(RecordId(*slot));
        }
        let run = self.runs.partition_point(|(first, _)| *first <= position).checked_sub(1)?;
        let (first, slots) = &self.runs[run];
        slots.get((position - first) as usize).copied().filter(|slot| *slot != NONE).map(RecordId)
    }
}

/// The positions in a head, behind those of the same message in the records before. Its queues ascend; where they do not,
/// somebody began anew to write them.
fn followed(before: (u64, Vec<QueuePosition>), id: u64, head: &[u8]) -> Vec<QueuePosition> {
    let (of, mut positions) = before;
    let first = records::positions_of(head).next();
    let goes_on = first.is_none_or(|first| positions.last().is_none_or(|last| last.0 < first.0));
    if of != id || !goes_on {
        positions.clear();
    }
    positions.extend(records::positions_of(head));
    positions
}

impl JournalReading {
    /// Nothing is read yet of this many records at the most. Room that is not used takes no memory, and nothing is copied to a
    /// larger one.
    fn of(records_max: usize) -> Self {
        Self { messages: Vec::with_capacity(records_max), ..Self::default() }
    }

    fn visit(&mut self, stored: &RecordHead<'_>) {
        self.last = stored.sequence;
        let mut head = stored.head;
        // A copy follows its positions at once. If not, it was never finished, and they say nothing.
        let positions = std::mem::take(&mut self.copy_positions);
        // A head that cannot be decoded was not written by this version: its checksum is right. It is ignored.
        _ = match stored.kind {
            kind::MESSAGE | kind::MESSAGE_1 => self.message(stored),
            kind::MOVED | kind::MOVED_1 => self.moved(stored, positions),
            kind::POSITIONS => {
                records::take_varint(&mut head).map(|id| self.copy_positions = (id, followed(positions, id, head)))
            }
            kind::ENQUEUED => records::take_varint(&mut head).map(|id| self.enqueued(id, head, stored.sequence)),
            kind::SETTLED => {
                records::for_each_settled(head, |queue, position| self.settled(queue, position));
                Some(())
            }
            kind::DEFINE => self.define(stored),
            kind::FORGET => records::take_varint(&mut head).map(|id| self.forget(DefinitionId(id))),
            kind::STOPPED => {
                self.stopped = Some((stored.sequence, stored.location));
                Some(())
            }
            _ => None, // SPILLED, STARTED
        };
    }

    fn message(&mut self, stored: &RecordHead<'_>) -> Option<()> {
        let mut head = stored.head;
        let sizes = MessageHead::take(stored.kind, &mut head)?;
        let mut queues = records::queues_of(head);
        let first = queues.next()?;
        let others: Vec<DefinitionId> = queues.collect();
        let holders = match others.is_empty() {
            true => RecordHolders::One(first),
            false => RecordHolders::of(&[&[first], &*others].concat(), stored.sequence),
        };
        let record = self.insert(stored.sequence.0, stored, sizes, holders);
        self.positions.push(stored.sequence, record);
        Some(())
    }

    /// A copy says everything of its message. What was read of it before counts no more, so that it makes no difference
    /// whether the original is still there.
    fn moved(&mut self, stored: &RecordHead<'_>, positions: (u64, Vec<QueuePosition>)) -> Option<()> {
        let mut head = stored.head;
        let id = records::take_varint(&mut head)?;
        let sizes = MessageHead::take(stored.kind, &mut head)?;
        let entries = followed(positions, id, head);
        let positions: Vec<u64> = entries.iter().map(|entry| entry.1.0).chain([id]).collect();
        let holders = match entries[..] {
            [(queue, position)] if position.0 == id => RecordHolders::One(queue),
            _ => RecordHolders::many(entries),
        };
        let record = match self.record(id) {
            Some(record) => {
                self.slots.relocate(record, stored.location, stored.size_bytes, self.last);
                #[cfg(test)]
                if super::tests::COPIES_SAY_LITTLE.get() {
                    return Some(());
                }
                self.slots.set_holders(record, holders);
                record
            }
            None => self.insert(id, stored, sizes, holders),
        };
        for position in positions {
            self.positions.set(position, record);
        }
        Some(())
    }

    fn insert(&mut self, id: u64, stored: &RecordHead<'_>, sizes: MessageHead, holders: RecordHolders) -> RecordId {
        let record = self.slots.insert(id, stored.location, stored.size_bytes, holders);
        let overhead = RECORD_BYTES as u32 + stored.head.len() as u32 + sizes.route + sizes.properties;
        let message = RecoveredMessage {
            record,
            time_us: stored.time_us,
            time_to_live: sizes.time_to_live,
            route_bytes: sizes.route,
            properties_bytes: sizes.properties,
            body_bytes: stored.size_bytes.saturating_sub(overhead),
        };
        let index = record.0 as usize;
        if self.messages.len() <= index {
            self.messages.resize(index + 1, message);
        }
        self.messages[index] = message;
        record
    }

    /// The message with this id, if it is alive.
    fn record(&self, id: u64) -> Option<RecordId> {
        let record = self.positions.find(id)?;
        let is_alive = self.slots.is_record(record, id);
        is_alive.then_some(record)
    }

    fn enqueued(&mut self, id: u64, head: &[u8], sequence: Sequence) {
        if let Some(record) = self.record(id) {
            let queues: Vec<DefinitionId> = records::queues_of(head).collect();
            self.slots.add_positions(record, &queues, sequence);
            self.positions.push(sequence, record);
        }
    }

    fn settled(&mut self, queue: DefinitionId, position: Sequence) {
        let Some(record) = self.positions.find(position.0) else { return };
        // The slot may be another message's by now, which has another position.
        if self.slots.position(record, queue) == Some(position)
            && self.slots.settle(record, queue).is_some_and(|(_, is_last)| is_last)
        {
            self.slots.free(record, self.last);
        }
    }

    fn define(&mut self, stored: &RecordHead<'_>) -> Option<()> {
        let is_inline = stored.size_bytes as usize == RECORD_BYTES + stored.head.len();
        let mut head = stored.head;
        let (id, parents, bytes) = match is_inline {
            true => {
                let DefinitionRecord { id, parents, key, value } = DefinitionRecord::decode(head, &[])?;
                (id, parents, Some((key.to_vec(), value.to_vec())))
            }
            false => {
                let id = records::take_varint(&mut head)?;
                let count = records::take_varint(&mut head)?;
                let parents = (0..count).map_while(|_| records::take_varint(&mut head).map(DefinitionId));
                (DefinitionId(id), parents.collect(), None)
            }
        };
        let id = if id == DefinitionId(0) { DefinitionId(stored.sequence.0) } else { id };
        self.forget(id);
        let slot = self.slots.insert(id.0, stored.location, stored.size_bytes, RecordHolders::DefinitionRecord);
        self.definitions.insert(id, DefinitionHead { slot, parents, bytes, location: stored.location });
        Some(())
    }

    fn forget(&mut self, id: DefinitionId) {
        if let Some(raw) = self.definitions.remove(&id) {
            self.slots.free(raw.slot, self.last);
        }
    }
}

impl Durable {
    /// Read all heads. `damage` is the damage that opening the log has reported.
    pub(super) fn recover(&mut self, mut damage: Vec<Damage>) -> Result<RecoveredJournal, OpenError> {
        let mut reading = JournalReading::of(self.records_max());
        let lost = self.log.for_each_head(&mut |head| reading.visit(&head))?;
        damage.extend(lost.into_iter().filter(|lost| !damage.contains(lost)).collect::<Vec<_>>());
        let JournalReading { slots, messages, definitions, stopped, last, .. } = reading;
        self.slots = slots;
        let definitions = self.recover_definitions(definitions)?;
        let delivered = self.delivered(stopped.filter(|stopped| stopped.0 == last).map(|stopped| stopped.1))?;
        let is_clean = delivered.is_some();
        let (messages, queues) = self.recover_messages(messages, delivered);
        Ok(RecoveredJournal { definitions, messages, queues, damage, is_clean })
    }

    /// The number of records that the log may have.
    fn records_max(&self) -> usize {
        let numbers = self.log.next_sequence().0.saturating_sub(self.log.first_sequence().0);
        numbers.min(self.log.file_bytes() / RECORD_BYTES as u64) as usize
    }

    fn recover_definitions(
        &mut self,
        heads: HashMap<DefinitionId, DefinitionHead>,
    ) -> Result<Vec<RecoveredDefinition>, OpenError> {
        let mut definitions = Vec::new();
        let mut buffer = Vec::new();
        for (id, DefinitionHead { slot, parents, bytes, location }) in heads {
            let (key, value) = match bytes {
                Some(bytes) => bytes,
                None => match self.log.read_at(location, &mut buffer) {
                    Ok(record) => match DefinitionRecord::decode(record.head, record.body) {
                        Some(definition) => (definition.key.to_vec(), definition.value.to_vec()),
                        None => continue,
                    },
                    Err(ReadError::Io(error)) => return Err(error.into()),
                    Err(_) => {
                        self.lost_count += 1;
                        self.slots.free(slot, self.last);
                        continue;
                    }
                },
            };
            self.definitions.insert(id, Defined { slot, parents: parents.into() });
            definitions.push(RecoveredDefinition { id, key, value });
        }
        definitions.sort_unstable_by_key(|definition| definition.id);
        let dead: HashSet<DefinitionId> =
            definitions.iter().map(|definition| definition.id).filter(|id| !self.is_alive(*id)).collect();
        dead.iter().for_each(|id| self.drop_definition(*id));
        definitions.retain(|definition| !dead.contains(&definition.id));
        self.keys = definitions.iter().map(|definition| (definition.key.as_slice().into(), definition.id)).collect();
        Ok(definitions)
    }

    /// The entries that had been delivered when the broker was stopped; None when it was not stopped.
    fn delivered(&self, stopped: Option<Location>) -> Result<Option<Delivered>, OpenError> {
        let Some(location) = stopped else { return Ok(None) };
        let mut buffer = Vec::new();
        let mut entries = Vec::new();
        match self.log.read_at(location, &mut buffer) {
            Ok(record) => records::for_each_settled(record.body, |queue, position| entries.push((queue, position))),
            Err(ReadError::Io(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        }
        Ok(Some(Delivered::of(entries)))
    }

    /// The messages that queues still have, out of those by slot, and the queues with their entries in order. Nothing is
    /// copied that need not be: memory that is touched for the first time takes most of the time of a recovery.
    fn recover_messages(
        &mut self,
        mut messages: Vec<RecoveredMessage>,
        mut delivered: Option<Delivered>,
    ) -> (Vec<RecoveredMessage>, Vec<RecoveredQueue>) {
        let mut queues = RecoveringQueues::default();
        let mut count = 0;
        for slot in 0..self.slots.end() {
            let record = RecordId(slot);
            if !self.slots.is_message(record) {
                continue;
            }
            let mut is_wanted = false;
            for (queue, position) in self.slots.queues(record) {
                let Some(entries) = queues.of(queue, |queue| self.is_alive(queue)) else {
                    self.slots.settle(record, queue);
                    continue;
                };
                is_wanted = true;
                let redelivered = delivered.as_mut().is_none_or(|delivered| delivered.has((queue, position)));
                entries.push(position, RecoveredEntry { message: count, redelivered });
            }
            if is_wanted {
                messages[count as usize] = messages[slot as usize];
                count += 1;
            } else {
                self.slots.free(record, self.last);
            }
        }
        messages.truncate(count as usize);
        let position = |queue, entry: &RecoveredEntry| {
            self.slots.position(messages[entry.message as usize].record, queue).unwrap_or_default()
        };
        let queues = queues.in_order(position);
        (messages, queues)
    }
}

/// The entries that had been delivered when the broker was stopped. They are asked for nearly in their order.
struct Delivered {
    sorted: Vec<QueuePosition>,
    /// The index of the first that is behind the entry that was asked for last.
    next: usize,
}

impl Delivered {
    fn of(mut entries: Vec<QueuePosition>) -> Self {
        entries.sort_unstable();
        Self { sorted: entries, next: 0 }
    }

    fn has(&mut self, entry: QueuePosition) -> bool {
        let is_behind = self.next.checked_sub(1).is_none_or(|index| self.sorted[index] < entry);
        let is_before = self.sorted.get(self.next).is_none_or(|next| entry <= *next);
        if !(is_behind && is_before) {
            self.next = self.sorted.partition_point(|other| *other < entry);
        }
        let is_there = self.sorted.get(self.next) == Some(&entry);
        self.next += usize::from(is_there);
        is_there
    }
}

/// A queue while entries are added to it.
struct RecoveringQueue {
    queue: DefinitionId,
    entries: Vec<RecoveredEntry>,
    /// The position of the last of them.
    last: Sequence,
    is_sorted: bool,
}

impl RecoveringQueue {
    fn push(&mut self, position: Sequence, entry: RecoveredEntry) {
        self.is_sorted &= position > self.last;
        self.last = position;
        self.entries.push(entry);
    }

    /// The queue with its entries in order.
    fn in_order(mut self, position: impl Fn(DefinitionId, &RecoveredEntry) -> Sequence) -> RecoveredQueue {
        if !self.is_sorted {
            self.entries.sort_by_cached_key(|entry| position(self.queue, entry));
        }
        RecoveredQueue { queue: self.queue, entries: self.entries }
    }
}

/// Queues while entries are added to them. Most messages go to the queue of the message before.
#[derive(Default)]
struct RecoveringQueues {
    /// The index of each queue in `filled`; None for one that does not exist any more.
    indices: HashMap<DefinitionId, Option<usize>>,
    last: (DefinitionId, Option<usize>),
    filled: Vec<RecoveringQueue>,
}

impl RecoveringQueues {
    fn of(&mut self, queue: DefinitionId, is_alive: impl FnOnce(DefinitionId) -> bool) -> Option<&mut RecoveringQueue> {
        if self.last.0 != queue {
            let filled = &mut self.filled;
            let index = *self.indices.entry(queue).or_insert_with(|| {
                is_alive(queue).then(|| {
                    filled.push(RecoveringQueue { queue, entries: Vec::new(), last: Sequence(0), is_sorted: true });
                    filled.len() - 1
                })
            });
            self.last = (queue, index);
        }
        Some(&mut self.filled[self.last.1?])
    }

    /// All queues with their entries in order. `position` is the position of an entry in its queue.
    fn in_order(self, position: impl Fn(DefinitionId, &RecoveredEntry) -> Sequence) -> Vec<RecoveredQueue> {
        let mut queues: Vec<RecoveredQueue> = self.filled.into_iter().map(|queue| queue.in_order(&position)).collect();
        queues.sort_unstable_by_key(|queue| queue.queue);
        queues
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{Random, fewer};

    #[test]
    fn what_was_delivered_is_found_in_any_order() {
        let mut random = Random(3);
        for _ in 0..fewer(200) {
            let mut entry = || (DefinitionId(random.below(3) as u64), Sequence(random.below(30) as u64));
            let entries: BTreeSet<QueuePosition> = (0..20).map(|_| entry()).collect();
            let mut delivered = Delivered::of(entries.iter().copied().collect());
            for asked in (0..60).map(|_| entry()).chain(entries.iter().copied()).collect::<Vec<_>>() {
                assert_eq!(delivered.has(asked), entries.contains(&asked), "{asked:?} of {entries:?}");
            }
        }
    }
}

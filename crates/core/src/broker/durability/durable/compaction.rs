//! Compaction: copies the live records of the oldest segment, so that the segment can be removed.
//!
//! A copy keeps the id, the queues and the positions of its original, so that the order of queues does not change. Until the
//! copy is synced the original counts. After a crash in between, recovery reads both, and what the copy says counts: it is the
//! same as where the original is gone.

use crate::journal::{AppendError, Appended, Location, ReadError, Record, Sequence, Wait};

use super::live_records::RecordHolders;
use super::records::{self, DefinitionRecord, MessageHead, RECORD_BYTES, kind};
use super::{DefinitionId, Durable, RecordId};

/// Maximum number of records that are copied in one call, which takes a few milliseconds.
const COPIES_AT_ONCE: usize = 2_000;

/// A copy that is not synced yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingMove {
    record: RecordId,
    id: u64,
    from: Location,
    to: Location,
    size_bytes: u32,
    /// The copy is synced as a whole once this sequence is.
    sequence: Sequence,
}

impl Durable {
    /// Do part of the work of keeping the log small: switch to copies that are synced, remove segments without live
    /// records, and, when the log is larger than twice what is alive and two segments, copy up to `bytes_max` out of the
    /// oldest segment, but at least one record, and no more once `is_over`. Returns how many bytes were copied when there is
    /// more to do now.
    ///
    /// To keep up, call it with twice as much as was appended since the last call.
    pub fn compact(&mut self, bytes_max: u64, is_over: impl Fn() -> bool) -> Option<u64> {
        self.take_over();
        self.remove_empty();
        if !self.is_too_large() || self.log.is_stuck() || self.log.failed().is_some() {
            return None;
        }
        let bytes_max = bytes_max.min(self.room_for_copies());
        if bytes_max == 0 {
            return None;
        }
        let (oldest, _) = self.log.sealed_after(self.removed)?;
        let (mut copied, mut left) = (0, COPIES_AT_ONCE);
        while copied < bytes_max && left > 0 {
            let Some(record) = self.slots.next_in(oldest) else {
                if self.skipped && self.moves.is_empty() {
                    self.skipped = false;
                    self.slots.start_again(oldest);
                }
                return None;
            };
            if copied > 0 && is_over() {
                break;
            }
            let size_bytes = u64::from(self.slots.size_bytes(record));
            copied += size_bytes;
            left -= 1;
            self.copied_while_full += size_bytes;
            if !self.copy(record) {
                self.copied_while_full = self.copied_while_full.saturating_sub(size_bytes);
                self.skipped = true;
                return None;
            }
        }
        Some(copied)
    }

    /// Maximum number of bytes to copy until the disk has room again. On a full disk it is half of the reserve: a segment
    /// with no more than that alive, as most often the oldest has when the log is too large, makes room when it is removed.
    fn room_for_copies(&mut self) -> u64 {
        if !self.log.is_full() {
            self.copied_while_full = 0;
            return u64::MAX;
        }
        u64::from(self.options.segment_bytes / 2).saturating_sub(self.copied_while_full)
    }

    fn is_too_large(&self) -> bool {
        let allowed = 2 * self.slots.live_bytes() + 2 * u64::from(self.options.segment_bytes);
        self.log.size_bytes() > allowed
    }

    /// Switch to copies that are synced.
    fn take_over(&mut self) {
        let synced = self.log.synced();
        while let Some(next) = self.moves.front().copied().filter(|next| next.sequence <= synced) {
            self.moves.pop_front();
            if self.slots.is_at(next.record, next.id, next.from) {
                self.slots.relocate(next.record, next.to, next.size_bytes, self.last);
            }
        }
    }

    /// Remove segments without live records, from the oldest on, once everything that made them needless is synced.
    fn remove_empty(&mut self) {
        while let Some((ordinal, last)) = self.log.sealed_after(self.removed) {
            let is_free = self.slots.empty_after(ordinal).is_some_and(|after| after <= self.log.synced());
            if !is_free {
                return;
            }
            self.slots.forget_through(ordinal);
            self.removed = ordinal;
            self.log.remove_through(last);
        }
    }

    /// Copy a record, or drop it. False when the copy has to be tried again: for one, because the disk is still reading it.
    fn copy(&mut self, record: RecordId) -> bool {
        let from = self.slots.location(record);
        let mut buffer = std::mem::take(&mut self.buffer);
        let copied = match self.log.read(from, Wait::Never, &mut buffer) {
            Ok(source) => match self.slots.holders(record) {
                RecordHolders::DefinitionRecord => self.copy_definition(record, &source),
                RecordHolders::Spilled => self.copy_spilled(record, &source),
                _ => self.copy_message(record, &source),
            },
            Err(ReadError::Io(error)) => Err(AppendError::Failed(error.to_string())),
            Err(_) => {
                // The record cannot be read any more. It is counted as lost, and does not keep the segment.
                self.lost_count += 1;
                self.slots.leave(record, self.last);
                Ok(())
            }
        };
        self.buffer = buffer;
        // A record of larger segments than these cannot be copied: it stays, and so does its segment.
        matches!(copied, Ok(()) | Err(AppendError::TooLarge { .. }))
    }

    fn copy_definition(&mut self, record: RecordId, source: &Record<'_>) -> Result<(), AppendError> {
        let id = DefinitionId(self.slots.id(record));
        let Some(definition) = DefinitionRecord::decode(source.head, source.body) else { return Ok(()) };
        if !self.is_alive(id) {
            // A definition that it depended on is gone.
            if self.keys.get(definition.key) == Some(&id) {
                self.keys.remove(definition.key);
            }
            self.drop_definition(id);
            return Ok(());
        }
        let mut head = Vec::new();
        let body = DefinitionRecord { id, ..definition }.encode(&mut head);
        let appended = self.append_to(kind::DEFINE, source.time_us, &head, &body)?;
        self.moved(record, appended, head.len() + body.iter().map(|part| part.len()).sum::<usize>());
        Ok(())
    }

    fn copy_message(&mut self, record: RecordId, source: &Record<'_>) -> Result<(), AppendError> {
        let mut positions = self.slots.queues(record);
        positions.retain(|entry| self.is_alive(entry.0));
        if positions.is_empty() {
            // Its queues were deleted, but others may have it, who need its bytes until they release it.
            return self.copy_spilled(record, source);
        }
        let Some(sizes) = MessageHead::of_record(source.kind, source.head) else { return Ok(()) };
        let id = self.slots.id(record);
        let mut head = Vec::new();
        // Positions that do not fit are recorded first, so that when the copy is there, all of its positions are.
        let mut done = 0;
        loop {
            head.clear();
            records::put_varint(&mut head, id);
            sizes.put(kind::MOVED, &mut head);
            let count = records::put_positions(&mut head, &positions[done..]);
            if done + count == positions.len() {
                return self.append_copy(record, kind::MOVED, &head, source);
            }
            head.clear();
            records::put_varint(&mut head, id);
            done += records::put_positions(&mut head, &positions[done..]);
            self.append(kind::POSITIONS, source.time_us, &head)?;
        }
    }

    /// Copy a message that no durable queue holds: without queues, so that it is not recovered.
    fn copy_spilled(&mut self, record: RecordId, source: &Record<'_>) -> Result<(), AppendError> {
        let Some(sizes) = MessageHead::of_record(source.kind, source.head) else { return Ok(()) };
        let mut head = Vec::new();
        sizes.put(kind::SPILLED, &mut head);
        self.append_copy(record, kind::SPILLED, &head, source)
    }

    fn append_copy(&mut self, record: RecordId, kind: u8, head: &[u8], source: &Record<'_>) -> Result<(), AppendError> {
        let appended = self.append_to(kind, source.time_us, head, &[source.body])?;
        self.moved(record, appended, head.len() + source.body.len());
        Ok(())
    }

    fn moved(&mut self, record: RecordId, appended: Appended, size: usize) {
        self.moves.push_back(PendingMove {
            record,
            id: self.slots.id(record),
            from: self.slots.location(record),
            to: appended.location,
            size_bytes: (RECORD_BYTES + size) as u32,
            sequence: appended.sequence,
        });
    }
}

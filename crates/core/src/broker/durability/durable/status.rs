//! The status of the journal: what is synced, whether its disk has room, and how much it takes.

use crate::journal::{Sequence, Statistics};

use super::Durable;
use super::compaction::PendingMove;
use super::ids::DefinitionId;

/// The memory of a definition besides its record: its key, an average one, in the index by keys, and its parents.
const DEFINITION_BYTES: usize = 200;

impl Durable {
    /// The highest sequence that survives a crash.
    #[must_use]
    pub fn synced(&self) -> Sequence {
        self.log.synced()
    }

    /// Whether publishers have to wait: half of what messages may take of the pending bytes is used.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.log.pending_bytes() > self.options.pending_bytes_max / 4
    }

    /// Whether the disk has room only in the reserve, for definitions and for what is settled. Nothing is lost, and messages
    /// have to wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.log.is_full()
    }

    /// Whether there is no room at all: nothing is lost, and nothing becomes durable until there is.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.log.is_stuck()
    }

    /// Why nothing is written any more.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.log.failed()
    }

    /// The bytes of live records, and of all records.
    #[must_use]
    pub fn size_bytes(&self) -> (u64, u64) {
        (self.slots.live_bytes(), self.log.size_bytes())
    }

    /// Bytes on disk, the number of segments, and bytes that wait to be written.
    #[must_use]
    pub fn extent(&self) -> (u64, usize, usize) {
        (self.log.file_bytes(), self.log.segment_count(), self.log.pending_bytes())
    }

    /// The memory that it takes: for definitions and live records, for what waits to be written, and for copies.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + self.log.pending_bytes()
            + self.definitions.len() * DEFINITION_BYTES
            + self.moves.capacity() * size_of::<PendingMove>()
            + self.settled.capacity() * size_of::<(DefinitionId, Sequence)>()
    }

    /// The memory of the index of the segment that is written.
    #[must_use]
    pub fn index_memory_bytes(&self) -> usize {
        self.log.heads_memory_bytes()
    }

    /// Counts of what was written since the journal was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.log.statistics()
    }

    /// The number of messages that are recorded and not settled, with spilled ones that are not released.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.slots.len() - self.definitions.len()
    }

    /// The number of live records that are lost because compaction could not read them.
    #[must_use]
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }
}

//! Changes of the topology on their way to the journal: some wait for room, the others until they are synced.

use std::collections::VecDeque;

use crate::journal::Sequence;

use crate::broker::topology::TopologyChange;

/// Changes that may wait for room in the journal before further ones are refused.
const CHANGES_MAX: usize = 10_000;

/// Changes that wait for room, and how far the others are.
#[derive(Default)]
pub(super) struct Changes {
    /// Those that there was no room for yet, oldest first.
    waiting: VecDeque<TopologyChange>,
    /// The number of changes that were recorded, and of those among them that are known to be synced.
    recorded: u64,
    synced: u64,
    /// The number recorded after each call that recorded some, with the sequence of the last, until that is synced.
    unsynced: VecDeque<(u64, Sequence)>,
}

impl Changes {
    /// Add changes that are to be recorded after all others.
    pub fn extend(&mut self, changes: impl Iterator<Item = TopologyChange>) {
        self.waiting.extend(changes);
    }

    /// Whether as many wait as may.
    pub fn are_too_many(&self) -> bool {
        self.waiting.len() >= CHANGES_MAX
    }

    /// Whether one waits for room.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The change that is to be recorded next.
    pub fn next(&self) -> Option<&TopologyChange> {
        self.waiting.front()
    }

    /// Note that the next change is recorded.
    pub fn advance(&mut self) {
        self.waiting.pop_front();
        self.recorded += 1;
    }

    /// Note the sequence of the last change that was recorded, and up to which sequence the journal is synced.
    pub fn end_recording(&mut self, last: Sequence, synced: Sequence) {
        while let Some((recorded, _)) = self.unsynced.front().filter(|(_, sequence)| *sequence <= synced) {
            self.synced = *recorded;
            self.unsynced.pop_front();
        }
        self.unsynced.push_back((self.recorded, last));
    }

    /// The number of changes so far, including those that wait.
    pub fn count(&self) -> u64 {
        self.recorded + self.waiting.len() as u64
    }

    /// Whether this number of changes is synced, when the journal is up to `synced`.
    pub fn are_synced(&self, count: u64, synced: Sequence) -> bool {
        // A change is synced with the last one of the call that recorded it.
        let recorded_with = self.unsynced.iter().find(|(recorded, _)| *recorded >= count);
        let is_recorded = self.recorded >= count;
        count <= self.synced || is_recorded && recorded_with.is_none_or(|(_, last)| *last <= synced)
    }
}

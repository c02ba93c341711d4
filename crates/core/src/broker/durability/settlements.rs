//! Work that settles messages and is answered when that is on disk: purges, and commits of transactions.
//!
//! A purge makes its entries unreachable at once, and they are settled some at a time. A commit is counted when it has settled
//! everything. The pieces of work of one kind are numbered as they begin, and end in this order.

use std::collections::VecDeque;

/// The progress of one kind of work.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    begun: u64,
    /// Work that has settled everything.
    settled: u64,
    /// Work whose settlements are recorded, each with the sequence that has to be synced, ascending.
    recorded: VecDeque<(u64, u64)>,
    /// Work that no crash can take back.
    kept: u64,
}

impl Settlements {
    /// Begin a piece of work.
    pub fn begin(&mut self) {
        self.begun += 1;
    }

    /// The number of the last piece of work that has begun.
    pub fn last(&self) -> u64 {
        self.begun
    }

    /// Note that the oldest piece of work has settled everything.
    pub fn settle(&mut self) {
        self.settled += 1;
    }

    /// Note that what was settled is recorded: it lasts when `sequence` is synced.
    pub fn record(&mut self, sequence: u64) {
        let known = self.recorded.back().map_or(self.kept, |(number, _)| *number);
        if self.settled > known {
            self.recorded.push_back((self.settled, sequence));
        }
    }

    /// Note that the journal is synced up to a sequence. Returns whether some work is kept now that was not before.
    pub fn sync(&mut self, synced: u64) -> bool {
        let before = self.kept;
        while let Some((number, _)) = self.recorded.front().filter(|(_, sequence)| *sequence <= synced) {
            self.kept = *number;
            self.recorded.pop_front();
        }
        self.kept > before
    }

    /// Whether no crash can take back the work with this number, nor any before it.
    pub fn is_kept(&self, number: u64) -> bool {
        number <= self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_is_kept_when_it_is_settled_recorded_and_synced() {
        let mut purges = Settlements::default();
        purges.begin();
        purges.begin();
        purges.record(5);
        assert!(!purges.sync(100), "nothing of it is settled");
        purges.settle();
        purges.record(7);
        assert!(!purges.sync(6) && !purges.is_kept(1));
        assert!(purges.sync(7) && purges.is_kept(1) && !purges.is_kept(purges.last()));
        purges.settle();
        purges.record(7);
        assert!(purges.sync(7) && purges.is_kept(2), "there was nothing to record");
        assert!(!purges.sync(8), "it is told once");
    }
}

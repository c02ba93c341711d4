//! Tombstones: which subscriptions of a segment were removed, and by which version.
//!
//! A segment never changes. A removal only stamps the position of the subscription with the number of the version that
//! removed it. A match that started earlier still sees the subscription, so that every message sees exactly one state.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of stamps in a chunk. Chunks are allocated when needed.
const CHUNK: usize = 512;

/// Tombstones by position. Version numbers start at 1: a stamp of 0 is none.
#[derive(Debug)]
pub struct Tombstones {
    /// One bit per position, set if it has a stamp. A match asks about every id that it collects, all over the segment;
    /// the bits of half a million subscriptions stay in the cache, and their stamps do not.
    marks: Box<[AtomicU64]>,
    chunks: Vec<OnceLock<Box<[AtomicU64; CHUNK]>>>,
    /// The last stamp.
    newest: AtomicU64,
    count: AtomicUsize,
}

impl Tombstones {
    /// No tombstones for `position_count` subscriptions.
    pub fn new(position_count: usize) -> Self {
        Self {
            marks: (0..position_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            chunks: (0..position_count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
            newest: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Remove `position` in version `version`. Call this from one thread at a time, before the version is published.
    pub fn remove(&self, position: usize, version: u64) {
        let chunk = self.chunks[position / CHUNK].get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK]));
        // Relaxed: a reader of the version gets it through a pointer that is stored after this.
        if chunk[position % CHUNK].swap(version, Ordering::Relaxed) == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.newest.fetch_max(version, Ordering::Relaxed);
        // Release: a reader of the mark also reads the stamp, and a `newest` that is no older.
        self.marks[position / 64].fetch_or(1 << (position % 64), Ordering::Release);
    }

    /// The version that removed `position`; 0 when none did.
    #[inline]
    fn removed_by(&self, position: usize) -> u64 {
        let chunk = self.chunks.get(position / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[position % CHUNK].load(Ordering::Relaxed))
    }

    /// True when version `version` still has `position`.
    #[inline]
    pub fn is_live(&self, position: usize, version: u64) -> bool {
        let marks = self.marks.get(position / 64).map_or(0, |marks| marks.load(Ordering::Acquire));
        marks >> (position % 64) & 1 == 0
            || self.newest.load(Ordering::Relaxed) > version && self.removed_by(position) > version
    }

    /// The number of subscriptions removed so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_began_before_goes_on_seeing_what_is_removed() {
        let tombstones = Tombstones::new(1_000);
        let live = |version| (0..1_000).filter(|position| tombstones.is_live(*position, version)).count();
        assert_eq!(live(9), 1_000);
        (0..10).for_each(|round| tombstones.remove(3 + 99 * round, 5 + round as u64));
        assert_eq!([4, 5, 9, 13, 14, 99].map(live), [1_000, 999, 995, 991, 990, 990]);
        assert!(tombstones.is_live(201, 6) && !tombstones.is_live(201, 7));
        assert_eq!(tombstones.count(), 10);
    }
}

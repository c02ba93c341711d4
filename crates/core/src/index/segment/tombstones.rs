//! Which subscriptions of a segment have been removed, and since when.
//!
//! A segment never changes; a removal only stamps its place with the number of the version from which on it is gone. A
//! match that began before goes on seeing it, so that every message sees exactly one state.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stamps come in chunks of this many, made when one is needed.
const CHUNK: usize = 512;

/// Stamps by place. Version numbers begin at 1: a stamp of 0 is none.
#[derive(Debug)]
pub struct Removed {
    /// A bit for each place that has a stamp. A match asks for every id that it finds, all over the segment: bits of
    /// half a million stay in the cache, and their stamps do not.
    marks: Box<[AtomicU64]>,
    chunks: Vec<OnceLock<Box<[AtomicU64; CHUNK]>>>,
    /// The last stamp.
    newest: AtomicU64,
    count: AtomicUsize,
}

impl Removed {
    /// None of `place_count` subscriptions is removed.
    pub fn new(place_count: usize) -> Self {
        Self {
            marks: (0..place_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            chunks: (0..place_count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
            newest: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// Remove `place` from version `version` on. To be called by one thread at a time, before the version is published.
    pub fn remove(&self, place: usize, version: u64) {
        let chunk = self.chunks[place / CHUNK].get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK]));
        // Relaxed: whoever reads the version that this is part of has it from a pointer that is stored after this.
        if chunk[place % CHUNK].swap(version, Ordering::Relaxed) == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.newest.fetch_max(version, Ordering::Relaxed);
        // Release: whoever sees the mark sees the stamp too, and that it is not newer than the newest.
        self.marks[place / 64].fetch_or(1 << (place % 64), Ordering::Release);
    }

    /// The version from which on `place` is gone; 0 when it is there.
    #[inline]
    fn since(&self, place: usize) -> u64 {
        let chunk = self.chunks.get(place / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[place % CHUNK].load(Ordering::Relaxed))
    }

    /// True when `place` is there in version `version`.
    #[inline]
    pub fn is_live(&self, place: usize, version: u64) -> bool {
        let marks = self.marks.get(place / 64).map_or(0, |marks| marks.load(Ordering::Acquire));
        marks >> (place % 64) & 1 == 0 || self.newest.load(Ordering::Relaxed) > version && self.since(place) > version
    }

    /// How many have been removed so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_began_before_goes_on_seeing_what_is_removed() {
        let removed = Removed::new(1_000);
        let live = |version| (0..1_000).filter(|place| removed.is_live(*place, version)).count();
        assert_eq!(live(9), 1_000);
        (0..10).for_each(|round| removed.remove(3 + 99 * round, 5 + round as u64));
        assert_eq!([4, 5, 9, 13, 14, 99].map(live), [1_000, 999, 995, 991, 990, 990]);
        assert!(removed.is_live(201, 6) && !removed.is_live(201, 7));
        assert_eq!(removed.count(), 10);
    }
}

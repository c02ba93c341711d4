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
    chunks: Vec<OnceLock<Box<[AtomicU64; CHUNK]>>>,
    count: AtomicUsize,
}

impl Removed {
    /// None of `place_count` subscriptions is removed.
    pub fn new(place_count: usize) -> Self {
        Self { chunks: (0..place_count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(), count: AtomicUsize::new(0) }
    }

    /// Remove `place` from version `version` on. To be called by one thread at a time, before the version is published.
    pub fn remove(&self, place: usize, version: u64) {
        let chunk = self.chunks[place / CHUNK].get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK]));
        // Relaxed: whoever reads the version that this is part of has it from a pointer that is stored after this.
        if chunk[place % CHUNK].swap(version, Ordering::Relaxed) == 0 {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The version from which on `place` is gone; 0 when it is there.
    #[inline]
    pub fn since(&self, place: usize) -> u64 {
        let chunk = self.chunks.get(place / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[place % CHUNK].load(Ordering::Relaxed))
    }

    /// True when `place` is there in version `version`.
    #[inline]
    pub fn is_live(&self, place: usize, version: u64) -> bool {
        let since = self.since(place);
        since == 0 || since > version
    }

    /// How many have been removed so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

//! A filter of names: says at once that nobody asks for most of the properties of a message.

use crate::name_hash::hash_name;

const WORDS: usize = 16;

/// Names by one bit each of their hashes. A name without its bit is not among them.
#[derive(Clone, Debug, Default)]
pub struct NameFilter([u64; WORDS]);

impl NameFilter {
    /// Add `name`.
    pub fn insert(&mut self, name: &str) {
        let (word, bit) = place(name);
        self.0[word] |= bit;
    }

    /// Add all names.
    pub fn fill(&mut self) {
        self.0 = [u64::MAX; WORDS];
    }

    /// Add the names of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    /// Whether all names of `other` may be among them.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(word, other)| word & other == other)
    }

    /// Whether `name` may be among them.
    #[must_use]
    #[inline]
    pub fn may_have(&self, name: &str) -> bool {
        let (word, bit) = place(name);
        self.0[word] & bit != 0
    }
}

#[inline]
fn place(name: &str) -> (usize, u64) {
    let hash = hash_name(name);
    ((hash >> 6) as usize % WORDS, 1 << (hash % 64))
}

//! A hash table that grows by pieces, so that no insertion waits for all entries to be filed again.
//!
//! A table that doubles files every entry again: of a million, a tenth of a second. This one is cut into shards when it has
//! [`SPLIT_AT`] entries, and then only one shard doubles at a time.

use hashbrown::HashTable;

/// The number of entries at which the table is cut into shards, which takes a millisecond or two.
const SPLIT_AT: usize = 1 << 14;
/// The number of shards of a large table. At 16 million entries a shard has as many as a table before it is cut, four times.
const SHARDS: usize = 256;
/// The first of the bits of a hash that choose the shard: the table uses the lowest and the highest ones.
const SHARD_SHIFT: u32 = 32;

/// Values found by their hashes.
#[derive(Debug)]
pub(crate) struct ShardedTable<T> {
    /// One, or [`SHARDS`].
    shards: Vec<HashTable<T>>,
    count: usize,
}

impl<T> Default for ShardedTable<T> {
    fn default() -> Self {
        Self { shards: vec![HashTable::new()], count: 0 }
    }
}

impl<T> ShardedTable<T> {
    #[inline]
    fn shard(&self, hash: u64) -> usize {
        (hash >> SHARD_SHIFT) as usize & (self.shards.len() - 1)
    }

    /// The value with this hash of which `is_it` is true.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[self.shard(hash)].find(hash, is_it)
    }

    /// Add a value, which is not there yet. `hash_of` returns the hash of any value.
    pub fn insert_unique(&mut self, hash: u64, value: T, hash_of: impl Fn(&T) -> u64) {
        if self.count == SPLIT_AT && self.shards.len() == 1 {
            self.split(&hash_of);
        }
        let shard = self.shard(hash);
        self.shards[shard].insert_unique(hash, value, hash_of);
        self.count += 1;
    }

    /// Take out the value with this hash of which `is_it` is true.
    pub fn remove(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let shard = self.shard(hash);
        let entry = self.shards[shard].find_entry(hash, is_it).ok()?;
        self.count -= 1;
        Some(entry.remove().0)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Every value, in no particular order.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shards.iter().flat_map(HashTable::iter)
    }

    fn split(&mut self, hash_of: &impl Fn(&T) -> u64) {
        let whole = std::mem::take(&mut self.shards);
        self.shards.resize_with(SHARDS, || HashTable::with_capacity(2 * SPLIT_AT / SHARDS));
        for value in whole.into_iter().flatten() {
            let hash = hash_of(&value);
            let shard = self.shard(hash);
            self.shards[shard].insert_unique(hash, value, hash_of);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;
    use crate::testing::fewer;

    fn hash(value: &u64) -> u64 {
        foldhash::fast::FixedState::default().hash_one(value)
    }

    #[test]
    fn values_are_found_until_they_are_removed_whatever_the_size() {
        let mut table = ShardedTable::default();
        let count = fewer(60_000) as u64;
        for value in 0..count {
            table.insert_unique(hash(&value), value, hash);
        }
        assert_eq!((table.len(), table.iter().count()), (count as usize, count as usize));
        for value in (0..count).step_by(3) {
            assert_eq!(table.remove(hash(&value), |other| *other == value), Some(value));
        }
        for value in 0..count {
            let is_there = table.find(hash(&value), |other| *other == value).is_some();
            assert_eq!(is_there, value % 3 != 0, "{value}");
        }
        assert_eq!(table.remove(hash(&0), |other| *other == 0), None);
    }

    #[test]
    fn a_large_table_has_no_large_shard() {
        let mut table = ShardedTable::default();
        (0..fewer(100_000) as u64).for_each(|value| table.insert_unique(hash(&value), value, hash));
        let largest = table.shards.iter().map(HashTable::len).max().unwrap_or(0);
        assert!(largest <= SPLIT_AT.min(2 * table.len() / SHARDS + 1_000), "{largest}");
    }
}

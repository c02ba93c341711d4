//! The exchanges or queues of a vhost by their names.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use crate::broker::sharded_table::ShardedTable;

/// Ids by name. The names are chosen by clients, so that the hash is keyed.
#[derive(Debug)]
pub(super) struct NameTable<Id> {
    entries: ShardedTable<(Arc<str>, Id)>,
    hasher: DefaultHashBuilder,
}

impl<Id> Default for NameTable<Id> {
    fn default() -> Self {
        Self { entries: ShardedTable::default(), hasher: DefaultHashBuilder::default() }
    }
}

impl<Id> NameTable<Id> {
    /// The id of `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&Id> {
        self.entries.find(self.hasher.hash_one(name), |(other, _)| **other == *name).map(|(_, id)| id)
    }

    /// Whether there is something called `name`.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Keep the id of `name`, which has none.
    pub fn insert(&mut self, name: Arc<str>, id: Id) {
        let hasher = &self.hasher;
        let hash = hasher.hash_one(&*name);
        self.entries.insert_unique(hash, (name, id), |(name, _)| hasher.hash_one(&**name));
    }

    /// Forget the id of `name`.
    pub fn remove(&mut self, name: &str) -> Option<Id> {
        self.entries.remove(self.hasher.hash_one(name), |(other, _)| **other == *name).map(|(_, id)| id)
    }
}

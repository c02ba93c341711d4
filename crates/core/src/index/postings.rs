//! Posting lists in memory: access key → the slots of the queries that are filed under it.

use hashbrown::HashMap;

use crate::query::Query;

use super::access::{AccessKey, Attribute, necessary_keys};

/// Where a query stands in its part of the engine. 32 bits: 4 billion queries are plenty, for half the memory.
pub type Slot = u32;

/// Queries by access key. Slots are filed in ascending order and stay until the whole is built anew.
#[derive(Debug, Default)]
pub struct Postings {
    lists: HashMap<u64, Vec<Slot>>,
    attributes: HashMap<Box<str>, u32>,
    topics: u32,
    common: Vec<Slot>,
    fields: Vec<Slot>,
}

impl Postings {
    /// File `slot` under the rarest necessary keys of `query`, or in the common list when it has none.
    pub fn insert(&mut self, slot: Slot, query: &Query) {
        if query.is_fields() {
            self.fields.push(slot);
        }
        match necessary_keys(query.expr(), &|key| self.share(key)) {
            None => self.common.push(slot),
            Some(keys) => keys.iter().for_each(|key| self.file(slot, key)),
        }
    }

    fn file(&mut self, slot: Slot, key: &AccessKey<'_>) {
        self.lists.entry(key.hash).or_default().push(slot);
        match key.attribute {
            Attribute::Topic => self.topics += 1,
            Attribute::Property(name) => match self.attributes.get_mut(name) {
                Some(postings) => *postings += 1,
                None => _ = self.attributes.insert(name.into(), 1),
            },
        }
    }

    /// The part of the messages that have `key`, guessed from what queries ask for: the share of the attribute's
    /// postings, drawn towards a prior while there are few (one in two of a Boolean, one in 64 of anything else).
    fn share(&self, key: &AccessKey<'_>) -> f64 {
        let postings = match key.attribute {
            Attribute::Topic => self.topics,
            Attribute::Property(name) => self.attributes.get(name).copied().unwrap_or(0),
        };
        let same_key = self.list(key.hash).len();
        let prior = if key.is_bool { 2.0 } else { 64.0 };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let share = (same_key as f64 + 1.0) / (f64::from(postings) + prior);
        share
    }

    /// The slots filed under `hash`, ascending.
    #[must_use]
    pub fn list(&self, hash: u64) -> &[Slot] {
        self.lists.get(&hash).map_or(&[], Vec::as_slice)
    }

    /// Every list with its key, in no particular order.
    pub fn lists(&self) -> impl ExactSizeIterator<Item = (u64, &[Slot])> {
        self.lists.iter().map(|(hash, slots)| (*hash, slots.as_slice()))
    }

    /// The properties that keys ask about, in no particular order.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.attributes.keys().map(|name| &**name)
    }

    /// Slots without a key, ascending: candidates of every message.
    #[must_use]
    pub fn common(&self) -> &[Slot] {
        &self.common
    }

    /// Slots of queries that count hits, ascending.
    #[must_use]
    pub fn fields(&self) -> &[Slot] {
        &self.fields
    }
}

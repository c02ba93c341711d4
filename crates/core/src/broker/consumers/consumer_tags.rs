//! The consumers of all channels by their tags.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::broker::consumers::consumer::Consumer;
use crate::broker::ids::{ChannelSlot, ConsumerSlot};
use crate::broker::sharded_table::ShardedTable;
use crate::broker::slab::Slab;

/// Consumers by channel and tag. Clients choose the tags, so that the hash is keyed.
#[derive(Debug, Default)]
pub(crate) struct ConsumerTags {
    slots: ShardedTable<ConsumerSlot>,
    hasher: DefaultHashBuilder,
}

type Consumers = Slab<ConsumerSlot, Consumer>;

impl ConsumerTags {
    fn hash(hasher: &DefaultHashBuilder, consumer: &Consumer) -> u64 {
        hasher.hash_one((consumer.channel, consumer.name()))
    }

    /// The consumer of this channel with this tag.
    pub fn find(&self, channel: ChannelSlot, tag: &[u8], consumers: &Consumers) -> Option<ConsumerSlot> {
        let is_it = |slot: &ConsumerSlot| consumers[*slot].channel == channel && consumers[*slot].name() == tag;
        self.slots.find(self.hasher.hash_one((channel, tag)), is_it).copied()
    }

    /// Add a consumer; its channel has no other with its tag.
    pub fn insert(&mut self, slot: ConsumerSlot, consumers: &Consumers) {
        let hash_of = |slot: &ConsumerSlot| Self::hash(&self.hasher, &consumers[*slot]);
        self.slots.insert_unique(hash_of(&slot), slot, hash_of);
    }

    /// Forget a consumer.
    pub fn remove(&mut self, slot: ConsumerSlot, consumers: &Consumers) {
        let hash = Self::hash(&self.hasher, &consumers[slot]);
        self.slots.remove(hash, |other| *other == slot);
    }
}

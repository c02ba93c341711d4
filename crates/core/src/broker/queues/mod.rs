//! Queues: entries in order, the messages that they refer to, and what removes them.

pub(crate) mod all_queues;
pub(crate) mod chunk_store;
pub(crate) mod dead_letter;
mod death;
pub(crate) mod entries;
pub(crate) mod expiry;
pub(crate) mod held_letters;
pub(crate) mod hold_letters;
pub(crate) mod letter;
pub(crate) mod message_bytes;
pub(crate) mod message_store;
pub(crate) mod policy;
pub(crate) mod queue;
pub(crate) mod spare_bytes;
pub(crate) mod spill;
pub(crate) mod timers;

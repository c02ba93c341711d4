//! Durability: what survives a restart is written to the journal and read back.

pub mod durable;
pub(crate) mod journaling;
pub(crate) mod recovery;

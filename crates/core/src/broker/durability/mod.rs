//! Durability: what survives a restart is written to the journal and read back.

pub(crate) mod committing;
pub mod durable;
pub(crate) mod journal_access;
mod purges;
pub(crate) mod recovery;

//! Durability: what survives a restart is written to the journal and read back.

mod changes;
pub(crate) mod committing;
mod deleted_queues;
pub mod durable;
pub(crate) mod journal_access;
mod purges;
pub(crate) mod recovery;
mod stream_files;
mod stream_openings;

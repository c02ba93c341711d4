//! Durability: what survives a restart is written to the journal and read back.

mod changes;
pub(crate) mod committing;
mod deleted_queues;
pub mod durable;
pub(crate) mod journal_access;
pub(crate) mod recovery;
mod settlements;
mod stream_files;
mod stream_openings;

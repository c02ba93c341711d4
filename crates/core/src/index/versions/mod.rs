//! The immutable versions of an engine: their segments, how these are merged, and snapshots.

pub mod merge;
pub mod snapshot;
pub mod version;

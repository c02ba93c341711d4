//! The immutable versions of an engine, and how their segments are merged.
//!
//! Reading a version or merging segments fails when a snapshot is damaged, and for no other reason.

pub mod compactor;
pub mod merge;
pub mod threads;
pub mod version;

//! The immutable versions of an engine, and how their segments are merged.

pub mod merge;
pub mod version;

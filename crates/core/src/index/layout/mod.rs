//! The bytes of a segment, in memory or in a mapped snapshot file.

pub mod cpu;
pub mod header;
pub mod map;
pub mod pages;
pub mod store;

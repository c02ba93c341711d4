//! The bytes of a segment, in memory or in a mapped snapshot file.

pub mod attribute_info;
pub mod bytes;
pub mod cpu;
pub mod header;
pub mod map;
pub mod pages;
pub mod sections;
pub mod store;
pub mod symbol_entry;
pub mod symbol_table;

//! The bytes of a segment, in memory or in a mapped snapshot file.
//!
//! Reading a section fails when the file is damaged, and for no other reason.

pub mod attribute_info;
pub mod bytes;
pub mod cpu;
pub mod header;
pub mod map;
pub mod pages;
pub mod sections;
pub mod store;
pub mod symbol_row;
pub mod symbol_table;

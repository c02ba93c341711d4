//! Queries as bytes: the records of a snapshot.
//!
//! A tree is written operator first, with one byte per tag; counts and lengths are LEB128, numbers little-endian, texts
//! UTF-8. Tags are part of the format: a new kind of predicate takes a new tag and a new format version. Regular
//! expressions, LIKE patterns and phrases are stored as text and compiled when they are read. An expensive predicate is its
//! index in a table that is stored beside the records.

mod decode;
mod encode;
mod tags;

pub use decode::{RecordDecoder, decode, is_regex};
pub use encode::{encode, encode_count, encode_opaques, encode_text};

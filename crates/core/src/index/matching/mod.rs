//! Matches a message against the queries of one segment.

pub mod field_hits;
pub mod hashed_message;
pub mod id_set;
pub mod scratch;

//! Compiles queries into the bytes of a segment.

pub mod builder;
pub mod clauses;
pub mod cluster;
pub mod interner;
pub mod shared_predicates;
pub mod summary;

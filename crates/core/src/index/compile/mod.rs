//! Compiles queries into a segment: clauses, access keys, groups of similar queries, leaves, and summaries over these.

pub mod boxes;
pub mod branches;
pub mod builder;
pub mod clauses;
pub mod cluster;
pub mod comparisons;
mod distribution;
pub mod grouping;
pub mod index_kind;
pub mod interner;
pub mod leaves;
pub mod packing;
pub mod predicates;
pub mod sampling;
pub mod sections;
pub mod shared_predicates;
pub mod shares;
pub mod summary;
pub mod texts;
mod thresholds;

//! Patterns of text: LIKE, and the needles that a regular expression cannot match without.

mod bounded_search;
pub mod like;
pub mod pattern;
pub(crate) mod regex_needles;
mod shared_patterns;

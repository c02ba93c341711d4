//! Patterns of text: LIKE, and the needles that a regular expression cannot match without.

pub mod like;
pub(crate) mod regex_needles;

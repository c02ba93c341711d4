//! Finds what a version knows of a topic, and remembers it for topics that come again.

pub mod automata;
pub mod combined_trie;
pub mod lookup;
pub mod matches;
pub mod only_trie;
pub mod plan;
pub mod scratch;

//! Finds the topic patterns that a topic matches, and remembers them for topics that come again.

pub mod automata;
pub mod combined_trie;
pub mod lookup;

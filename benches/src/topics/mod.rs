//! Topic patterns: the approaches that the RabbitMQ paper compares, OpenAMQ's table, and tamis, behind [`TopicMatcher`].
//!
//! All but brute force "by text" split a topic once and compare words as numbers, which is where the RabbitMQ paper gained its
//! first factor of three.

pub mod bits;
pub mod brute_force;
pub mod inverted;
pub mod lazy_dfa;
pub mod per_word_cache;
pub mod per_word_index;
pub mod tamis;
#[cfg(test)]
mod tests;
pub mod trie;
pub mod words;
pub mod workloads;

use tamis_core::topic::TopicDialect;

/// An approach to finding the patterns that a topic fits.
pub trait TopicMatcher: Default {
    /// The name in tables.
    const NAME: &'static str;
    /// The way it treats `#`.
    const HASH: &'static str;

    /// Add a subscription; its number is how many there were. `dialect` is AMQP 0-9-1 or that of the OpenAMQ paper's program.
    fn add(&mut self, pattern: &str, dialect: TopicDialect);

    /// Wait for what additions have left to other threads, so that it is not measured with something else.
    fn settle(&mut self) {}

    /// Append the number of every subscription whose pattern `topic` fits, each once, in any order.
    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>);
}

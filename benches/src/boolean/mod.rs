//! Boolean filters: every algorithm that the ITMO paper compares, and tamis, behind [`BooleanMatcher`].
//!
//! All are given the same filters, with names and values as numbers and NOT in front of predicates only
//! ([`filter`]), which spares the peers interning; tamis reads text and meets messages as they come. So does
//! [`from_properties`], which says what that costs.

pub mod a_tree;
pub mod access_predicate;
pub mod bdd;
pub mod be_tree;
pub mod brute_force;
pub mod filter;
pub mod from_properties;
pub mod grouped;
pub mod k_index;
pub mod measure;
pub mod normal_form;
pub mod tamis;
#[cfg(test)]
mod tests;
pub mod workload;

use filter::{BooleanFilter, FilterMessage, Schema};

/// An algorithm that finds the filters that are true of a message.
pub trait BooleanMatcher: Sized + Sync {
    /// What tables call it.
    const NAME: &'static str;

    /// True when one message occupies every core, so that the CPU time of the caller's thread tells nothing.
    const USES_ALL_CORES: bool = false;
    /// What it needs between messages, one for each thread.
    type Scratch: Default + Send;

    /// Take in `filters`; the number of each is its place.
    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self;

    /// Bring `messages` into whatever form the algorithm wants, before any clock runs.
    fn prepare(&mut self, _messages: &[FilterMessage]) {}

    /// How many of the bytes that it holds are the filters themselves, kept in place of their texts.
    fn text_bytes(&self) -> usize {
        0
    }

    /// Append the number of every filter that is true of `message`, each once, in any order.
    fn match_into(&self, message: &FilterMessage, scratch: &mut Self::Scratch, matched: &mut Vec<u32>);
}

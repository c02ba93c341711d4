//! Every approach agrees with the definition, in both dialects, with additions between messages.

use tamis_core::topic::{TopicDialect, TopicPattern};

use super::TopicMatcher;
use super::brute_force::{BruteForceByText, TopicBruteForce};
use super::inverted::Inverted;
use super::lazy_dfa::WordDfa;
use super::per_word_cache::PerWordCache;
use super::per_word_index::PerWordIndex;
use super::tamis::TopicTamis;
use super::trie::WordTrie;
use crate::random::SplitMix64;

fn agrees_with_the_definition<M: TopicMatcher>() {
    for dialect in [TopicDialect::Amqp, TopicDialect::OpenAmqProgram] {
        let mut random = SplitMix64::new(3);
        let (mut matcher, mut patterns) = (M::default(), Vec::new());
        for _ in 0..300 {
            let pattern = text(&["a", "b", "c", "*", "#"], &mut random);
            matcher.add(&pattern, dialect);
            patterns.push(TopicPattern::new(&pattern, dialect));
            for _ in 0..5 {
                let topic = text(&["a", "b", "c", "new"], &mut random);
                let mut matched = Vec::new();
                matcher.match_into(&topic, &mut matched);
                matched.sort_unstable();
                let fitting = (0..).zip(&patterns).filter(|(_, pattern)| pattern.is_match(&topic));
                let expected: Vec<u32> = fitting.map(|(number, _)| number).collect();
                assert_eq!(matched, expected, "{} of '{topic}'", M::NAME);
            }
        }
    }
}

fn text(words: &[&str], random: &mut SplitMix64) -> String {
    (0..random.below(6)).map(|_| *random.pick(words)).collect::<Vec<_>>().join(".")
}

#[test]
fn brute_force_agrees_with_the_definition() {
    agrees_with_the_definition::<TopicBruteForce>();
    agrees_with_the_definition::<BruteForceByText>();
}

#[test]
fn the_per_word_cache_agrees_with_the_definition() {
    agrees_with_the_definition::<PerWordCache>();
}

#[test]
fn the_per_word_index_agrees_with_the_definition() {
    agrees_with_the_definition::<PerWordIndex>();
}

#[test]
fn the_trie_agrees_with_the_definition() {
    agrees_with_the_definition::<WordTrie>();
}

#[test]
fn the_lazy_dfa_agrees_with_the_definition() {
    agrees_with_the_definition::<WordDfa>();
}

#[test]
fn the_inverted_bitmaps_agree_with_the_definition() {
    agrees_with_the_definition::<Inverted>();
}

#[test]
fn tamis_agrees_with_the_definition() {
    agrees_with_the_definition::<TopicTamis>();
}

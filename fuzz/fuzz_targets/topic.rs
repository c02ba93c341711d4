//! A pattern agrees with the recursive definition of its dialect, and a trie agrees with its patterns.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::topic::trie::{TopicTrie, TrieScratch, build};
use tamis_core::topic::{TopicDialect, TopicPattern};

/// The definition backtracks, so that long input and many `#` would only measure that.
const BYTES_MAX: usize = 48;
const HASHES_MAX: usize = 5;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, topic) = input;
    if pattern.len() > BYTES_MAX || topic.len() > BYTES_MAX {
        return;
    }
    check_trie(pattern, topic);
    if split(pattern).iter().filter(|word| **word == "#").count() > HASHES_MAX {
        return;
    }
    for (dialect, hash_least) in [(TopicDialect::Amqp, 0), (TopicDialect::OpenAmqProgram, 1)] {
        let expected = fits(&split(pattern), &split(topic), hash_least);
        assert_eq!(TopicPattern::new(pattern, dialect).is_match(topic), expected, "{dialect:?} {pattern:?} {topic:?}");
    }
});

/// The pattern and its first half in every dialect, in one trie.
fn check_trie(pattern: &str, topic: &str) {
    let half = pattern.char_indices().nth(pattern.chars().count() / 2).map_or("", |(place, _)| &pattern[..place]);
    let dialects = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];
    let patterns: Vec<TopicPattern> =
        dialects.iter().flat_map(|dialect| [pattern, half].map(|text| TopicPattern::new(text, *dialect))).collect();
    let bytes = build(&patterns.iter().collect::<Vec<_>>());
    let mut found = Vec::new();
    let trie = TopicTrie::new(&bytes).expect("just built");
    trie.match_into(topic, &mut TrieScratch::default(), &mut found).expect("not damaged");
    found.sort_unstable();
    let expected = (0..).zip(&patterns).filter(|(_, pattern)| pattern.is_match(topic)).map(|(id, _)| id);
    assert_eq!(found, expected.collect::<Vec<u32>>(), "{pattern:?} {topic:?}");
}

/// The words of a topic; the empty one has none.
fn split(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('.').collect() }
}

fn fits(pattern: &[&str], topic: &[&str], hash_least: usize) -> bool {
    match pattern.split_first() {
        None => topic.is_empty(),
        Some((&"#", rest)) => (hash_least..=topic.len()).any(|taken| fits(rest, &topic[taken..], hash_least)),
        Some((&word, rest)) => {
            topic.first().is_some_and(|first| word == "*" || word == *first) && fits(rest, &topic[1..], hash_least)
        }
    }
}

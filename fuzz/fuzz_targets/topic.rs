//! A pattern agrees with the definition of its dialect, written as plain recursion.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::topic::{Dialect, TopicPattern};

/// The definition backtracks, so that long input would only measure that.
const BYTES_MAX: usize = 48;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, topic) = input;
    if pattern.len() > BYTES_MAX || topic.len() > BYTES_MAX {
        return;
    }
    for (dialect, hash_least) in [(Dialect::Amqp, 0), (Dialect::OpenAmqProgram, 1)] {
        let expected = fits(&split(pattern), &split(topic), hash_least);
        assert_eq!(TopicPattern::new(pattern, dialect).is_match(topic), expected, "{dialect:?} {pattern:?} {topic:?}");
    }
});

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

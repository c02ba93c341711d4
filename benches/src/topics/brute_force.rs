//! Brute force compares every pattern with the topic.
//!
//! One form splits both each time, as RabbitMQ once did; the other splits both once.
//!
//! Source: the RabbitMQ paper: "a factor of 3 just by being more careful when splitting the keys into words".

use tamis_core::topic::{TopicDialect, TopicPattern};

use super::TopicMatcher;
use super::words::{Vocabulary, WordNumber, fits};

/// Patterns as words.
#[derive(Debug, Default)]
pub struct TopicBruteForce {
    vocabulary: Vocabulary,
    patterns: Vec<Box<[WordNumber]>>,
    topic: Vec<u32>,
}

impl TopicMatcher for TopicBruteForce {
    const NAME: &'static str = "brute force, split once";
    const HASH: &'static str = "by definition";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        self.patterns.push(self.vocabulary.read_pattern(pattern, dialect));
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        self.vocabulary.read_topic(topic, &mut self.topic);
        let found = (0..).zip(&self.patterns).filter(|(_, pattern)| fits(pattern, &self.topic));
        matched.extend(found.map(|(number, _)| number));
    }
}

/// Patterns as text.
#[derive(Debug, Default)]
pub struct BruteForceByText(Vec<TopicPattern>);

impl TopicMatcher for BruteForceByText {
    const NAME: &'static str = "brute force, split each time";
    const HASH: &'static str = "by definition";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        self.0.push(TopicPattern::new(pattern, dialect));
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        let found = (0..).zip(&self.0).filter(|(_, pattern)| pattern.is_match(topic));
        matched.extend(found.map(|(number, _)| number));
    }
}

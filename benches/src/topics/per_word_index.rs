//! Patterns indexed per word and position: for each position and word, which patterns have that word there.
//!
//! A topic takes, at each of its positions, the patterns with its word or with `*`, and intersects these sets; one more
//! set a length keeps out patterns that are longer or shorter. Each set is as long as there are subscriptions, so the
//! cost grows with their number, however few match.
//!
//! `#` has no position, nor have the words after it ("they can not be adapted"): patterns with `#` are kept aside and
//! compared with every message.
//!
//! Source: the RabbitMQ paper, approach 2, which it found "particularly unfit".

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

use super::TopicMatcher;
use super::bits::Bits;
use super::words::{Vocabulary, WordNumber, fits};

/// Sets of patterns by position and word.
#[derive(Debug, Default)]
pub struct PerWordIndex {
    vocabulary: Vocabulary,
    count: u32,
    with_hash: Vec<(u32, Box<[WordNumber]>)>,
    by_word: HashMap<(usize, WordNumber), Bits>,
    by_length: HashMap<usize, Bits>,
    topic: Vec<u32>,
    left: Bits,
}

impl TopicMatcher for PerWordIndex {
    const NAME: &'static str = "per-word index of patterns";
    const HASH: &'static str = "kept aside, compared each time";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        let number = self.count;
        self.count += 1;
        let words = self.vocabulary.read_pattern(pattern, dialect);
        if words.contains(&WordNumber::Hash) {
            self.with_hash.push((number, words));
            return;
        }
        self.by_length.entry(words.len()).or_default().set(number);
        for (position, word) in words.iter().enumerate() {
            self.by_word.entry((position, *word)).or_default().set(number);
        }
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        self.vocabulary.read_topic(topic, &mut self.topic);
        if let Some(patterns) = self.by_length.get(&self.topic.len()) {
            self.left.assign(patterns);
            for (position, word) in self.topic.iter().enumerate() {
                let row = |word| self.by_word.get(&(position, word));
                self.left.and_any([row(WordNumber::Literal(*word)), row(WordNumber::Star)]);
            }
            matched.extend(self.left.iter());
        }
        let aside = self.with_hash.iter().filter(|(_, pattern)| fits(pattern, &self.topic));
        matched.extend(aside.map(|(number, _)| number));
    }
}

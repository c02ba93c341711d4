//! Inverted bitmaps: a table of the known topic names, each with one bit for every subscription.
//!
//! Matching a known name is one look-up, and a walk over the bits that are set. A new name is compiled when it is first
//! seen, against every subscription; a new subscription against every known name. Memory: names × subscriptions bits.
//! It cannot bear topics that are mostly new. At [`NAMES_MAX`] names the table is emptied, and fills again.
//!
//! `#` is nothing special: patterns are compared by definition, when the table is compiled.
//!
//! Source: the OpenAMQ paper, "Inverted bitmaps" and "Topic matching".

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

use super::TopicMatcher;
use super::bits::Bits;
use super::words::{TopicSubscription, Vocabulary, fits};

/// How many names are known at most.
pub const NAMES_MAX: usize = 100_000;

/// OpenAMQ's table of topic names.
#[derive(Debug, Default)]
pub struct Inverted {
    vocabulary: Vocabulary,
    subscriptions: Vec<TopicSubscription>,
    rows: HashMap<Box<str>, (Box<[u32]>, Bits)>,
}

impl TopicMatcher for Inverted {
    const NAME: &'static str = "inverted bitmaps (OpenAMQ)";
    const HASH: &'static str = "compared when compiled";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        let number = self.subscriptions.len() as u32;
        let subscription = TopicSubscription::new(number, pattern, dialect, &mut self.vocabulary);
        for (words, row) in self.rows.values_mut() {
            if fits(&subscription.words, words) {
                row.set(number);
            }
        }
        self.subscriptions.push(subscription);
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        if !self.rows.contains_key(topic) {
            self.compile(topic);
        }
        matched.extend(self.rows[topic].1.iter());
    }
}

impl Inverted {
    /// Make the row of a name that is seen for the first time.
    fn compile(&mut self, topic: &str) {
        if self.rows.len() >= NAMES_MAX {
            self.rows.clear();
            self.vocabulary = Vocabulary::default();
            self.subscriptions.iter_mut().for_each(|subscription| subscription.read_again(&mut self.vocabulary));
        }
        let words = self.vocabulary.intern_topic(topic);
        let mut row = Bits::default();
        let fitting = self.subscriptions.iter().filter(|subscription| fits(&subscription.words, &words));
        fitting.for_each(|subscription| row.set(subscription.number));
        self.rows.insert(topic.into(), (words, row));
    }
}

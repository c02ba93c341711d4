//! The messages' topics cached per word: for each position and word, which known topics have that word there.
//!
//! A new pattern intersects the sets of its words and of its length, and so finds the known topics that it stands for
//! without comparing it with any. A message with a known topic is then one look-up; a new topic is put into the sets
//! of its words and compared with every pattern once, so that it is no help where topics are new.
//!
//! `#` has no position, nor have the words after it ("they can not be adapted"): patterns with `#` are kept aside and
//! compared with every message. At [`TOPICS_MAX`] known topics all are forgotten.
//!
//! Source: the RabbitMQ paper, approach 1 ("this is what the AMQP spec suggests"); AMQP 0-9-1, section 3.1.3.3.

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

use super::TopicMatcher;
use super::bits::Bits;
use super::words::{TopicSubscription, Vocabulary, WordNumber, fits};

/// How many topics are known at most.
pub const TOPICS_MAX: usize = 100_000;

/// Known topics by name, and by position and word.
#[derive(Debug, Default)]
pub struct PerWordCache {
    vocabulary: Vocabulary,
    placed: Vec<TopicSubscription>,
    with_hash: Vec<TopicSubscription>,
    numbers: HashMap<Box<str>, u32>,
    topics: Vec<Topic>,
    by_word: HashMap<(usize, u32), Bits>,
    by_length: HashMap<usize, Bits>,
}

#[derive(Debug)]
struct Topic {
    words: Box<[u32]>,
    /// The subscriptions that it goes to, those with `#` left out.
    subscriptions: Vec<u32>,
}

impl TopicMatcher for PerWordCache {
    const NAME: &'static str = "per-word cache of topics";
    const HASH: &'static str = "kept aside, compared each time";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        let number = (self.placed.len() + self.with_hash.len()) as u32;
        let subscription = TopicSubscription::new(number, pattern, dialect, &mut self.vocabulary);
        if subscription.words.contains(&WordNumber::Hash) {
            self.with_hash.push(subscription);
            return;
        }
        for topic in self.topics_of(&subscription.words).iter() {
            self.topics[topic as usize].subscriptions.push(number);
        }
        self.placed.push(subscription);
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        let number = self.numbers.get(topic).copied().unwrap_or_else(|| self.learn(topic));
        let topic = &self.topics[number as usize];
        matched.extend(&topic.subscriptions);
        let aside = self.with_hash.iter().filter(|subscription| fits(&subscription.words, &topic.words));
        matched.extend(aside.map(|subscription| subscription.number));
    }
}

impl PerWordCache {
    /// The known topics that a pattern without `#` stands for.
    fn topics_of(&self, pattern: &[WordNumber]) -> Bits {
        let mut left = self.by_length.get(&pattern.len()).cloned().unwrap_or_default();
        for (position, word) in pattern.iter().enumerate() {
            if let WordNumber::Literal(word) = word {
                left.and_any([self.by_word.get(&(position, *word)), None]);
            }
        }
        left
    }

    /// Number a new topic and put it into the sets of its words.
    fn learn(&mut self, name: &str) -> u32 {
        if self.topics.len() >= TOPICS_MAX {
            self.forget();
        }
        let number = self.topics.len() as u32;
        let words = self.vocabulary.intern_topic(name);
        self.numbers.insert(name.into(), number);
        self.by_length.entry(words.len()).or_default().set(number);
        for (position, word) in words.iter().enumerate() {
            self.by_word.entry((position, *word)).or_default().set(number);
        }
        let fitting = self.placed.iter().filter(|subscription| fits(&subscription.words, &words));
        let subscriptions = fitting.map(|subscription| subscription.number).collect();
        self.topics.push(Topic { words, subscriptions });
        number
    }

    fn forget(&mut self) {
        self.numbers.clear();
        self.topics.clear();
        self.by_word.clear();
        self.by_length.clear();
        self.vocabulary = Vocabulary::default();
        for subscription in self.placed.iter_mut().chain(&mut self.with_hash) {
            subscription.read_again(&mut self.vocabulary);
        }
    }
}

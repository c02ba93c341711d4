//! Words as numbers, patterns as words, and the definition of when a topic matches a pattern.

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

/// The number of a word that no pattern has.
pub const UNKNOWN: u32 = u32::MAX;

/// One place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WordNumber {
    /// This word.
    Literal(u32),
    /// Any one word.
    Star,
    /// Any words, or none.
    Hash,
}

/// The words of all patterns of one matcher.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
    /// The words of `pattern`. A `#` that stands for one word or more becomes `*` and `#`.
    pub fn read_pattern(&mut self, pattern: &str, dialect: TopicDialect) -> Box<[WordNumber]> {
        let mut words = Vec::new();
        for text in split(pattern) {
            match text {
                "*" => words.push(WordNumber::Star),
                "#" if dialect == TopicDialect::Amqp => words.push(WordNumber::Hash),
                "#" => words.extend([WordNumber::Star, WordNumber::Hash]),
                text => words.push(WordNumber::Literal(self.intern(text))),
            }
        }
        words.into()
    }

    /// The words of `topic`, those that no pattern has among them, which become known.
    pub fn intern_topic(&mut self, topic: &str) -> Box<[u32]> {
        split(topic).map(|text| self.intern(text)).collect()
    }

    /// The words of `topic`, into `words`.
    pub fn read_topic(&self, topic: &str, words: &mut Vec<u32>) {
        words.clear();
        words.extend(split(topic).map(|text| self.numbers.get(text).copied().unwrap_or(UNKNOWN)));
    }

    fn intern(&mut self, text: &str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry_ref(text).or_insert(next)
    }
}

/// A subscription, as a matcher keeps it that forgets words.
#[derive(Clone, Debug)]
pub struct TopicSubscription {
    /// Its number.
    pub number: u32,
    /// Its pattern's words.
    pub words: Box<[WordNumber]>,
    text: Box<str>,
    dialect: TopicDialect,
}

impl TopicSubscription {
    /// Read `text`.
    pub fn new(number: u32, text: &str, dialect: TopicDialect, vocabulary: &mut Vocabulary) -> Self {
        Self { number, words: vocabulary.read_pattern(text, dialect), text: text.into(), dialect }
    }

    /// Read it again, after `vocabulary` was emptied.
    pub fn read_again(&mut self, vocabulary: &mut Vocabulary) {
        self.words = vocabulary.read_pattern(&self.text, self.dialect);
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split('.').filter(|_| !text.is_empty())
}

/// True when `topic` fits `pattern`. Of several `#` only the last is ever tried again: quadratic at worst.
#[must_use]
pub fn fits(pattern: &[WordNumber], topic: &[u32]) -> bool {
    let (mut place, mut used) = (0, 0);
    let mut last_hash: Option<(usize, usize)> = None;
    loop {
        match pattern.get(place) {
            Some(WordNumber::Hash) => {
                last_hash = Some((place, used));
                place += 1;
                continue;
            }
            Some(word)
                if used < topic.len() && (*word == WordNumber::Star || *word == WordNumber::Literal(topic[used])) =>
            {
                (place, used) = (place + 1, used + 1);
                continue;
            }
            None if used == topic.len() => return true,
            _ => {}
        }
        match last_hash {
            Some((hash, taken)) if taken < topic.len() => {
                last_hash = Some((hash, taken + 1));
                (place, used) = (hash + 1, taken + 1);
            }
            _ => return false,
        }
    }
}

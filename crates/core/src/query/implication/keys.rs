//! Finds the queries that may cover a query by keys, so that not every pair is compared.
//!
//! A query is *filed* under keys, and *looks up* keys, such that a query which is covered by another looks up a key
//! under which that one is filed. The keys follow the rules of [`Form::implies`] case by case. Of an AND, any one
//! operand must be implied, so it is enough to be filed under the key that is looked up least. Of an OR, one of the
//! operands is implied, so it is filed under the keys of all.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::claim::{Atom, Claim, Subject};
use super::form::Form;
use super::patterns::literal_beginning;
use super::region::{Region, Set};
use crate::message::Value;
use crate::query::expr::{Predicate, Reference};

/// A hash. Two keys that collide cost a comparison of queries, but never change an answer.
pub(crate) type FilingKey = u64;

/// The maximum number of words of a topic in its keys; further words are compared directly.
const WORDS_MAX: usize = 8;

/// The keys under which a query is filed.
pub(crate) struct Filing {
    /// A query that it covers looks up at least one of these.
    pub(crate) keys: Vec<FilingKey>,
    /// A query that it covers looks up all of these; those that the fewest queries look up come first.
    pub(crate) needed: Vec<FilingKey>,
    /// A query that it covers looks up at least one of each list.
    pub(crate) alternatives: Vec<Vec<FilingKey>>,
}

impl Form<'_> {
    /// Appends the keys that the query looks up.
    pub(super) fn lookups(&self, keys: &mut Vec<FilingKey>) {
        match self {
            Self::Always | Self::Never => {}
            Self::Atom(atom) => atom.lookups(keys),
            Self::And(children) => children.iter().for_each(|child| child.lookups(keys)),
            // Every alternative must be covered, so the keys of one are enough.
            Self::Or(alternatives) => alternatives.iter().take(1).for_each(|form| form.lookups(keys)),
        }
    }

    pub(super) fn filing(&self, count: &impl Fn(FilingKey) -> usize) -> Filing {
        let operands = match self {
            Self::And(children) => children.as_slice(),
            single => std::slice::from_ref(single),
        };
        let mut filing = Filing { keys: Vec::new(), needed: Vec::new(), alternatives: Vec::new() };
        let mut least = usize::MAX;
        for operand in operands {
            let mut keys = Vec::new();
            operand.file(&mut keys);
            let looked_up = keys.iter().map(|key| count(*key)).sum();
            if looked_up < least {
                (least, filing.keys) = (looked_up, keys.clone());
            }
            match keys[..] {
                [key] => filing.needed.push(key),
                _ => filing.alternatives.push(keys),
            }
        }
        filing.keys.sort_unstable();
        filing.keys.dedup();
        filing.needed.sort_by_key(|key| count(*key));
        filing.needed.dedup();
        filing.alternatives.sort_by_key(Vec::len);
        filing
    }

    /// Appends keys of which everything that implies this claim looks up at least one.
    fn file(&self, keys: &mut Vec<FilingKey>) {
        match self {
            Self::Always | Self::Never => {}
            Self::Atom(atom) => atom.file(keys),
            Self::And(children) => children.iter().take(1).for_each(|child| child.file(keys)),
            Self::Or(alternatives) => alternatives.iter().for_each(|form| form.file(keys)),
        }
    }
}

impl Atom<'_> {
    fn lookups(&self, keys: &mut Vec<FilingKey>) {
        let subject = self.subject.hash();
        keys.push(any(subject));
        for reference in self.subject.references() {
            keys.push(any(Subject::Reference(reference).hash())); // it shows them to be there
        }
        // All of its values must be among the other's, so one is enough.
        keys.extend(self.values().and_then(<[_]>::first).map(|value| of_value(subject, value)));
        let (is_above, is_below) = self.bounds();
        keys.extend(is_above.then(|| above(subject)));
        keys.extend(is_below.then(|| below(subject)));
        if self.subject == Subject::Reference(&Reference::Topic) {
            self.topic_words(&mut |words| keys.extend((0..=words.len()).map(|n| of_words(&words[..n]))));
        }
    }

    fn file(&self, keys: &mut Vec<FilingKey>) {
        let subject = self.subject.hash();
        match (self.values(), &self.claim) {
            (Some(values), _) => keys.extend(values.iter().map(|value| of_value(subject, value))),
            (None, Claim::Some(Region { set: Set::Texts(Predicate::Topic(pattern)), is_complement: false })) => {
                let words: Vec<&str> = literal_beginning(pattern).take(WORDS_MAX).collect();
                keys.push(of_words(&words));
            }
            (None, _) => keys.push(match self.bounds() {
                (true, _) => above(subject),
                (false, true) => below(subject),
                (false, false) => any(subject),
            }),
        }
    }

    /// Whether it states that values are above some bound, and below some bound.
    fn bounds(&self) -> (bool, bool) {
        match &self.claim {
            Claim::Some(Region { set, is_complement: false }) | Claim::All(Region { set, is_complement: false }) => {
                match set {
                    Set::Within(interval) => interval.bounds(),
                    Set::Values(_) => (true, true),
                    Set::Texts(_) | Set::Outcomes(_) => (false, false),
                }
            }
            _ => (false, false),
        }
    }

    fn values(&self) -> Option<&[std::borrow::Cow<'_, Value>]> {
        match &self.claim {
            Claim::Some(Region { set: Set::Values(values), is_complement: false })
            | Claim::All(Region { set: Set::Values(values), is_complement: false }) => Some(values),
            _ => None,
        }
    }

    /// Calls `take` with the words that the topic begins with, when they are known.
    fn topic_words(&self, take: &mut dyn FnMut(&[&str])) {
        match (self.values().and_then(<[_]>::first).map(AsRef::as_ref), &self.claim) {
            (Some(Value::Text(topic)), _) => {
                let words: Vec<&str> = topic.split('.').filter(|_| !topic.is_empty()).take(WORDS_MAX).collect();
                take(&words);
            }
            (None, Claim::Some(Region { set: Set::Texts(Predicate::Topic(pattern)), is_complement: false })) => {
                let words: Vec<&str> = literal_beginning(pattern).take(WORDS_MAX).collect();
                take(&words);
            }
            _ => {}
        }
    }
}

impl Subject<'_> {
    fn hash(&self) -> u64 {
        match self {
            Self::Reference(reference) => hash(&(0, reference)),
            Self::Computed(operand) => hash(&(1, operand.to_string())),
            Self::Pair(left, right) => hash(&(2, left.to_string(), right.to_string())),
            Self::Predicate(predicate) => hash(&(3, predicate.to_string())),
        }
    }
}

fn any(subject: u64) -> FilingKey {
    hash(&(4, subject))
}

/// Values above a bound lie only within regions that are above some bound too.
fn above(subject: u64) -> FilingKey {
    hash(&(11, subject))
}

fn below(subject: u64) -> FilingKey {
    hash(&(12, subject))
}

/// Values that compare as equal have one key: numbers by the nearest float.
fn of_value(subject: u64, value: &Value) -> FilingKey {
    match value {
        Value::Text(text) => hash(&(5, subject, text)),
        Value::Bool(truth) => hash(&(6, subject, truth)),
        #[expect(clippy::cast_precision_loss, reason = "integers that fall together only share a key")]
        Value::Int(value) => hash(&(7, subject, (*value as f64).to_bits())),
        Value::Float(value) => hash(&(7, subject, (value + 0.0).to_bits())), // -0.0 + 0.0 is 0.0
        Value::Timestamp(micros) | Value::Day(micros) => hash(&(8, subject, micros)),
        Value::Null | Value::Present | Value::List(_) | Value::Map(_) => hash(&(9, subject)),
    }
}

fn of_words(words: &[&str]) -> FilingKey {
    hash(&(10, words))
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    FixedState::with_seed(0).hash_one(value)
}

//! The price of a query: what it takes to keep it and, at worst, to match it.
//!
//! Prices are estimates that are never far too low, and known as soon as a query is compiled. A broker adds them up and
//! refuses what would take too much (`docs/queries.md`, "What a query costs").

use std::fmt::{self, Display, Formatter};
use std::ops::{AddAssign, SubAssign};

use crate::allowance::{COPY_NS, LONG_PHRASE_NS, NEAR_NS, PHRASE_NS, WORDS_NS};
use crate::message::Value;
use crate::query::expr::{Expr, Operand, Predicate, Reference};
use crate::text::Phrase;

/// The memory of a value in an IN list, with what the index keeps of it.
const VALUE_BYTES: u64 = 100;
/// The memory of a predicate, with what the index keeps of it.
const PREDICATE_BYTES: u64 = 64;
/// The memory of a word of a phrase.
const WORD_BYTES: u64 = 40;
/// The number of characters of a predicate that a refusal shows.
const SHOWN_MAX: usize = 40;

/// The memory and the time that something takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The memory of what is compiled, in bytes.
    pub bytes: u64,
    /// The worst time per byte of the texts of a message, in nanoseconds.
    pub ns_per_byte: u64,
}

impl AddAssign for Price {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.ns_per_byte += other.ns_per_byte;
    }
}

impl SubAssign for Price {
    fn sub_assign(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.ns_per_byte = self.ns_per_byte.saturating_sub(other.ns_per_byte);
    }
}

impl std::iter::Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::default(), |mut sum, price| {
            sum += price;
            sum
        })
    }
}

impl Display for Price {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} ns/byte", self.bytes, self.ns_per_byte)
    }
}

impl Expr {
    /// The price of the tree: the sum of its predicates. Linear in them.
    #[must_use]
    pub fn price(&self) -> Price {
        match self {
            Self::Predicate(predicate) => predicate.price(),
            Self::Not(inner) => inner.price(),
            Self::And(children) | Self::Or(children) => children.iter().map(Self::price).sum(),
        }
    }

    /// The beginning of the predicate that takes the most by `measure`.
    #[must_use]
    pub fn most_expensive(&self, measure: impl Fn(Price) -> u64) -> String {
        let predicates = self.predicates();
        let most = predicates.into_iter().max_by_key(|predicate| measure(predicate.price()));
        let text = most.map(|predicate| Self::from(predicate.clone()).to_string()).unwrap_or_default();
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    /// Make what matching and indexing need beyond the tree, so that neither waits for it.
    pub fn prepare(&self) {
        for predicate in self.predicates() {
            if let Predicate::Regex(_, pattern) = predicate {
                pattern.prepare();
            }
        }
    }
}

impl Predicate {
    /// The price of the predicate. Constant time, apart from IN lists, LIKE patterns and arithmetic.
    #[must_use]
    pub fn price(&self) -> Price {
        let (bytes, ns_per_byte) = match self {
            Self::Constant(_) | Self::Opaque(_) => (0, 0),
            Self::Truth(reference) | Self::Exists(reference) => (reference.bytes(), 0),
            Self::Compare(left, _, right) => (left.bytes() + right.bytes(), left.ns_per_byte() + right.ns_per_byte()),
            Self::Between(operand, low, high) => (
                operand.bytes() + low.bytes() + high.bytes(),
                operand.ns_per_byte() + low.ns_per_byte() + high.ns_per_byte(),
            ),
            Self::In(operand, values) => {
                let of_values: u64 = values.values().iter().map(|value| VALUE_BYTES + text_bytes(value)).sum();
                (operand.bytes() + of_values, operand.ns_per_byte())
            }
            Self::Like(operand, pattern) => {
                (operand.bytes() + pattern.bytes() as u64, operand.ns_per_byte() + pattern.ns_per_byte())
            }
            Self::IsNull(operand) => (operand.bytes(), operand.ns_per_byte()),
            Self::Contains(reference, phrase) => {
                (reference.bytes() + phrase_bytes(phrase), reference.words_ns() + phrase_ns(phrase))
            }
            Self::Near(reference, a, b, _) => {
                (reference.bytes() + phrase_bytes(a) + phrase_bytes(b), reference.words_ns() + NEAR_NS)
            }
            Self::Topic(pattern) => (4 * pattern.text().len() as u64, 0),
            Self::Prefix(reference, text) | Self::Under(reference, text) => {
                (reference.bytes() + 2 * text.len() as u64, 0)
            }
            Self::Regex(reference, pattern) => (reference.bytes() + pattern.bytes() as u64, pattern.ns_per_byte()),
        };
        Price { bytes: PREDICATE_BYTES + bytes, ns_per_byte }
    }
}

impl Reference {
    fn bytes(&self) -> u64 {
        match self {
            Self::Property(name) => 2 * name.text.len() as u64,
            Self::Topic | Self::Body => 0,
        }
    }

    /// The time to find words in what it refers to. A body is cut into words once per message, however many queries ask,
    /// which is no query's own price.
    fn words_ns(&self) -> u64 {
        if *self == Self::Body { 0 } else { WORDS_NS }
    }
}

impl Operand {
    fn bytes(&self) -> u64 {
        match self {
            Self::Literal(value) => text_bytes(value),
            Self::Reference(reference) => reference.bytes(),
            Self::Negate(inner) => PREDICATE_BYTES / 4 + inner.bytes(),
            Self::Arithmetic(left, _, right) => PREDICATE_BYTES / 4 + left.bytes() + right.bytes(),
        }
    }

    /// A text that is read is copied; of several that are joined, each may be copied once for every other.
    fn ns_per_byte(&self) -> u64 {
        self.reference_count().pow(2) * COPY_NS
    }

    fn reference_count(&self) -> u64 {
        match self {
            Self::Literal(_) => 0,
            Self::Reference(_) => 1,
            Self::Negate(inner) => inner.reference_count(),
            Self::Arithmetic(left, _, right) => left.reference_count() + right.reference_count(),
        }
    }
}

fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::Text(text) => 2 * text.len() as u64,
        _ => 0,
    }
}

fn phrase_bytes(phrase: &Phrase) -> u64 {
    phrase.words().len() as u64 * WORD_BYTES + 3 * phrase.text().len() as u64
}

/// The worst time to find it among words of one letter, which are two bytes each with the space after them.
fn phrase_ns(phrase: &Phrase) -> u64 {
    if phrase.is_long() { LONG_PHRASE_NS / 2 } else { (phrase.words().len() as u64 - 1) * PHRASE_NS / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

    fn price(text: &str) -> Price {
        parse(text, SelectorDialect::Jms).expect(text).price()
    }

    #[test]
    fn what_takes_more_has_a_higher_price() {
        let rising = ["a = 1", "a IN (1, 2, 3)", "REGEX(a, 'x')", r"REGEX(a, '\w')", r"REGEX(a, '\w{4}')"];
        assert!(rising.map(price).is_sorted_by_key(|price| price.bytes), "{:?}", rising.map(price));
        let rising = ["CONTAINS(body, 'x')", "NEAR(body, 'x', 'y')", "body LIKE '%x%'", r"REGEX(body, '\w')"];
        assert!(rising.map(price).is_sorted_by_key(|price| price.ns_per_byte), "{:?}", rising.map(price));
        assert!(price(&format!("a LIKE '{}'", "%a".repeat(400))).bytes > 50_000);
    }

    #[test]
    fn a_price_is_the_sum_of_its_parts_and_names_the_largest() {
        let mut sum = price("a = 1");
        sum += price("NOT REGEX(b, 'x+')");
        assert_eq!(price("a = 1 AND NOT REGEX(b, 'x+')"), sum);
        let query = parse("a = 1 AND NOT REGEX(b, 'x+')", SelectorDialect::Jms).expect("a query");
        assert_eq!(query.expr().most_expensive(|price| price.bytes), "REGEX(b, 'x+')");
    }
}

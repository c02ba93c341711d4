//! The term of a symbol: a value, a word, a pair of words, a needle or a topic pattern, in one canonical form.

use crate::message::Value;
use crate::text::needles::Anchor;
use crate::topic::TopicDialect;

use super::hash::hash_bytes;

/// A scalar in the one form that all equal values share: 1 and 1.0, 0.0 and -0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar<'a> {
    /// A text.
    Text(&'a str),
    /// A kind and 64 bits: numbers, Booleans, timestamps.
    Bits(u8, u64),
}

/// The term that a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolTerm<'a> {
    /// A value, or a word.
    Value(Scalar<'a>),
    /// A text that may stand in others.
    Needle(Anchor, &'a str),
    /// A topic pattern.
    Pattern(TopicDialect, &'a str),
    /// Two words, one after the other, and a NUL between them.
    WordPair(&'a str),
}

impl<'a> From<Scalar<'a>> for SymbolTerm<'a> {
    fn from(scalar: Scalar<'a>) -> Self {
        Self::Value(scalar)
    }
}

// Kinds are part of the snapshot's format.
const TEXT: u8 = 1;
const BOOL: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const TIMESTAMP: u8 = 5;
/// The first kind of a needle: one kind per anchor.
const NEEDLE: u8 = 6;
const ANCHORS: [Anchor; 4] = [Anchor::Anywhere, Anchor::Start, Anchor::End, Anchor::Whole];
/// The first kind of a pattern: one kind per dialect.
const PATTERN: u8 = 10;
/// The kind of a date: what a DATE literal equals besides instants.
const DAY: u8 = 13;
const WORD_PAIR: u8 = 14;
const DIALECTS: [TopicDialect; 3] = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];

impl<'a> Scalar<'a> {
    /// The canonical form of a scalar; None for null, a field without a value, a list and a mapping, which equal nothing.
    #[must_use]
    pub fn of(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Text(text) => Self::Text(text),
            Value::Bool(truth) => Self::Bits(BOOL, u64::from(*truth)),
            Value::Int(value) => Self::Bits(INT, value.cast_unsigned()),
            Value::Float(value) => match exact_integer(*value) {
                Some(integer) => Self::Bits(INT, integer.cast_unsigned()),
                None => Self::Bits(FLOAT, value.to_bits()),
            },
            Value::Timestamp(micros) => Self::Bits(TIMESTAMP, micros.cast_unsigned()),
            Value::Day(micros) => Self::Bits(DAY, micros.cast_unsigned()),
            Value::Null | Value::Present | Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// The canonical form of a literal of a query; None also for NaN, which does not even equal itself.
    #[must_use]
    pub fn of_literal(value: &'a Value) -> Option<Self> {
        let is_nan = matches!(value, Value::Float(float) if float.is_nan());
        if is_nan { None } else { Self::of(value) }
    }

    /// The hash of the value, whatever attribute it belongs to.
    #[inline]
    #[must_use]
    pub fn hash(self) -> u64 {
        SymbolTerm::from(self).hash()
    }
}

impl<'a> SymbolTerm<'a> {
    /// The hash of the term, whatever attribute it belongs to. Terms with equal hashes are told apart by comparing.
    #[inline]
    pub fn hash(self) -> u64 {
        self.with_bytes(|bytes| hash_bytes(u64::from(self.kind()), bytes))
    }

    /// The number that tells kinds of terms apart; never 0.
    #[inline]
    pub fn kind(self) -> u8 {
        match self {
            Self::Value(Scalar::Text(_)) => TEXT,
            Self::Value(Scalar::Bits(kind, _)) => kind,
            Self::Needle(anchor, _) => NEEDLE + index_in(&ANCHORS, anchor),
            Self::Pattern(dialect, _) => PATTERN + index_in(&DIALECTS, dialect),
            Self::WordPair(_) => WORD_PAIR,
        }
    }

    /// True for the kind of a Boolean.
    #[must_use]
    pub fn is_bool(kind: u8) -> bool {
        kind == BOOL
    }

    /// True for the kinds of times.
    #[must_use]
    pub fn is_time(kind: u8) -> bool {
        kind == TIMESTAMP || kind == DAY
    }

    /// Call `work` with the bytes of the term.
    #[inline]
    pub fn with_bytes<R>(self, work: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Value(Scalar::Bits(_, bits)) => work(&bits.to_le_bytes()),
            text => work(text.text().as_bytes()),
        }
    }

    /// The term of a text of `kind`; None for other kinds.
    pub fn of_text(kind: u8, text: &'a str) -> Option<Self> {
        let index = |first: u8| usize::from(kind.wrapping_sub(first));
        match ANCHORS.get(index(NEEDLE)) {
            Some(anchor) => Some(Self::Needle(*anchor, text)),
            None if kind == TEXT => Some(Self::Value(Scalar::Text(text))),
            None if kind == WORD_PAIR => Some(Self::WordPair(text)),
            None => DIALECTS.get(index(PATTERN)).map(|dialect| Self::Pattern(*dialect, text)),
        }
    }

    /// The text of a text, needle, pattern or pair of words; empty for anything else.
    #[must_use]
    pub fn text(self) -> &'a str {
        match self {
            Self::Value(Scalar::Text(text)) | Self::Needle(_, text) | Self::Pattern(_, text) | Self::WordPair(text) => {
                text
            }
            Self::Value(Scalar::Bits(..)) => "",
        }
    }

    /// The term as a needle. A text that is none may stand anywhere.
    #[must_use]
    pub fn needle(self) -> (&'a str, Anchor) {
        (self.text(), if let Self::Needle(anchor, _) = self { anchor } else { Anchor::Anywhere })
    }
}

/// Write the text of the pair of two words, one after the other.
pub fn write_word_pair(first: &str, second: &str, pair: &mut String) {
    pair.clear();
    pair.push_str(first);
    pair.push('\0');
    pair.push_str(second);
}

fn index_in<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|other| *other == one).unwrap_or_default() as u8
}

/// The 64-bit integer that `float` equals exactly, if there is one.
fn exact_integer(float: f64) -> Option<i64> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range of i64")]
    (float.trunc() == float && (-TWO_63..TWO_63).contains(&float)).then_some(float as i64)
}

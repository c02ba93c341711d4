//! The clauses of predicates about texts: needles and words that have to stand in them.

use crate::index::clause::{ListRule, Symbols};
use crate::index::ids::AttributeId;
use crate::index::origin::AttributeOrigin;
use crate::index::term::{Scalar, SymbolTerm, write_word_pair};
use crate::message::Value;
use crate::query::expr::{Comparison, Pattern, PropertyName, Reference};
use crate::query::like::{LikePattern, NecessaryNeedle};
use crate::text::needles::Anchor;

use super::clauses::Clauses;
use super::interner::Interner;

/// The maximum number of bytes of a needle. Of a longer one a part is searched, and the query is evaluated.
const NEEDLE_BYTES_MAX: usize = 255;

impl Clauses {
    /// True when `reference` matches a LIKE pattern, or does not.
    pub fn like(reference: &Reference, pattern: &LikePattern, is_negated: bool, interner: &mut Interner) -> Self {
        match pattern.necessary_needle() {
            Some(NecessaryNeedle { needle, anchor: Anchor::Whole, .. }) if *reference != Reference::Body => {
                Self::comparison(reference, Comparison::Equal, &Value::Text(needle.into()), is_negated, interner)
            }
            Some(NecessaryNeedle { needle, anchor, is_exact }) if !is_negated => {
                Self::needles(reference, &[(needle, anchor)], is_exact, interner)
            }
            _ => Self::known(reference, interner),
        }
    }

    /// True, if at all, of texts that have one of the needles that a regular expression needs.
    pub fn regex(reference: &Reference, pattern: &Pattern, interner: &mut Interner) -> Self {
        let needles = pattern.necessary_needles().unwrap_or_default();
        let needles: Vec<_> = needles.iter().map(|needle| (needle.as_str(), Anchor::Anywhere)).collect();
        Self::needles(reference, &needles, false, interner)
    }

    /// True, if at all, of texts in which one of `needles` stands; when `is_exact`, of all such texts.
    pub fn needles(reference: &Reference, needles: &[(&str, Anchor)], is_exact: bool, interner: &mut Interner) -> Self {
        let (origin, name) = match reference {
            _ if needles.is_empty() || !interner.has_room_for_needles() => return Self::known(reference, interner),
            Reference::Topic => (AttributeOrigin::TopicNeedles, ""),
            Reference::Body => (AttributeOrigin::BodyNeedles, ""),
            Reference::Property(PropertyName { text, any_case: true }) => (AttributeOrigin::AnyCaseNeedles, &**text),
            Reference::Property(PropertyName { text, any_case: false }) => (AttributeOrigin::Needles, &**text),
        };
        let attribute = interner.attribute(origin, name);
        let symbol = |(needle, anchor): &(&str, Anchor)| {
            let (needle, anchor) = shortened(needle, *anchor);
            interner.symbol(attribute, SymbolTerm::Needle(anchor, needle))
        };
        let symbols = needles.iter().map(symbol).collect();
        let is_exact = is_exact && needles.iter().all(|(needle, _)| needle.len() <= NEEDLE_BYTES_MAX);
        Self { needs_evaluation: !is_exact, ..Self::one_of(attribute, symbols, ListRule::Some, interner) }
    }

    /// True when the phrase of `words` stands in the text. One of more than two words is evaluated where two neighbours of it
    /// stand, the longest pair.
    pub fn phrase(reference: &Reference, words: &[Box<str>], interner: &mut Interner) -> Self {
        let attribute = words_of(reference, interner);
        let longest = words.windows(2).max_by_key(|pair| pair[0].len() + pair[1].len());
        let Some(pair) = longest else { return Self::word(attribute, &words[0], interner) };
        // A message is searched for a pair where it has symbols for both words.
        pair.iter().for_each(|word| _ = interner.symbol(attribute, Scalar::Text(word)));
        let mut text = String::new();
        write_word_pair(&pair[0], &pair[1], &mut text);
        let clauses = Self::term(attribute, SymbolTerm::WordPair(&text), interner);
        Self { needs_evaluation: words.len() > 2, ..clauses }
    }

    /// True, if at all, of texts that have both words.
    pub fn both_words(reference: &Reference, a: &str, b: &str, interner: &mut Interner) -> Self {
        let attribute = words_of(reference, interner);
        let mut both = Self::word(attribute, a, interner);
        both.and(Self::word(attribute, b, interner), interner);
        Self { needs_evaluation: true, ..both }
    }

    fn word(attribute: AttributeId, word: &str, interner: &mut Interner) -> Self {
        Self::term(attribute, Scalar::Text(word).into(), interner)
    }

    fn term(attribute: AttributeId, term: SymbolTerm<'_>, interner: &mut Interner) -> Self {
        let symbols = Symbols::from_slice(&[interner.symbol(attribute, term)]);
        Self::one_of(attribute, symbols, ListRule::Some, interner)
    }
}

/// The attribute of the words in the texts of `reference`.
fn words_of(reference: &Reference, interner: &mut Interner) -> AttributeId {
    let (origin, name) = match reference {
        Reference::Topic => (AttributeOrigin::TopicWords, ""),
        Reference::Body => (AttributeOrigin::BodyWords, ""),
        Reference::Property(PropertyName { text, any_case: true }) => (AttributeOrigin::AnyCaseWords, &**text),
        Reference::Property(PropertyName { text, any_case: false }) => (AttributeOrigin::Words, &**text),
    };
    interner.attribute(origin, name)
}

/// A part of a long needle that stands wherever the needle does.
fn shortened(needle: &str, anchor: Anchor) -> (&str, Anchor) {
    if needle.len() <= NEEDLE_BYTES_MAX {
        return (needle, anchor);
    }
    let is_boundary = |position: &usize| needle.is_char_boundary(*position);
    if anchor == Anchor::End {
        let start = (needle.len() - NEEDLE_BYTES_MAX..).find(is_boundary).expect("the end is one");
        return (&needle[start..], anchor);
    }
    let end = (0..=NEEDLE_BYTES_MAX).rev().find(is_boundary).expect("the start is one");
    (&needle[..end], if anchor == Anchor::Anywhere { anchor } else { Anchor::Start })
}

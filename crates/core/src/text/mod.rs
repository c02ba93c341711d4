//! Words, phrases and signatures of text (the PNNL paper, section 3.2).
//!
//! A word is a UAX #29 segment with a letter or a digit, in NFKC, with simple case folding; there is no stemming.
//! Positions count every word from 0, including stop words.

pub mod needles;
mod segments;
mod signature;
mod signature_memo;

use std::collections::HashSet;
use std::ops::Range;

use unicode_normalization::{UnicodeNormalization, is_nfkc};

use segments::Words;
pub use signature::Signature;
pub use signature_memo::SignatureMemo;

/// The words that a source does not index, normalised.
pub type StopWords = HashSet<Box<str>>;

/// The words of `text` in order, each with the range of its bytes.
pub fn words(text: &str) -> impl Iterator<Item = (Range<usize>, Box<str>)> + '_ {
    Words::of(text).map(|range| (range.clone(), normalise(&text[range])))
}

/// NFKC and simple case folding of one word.
#[must_use]
pub fn normalise(word: &str) -> Box<str> {
    let mut normalised = String::with_capacity(word.len());
    push_normalised(word, &mut normalised);
    normalised.into()
}

fn push_normalised(word: &str, normalised: &mut String) {
    let from = normalised.len();
    if word.is_ascii() {
        normalised.push_str(word);
        normalised[from..].make_ascii_lowercase();
    } else if is_nfkc(word) {
        normalised.extend(word.chars().map(fold));
    } else {
        normalised.extend(word.nfkc().map(fold));
    }
}

fn fold(character: char) -> char {
    unicode_case_mapping::case_folded(character).and_then(|code| char::from_u32(code.get())).unwrap_or(character)
}

/// One word, or several consecutive words, as a query asks for them.
#[derive(Clone, Debug)]
pub struct Phrase {
    text: Box<str>,
    words: Box<[Box<str>]>,
}

impl PartialEq for Phrase {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Phrase {
    /// The phrase of the words of `text`; None when there are none.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let words: Box<[_]> = words(text).map(|(_, word)| word).collect();
        (!words.is_empty()).then(|| Self { text: text.into(), words })
    }

    /// The text as the query contains it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has enough words to be searched for in one pass over a text.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.words.len() > signature::WORDS_TRIED_MAX
    }

    /// The normalised words, at least one.
    #[must_use]
    pub fn words(&self) -> &[Box<str>] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_segments_with_a_letter_or_digit_normalised() {
        let found: Vec<_> = words("The QUICK (\"brown\") fox can't jump 32.3 feet, Ⅳ ﬁne!").map(|(_, w)| w).collect();
        assert_eq!(found.join("|"), "the|quick|brown|fox|can't|jump|32.3|feet|iv|fine");
    }
}

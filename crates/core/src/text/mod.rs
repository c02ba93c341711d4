//! Words, phrases and signatures of text (paper 002, PNNL, section 3.2).
//!
//! A word is a UAX #29 segment with a letter or a digit, in NFKC, with simple case folding; there is no stemming.
//! Positions count every word from 0, stop words too.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use unicode_normalization::{UnicodeNormalization, is_nfkc};
use unicode_segmentation::UnicodeSegmentation;

/// Words that a source does not index, normalised.
pub type StopWords = HashSet<Box<str>>;

/// The words of `text` in order, each with the bytes it stands at.
pub fn words(text: &str) -> impl Iterator<Item = (Range<usize>, Box<str>)> + '_ {
    text.unicode_word_indices().map(|(start, word)| (start..start + word.len(), normalise(word)))
}

/// NFKC and simple case folding of one word.
#[must_use]
pub fn normalise(word: &str) -> Box<str> {
    if word.is_ascii() {
        return word.to_ascii_lowercase().into();
    }
    if is_nfkc(word) { word.chars().map(fold).collect::<String>() } else { word.nfkc().map(fold).collect() }.into()
}

fn fold(character: char) -> char {
    unicode_case_mapping::case_folded(character).and_then(|code| char::from_u32(code.get())).unwrap_or(character)
}

/// A word or several words in a row, as a query asks for them.
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
    /// The words of `text`; None when there are none.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let words: Box<[_]> = words(text).map(|(_, word)| word).collect();
        (!words.is_empty()).then(|| Self { text: text.into(), words })
    }

    /// The text as the query wrote it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The normalised words; at least one.
    #[must_use]
    pub fn words(&self) -> &[Box<str>] {
        &self.words
    }
}

/// Term → positions of one text, without the stop words of its source.
///
/// A stop list only shrinks what is stored: [`Signature::is_complete_for`] tells when the full text must be asked.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    positions: HashMap<Box<str>, Vec<u32>>,
    stop_words: Option<Arc<StopWords>>,
    word_count: u32,
}

impl Signature {
    /// The signature of every word of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::build(text, None)
    }

    /// The signature of `text` without `stop_words`, which count in positions all the same.
    #[must_use]
    pub fn without(text: &str, stop_words: Arc<StopWords>) -> Self {
        Self::build(text, Some(stop_words))
    }

    fn build(text: &str, stop_words: Option<Arc<StopWords>>) -> Self {
        let mut positions: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        let mut word_count = 0;
        for (_, word) in words(text) {
            if !stop_words.as_ref().is_some_and(|stop| stop.contains(&word)) {
                positions.entry(word).or_default().push(word_count);
            }
            word_count += 1;
        }
        Self { positions, stop_words, word_count }
    }

    /// Where `word` (normalised) stands, ascending; empty when it does not.
    #[must_use]
    pub fn positions(&self, word: &str) -> &[u32] {
        self.positions.get(word).map_or(&[], Vec::as_slice)
    }

    /// Every term and its positions, in no particular order.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &[u32])> {
        self.positions.iter().map(|(term, positions)| (&**term, positions.as_slice()))
    }

    /// How many words the text has, stop words included.
    #[must_use]
    pub fn word_count(&self) -> u32 {
        self.word_count
    }

    /// False when a stop list kept one of the words of `phrase` out.
    #[must_use]
    pub fn is_complete_for(&self, phrase: &Phrase) -> bool {
        self.stop_words.as_ref().is_none_or(|stop| !phrase.words().iter().any(|word| stop.contains(word)))
    }

    /// Where `phrase` begins: positions of its first word that the others follow one by one.
    pub fn starts_of<'a>(&'a self, phrase: &'a Phrase) -> impl Iterator<Item = u32> + 'a {
        let (first, rest) = (&phrase.words()[0], &phrase.words()[1..]);
        self.positions(first).iter().copied().filter(move |start| {
            (1u32..).zip(rest).all(|(step, word)| self.positions(word).binary_search(&(start + step)).is_ok())
        })
    }

    /// True when `phrase` stands somewhere.
    #[must_use]
    pub fn contains(&self, phrase: &Phrase) -> bool {
        self.starts_of(phrase).next().is_some()
    }

    /// A position of `a` and one of `b` that differ by 1 to `distance`, in either order. Linear in both lists.
    #[must_use]
    pub fn near(&self, a: &Phrase, b: &Phrase, distance: u32) -> Option<(u32, u32)> {
        let (left, right) = (self.positions(&a.words()[0]), self.positions(&b.words()[0]));
        let mut from = 0;
        for &position in left {
            while from < right.len() && right[from] < position.saturating_sub(distance) {
                from += 1;
            }
            let near = right[from..]
                .iter()
                .take_while(|other| **other <= position.saturating_add(distance))
                .find(|other| **other != position);
            if let Some(&other) = near {
                return Some((position, other));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrase(text: &str) -> Phrase {
        Phrase::new(text).expect("a word")
    }

    #[test]
    fn words_are_segments_with_a_letter_or_digit_normalised() {
        let found: Vec<_> = words("The QUICK (\"brown\") fox can't jump 32.3 feet, Ⅳ ﬁne!").map(|(_, w)| w).collect();
        assert_eq!(found.join("|"), "the|quick|brown|fox|can't|jump|32.3|feet|iv|fine");
    }

    #[test]
    fn a_phrase_is_consecutive_positions_and_near_is_in_either_order() {
        let signature = Signature::of("I covered my daffodils, garlic, and rhubarb last night");
        assert!(signature.contains(&phrase("Garlic AND rhubarb")));
        assert!(!signature.contains(&phrase("garlic rhubarb")));
        assert!(signature.near(&phrase("rhubarb"), &phrase("daffodils"), 3).is_some());
        assert!(signature.near(&phrase("daffodils"), &phrase("rhubarb"), 2).is_none());
        assert!(signature.near(&phrase("garlic"), &phrase("garlic"), 5).is_none());
    }

    #[test]
    fn stop_words_shrink_the_signature_and_keep_the_positions() {
        let stop: StopWords = ["and".into()].into();
        let signature = Signature::without("garlic and rhubarb", Arc::new(stop));
        assert_eq!(signature.positions("rhubarb"), [2]);
        assert!(signature.positions("and").is_empty());
        assert!(!signature.is_complete_for(&phrase("garlic and rhubarb")));
        assert!(signature.is_complete_for(&phrase("garlic")));
    }
}

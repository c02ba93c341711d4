//! The signature of a text: its words and their positions.
//!
//! All terms are in one text and all positions in one list, so that making a signature takes a handful of allocations
//! whatever the length of the text.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::segments::Words;
use super::{Phrase, StopWords, push_normalised};

/// The average bytes of a word and the space after it: an estimate for allocating.
const BYTES_PER_WORD: usize = 6;
/// The average number of times that a long text repeats a term.
const TERMS_EXPECTED_MAX: usize = 1_000;
/// The maximum number of words of a phrase that is tried at each position of its first word. A longer phrase is
/// searched for in one pass, since a text and a phrase that repeat one word would take the product of their lengths.
pub(super) const WORDS_TRIED_MAX: usize = 8;
/// Stands for every word that is not in a phrase.
const NO_WORD: u32 = u32::MAX;

/// Term → positions of one text, without the stop words of its source.
///
/// A stop list only reduces what is stored: [`Signature::is_complete_for`] tells when the full text must be asked.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The text in lower case, as far as it is ASCII, which contains most terms; then the other terms.
    texts: String,
    /// The terms, in the order of their first positions in the text.
    terms: Vec<SignatureTerm>,
    /// The number of each term, by its hash.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The positions of the first term, then those of the second, and so on.
    positions: Vec<u32>,
    stop_words: Option<Arc<StopWords>>,
    word_count: u32,
}

#[derive(Clone, Debug)]
struct SignatureTerm {
    hash: u64,
    text: Range<usize>,
    /// The positions; while the signature is made, only their number.
    positions: Range<u32>,
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
        let words_expected = text.len() / BYTES_PER_WORD;
        let mut signature = Self {
            texts: text.to_ascii_lowercase(),
            terms: Vec::with_capacity(words_expected.min(TERMS_EXPECTED_MAX)),
            table: HashTable::with_capacity(words_expected.min(TERMS_EXPECTED_MAX)),
            stop_words,
            ..Self::default()
        };
        let mut kept = Vec::with_capacity(words_expected); // term and position of each word that is no stop word
        let is_ascii = text.is_ascii();
        for range in Words::of(text) {
            let term = if is_ascii || text[range.clone()].is_ascii() {
                signature.count(range)
            } else {
                signature.count_other(&text[range])
            };
            kept.extend(term.map(|term| (term, signature.word_count)));
            signature.word_count += 1;
        }
        signature.sort_positions(&kept);
        signature
    }

    /// The term of `word`, which is not a part of `texts`, counted once more; None when it is a stop word.
    fn count_other(&mut self, word: &str) -> Option<u32> {
        let (from, term_count) = (self.texts.len(), self.terms.len());
        push_normalised(word, &mut self.texts);
        let term = self.count(from..self.texts.len());
        if self.terms.len() == term_count {
            self.texts.truncate(from);
        }
        term
    }

    /// The term at `range` of `texts`, counted once more; None when it is a stop word.
    fn count(&mut self, range: Range<usize>) -> Option<u32> {
        let text = &self.texts[range.clone()];
        if self.stop_words.as_ref().is_some_and(|stop| stop.contains(text)) {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        let is_term = |number: &u32| {
            let known = &self.terms[*number as usize];
            known.hash == hash && self.texts[known.text.clone()] == *text
        };
        match self.table.entry(hash, is_term, |number| self.terms[*number as usize].hash) {
            Entry::Occupied(entry) => {
                let number = *entry.get();
                self.terms[number as usize].positions.end += 1;
                Some(number)
            }
            Entry::Vacant(entry) => {
                let number = self.terms.len() as u32;
                entry.insert(number);
                self.terms.push(SignatureTerm { hash, text: range, positions: 0..1 });
                Some(number)
            }
        }
    }

    /// Gives each term its part of the positions, and puts those of `kept` there, in order.
    fn sort_positions(&mut self, kept: &[(u32, u32)]) {
        let mut from = 0;
        for term in &mut self.terms {
            let count = term.positions.end;
            term.positions = from..from; // grows back to its count
            from += count;
        }
        self.positions.resize(kept.len(), 0);
        for (term, position) in kept {
            let end = &mut self.terms[*term as usize].positions.end;
            self.positions[*end as usize] = *position;
            *end += 1;
        }
    }

    /// The positions of `word` (normalised), ascending; empty when it does not occur.
    #[must_use]
    pub fn positions(&self, word: &str) -> &[u32] {
        let is_term = |number: &u32| self.texts[self.terms[*number as usize].text.clone()] == *word;
        let number = self.table.find(self.hasher.hash_one(word), is_term);
        number.map_or(&[], |number| self.positions_of(&self.terms[*number as usize]))
    }

    fn positions_of(&self, term: &SignatureTerm) -> &[u32] {
        &self.positions[term.positions.start as usize..term.positions.end as usize]
    }

    /// Every term and its positions, in the order of the terms' first positions in the text.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = (&str, &[u32])> {
        self.terms.iter().map(|term| (&self.texts[term.text.clone()], self.positions_of(term)))
    }

    /// The number of words of the text, including stop words.
    #[must_use]
    pub fn word_count(&self) -> u32 {
        self.word_count
    }

    /// The stop list that excluded words, if there is one.
    #[must_use]
    pub fn stop_words(&self) -> Option<&Arc<StopWords>> {
        self.stop_words.as_ref()
    }

    /// False when a stop list excluded one of the words of `phrase`.
    #[must_use]
    pub fn is_complete_for(&self, phrase: &Phrase) -> bool {
        self.stop_words.as_ref().is_none_or(|stop| !phrase.words().iter().any(|word| stop.contains(word)))
    }

    /// The positions at which `phrase` begins, its words following one another. Linear in the text.
    pub fn starts_of<'a>(&'a self, phrase: &'a Phrase) -> impl Iterator<Item = u32> + 'a {
        let (first, rest) = (&phrase.words()[0], &phrase.words()[1..]);
        let is_long = phrase.is_long();
        let searched = if is_long { self.search(phrase.words()) } else { Vec::new() };
        let tried = if is_long { &[] } else { self.positions(first) };
        searched.into_iter().chain(tried.iter().copied().filter(move |start| {
            (1u32..).zip(rest).all(|(step, word)| self.positions(word).binary_search(&(start + step)).is_ok())
        }))
    }

    /// Finds the positions of [`Self::starts_of`] in time linear in text and phrase together (Knuth, Morris and Pratt,
    /// "Fast pattern matching in strings", 1977), over the words of the phrase as the text has them.
    fn search(&self, phrase: &[Box<str>]) -> Vec<u32> {
        if phrase.len() > self.word_count as usize || phrase.iter().any(|word| self.positions(word).is_empty()) {
            return Vec::new();
        }
        // A word is named by the first of its positions, which no other word has.
        let wanted: Vec<u32> = phrase.iter().map(|word| self.positions(word)[0]).collect();
        let mut text = vec![NO_WORD; self.word_count as usize];
        for (name, word) in wanted.iter().zip(phrase) {
            if text[*name as usize] == NO_WORD {
                self.positions(word).iter().for_each(|position| text[*position as usize] = *name);
            }
        }
        let borders = borders(&wanted);
        let mut starts = Vec::new();
        let mut fitting = 0; // how many words of the phrase end here
        for (position, name) in (1..).zip(text) {
            while fitting > 0 && (fitting == wanted.len() || wanted[fitting] != name) {
                fitting = borders[fitting - 1];
            }
            fitting += usize::from(wanted[fitting] == name);
            if fitting == wanted.len() {
                starts.push(position - fitting as u32);
            }
        }
        starts
    }

    /// True when `phrase` occurs in the text.
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

/// For each beginning of `words`, the length of the longest shorter one that it also ends with.
fn borders(words: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; words.len()];
    let mut length = 0;
    for end in 1..words.len() {
        while length > 0 && words[length] != words[end] {
            length = borders[length - 1];
        }
        length += usize::from(words[length] == words[end]);
        borders[end] = length;
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rounds;

    fn phrase(text: &str) -> Phrase {
        Phrase::new(text).expect("a word")
    }

    #[test]
    fn every_word_has_its_positions() {
        use std::collections::HashMap;

        let text = "Die Katze, die KATZE und der Kater: die drei. ".repeat(3) + "Ⅳ ﬁn";
        let stop: Arc<StopWords> = Arc::new(["und".into(), "der".into()].into());
        let mut expected: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for (position, (_, word)) in (0..).zip(crate::text::words(&text)) {
            expected.entry(word).or_default().push(position);
        }
        let terms = |signature: &Signature| -> HashMap<Box<str>, Vec<u32>> {
            signature.terms().map(|(term, positions)| (term.into(), positions.to_vec())).collect()
        };
        let signature = Signature::of(&text);
        assert_eq!(terms(&signature), expected);
        assert!(expected.iter().all(|(term, positions)| signature.positions(term) == positions));
        expected.retain(|term, _| !stop.contains(term));
        assert_eq!(terms(&Signature::without(&text, stop)), expected);
        assert_eq!(signature.word_count(), 29);
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
    fn a_phrase_of_any_length_stands_where_the_text_has_it() {
        let mut state = 7_u64;
        let mut pick = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut found = [0, 0]; // in short phrases and in long ones
        for _ in rounds(0..2_000) {
            let letters = &["a", "b", "c"][..=pick(3)];
            let text: Vec<&str> = (0..pick(60)).map(|_| letters[pick(letters.len())]).collect();
            let wanted: Vec<&str> = (0..=pick(15)).map(|_| letters[pick(letters.len())]).collect();
            let expected: Vec<u32> =
                (0u32..).zip(text.windows(wanted.len())).filter(|(_, row)| *row == wanted).map(|(at, _)| at).collect();
            let starts: Vec<u32> = Signature::of(&text.join(" ")).starts_of(&phrase(&wanted.join(" "))).collect();
            assert_eq!(starts, expected, "{wanted:?} in {text:?}");
            found[usize::from(wanted.len() > WORDS_TRIED_MAX)] += starts.len();
        }
        assert!(found.iter().all(|count| *count > 0));
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

//! Searches texts for what queries ask of them: all needles in one pass, each word by a look-up, and pairs of such words.
//!
//! A needle, word or pair of words that stands in a text is a symbol like any value, of an attribute of its own, of which a
//! message may have several. Automata are not part of a snapshot: they are built for the first text.

use std::sync::{Arc, OnceLock};

use hashbrown::{HashMap, HashSet};

use crate::allowance::{Allowance, EVALUATION_NS, WORD_PAIR_NS};
use crate::error::EngineError;
use crate::index::ids::{AttributeId, SymbolPosition};
use crate::index::layout::sections::SectionName;
use crate::index::layout::store::SectionStore;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::layout::symbol_table::{find, symbol_at};
use crate::index::term::{Scalar, SymbolTerm, write_word_pair};
use crate::message::Message;
use crate::text::needles::{NeedleScratch, Needles};
use crate::text::{Signature, StopWords};

/// The maximum total size of the needles of a file. An interner takes fewer.
const NEEDLE_BYTES_MAX: usize = 64 << 20;

/// The needles and words that the queries of a segment look for in texts, built from its sections on first use.
#[derive(Debug, Default)]
pub struct TextSearch {
    by_attribute: OnceLock<HashMap<AttributeId, WantedTexts>>,
    /// The first stop list of a message, and whether queries ask for one of its words.
    stop_words: OnceLock<(Arc<StopWords>, bool)>,
}

/// The needles or words that queries look for in the texts of one attribute.
#[derive(Debug, Default)]
struct WantedTexts {
    needles: Option<Needles>,
    words: Vec<Box<str>>,
    /// The symbol row of each needle, or of each word.
    symbols: Vec<SymbolInfo>,
}

/// Reused memory of a search for needles.
#[derive(Debug, Default)]
pub struct NeedleWork {
    scratch: NeedleScratch,
    /// The indexes of the needles that stand in the text.
    present: Vec<u32>,
}

impl TextSearch {
    /// Build it now.
    pub fn build(&self, store: &SectionStore) -> Result<(), EngineError> {
        self.of(store, AttributeId(0)).map(drop)
    }

    /// The memory of what has been built so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.by_attribute.get().map_or(0, |by_attribute| by_attribute.values().map(WantedTexts::bytes).sum())
    }

    fn of(&self, store: &SectionStore, attribute: AttributeId) -> Result<Option<&WantedTexts>, EngineError> {
        let by_attribute = match self.by_attribute.get() {
            Some(by_attribute) => by_attribute,
            None => {
                let built = build(store)?;
                self.by_attribute.get_or_init(|| built)
            }
        };
        Ok(by_attribute.get(&attribute))
    }

    /// Call `add` with each needle of `attribute` that stands in `text`. Cost: linear in the text and in the matches.
    pub fn needles(
        &self,
        store: &SectionStore,
        attribute: AttributeId,
        text: &str,
        work: &mut NeedleWork,
        add: &mut impl FnMut(SymbolInfo),
    ) -> Result<(), EngineError> {
        let Some(WantedTexts { needles: Some(needles), symbols, .. }) = self.of(store, attribute)? else {
            return Ok(());
        };
        work.present.clear();
        needles.find_into(text, &mut work.scratch, &mut work.present);
        work.present.iter().for_each(|needle| add(symbols[*needle as usize]));
        Ok(())
    }

    /// Call `add` with each word of `attribute` that stands in `body`, and with each pair of them, by the signature of the
    /// body. If a query asks for a word that a stop list keeps out of that, it is the signature of all words.
    ///
    /// Cost: making the signature, unless it came with the message; then a look-up per different word of the body, or per
    /// word that queries ask for if these are fewer, and those of [`WordsFound::pairs`].
    pub fn body_words(
        &self,
        store: &SectionStore,
        attribute: WordAttribute,
        message: &Message<'_>,
        body: &str,
        add: &mut impl FnMut(SymbolInfo),
    ) -> Result<(), EngineError> {
        let mut signature = message.signature(body);
        if let Some(stop_words) = signature.stop_words()
            && self.asks_for_one_of(store, attribute.id, stop_words)?
        {
            signature = message.full_signature(body);
        }
        match self.of(store, attribute.id)? {
            Some(WantedTexts { words, symbols, .. }) if words.len() < signature.terms().len() => {
                if !message.allowance().spend(words.len(), EVALUATION_NS) {
                    return Ok(());
                }
                let mut found = WordsFound::new(attribute, message.allowance());
                for (word, symbol) in words.iter().zip(symbols) {
                    let positions = signature.positions(word);
                    if !positions.is_empty() {
                        add(*symbol);
                        found.note(word, positions);
                    }
                }
                found.pairs(store, add)
            }
            _ => attribute.words(store, signature, message.allowance(), add),
        }
    }

    /// True when a query asks for one of `stop_words`. The answer is remembered for the first list, which is usually the
    /// only one. Cost for another list: a look-up per word.
    fn asks_for_one_of(
        &self,
        store: &SectionStore,
        attribute: AttributeId,
        stop_words: &Arc<StopWords>,
    ) -> Result<bool, EngineError> {
        if let Some((_, asks)) = self.stop_words.get().filter(|(list, _)| Arc::ptr_eq(list, stop_words)) {
            return Ok(*asks);
        }
        let mut asks = false;
        for word in &**stop_words {
            asks |= find(store, attribute, Scalar::Text(word))?.is_some();
        }
        _ = self.stop_words.set((Arc::clone(stop_words), asks)); // the first list stays
        Ok(asks)
    }
}

/// The attribute of the words in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordAttribute {
    /// The attribute.
    pub id: AttributeId,
    /// Whether queries name pairs of words.
    pub has_pairs: bool,
}

impl WordAttribute {
    /// Call `add` with each word of the attribute that is a term of `signature`, and with each pair of them.
    ///
    /// Cost: a look-up for each term, and those of [`WordsFound::pairs`].
    pub fn words(
        self,
        store: &SectionStore,
        signature: &Signature,
        allowance: &Allowance,
        add: &mut impl FnMut(SymbolInfo),
    ) -> Result<(), EngineError> {
        if !allowance.spend(signature.terms().len(), EVALUATION_NS) {
            return Ok(());
        }
        let mut found = WordsFound::new(self, allowance);
        for (word, positions) in signature.terms() {
            if let Some(symbol) = find(store, self.id, Scalar::Text(word))? {
                add(symbol);
                found.note(word, positions);
            }
        }
        found.pairs(store, add)
    }
}

/// The words of a text that queries ask for, as far as pairs of them are wanted and paid for.
struct WordsFound<'a> {
    attribute: WordAttribute,
    allowance: &'a Allowance,
    words: Vec<&'a str>,
    /// The positions of the words, each with the index of its word.
    places: Vec<(u32, u32)>,
}

impl<'a> WordsFound<'a> {
    fn new(attribute: WordAttribute, allowance: &'a Allowance) -> Self {
        Self { attribute, allowance, words: Vec::new(), places: Vec::new() }
    }

    fn note(&mut self, word: &'a str, positions: &[u32]) {
        if self.attribute.has_pairs && self.allowance.spend(positions.len(), WORD_PAIR_NS) {
            let index = self.words.len() as u32;
            self.words.push(word);
            self.places.extend(positions.iter().map(|position| (*position, index)));
        }
    }

    /// Call `add` with each pair of words that stand one after the other. Cost: sorting the positions, and a look-up for each
    /// two such words.
    fn pairs(mut self, store: &SectionStore, add: &mut impl FnMut(SymbolInfo)) -> Result<(), EngineError> {
        self.places.sort_unstable();
        let (mut tried, mut text) = (HashSet::new(), String::new());
        for place in self.places.windows(2).filter(|place| place[0].0 + 1 == place[1].0) {
            let pair = (place[0].1, place[1].1);
            if tried.insert(pair) {
                write_word_pair(self.words[pair.0 as usize], self.words[pair.1 as usize], &mut text);
                find(store, self.attribute.id, SymbolTerm::WordPair(&text))?.into_iter().for_each(&mut *add);
            }
        }
        Ok(())
    }
}

/// Everything that the section of needles and words lists.
fn build(store: &SectionStore) -> Result<HashMap<AttributeId, WantedTexts>, EngineError> {
    let mut lists: HashMap<AttributeId, (Vec<SymbolTerm<'_>>, Vec<SymbolInfo>)> = HashMap::new();
    let mut bytes = 0;
    for listed in store.numbers(SectionName::TextTerms)?.as_chunks::<2>().0 {
        let [attribute, position] = listed.map(u32::from_le_bytes);
        let (text, symbol) = symbol_at(store, SymbolPosition(position))?;
        let text = text.ok_or_else(|| store.damaged("a needle is no text"))?;
        bytes += text.text().len();
        if bytes > NEEDLE_BYTES_MAX {
            return Err(store.damaged("its needles have too many bytes"));
        }
        let (texts, symbols) = lists.entry(AttributeId(attribute)).or_default();
        texts.push(text);
        symbols.push(symbol);
    }
    Ok(lists.into_iter().map(|(attribute, (texts, symbols))| (attribute, WantedTexts::new(&texts, symbols))).collect())
}

impl WantedTexts {
    fn new(texts: &[SymbolTerm<'_>], symbols: Vec<SymbolInfo>) -> Self {
        let is_words = matches!(texts[0], SymbolTerm::Value(_));
        let words = texts.iter().filter(|_| is_words).map(|word| word.text().into()).collect();
        let needles = (!is_words).then(|| Needles::new(texts.iter().map(|needle| needle.needle())));
        Self { needles, words, symbols }
    }

    fn bytes(&self) -> usize {
        let words: usize = self.words.iter().map(|word| size_of_val(word) + word.len()).sum();
        self.needles.as_ref().map_or(0, Needles::bytes) + words + size_of_val(&*self.symbols)
    }
}

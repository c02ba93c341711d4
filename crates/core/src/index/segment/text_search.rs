//! Searches texts for what queries ask of them: all needles in one pass, and each word by a look-up.
//!
//! A needle or word that stands in a text is a symbol like any value, of an attribute of its own, of which a message may
//! have several. Automata are not part of a snapshot: they are built for the first text.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use crate::allowance::EVALUATION_NS;
use crate::error::EngineError;
use crate::index::ids::{AttributeId, SymbolPosition};
use crate::index::layout::sections::SectionName;
use crate::index::layout::store::SectionStore;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::layout::symbol_table::{find, symbol_at};
use crate::index::term::{Scalar, SymbolTerm};
use crate::message::Message;
use crate::text::needles::{NeedleScratch, Needles};
use crate::text::{StopWords, words};

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

    /// Call `add` with each word of `attribute` that stands in `body`, by the signature of the body.
    ///
    /// Words that a stop list keeps out of the signature are looked for in the full text, if a query asks for one.
    ///
    /// Cost: making the signature, unless it came with the message; then a look-up per different word of the body, or per
    /// word that queries ask for if these are fewer.
    pub fn body_words(
        &self,
        store: &SectionStore,
        attribute: AttributeId,
        message: &Message<'_>,
        body: &str,
        add: &mut impl FnMut(SymbolInfo),
    ) -> Result<(), EngineError> {
        let signature = message.signature(body);
        let wanted = self.of(store, attribute)?;
        let look_ups = wanted.map_or(usize::MAX, |wanted| wanted.words.len()).min(signature.terms().len());
        if !message.allowance().spend(look_ups, EVALUATION_NS) {
            return Ok(());
        }
        match wanted {
            Some(WantedTexts { words, symbols, .. }) if words.len() < signature.terms().len() => {
                let present = words.iter().zip(symbols).filter(|(word, _)| !signature.positions(word).is_empty());
                present.for_each(|(_, symbol)| add(*symbol));
            }
            _ => signature.terms().try_for_each(|(word, _)| add_word(store, attribute, word, add))?,
        }
        let Some(stop_words) = signature.stop_words() else { return Ok(()) };
        if self.asks_for_one_of(store, attribute, stop_words)? {
            let full = message.full_signature(body);
            let present = stop_words.iter().filter(|word| !full.positions(word).is_empty());
            for word in present {
                add_word(store, attribute, word, add)?;
            }
        }
        Ok(())
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

/// Call `add` with each word of `attribute` that stands in `text`. Cost: linear in the text.
pub fn words_of(
    store: &SectionStore,
    attribute: AttributeId,
    text: &str,
    add: &mut impl FnMut(SymbolInfo),
) -> Result<(), EngineError> {
    words(text).try_for_each(|(_, word)| add_word(store, attribute, &word, add))
}

fn add_word(
    store: &SectionStore,
    attribute: AttributeId,
    word: &str,
    add: &mut impl FnMut(SymbolInfo),
) -> Result<(), EngineError> {
    if let Some(symbol) = find(store, attribute, Scalar::Text(word))? {
        add(symbol);
    }
    Ok(())
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

//! Looking through texts for all that queries ask of them: needles in one pass, words one after the other.
//!
//! A needle or word that stands in a text is a symbol like any value, of an attribute of its own, of which a message
//! may have several (`symbols.rs`). Automata are not part of a snapshot: they are made when the first text comes.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use crate::error::EngineError;
use crate::message::Message;
use crate::text::needles::{NeedleScratch, Needles};
use crate::text::{StopWords, words};

use crate::index::compile::interner::{AttributeId, ENTRY_BYTES, Entry, Known, Scalar, Term, find};
use crate::index::layout::header::Section;
use crate::index::layout::store::Store;

/// Up to so many words of queries are each looked up in the signature of a body, where it has more.
pub const LISTED_WORDS_MAX: usize = 256;

/// What the queries of a segment look for in texts; made of its sections when it is first needed.
#[derive(Debug, Default)]
pub struct Atoms {
    made: OnceLock<HashMap<AttributeId, Listed>>,
    /// The stop list that was met first, and whether queries ask for one of its words.
    stop_words: OnceLock<(Arc<StopWords>, bool)>,
}

/// What is looked for in the texts of one attribute.
#[derive(Debug, Default)]
struct Listed {
    needles: Option<Needles>,
    words: Vec<Box<str>>,
    /// What the segment knows of each needle, or of each word.
    known: Vec<Known>,
}

/// What a search for needles writes down.
#[derive(Debug, Default)]
pub struct NeedleWork {
    scratch: NeedleScratch,
    found: Vec<u32>,
}

impl Atoms {
    fn of(&self, store: &Store, attribute: AttributeId) -> Result<Option<&Listed>, EngineError> {
        let made = match self.made.get() {
            Some(made) => made,
            None => {
                let made = make(store)?;
                self.made.get_or_init(|| made)
            }
        };
        Ok(made.get(&attribute))
    }

    /// Give the needles of `attribute` that stand in `text` to `add`. Cost: linear in the text, and in what is found.
    ///
    /// # Errors
    /// A damaged file.
    pub fn needles(
        &self,
        store: &Store,
        attribute: AttributeId,
        text: &str,
        work: &mut NeedleWork,
        add: &mut impl FnMut(Known),
    ) -> Result<(), EngineError> {
        let Some(Listed { needles: Some(needles), known, .. }) = self.of(store, attribute)? else { return Ok(()) };
        work.found.clear();
        needles.find_into(text, &mut work.scratch, &mut work.found);
        work.found.iter().for_each(|needle| add(known[*needle as usize]));
        Ok(())
    }

    /// Give the words of `attribute` that stand in `body` to `add`, by its signature. Cost: making it, if it did not come with
    /// the message, and then a look-up for each different word, or for each word that queries ask for if those are few.
    ///
    /// A word that a stop list keeps out of the signature is looked for in the full text, when a query asks for it.
    ///
    /// # Errors
    /// A damaged file.
    pub fn body_words(
        &self,
        store: &Store,
        attribute: AttributeId,
        message: &Message<'_>,
        body: &str,
        add: &mut impl FnMut(Known),
    ) -> Result<(), EngineError> {
        let signature = message.signature(body);
        match self.of(store, attribute)? {
            Some(Listed { words, known, .. }) if words.len() < signature.terms().len() => {
                let there = words.iter().zip(known).filter(|(word, _)| !signature.positions(word).is_empty());
                there.for_each(|(_, known)| add(*known));
            }
            _ => signature.terms().try_for_each(|(word, _)| add_word(store, attribute, word, add))?,
        }
        let Some(stop_words) = signature.stop_words() else { return Ok(()) };
        if self.asks_for_one_of(store, attribute, stop_words)? {
            let full = message.full_signature(body);
            let there = stop_words.iter().filter(|word| !full.positions(word).is_empty());
            for word in there {
                add_word(store, attribute, word, add)?;
            }
        }
        Ok(())
    }

    /// True when a query asks for one of `stop_words`. Remembered of the first list that a segment meets, which is
    /// usually the only one; for another, a look-up for each of its words.
    fn asks_for_one_of(
        &self,
        store: &Store,
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

/// Give the words of `attribute` that stand in `text` to `add`. Cost: linear in the text.
///
/// # Errors
/// A damaged file.
pub fn words_of(
    store: &Store,
    attribute: AttributeId,
    text: &str,
    add: &mut impl FnMut(Known),
) -> Result<(), EngineError> {
    words(text).try_for_each(|(_, word)| add_word(store, attribute, &word, add))
}

fn add_word(store: &Store, attribute: AttributeId, word: &str, add: &mut impl FnMut(Known)) -> Result<(), EngineError> {
    if let Some(known) = find(store, attribute, Scalar::Text(word))? {
        add(known);
    }
    Ok(())
}

/// Everything that `Section::Atoms` lists.
fn make(store: &Store) -> Result<HashMap<AttributeId, Listed>, EngineError> {
    /// No more than an interner takes.
    const NEEDLE_BYTES_MAX: usize = 64 << 20;
    let mut texts: HashMap<AttributeId, (Vec<Term<'_>>, Vec<Known>)> = HashMap::new();
    let mut bytes = 0;
    for listed in store.numbers(Section::Atoms)?.as_chunks::<2>().0 {
        let [attribute, place] = listed.map(u32::from_le_bytes);
        let (text, known) = symbol_at(store, place)?;
        let text = text.ok_or_else(|| store.damaged("a needle is no text"))?;
        bytes += text.text().len();
        if bytes > NEEDLE_BYTES_MAX {
            return Err(store.damaged("its needles have too many bytes"));
        }
        let (texts, all) = texts.entry(attribute).or_default();
        texts.push(text);
        all.push(known);
    }
    let listed = |(texts, known): (Vec<Term<'_>>, Vec<Known>)| {
        let is_words = matches!(texts[0], Term::Value(_));
        let words = texts.iter().filter(|_| is_words).map(|word| word.text().into()).collect();
        let needles = (!is_words).then(|| Needles::new(texts.iter().map(|needle| needle.needle())));
        Listed { needles, words, known }
    };
    Ok(texts.into_iter().map(|(attribute, texts)| (attribute, listed(texts))).collect())
}

/// The text of the symbol at `place` of the table, if it is one, and what is known of it.
///
/// # Errors
/// A damaged file.
pub fn symbol_at(store: &Store, place: u32) -> Result<(Option<Term<'_>>, Known), EngineError> {
    let table = store.whole(Section::Table)?.as_chunks::<ENTRY_BYTES>().0;
    let entry = table.get(place as usize).ok_or_else(|| store.damaged("a symbol is beyond the table"))?;
    let text = Entry(entry).text(|start, length| store.pool(start, length))?;
    Ok((text, Entry(entry).known()))
}

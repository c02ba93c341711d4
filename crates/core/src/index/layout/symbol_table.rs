//! The table of symbols of a segment: open addressing, linear probing, a power of two of entries.

use crate::error::EngineError;
use crate::index::hash::mix;
use crate::index::ids::{AttributeId, GroupId, SummaryId, SymbolPosition};
use crate::index::term::{Scalar, SymbolTerm};

use super::cpu::prefetch_all;
use super::sections::SectionName;
use super::store::SectionStore;
use super::symbol_entry::{ENTRY_BYTES, NewSymbol, SymbolEntry, SymbolInfo, fill_entry, set_group, set_summary};

/// The table while a segment is built.
pub struct SymbolTableBuilder {
    /// The entries.
    pub entries: Vec<u8>,
    /// Texts that are too long for an entry.
    pub long_texts: Vec<u8>,
}

impl SymbolTableBuilder {
    /// An empty table for `count` symbols: at most two thirds full, so that a look-up ends after one or two entries.
    pub fn new(count: usize) -> Self {
        let capacity = (count * 3 / 2 + 1).next_power_of_two();
        Self { entries: vec![0; capacity * ENTRY_BYTES], long_texts: Vec::new() }
    }

    /// Add a symbol, and return its position.
    pub fn insert(&mut self, symbol: NewSymbol<'_>) -> SymbolPosition {
        let capacity = self.entries.len() / ENTRY_BYTES;
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let mut position = symbol.hash as usize & (capacity - 1);
        while self.entries[position * ENTRY_BYTES + 8..][..4] != [0; 4] {
            position = (position + 1) & (capacity - 1);
        }
        let entry = &mut self.entries[position * ENTRY_BYTES..][..ENTRY_BYTES];
        fill_entry(entry, symbol, &mut self.long_texts);
        SymbolPosition::of(position)
    }

    /// File the queries of `group` under the symbol at `position`.
    pub fn set_group(&mut self, position: SymbolPosition, group: GroupId) {
        set_group(&mut self.entries[position.index() * ENTRY_BYTES..], group);
    }

    /// Give the symbol at `position` a summary of its own.
    pub fn set_summary(&mut self, position: SymbolPosition, summary: SummaryId) {
        set_summary(&mut self.entries[position.index() * ENTRY_BYTES..], summary);
    }
}

/// The information about a value of `attribute` in a segment, if some query names it.
pub fn find(
    store: &SectionStore,
    attribute: AttributeId,
    scalar: Scalar<'_>,
) -> Result<Option<SymbolInfo>, EngineError> {
    find_hashed(store, attribute, scalar, scalar.hash())
}

/// The entry for a value of `attribute` with the hash `hash`, if some query names it.
#[inline]
pub fn find_hashed(
    store: &SectionStore,
    attribute: AttributeId,
    scalar: Scalar<'_>,
    hash: u64,
) -> Result<Option<SymbolInfo>, EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ENTRY_BYTES>().0;
    let term = SymbolTerm::from(scalar);
    let hash = mix(hash, attribute.0);
    for step in 0..table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let position = (hash as usize).wrapping_add(step) & (table.len() - 1);
        let entry = SymbolEntry(&table[position]);
        if entry.is_empty() {
            return Ok(None);
        }
        if entry.is(hash, term, |start, length| store.long_text(start, length))? {
            return Ok(Some(entry.info()));
        }
    }
    Ok(None)
}

/// Prefetch what [`find_hashed`] reads first.
#[inline]
pub fn prefetch_hashed(store: &SectionStore, attribute: AttributeId, hash: u64) -> Result<(), EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ENTRY_BYTES>().0;
    #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
    let position = mix(hash, attribute.0) as usize & table.len().wrapping_sub(1);
    if let Some(entry) = table.get(position) {
        // It may lie across two lines.
        prefetch_all(&entry[..1]);
        prefetch_all(&entry[ENTRY_BYTES - 1..]);
    }
    Ok(())
}

/// The text of the symbol at `position`, if it is one, and what is known of the symbol.
pub fn symbol_at(
    store: &SectionStore,
    position: SymbolPosition,
) -> Result<(Option<SymbolTerm<'_>>, SymbolInfo), EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ENTRY_BYTES>().0;
    let entry = table.get(position.index()).ok_or_else(|| store.damaged("a symbol is beyond the table"))?;
    let text = SymbolEntry(entry).text(|start, length| store.long_text(start, length))?;
    Ok((text, SymbolEntry(entry).info()))
}

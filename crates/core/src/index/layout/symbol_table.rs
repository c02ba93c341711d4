//! The table of symbols of a segment: open addressing, linear probing, a power of two of rows.

use crate::error::EngineError;
use crate::index::hash::mix;
use crate::index::ids::{AttributeId, GroupId, SummaryId, SymbolPosition};
use crate::index::term::SymbolTerm;

use super::cpu::prefetch_all;
use super::sections::SectionName;
use super::store::SectionStore;
use super::symbol_row::{NewSymbol, ROW_BYTES, SymbolInfo, SymbolRow, fill_row, set_group, set_summary};

/// The table while a segment is built.
pub struct SymbolTableBuilder {
    /// The rows.
    pub rows: Vec<u8>,
    /// Texts that are too long for a row.
    pub long_texts: Vec<u8>,
}

impl SymbolTableBuilder {
    /// An empty table for `count` symbols: at most two thirds full, so that a look-up ends after one or two rows.
    pub fn new(count: usize) -> Self {
        let capacity = (count * 3 / 2 + 1).next_power_of_two();
        Self { rows: vec![0; capacity * ROW_BYTES], long_texts: Vec::new() }
    }

    /// Add a symbol, and return its position.
    pub fn insert(&mut self, symbol: NewSymbol<'_>) -> SymbolPosition {
        let capacity = self.rows.len() / ROW_BYTES;
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let mut position = symbol.hash as usize & (capacity - 1);
        while self.rows[position * ROW_BYTES + 8..][..4] != [0; 4] {
            position = (position + 1) & (capacity - 1);
        }
        let row = &mut self.rows[position * ROW_BYTES..][..ROW_BYTES];
        fill_row(row, symbol, &mut self.long_texts);
        SymbolPosition::of(position)
    }

    /// File the queries of `group` under the symbol at `position`.
    pub fn set_group(&mut self, position: SymbolPosition, group: GroupId) {
        set_group(&mut self.rows[position.index() * ROW_BYTES..], group);
    }

    /// Give the symbol at `position` a summary of its own.
    pub fn set_summary(&mut self, position: SymbolPosition, summary: SummaryId) {
        set_summary(&mut self.rows[position.index() * ROW_BYTES..], summary);
    }
}

/// The information about a term of `attribute` in a segment, if some query names it.
pub fn find<'t>(
    store: &SectionStore,
    attribute: AttributeId,
    term: impl Into<SymbolTerm<'t>>,
) -> Result<Option<SymbolInfo>, EngineError> {
    let term = term.into();
    find_hashed(store, attribute, term, term.hash())
}

/// The information about a term of `attribute` with the hash `hash`, if some query names it.
#[inline(always)]
pub fn find_hashed<'t>(
    store: &SectionStore,
    attribute: AttributeId,
    term: impl Into<SymbolTerm<'t>>,
    hash: u64,
) -> Result<Option<SymbolInfo>, EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ROW_BYTES>().0;
    let term = term.into();
    let hash = mix(hash, attribute.0);
    for step in 0..table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let position = (hash as usize).wrapping_add(step) & (table.len() - 1);
        let row = SymbolRow(&table[position]);
        if row.is_empty() {
            return Ok(None);
        }
        if row.is(hash, term, |start, length| store.long_text(start, length))? {
            return Ok(Some(row.info()));
        }
    }
    Ok(None)
}

/// Prefetch what [`find_hashed`] reads first.
#[inline]
pub fn prefetch_hashed(store: &SectionStore, attribute: AttributeId, hash: u64) -> Result<(), EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ROW_BYTES>().0;
    #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
    let position = mix(hash, attribute.0) as usize & table.len().wrapping_sub(1);
    if let Some(row) = table.get(position) {
        // It may lie across two lines.
        prefetch_all(&row[..1]);
        prefetch_all(&row[ROW_BYTES - 1..]);
    }
    Ok(())
}

/// The text of the symbol at `position`, if it is one, and what is known of the symbol.
pub fn symbol_at(
    store: &SectionStore,
    position: SymbolPosition,
) -> Result<(Option<SymbolTerm<'_>>, SymbolInfo), EngineError> {
    let table = store.whole(SectionName::Symbols)?.as_chunks::<ROW_BYTES>().0;
    let row = table.get(position.index()).ok_or_else(|| store.damaged("a symbol is beyond the table"))?;
    let text = SymbolRow(row).text(|start, length| store.long_text(start, length))?;
    Ok((text, SymbolRow(row).info()))
}

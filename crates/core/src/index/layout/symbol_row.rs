//! One row of the table of symbols: how a symbol and what the segment knows of it are stored in 48 bytes.

use crate::index::ids::{GroupId, SummaryId, SymbolCode};
use crate::index::term::SymbolTerm;

/// Bytes of a row: hash (8), kind and length (4), group (4), summary (4), code (4), the value or its offset (24).
pub const ROW_BYTES: usize = 48;
const KIND: usize = 8;
const GROUP: usize = 12;
const SUMMARY: usize = 16;
const CODE: usize = 20;
const VALUE: usize = 24;
/// Longer values are stored in the section `LongTexts`.
const INLINE_MAX: usize = 24;
/// The length takes the bits below this, the kind those above.
const KIND_SHIFT: u32 = 28;

/// The information about a symbol in a segment.
#[derive(Clone, Copy, Debug)]
pub struct SymbolInfo {
    /// Its number among the symbols of its attribute.
    pub code: SymbolCode,
    /// The group of queries filed under it, or [`GroupId::NONE`].
    pub group: GroupId,
    /// Its summary, or [`SummaryId::NONE`].
    pub summary: SummaryId,
}

/// A symbol as it goes into a row.
#[derive(Clone, Copy)]
pub struct NewSymbol<'a> {
    /// The hash of the term and the attribute.
    pub hash: u64,
    /// The kind of the term.
    pub kind: u8,
    /// The code of the symbol.
    pub code: SymbolCode,
    /// The bytes of the term.
    pub bytes: &'a [u8],
}

/// One row of a table that may be damaged.
#[derive(Clone, Copy)]
pub struct SymbolRow<'a>(pub &'a [u8; ROW_BYTES]);

impl<'a> SymbolRow<'a> {
    fn number(self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn word(self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }

    /// True when the row holds no symbol.
    pub fn is_empty(self) -> bool {
        self.number(KIND) == 0
    }

    /// True when this is the row of `term`; `long_text` gives long values by offset and length.
    ///
    /// # Errors
    /// Those of `long_text`.
    #[inline]
    pub fn is<E>(
        self,
        hash: u64,
        term: SymbolTerm<'_>,
        long_text: impl FnOnce(u64, usize) -> Result<&'a [u8], E>,
    ) -> Result<bool, E> {
        if self.word(0) != hash {
            return Ok(false);
        }
        let (kind, length) = self.kind_and_length();
        let is_like = |other: &[u8]| kind == term.kind() && length == other.len();
        let value = self.value(long_text)?;
        Ok(term.with_bytes(|other| is_like(other) && value == other))
    }

    #[inline]
    fn kind_and_length(self) -> (u8, usize) {
        let described = self.number(KIND);
        ((described >> KIND_SHIFT) as u8, (described & ((1 << KIND_SHIFT) - 1)) as usize)
    }

    #[inline]
    fn value<E>(self, long_text: impl FnOnce(u64, usize) -> Result<&'a [u8], E>) -> Result<&'a [u8], E> {
        match self.kind_and_length().1 {
            length if length <= INLINE_MAX => Ok(&self.0[VALUE..][..length]),
            length => long_text(self.word(VALUE), length),
        }
    }

    /// The text that this is the row of; None when it holds another value, or none.
    ///
    /// # Errors
    /// Those of `long_text`.
    pub fn text<E>(
        self,
        long_text: impl FnOnce(u64, usize) -> Result<&'a [u8], E>,
    ) -> Result<Option<SymbolTerm<'a>>, E> {
        let text = std::str::from_utf8(self.value(long_text)?).ok();
        Ok(text.and_then(|text| SymbolTerm::of_text(self.kind_and_length().0, text)))
    }

    /// Code, group and summary of the symbol.
    #[inline]
    pub fn info(self) -> SymbolInfo {
        SymbolInfo {
            code: SymbolCode(self.number(CODE)),
            group: GroupId(self.number(GROUP)),
            summary: SummaryId(self.number(SUMMARY)),
        }
    }
}

/// Write `symbol` into the empty `row`, and its value behind `long_texts` if it is too long.
pub fn fill_row(row: &mut [u8], symbol: NewSymbol<'_>, long_texts: &mut Vec<u8>) {
    let NewSymbol { hash, kind, code, bytes } = symbol;
    row[..8].copy_from_slice(&hash.to_le_bytes());
    row[KIND..][..4].copy_from_slice(&(u32::from(kind) << KIND_SHIFT | bytes.len() as u32).to_le_bytes());
    set_group(row, GroupId::NONE);
    set_summary(row, SummaryId::NONE);
    row[CODE..][..4].copy_from_slice(&code.0.to_le_bytes());
    if bytes.len() <= INLINE_MAX {
        row[VALUE..][..bytes.len()].copy_from_slice(bytes);
    } else {
        row[VALUE..][..8].copy_from_slice(&(long_texts.len() as u64).to_le_bytes());
        long_texts.extend_from_slice(bytes);
    }
}

/// Write the group of queries that are filed under the symbol of `row`.
pub fn set_group(row: &mut [u8], group: GroupId) {
    row[GROUP..][..4].copy_from_slice(&group.0.to_le_bytes());
}

/// Write the summary of the symbol of `row`.
pub fn set_summary(row: &mut [u8], summary: SummaryId) {
    row[SUMMARY..][..4].copy_from_slice(&summary.0.to_le_bytes());
}

//! The masks of one attribute as they lie in memory, and what they say of a message's value.

use crate::index::ids::{AttributeId, SymbolCode};
use crate::index::layout::bytes::{NumberBytes, WordBytes, halves, word};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::value_class::ValueClass;

use super::masks::{CLASSES, LISTED, LISTS, ListMasks, OPEN};
use super::message_codes::{AttributeCode, ListKind, MessageCodes};

/// The masks of one attribute. Only their head has been read: masks lie far apart, and usually one word is needed.
pub struct MasksView<'a> {
    words: &'a [WordBytes],
    attribute: AttributeId,
    flags: u64,
    count: usize,
    /// The offset of the mask of `other`.
    start: usize,
}

impl<'a> MasksView<'a> {
    /// The masks whose head is at `at`.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes], at: usize) -> Option<Self> {
        let ((attribute, start), (count, flags)) = (halves(word(words, at)?), halves(word(words, at + 1)?));
        let (attribute, flags) = (AttributeId(attribute), u64::from(flags));
        Some(Self { words, attribute, flags, count: count as usize, start: start as usize })
    }

    /// The queries that the message does not rule out. A list rules out each by the rule of its test; those that it does not
    /// decide are added to `undecided`.
    #[inline(always)]
    pub fn mask(&self, codes: &MessageCodes, undecided: &mut u64) -> Option<u64> {
        if let Some(code) = codes.symbol(self.attribute)? {
            return self.of(code);
        }
        match codes.get(self.attribute)? {
            AttributeCode::Class(ValueClass::Other) | AttributeCode::Symbol => self.other(),
            AttributeCode::Class(class) => self.of_class(class),
            AttributeCode::Several(symbols) => Some(self.of_several(symbols)?.0 | self.other()?),
            AttributeCode::List(symbols, kind) => self.of_list(symbols, kind, undecided),
        }
    }

    #[inline(always)]
    fn other(&self) -> Option<u64> {
        word(self.words, self.start)
    }

    #[inline(always)]
    fn free(&self) -> Option<u64> {
        word(self.words, self.start.checked_sub(usize::from(self.flags & OPEN != 0))?)
    }

    /// The queries that a list does not rule out.
    fn of_list(&self, symbols: &[(AttributeId, SymbolInfo)], kind: ListKind, undecided: &mut u64) -> Option<u64> {
        let ListMasks { undecided: unclear, every, of_plain } = self.lists()?;
        let (mut some, mut all) = self.of_several(symbols)?;
        if kind != ListKind::Named {
            some |= self.other()?;
            all &= self.other()?;
        }
        if kind == ListKind::Mixed {
            *undecided |= of_plain;
            return Some(some | of_plain);
        }
        *undecided |= unclear;
        Some(some & !every | all & every | unclear)
    }

    /// How the tests decide lists.
    fn lists(&self) -> Option<ListMasks> {
        if self.flags & LISTS == 0 {
            return Some(ListMasks::default());
        }
        let before = 3 + usize::from(self.flags & OPEN != 0) + if self.flags & CLASSES == 0 { 0 } else { 3 };
        let mask = |index| word(self.words, self.start.checked_sub(before)? + index);
        Some(ListMasks { undecided: mask(0)?, every: mask(1)?, of_plain: mask(2)? })
    }

    /// The mask of a class apart from `Other`.
    fn of_class(&self, class: ValueClass) -> Option<u64> {
        if self.flags & CLASSES == 0 {
            return self.free();
        }
        let before = 3 + usize::from(self.flags & OPEN != 0);
        word(self.words, self.start.checked_sub(before)? + class as usize)
    }

    /// Codes where they are listed, and masks.
    #[inline(always)]
    fn values(&self) -> Option<(&'a [NumberBytes], &'a [WordBytes])> {
        let mut at = self.start + 1;
        let mut codes: &[NumberBytes] = &[];
        if self.flags & LISTED != 0 {
            let words = self.words.get(at..at + self.count.div_ceil(2))?;
            codes = words.as_flattened().as_chunks().0.get(..self.count)?;
            at += words.len();
        }
        Some((codes, self.words.get(at..at + self.count)?))
    }

    /// The queries that any of several symbols admits, and those that each does. Cost: linear in the message's symbols or in
    /// the masks, whichever are fewer, times the logarithm of the others.
    fn of_several(&self, symbols: &[(AttributeId, SymbolInfo)]) -> Option<(u64, u64)> {
        let (codes, masks) = self.values()?;
        let mine = &symbols[symbols.partition_point(|(attribute, _)| *attribute < self.attribute)..];
        let mine = &mine[..mine.partition_point(|(attribute, _)| *attribute == self.attribute)];
        let (mut any, mut all) = (0, u64::MAX);
        let mut add = |mask: u64| {
            any |= mask;
            all &= mask;
        };
        if self.flags & LISTED == 0 {
            let with_mask = &mine[..mine.partition_point(|(_, symbol)| symbol.code.index() < masks.len())];
            for (_, symbol) in with_mask {
                add(u64::from_le_bytes(*masks.get(symbol.code.index())?));
            }
            if with_mask.len() < mine.len() {
                add(self.other()?);
            }
        } else if mine.len() <= codes.len() {
            for (_, symbol) in mine {
                add(self.of(symbol.code)?);
            }
        } else {
            // More symbols than masks, each once: some have none.
            add(self.other()?);
            for (code, mask) in codes.iter().zip(masks) {
                let code = SymbolCode::from_le_bytes(*code);
                if mine.binary_search_by_key(&code, |(_, symbol)| symbol.code).is_ok() {
                    add(u64::from_le_bytes(*mask));
                }
            }
        }
        Some((any, all))
    }

    /// The queries that the value with this code admits; those of `other` when it has no mask of its own.
    #[inline(always)]
    fn of(&self, code: SymbolCode) -> Option<u64> {
        if self.flags & LISTED == 0 {
            let code = code.index();
            return word(self.words, self.start + if code < self.count { 1 + code } else { 0 });
        }
        let (codes, masks) = self.values()?;
        match codes.binary_search_by_key(&code, |other| SymbolCode::from_le_bytes(*other)) {
            Ok(index) => Some(u64::from_le_bytes(masks[index])),
            Err(_) => self.other(),
        }
    }
}

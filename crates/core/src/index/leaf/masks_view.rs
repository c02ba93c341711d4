//! The masks of one attribute as they lie in memory, and what they say of a message's value.

use crate::index::ids::{AttributeId, SymbolCode};
use crate::index::layout::bytes::{NumberBytes, WordBytes, halves, word};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::value_class::ValueClass;

use super::masks::{CLASSES, LISTED, OPEN, SINGLE};
use super::message_codes::{AttributeCode, MessageCodes};

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

    /// The queries that the message does not rule out. A list rules out those that none of its elements admits; those that no
    /// element decides are added to `undecided`.
    #[inline(always)]
    pub fn mask(&self, codes: &MessageCodes, undecided: &mut u64) -> Option<u64> {
        if let Some(code) = codes.symbol(self.attribute)? {
            return self.of(code);
        }
        match codes.get(self.attribute)? {
            AttributeCode::Class(ValueClass::Other) | AttributeCode::Symbol => self.other(),
            AttributeCode::Class(class) => self.of_class(class),
            AttributeCode::Several(symbols) => self.of_several(symbols),
            AttributeCode::List(symbols) => {
                let single = self.single()?;
                *undecided |= single;
                Some(self.of_several(symbols)? | single)
            }
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

    /// The queries that no element of a list decides.
    fn single(&self) -> Option<u64> {
        if self.flags & SINGLE == 0 {
            return Some(0);
        }
        let before = 1 + usize::from(self.flags & OPEN != 0) + if self.flags & CLASSES == 0 { 0 } else { 3 };
        word(self.words, self.start.checked_sub(before)?)
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

    /// The queries that any of several symbols admits. Cost: linear in the message's symbols or in the masks, whichever are
    /// fewer, times the logarithm of the others.
    fn of_several(&self, symbols: &[(AttributeId, SymbolInfo)]) -> Option<u64> {
        let (codes, masks) = self.values()?;
        let mine = &symbols[symbols.partition_point(|(attribute, _)| *attribute < self.attribute)..];
        let mut mine = &mine[..mine.partition_point(|(attribute, _)| *attribute == self.attribute)];
        if self.flags & LISTED == 0 {
            mine = &mine[..mine.partition_point(|(_, symbol)| symbol.code.index() < masks.len())];
        }
        let mut all = self.other()?;
        if self.flags & LISTED == 0 || mine.len() <= codes.len() {
            for (_, symbol) in mine {
                all |= self.of(symbol.code)?;
            }
        } else {
            let is_mine = |code: &NumberBytes| {
                mine.binary_search_by_key(&SymbolCode::from_le_bytes(*code), |(_, symbol)| symbol.code).is_ok()
            };
            let admitting = codes.iter().zip(masks).filter(|(code, _)| is_mine(code));
            admitting.for_each(|(_, one)| all |= u64::from_le_bytes(*one));
        }
        Some(all)
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

//! A message in the codes of a segment: for each attribute a symbol, a class, or several symbols.

use crate::index::clause::NumberKind;
use crate::index::ids::{AttributeId, SummaryId, SymbolCode};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::value_class::ValueClass;

use super::number::MessageNumber;
use super::scattered::{NEAR_NUMBERS, NOT_NEAR, near};

/// The value of one attribute of a message, as a segment encodes it.
#[derive(Clone, Copy, Debug)]
pub enum AttributeCode<'a> {
    /// It has a value that no query names, or none.
    Class(ValueClass),
    /// A list: each element is a value of its own. The slice holds their symbols, as that of [`Self::Several`].
    List(&'a [(AttributeId, SymbolInfo)], ListKind),
    /// A value that queries name; [`MessageCodes::symbol`] tells its code.
    Symbol,
    /// All that a value is or is below, or that stands in a text. The slice holds the symbols of all such attributes,
    /// ordered by attribute and code.
    Several(&'a [(AttributeId, SymbolInfo)]),
}

/// What is known of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Some may be unknown, or read in several ways.
    Mixed,
    /// Each is one known value, and queries name all of them.
    Named,
    /// Each is one known value, and some have no symbol.
    Plain,
}

/// A number of an element of a list.
#[derive(Clone, Copy, Debug)]
pub struct ElementNumber {
    attribute: AttributeId,
    kind: NumberKind,
    /// The number.
    pub number: MessageNumber,
}

// A code of 32 bits is that of a symbol, or one of these.
const ABSENT: u32 = packed(ValueClass::Absent);
const NULL: u32 = packed(ValueClass::Null);
const VALUELESS: u32 = packed(ValueClass::Valueless);
/// The lowest of them, for [`MessageCodes::symbol`].
const OTHER: u32 = packed(ValueClass::Other);
const MIXED_LIST: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;
const NAMED_LIST: u32 = u32::MAX - 2;
const PLAIN_LIST: u32 = u32::MAX - 3;

/// The code of a class. That of `Other` is below those of all other classes.
const fn packed(class: ValueClass) -> u32 {
    u32::MAX - 4 - class as u32
}

/// A message in the codes of a segment. Between two segments every attribute is absent again.
#[derive(Debug, Default)]
pub struct MessageCodes {
    /// The code, and the summary of a symbol.
    codes: Vec<(u32, SummaryId)>,
    /// The number of each kind.
    numbers: Vec<[MessageNumber; NumberKind::COUNT]>,
    /// The near numbers, as many of each attribute as [`NEAR_NUMBERS`]; last that of no attribute.
    near: Vec<i32>,
    touched: Vec<AttributeId>,
    several: Vec<(AttributeId, SymbolInfo)>,
    /// Whether some attribute is a list.
    has_lists: bool,
    /// The numbers of the elements of lists; ordered when all are known.
    element_numbers: Vec<ElementNumber>,
}

impl MessageCodes {
    /// Make room for `attribute_count` attributes, and make all of them absent.
    pub fn begin(&mut self, attribute_count: usize) {
        for attribute in self.touched.drain(..) {
            self.codes[attribute.index()] = (ABSENT, SummaryId::NONE);
            self.numbers[attribute.index()] = [MessageNumber::NONE; NumberKind::COUNT];
            self.near[attribute.index() * NEAR_NUMBERS..][..NEAR_NUMBERS].fill(NOT_NEAR);
        }
        self.several.clear();
        self.element_numbers.clear();
        self.has_lists = false;
        if self.codes.len() < attribute_count {
            self.codes.resize(attribute_count, (ABSENT, SummaryId::NONE));
            self.numbers.resize(attribute_count, [MessageNumber::NONE; NumberKind::COUNT]);
            self.near.resize(attribute_count * NEAR_NUMBERS + 1, NOT_NEAR);
        }
    }

    fn put(&mut self, attribute: AttributeId, code: u32, summary: SummaryId) {
        self.codes[attribute.index()] = (code, summary);
        self.touched.push(attribute);
    }

    /// Give the attribute a value without a symbol.
    pub fn set_class(&mut self, attribute: AttributeId, class: ValueClass) {
        self.put(attribute, packed(class), SummaryId::NONE);
    }

    /// Make the attribute a list.
    pub fn set_list(&mut self, attribute: AttributeId, kind: ListKind) {
        self.has_lists = true;
        let code = match kind {
            ListKind::Mixed => MIXED_LIST,
            ListKind::Named => NAMED_LIST,
            ListKind::Plain => PLAIN_LIST,
        };
        self.put(attribute, code, SummaryId::NONE);
    }

    /// Give the attribute a value that queries name.
    pub fn set_symbol(&mut self, attribute: AttributeId, symbol: SymbolInfo) {
        self.put(attribute, symbol.code.0, symbol.summary);
    }

    /// Give the attribute a number of a kind.
    pub fn set_number(&mut self, attribute: AttributeId, kind: NumberKind, number: f64) {
        self.numbers[attribute.index()][kind as usize] = number.into();
        self.near[attribute.index() * NEAR_NUMBERS + kind as usize * 2..][..2].copy_from_slice(&near(number));
    }

    /// Add one of several symbols. Those of one attribute have to be added one after the other.
    pub fn add(&mut self, attribute: AttributeId, symbol: SymbolInfo) {
        if self.several.last().is_none_or(|(last, _)| *last != attribute) {
            self.put(attribute, SEVERAL, SummaryId::NONE);
        }
        self.several.push((attribute, symbol));
    }

    /// Add the symbol of an element of a list.
    pub fn add_element(&mut self, attribute: AttributeId, symbol: SymbolInfo) {
        self.several.push((attribute, symbol));
    }

    /// Add a number of an element of a list.
    pub fn add_element_number(&mut self, attribute: AttributeId, kind: NumberKind, number: f64) {
        if !number.is_nan() {
            self.element_numbers.push(ElementNumber { attribute, kind, number: number.into() });
        }
    }

    /// The numbers of a kind of the elements of a list, ascending.
    #[must_use]
    pub fn element_numbers(&self, attribute: AttributeId, kind: NumberKind) -> &[ElementNumber] {
        let key = (attribute, kind as usize);
        let is_before = |number: &ElementNumber| (number.attribute, number.kind as usize) < key;
        let own = &self.element_numbers[self.element_numbers.partition_point(is_before)..];
        &own[..own.partition_point(|number| (number.attribute, number.kind as usize) == key)]
    }

    /// Order what attributes have several of: symbols by attribute and code, each once, and numbers.
    pub fn sort_several(&mut self) {
        let key = |number: &ElementNumber| (number.attribute, number.kind as usize);
        let order =
            |a: &ElementNumber, b: &ElementNumber| key(a).cmp(&key(b)).then(a.number.exact.total_cmp(&b.number.exact));
        self.element_numbers.sort_unstable_by(order);
        if self.several.len() > 1 {
            let key = |(attribute, symbol): &(AttributeId, SymbolInfo)| {
                u64::from(attribute.0) << 32 | u64::from(symbol.code.0)
            };
            self.several.sort_unstable_by_key(key);
            self.several.dedup_by_key(|own| key(own));
        }
    }

    /// The symbols of an attribute that has several.
    pub fn several(&self, attribute: AttributeId) -> impl Iterator<Item = &SymbolInfo> {
        self.several.iter().filter(move |(other, _)| *other == attribute).map(|(_, symbol)| symbol)
    }

    /// The summary of the symbol that the attribute has, or [`SummaryId::NONE`].
    pub fn summary(&self, attribute: AttributeId) -> SummaryId {
        self.codes[attribute.index()].1
    }

    /// The code of `attribute`; None when the segment has no such attribute.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, attribute: AttributeId) -> Option<AttributeCode<'_>> {
        Some(match self.codes.get(attribute.index())?.0 {
            ABSENT => AttributeCode::Class(ValueClass::Absent),
            NULL => AttributeCode::Class(ValueClass::Null),
            VALUELESS => AttributeCode::Class(ValueClass::Valueless),
            OTHER => AttributeCode::Class(ValueClass::Other),
            MIXED_LIST => AttributeCode::List(&self.several, ListKind::Mixed),
            NAMED_LIST => AttributeCode::List(&self.several, ListKind::Named),
            PLAIN_LIST => AttributeCode::List(&self.several, ListKind::Plain),
            SEVERAL => AttributeCode::Several(&self.several),
            _ => AttributeCode::Symbol,
        })
    }

    /// The code of the one value of `attribute`; a code beyond all others when no query names the value.
    ///
    /// The inner option is None when the attribute is anything else, the outer one when the segment has no such attribute.
    #[inline(always)]
    #[must_use]
    pub fn symbol(&self, attribute: AttributeId) -> Option<Option<SymbolCode>> {
        self.codes.get(attribute.index()).map(|(code, _)| Some(SymbolCode(*code)).filter(|code| code.0 <= OTHER))
    }

    /// Whether some attribute is a list.
    #[inline(always)]
    #[must_use]
    pub fn has_lists(&self) -> bool {
        self.has_lists
    }

    /// The near numbers of all attributes (`scattered.rs`), and at the end one that is none.
    #[inline(always)]
    #[must_use]
    pub fn near(&self) -> &[i32] {
        &self.near
    }

    /// The attribute's number of a kind; [`MessageNumber::NONE`] when it has none, None when the segment has no such
    /// attribute.
    #[inline(always)]
    #[must_use]
    pub fn number(&self, attribute: AttributeId, kind: NumberKind) -> Option<MessageNumber> {
        self.numbers.get(attribute.index()).map(|kinds| kinds[kind as usize])
    }
}

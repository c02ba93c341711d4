//! What matching needs between messages, kept by the caller so that nothing is allocated a message.

use crate::index::compile::interner::{AttributeId, Known, NONE, SymbolId};
use crate::index::compile::shared_predicates::UnitMemo;
use crate::index::leaf::bounds::Number;
use crate::index::matching::id_set::Unordered;
use crate::index::segment::attributes::Named;
use crate::index::segment::text_search::NeedleWork;
use crate::index::topics::lookup::Topics;

/// Reused from message to message, by one thread at a time; any engine may use it.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(in crate::index) codes: Codes,
    /// Which of the message's properties a segment knows, and as what.
    pub(in crate::index) asked: Vec<(usize, Named)>,
    /// Groups in which the message's queries are.
    pub(in crate::index) groups: Vec<u32>,
    /// Summary rows of the message's values: several of an attribute are one row in `joined`.
    pub(in crate::index) rows: Vec<u32>,
    /// Rows made of several, one after the other.
    pub(in crate::index) joined: Vec<u64>,
    /// Which leaves of a group are left, a bit each.
    pub(in crate::index) left: Vec<u64>,
    /// The leaves that are left.
    pub(in crate::index) leaves: Vec<u32>,
    /// Slots that have still to be evaluated.
    pub(in crate::index) unsure: Vec<u32>,
    /// What the units of a segment were found to be.
    pub(in crate::index) units: UnitMemo,
    /// Ids that have been found.
    pub(in crate::index) ids: Unordered,
    /// Room for searching texts.
    pub(in crate::index) needles: NeedleWork,
    /// The topics that come again; None before the first that a query asks about.
    pub(in crate::index) topics: Option<Box<Topics>>,
}

impl Scratch {
    /// The message has one of several symbols of an attribute; those of one attribute come one after the other.
    pub(in crate::index) fn add(&mut self, attribute: AttributeId, known: Known) {
        self.codes.add(attribute, known);
        if known.group != NONE {
            self.groups.push(known.group);
        }
    }

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What an attribute of the message is to a segment.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// There is no such attribute.
    Absent,
    /// It is null.
    Null,
    /// It has no value.
    Valueless,
    /// A value that no query names.
    Other,
    /// A list: each element is a value of its own.
    List,
    /// A value that queries name.
    Symbol(SymbolId),
    /// Everything that a value is or is below, or that stands in a text, among that of other attributes: by attribute
    /// and code.
    Several(&'a [(AttributeId, Known)]),
}

const ABSENT: u32 = u32::MAX;
const NULL: u32 = u32::MAX - 1;
const VALUELESS: u32 = u32::MAX - 2;
const LIST: u32 = u32::MAX - 3;
const SEVERAL: u32 = u32::MAX - 4;
/// The least of them, for [`Codes::symbol`].
const OTHER: u32 = u32::MAX - 5;

/// A message in the codes of a segment. Between two segments every attribute is absent again.
#[derive(Debug, Default)]
pub struct Codes {
    /// The code, and the summary row of a symbol.
    codes: Vec<[u32; 2]>,
    numbers: Vec<[Number; 2]>,
    touched: Vec<AttributeId>,
    several: Vec<(AttributeId, Known)>,
    /// True when some attribute is a list.
    pub has_list: bool,
}

impl Codes {
    /// Make room for `attribute_count` attributes, and make all of them absent.
    pub fn begin(&mut self, attribute_count: usize) {
        for attribute in self.touched.drain(..) {
            self.codes[attribute as usize] = [ABSENT, NONE];
            self.numbers[attribute as usize] = [Number::NONE; 2];
        }
        self.several.clear();
        self.has_list = false;
        if self.codes.len() < attribute_count {
            self.codes.resize(attribute_count, [ABSENT, NONE]);
            self.numbers.resize(attribute_count, [Number::NONE; 2]);
        }
    }

    fn put(&mut self, attribute: AttributeId, code: u32, row: u32) {
        self.codes[attribute as usize] = [code, row];
        self.touched.push(attribute);
    }

    /// The attribute has something that is no symbol.
    pub fn set(&mut self, attribute: AttributeId, code: Code<'_>) {
        self.has_list |= matches!(code, Code::List);
        let code = match code {
            Code::Absent => ABSENT,
            Code::Null => NULL,
            Code::Valueless => VALUELESS,
            Code::Other => OTHER,
            Code::List => LIST,
            Code::Symbol(code) => code,
            Code::Several(_) => SEVERAL,
        };
        self.put(attribute, code, NONE);
    }

    /// The attribute has a value that queries name.
    pub fn set_symbol(&mut self, attribute: AttributeId, known: Known) {
        self.put(attribute, known.code, known.row);
    }

    /// The attribute's number, or instant.
    pub fn set_number(&mut self, attribute: AttributeId, is_time: bool, number: f64) {
        self.numbers[attribute as usize][usize::from(is_time)] = number.into();
    }

    /// Add one of several symbols; those of one attribute come one after the other.
    pub fn add(&mut self, attribute: AttributeId, known: Known) {
        if self.several.last().is_none_or(|(last, _)| *last != attribute) {
            self.put(attribute, SEVERAL, NONE);
        }
        self.several.push((attribute, known));
    }

    /// Put what attributes have several of in order.
    pub fn sort_several(&mut self) {
        if self.several.len() > 1 {
            self.several.sort_unstable_by_key(|(attribute, known)| u64::from(*attribute) << 32 | u64::from(known.code));
        }
    }

    /// The symbols of an attribute that has several.
    pub fn several(&self, attribute: AttributeId) -> impl Iterator<Item = &Known> {
        self.several.iter().filter(move |(other, _)| *other == attribute).map(|(_, known)| known)
    }

    /// The summary row of the symbol that the attribute has, or [`NONE`].
    pub fn row(&self, attribute: AttributeId) -> u32 {
        self.codes[attribute as usize][1]
    }

    /// What `attribute` is; None when the segment has no such attribute.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, attribute: AttributeId) -> Option<Code<'_>> {
        Some(match self.codes.get(attribute as usize)?[0] {
            ABSENT => Code::Absent,
            NULL => Code::Null,
            VALUELESS => Code::Valueless,
            OTHER => Code::Other,
            LIST => Code::List,
            SEVERAL => Code::Several(&self.several),
            code => Code::Symbol(code),
        })
    }

    /// The code of what `attribute` is, where that is one value; of one that no query names a code beyond all others.
    /// None within when it is something else, None when the segment has no such attribute.
    #[inline(always)]
    #[must_use]
    pub fn symbol(&self, attribute: AttributeId) -> Option<Option<SymbolId>> {
        self.codes.get(attribute as usize).map(|[code, _]| Some(*code).filter(|code| *code <= OTHER))
    }

    /// The attribute's number, or instant; [`Number::NONE`] when it has none, None when the segment has no such attribute.
    #[inline(always)]
    #[must_use]
    pub fn number(&self, attribute: AttributeId, is_time: bool) -> Option<Number> {
        self.numbers.get(attribute as usize).map(|both| both[usize::from(is_time)])
    }
}

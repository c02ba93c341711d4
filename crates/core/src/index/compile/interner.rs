//! Interning: the attributes that queries ask about, and the values that they compare with, as small integers.
//!
//! A value of an attribute that some query names is a *symbol*. A message becomes the codes of its symbols, so that
//! everything after that compares integers.

use hashbrown::{HashMap, HashTable};

use crate::error::EngineError;
use crate::message::Value;
use crate::query::Query;
use crate::query::expr::Predicate;
use crate::text::needles::Anchor;
use crate::topic::TopicDialect;

use crate::index::compile::shared_predicates::{UnitId, Units};
use crate::index::hash::{hash_bytes, mix};
use crate::index::layout::cpu::prefetch_all;
use crate::index::layout::header::Section;
use crate::index::layout::store::Store;

/// Number of an attribute within a segment.
pub type AttributeId = u32;
/// Number of a symbol while a segment is built; in a finished one, its code: its number among those of its attribute.
pub type SymbolId = u32;

/// What an attribute's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Origin {
    /// The topic of the message.
    Topic,
    /// The property of that name.
    Property,
    /// The property of that name, found without regard to case.
    AnyCase,
    /// What the value of that property is or is below, by its hierarchy as it is at the time.
    Ancestors,
    /// The patterns with wildcards that the topic matches.
    Patterns,
    /// The needles that stand in the topic,
    TopicNeedles,
    /// in the body,
    BodyNeedles,
    /// or in the property of that name.
    Needles,
    /// The words of the topic,
    TopicWords,
    /// of the body,
    BodyWords,
    /// or of the property of that name.
    Words,
    /// The needles that stand in the property of that name, found without regard to case,
    AnyCaseNeedles,
    /// and its words.
    AnyCaseWords,
}

impl Origin {
    /// By their numbers in a snapshot.
    pub const ALL: [Self; 13] = [
        Self::Topic,
        Self::Property,
        Self::AnyCase,
        Self::Ancestors,
        Self::Patterns,
        Self::TopicNeedles,
        Self::BodyNeedles,
        Self::Needles,
        Self::TopicWords,
        Self::BodyWords,
        Self::Words,
        Self::AnyCaseNeedles,
        Self::AnyCaseWords,
    ];

    /// True when a message may have several symbols of such an attribute at once. It has nothing else then.
    #[must_use]
    pub fn is_several(self) -> bool {
        !matches!(self, Self::Topic | Self::Property | Self::AnyCase)
    }

    /// True of what is found by looking through all of the body.
    #[must_use]
    pub fn is_of_body(self) -> bool {
        matches!(self, Self::BodyNeedles | Self::BodyWords)
    }
}

/// A scalar in the one form that all equal values share: 1 and 1.0, 0.0 and -0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar<'a> {
    /// A text.
    Text(&'a str),
    /// A kind and 64 bits: numbers, Booleans, timestamps.
    Bits(u8, u64),
}

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term<'a> {
    /// A value, or a word.
    Value(Scalar<'a>),
    /// A text that may stand in others.
    Needle(Anchor, &'a str),
    /// A topic pattern.
    Pattern(TopicDialect, &'a str),
}

impl<'a> From<Scalar<'a>> for Term<'a> {
    fn from(scalar: Scalar<'a>) -> Self {
        Self::Value(scalar)
    }
}

const TEXT: u8 = 1;
const BOOL: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const TIMESTAMP: u8 = 5;
/// The first of as many kinds as there are anchors,
const NEEDLE: u8 = 6;
const ANCHORS: [Anchor; 4] = [Anchor::Anywhere, Anchor::Start, Anchor::End, Anchor::Whole];
/// and of as many as there are dialects.
const PATTERN: u8 = 10;
const DIALECTS: [TopicDialect; 3] = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];

impl<'a> Scalar<'a> {
    /// The canonical form of a scalar; None of null, a field without a value, a list and a mapping, which equal nothing.
    #[must_use]
    pub fn of(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Text(text) => Self::Text(text),
            Value::Bool(truth) => Self::Bits(BOOL, u64::from(*truth)),
            Value::Int(value) => Self::Bits(INT, value.cast_unsigned()),
            Value::Float(value) => match exact_integer(*value) {
                Some(integer) => Self::Bits(INT, integer.cast_unsigned()),
                None => Self::Bits(FLOAT, value.to_bits()),
            },
            Value::Timestamp(micros) => Self::Bits(TIMESTAMP, micros.cast_unsigned()),
            Value::Null | Value::Present | Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// Spreads well, whatever attribute it is a value of.
    #[inline]
    #[must_use]
    pub fn hash(self) -> u64 {
        Term::from(self).hash()
    }

    /// The canonical form of a literal of a query; None also of NaN, which equals nothing, itself included.
    #[must_use]
    pub fn of_literal(value: &'a Value) -> Option<Self> {
        let is_nan = matches!(value, Value::Float(float) if float.is_nan());
        if is_nan { None } else { Self::of(value) }
    }
}

impl<'a> Term<'a> {
    /// Spreads well, whatever attribute it belongs to; a collision is found out by comparing.
    #[inline]
    fn hash(self) -> u64 {
        self.with_bytes(|bytes| hash_bytes(u64::from(self.kind()), bytes))
    }

    #[inline]
    fn kind(self) -> u8 {
        match self {
            Self::Value(Scalar::Text(_)) => TEXT,
            Self::Value(Scalar::Bits(kind, _)) => kind,
            Self::Needle(anchor, _) => NEEDLE + place_in(&ANCHORS, anchor),
            Self::Pattern(dialect, _) => PATTERN + place_in(&DIALECTS, dialect),
        }
    }

    #[inline]
    fn with_bytes<R>(self, work: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Value(Scalar::Bits(_, bits)) => work(&bits.to_le_bytes()),
            text => work(text.text().as_bytes()),
        }
    }

    /// What a text of `kind` is; None when it is of another kind.
    fn of_text(kind: u8, text: &'a str) -> Option<Self> {
        let place = |first: u8| usize::from(kind.wrapping_sub(first));
        match ANCHORS.get(place(NEEDLE)) {
            Some(anchor) => Some(Self::Needle(*anchor, text)),
            None if kind == TEXT => Some(Self::Value(Scalar::Text(text))),
            None => DIALECTS.get(place(PATTERN)).map(|dialect| Self::Pattern(*dialect, text)),
        }
    }

    /// The text of a text, needle or pattern; empty of anything else.
    #[must_use]
    pub fn text(self) -> &'a str {
        match self {
            Self::Value(Scalar::Text(text)) | Self::Needle(_, text) | Self::Pattern(_, text) => text,
            Self::Value(Scalar::Bits(..)) => "",
        }
    }

    /// The needle that this is; a text is one that stands anywhere.
    #[must_use]
    pub fn needle(self) -> (&'a str, Anchor) {
        (self.text(), if let Self::Needle(anchor, _) = self { anchor } else { Anchor::Anywhere })
    }

    /// The least part of the messages, guessed, that have it where messages have several: what is longer is rarer. Rarer
    /// than a Boolean, whatever it is, and commoner than the rare ones of many values.
    ///
    /// A whole body has to be looked through for anything in it: that pays only where nothing else tells much.
    fn least_share(self, origin: Origin) -> f64 {
        const RAREST: f64 = 1.0 / 512.0;
        let length = self.with_bytes(<[u8]>::len) as f64;
        match self {
            _ if !origin.is_several() || origin == Origin::Ancestors => 0.0,
            _ if origin.is_of_body() => (1.0 + 1.0 / length.max(1.0)) / 8.0,
            Self::Pattern(_, text) => {
                let literals = text.split('.').filter(|word| !matches!(*word, "*" | "#")).count();
                0.25_f64.powi(literals.min(8) as i32).max(RAREST)
            }
            // Every needle may be in a text, of words only the whole ones.
            Self::Needle(..) => 0.25_f64.powf(length.min(8.0)).max(RAREST),
            _ => 0.5_f64.powf(2.0 + length.min(8.0)).max(RAREST),
        }
    }
}

fn place_in<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|other| *other == one).unwrap_or_default() as u8
}

/// The 64-bit integer that `float` equals exactly, if there is one.
fn exact_integer(float: f64) -> Option<i64> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range of i64")]
    (float.trunc() == float && (-TWO_63..TWO_63).contains(&float)).then_some(float as i64)
}

/// An attribute, and how often queries of the sample ask about it.
#[derive(Debug)]
pub struct Attribute {
    /// Where its values come from.
    pub origin: Origin,
    /// The property's name; empty for the topic.
    pub name: Box<str>,
    /// Queries of the sample that ask about it at all.
    pub sampled_queries: u32,
    /// Values that queries of the sample demand of it.
    pub sampled_demands: u32,
    /// True when a range looks at it.
    pub has_ranges: bool,
    /// How many symbols it has.
    symbols: u32,
}

struct Symbol {
    attribute: AttributeId,
    code: SymbolId,
    kind: u8,
    hash: u64,
    start: u32,
    length: u32,
    sampled: u32,
    least_share: f32,
}

/// Needles may have this many bytes in all; further ones are left to evaluation. An automaton takes up to 17 times as
/// much.
const NEEDLE_BYTES_MAX: usize = 32 << 20;

/// Gives numbers to attributes and symbols while a segment is built, and counts them in a sample of the queries.
#[derive(Default)]
pub struct Interner {
    attributes: Vec<Attribute>,
    by_name: HashMap<(Origin, Box<str>), AttributeId>,
    symbols: Vec<Symbol>,
    by_value: HashTable<SymbolId>,
    pool: Vec<u8>,
    needle_bytes: usize,
    sampled_queries: u32,
    units: Units,
}

impl Interner {
    /// The number of an attribute, new or known.
    pub fn attribute(&mut self, origin: Origin, name: &str) -> AttributeId {
        // Looked up by a reference to a pair would need an owned name; the two-step keeps the usual case free of one.
        if let Some(known) = self.by_name.get(&Named(origin, name)) {
            return *known;
        }
        let id = AttributeId::try_from(self.attributes.len()).expect("fewer than 2^32 attributes fit in memory");
        let named = Attribute {
            origin,
            name: name.into(),
            sampled_queries: 0,
            sampled_demands: 0,
            has_ranges: false,
            symbols: 0,
        };
        self.attributes.push(named);
        self.by_name.insert((origin, name.into()), id);
        id
    }

    /// The number of a value of `attribute`, new or known.
    pub fn symbol<'t>(&mut self, attribute: AttributeId, term: impl Into<Term<'t>>) -> SymbolId {
        let term = term.into();
        let hash = mix(term.hash(), attribute);
        let Self { symbols, by_value, pool, .. } = self;
        let is_it = |id: &SymbolId| {
            let symbol = &symbols[*id as usize];
            let bytes = &pool[symbol.start as usize..][..symbol.length as usize];
            symbol.attribute == attribute && symbol.kind == term.kind() && term.with_bytes(|other| bytes == other)
        };
        if let Some(known) = by_value.find(hash, is_it) {
            return *known;
        }
        let id = SymbolId::try_from(symbols.len()).expect("fewer than 2^32 symbols fit in memory");
        let start = u32::try_from(pool.len()).expect("values of fewer than 4 GiB fit in a segment");
        term.with_bytes(|bytes| pool.extend_from_slice(bytes));
        let length = u32::try_from(pool.len()).expect("values of fewer than 4 GiB fit in a segment") - start;
        let Attribute { origin, symbols: count, .. } = &mut self.attributes[attribute as usize];
        let (code, least_share) = (*count, term.least_share(*origin) as f32);
        *count += 1;
        symbols.push(Symbol { attribute, code, kind: term.kind(), hash, start, length, sampled: 0, least_share });
        by_value.insert_unique(hash, id, |id| symbols[*id as usize].hash);
        if matches!(term, Term::Needle(..)) {
            self.needle_bytes += length as usize;
        }
        id
    }

    /// False when there are as many needles as may be.
    #[must_use]
    pub fn has_room_for_needles(&self) -> bool {
        self.needle_bytes < NEEDLE_BYTES_MAX
    }

    /// Every symbol of the attributes of which a message may have several, but for hierarchies: by its number.
    pub fn atoms(&self) -> impl Iterator<Item = (SymbolId, Origin, Term<'_>)> {
        (0..).zip(&self.symbols).filter_map(|(id, symbol)| {
            let origin = self.attributes[symbol.attribute as usize].origin;
            let bytes = &self.pool[symbol.start as usize..][..symbol.length as usize];
            let is_atom = origin.is_several() && origin != Origin::Ancestors;
            let text = std::str::from_utf8(bytes).ok().filter(|_| is_atom)?;
            Some((id, origin, Term::of_text(symbol.kind, text)?))
        })
    }

    /// The attribute called `id`.
    pub fn attribute_mut(&mut self, id: AttributeId) -> &mut Attribute {
        &mut self.attributes[id as usize]
    }

    /// Every attribute, by number.
    #[must_use]
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Whose value a symbol is.
    #[must_use]
    pub fn attribute_of(&self, symbol: SymbolId) -> AttributeId {
        self.symbols[symbol as usize].attribute
    }

    /// Count a query of the sample that asks about `attributes`, and demands `symbols`.
    pub fn sample(
        &mut self,
        attributes: impl IntoIterator<Item = AttributeId>,
        symbols: impl IntoIterator<Item = SymbolId>,
    ) {
        self.sampled_queries += 1;
        attributes.into_iter().for_each(|id| self.attributes[id as usize].sampled_queries += 1);
        for symbol in symbols {
            let symbol = &mut self.symbols[symbol as usize];
            symbol.sampled += 1;
            self.attributes[symbol.attribute as usize].sampled_demands += 1;
        }
    }

    /// The part of the messages that have the attribute at all, guessed from how many queries ask about it.
    #[must_use]
    pub fn presence_share(&self, attribute: AttributeId) -> f64 {
        let asking = self.attributes[attribute as usize].sampled_queries;
        (f64::from(asking) + 1.0) / (f64::from(self.sampled_queries) + 2.0)
    }

    /// The part of the messages that have `symbol`, guessed from what queries ask for: its share of the demands on
    /// its attribute, drawn towards a prior while they are few (one in two of a Boolean, one in 64 of anything else);
    /// of what a message may have several of, no less than its length lets expect.
    #[must_use]
    pub fn share(&self, symbol: SymbolId) -> f64 {
        let symbol = &self.symbols[symbol as usize];
        let prior = if symbol.kind == BOOL { 2.0 } else { 64.0 };
        let demands = self.attributes[symbol.attribute as usize].sampled_demands;
        let share = (f64::from(symbol.sampled) + 1.0) / (f64::from(demands) + prior);
        share.max(f64::from(symbol.least_share))
    }

    /// The number of a predicate, or of its negation, that is no clause.
    pub fn unit(&mut self, predicate: &Predicate, is_negated: bool) -> UnitId {
        self.units.unit(predicate, is_negated)
    }

    /// Every unit.
    #[must_use]
    pub fn units(&self) -> &[Query] {
        self.units.all()
    }

    /// The codes of all symbols. Those of an attribute follow one another, the first met first: of many values those that
    /// are named often have low ones.
    #[must_use]
    pub fn codes(&self) -> Vec<SymbolId> {
        self.symbols.iter().map(|symbol| symbol.code).collect()
    }

    /// The symbols of each attribute, by code.
    #[must_use]
    pub fn symbols_by_code(&self) -> Vec<Vec<SymbolId>> {
        let mut all = vec![Vec::new(); self.attributes.len()];
        (0..).zip(&self.symbols).for_each(|(id, symbol)| all[symbol.attribute as usize].push(id));
        all
    }

    /// Lay the symbols out as a table, and tell the place of each.
    #[must_use]
    pub fn lay_out(&self) -> (TableBuilder, Vec<u32>) {
        // At most two thirds full, so that a look-up ends after one or two entries.
        let capacity = (self.symbols.len() * 3 / 2 + 1).next_power_of_two();
        let mut table = TableBuilder { entries: vec![0; capacity * ENTRY_BYTES], pool: Vec::new() };
        let places = self.symbols.iter().map(|symbol| table.insert(symbol, &self.pool)).collect();
        (table, places)
    }
}

/// A borrowed key of `Interner::by_name`.
struct Named<'a>(Origin, &'a str);

impl std::hash::Hash for Named<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.0, self.1).hash(state);
    }
}

impl hashbrown::Equivalent<(Origin, Box<str>)> for Named<'_> {
    fn equivalent(&self, key: &(Origin, Box<str>)) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

/// Nothing: no group, no row.
pub const NONE: u32 = u32::MAX;
/// Bytes of an entry: hash (8), kind and length (4), group (4), row (4), code (4), the value or its place (24).
pub const ENTRY_BYTES: usize = 48;
const INLINE: usize = 24;
const KIND_SHIFT: u32 = 28;
const VALUE: usize = 24;

/// The table of symbols of a segment: open addressing, linear probing, a power of two of entries.
pub struct TableBuilder {
    /// The entries.
    pub entries: Vec<u8>,
    /// Values too long for an entry.
    pub pool: Vec<u8>,
}

impl TableBuilder {
    fn insert(&mut self, symbol: &Symbol, pool: &[u8]) -> u32 {
        let capacity = self.entries.len() / ENTRY_BYTES;
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let mut place = symbol.hash as usize & (capacity - 1);
        while self.entries[place * ENTRY_BYTES + 8..][..4] != [0; 4] {
            place = (place + 1) & (capacity - 1);
        }
        let bytes = &pool[symbol.start as usize..][..symbol.length as usize];
        let entry = &mut self.entries[place * ENTRY_BYTES..][..ENTRY_BYTES];
        entry[..8].copy_from_slice(&symbol.hash.to_le_bytes());
        entry[8..12].copy_from_slice(&(u32::from(symbol.kind) << KIND_SHIFT | symbol.length).to_le_bytes());
        entry[12..16].copy_from_slice(&NONE.to_le_bytes());
        entry[16..20].copy_from_slice(&NONE.to_le_bytes());
        entry[20..24].copy_from_slice(&symbol.code.to_le_bytes());
        if bytes.len() <= INLINE {
            entry[VALUE..][..bytes.len()].copy_from_slice(bytes);
        } else {
            entry[VALUE..][..8].copy_from_slice(&(self.pool.len() as u64).to_le_bytes());
            self.pool.extend_from_slice(bytes);
        }
        u32::try_from(place).expect("fewer than 2^32 symbols fit in memory")
    }

    /// File the queries of `group` under the symbol at `place`.
    pub fn set_group(&mut self, place: u32, group: u32) {
        self.entries[place as usize * ENTRY_BYTES + 12..][..4].copy_from_slice(&group.to_le_bytes());
    }

    /// Give the symbol at `place` a summary row of its own.
    pub fn set_row(&mut self, place: u32, row: u32) {
        self.entries[place as usize * ENTRY_BYTES + 16..][..4].copy_from_slice(&row.to_le_bytes());
    }
}

/// What a segment knows of a symbol.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its number among the symbols of its attribute.
    pub code: SymbolId,
    /// The group of queries filed under it, or [`NONE`].
    pub group: u32,
    /// Its summary row, or [`NONE`].
    pub row: u32,
}

/// One entry of a table that may be damaged.
#[derive(Clone, Copy)]
pub struct Entry<'a>(pub &'a [u8; ENTRY_BYTES]);

impl<'a> Entry<'a> {
    fn number(self, place: usize) -> u32 {
        u32::from_le_bytes([self.0[place], self.0[place + 1], self.0[place + 2], self.0[place + 3]])
    }

    fn word(self, place: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[place..place + 8]);
        u64::from_le_bytes(word)
    }

    /// True where no symbol is.
    pub fn is_empty(self) -> bool {
        self.number(8) == 0
    }

    /// True when this is `term`'s entry; `pool` gives long values by place and length.
    ///
    /// # Errors
    /// What `pool` gives.
    #[inline]
    pub fn is<E>(
        self,
        hash: u64,
        term: Term<'_>,
        pool: impl FnOnce(u64, usize) -> Result<&'a [u8], E>,
    ) -> Result<bool, E> {
        if self.word(0) != hash {
            return Ok(false);
        }
        let (kind, length) = self.kind_and_length();
        let is_like = |other: &[u8]| kind == term.kind() && length == other.len();
        let value = self.value(pool)?;
        Ok(term.with_bytes(|other| is_like(other) && value == other))
    }

    #[inline]
    fn kind_and_length(self) -> (u8, usize) {
        let described = self.number(8);
        ((described >> KIND_SHIFT) as u8, (described & ((1 << KIND_SHIFT) - 1)) as usize)
    }

    #[inline]
    fn value<E>(self, pool: impl FnOnce(u64, usize) -> Result<&'a [u8], E>) -> Result<&'a [u8], E> {
        match self.kind_and_length().1 {
            length if length <= INLINE => Ok(&self.0[VALUE..][..length]),
            length => pool(self.word(VALUE), length),
        }
    }

    /// The text that this is the entry of; None when there is another value, or none.
    ///
    /// # Errors
    /// What `pool` gives.
    pub fn text<E>(self, pool: impl FnOnce(u64, usize) -> Result<&'a [u8], E>) -> Result<Option<Term<'a>>, E> {
        let text = std::str::from_utf8(self.value(pool)?).ok();
        Ok(text.and_then(|text| Term::of_text(self.kind_and_length().0, text)))
    }

    /// Code, group and row of the symbol.
    #[inline]
    pub fn known(self) -> Known {
        Known { code: self.number(20), group: self.number(12), row: self.number(16) }
    }
}

/// What a segment knows of a value of `attribute`, if some query names it.
///
/// # Errors
/// A damaged file.
pub fn find(store: &Store, attribute: AttributeId, scalar: Scalar<'_>) -> Result<Option<Known>, EngineError> {
    find_hashed(store, attribute, scalar, scalar.hash())
}

/// The same of a value that has been hashed.
///
/// # Errors
/// A damaged file.
#[inline]
pub fn find_hashed(
    store: &Store,
    attribute: AttributeId,
    scalar: Scalar<'_>,
    hash: u64,
) -> Result<Option<Known>, EngineError> {
    let table = store.whole(Section::Table)?.as_chunks::<ENTRY_BYTES>().0;
    let term = Term::from(scalar);
    let hash = mix(hash, attribute);
    for step in 0..table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
        let place = (hash as usize).wrapping_add(step) & (table.len() - 1);
        let entry = Entry(&table[place]);
        if entry.is_empty() {
            return Ok(None);
        }
        if entry.is(hash, term, |start, length| store.pool(start, length))? {
            return Ok(Some(entry.known()));
        }
    }
    Ok(None)
}

/// Ask for what [`find_hashed`] looks at first.
///
/// # Errors
/// A damaged file.
#[inline]
pub fn prefetch_hashed(store: &Store, attribute: AttributeId, hash: u64) -> Result<(), EngineError> {
    let table = store.whole(Section::Table)?.as_chunks::<ENTRY_BYTES>().0;
    #[expect(clippy::cast_possible_truncation, reason = "reduced to the table's size")]
    let place = mix(hash, attribute) as usize & table.len().wrapping_sub(1);
    if let Some(entry) = table.get(place) {
        // It may lie across two lines.
        prefetch_all(&entry[..1]);
        prefetch_all(&entry[ENTRY_BYTES - 1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_equal_are_one_symbol_and_others_their_own() {
        let mut interner = Interner::default();
        let a = interner.attribute(Origin::Property, "a");
        let mut symbol = |value: Value| Scalar::of_literal(&value).map(|scalar| interner.symbol(a, scalar));
        assert_eq!(symbol(Value::Int(1)), symbol(Value::Float(1.0)));
        assert_eq!(symbol(Value::Float(0.0)), symbol(Value::Float(-0.0)));
        assert_eq!(symbol(Value::Int(i64::MIN)), symbol(Value::Float(-9_223_372_036_854_775_808.0)));
        assert_ne!(symbol(Value::Int(i64::MAX)), symbol(Value::Float(9_223_372_036_854_775_808.0)));
        assert_ne!(symbol(Value::Int(1)), symbol(Value::Bool(true)));
        assert_ne!(symbol(Value::Int(1)), symbol(Value::Timestamp(1)));
        assert_ne!(symbol(Value::Text("1".into())), symbol(Value::Int(1)));
        assert_ne!(symbol(Value::Text("a".into())), symbol(Value::Text("a\0".into())));
        assert_eq!(symbol(Value::Null), None);
        assert_eq!(symbol(Value::Float(f64::NAN)), None);
    }
}

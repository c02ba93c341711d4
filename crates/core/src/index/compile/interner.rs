//! Numbers the attributes that queries ask about and the values that they name, while a segment is built.
//!
//! A value that some query names for an attribute is a *symbol*. A message becomes the codes of its symbols, so that all
//! later steps compare integers.

use hashbrown::{HashMap, HashTable};

use crate::index::clause::NumberRange;
use crate::index::hash::mix;
use crate::index::ids::{AttributeId, SharedPredicateId, SymbolCode, SymbolId, SymbolPosition};
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::layout::symbol_row::NewSymbol;
use crate::index::layout::symbol_table::SymbolTableBuilder;
use crate::index::origin::AttributeOrigin;
use crate::index::term::SymbolTerm;
use crate::query::Query;
use crate::query::expr::Predicate;

use super::distribution::SampledBounds;
use super::shared_predicates::SharedPredicates;
use super::shares::{AttributeSample, SampleCounts, SymbolSample, least_share};

/// Maximum number of bytes of all needles together; queries with further ones are evaluated. An automaton takes up to 17
/// times as much.
const NEEDLE_BYTES_MAX: usize = 32 << 20;

/// An attribute while a segment is built.
#[derive(Debug)]
struct InternedAttribute {
    origin: AttributeOrigin,
    /// The property's name; empty for the topic.
    name: Box<str>,
    sample: AttributeSample,
    /// True when a range looks at its number.
    has_ranges: bool,
    /// True when a query compares it with a time.
    has_times: bool,
    /// True when a query names a pair of its words.
    has_word_pairs: bool,
    symbol_count: u32,
}

/// A symbol while a segment is built.
struct InternedSymbol {
    attribute: AttributeId,
    code: SymbolCode,
    kind: u8,
    hash: u64,
    start: u32,
    length: u32,
    sample: SymbolSample,
}

impl InternedSymbol {
    fn bytes<'p>(&self, pool: &'p [u8]) -> &'p [u8] {
        &pool[self.start as usize..][..self.length as usize]
    }
}

/// Numbers attributes, symbols and shared predicates, and counts them in a sample of the queries.
#[derive(Default)]
pub struct Interner {
    attributes: Vec<InternedAttribute>,
    by_name: HashMap<(AttributeOrigin, Box<str>), AttributeId>,
    symbols: Vec<InternedSymbol>,
    by_value: HashTable<SymbolId>,
    /// The bytes of all symbols.
    pool: Vec<u8>,
    needle_bytes: usize,
    sample: SampleCounts,
    bounds: SampledBounds,
    shared_predicates: SharedPredicates,
}

impl Interner {
    /// The number of an attribute, new or known.
    pub fn attribute(&mut self, origin: AttributeOrigin, name: &str) -> AttributeId {
        if let Some(known) = self.by_name.get(&BorrowedName(origin, name)) {
            return *known;
        }
        let id = AttributeId::of(self.attributes.len());
        let sample = AttributeSample::default();
        let name: Box<str> = name.into();
        self.by_name.insert((origin, name.clone()), id);
        let (has_ranges, has_times, has_word_pairs) = (false, false, false);
        let attribute =
            InternedAttribute { origin, name, sample, has_ranges, has_times, has_word_pairs, symbol_count: 0 };
        self.attributes.push(attribute);
        id
    }

    /// The number of a value of `attribute`, new or known.
    pub fn symbol<'t>(&mut self, attribute: AttributeId, term: impl Into<SymbolTerm<'t>>) -> SymbolId {
        let term = term.into();
        let hash = mix(term.hash(), attribute.0);
        let Self { symbols, by_value, pool, .. } = self;
        let is_it = |id: &SymbolId| {
            let symbol = &symbols[id.index()];
            let bytes = symbol.bytes(pool);
            symbol.attribute == attribute && symbol.kind == term.kind() && term.with_bytes(|other| bytes == other)
        };
        if let Some(known) = by_value.find(hash, is_it) {
            return *known;
        }
        let id = SymbolId::of(symbols.len());
        let start = u32::try_from(pool.len()).expect("values of fewer than 4 GiB fit in a segment");
        term.with_bytes(|bytes| pool.extend_from_slice(bytes));
        let length = u32::try_from(pool.len()).expect("values of fewer than 4 GiB fit in a segment") - start;
        let InternedAttribute { origin, has_word_pairs, symbol_count, .. } = &mut self.attributes[attribute.index()];
        *has_word_pairs |= matches!(term, SymbolTerm::WordPair(_));
        let (code, kind) = (SymbolCode(*symbol_count), term.kind());
        *symbol_count += 1;
        let sample = SymbolSample::new(SymbolTerm::is_bool(kind), least_share(term, *origin));
        symbols.push(InternedSymbol { attribute, code, kind, hash, start, length, sample });
        by_value.insert_unique(hash, id, |id| symbols[id.index()].hash);
        if matches!(term, SymbolTerm::Needle(..)) {
            self.needle_bytes += length as usize;
        }
        id
    }

    /// The number of a predicate, or of its negation, that no clause can express.
    pub fn shared_predicate(&mut self, predicate: &Predicate, is_negated: bool) -> SharedPredicateId {
        self.shared_predicates.id(predicate, is_negated)
    }

    /// Every shared predicate, by number.
    #[must_use]
    pub fn shared_predicates(&self) -> &[Query] {
        self.shared_predicates.all()
    }

    /// Take out every shared predicate, by number.
    pub fn take_shared_predicates(&mut self) -> Vec<Query> {
        std::mem::take(&mut self.shared_predicates).into_all()
    }

    /// False when there are as many needles as may be.
    #[must_use]
    pub fn has_room_for_needles(&self) -> bool {
        self.needle_bytes < NEEDLE_BYTES_MAX
    }

    /// Note that a range looks at the number of `attribute`.
    pub fn note_range(&mut self, attribute: AttributeId) {
        self.attributes[attribute.index()].has_ranges = true;
    }

    /// Note that a query compares `attribute` with a time.
    pub fn note_times(&mut self, attribute: AttributeId) {
        self.attributes[attribute.index()].has_times = true;
    }

    /// The origin of the values of `attribute`.
    #[must_use]
    pub fn origin(&self, attribute: AttributeId) -> AttributeOrigin {
        self.attributes[attribute.index()].origin
    }

    /// Every attribute, with the origin of its values.
    pub fn origins(&self) -> impl Iterator<Item = (AttributeId, AttributeOrigin)> {
        (0..).map(AttributeId).zip(self.attributes.iter().map(|attribute| attribute.origin))
    }

    /// Every attribute, with how often the sample asks about it.
    pub fn samples(&self) -> impl Iterator<Item = (AttributeId, &AttributeSample)> {
        (0..).map(AttributeId).zip(self.attributes.iter().map(|attribute| &attribute.sample))
    }

    /// Every attribute as a segment knows it that rules out nothing yet.
    #[must_use]
    pub fn attribute_infos(&self) -> Vec<AttributeInfo> {
        let info = |a: &InternedAttribute| AttributeInfo {
            has_symbols: a.symbol_count > 0,
            has_ranges: a.has_ranges,
            has_times: a.has_times,
            has_word_pairs: a.has_word_pairs,
            ..AttributeInfo::new(a.origin, a.name.clone())
        };
        self.attributes.iter().map(info).collect()
    }

    /// The attribute of a symbol.
    #[must_use]
    pub fn attribute_of(&self, symbol: SymbolId) -> AttributeId {
        self.symbols[symbol.index()].attribute
    }

    /// Every needle, word, pair of words and pattern, by number.
    pub fn text_terms(&self) -> impl Iterator<Item = (SymbolId, AttributeOrigin, SymbolTerm<'_>)> {
        (0..).map(SymbolId).zip(&self.symbols).filter_map(|(id, symbol)| {
            let origin = self.origin(symbol.attribute);
            let is_text_term = origin.is_several() && origin != AttributeOrigin::Ancestors;
            let text = std::str::from_utf8(symbol.bytes(&self.pool)).ok().filter(|_| is_text_term)?;
            Some((id, origin, SymbolTerm::of_text(symbol.kind, text)?))
        })
    }

    /// Count a query of the sample that asks about `attributes` and demands `symbols`.
    pub fn sample(
        &mut self,
        attributes: impl IntoIterator<Item = AttributeId>,
        symbols: impl IntoIterator<Item = SymbolId>,
    ) {
        self.sample.queries += 1;
        attributes.into_iter().for_each(|id| self.attributes[id.index()].sample.queries += 1);
        for symbol in symbols {
            let symbol = &mut self.symbols[symbol.index()];
            symbol.sample.demands += 1;
            self.attributes[symbol.attribute.index()].sample.demands += 1;
        }
    }

    /// Note the bounds of a range of a query of the sample.
    pub fn sample_range(&mut self, range: &NumberRange) {
        self.bounds.add(range);
    }

    /// All of the sample has been counted.
    pub fn end_sample(&mut self) {
        self.bounds.sort();
    }

    /// An estimate of the share of numbers that lie in `range`.
    #[must_use]
    pub fn range_share(&self, range: &NumberRange) -> f64 {
        self.bounds.share(range)
    }

    /// An estimate of the share of messages that have the attribute at all.
    #[must_use]
    pub fn presence_share(&self, attribute: AttributeId) -> f64 {
        self.sample.presence_share(&self.attributes[attribute.index()].sample)
    }

    /// An estimate of the share of messages that have `symbol`.
    #[must_use]
    pub fn share(&self, symbol: SymbolId) -> f64 {
        let symbol = &self.symbols[symbol.index()];
        symbol.sample.share(&self.attributes[symbol.attribute.index()].sample)
    }

    /// The codes of all symbols. Those of an attribute are consecutive in the order in which they were first named: of many
    /// values, those that are named often have low codes.
    #[must_use]
    pub fn codes(&self) -> Vec<SymbolCode> {
        self.symbols.iter().map(|symbol| symbol.code).collect()
    }

    /// The symbols of each attribute, by code.
    #[must_use]
    pub fn symbols_by_code(&self) -> Vec<Vec<SymbolId>> {
        let mut all = vec![Vec::new(); self.attributes.len()];
        (0..).map(SymbolId).zip(&self.symbols).for_each(|(id, symbol)| all[symbol.attribute.index()].push(id));
        all
    }

    /// The table of all symbols, and the position of each.
    #[must_use]
    pub fn lay_out(&self) -> (SymbolTableBuilder, Vec<SymbolPosition>) {
        let mut table = SymbolTableBuilder::new(self.symbols.len());
        let insert = |symbol: &InternedSymbol| {
            let InternedSymbol { hash, kind, code, .. } = *symbol;
            table.insert(NewSymbol { hash, kind, code, bytes: symbol.bytes(&self.pool) })
        };
        let positions = self.symbols.iter().map(insert).collect();
        (table, positions)
    }
}

/// A borrowed key of `Interner::by_name`.
struct BorrowedName<'a>(AttributeOrigin, &'a str);

impl std::hash::Hash for BorrowedName<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.0, self.1).hash(state);
    }
}

impl hashbrown::Equivalent<(AttributeOrigin, Box<str>)> for BorrowedName<'_> {
    fn equivalent(&self, key: &(AttributeOrigin, Box<str>)) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::term::Scalar;
    use crate::message::Value;

    #[test]
    fn values_that_are_equal_are_one_symbol_and_others_their_own() {
        let mut interner = Interner::default();
        let a = interner.attribute(AttributeOrigin::Property, "a");
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

//! The parts of a compiled query: tests of values, ranges of numbers, and the access keys that queries are filed under.

use smallvec::SmallVec;

use super::ids::{AttributeId, SymbolId};
use super::value_class::{ClassSet, ValueClass};

/// The symbols of a test. Most tests name one or two values.
pub type Symbols = SmallVec<[SymbolId; 4]>;

/// When a test is true of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListRule {
    /// When some element is in the set.
    Some,
    /// When every element is. An element that is unknown makes that unknown.
    Every,
    /// The elements alone do not decide: each of several predicates may be true of another one.
    Undecided,
}

/// A test that is true when the value of one attribute is in a set.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueTest {
    /// The attribute whose value is tested.
    pub attribute: AttributeId,
    /// The classes of values that are in the set.
    pub classes: ClassSet,
    /// Ascending. In the set when [`ValueClass::Other`] is not, and out of it when [`ValueClass::Other`] is.
    pub symbols: Symbols,
    /// When it is true of a list.
    pub list_rule: ListRule,
}

impl ValueTest {
    /// True for any known value of `attribute`.
    pub fn known(attribute: AttributeId) -> Self {
        let classes = ClassSet::of([ValueClass::Other]);
        Self { attribute, classes, symbols: Symbols::new(), list_rule: ListRule::Some }
    }

    /// True when this is true for any known value, and for no other.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.symbols.is_empty() && self.classes == ClassSet::of([ValueClass::Other])
    }

    /// True when `symbol` is in the set.
    #[must_use]
    pub fn admits(&self, symbol: SymbolId) -> bool {
        self.symbols.binary_search(&symbol).is_ok() != self.is_open()
    }

    /// True when values that no query names are in the set.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.classes.has(ValueClass::Other)
    }

    /// True when any value that is known is in the set, but for those of some classes.
    fn admits_any_value(&self) -> bool {
        self.is_open() && self.symbols.is_empty()
    }

    /// True when the test decides a list even if some elements are unknown, or texts that also read as times.
    #[must_use]
    pub fn decides_any_list(&self) -> bool {
        self.list_rule == ListRule::Some && (self.symbols.is_empty() || !self.is_open())
    }

    /// Intersect the set with that of `other`.
    pub fn intersect(&mut self, other: &Self) {
        let symbols = match (self.is_open(), other.is_open()) {
            (false, _) => self.symbols.iter().copied().filter(|symbol| other.admits(*symbol)).collect(),
            (true, false) => other.symbols.iter().copied().filter(|symbol| self.admits(*symbol)).collect(),
            (true, true) => merged(&self.symbols, &other.symbols),
        };
        let classes = self.classes.intersection(other.classes);
        let list_rule = match (self.list_rule, other.list_rule) {
            (ListRule::Every, ListRule::Every) => ListRule::Every,
            // What is true of any known value leaves the other test as it is.
            (ListRule::Some, rule) if self.admits_any_value() => rule,
            (rule, ListRule::Some) if other.admits_any_value() => rule,
            // Two tests may hold of two elements.
            (own, _) if self == other => own,
            _ => ListRule::Undecided,
        };
        *self = Self { attribute: self.attribute, classes, symbols, list_rule };
    }

    /// Unite the set with that of `other`.
    pub fn unite(&mut self, other: &Self) {
        let symbols = match (self.is_open(), other.is_open()) {
            (false, false) => merged(&self.symbols, &other.symbols),
            (true, _) => self.symbols.iter().copied().filter(|symbol| !other.admits(*symbol)).collect(),
            (false, true) => other.symbols.iter().copied().filter(|symbol| !self.admits(*symbol)).collect(),
        };
        let classes = self.classes.union(other.classes);
        let is_any_value = classes.has(ValueClass::Other) && symbols.is_empty();
        let list_rule = match (self.list_rule, other.list_rule) {
            // Together they may hold of any value, and still of no element that is unknown.
            (ListRule::Some, ListRule::Some) if self == other || !is_any_value => ListRule::Some,
            // One set may hold every element, or the other, or each some.
            (own, _) if self == other => own,
            _ => ListRule::Undecided,
        };
        *self = Self { attribute: self.attribute, classes, symbols, list_rule };
    }
}

fn merged(a: &[SymbolId], b: &[SymbolId]) -> Symbols {
    let mut all: Symbols = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Conditions of which one has to hold, some of them ranges or several conditions at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedChoice {
    /// Tests, at most one of each attribute.
    pub tests: Vec<ValueTest>,
    /// Ranges that hold only of known numbers.
    pub ranges: Vec<NumberRange>,
    /// Anything else.
    pub conjunctions: Vec<Conjunction>,
}

/// Conditions that all have to hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conjunction {
    /// Tests.
    pub tests: Vec<ValueTest>,
    /// Ranges.
    pub ranges: Vec<NumberRange>,
    /// Of each, one condition has to hold.
    pub choices: Vec<MixedChoice>,
}

impl MixedChoice {
    /// The number of levels of conditions within conditions.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.conjunctions.iter().map(Conjunction::depth).max().unwrap_or(0)
    }

    /// The number of all tests and ranges.
    #[must_use]
    pub fn size(&self) -> usize {
        self.tests.len() + self.ranges.len() + self.conjunctions.iter().map(Conjunction::size).sum::<usize>()
    }

    /// Call `each` with every test, at any level.
    pub fn for_each_test<'c>(&'c self, each: &mut impl FnMut(&'c ValueTest)) {
        self.tests.iter().for_each(&mut *each);
        for conjunction in &self.conjunctions {
            conjunction.tests.iter().for_each(&mut *each);
            conjunction.choices.iter().for_each(|choice| choice.for_each_test(each));
        }
    }

    /// Call `each` with every range, at any level.
    pub fn for_each_range<'c>(&'c self, each: &mut impl FnMut(&'c NumberRange)) {
        self.ranges.iter().for_each(&mut *each);
        for conjunction in &self.conjunctions {
            conjunction.ranges.iter().for_each(&mut *each);
            conjunction.choices.iter().for_each(|choice| choice.for_each_range(each));
        }
    }
}

impl Conjunction {
    /// The number of levels of conditions within conditions.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.choices.iter().map(MixedChoice::depth).max().unwrap_or(0)
    }

    /// The number of all tests and ranges.
    #[must_use]
    pub fn size(&self) -> usize {
        self.tests.len() + self.ranges.len() + self.choices.iter().map(MixedChoice::size).sum::<usize>()
    }
}

/// The kinds of numbers that ranges compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberKind {
    /// A number.
    Number = 0,
    /// Microseconds: an instant, or a text that reads as one.
    Time = 1,
    /// Microseconds between days: an instant, or a text that reads as one or as a date.
    Day = 2,
}

impl NumberKind {
    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len();
    /// All kinds, by number.
    pub const ALL: [Self; 3] = [Self::Number, Self::Time, Self::Day];
}

/// A range: true for a number or time from `low` to `high`, both included; negated, for any other value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRange {
    /// The attribute whose value is compared.
    pub attribute: AttributeId,
    /// The lowest value. Exact below 2^53; queries with bounds beyond that are verified.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// The kind of number that the bounds are.
    pub kind: NumberKind,
    /// True when known values outside of the bounds are wanted.
    pub is_negated: bool,
}

/// A key that a query can be filed under: a message has it whenever the query can be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKey {
    /// An attribute has this value, or one of its values is this.
    Symbol(SymbolId),
    /// The attribute is present.
    Presence(AttributeId),
}

/// Access keys of which a message has at least one when the query is true.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessKeys {
    /// Ascending, each once.
    pub keys: SmallVec<[AccessKey; 2]>,
    /// An estimate of the share of messages that have at least one of the keys.
    pub share: f64,
}

//! What has to hold for a query to be true, in the form that groups are built from.
//!
//! NOT is pushed to the predicates (De Morgan holds in three-valued logic), so that from then on only "is it true"
//! matters: a query is true when all its clauses are. What stands in a text, and which patterns the topic matches, are
//! values of attributes of their own (`symbols.rs`). A clause is a *row* (one attribute's value is in a set), a *slot*
//! (an OR of rows of several attributes) or a *range* (a number lies between two bounds). Whatever is none of these is a
//! *unit* when it is a predicate of its own, which is evaluated after the clauses have held, once for all queries that
//! have it; else it is *the rest*: the whole query is then evaluated. The tree is never expanded to
//! disjunctive normal form (the ITMO paper).
//!
//! Of a list clauses say too little, since each predicate may be true of another element (`docs/semantics.md`, "Lists"):
//! where a message has one, queries that ask about it are evaluated.

use smallvec::{SmallVec, smallvec};

use crate::message::Value;
use crate::query::expr::{Comparison, Expr, Operand, Pattern, Predicate, PropertyName, Reference, ValueSet};
use crate::query::like::{LikePattern, NecessaryNeedle};
use crate::text::needles::Anchor;

use crate::index::compile::builder::Slot;
use crate::index::compile::interner::{AttributeId, Interner, Origin, Scalar, SymbolId, Term};
use crate::index::compile::shared_predicates::UnitId;
use crate::index::layout::cpu::prefetch_all;

/// The attribute is absent.
pub const ABSENT: u8 = 1;
/// It is null.
pub const NULL: u8 = 2;
/// It is there without a value.
pub const VALUELESS: u8 = 4;
/// It has a value that is not among the symbols of the test.
pub const OTHER: u8 = 8;

/// A query is filed under at most this many keys.
pub const KEYS_MAX: usize = 1_024;
/// An OR with more tests than this is left to evaluation.
const SLOT_TESTS_MAX: usize = 32;
/// Of a needle that has more bytes than this a part is looked for, and the rest is left to evaluation.
const NEEDLE_BYTES_MAX: usize = 255;

/// Most tests name one or two values.
pub type Symbols = SmallVec<[SymbolId; 4]>;

/// True when the value of one attribute is in a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Whose value.
    pub attribute: AttributeId,
    /// Which of [`ABSENT`], [`NULL`], [`VALUELESS`], [`OTHER`] are in the set.
    pub classes: u8,
    /// Ascending. In the set when [`OTHER`] is not, and out of it when [`OTHER`] is.
    pub symbols: Symbols,
    /// True when any element of a list that is one of `symbols` decides, so that a key that was found needs no test.
    pub holds_for_elements: bool,
}

impl Test {
    fn known(attribute: AttributeId) -> Self {
        Self { attribute, classes: OTHER, symbols: Symbols::new(), holds_for_elements: false }
    }

    /// True when `symbol` is in the set.
    #[must_use]
    pub fn admits(&self, symbol: SymbolId) -> bool {
        self.symbols.binary_search(&symbol).is_ok() != self.is_open()
    }

    /// True when values that no query names are in the set.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.classes & OTHER != 0
    }

    fn intersect(&mut self, other: &Self) {
        let symbols = match (self.is_open(), other.is_open()) {
            (false, _) => self.symbols.iter().copied().filter(|symbol| other.admits(*symbol)).collect(),
            (true, false) => other.symbols.iter().copied().filter(|symbol| self.admits(*symbol)).collect(),
            (true, true) => merged(&self.symbols, &other.symbols),
        };
        *self = Self {
            attribute: self.attribute,
            classes: self.classes & other.classes,
            symbols,
            holds_for_elements: false,
        };
    }

    fn unite(&mut self, other: &Self) {
        let symbols = match (self.is_open(), other.is_open()) {
            (false, false) => merged(&self.symbols, &other.symbols),
            (true, _) => self.symbols.iter().copied().filter(|symbol| !other.admits(*symbol)).collect(),
            (false, true) => other.symbols.iter().copied().filter(|symbol| !self.admits(*symbol)).collect(),
        };
        let holds_for_elements = self.holds_for_elements && other.holds_for_elements;
        *self = Self { attribute: self.attribute, classes: self.classes | other.classes, symbols, holds_for_elements };
    }

    /// The part of the messages that pass, guessed.
    #[must_use]
    pub fn share(&self, interner: &Interner) -> f64 {
        let named: f64 = self.symbols.iter().map(|symbol| interner.share(*symbol)).sum();
        if self.is_open() { (1.0 - named).max(0.5) } else { named }
    }
}

fn merged(a: &[SymbolId], b: &[SymbolId]) -> Symbols {
    let mut all: Symbols = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// True of a number, or a timestamp, from `low` to `high`, both included; or, negated, of any other value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Whose value.
    pub attribute: AttributeId,
    /// The least value. Exact: bounds beyond 2^53 are left to evaluation.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
    /// The bounds are microseconds, and only a timestamp lies between them.
    pub is_time: bool,
    /// Whatever is known and not between the bounds.
    pub is_negated: bool,
}

/// What a query can be filed under: true of a message in which the query can be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An attribute has this value, or one of its values is this.
    Symbol(SymbolId),
    /// The attribute is there.
    Presence(AttributeId),
}

/// Keys of which a message has at least one when the query is true of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Ascending, each once.
    pub keys: SmallVec<[Key; 2]>,
    /// The part of the messages that have one, guessed.
    pub share: f64,
}

/// A query as clauses: true when all of them hold, and, if there is a rest, the query evaluates to true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normal {
    /// True of no message.
    pub is_never: bool,
    /// One for an attribute.
    pub rows: SmallVec<[Test; 1]>,
    /// ORs over several attributes.
    pub slots: Vec<Vec<Test>>,
    /// Numbers.
    pub ranges: SmallVec<[Range; 1]>,
    /// Predicates that are no clauses, each true or, negated, false: the cacheable units of the PNNL paper.
    pub units: SmallVec<[UnitId; 1]>,
    /// True when all that is necessary and not enough.
    pub has_rest: bool,
    /// The rarest keys; None when there are none, or too many.
    pub access: Option<Access>,
}

impl Normal {
    /// The clauses of `expr`, or of its negation. Cost: linear in the tree, but for attributes that it names again.
    #[must_use]
    pub fn of(expr: &Expr, is_negated: bool, interner: &mut Interner) -> Self {
        match expr {
            Expr::Predicate(predicate) => {
                let mut clauses = Self::of_predicate(predicate, is_negated, interner);
                if std::mem::take(&mut clauses.has_rest) {
                    clauses.units.push(interner.unit(predicate, is_negated));
                }
                clauses
            }
            Expr::Not(inner) => Self::of(inner, !is_negated, interner),
            Expr::And(children) | Expr::Or(children) => {
                let mut all = Self::default();
                if matches!(expr, Expr::And(_)) != is_negated {
                    all.rows.reserve(children.len());
                    children.iter().for_each(|child| all.and(Self::of(child, is_negated, interner), interner));
                    return all;
                }
                Self::any(children.iter().map(|child| Self::of(child, is_negated, interner)).collect(), interner)
            }
        }
    }

    /// What is true of no message.
    #[must_use]
    pub fn never() -> Self {
        Self { is_never: true, ..Self::default() }
    }

    fn rest() -> Self {
        Self { has_rest: true, ..Self::default() }
    }

    fn is_always(&self) -> bool {
        !self.is_never
            && !self.has_rest
            && self.units.is_empty()
            && self.rows.is_empty()
            && self.slots.is_empty()
            && self.ranges.is_empty()
    }

    fn and(&mut self, other: Self, interner: &Interner) {
        self.is_never |= other.is_never;
        self.has_rest |= other.has_rest;
        // Most have nothing but a row, and taking nothing over would cost more than taking that.
        if !other.units.is_empty() {
            self.units.extend(other.units);
        }
        for row in other.rows {
            match self.rows.iter_mut().find(|known| known.attribute == row.attribute) {
                None => self.rows.push(row),
                // Two needles in a text, or two values of a hierarchy, do not exclude each other.
                Some(known) if interner.attributes()[row.attribute as usize].origin.is_several() => {
                    if *known != row {
                        self.slots.push(vec![row]);
                    }
                }
                Some(known) => known.intersect(&row),
            }
        }
        if !other.slots.is_empty() {
            self.slots.extend(other.slots);
        }
        if !other.ranges.is_empty() {
            self.ranges.extend(other.ranges);
        }
        let is_rarer = |b: &Access| self.access.as_ref().is_none_or(|a| b.share < a.share);
        if let Some(access) = other.access.filter(is_rarer) {
            self.access = Some(access);
        }
    }

    fn any(parts: Vec<Self>, interner: &Interner) -> Self {
        if parts.iter().any(Self::is_always) {
            return Self::default();
        }
        let mut parts: Vec<_> = parts.into_iter().filter(|part| !part.is_never).collect();
        if parts.len() < 2 {
            return parts.pop().unwrap_or_else(Self::never);
        }
        let access = any_access(&parts);
        let is_exact = parts.iter().all(Self::is_one_choice);
        let tests: Option<Vec<Vec<Test>>> = parts.into_iter().map(|part| part.best_choice(interner)).collect();
        let mut joined = Self { has_rest: !is_exact, access, ..Self::default() };
        let mut tests = by_attribute(tests.unwrap_or_default().concat());
        match tests.len() {
            0 => {}
            1 => joined.rows.extend(tests.pop()),
            2..=SLOT_TESTS_MAX => joined.slots.push(tests),
            _ => joined.has_rest = true,
        }
        joined
    }

    /// True when this is one row or one slot and nothing else.
    fn is_one_choice(&self) -> bool {
        self.rows.len() + self.slots.len() == 1 && self.ranges.is_empty() && self.units.is_empty() && !self.has_rest
    }

    /// The clause that rules out the most; None when no clause is a row or a slot.
    fn best_choice(self, interner: &Interner) -> Option<Vec<Test>> {
        let choices = self.rows.into_iter().map(|row| vec![row]).chain(self.slots);
        let share = |tests: &Vec<Test>| tests.iter().map(|test| test.share(interner)).sum::<f64>();
        choices.map(|tests| (share(&tests), tests)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, tests)| tests)
    }

    fn of_predicate(predicate: &Predicate, is_negated: bool, interner: &mut Interner) -> Self {
        let truth = Value::Bool(!is_negated);
        match predicate {
            Predicate::Constant(value) if *value != is_negated => Self::default(),
            Predicate::Constant(_) => Self::never(),
            Predicate::Truth(reference) => {
                Self::equality(reference, std::slice::from_ref(&truth), !is_negated, interner)
            }
            Predicate::Compare(Operand::Reference(reference), op, Operand::Literal(literal)) => {
                Self::comparison(reference, *op, literal, is_negated, interner)
            }
            Predicate::Compare(Operand::Literal(literal), op, Operand::Reference(reference)) => {
                Self::comparison(reference, mirrored(*op), literal, is_negated, interner)
            }
            Predicate::Compare(left, _, right) => Self::computed(&[left, right], interner),
            Predicate::Between(Operand::Reference(reference), Operand::Literal(low), Operand::Literal(high)) => {
                Self::range(reference, Some((low, false)), Some((high, false)), is_negated, interner)
            }
            Predicate::Between(value, low, high) => match is_negated {
                // NOT BETWEEN can be true with one bound unknown.
                true => Self::computed(&[value], interner),
                false => Self::computed(&[value, low, high], interner),
            },
            Predicate::In(Operand::Reference(reference), values) => {
                Self::membership(reference, values, is_negated, interner)
            }
            Predicate::Like(Operand::Reference(reference), pattern) => {
                Self::like(reference, pattern, is_negated, interner)
            }
            Predicate::In(operand, _) | Predicate::Like(operand, _) => Self::computed(&[operand], interner),
            Predicate::IsNull(Operand::Reference(reference)) => {
                let classes = if is_negated { VALUELESS | OTHER } else { ABSENT | NULL };
                Self::presence(reference, classes, interner)
            }
            Predicate::Exists(reference) => {
                Self::presence(reference, if is_negated { ABSENT } else { NULL | VALUELESS | OTHER }, interner)
            }
            Predicate::Topic(pattern) if pattern.is_literal() => {
                let topic = Value::Text(pattern.text().into());
                let op = if is_negated { Comparison::NotEqual } else { Comparison::Equal };
                Self::comparison(&Reference::Topic, op, &topic, false, interner)
            }
            Predicate::Topic(pattern) if !is_negated => {
                let attribute = interner.attribute(Origin::Patterns, "");
                let symbol = interner.symbol(attribute, Term::Pattern(pattern.dialect(), pattern.text()));
                Self::row(attribute, Symbols::from_slice(&[symbol]), true, interner)
            }
            Predicate::Under(Reference::Property(PropertyName { text: name, any_case: false }), ancestor)
                if !is_negated =>
            {
                let attribute = interner.attribute(Origin::Ancestors, name);
                let symbol = interner.symbol(attribute, Scalar::Text(ancestor));
                Self::row(attribute, Symbols::from_slice(&[symbol]), true, interner)
            }
            Predicate::Prefix(reference, prefix) if !is_negated && !prefix.is_empty() => {
                Self::needles(reference, &[(prefix, Anchor::Start)], true, interner)
            }
            Predicate::Regex(reference, pattern) if !is_negated => Self::regex(reference, pattern, interner),
            Predicate::Contains(reference, phrase) if !is_negated => {
                Self::words(reference, phrase.words(), phrase.words().len() == 1, interner)
            }
            Predicate::Near(reference, a, b, _) if !is_negated => {
                Self::words(reference, &[a.words()[0].clone(), b.words()[0].clone()], false, interner)
            }
            Predicate::Contains(reference, _)
            | Predicate::Near(reference, ..)
            | Predicate::Prefix(reference, _)
            | Predicate::Regex(reference, _)
            | Predicate::Under(reference, _) => Self::known(reference, interner),
            Predicate::IsNull(_) | Predicate::Topic(_) | Predicate::Opaque(_) => Self::rest(),
        }
    }

    /// A row that admits `symbols` and nothing else, filed under them.
    fn row(attribute: AttributeId, mut symbols: Symbols, holds_for_elements: bool, interner: &Interner) -> Self {
        symbols.sort_unstable();
        symbols.dedup();
        if symbols.is_empty() {
            return Self::never();
        }
        let access = (symbols.len() <= KEYS_MAX).then(|| Access {
            keys: symbols.iter().copied().map(Key::Symbol).collect(),
            share: symbols.iter().map(|symbol| interner.share(*symbol)).sum(),
        });
        let test = Test { attribute, classes: 0, symbols, holds_for_elements };
        Self { rows: smallvec![test], access, ..Self::default() }
    }

    fn equality(reference: &Reference, values: &[Value], holds: bool, interner: &mut Interner) -> Self {
        let Some(attribute) = attribute_of(reference, interner) else { return Self::rest() };
        let symbols = values.iter().filter_map(Scalar::of_literal).map(|scalar| interner.symbol(attribute, scalar));
        Self::row(attribute, symbols.collect(), holds, interner)
    }

    fn inequality(reference: &Reference, values: &[Value], interner: &mut Interner) -> Self {
        let Some(attribute) = attribute_of(reference, interner) else { return Self::rest() };
        let symbols = values.iter().filter_map(Scalar::of_literal).map(|scalar| interner.symbol(attribute, scalar));
        let mut symbols: Symbols = symbols.collect();
        symbols.sort_unstable();
        symbols.dedup();
        let test = Test { symbols, ..Test::known(attribute) };
        Self { rows: smallvec![test], access: present(attribute, interner), ..Self::default() }
    }

    fn membership(reference: &Reference, values: &ValueSet, is_negated: bool, interner: &mut Interner) -> Self {
        match is_negated {
            true => Self::inequality(reference, values.values(), interner),
            false => Self::equality(reference, values.values(), true, interner),
        }
    }

    fn comparison(
        reference: &Reference,
        op: Comparison,
        literal: &Value,
        is_negated: bool,
        interner: &mut Interner,
    ) -> Self {
        let literals = std::slice::from_ref(literal);
        match (op, is_negated) {
            (Comparison::Equal, false) => Self::equality(reference, literals, true, interner),
            // Of a list, `<>` is true when some element differs; its negation, when none does.
            (Comparison::NotEqual, true) => Self::equality(reference, literals, false, interner),
            (Comparison::NotEqual, false) | (Comparison::Equal, true) => {
                Self::inequality(reference, literals, interner)
            }
            (Comparison::Less, _) => Self::range(reference, None, Some((literal, true)), is_negated, interner),
            (Comparison::LessOrEqual, _) => Self::range(reference, None, Some((literal, false)), is_negated, interner),
            (Comparison::Greater, _) => Self::range(reference, Some((literal, true)), None, is_negated, interner),
            (Comparison::GreaterOrEqual, _) => {
                Self::range(reference, Some((literal, false)), None, is_negated, interner)
            }
        }
    }

    /// Bounds come with whether they are themselves excluded.
    fn range(
        reference: &Reference,
        low: Option<(&Value, bool)>,
        high: Option<(&Value, bool)>,
        is_negated: bool,
        interner: &mut Interner,
    ) -> Self {
        let mut known = Self::known(reference, interner);
        let is_time = low.or(high).is_some_and(|(value, _)| matches!(value, Value::Timestamp(_)));
        let low =
            low.map_or(Some(f64::NEG_INFINITY), |(value, excluded)| exact(value, is_time, excluded, f64::next_up));
        let high =
            high.map_or(Some(f64::INFINITY), |(value, excluded)| exact(value, is_time, excluded, f64::next_down));
        if let (Some(row), Some(low), Some(high)) = (known.rows.first(), low, high) {
            let attribute = row.attribute;
            if interner.attributes()[attribute as usize].origin != Origin::Topic {
                interner.attribute_mut(attribute).has_ranges = true;
                known.ranges.push(Range { attribute, low, high, is_time, is_negated });
                known.has_rest = false;
            }
        }
        known
    }

    /// True, if at all, of messages in which `reference` has a value.
    fn known(reference: &Reference, interner: &mut Interner) -> Self {
        let Some(attribute) = attribute_of(reference, interner) else { return Self::rest() };
        let access = present(attribute, interner);
        Self { rows: smallvec![Test::known(attribute)], has_rest: true, access, ..Self::default() }
    }

    /// True, if at all, of messages in which everything that the operands refer to has a value.
    fn computed(operands: &[&Operand], interner: &mut Interner) -> Self {
        let mut references = Vec::new();
        operands.iter().for_each(|operand| collect_references(operand, &mut references));
        references.truncate(4);
        let mut all = Self::rest();
        references.into_iter().for_each(|reference| all.and(Self::known(reference, interner), interner));
        all
    }

    fn like(reference: &Reference, pattern: &LikePattern, is_negated: bool, interner: &mut Interner) -> Self {
        match pattern.necessary_needle() {
            Some(NecessaryNeedle { needle, anchor: Anchor::Whole, .. }) if *reference != Reference::Body => {
                Self::comparison(reference, Comparison::Equal, &Value::Text(needle.into()), is_negated, interner)
            }
            Some(NecessaryNeedle { needle, anchor, is_exact }) if !is_negated => {
                Self::needles(reference, &[(needle, anchor)], is_exact, interner)
            }
            _ => Self::known(reference, interner),
        }
    }

    fn regex(reference: &Reference, pattern: &Pattern, interner: &mut Interner) -> Self {
        let needles = pattern.necessary_needles().unwrap_or_default();
        let needles: Vec<_> = needles.iter().map(|needle| (&**needle, Anchor::Anywhere)).collect();
        Self::needles(reference, &needles, false, interner)
    }

    /// True, if at all, of texts in which one of `needles` stands; when `is_exact`, of all of them.
    fn needles(reference: &Reference, needles: &[(&str, Anchor)], is_exact: bool, interner: &mut Interner) -> Self {
        let attribute = match reference {
            _ if needles.is_empty() || !interner.has_room_for_needles() => return Self::known(reference, interner),
            Reference::Topic => interner.attribute(Origin::TopicNeedles, ""),
            Reference::Body => interner.attribute(Origin::BodyNeedles, ""),
            Reference::Property(PropertyName { text, any_case: true }) => {
                interner.attribute(Origin::AnyCaseNeedles, text)
            }
            Reference::Property(PropertyName { text, any_case: false }) => interner.attribute(Origin::Needles, text),
        };
        let symbol = |(needle, anchor): &(&str, Anchor)| {
            let (needle, anchor) = shortened(needle, *anchor);
            interner.symbol(attribute, Term::Needle(anchor, needle))
        };
        let symbols = needles.iter().map(symbol).collect();
        let is_exact = is_exact && needles.iter().all(|(needle, _)| needle.len() <= NEEDLE_BYTES_MAX);
        Self { has_rest: !is_exact, ..Self::row(attribute, symbols, true, interner) }
    }

    /// True, if at all, of texts that have all of `words`; when `is_exact`, of all of them. The rarest is looked for.
    fn words(reference: &Reference, words: &[Box<str>], is_exact: bool, interner: &mut Interner) -> Self {
        let attribute = match reference {
            Reference::Topic => interner.attribute(Origin::TopicWords, ""),
            Reference::Body => interner.attribute(Origin::BodyWords, ""),
            Reference::Property(PropertyName { text, any_case: true }) => {
                interner.attribute(Origin::AnyCaseWords, text)
            }
            Reference::Property(PropertyName { text, any_case: false }) => interner.attribute(Origin::Words, text),
        };
        let longest = words.iter().max_by_key(|word| word.len()).expect("a phrase has a word");
        let symbol = interner.symbol(attribute, Scalar::Text(longest));
        Self { has_rest: !is_exact, ..Self::row(attribute, Symbols::from_slice(&[symbol]), true, interner) }
    }

    fn presence(reference: &Reference, classes: u8, interner: &mut Interner) -> Self {
        let attribute = attribute_of(reference, interner);
        let attribute = attribute.filter(|id| interner.attributes()[*id as usize].origin != Origin::Topic);
        let Some(attribute) = attribute else { return Self::rest() };
        let access = if classes & ABSENT == 0 { present(attribute, interner) } else { None };
        Self { rows: smallvec![Test { classes, ..Test::known(attribute) }], access, ..Self::default() }
    }
}

/// Ask for the queries in `slots`, which are read next. They lie in memory as they were added, and are read in the order of
/// groups and leaves: waiting for each in turn would take as long as all that is done with them.
pub fn ask_for(normals: &[Normal], slots: &[Slot]) {
    slots.iter().for_each(|slot| prefetch_all(std::slice::from_ref(&normals[*slot as usize])));
    slots.iter().for_each(|slot| prefetch_all(&normals[*slot as usize].rows));
}

/// A part of a long needle that stands wherever it does.
fn shortened(needle: &str, anchor: Anchor) -> (&str, Anchor) {
    if needle.len() <= NEEDLE_BYTES_MAX {
        return (needle, anchor);
    }
    let is_boundary = |place: &usize| needle.is_char_boundary(*place);
    if anchor == Anchor::End {
        let start = (needle.len() - NEEDLE_BYTES_MAX..).find(is_boundary).expect("the end is one");
        return (&needle[start..], anchor);
    }
    let end = (0..=NEEDLE_BYTES_MAX).rev().find(is_boundary).expect("the start is one");
    (&needle[..end], if anchor == Anchor::Anywhere { anchor } else { Anchor::Start })
}

fn any_access(parts: &[Normal]) -> Option<Access> {
    let mut keys = SmallVec::new();
    let mut share = 0.0;
    for part in parts {
        let access = part.access.as_ref()?;
        keys.extend(access.keys.iter().copied());
        share += access.share;
    }
    keys.sort_unstable();
    keys.dedup();
    (keys.len() <= KEYS_MAX).then_some(Access { keys, share })
}

/// One test for an attribute: any of those on it.
fn by_attribute(mut tests: Vec<Test>) -> Vec<Test> {
    tests.sort_by_key(|test| test.attribute);
    tests.into_iter().fold(Vec::new(), |mut joined: Vec<Test>, test| {
        match joined.last_mut().filter(|last| last.attribute == test.attribute) {
            Some(last) => last.unite(&test),
            None => joined.push(test),
        }
        joined
    })
}

fn present(attribute: AttributeId, interner: &Interner) -> Option<Access> {
    let is_property = interner.attributes()[attribute as usize].origin == Origin::Property;
    is_property.then(|| Access { keys: smallvec![Key::Presence(attribute)], share: interner.presence_share(attribute) })
}

fn attribute_of(reference: &Reference, interner: &mut Interner) -> Option<AttributeId> {
    match reference {
        Reference::Topic => Some(interner.attribute(Origin::Topic, "")),
        Reference::Property(PropertyName { text, any_case }) => {
            Some(interner.attribute(if *any_case { Origin::AnyCase } else { Origin::Property }, text))
        }
        Reference::Body => None,
    }
}

fn collect_references<'q>(operand: &'q Operand, found: &mut Vec<&'q Reference>) {
    match operand {
        Operand::Literal(_) => {}
        Operand::Reference(reference) => found.push(reference),
        Operand::Negate(inner) => collect_references(inner, found),
        Operand::Arithmetic(left, _, right) => {
            collect_references(left, found);
            collect_references(right, found);
        }
    }
}

fn mirrored(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        Comparison::Equal | Comparison::NotEqual => op,
    }
}

/// A bound as a float that is itself included, when that says exactly the same: any value rounded to a float stays on
/// its side of a bound below 2^53.
fn exact(bound: &Value, is_time: bool, is_excluded: bool, beyond: fn(f64) -> f64) -> Option<f64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[expect(clippy::cast_precision_loss, reason = "refused below when it is not exact")]
    let bound = match bound {
        Value::Int(value) if !is_time => *value as f64,
        Value::Float(value) if !is_time => *value,
        Value::Timestamp(micros) if is_time => *micros as f64,
        _ => return None,
    };
    (bound.abs() < LIMIT).then(|| if is_excluded { beyond(bound) } else { bound })
}

//! Clauses: what has to hold for a query to be true, in the form that leaves and access keys are built from.
//!
//! NOT is pushed down to the predicates (De Morgan's laws hold in three-valued logic), so that only "is it true" matters:
//! a query is true when all its clauses are. The needles and words in a text, and the patterns that the topic matches, are
//! values of attributes of their own. A clause is one of these:
//!
//! - a *test*: the value of one attribute is in a set;
//! - a *choice*: one of several tests, of different attributes, holds;
//! - a *range*: a number lies between two bounds;
//! - a *mixed choice*: one of several conditions holds, of which some are ranges, or several clauses at once.
//!
//! Any other predicate is a *shared predicate* when the query demands it: evaluated last, at most once per message. If
//! anything else remains, the whole query is evaluated. The tree is never expanded to disjunctive normal form (the ITMO paper).
//!
//! A test holds of a list by its rule: when it holds of some element (`=`, `<>`), or of every one (their negations). A range
//! holds when some element lies in it. Where each of two predicates may be true of another element, the clause decides no list
//! (`docs/semantics.md`, "Lists"): where a message has one, queries with such a clause about it are evaluated.

use smallvec::{SmallVec, smallvec};

use crate::index::clause::{
    AccessKey, AccessKeys, Conjunction, ListRule, MixedChoice, NumberRange, Symbols, ValueTest,
};
use crate::index::ids::{AttributeId, BranchId, SharedPredicateId};
use crate::index::layout::cpu::prefetch_all;
use crate::index::leaf::query::CHOICE_DEPTH_MAX;
use crate::index::origin::AttributeOrigin;
use crate::index::value_class::ClassSet;
use crate::query::expr::Expr;

use super::interner::Interner;

/// Maximum number of keys that a query is filed under. Each key takes one of the 64 bits of a leaf, about as much as its value in the text.
const KEYS_MAX: usize = 1 << 16;
/// The maximum number of tests of a choice. An OR with more tests is evaluated.
const CHOICE_TESTS_MAX: usize = 32;
/// The maximum number of tests and ranges of a mixed choice. An OR with more is evaluated.
const MIXED_SIZE_MAX: usize = 128;

/// A query as clauses: true when all of them hold and, if it needs evaluation, the query evaluates to true.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clauses {
    /// Whether the query is true of no message.
    pub is_never: bool,
    /// Tests of single attributes.
    pub tests: SmallVec<[ValueTest; 1]>,
    /// Tests of several attributes, of which one has to hold.
    pub choices: Vec<Vec<ValueTest>>,
    /// Ranges of numbers.
    pub ranges: SmallVec<[NumberRange; 1]>,
    /// Mixed choices.
    pub mixed: Vec<MixedChoice>,
    /// Predicates that no clause can express.
    pub shared_predicates: SmallVec<[SharedPredicateId; 1]>,
    /// True when the clauses are necessary and not sufficient.
    pub needs_evaluation: bool,
    /// The rarest access keys; None when there are none, or too many.
    pub access: Option<AccessKeys>,
}

impl Clauses {
    /// The clauses of `expr`, or of its negation. Cost: linear in the tree, except for attributes that occur repeatedly.
    #[must_use]
    pub fn of(expr: &Expr, is_negated: bool, interner: &mut Interner) -> Self {
        match expr {
            Expr::Predicate(predicate) => {
                let mut clauses = Self::of_predicate(predicate, is_negated, interner);
                if std::mem::take(&mut clauses.needs_evaluation) {
                    clauses.shared_predicates.push(interner.shared_predicate(predicate, is_negated));
                }
                clauses
            }
            Expr::Not(inner) => Self::of(inner, !is_negated, interner),
            Expr::And(children) | Expr::Or(children) => {
                let mut all = Self::default();
                if matches!(expr, Expr::And(_)) != is_negated {
                    all.tests.reserve(children.len());
                    children.iter().for_each(|child| all.and(Self::of(child, is_negated, interner), interner));
                    return all;
                }
                Self::any(children.iter().map(|child| Self::of(child, is_negated, interner)).collect(), interner)
            }
        }
    }

    /// Clauses that are true of no message.
    #[must_use]
    pub fn never() -> Self {
        Self { is_never: true, ..Self::default() }
    }

    /// No clauses: the predicate has to be evaluated.
    pub fn unknown() -> Self {
        Self { needs_evaluation: true, ..Self::default() }
    }

    /// A test that admits `symbols` and nothing else, with these as access keys.
    pub fn one_of(attribute: AttributeId, mut symbols: Symbols, list_rule: ListRule, interner: &Interner) -> Self {
        symbols.sort_unstable();
        symbols.dedup();
        if symbols.is_empty() {
            return Self::never();
        }
        let access = (symbols.len() <= KEYS_MAX).then(|| AccessKeys {
            keys: symbols.iter().copied().map(AccessKey::Symbol).collect(),
            share: symbols.iter().map(|symbol| interner.share(*symbol)).sum(),
        });
        let classes = ClassSet::EMPTY;
        let test = ValueTest { attribute, classes, symbols, list_rule };
        Self { tests: smallvec![test], access, ..Self::default() }
    }

    /// True when something is evaluated after the clauses: the whole query or shared predicates.
    pub fn is_verified(&self) -> bool {
        self.needs_evaluation || !self.shared_predicates.is_empty()
    }

    /// Every test, those of choices included.
    pub fn all_tests(&self) -> Vec<&ValueTest> {
        let mut all: Vec<_> = self.tests.iter().chain(self.choices.iter().flatten()).collect();
        self.mixed.iter().for_each(|choice| choice.for_each_test(&mut |test| all.push(test)));
        all
    }

    /// Every range, those of mixed choices included.
    pub fn all_ranges(&self) -> Vec<&NumberRange> {
        let mut all: Vec<_> = self.ranges.iter().collect();
        self.mixed.iter().for_each(|choice| choice.for_each_range(&mut |range| all.push(range)));
        all
    }

    fn is_always(&self) -> bool {
        !self.is_never
            && !self.is_verified()
            && self.tests.is_empty()
            && self.choices.is_empty()
            && self.ranges.is_empty()
            && self.mixed.is_empty()
    }

    /// Add the demands of `other`.
    pub fn and(&mut self, other: Self, interner: &Interner) {
        self.is_never |= other.is_never;
        self.needs_evaluation |= other.needs_evaluation;
        // Most clauses are a single test: checking the other kinds costs less than extending them with nothing.
        if !other.shared_predicates.is_empty() {
            self.shared_predicates.extend(other.shared_predicates);
        }
        other.tests.into_iter().for_each(|test| self.and_test(test, interner));
        if !other.choices.is_empty() {
            self.choices.extend(other.choices);
        }
        if !other.ranges.is_empty() {
            self.ranges.extend(other.ranges);
        }
        if !other.mixed.is_empty() {
            self.mixed.extend(other.mixed);
        }
        let is_rarer = |b: &AccessKeys| self.access.as_ref().is_none_or(|a| b.share < a.share);
        if let Some(access) = other.access.filter(is_rarer) {
            self.access = Some(access);
        }
    }

    fn and_test(&mut self, test: ValueTest, interner: &Interner) {
        match self.tests.iter_mut().find(|known| known.attribute == test.attribute) {
            None => self.tests.push(test),
            // Two needles in a text, or two values of a hierarchy, do not exclude each other.
            Some(known) if interner.origin(test.attribute).is_several() => {
                if *known != test {
                    self.choices.push(vec![test]);
                }
            }
            Some(known) => known.intersect(&test),
        }
    }

    pub(super) fn any(parts: Vec<Self>, interner: &Interner) -> Self {
        if parts.iter().any(Self::is_always) {
            return Self::default();
        }
        let mut parts: Vec<_> = parts.into_iter().filter(|part| !part.is_never).collect();
        if parts.len() < 2 {
            return parts.pop().unwrap_or_else(Self::never);
        }
        let access = any_access(&parts);
        let is_exact = parts.iter().all(Self::is_one_choice);
        let mixed = if is_exact { None } else { mixed_choice(&parts) };
        let tests: Option<Vec<Vec<ValueTest>>> = parts.into_iter().map(|part| part.best_choice(interner)).collect();
        let is_mixed = mixed.is_some();
        let mixed: Vec<_> = mixed.into_iter().collect();
        let mut joined = Self { needs_evaluation: !is_exact && !is_mixed, access, mixed, ..Self::default() };
        let mut tests = by_attribute(tests.unwrap_or_default().concat());
        match tests.len() {
            0 => {}
            1 => joined.tests.extend(tests.pop()),
            _ if is_mixed => {} // which says more
            2..=CHOICE_TESTS_MAX => joined.choices.push(tests),
            _ => joined.needs_evaluation = true,
        }
        joined
    }

    /// True when this is one test or one choice and nothing else.
    fn is_one_choice(&self) -> bool {
        self.tests.len() + self.choices.len() == 1
            && self.ranges.is_empty()
            && self.mixed.is_empty()
            && !self.is_verified()
    }

    /// The test or choice that rules out the most, as a choice; None when there is neither.
    fn best_choice(self, interner: &Interner) -> Option<Vec<ValueTest>> {
        let choices = self.tests.into_iter().map(|test| vec![test]).chain(self.choices);
        let share = |tests: &Vec<ValueTest>| tests.iter().map(|test| interner.test_share(test)).sum::<f64>();
        choices.map(|tests| (share(&tests), tests)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, tests)| tests)
    }
}

/// One of `parts` holds; None when something has to be evaluated to know, or when that is too much for a leaf.
fn mixed_choice(parts: &[Clauses]) -> Option<MixedChoice> {
    let mut all = MixedChoice::default();
    for part in parts {
        if part.is_verified() {
            return None;
        }
        let mut part = conjunction(part);
        match (&part.tests[..], &part.ranges[..], &part.choices[..]) {
            ([_], [], []) => all.tests.append(&mut part.tests),
            ([], [range], []) if !range.is_negated => all.ranges.append(&mut part.ranges),
            ([], [], [_]) => {
                let MixedChoice { tests, ranges, conjunctions } = part.choices.remove(0);
                all.tests.extend(tests);
                all.ranges.extend(ranges);
                all.conjunctions.extend(conjunctions);
            }
            _ => all.conjunctions.push(part),
        }
    }
    all.tests = by_attribute(all.tests);
    (all.size() <= MIXED_SIZE_MAX && all.depth() <= CHOICE_DEPTH_MAX).then_some(all)
}

/// `clauses` as one condition of a mixed choice, without what its ranges say anyway.
fn conjunction(clauses: &Clauses) -> Conjunction {
    let is_said = |test: &&ValueTest| {
        let says = |range: &NumberRange| range.attribute == test.attribute && !range.is_negated;
        test.is_known() && test.list_rule == ListRule::Some && clauses.ranges.iter().any(says)
    };
    let plain = clauses.choices.iter().map(|tests| MixedChoice { tests: tests.clone(), ..MixedChoice::default() });
    Conjunction {
        tests: clauses.tests.iter().filter(|test| !is_said(test)).cloned().collect(),
        ranges: clauses.ranges.to_vec(),
        choices: plain.chain(clauses.mixed.iter().cloned()).collect(),
    }
}

/// Prefetch the clauses of `queries`, which are read next. They lie in memory as they were added, and are read in the order
/// of groups and leaves: waiting for each in turn would take as long as all work on them.
pub fn prefetch_clauses(clauses: &[Clauses], queries: &[BranchId]) {
    queries.iter().for_each(|query| prefetch_all(std::slice::from_ref(&clauses[query.index()])));
    queries.iter().for_each(|query| prefetch_all(&clauses[query.index()].tests));
}

/// The access keys of an OR: those of all its parts.
fn any_access(parts: &[Clauses]) -> Option<AccessKeys> {
    let mut keys = SmallVec::new();
    let mut share = 0.0;
    for part in parts {
        let access = part.access.as_ref()?;
        keys.extend(access.keys.iter().copied());
        share += access.share;
    }
    keys.sort_unstable();
    keys.dedup();
    (keys.len() <= KEYS_MAX).then_some(AccessKeys { keys, share })
}

/// The presence of a property as an access key.
pub fn present(attribute: AttributeId, interner: &Interner) -> Option<AccessKeys> {
    let is_property = interner.origin(attribute) == AttributeOrigin::Property;
    is_property.then(|| AccessKeys {
        keys: smallvec![AccessKey::Presence(attribute)],
        share: interner.presence_share(attribute),
    })
}

/// One test for each attribute, which admits what any of `tests` admits.
fn by_attribute(mut tests: Vec<ValueTest>) -> Vec<ValueTest> {
    tests.sort_by_key(|test| test.attribute);
    tests.into_iter().fold(Vec::new(), |mut joined: Vec<ValueTest>, test| {
        match joined.last_mut().filter(|last| last.attribute == test.attribute) {
            Some(last) => last.unite(&test),
            None => joined.push(test),
        }
        joined
    })
}

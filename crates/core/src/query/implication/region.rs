//! Sets of values for which a predicate with constants is true, and when one such set contains another.
//!
//! A value here is one element that a predicate tests: a scalar, or a mapping, which is unlike every constant. Null and
//! PRESENT are in no set and in no complement, since they make every test unknown. All answers are sound, but not
//! complete: "no" may mean that the rules did not suffice.
//!
//! A text of a message that reads as a time is beside a time, too. So a set of times has texts in it, and a day has one more
//! than the instant at which it begins: the date.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::budget::Budget;
use super::patterns;
use crate::message::Value;
use crate::query::expr::{Comparison, Predicate};
use crate::text::Signature;

/// A constant of the query, or one computed from constants.
pub(super) type Constant<'q> = Cow<'q, Value>;

/// A set, or every known value that is not in it.
#[derive(Clone, Debug)]
pub(super) struct Region<'q> {
    pub(super) set: Set<'q>,
    pub(super) is_complement: bool,
}

/// The values of which a predicate is true.
#[derive(Clone, Debug)]
pub(super) enum Set<'q> {
    /// These values, sorted by [`order`], each once.
    Values(Vec<Constant<'q>>),
    /// Values of one kind between bounds.
    Within(ValueInterval<'q>),
    /// The texts that pass a test of text: LIKE, PREFIX, REGEX, CONTAINS, NEAR, TOPIC.
    Texts(&'q Predicate),
    /// The possible outcomes of comparing two values, as a mask of the four outcomes.
    Outcomes(u8),
}

/// The values between two bounds of one kind, of which at least one exists. Never empty, never a single value.
#[derive(Clone, Debug)]
pub(super) struct ValueInterval<'q> {
    low: Option<IntervalBound<'q>>,
    high: Option<IntervalBound<'q>>,
}

#[derive(Clone, Debug)]
struct IntervalBound<'q> {
    value: Constant<'q>,
    is_inclusive: bool,
}

const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
/// The outcome for values of unlike types, and for NaN.
const UNLIKE: u8 = 8;
const ALL_OUTCOMES: u8 = LESS | EQUAL | GREATER | UNLIKE;

impl<'q> Region<'q> {
    /// The values of which `value op constant` is true. `constant` is known.
    pub(super) fn compared(op: Comparison, constant: Constant<'q>) -> Self {
        let bound = |is_inclusive| Some(IntervalBound { value: constant.clone(), is_inclusive });
        let set = match op {
            Comparison::Equal | Comparison::NotEqual => Set::values([constant]),
            Comparison::Less => Set::between(None, bound(false)),
            Comparison::LessOrEqual => Set::between(None, bound(true)),
            Comparison::Greater => Set::between(bound(false), None),
            Comparison::GreaterOrEqual => Set::between(bound(true), None),
        };
        Self { set, is_complement: op == Comparison::NotEqual }
    }

    /// The values of which `value BETWEEN low AND high` is true. Both are known.
    pub(super) fn between(low: Constant<'q>, high: Constant<'q>) -> Self {
        let bound = |value| Some(IntervalBound { value, is_inclusive: true });
        Set::between(bound(low), bound(high)).into()
    }

    /// The outcomes of comparing two values for which `left op right` is true.
    pub(super) fn outcomes(op: Comparison) -> Self {
        Set::Outcomes(match op {
            Comparison::Equal => EQUAL,
            Comparison::NotEqual => ALL_OUTCOMES & !EQUAL,
            Comparison::Less => LESS,
            Comparison::LessOrEqual => LESS | EQUAL,
            Comparison::Greater => GREATER,
            Comparison::GreaterOrEqual => GREATER | EQUAL,
        })
        .into()
    }

    /// The two outcomes of a predicate of which nothing is known: true and false.
    pub(super) fn decided() -> Self {
        Set::Outcomes(EQUAL).into()
    }

    /// Every known value that is not in it.
    pub(super) fn complement(&self) -> Self {
        Self { set: self.set.clone(), is_complement: !self.is_complement }
    }

    /// True when the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_complement && matches!(&self.set, Set::Values(values) if values.is_empty())
    }

    /// True when the set contains nothing that equals `value`, which is known.
    pub(super) fn excludes(&self, value: &Value, budget: &mut Budget) -> bool {
        if self.is_complement { self.set.contains(value, budget) } else { !self.set.meets(value, budget) }
    }

    /// True when every value of this set is in `other` too.
    pub(super) fn is_within(&self, other: &Self, budget: &mut Budget) -> bool {
        match (self.is_complement, other.is_complement) {
            (false, false) => self.set.is_within(&other.set, budget),
            (true, true) => other.set.is_within(&self.set, budget),
            (false, true) => self.set.is_apart_from(&other.set, budget),
            (true, false) => match (&self.set, &other.set) {
                (Set::Outcomes(a), Set::Outcomes(b)) => a | b == ALL_OUTCOMES,
                _ => false,
            },
        }
    }

    /// True when no value is in both sets.
    pub(super) fn is_apart_from(&self, other: &Self, budget: &mut Budget) -> bool {
        match (self.is_complement, other.is_complement) {
            (false, false) => self.set.is_apart_from(&other.set, budget),
            (false, true) => self.set.is_within(&other.set, budget),
            (true, false) => other.set.is_within(&self.set, budget),
            (true, true) => match (&self.set, &other.set) {
                (Set::Outcomes(a), Set::Outcomes(b)) => a | b == ALL_OUTCOMES,
                _ => false,
            },
        }
    }
}

impl<'q> From<Set<'q>> for Region<'q> {
    fn from(set: Set<'q>) -> Self {
        Self { set, is_complement: false }
    }
}

impl<'q> Set<'q> {
    /// The set of these values; NaN equals nothing and is left out.
    pub(super) fn values(values: impl IntoIterator<Item = Constant<'q>>) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|value| value.compare(value).is_some()).collect();
        values.sort_by(|a, b| order(a, b));
        values.dedup_by(|a, b| order(a, b).is_eq());
        Self::Values(values)
    }

    fn between(low: Option<IntervalBound<'q>>, high: Option<IntervalBound<'q>>) -> Self {
        let is_nan =
            |bound: &Option<IntervalBound<'q>>| bound.as_ref().is_some_and(|b| b.value.compare(&b.value).is_none());
        if is_nan(&low) || is_nan(&high) {
            return Self::Values(Vec::new());
        }
        if let (Some(low), Some(high)) = (&low, &high) {
            match low.value.compare(&high.value) {
                Some(Ordering::Less) => {}
                Some(Ordering::Equal) if low.is_inclusive && high.is_inclusive => {
                    let one = if matches!(&*low.value, Value::Day(_)) { high } else { low };
                    return Self::Values(vec![one.value.clone()]);
                }
                _ => return Self::Values(Vec::new()),
            }
        }
        Self::Within(ValueInterval { low, high })
    }

    /// True when the set contains all that equals `value`.
    fn contains(&self, value: &Value, budget: &mut Budget) -> bool {
        match self {
            Self::Values(values) => {
                budget.spend(1);
                let finds = |value: &Value| values.binary_search_by(|known| order(known, value)).is_ok();
                finds(value) || matches!(value, Value::Timestamp(micros) if finds(&Value::Day(*micros)))
            }
            Self::Within(interval) => {
                budget.spend(1);
                interval.contains(value) && (interval.has_dates() || !matches!(value, Value::Day(_)))
            }
            Self::Texts(predicate) => matches!(value, Value::Text(text) if passes(predicate, text, budget)),
            Self::Outcomes(_) => false,
        }
    }

    /// False when the set contains nothing that equals `value`.
    fn meets(&self, value: &Value, budget: &mut Budget) -> bool {
        if self.contains(value, budget) {
            return true;
        }
        match self {
            Self::Values(values) => {
                budget.spend(values.len());
                values.iter().any(|known| may_be_one(known, value))
            }
            Self::Within(interval) => interval.meets(value),
            Self::Texts(_) => value.is_time(),
            Self::Outcomes(_) => false,
        }
    }

    fn is_within(&self, other: &Self, budget: &mut Budget) -> bool {
        budget.spend(1);
        match (self, other) {
            (Self::Values(values), _) => values.iter().all(|value| other.contains(value, budget)),
            (Self::Within(a), Self::Within(b)) => a.is_within(b),
            (Self::Texts(a), Self::Texts(b)) => patterns::is_within(a, b, budget),
            (Self::Outcomes(a), Self::Outcomes(b)) => a & !b == 0,
            _ => false,
        }
    }

    fn is_apart_from(&self, other: &Self, budget: &mut Budget) -> bool {
        budget.spend(1);
        match (self, other) {
            (Self::Values(values), set) | (set, Self::Values(values)) => {
                !values.iter().any(|value| set.meets(value, budget))
            }
            (Self::Within(a), Self::Within(b)) => a.is_apart_from(b),
            (Self::Within(interval), Self::Texts(_)) | (Self::Texts(_), Self::Within(interval)) => {
                !interval.has_texts()
            }
            (Self::Texts(a), Self::Texts(b)) => patterns::are_apart(a, b),
            (Self::Outcomes(a), Self::Outcomes(b)) => a & b == 0,
            _ => false,
        }
    }
}

impl ValueInterval<'_> {
    /// Whether there is a lower bound, and whether there is an upper one.
    pub(super) fn bounds(&self) -> (bool, bool) {
        (self.low.is_some(), self.high.is_some())
    }

    /// The lower and the upper bound, each with whether it is included.
    pub(super) fn ends(&self) -> [Option<(&Value, bool)>; 2] {
        [&self.low, &self.high].map(|bound| bound.as_ref().map(|bound| (&*bound.value, bound.is_inclusive)))
    }

    fn contains(&self, value: &Value) -> bool {
        let is_on_side = |bound: &Option<IntervalBound<'_>>, side: Ordering| match bound {
            None => true,
            Some(bound) => match value.compare(&bound.value) {
                Some(Ordering::Equal) => bound.is_inclusive,
                order => order == Some(side),
            },
        };
        is_on_side(&self.low, Ordering::Greater) && is_on_side(&self.high, Ordering::Less)
    }

    /// False when nothing that equals `value` lies within it.
    fn meets(&self, value: &Value) -> bool {
        match self.any_bound() {
            Some(Value::Text(_)) => value.is_time() || self.contains(value),
            _ => self.contains(value) || value.as_time().is_some_and(|time| self.contains(&time)),
        }
    }

    fn any_bound(&self) -> Option<&Value> {
        self.low.as_ref().or(self.high.as_ref()).map(|bound| &*bound.value)
    }

    /// True when some texts may lie within it: those that read as times, too.
    fn has_texts(&self) -> bool {
        self.any_bound().is_none_or(|bound| matches!(bound, Value::Text(_)) || bound.is_time())
    }

    /// True when dates lie within it: beside an instant they are no times.
    fn has_dates(&self) -> bool {
        [&self.low, &self.high].into_iter().flatten().all(|bound| matches!(&*bound.value, Value::Day(_)))
    }

    /// Bounds of one kind compare.
    fn is_like(&self, other: &Self) -> bool {
        matches!((self.any_bound(), other.any_bound()), (Some(a), Some(b)) if a.compare(b).is_some())
    }

    fn is_within(&self, other: &Self) -> bool {
        let inside =
            |inner: &Option<IntervalBound<'_>>, outer: &Option<IntervalBound<'_>>, side: Ordering| match (inner, outer)
            {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(inner), Some(outer)) => match inner.value.compare(&outer.value) {
                    Some(Ordering::Equal) => outer.is_inclusive || !inner.is_inclusive,
                    order => order == Some(side),
                },
            };
        self.is_like(other)
            && (other.has_dates() || !self.has_dates())
            && inside(&self.low, &other.low, Ordering::Greater)
            && inside(&self.high, &other.high, Ordering::Less)
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        let below = |high: &Option<IntervalBound<'_>>, low: &Option<IntervalBound<'_>>| match (high, low) {
            (Some(high), Some(low)) => match high.value.compare(&low.value) {
                Some(Ordering::Equal) => !(high.is_inclusive && low.is_inclusive),
                order => order == Some(Ordering::Less),
            },
            _ => false,
        };
        let may_share_texts = self.has_texts() && other.has_texts();
        !self.is_like(other) && !may_share_texts || below(&self.high, &other.low) || below(&other.high, &self.low)
    }
}

/// A total order of constants: by kind, then by value. Not for NaN.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    kind(a).cmp(&kind(b)).then_with(|| a.compare(b).unwrap_or(Ordering::Equal))
}

/// Whether a text of a message may equal both: a time and a text that reads as one, or two times.
fn may_be_one(a: &Value, b: &Value) -> bool {
    let time = |value: &Value| if value.is_time() { Some(value.clone()) } else { value.as_time() };
    (a.is_time() || b.is_time())
        && time(a).zip(time(b)).is_some_and(|(a, b)| a.compare(&b).is_some_and(Ordering::is_eq))
}

/// Values of one kind compare with each other.
fn kind(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Int(_) | Value::Float(_) => 1,
        Value::Text(_) => 2,
        Value::Timestamp(_) => 3,
        Value::Null | Value::Present | Value::List(_) | Value::Map(_) => 4,
        Value::Day(_) => 5,
    }
}

/// Whether `text` passes a test of text; costs as much as evaluating it.
fn passes(predicate: &Predicate, text: &str, budget: &mut Budget) -> bool {
    budget.spend(1 + text.len() / 16);
    match predicate {
        Predicate::Like(_, pattern) => pattern.is_match(text),
        Predicate::Prefix(_, prefix) => text.starts_with(&**prefix),
        Predicate::Regex(_, pattern) => pattern.is_match(text),
        Predicate::Contains(_, phrase) => Signature::of(text).contains(phrase),
        Predicate::Near(_, a, b, distance) => Signature::of(text).near(a, b, *distance).is_some(),
        Predicate::Topic(pattern) => pattern.is_match(text),
        _ => false,
    }
}

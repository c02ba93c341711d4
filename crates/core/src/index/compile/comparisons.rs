//! The clauses of comparisons: equal, not equal, one of several values, and between two bounds.

use smallvec::smallvec;

use crate::index::clause::{ListRule, NumberKind, NumberRange, Symbols, ValueTest};
use crate::index::ids::AttributeId;
use crate::index::origin::AttributeOrigin;
use crate::index::term::Scalar;
use crate::message::Value;
use crate::query::expr::{Comparison, PropertyName, Reference};

use super::clauses::{Clauses, present};
use super::interner::Interner;

impl Clauses {
    /// True when `reference` is one of `values`. `list_rule` tells what decides a list.
    pub fn equality(reference: &Reference, values: &[Value], list_rule: ListRule, interner: &mut Interner) -> Self {
        let Some(attribute) = known_reference(reference, interner) else { return Self::unknown() };
        let symbols = symbols_of(attribute, values, interner);
        Self::one_of(attribute, symbols, list_rule, interner)
    }

    /// True when `reference` has a value that is none of `values`. `list_rule` tells what decides a list.
    pub fn inequality(reference: &Reference, values: &[Value], list_rule: ListRule, interner: &mut Interner) -> Self {
        let Some(attribute) = known_reference(reference, interner) else { return Self::unknown() };
        let mut symbols = symbols_of(attribute, values, interner);
        symbols.sort_unstable();
        symbols.dedup();
        let test = ValueTest { symbols, list_rule, ..ValueTest::known(attribute) };
        Self { tests: smallvec![test], access: present(attribute, interner), ..Self::default() }
    }

    /// True when the comparison of `reference` with `literal` is, or its negation.
    pub fn comparison(
        reference: &Reference,
        op: Comparison,
        literal: &Value,
        is_negated: bool,
        interner: &mut Interner,
    ) -> Self {
        let literals = std::slice::from_ref(literal);
        match (op, is_negated) {
            (Comparison::Equal, false) => Self::equality(reference, literals, ListRule::Some, interner),
            // For a list, `<>` is true when some element differs; its negation, when none does.
            (Comparison::NotEqual, true) => Self::equality(reference, literals, ListRule::Every, interner),
            (Comparison::NotEqual, false) => Self::inequality(reference, literals, ListRule::Some, interner),
            (Comparison::Equal, true) => Self::inequality(reference, literals, ListRule::Every, interner),
            (Comparison::Less, _) => Self::range(reference, None, Some((literal, true)), is_negated, interner),
            (Comparison::LessOrEqual, _) => Self::range(reference, None, Some((literal, false)), is_negated, interner),
            (Comparison::Greater, _) => Self::range(reference, Some((literal, true)), None, is_negated, interner),
            (Comparison::GreaterOrEqual, _) => {
                Self::range(reference, Some((literal, false)), None, is_negated, interner)
            }
        }
    }

    /// True when `reference` lies between two bounds, each with whether it is excluded; or, negated, when it does not.
    pub fn range(
        reference: &Reference,
        low: Option<(&Value, bool)>,
        high: Option<(&Value, bool)>,
        is_negated: bool,
        interner: &mut Interner,
    ) -> Self {
        let mut known = Self::known(reference, interner);
        let kind = low.or(high).map_or(NumberKind::Number, |(value, _)| kind_of(value));
        let (mut is_exact, mut is_bound) = (true, true);
        let mut bound = |side: Option<(&Value, bool)>, open: f64, beyond: fn(f64) -> f64| {
            let Some((value, is_excluded)) = side else { return open };
            let Some(rounded) = rounded(value, kind) else {
                is_bound = false;
                return open;
            };
            is_exact &= rounded.abs() < EXACT;
            if is_excluded && rounded.abs() < EXACT { beyond(rounded) } else { rounded }
        };
        let low = bound(low, f64::NEG_INFINITY, f64::next_up);
        let high = bound(high, f64::INFINITY, f64::next_down);
        // A range that is wider than the bounds rules out too little, and is verified; negated, it would rule out too much.
        if let Some(test) = known.tests.first_mut().filter(|_| is_bound && (is_exact || !is_negated)) {
            let attribute = test.attribute;
            test.list_rule = if is_negated { ListRule::Every } else { ListRule::Some };
            if interner.origin(attribute) != AttributeOrigin::Topic {
                interner.note_range(attribute);
                if kind != NumberKind::Number {
                    interner.note_times(attribute);
                }
                known.ranges.push(NumberRange { attribute, low, high, kind, is_negated });
                known.needs_evaluation = !is_exact;
            }
        }
        known
    }
}

/// The attribute of a topic or property; None for the body.
pub fn known_reference(reference: &Reference, interner: &mut Interner) -> Option<AttributeId> {
    match reference {
        Reference::Topic => Some(interner.attribute(AttributeOrigin::Topic, "")),
        Reference::Property(PropertyName { text, any_case }) => {
            let origin = if *any_case { AttributeOrigin::AnyCase } else { AttributeOrigin::Property };
            Some(interner.attribute(origin, text))
        }
        Reference::Body => None,
    }
}

/// The symbols of the values that equal one of `values`. A day equals the instant at which it begins, and the date.
fn symbols_of(attribute: AttributeId, values: &[Value], interner: &mut Interner) -> Symbols {
    let mut symbols = Symbols::new();
    for value in values {
        symbols.extend(Scalar::of_literal(value).map(|scalar| interner.symbol(attribute, scalar)));
        if let Value::Day(micros) = value {
            symbols.extend(Scalar::of(&Value::Timestamp(*micros)).map(|scalar| interner.symbol(attribute, scalar)));
        }
        if value.is_time() {
            interner.note_times(attribute);
        }
    }
    symbols
}

fn kind_of(bound: &Value) -> NumberKind {
    match bound {
        Value::Timestamp(_) => NumberKind::Time,
        Value::Day(_) => NumberKind::Day,
        _ => NumberKind::Number,
    }
}

/// The comparison with its operands exchanged.
pub fn mirrored(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        Comparison::Equal | Comparison::NotEqual => op,
    }
}

/// Below this, floats hold every whole number: any value rounded to a float stays on its side of a bound. From there on, it may
/// reach the bound.
const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53

/// A bound of a kind of number, rounded to a float; None for another value, and for what is no number.
#[expect(clippy::cast_precision_loss, reason = "beyond 2^53 what remains is verified")]
fn rounded(bound: &Value, kind: NumberKind) -> Option<f64> {
    match bound {
        Value::Int(value) if kind == NumberKind::Number => Some(*value as f64),
        Value::Float(value) if kind == NumberKind::Number => Some(*value),
        Value::Timestamp(micros) | Value::Day(micros) if kind_of(bound) == kind => Some(*micros as f64),
        _ => None,
    }
    .filter(|bound| !bound.is_nan())
}

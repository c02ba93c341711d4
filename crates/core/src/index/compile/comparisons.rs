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
        let low = low.map_or(Some(f64::NEG_INFINITY), |(value, excluded)| exact(value, kind, excluded, f64::next_up));
        let high = high.map_or(Some(f64::INFINITY), |(value, excluded)| exact(value, kind, excluded, f64::next_down));
        if let (Some(test), Some(low), Some(high)) = (known.tests.first_mut(), low, high) {
            let attribute = test.attribute;
            test.list_rule = if is_negated { ListRule::Every } else { ListRule::Some };
            if interner.origin(attribute) != AttributeOrigin::Topic {
                interner.note_range(attribute);
                if kind != NumberKind::Number {
                    interner.note_times(attribute);
                }
                known.ranges.push(NumberRange { attribute, low, high, kind, is_negated });
                known.needs_evaluation = false;
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

/// A bound as a float that is itself included, if that is exact: any value rounded to a float stays on its side of a bound
/// below 2^53.
fn exact(bound: &Value, kind: NumberKind, is_excluded: bool, beyond: fn(f64) -> f64) -> Option<f64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[expect(clippy::cast_precision_loss, reason = "refused below when it is not exact")]
    let bound = match bound {
        Value::Int(value) if kind == NumberKind::Number => *value as f64,
        Value::Float(value) if kind == NumberKind::Number => *value,
        Value::Timestamp(micros) | Value::Day(micros) if kind_of(bound) == kind => *micros as f64,
        _ => return None,
    };
    (bound.abs() < LIMIT).then(|| if is_excluded { beyond(bound) } else { bound })
}

//! The structure of a query's tree, for algorithms outside the core.
//!
//! It shows the operators above each predicate, and the facts about a predicate that an index can use without evaluation.

use crate::message::Value;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, PropertyName, Reference};

/// One node of a tree, without its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Structure<'q> {
    /// All of the operands.
    And(&'q [Expr]),
    /// Any of the operands.
    Or(&'q [Expr]),
    /// Kleene negation.
    Not(&'q Expr),
    /// `name = value` or `name IN (values)`: true exactly when the property has one of the values, none of them a time.
    Equality(&'q str, &'q [Value]),
    /// A comparison or BETWEEN with literals: true only of a value within these bounds, inclusive; without a bound, of
    /// any value of a comparable type. The predicate itself tells whether it includes a bound, which is no time.
    Range(&'q str, Option<&'q Value>, Option<&'q Value>),
    /// Any other test. Times are here, for a text may be one, too.
    Opaque,
}

impl Expr {
    /// The kind of this node. Cost: constant.
    ///
    /// Only properties are shown: predicates on topic or body, and on names without regard to case, are opaque.
    #[must_use]
    pub fn structure(&self) -> Structure<'_> {
        match self {
            Self::And(operands) => Structure::And(operands),
            Self::Or(operands) => Structure::Or(operands),
            Self::Not(inner) => Structure::Not(inner),
            Self::Predicate(predicate) => predicate.structure().unwrap_or(Structure::Opaque),
        }
    }
}

impl Predicate {
    fn structure(&self) -> Option<Structure<'_>> {
        let has_time = |values: &[Value]| values.iter().any(Value::is_time);
        let is_time = |operand: &Operand| matches!(operand, Operand::Literal(value) if value.is_time());
        match self {
            Self::Compare(left, _, right) if is_time(left) || is_time(right) => None,
            Self::Between(_, low, high) if is_time(low) || is_time(high) => None,
            Self::In(_, values) if has_time(values.values()) => None,
            Self::Compare(operand, op, Operand::Literal(value)) => compared(property(operand)?, *op, value),
            Self::Compare(Operand::Literal(value), op, operand) => compared(property(operand)?, op.mirrored(), value),
            Self::In(operand, values) => Some(Structure::Equality(property(operand)?, values.values())),
            Self::Between(operand, Operand::Literal(low), Operand::Literal(high)) => {
                Some(Structure::Range(property(operand)?, Some(low), Some(high)))
            }
            _ => None,
        }
    }
}

fn compared<'q>(name: &'q str, op: Comparison, value: &'q Value) -> Option<Structure<'q>> {
    match op {
        Comparison::Equal => Some(Structure::Equality(name, std::slice::from_ref(value))),
        Comparison::NotEqual => None,
        Comparison::Less | Comparison::LessOrEqual => Some(Structure::Range(name, None, Some(value))),
        Comparison::Greater | Comparison::GreaterOrEqual => Some(Structure::Range(name, Some(value), None)),
    }
}

impl Comparison {
    /// `100 < price` is `price > 100`.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

fn property(operand: &Operand) -> Option<&str> {
    match operand {
        Operand::Reference(Reference::Property(PropertyName { text, any_case: false })) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

    fn shown(text: &str) -> String {
        let query = parse(text, SelectorDialect::Jms).expect("a selector");
        match query.expr().structure() {
            Structure::Equality(name, values) => format!("{name} in {values:?}"),
            Structure::Range(name, low, high) => format!("{name} from {low:?} to {high:?}"),
            Structure::Opaque => "opaque".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn equalities_and_ranges_of_a_property_with_literals_are_seen() {
        assert_eq!(shown("a.b = 1"), "a.b in [Int(1)]");
        assert_eq!(shown("1 = a"), "a in [Int(1)]");
        assert_eq!(shown("a IN ('x', 2)"), "a in [Text(\"x\"), Int(2)]");
        assert_eq!(shown("a > 1"), "a from Some(Int(1)) to None");
        assert_eq!(shown("1 > a"), "a from None to Some(Int(1))");
        assert_eq!(shown("1 <= a"), "a from Some(Int(1)) to None");
        assert_eq!(shown("a BETWEEN 1 AND 2"), "a from Some(Int(1)) to Some(Int(2))");
    }

    #[test]
    fn whatever_an_index_cannot_know_is_opaque() {
        for text in [
            "a <> 1",
            "a = b",
            "a + 1 = 2",
            "a BETWEEN b AND 2",
            "topic = 'x'",
            "a >= DATE '2026-01-31'",
            "a IN (1, TIMESTAMP '2026-01-31T12:00:00Z')",
            "ANYCASE(a) = 1",
            "a LIKE 'x%'",
            "a",
            "TRUE",
        ] {
            assert_eq!(shown(text), "opaque", "{text}");
        }
    }

    #[test]
    fn operands_stand_below_and_or_and_not() {
        let query = parse("NOT (a = 1 OR b = 2) AND c = 3", SelectorDialect::Jms).expect("a selector");
        let Structure::And([first, second]) = query.expr().structure() else { panic!("an AND of two") };
        assert!(matches!(second.structure(), Structure::Equality("c", [Value::Int(3)])));
        let Structure::Not(inner) = first.structure() else { panic!("a NOT") };
        assert!(matches!(inner.structure(), Structure::Or([_, _])));
    }
}

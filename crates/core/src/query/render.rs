//! The canonical text of a query: selector text that parses to an equal query, unless an expensive predicate is in it.

use std::fmt::{self, Display, Formatter, Write};

use chrono::{DateTime, SecondsFormat};

use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Arithmetic, Comparison, Expr, Operand, Predicate, PropertyName, Reference, ValueSet};
use crate::query::selector::is_plain_identifier;
use crate::topic::TopicDialect;

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Predicate(predicate) => predicate.fmt(f),
            Self::Not(inner) => match &**inner {
                Self::And(_) | Self::Or(_) => write!(f, "NOT ({inner})"),
                Self::Predicate(Predicate::Between(operand, low, high)) => {
                    write!(f, "{operand} NOT BETWEEN {low} AND {high}")
                }
                Self::Predicate(Predicate::In(operand, values)) => write!(f, "{operand} NOT IN {values}"),
                Self::Predicate(Predicate::Like(operand, pattern)) => write!(f, "{operand} NOT LIKE {pattern}"),
                Self::Predicate(Predicate::IsNull(operand)) => write!(f, "{operand} IS NOT NULL"),
                _ => write!(f, "NOT {inner}"),
            },
            Self::And(children) => join(f, children, " AND ", |child| matches!(child, Self::Or(_))),
            Self::Or(children) => join(f, children, " OR ", |_| false),
        }
    }
}

fn join(f: &mut Formatter<'_>, children: &[Expr], word: &str, in_parentheses: impl Fn(&Expr) -> bool) -> fmt::Result {
    for (index, child) in children.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        if in_parentheses(child) { write!(f, "({child})")? } else { child.fmt(f)? }
    }
    Ok(())
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(true) => f.write_str("TRUE"),
            Self::Constant(false) => f.write_str("FALSE"),
            Self::Truth(reference) => reference.fmt(f),
            Self::Compare(left, op, right) => write!(f, "{left} {op} {right}"),
            Self::Between(operand, low, high) => write!(f, "{operand} BETWEEN {low} AND {high}"),
            Self::In(operand, values) => write!(f, "{operand} IN {values}"),
            Self::Like(operand, pattern) => write!(f, "{operand} LIKE {pattern}"),
            Self::IsNull(operand) => write!(f, "{operand} IS NULL"),
            Self::Exists(reference) => write!(f, "EXISTS({reference})"),
            Self::Contains(reference, phrase) => write!(f, "CONTAINS({reference}, {})", Quoted(phrase.text())),
            Self::Near(reference, a, b, distance) => {
                write!(f, "NEAR({reference}, {}, {}, {distance})", Quoted(a.text()), Quoted(b.text()))
            }
            Self::Topic(pattern) => match pattern.dialect() {
                TopicDialect::Amqp => write!(f, "TOPIC({})", Quoted(pattern.text())),
                other => write!(f, "TOPIC({}, {})", Quoted(pattern.text()), Quoted(other.name())),
            },
            Self::Prefix(reference, prefix) => write!(f, "PREFIX({reference}, {})", Quoted(prefix)),
            Self::Regex(reference, pattern) => write!(f, "REGEX({reference}, {})", Quoted(pattern.as_str())),
            Self::Under(reference, ancestor) => write!(f, "{reference} UNDER {}", Quoted(ancestor)),
            Self::Opaque(opaque) => write!(f, "OPAQUE({})", Quoted(opaque.name())),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic => f.write_str("topic"),
            Self::Body => f.write_str("body"),
            Self::Property(PropertyName { text, any_case: true }) => write!(f, "ANYCASE({})", Identifier(text)),
            Self::Property(PropertyName { text, any_case: false }) => Identifier(text).fmt(f),
        }
    }
}

/// A name, in double quotes where it would parse as something else.
struct Identifier<'a>(&'a str);

impl Display for Identifier<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_plain_identifier(self.0) { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

/// A text in single quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

impl Display for ValueSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        for (index, value) in self.values().iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            LiteralText(value).fmt(f)?;
        }
        f.write_char(')')
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => LiteralText(value).fmt(f),
            Self::Reference(reference) => reference.fmt(f),
            Self::Negate(inner) => match &**inner {
                Self::Arithmetic(..) => write!(f, "-({inner})"),
                Self::Reference(_) => write!(f, "-{inner}"),
                _ => write!(f, "- {inner}"),
            },
            Self::Arithmetic(left, op, right) => {
                if left.needs_parentheses_left_of(*op) {
                    write!(f, "({left})")?
                } else {
                    left.fmt(f)?
                }
                f.write_str(match op {
                    Arithmetic::Add => " + ",
                    Arithmetic::Subtract => " - ",
                    Arithmetic::Multiply => " * ",
                    Arithmetic::Divide => " / ",
                })?;
                if right.needs_parentheses_right_of(*op) { write!(f, "({right})") } else { right.fmt(f) }
            }
        }
    }
}

// Only the necessary parentheses, so that the canonical text nests no deeper than the text that was parsed.
impl Operand {
    /// True when this operand, to the left of `op`, is a sum below a product.
    pub(super) fn needs_parentheses_left_of(&self, op: Arithmetic) -> bool {
        matches!(self, Self::Arithmetic(_, inner, _) if is_sum(*inner) && !is_sum(op))
    }

    /// True when this operand, to the right of `op`, needs parentheses; operators of one rank lean left, so there they
    /// do too.
    pub(super) fn needs_parentheses_right_of(&self, op: Arithmetic) -> bool {
        matches!(self, Self::Arithmetic(_, inner, _) if is_sum(*inner) || !is_sum(op))
    }
}

fn is_sum(op: Arithmetic) -> bool {
    matches!(op, Arithmetic::Add | Arithmetic::Subtract)
}

/// A constant as selector text.
pub struct LiteralText<'a>(pub &'a Value);

impl Display for LiteralText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Bool(true) => f.write_str("TRUE"),
            Value::Bool(false) => f.write_str("FALSE"),
            Value::Int(value) => value.fmt(f),
            Value::Float(value) if *value == f64::INFINITY => f.write_str("1e999"),
            Value::Float(value) if *value == f64::NEG_INFINITY => f.write_str("-1e999"),
            // Equal queries have one text, and -0.0 equals 0.0: the sum makes both 0.0.
            Value::Float(value) => write!(f, "{:?}", value + 0.0),
            Value::Text(text) => Quoted(text).fmt(f),
            Value::Timestamp(micros) => match DateTime::from_timestamp_micros(*micros) {
                Some(instant) => {
                    write!(f, "TIMESTAMP '{}'", instant.to_rfc3339_opts(SecondsFormat::AutoSi, true))
                }
                None => write!(f, "TIMESTAMP '{micros}'"),
            },
            Value::Day(micros) => match DateTime::from_timestamp_micros(*micros) {
                Some(midnight) => write!(f, "DATE '{}'", midnight.format("%Y-%m-%d")),
                None => write!(f, "DATE '{micros}'"),
            },
            // These are no constants; `explain` shows them as values of a message.
            Value::Null => f.write_str("NULL"),
            Value::Present => f.write_str("PRESENT"),
            Value::List(values) => {
                f.write_char('[')?;
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    LiteralText(value).fmt(f)?;
                }
                f.write_char(']')
            }
            Value::Map(_) => f.write_str("{...}"),
        }
    }
}

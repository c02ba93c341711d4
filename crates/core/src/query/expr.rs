//! The expression tree that every language compiles to.
//!
//! A query is a Boolean tree of predicates, never expanded to disjunctive normal form (the ITMO paper). It is kept small:
//! `NOT LIKE`, `NOT IN`, `NOT BETWEEN` and `IS NOT NULL` are [`Expr::Not`] of the plain predicate, since NOT applies to
//! the result for a whole list.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::expensive::Opaque;
use crate::message::Value;
use crate::query::like::LikePattern;
pub use crate::query::patterns::pattern::Pattern;
use crate::text::Phrase;
use crate::topic::TopicPattern;

/// A condition: true, false or unknown of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// One test.
    Predicate(Predicate),
    /// Kleene negation.
    Not(Box<Expr>),
    /// Two or more operands, none of them an AND itself.
    And(Vec<Expr>),
    /// Two or more operands, none of them an OR itself.
    Or(Vec<Expr>),
}

impl Expr {
    /// The AND of `operands`, flattened; of one operand, itself. `operands` is not empty.
    #[must_use]
    pub fn and(operands: Vec<Self>) -> Self {
        let unnest = |operand| match operand {
            Self::And(children) => children,
            other => vec![other],
        };
        let is_flat = !operands.iter().any(|operand| matches!(operand, Self::And(_)));
        let mut flat = if is_flat { operands } else { operands.into_iter().flat_map(unnest).collect() };
        if flat.len() == 1 { flat.remove(0) } else { Self::And(flat) }
    }

    /// The OR of `operands`, flattened; of one operand, itself. `operands` is not empty.
    #[must_use]
    pub fn or(operands: Vec<Self>) -> Self {
        let unnest = |operand| match operand {
            Self::Or(children) => children,
            other => vec![other],
        };
        let is_flat = !operands.iter().any(|operand| matches!(operand, Self::Or(_)));
        let mut flat = if is_flat { operands } else { operands.into_iter().flat_map(unnest).collect() };
        if flat.len() == 1 { flat.remove(0) } else { Self::Or(flat) }
    }

    /// The negation.
    #[must_use]
    pub fn negate(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The number of predicates in the tree.
    #[must_use]
    pub fn terms(&self) -> usize {
        match self {
            Self::Predicate(_) => 1,
            Self::Not(inner) => inner.terms(),
            Self::And(children) | Self::Or(children) => children.iter().map(Self::terms).sum(),
        }
    }

    /// The number of predicates and of values in their lists.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Predicate(Predicate::In(_, values)) => 1 + values.values().len(),
            Self::Predicate(_) => 1,
            Self::Not(inner) => inner.size(),
            Self::And(children) | Self::Or(children) => children.iter().map(Self::size).sum(),
        }
    }

    /// The nesting of the canonical text: one level for each NOT, for each parenthesis and for each sign inside
    /// another.
    #[must_use]
    pub fn nesting(&self) -> usize {
        match self {
            Self::Predicate(predicate) => predicate.nesting(),
            Self::Not(inner) => match &**inner {
                Self::Predicate(predicate) if predicate.takes_not_inside() => predicate.nesting(),
                Self::And(_) | Self::Or(_) => 2 + inner.nesting(),
                _ => 1 + inner.nesting(),
            },
            Self::And(children) => {
                children.iter().map(|c| usize::from(matches!(c, Self::Or(_))) + c.nesting()).max().unwrap_or(0)
            }
            Self::Or(children) => children.iter().map(Self::nesting).max().unwrap_or(0),
        }
    }

    /// Whether `test` is true of a predicate.
    pub fn has(&self, test: &impl Fn(&Predicate) -> bool) -> bool {
        match self {
            Self::Predicate(predicate) => test(predicate),
            Self::Not(inner) => inner.has(test),
            Self::And(children) | Self::Or(children) => children.iter().any(|child| child.has(test)),
        }
    }

    /// Every predicate, from left to right.
    pub fn predicates(&self) -> Vec<&Predicate> {
        let mut predicates = Vec::new();
        self.for_each_predicate(&mut |predicate| predicates.push(predicate));
        predicates
    }

    /// Call `each` with every predicate, from left to right.
    pub fn for_each_predicate<'a>(&'a self, each: &mut impl FnMut(&'a Predicate)) {
        match self {
            Self::Predicate(predicate) => each(predicate),
            Self::Not(inner) => inner.for_each_predicate(each),
            Self::And(children) | Self::Or(children) => {
                children.iter().for_each(|child| child.for_each_predicate(each));
            }
        }
    }
}

impl From<Predicate> for Expr {
    fn from(predicate: Predicate) -> Self {
        Self::Predicate(predicate)
    }
}

/// A property's name. In the `cbm` dialect it is written in lower case and matched without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PropertyName {
    /// The name, with dots where it reaches into mappings.
    pub text: Arc<str>,
    /// Whether the name is matched without regard to case; canonical text `ANYCASE(name)`.
    pub any_case: bool,
}

/// A part of the message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// The topic; never unknown.
    Topic,
    /// The body.
    Body,
    /// A property.
    Property(PropertyName),
}

impl Reference {
    /// The property called `name`, even if that is `topic` or `body`.
    #[must_use]
    pub fn property(name: &str) -> Self {
        Self::Property(PropertyName { text: name.into(), any_case: false })
    }

    /// The part called `name`: `topic`, `body`, or a property.
    #[must_use]
    pub fn part(name: &str) -> Self {
        match name {
            "topic" => Self::Topic,
            "body" => Self::Body,
            name => Self::property(name),
        }
    }
}

/// A value, or a computation on values.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A constant: bool, int, float, text, timestamp or day; never null, a list or a mapping.
    Literal(Value),
    /// A part of the message.
    Reference(Reference),
    /// `- operand`. The operand is no number literal, except for the smallest integer.
    Negate(Box<Operand>),
    /// `left op right`.
    Arithmetic(Box<Operand>, Arithmetic, Box<Operand>),
}

/// The arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`; concatenates two texts.
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`; always in floating point.
    Divide,
}

/// The comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// One test of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// `TRUE` or `FALSE`.
    Constant(bool),
    /// A bare identifier: its value when that is boolean, else unknown.
    Truth(Reference),
    /// `left op right`.
    Compare(Operand, Comparison, Operand),
    /// `operand BETWEEN low AND high`.
    Between(Operand, Operand, Operand),
    /// `operand IN (...)`.
    In(Operand, ValueSet),
    /// `operand LIKE 'pattern' [ESCAPE 'c']`.
    Like(Operand, LikePattern),
    /// `operand IS NULL`.
    IsNull(Operand),
    /// `EXISTS(reference)`: present, even if null or without a value. Never unknown.
    Exists(Reference),
    /// `CONTAINS(reference, 'word or phrase')`.
    Contains(Reference, Phrase),
    /// `NEAR(reference, 'a', 'b', n)`: two positions that differ by 1 to n.
    Near(Reference, Phrase, Phrase, u32),
    /// `TOPIC('pattern'[, 'dialect'])`.
    Topic(TopicPattern),
    /// `PREFIX(reference, 'x')`.
    Prefix(Reference, Box<str>),
    /// `REGEX(reference, 'r')`: a search.
    Regex(Reference, Pattern),
    /// `reference UNDER 'v'`.
    Under(Reference, Box<str>),
    /// An expensive predicate: `OPAQUE('name')` for people, which no parser reads.
    Opaque(Opaque),
}

impl Predicate {
    /// True where NOT is written inside the predicate: `NOT LIKE`, `IS NOT NULL`.
    fn takes_not_inside(&self) -> bool {
        matches!(self, Self::Between(..) | Self::In(..) | Self::Like(..) | Self::IsNull(_))
    }

    fn nesting(&self) -> usize {
        match self {
            Self::Compare(left, _, right) => left.nesting().max(right.nesting()),
            Self::Between(operand, low, high) => operand.nesting().max(low.nesting()).max(high.nesting()),
            Self::In(operand, _) | Self::Like(operand, _) | Self::IsNull(operand) => operand.nesting(),
            _ => 0,
        }
    }
}

impl Operand {
    /// The nesting of the canonical text.
    fn nesting(&self) -> usize {
        match self {
            Self::Literal(_) | Self::Reference(_) => 0,
            Self::Negate(inner) => 1 + usize::from(matches!(**inner, Self::Arithmetic(..))) + inner.nesting(),
            Self::Arithmetic(left, op, right) => {
                let left = usize::from(left.needs_parentheses_left_of(*op)) + left.nesting();
                left.max(usize::from(right.needs_parentheses_right_of(*op)) + right.nesting())
            }
        }
    }

    /// True for a property, and for nothing that is computed of one.
    #[must_use]
    pub fn is_property(&self) -> bool {
        matches!(self, Self::Reference(Reference::Property(_)))
    }

    /// True when the operand contains no part of the message, so that its value is the same for every message.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Reference(_) => false,
            Self::Negate(inner) => inner.is_constant(),
            Self::Arithmetic(left, _, right) => left.is_constant() && right.is_constant(),
        }
    }
}

/// The values of an IN list, in the order written, with a fast test of membership.
#[derive(Clone, Debug)]
pub struct ValueSet {
    values: Vec<Value>,
    /// Indices into `values`, by kind and then by value, without those that equal nothing.
    sorted: Vec<u32>,
    /// True when one of the values is a time.
    has_times: bool,
}

impl PartialEq for ValueSet {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl ValueSet {
    /// A set of literals (bool, int, float, text, timestamp, day).
    #[must_use]
    pub fn new(values: Vec<Value>) -> Self {
        let mut sorted: Vec<u32> = (0..).zip(&values).filter(|(_, v)| kind(v).is_some()).map(|(i, _)| i).collect();
        sorted.sort_by(|a, b| by_kind_and_value(&values[*a as usize], &values[*b as usize]));
        let has_times = values.iter().any(Value::is_time);
        Self { values, sorted, has_times }
    }

    /// The values in the order written.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// True when one of the values equals `value`, a scalar. Cost: a binary search.
    #[must_use]
    pub fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Timestamp(micros) => self.has_times && (self.finds(value) || self.finds(&Value::Day(*micros))),
            value => self.finds(value),
        }
    }

    /// Whether a property's value is contained. A text that reads as a time also counts as that time, which `as_time`
    /// reads: it is called only if one of the values is a time.
    #[inline]
    #[must_use]
    pub fn contains_read<T: Borrow<Value>>(&self, value: &Value, as_time: impl FnOnce() -> Option<T>) -> bool {
        self.contains(value) || self.has_times && as_time().is_some_and(|time| self.contains(time.borrow()))
    }

    fn finds(&self, value: &Value) -> bool {
        let find = || self.sorted.binary_search_by(|i| by_kind_and_value(&self.values[*i as usize], value));
        kind(value).is_some() && find().is_ok()
    }
}

/// The kind of a value. All values of one kind can be compared; None for values that equal nothing.
fn kind(value: &Value) -> Option<u8> {
    match value {
        Value::Bool(_) => Some(0),
        Value::Float(number) if number.is_nan() => None,
        Value::Int(_) | Value::Float(_) => Some(1),
        Value::Timestamp(_) => Some(2),
        Value::Text(_) => Some(3),
        Value::Day(_) => Some(4),
        _ => None,
    }
}

fn by_kind_and_value(a: &Value, b: &Value) -> Ordering {
    kind(a).cmp(&kind(b)).then_with(|| a.compare(b).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_equals_one_of_its_values() {
        let mut values = vec![Value::Null, Value::Float(f64::NAN), Value::Bool(true), Value::Timestamp(1)];
        values.extend((-20..20).map(|i| Value::Int(i * 3)));
        values.extend([0.5, -0.0, f64::INFINITY, 9_007_199_254_740_993.0, -9.25].map(Value::Float));
        values.extend([i64::MAX, i64::MIN, 9_007_199_254_740_993].map(Value::Int));
        values.extend(["", "x", "é", "1"].map(|text| Value::Text(text.into())));
        let mut wanted = values.clone();
        wanted.extend((-70..70).map(Value::Int));
        wanted.extend((-70..70).map(|i| Value::Float(f64::from(i) / 2.0)));
        wanted.extend(
            [9_007_199_254_740_992.0, 9_223_372_036_854_775_808.0, -9_223_372_036_854_775_808.0].map(Value::Float),
        );
        wanted.extend([Value::Bool(false), Value::Timestamp(0), Value::Present, Value::Text("X".into())]);
        values.push(Value::Day(86_400_000_000));
        wanted.extend([0, 86_400_000_000].map(Value::Timestamp));
        let set = ValueSet::new(values);
        for value in wanted {
            let is_one = set.values().iter().any(|one| one.compare(&value).is_some_and(Ordering::is_eq));
            assert_eq!(set.contains(&value), is_one, "{value:?}");
        }
    }
}

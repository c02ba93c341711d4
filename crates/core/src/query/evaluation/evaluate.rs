//! Evaluates a predicate in three-valued logic (Kleene, SQL-92).
//!
//! `residual.rs` joins predicates under AND, OR and NOT.

use crate::allowance::{COPY_NS, LONG_PHRASE_NS, NEAR_NS, PHRASE_NS};
use crate::hierarchy::{self, Hierarchies};
use crate::message::{Body, Message, Resolved, Value};
use crate::query::expr::{Arithmetic, Comparison, Operand, Predicate, Reference};
use crate::query::truth::Truth;
use crate::text::{Phrase, Signature};

/// Kleene OR when `deciding` is true, AND when it is false: the deciding value wins, then unknown.
fn fold(truths: impl Iterator<Item = Truth>, deciding: bool) -> Truth {
    let mut result = Some(!deciding);
    for truth in truths {
        match truth {
            Some(value) if value == deciding => return Some(deciding),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

impl Predicate {
    /// True, false or unknown (None) of `message`. Time is linear in the text that is read.
    #[must_use]
    pub fn evaluate(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Truth {
        match self {
            Self::Constant(truth) => Some(*truth),
            Self::Truth(reference) => each(reference.value(message), message, |value| match value {
                Value::Bool(truth) => Some(*truth),
                _ => None,
            }),
            Self::Compare(left, op, right) => compare_operands(left, *op, right, message),
            Self::Between(operand, low_operand, high_operand) => {
                let constant = low_operand.is_constant() && high_operand.is_constant();
                let (low, high) = (low_operand.scalar(message), high_operand.scalar(message));
                let one = |value: &Value| {
                    let above = compare_read(operand, value, Comparison::GreaterOrEqual, low_operand, &low);
                    let below = compare_read(operand, value, Comparison::LessOrEqual, high_operand, &high);
                    fold([above, below].into_iter(), false)
                };
                if constant { operand.each(message, one) } else { one(&operand.scalar(message)) }
            }
            Self::In(operand, values) if operand.is_property() => {
                operand.each(message, |value| known(value).map(|v| values.contains_read(v, || v.as_time())))
            }
            Self::In(operand, values) => operand.each(message, |value| known(value).map(|v| values.contains(v))),
            Self::Like(operand, pattern) => operand.each(message, |value| {
                text_test(value, |text| {
                    message.allowance().spend(text.len(), pattern.ns_per_byte()).then(|| pattern.is_match(text))
                })
            }),
            Self::IsNull(operand) => Some(operand.is_null(message)),
            Self::Exists(reference) => Some(!matches!(reference.value(message), Referent::Absent)),
            Self::Contains(reference, phrase) => {
                on_signature(reference, message, &[phrase], |signature| contains(signature, phrase, message))
            }
            Self::Near(reference, a, b, distance) => {
                on_signature(reference, message, &[a, b], |signature| near(signature, a, b, *distance, message))
            }
            Self::Topic(pattern) => Some(pattern.is_match(message.topic)),
            Self::Prefix(reference, prefix) => on_text(reference, message, |text| Some(text.starts_with(&**prefix))),
            Self::Regex(reference, pattern) => {
                on_text(reference, message, |text| pattern.is_match_within(text, message.allowance()))
            }
            Self::Under(reference, ancestor) => {
                let Reference::Property(name) = reference else { return None };
                let hierarchy = hierarchy::of_attribute(hierarchies?, name)?;
                on_text(reference, message, |text| Some(hierarchy.is_under(text, ancestor)))
            }
            Self::Opaque(opaque) => opaque.evaluate(message),
        }
    }
}

/// The referent of a reference: nothing, one value, several (a list), or text of the message itself.
#[derive(Debug)]
pub enum Referent<'a> {
    /// The property is absent, or there is no body.
    Absent,
    /// One value.
    One(&'a Value),
    /// The elements of a list.
    Many(Vec<&'a Value>),
    /// The topic or a body that is text.
    Text(&'a str),
    /// A body that is not text: it exists, but is unknown to every predicate.
    Binary,
}

impl Reference {
    /// The part of `message` that this reference refers to.
    #[must_use]
    pub fn value<'a>(&self, message: &Message<'a>) -> Referent<'a> {
        match self {
            Self::Topic => Referent::Text(message.topic),
            Self::Body => match message.body {
                Body::Absent => Referent::Absent,
                Body::Text(text) => Referent::Text(text),
                Body::Binary(_) => Referent::Binary,
            },
            Self::Property(name) => match message.look_up(&name.text, name.any_case) {
                None => Referent::Absent,
                Some(Resolved::One(value)) => Referent::One(value),
                Some(Resolved::Many(values)) => Referent::Many(values),
            },
        }
    }
}

/// Applies a predicate to a list: true if true of one element, false if false of all, else unknown.
fn each(referent: Referent<'_>, message: &Message<'_>, test: impl Fn(&Value) -> Truth) -> Truth {
    match referent {
        Referent::Absent | Referent::Binary => None,
        Referent::Text(text) if !message.allowance().spend(text.len(), COPY_NS) => None,
        Referent::One(value) => test(value),
        Referent::Many(values) => fold(values.into_iter().map(test), true),
        Referent::Text(text) => test(&Value::Text(text.into())),
    }
}

/// A test of text: unknown for null, false for other values that are no text.
fn text_test(value: &Value, test: impl Fn(&str) -> Truth) -> Truth {
    match value {
        Value::Text(text) => test(text),
        value => known(value).map(|_| false),
    }
}

fn on_text(reference: &Reference, message: &Message<'_>, test: impl Fn(&str) -> Truth) -> Truth {
    match reference.value(message) {
        Referent::Text(text) => test(text), // no copy of a body
        other => each(other, message, |value| text_test(value, &test)),
    }
}

fn on_signature(
    reference: &Reference,
    message: &Message<'_>,
    phrases: &[&Phrase],
    test: impl Fn(&Signature) -> Truth,
) -> Truth {
    match (reference, message.body) {
        (Reference::Body, Body::Text(body)) if message.can_read_words(body) => {
            let signature = message.signature(body);
            if phrases.iter().all(|phrase| signature.is_complete_for(phrase)) {
                test(signature)
            } else {
                test(message.full_signature(body))
            }
        }
        (Reference::Body, Body::Text(_)) => None,
        _ => on_text(reference, message, |text| message.with_signature_of(text, &test).flatten()),
    }
}

/// Whether a phrase occurs. A phrase of several words takes time for each place of its first.
fn contains(signature: &Signature, phrase: &Phrase, message: &Message<'_>) -> Truth {
    if message.allowance().is_unlimited() {
        return Some(signature.contains(phrase));
    }
    let (steps, ns) = match phrase.words() {
        [_] => (0, 0),
        [first, rest @ ..] if !phrase.is_long() => (signature.positions(first).len() * rest.len(), PHRASE_NS),
        _ => (signature.word_count() as usize, LONG_PHRASE_NS),
    };
    message.allowance().spend(steps, ns).then(|| signature.contains(phrase))
}

/// Whether two words are near each other. It takes time for each place of either.
fn near(signature: &Signature, a: &Phrase, b: &Phrase, distance: u32, message: &Message<'_>) -> Truth {
    if message.allowance().is_unlimited() {
        return Some(signature.near(a, b, distance).is_some());
    }
    let steps = signature.positions(&a.words()[0]).len() + signature.positions(&b.words()[0]).len();
    message.allowance().spend(steps, 2 * NEAR_NS).then(|| signature.near(a, b, distance).is_some())
}

fn known(value: &Value) -> Option<&Value> {
    (!value.is_unknown()).then_some(value)
}

/// Compares two scalars; None when one of them is unknown. Values of unlike types are `<>` and nothing else.
pub fn compare(left: &Value, op: Comparison, right: &Value) -> Truth {
    if left.is_unknown() || right.is_unknown() {
        return None;
    }
    if let (Value::Text(left), Comparison::Equal, Value::Text(right)) = (left, op, right) {
        return Some(left == right); // most differ in length, or at once
    }
    let order = left.compare(right);
    Some(match op {
        Comparison::Equal => order.is_some_and(|o| o.is_eq()),
        Comparison::NotEqual => order.is_none_or(|o| o.is_ne()),
        Comparison::Less => order.is_some_and(|o| o.is_lt()),
        Comparison::LessOrEqual => order.is_some_and(|o| o.is_le()),
        Comparison::Greater => order.is_some_and(|o| o.is_gt()),
        Comparison::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
    })
}

/// Compares the values of two operands. Beside a time, a property that is a text is read as one.
fn compare_read(left: &Operand, value: &Value, op: Comparison, right: &Operand, other: &Value) -> Truth {
    let read = |operand: &Operand, value: &Value, beside: &Value| {
        if operand.is_property() { value.as_time_beside(beside) } else { None }
    };
    if let Some(value) = read(left, value, other) {
        return compare(&value, op, other);
    }
    match read(right, other, value) {
        Some(other) => compare(value, op, &other),
        None => compare(value, op, other),
    }
}

fn compare_operands(left: &Operand, op: Comparison, right: &Operand, message: &Message<'_>) -> Truth {
    // A list is compared with a constant element by element; with anything from the message it is unknown.
    if let Operand::Literal(literal) = right {
        // The usual case, without a copy of the literal.
        if literal.is_time() {
            left.each(message, |value| compare_read(left, value, op, right, literal))
        } else {
            left.each(message, |value| compare(value, op, literal))
        }
    } else if right.is_constant() {
        let right = right.scalar(message);
        left.each(message, |value| compare(value, op, &right))
    } else if left.is_constant() {
        let constant = left.scalar(message);
        right.each(message, |value| compare_read(left, &constant, op, right, value))
    } else {
        compare_read(left, &left.scalar(message), op, right, &right.scalar(message))
    }
}

impl Operand {
    /// Tests the operand's value, or each element when it is a list.
    fn each(&self, message: &Message<'_>, test: impl Fn(&Value) -> Truth) -> Truth {
        match self {
            Self::Reference(reference) => each(reference.value(message), message, test),
            computed => test(&computed.scalar(message)),
        }
    }

    /// The operand as one value; null when it is absent, unknown or a list.
    #[must_use]
    pub fn scalar(&self, message: &Message<'_>) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) => match reference.value(message) {
                Referent::One(value) => value.clone(),
                Referent::Text(text) if message.allowance().spend(text.len(), COPY_NS) => Value::Text(text.into()),
                Referent::Text(_) | Referent::Absent | Referent::Many(_) | Referent::Binary => Value::Null,
            },
            Self::Negate(inner) => match inner.scalar(message) {
                Value::Int(value) => value.checked_neg().map_or(Value::Null, Value::Int),
                Value::Float(value) => Value::Float(-value),
                _ => Value::Null,
            },
            Self::Arithmetic(left, op, right) => arithmetic(left.scalar(message), *op, right.scalar(message), message),
        }
    }

    /// IS NULL: absent, null or (if computed) unknown. A field without a value is not null.
    fn is_null(&self, message: &Message<'_>) -> bool {
        match self {
            Self::Reference(reference) => match reference.value(message) {
                Referent::Absent => true,
                Referent::One(value) => matches!(value, Value::Null),
                Referent::Many(_) | Referent::Text(_) | Referent::Binary => false,
            },
            computed => computed.scalar(message).is_unknown(),
        }
    }
}

/// Integers stay exact and overflow to unknown; `/` always computes in floating point; a division by zero is unknown.
fn arithmetic(left: Value, op: Arithmetic, right: Value, message: &Message<'_>) -> Value {
    let exact = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
    match (left, op, right) {
        (Value::Text(a), Arithmetic::Add, Value::Text(b)) => {
            let can_copy = message.allowance().spend(a.len() + b.len(), COPY_NS);
            if can_copy { Value::Text((String::from(a) + &b).into()) } else { Value::Null }
        }
        (Value::Int(a), Arithmetic::Add, Value::Int(b)) => exact(a.checked_add(b)),
        (Value::Int(a), Arithmetic::Subtract, Value::Int(b)) => exact(a.checked_sub(b)),
        (Value::Int(a), Arithmetic::Multiply, Value::Int(b)) => exact(a.checked_mul(b)),
        (a, op, b) => match (as_float(&a), as_float(&b)) {
            (Some(a), Some(b)) => match op {
                Arithmetic::Add => Value::Float(a + b),
                Arithmetic::Subtract => Value::Float(a - b),
                Arithmetic::Multiply => Value::Float(a * b),
                Arithmetic::Divide if b == 0.0 => Value::Null,
                Arithmetic::Divide => Value::Float(a / b),
            },
            _ => Value::Null,
        },
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "mixed arithmetic is in floating point")]
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

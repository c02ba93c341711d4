//! Encodes queries into records.

use crate::expensive::{Opaque, OpaqueTable};
use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Expr, Operand, Predicate, Reference};

use super::tags::*;

/// Append the record of `query` to `bytes`, and its expensive predicates to the table that decoding needs.
pub fn encode(query: &Query, bytes: &mut Vec<u8>, opaques: &mut OpaqueTable) {
    bytes.push(u8::from(query.is_fields()));
    encode_expr(query.expr(), bytes, opaques);
}

fn encode_expr(expr: &Expr, bytes: &mut Vec<u8>, opaques: &mut OpaqueTable) {
    match expr {
        Expr::Predicate(predicate) => encode_predicate(predicate, bytes, opaques),
        Expr::Not(inner) => {
            bytes.push(NOT);
            encode_expr(inner, bytes, opaques);
        }
        Expr::And(children) | Expr::Or(children) => {
            bytes.push(if matches!(expr, Expr::And(_)) { AND } else { OR });
            encode_count(children.len(), bytes);
            children.iter().for_each(|child| encode_expr(child, bytes, opaques));
        }
    }
}

fn encode_predicate(predicate: &Predicate, bytes: &mut Vec<u8>, opaques: &mut OpaqueTable) {
    match predicate {
        Predicate::Constant(truth) => bytes.extend([CONSTANT, u8::from(*truth)]),
        Predicate::Truth(reference) => encode_tagged(TRUTH, reference, bytes),
        Predicate::Compare(left, op, right) => {
            bytes.extend([COMPARE, index_in(&COMPARISONS, op)]);
            encode_operand(left, bytes);
            encode_operand(right, bytes);
        }
        Predicate::Between(operand, low, high) => {
            bytes.push(BETWEEN);
            [operand, low, high].into_iter().for_each(|operand| encode_operand(operand, bytes));
        }
        Predicate::In(operand, values) => {
            bytes.push(IN);
            encode_operand(operand, bytes);
            encode_count(values.values().len(), bytes);
            values.values().iter().for_each(|value| encode_value(value, bytes));
        }
        Predicate::Like(operand, pattern) => {
            bytes.push(LIKE);
            encode_operand(operand, bytes);
            encode_text(pattern.pattern(), bytes);
            encode_text(&pattern.escape().map(String::from).unwrap_or_default(), bytes);
        }
        Predicate::IsNull(operand) => {
            bytes.push(IS_NULL);
            encode_operand(operand, bytes);
        }
        Predicate::Exists(reference) => encode_tagged(EXISTS, reference, bytes),
        Predicate::Contains(reference, phrase) => {
            encode_tagged(CONTAINS, reference, bytes);
            encode_text(phrase.text(), bytes);
        }
        Predicate::Near(reference, a, b, distance) => {
            encode_tagged(NEAR, reference, bytes);
            encode_text(a.text(), bytes);
            encode_text(b.text(), bytes);
            encode_count(*distance as usize, bytes);
        }
        Predicate::Topic(pattern) => {
            bytes.extend([TOPIC_PATTERN, index_in(&DIALECTS, &pattern.dialect())]);
            encode_text(pattern.text(), bytes);
        }
        Predicate::Prefix(reference, prefix) => {
            encode_tagged(PREFIX, reference, bytes);
            encode_text(prefix, bytes);
        }
        Predicate::Regex(reference, pattern) => {
            encode_tagged(REGEX, reference, bytes);
            encode_text(pattern.as_str(), bytes);
        }
        Predicate::Under(reference, ancestor) => {
            encode_tagged(UNDER, reference, bytes);
            encode_text(ancestor, bytes);
        }
        Predicate::Opaque(opaque) => {
            bytes.push(OPAQUE);
            encode_count(opaques.index_of(opaque), bytes);
        }
    }
}

fn encode_tagged(tag: u8, reference: &Reference, bytes: &mut Vec<u8>) {
    bytes.push(tag);
    encode_reference(reference, bytes);
}

fn encode_reference(reference: &Reference, bytes: &mut Vec<u8>) {
    match reference {
        Reference::Topic => bytes.push(TOPIC),
        Reference::Body => bytes.push(BODY),
        Reference::Property(name) => {
            bytes.push(if name.any_case { PROPERTY_ANY_CASE } else { PROPERTY });
            encode_text(&name.text, bytes);
        }
    }
}

fn encode_operand(operand: &Operand, bytes: &mut Vec<u8>) {
    match operand {
        Operand::Literal(value) => {
            bytes.push(LITERAL);
            encode_value(value, bytes);
        }
        Operand::Reference(reference) => encode_tagged(REFERENCE, reference, bytes),
        Operand::Negate(inner) => {
            bytes.push(NEGATE);
            encode_operand(inner, bytes);
        }
        Operand::Arithmetic(left, op, right) => {
            bytes.extend([ARITHMETIC, index_in(&ARITHMETICS, op)]);
            encode_operand(left, bytes);
            encode_operand(right, bytes);
        }
    }
}

fn encode_value(value: &Value, bytes: &mut Vec<u8>) {
    let mut number = |tag, bits: u64| {
        bytes.push(tag);
        bytes.extend(bits.to_le_bytes());
    };
    match value {
        Value::Bool(false) => bytes.push(FALSE),
        Value::Bool(true) => bytes.push(TRUE),
        Value::Int(value) => number(INT, value.cast_unsigned()),
        Value::Float(value) => number(FLOAT, value.to_bits()),
        Value::Timestamp(micros) => number(TIMESTAMP, micros.cast_unsigned()),
        Value::Day(micros) => number(DAY, micros.cast_unsigned()),
        Value::Text(text) => {
            bytes.push(TEXT);
            encode_text(text, bytes);
        }
        Value::Present => bytes.push(PRESENT),
        // A literal is never a list or a mapping. If it were, every comparison with it would be unknown, as with null.
        Value::Null | Value::List(_) | Value::Map(_) => bytes.push(NULL),
    }
}

/// Append the length of a text, and the text.
pub fn encode_text(text: &str, bytes: &mut Vec<u8>) {
    encode_count(text.len(), bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// Append a count as LEB128: seven bits per byte, the low ones first.
pub fn encode_count(count: usize, bytes: &mut Vec<u8>) {
    let mut remaining = count as u64;
    while remaining >= 0x80 {
        bytes.push(remaining as u8 | 0x80);
        remaining >>= 7;
    }
    bytes.push(remaining as u8);
}

/// The index of `item` in the table that the format numbers it by.
fn index_in<T: PartialEq>(table: &[T], item: &T) -> u8 {
    let index = table.iter().position(|other| other == item).expect("every operator is in its table");
    u8::try_from(index).expect("a table has fewer than 256 operators")
}

/// Append the names and costs of expensive predicates.
pub fn encode_opaques(opaques: &[Opaque], bytes: &mut Vec<u8>) {
    for opaque in opaques {
        encode_text(opaque.name(), bytes);
        bytes.extend(opaque.cost_ns().to_bits().to_le_bytes());
    }
}

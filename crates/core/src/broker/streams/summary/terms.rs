//! The terms of a summary, which are hashes of what occurs, and the keys by which numbers, times and texts are ordered.

use crate::index::hash::hash_bytes;
use crate::message::Value;

/// The kinds of terms and ranges: seeds of their hashes, which are on disk.
const TOPIC: u64 = 1;
const PROPERTY: u64 = 2;
const PRESENT: u64 = 3;
const TEXT: u64 = 4;
const NUMBER: u64 = 5;
const BOOL: u64 = 6;
pub(super) const NUMBERS: u64 = 7;
pub(super) const TIMES: u64 = 8;
pub(super) const TEXTS: u64 = 9;

pub(super) fn hash(kind: u64, part: u64) -> u64 {
    hash_bytes(kind, &part.to_le_bytes())
}

pub(super) fn topic() -> u64 {
    hash_bytes(TOPIC, b"")
}

pub(super) fn property(name: &str) -> u64 {
    hash_bytes(PROPERTY, name.as_bytes())
}

pub(super) fn present(part: u64) -> u64 {
    hash(PRESENT, part)
}

pub(super) fn equal_text(part: u64, text: &str) -> u64 {
    hash(part, hash_bytes(TEXT, text.as_bytes()))
}

/// The term of a number or Boolean; of any other value, which equals nothing, one that nobody seeks.
pub(super) fn equal(part: u64, value: &Value) -> u64 {
    match (value, number_of(value)) {
        (Value::Bool(truth), _) => hash(part, hash(BOOL, u64::from(*truth))),
        (_, Some(number)) => hash(part, hash(NUMBER, (number + 0.0).to_bits())), // -0.0 + 0.0 is 0.0
        _ => present(part),
    }
}

/// A number as the nearest float: equal numbers have the same one.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "rounding keeps the order of numbers")]
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

pub(super) fn time_of(text: &str) -> Option<Value> {
    // A quick look that tells most texts from times.
    if !matches!(text.as_bytes(), [b'0'..=b'9', _, _, _, b'-', _, _, b'-', _, _, ..]) {
        return None;
    }
    crate::instant::instant(text).map(Value::Timestamp).or_else(|| crate::instant::day(text).map(Value::Day))
}

/// A key that orders numbers.
pub(super) fn order_of_number(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

pub(super) fn order_of_time(micros: i64) -> u64 {
    micros.cast_unsigned() ^ 1 << 63
}

/// A key that orders texts: its first eight bytes, with `padding` for those that it lacks.
pub(super) fn order_of_text(text: &str, padding: u8) -> u64 {
    let mut bytes = [padding; 8];
    let length = text.len().min(8);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

//! The hash of an access key: an attribute and a value. Part of the snapshot's format, so it never changes
//! between versions, machines or byte orders.
//!
//! A collision only adds a candidate, which is then evaluated in full; hashes need to spread well, not to be unique.

use crate::message::Value;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio, odd
const LENGTH: u64 = 0xd6e8_feb8_6659_fd93;
const TOPIC: u64 = 0x2545_f491_4f6c_dd1d;
const PROPERTY: u64 = 0x8f1b_bcdc_bfa5_3e0b;

/// What a key asks about: the topic, or one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeHash(u64);

impl AttributeHash {
    /// The message's topic.
    pub const TOPIC: Self = Self(TOPIC);

    /// The property called `name`.
    #[must_use]
    pub fn property(name: &str) -> Self {
        Self(hash_bytes(PROPERTY, name.as_bytes()))
    }

    /// The key of a text.
    #[must_use]
    pub fn text(self, text: &str) -> u64 {
        hash_bytes(self.of_kind(1), text.as_bytes())
    }

    /// The key of a scalar; None of null, a field without a value, a list and a mapping, which equal nothing.
    /// Values that compare as equal have equal keys: 1 and 1.0, 0.0 and -0.0.
    #[must_use]
    pub fn value(self, value: &Value) -> Option<u64> {
        let number = |kind, bits: u64| Some(hash_bytes(self.of_kind(kind), &bits.to_le_bytes()));
        match value {
            Value::Text(text) => Some(self.text(text)),
            Value::Bool(truth) => number(2, u64::from(*truth)),
            Value::Int(value) => number(3, value.cast_unsigned()),
            Value::Float(value) => match exact_integer(*value) {
                Some(integer) => number(3, integer.cast_unsigned()),
                None => number(4, value.to_bits()),
            },
            Value::Timestamp(micros) => number(5, micros.cast_unsigned()),
            Value::Null | Value::Present | Value::List(_) | Value::Map(_) => None,
        }
    }

    fn of_kind(self, kind: u64) -> u64 {
        fold(self.0 ^ kind, MULTIPLIER)
    }
}

/// The 64-bit integer that `float` equals exactly, if there is one.
fn exact_integer(float: f64) -> Option<i64> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the range of i64")]
    (float.trunc() == float && (-TWO_63..TWO_63).contains(&float)).then_some(float as i64)
}

/// Folded multiplication, eight bytes a step.
fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(LENGTH);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), MULTIPLIER);
    }
    fold(state ^ LENGTH, MULTIPLIER)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_equal_have_one_key_and_others_their_own() {
        let attribute = AttributeHash::property("a");
        let key = |value: Value| attribute.value(&value);
        assert_eq!(key(Value::Int(1)), key(Value::Float(1.0)));
        assert_eq!(key(Value::Float(0.0)), key(Value::Float(-0.0)));
        assert_eq!(key(Value::Int(i64::MIN)), key(Value::Float(-9_223_372_036_854_775_808.0)));
        assert_ne!(key(Value::Int(i64::MAX)), key(Value::Float(9_223_372_036_854_775_808.0)));
        assert_ne!(key(Value::Int(1)), key(Value::Bool(true)));
        assert_ne!(key(Value::Int(1)), key(Value::Timestamp(1)));
        assert_ne!(key(Value::Text("1".into())), key(Value::Int(1)));
        assert_ne!(key(Value::Text("a".into())), key(Value::Text("a\0".into())));
        assert_ne!(AttributeHash::property("topic").text("x"), AttributeHash::TOPIC.text("x"));
        assert_eq!(key(Value::Null), None);
    }

    #[test]
    fn the_hash_is_part_of_the_file_format() {
        assert_eq!(AttributeHash::property("symbol").text("IBM Corporation"), 9_232_997_543_643_354_272);
    }
}

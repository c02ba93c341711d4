//! Properties as Spark's variant, which keeps types, times and fields without a value, unlike JSON.
//!
//! `index::batch` reads the same properties back. Source: Apache Parquet, "Variant Binary Encoding", version 1.

use std::collections::BTreeMap;

use crate::message::{NESTING_MAX, Properties, Value};

/// The maximum size of each part of a variant: Spark refuses larger ones.
pub const VARIANT_BYTES_MAX: usize = 16 << 20;

/// A field without a value is encoded as bytes that are no text, and decoded from just these.
const PRESENT: [u8; 1] = [0xff];

/// Properties in two pieces, as Spark stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The encoded values.
    pub value: Vec<u8>,
    /// The names that the values refer to.
    pub metadata: Vec<u8>,
}

/// Encodes `properties`. Cost: linear, and sorting the names.
///
/// # Errors
/// Nesting deeper than [`NESTING_MAX`], or more than [`VARIANT_BYTES_MAX`].
pub fn encode(properties: &Properties) -> Result<Variant, String> {
    let mut names = BTreeMap::new();
    gather(properties, 0, &mut names)?;
    let metadata = metadata(&mut names);
    let mut value = Vec::new();
    object(properties, &names, &mut value);
    if value.len().max(metadata.len()) > VARIANT_BYTES_MAX {
        return Err(format!("expected properties of at most {VARIANT_BYTES_MAX} bytes"));
    }
    Ok(Variant { value, metadata })
}

/// All names in `properties`, sorted, and whether they nest too deep. After this check the depth is bounded.
fn gather<'a>(properties: &'a Properties, depth: usize, names: &mut BTreeMap<&'a str, usize>) -> Result<(), String> {
    for (name, value) in properties {
        names.insert(name, 0);
        gather_value(value, depth + 1, names)?;
    }
    Ok(())
}

fn gather_value<'a>(value: &'a Value, depth: usize, names: &mut BTreeMap<&'a str, usize>) -> Result<(), String> {
    if depth > NESTING_MAX {
        return Err(format!("expected properties that nest no deeper than {NESTING_MAX}"));
    }
    match value {
        Value::Map(inner) => gather(inner, depth, names),
        Value::List(values) => values.iter().try_for_each(|value| gather_value(value, depth + 1, names)),
        _ => Ok(()),
    }
}

/// Numbers the names, and encodes them.
fn metadata(names: &mut BTreeMap<&str, usize>) -> Vec<u8> {
    const VERSION: u8 = 1;
    const SORTED: u8 = 1 << 4;
    let size_bytes = names.keys().map(|name| name.len()).sum::<usize>();
    let width = width_of(size_bytes.max(names.len()));
    let mut out = vec![VERSION | SORTED | ((width - 1) as u8) << 6];
    put_number(&mut out, names.len(), width);
    let mut end = 0;
    put_number(&mut out, end, width);
    for (id, (name, number)) in names.iter_mut().enumerate() {
        *number = id;
        end += name.len();
        put_number(&mut out, end, width);
    }
    names.keys().for_each(|name| out.extend_from_slice(name.as_bytes()));
    out
}

fn object(properties: &Properties, names: &BTreeMap<&str, usize>, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = properties.iter().map(|(name, value)| (names[&**name], value)).collect();
    fields.sort_unstable_by_key(|(id, _)| *id);
    let id_width = width_of(names.len());
    let (ends, values) = elements(fields.iter().map(|(_, value)| *value), names);
    let offset_width = width_of(values.len());
    let is_large = fields.len() > usize::from(u8::MAX);
    let detail = (offset_width - 1) | (id_width - 1) << 2 | usize::from(is_large) << 4;
    out.push((detail as u8) << 2 | 2);
    put_number(out, fields.len(), if is_large { 4 } else { 1 });
    fields.iter().for_each(|(id, _)| put_number(out, *id, id_width));
    put_elements(out, &ends, &values, offset_width);
}

fn array(list: &[Value], names: &BTreeMap<&str, usize>, out: &mut Vec<u8>) {
    let (ends, values) = elements(list.iter(), names);
    let offset_width = width_of(values.len());
    let is_large = list.len() > usize::from(u8::MAX);
    let detail = (offset_width - 1) | usize::from(is_large) << 2;
    out.push((detail as u8) << 2 | 3);
    put_number(out, list.len(), if is_large { 4 } else { 1 });
    put_elements(out, &ends, &values, offset_width);
}

/// The encoded values one after another, and where each of them ends.
fn elements<'a>(values: impl Iterator<Item = &'a Value>, names: &BTreeMap<&str, usize>) -> (Vec<usize>, Vec<u8>) {
    let mut bytes = Vec::new();
    let ends = values.map(|value| {
        put_value(value, names, &mut bytes);
        bytes.len()
    });
    (ends.collect(), bytes)
}

fn put_elements(out: &mut Vec<u8>, ends: &[usize], values: &[u8], width: usize) {
    put_number(out, 0, width);
    ends.iter().for_each(|end| put_number(out, *end, width));
    out.extend_from_slice(values);
}

fn put_value(value: &Value, names: &BTreeMap<&str, usize>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(primitive(0)),
        Value::Bool(true) => out.push(primitive(1)),
        Value::Bool(false) => out.push(primitive(2)),
        Value::Int(number) => put_int(*number, out),
        Value::Float(number) => put_primitive(7, &number.to_le_bytes(), out),
        Value::Timestamp(micros) | Value::Day(micros) => put_primitive(12, &micros.to_le_bytes(), out),
        Value::Present => put_bytes(15, &PRESENT, out),
        Value::Text(text) if text.len() < 64 => {
            out.push((text.len() as u8) << 2 | 1);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Text(text) => put_bytes(16, text.as_bytes(), out),
        Value::Map(properties) => object(properties, names, out),
        Value::List(values) => array(values, names, out),
    }
}

/// Encodes an integer in the smallest type that holds it, as Spark does.
fn put_int(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_le_bytes();
    match number {
        -0x80..=0x7f => put_primitive(3, &bytes[..1], out),
        -0x8000..=0x7fff => put_primitive(4, &bytes[..2], out),
        -0x8000_0000..=0x7fff_ffff => put_primitive(5, &bytes[..4], out),
        _ => put_primitive(6, &bytes, out),
    }
}

const fn primitive(kind: u8) -> u8 {
    kind << 2
}

fn put_primitive(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(primitive(kind));
    out.extend_from_slice(bytes);
}

fn put_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(primitive(kind));
    put_number(out, bytes.len(), 4);
    out.extend_from_slice(bytes);
}

/// The number of bytes that holds numbers up to `most`.
fn width_of(most: usize) -> usize {
    match most {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

fn put_number(out: &mut Vec<u8>, number: usize, width: usize) {
    out.extend_from_slice(&number.to_le_bytes()[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::batch::variant::decode;
    use crate::testing::fewer;

    fn assert_round_trip(properties: &Properties) {
        let Variant { value, metadata } = encode(properties).expect("a variant");
        assert_eq!(decode(&value, &metadata).as_ref(), Ok(&Value::Map(properties.clone())));
    }

    #[test]
    fn every_value_comes_back() {
        let list = vec![Value::Null, Value::Present, Value::Bool(true), Value::Bool(false), Value::List(vec![])];
        let scalars = [0, -1, 127, 128, -32_768, 32_768, i64::MAX, i64::MIN].map(Value::Int);
        let texts = [0, 63, 64, 300].map(|length| Value::Text("\u{e9}".repeat(length).into()));
        let inner: Properties =
            [("a".into(), Value::Timestamp(-5)), ("\u{1F600}".into(), Value::Float(1e300))].into_iter().collect();
        let properties: Properties = [
            ("list".into(), Value::List(list)),
            ("scalars".into(), Value::List(scalars.into())),
            ("texts".into(), Value::List(texts.into())),
            ("".into(), Value::Map(inner)),
            ("b".into(), Value::Map(Properties::default())),
        ]
        .into_iter()
        .collect();
        assert_round_trip(&properties);
        assert_round_trip(&Properties::default());
    }

    #[test]
    fn many_names_and_values_take_wider_numbers() {
        for count in [255, 256, fewer(70_000) as i64] {
            let names = (0..count).map(|number| (format!("name {number}").into(), Value::Int(number)));
            assert_round_trip(&names.collect());
            let list = Value::List((0..count).map(Value::Int).collect());
            assert_round_trip(&[("list".into(), list)].into_iter().collect());
        }
    }

    #[test]
    fn what_is_too_deep_or_too_large_is_refused() {
        let nested = |depth: usize| {
            let inner = (1..depth).fold(Value::Int(1), |value, _| Value::List(vec![value]));
            Properties::from_iter([("a".into(), inner)])
        };
        assert_round_trip(&nested(NESTING_MAX));
        assert!(encode(&nested(NESTING_MAX + 1)).expect_err("too deep").contains("nest"));
        let large = Value::Text("x".repeat(VARIANT_BYTES_MAX).into());
        assert!(encode(&[("a".into(), large)].into_iter().collect()).expect_err("too large").contains("bytes"));
    }
}

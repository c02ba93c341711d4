//! The variant encoding: semi-structured values as Spark 4 gives them to Arrow, a struct of two binaries.
//!
//! Source: Apache Parquet, "Variant Binary Encoding", version 1. The bytes are not trusted: offsets are checked, nesting is
//! bounded, and no more values are decoded than there are bytes, however often offsets are repeated.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::DataType;

use super::column::{BytesDecoder, ValueDecoder, decimal_value, text_value, texts};
use crate::message::{NESTING_MAX, Properties, Value};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The decoder of `array`; None unless it is a struct of two binaries, `value` and `metadata`.
pub fn value_decoder(array: &dyn Array) -> Option<ValueDecoder<'_>> {
    if !matches!(array.data_type(), DataType::Struct(fields) if fields.len() == 2) {
        return None;
    }
    let parent = array.as_struct();
    let binary = |name: &str| -> Option<BytesDecoder<'_>> {
        let column = parent.column_by_name(name)?;
        let is_binary = matches!(column.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        if is_binary { texts(column) } else { None }
    };
    let (values, metadata) = (binary("value")?, binary("metadata")?);
    Some(Box::new(move |row| match (values(row), metadata(row)) {
        (Some(value), Some(metadata)) if parent.is_valid(row) => decode(value, metadata),
        _ => Ok(Value::Null),
    }))
}

/// The value that `value` encodes, with names from `metadata`.
///
/// # Errors
/// Bytes that are no variant, or a type that no property can have.
pub fn decode(value: &[u8], metadata: &[u8]) -> Result<Value, String> {
    let names = VariantNames::new(metadata).ok_or("the metadata of the variant cannot be read")?;
    VariantDecoder { names, budget: value.len() }.value(value, 0)
}

/// The dictionary of field names.
struct VariantNames<'a> {
    metadata: &'a [u8],
    offset_bytes: usize,
    count: usize,
}

impl<'a> VariantNames<'a> {
    fn new(metadata: &'a [u8]) -> Option<Self> {
        let header = *metadata.first()?;
        let offset_bytes = usize::from(header >> 6) + 1;
        let count = number(metadata, 1, offset_bytes)?;
        (header & 0x0f == 1).then_some(Self { metadata, offset_bytes, count })
    }

    fn get(&self, id: usize) -> Option<&'a str> {
        let offset = |index: usize| number(self.metadata, 1 + self.offset_bytes * (1 + index), self.offset_bytes);
        let texts = 1 + self.offset_bytes * (self.count + 2);
        let (start, end) = (offset(id)?, offset(id + 1)?);
        std::str::from_utf8(self.metadata.get(texts.checked_add(start)?..texts.checked_add(end)?)?)
            .ok()
            .filter(|_| id < self.count)
    }
}

/// Decodes a value.
struct VariantDecoder<'a> {
    names: VariantNames<'a>,
    /// The number of values that may still be decoded: a valid one takes at least a byte of its own.
    budget: usize,
}

impl VariantDecoder<'_> {
    fn value(&mut self, bytes: &[u8], depth: usize) -> Result<Value, String> {
        const CUT: &str = "the variant ends too early";
        if depth > NESTING_MAX {
            return Err(format!("expected nesting of at most {NESTING_MAX}"));
        }
        self.budget = self.budget.checked_sub(1).ok_or("the variant repeats its own parts")?;
        let (header, contents) = bytes.split_first().ok_or(CUT)?;
        let detail = header >> 2;
        match header & 3 {
            0 => primitive(detail, contents),
            1 => contents.get(..usize::from(detail)).map(text_value).ok_or_else(|| CUT.to_owned()),
            2 => self.object(detail, contents, depth),
            _ => self.array(detail, contents, depth),
        }
    }

    fn object(&mut self, detail: u8, bytes: &[u8], depth: usize) -> Result<Value, String> {
        const CUT: &str = "an object of the variant ends too early";
        let offset_bytes = usize::from(detail & 3) + 1;
        let id_bytes = usize::from(detail >> 2 & 3) + 1;
        let count_bytes = if detail & 0x10 == 0 { 1 } else { 4 };
        let count = number(bytes, 0, count_bytes).ok_or(CUT)?;
        let offsets = count_bytes + count * id_bytes;
        let values = offsets + (count + 1) * offset_bytes;
        let mut properties = Properties::default();
        for index in 0..count {
            let id = number(bytes, count_bytes + index * id_bytes, id_bytes).ok_or(CUT)?;
            let name = self.names.get(id).ok_or("a field of the variant has no name")?;
            let offset = number(bytes, offsets + index * offset_bytes, offset_bytes).ok_or(CUT)?;
            let value = self.value(bytes.get(values + offset..).ok_or(CUT)?, depth + 1)?;
            properties.insert(name.into(), value);
        }
        Ok(Value::Map(properties))
    }

    fn array(&mut self, detail: u8, bytes: &[u8], depth: usize) -> Result<Value, String> {
        const CUT: &str = "an array of the variant ends too early";
        let offset_bytes = usize::from(detail & 3) + 1;
        let count_bytes = if detail & 4 == 0 { 1 } else { 4 };
        let count = number(bytes, 0, count_bytes).ok_or(CUT)?;
        let values = count_bytes + (count + 1) * offset_bytes;
        let mut elements = Vec::new();
        for index in 0..count {
            let offset = number(bytes, count_bytes + index * offset_bytes, offset_bytes).ok_or(CUT)?;
            elements.push(self.value(bytes.get(values + offset..).ok_or(CUT)?, depth + 1)?);
        }
        Ok(Value::List(elements))
    }
}

fn primitive(kind: u8, bytes: &[u8]) -> Result<Value, String> {
    const CUT: &str = "a value of the variant ends too early";
    let integer = |start: usize, width: usize| signed(bytes, start, width).ok_or(CUT);
    let narrow = |width: usize| integer(0, width).map(|value| value as i64);
    let decimal = |width: usize| -> Result<Value, String> {
        let scale = bytes.first().and_then(|scale| i8::try_from(*scale).ok()).ok_or(CUT)?;
        Ok(Value::Float(decimal_value(&integer(1, width)?.to_string(), scale)))
    };
    let bytes_with_length = || number(bytes, 0, 4).and_then(|length| bytes.get(4..)?.get(..length)).ok_or(CUT);
    Ok(match kind {
        0 => Value::Null,
        1 => Value::Bool(true),
        2 => Value::Bool(false),
        3 => Value::Int(narrow(1)?),
        4 => Value::Int(narrow(2)?),
        5 => Value::Int(narrow(4)?),
        6 => Value::Int(narrow(8)?),
        7 => Value::Float(f64::from_bits(narrow(8)?.cast_unsigned())),
        8 => decimal(4)?,
        9 => decimal(8)?,
        10 => decimal(16)?,
        11 => Value::Timestamp(narrow(4)?.checked_mul(MICROS_PER_DAY).ok_or("a date beyond 64 bits of microseconds")?),
        12 | 13 => Value::Timestamp(narrow(8)?),
        14 => Value::Float(f32::from_bits((narrow(4)? as i32).cast_unsigned()).into()),
        15 | 16 => text_value(bytes_with_length()?),
        18 | 19 => Value::Timestamp(narrow(8)?.div_euclid(1_000)),
        other => return Err(format!("a variant of primitive type {other} cannot be a property")),
    })
}

/// An unsigned number of at most four bytes, little-endian.
fn number(bytes: &[u8], start: usize, width: usize) -> Option<usize> {
    let mut word = [0; 4];
    word[..width].copy_from_slice(bytes.get(start..start.checked_add(width)?)?);
    usize::try_from(u32::from_le_bytes(word)).ok()
}

/// A signed number of at most sixteen bytes, little-endian.
fn signed(bytes: &[u8], start: usize, width: usize) -> Option<i128> {
    let bytes = bytes.get(start..start + width)?;
    let fill = if bytes.last()? & 0x80 == 0 { 0 } else { 0xff };
    let mut word = [fill; 16];
    word[..width].copy_from_slice(bytes);
    Some(i128::from_le_bytes(word))
}

//! Field tables as values: made for encoding, or decoded whole from a [`RawTable`].

use super::raw_table::{RawTable, TABLE_DEPTH_MAX};
use super::short_string::{SHORT_SIZE_BYTES_MAX, put_short};

const EXPECTED_DEPTH: &str = "a table of at most 32 levels";

/// A value with its type on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// Type `t`.
    Bool(bool),
    /// Type `b`.
    I8(i8),
    /// Type `B`.
    U8(u8),
    /// Type `s`.
    I16(i16),
    /// Type `u`.
    U16(u16),
    /// Type `I`.
    I32(i32),
    /// Type `i`.
    U32(u32),
    /// Types `l` and `L`, which all clients decode alike.
    I64(i64),
    /// Type `f`.
    F32(f32),
    /// Type `d`.
    F64(f64),
    /// Type `D`: `unscaled` / 10^`scale`.
    Decimal {
        /// The number of decimal places.
        scale: u8,
        /// All digits, as an integer.
        unscaled: i32,
    },
    /// Type `S`: text by convention, but any bytes are allowed.
    Text(Box<[u8]>),
    /// Type `A`.
    Array(Vec<FieldValue>),
    /// Type `T`: seconds since 1970-01-01 UTC.
    Timestamp(u64),
    /// Type `F`.
    Table(Table),
    /// Type `V`.
    Void,
    /// Type `x`.
    Bytes(Box<[u8]>),
}

impl FieldValue {
    /// Appends the type octet and the value. Values of more than 4 GiB, which no frame can hold, are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.extend_from_slice(&[b't', u8::from(*value)]),
            Self::I8(value) => put(out, b'b', value.to_be_bytes()),
            Self::U8(value) => put(out, b'B', value.to_be_bytes()),
            Self::I16(value) => put(out, b's', value.to_be_bytes()),
            Self::U16(value) => put(out, b'u', value.to_be_bytes()),
            Self::I32(value) => put(out, b'I', value.to_be_bytes()),
            Self::U32(value) => put(out, b'i', value.to_be_bytes()),
            Self::I64(value) => put(out, b'l', value.to_be_bytes()),
            Self::F32(value) => put(out, b'f', value.to_be_bytes()),
            Self::F64(value) => put(out, b'd', value.to_be_bytes()),
            Self::Decimal { scale, unscaled } => {
                put(out, b'D', [*scale]);
                out.extend_from_slice(&unscaled.to_be_bytes());
            }
            Self::Text(bytes) => put_long(out, b'S', bytes),
            Self::Array(values) => {
                out.push(b'A');
                with_length(out, |out| values.iter().for_each(|value| value.encode(out)));
            }
            Self::Timestamp(seconds) => put(out, b'T', seconds.to_be_bytes()),
            Self::Table(table) => {
                out.push(b'F');
                table.encode(out);
            }
            Self::Void => out.push(b'V'),
            Self::Bytes(bytes) => put_long(out, b'x', bytes),
        }
    }

    /// The value as an integer, from whole numbers of any width.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(value) => Some(value.into()),
            Self::U8(value) => Some(value.into()),
            Self::I16(value) => Some(value.into()),
            Self::U16(value) => Some(value.into()),
            Self::I32(value) => Some(value.into()),
            Self::U32(value) => Some(value.into()),
            Self::I64(value) => Some(value),
            _ => None,
        }
    }

    /// The value as text, if it is text and valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value as a truth value.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The reason why it cannot be encoded, if its own fields are of level `depth`.
    fn check_writable(&self, depth: usize) -> Result<(), &'static str> {
        match self {
            Self::Array(_) if depth > TABLE_DEPTH_MAX => Err(EXPECTED_DEPTH),
            Self::Array(values) => values.iter().try_for_each(|value| value.check_writable(depth + 1)),
            Self::Table(table) => table.check_writable(depth),
            _ => Ok(()),
        }
    }
}

#[inline]
fn put<const N: usize>(out: &mut Vec<u8>, kind: u8, bytes: [u8; N]) {
    out.push(kind);
    out.extend_from_slice(&bytes);
}

fn put_long(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    put(out, kind, count.to_be_bytes());
    out.extend_from_slice(&bytes[..count as usize]);
}

/// Appends a length field and the bytes that `fill` appends.
fn with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let count = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
}

/// Appends a field whose value is an array of tables that are encoded already.
pub(crate) fn put_tables<'a>(out: &mut Vec<u8>, name: &str, tables: impl Iterator<Item = RawTable<'a>>) {
    put_short(out, name);
    out.push(b'A');
    with_length(out, |out| tables.for_each(|table| put_long(out, b'F', table.as_bytes())));
}

impl From<bool> for FieldValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for FieldValue {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<i64> for FieldValue {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<f64> for FieldValue {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.as_bytes().into())
    }
}

impl From<Table> for FieldValue {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Vec<FieldValue>> for FieldValue {
    fn from(values: Vec<FieldValue>) -> Self {
        Self::Array(values)
    }
}

/// Names and values in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(pub(super) Vec<(Box<str>, FieldValue)>);

impl Table {
    /// A table without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &FieldValue)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// The value of the first field of this name. Linear, since arguments are few.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Sets the first field of this name, or appends one. Names are cut to 255 bytes when they are encoded.
    pub fn insert(&mut self, name: &str, value: impl Into<FieldValue>) {
        match self.0.iter_mut().find(|(key, _)| **key == *name) {
            Some((_, old)) => *old = value.into(),
            None => self.0.push((name.into(), value.into())),
        }
    }

    /// Appends a field without looking at the others.
    pub fn push(&mut self, name: &str, value: impl Into<FieldValue>) {
        self.0.push((name.into(), value.into()));
    }

    /// Removes the first field of this name, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<FieldValue> {
        let index = self.0.iter().position(|(key, _)| **key == *name)?;
        Some(self.0.remove(index).1)
    }

    /// Appends the length field and the fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_length(out, |out| self.encode_fields(out));
    }

    /// Appends the fields without the length field: the bytes of a `RawTable`.
    pub fn encode_fields(&self, out: &mut Vec<u8>) {
        for (key, value) in &self.0 {
            put_short(out, key);
            value.encode(out);
        }
    }

    /// The bytes of a `RawTable`.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_fields(&mut bytes);
        bytes
    }

    /// The reason why it cannot be encoded unchanged, if its own fields are of level `depth`: a name that would be cut,
    /// or a nesting that our decoders refuse. The text completes "must be".
    pub(crate) fn check_writable(&self, depth: usize) -> Result<(), &'static str> {
        if depth > TABLE_DEPTH_MAX {
            return Err(EXPECTED_DEPTH);
        }
        self.0.iter().try_for_each(|(name, value)| {
            if name.len() > SHORT_SIZE_BYTES_MAX {
                return Err("a table with names of at most 255 bytes");
            }
            value.check_writable(depth + 1)
        })
    }
}

impl<K: AsRef<str>, V: Into<FieldValue>> FromIterator<(K, V)> for Table {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(fields: I) -> Self {
        Self(fields.into_iter().map(|(key, value)| (key.as_ref().into(), value.into())).collect())
    }
}

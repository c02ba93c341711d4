//! Field tables as they come: the bytes of arguments, headers and properties, decoded value by value.
//!
//! Nothing is built, and nothing is decoded that nobody asks for. Types: `t b B s u I i l L f d D S A T F V x`.
//!
//! Source: AMQP 0-9-1 specification, section 4.2.5.5, with RabbitMQ's errata: `s` is a signed 16-bit integer here and
//! `l` a signed 64-bit one, as RabbitMQ and every client of it write them.

use std::fmt;

use super::error::DecodeError;
use super::table::{FieldValue, Table};
use super::wire::WireDecoder;

/// The maximum nesting of tables and arrays; the table itself is level 1. Decoding recurses, so this bounds the stack.
pub const TABLE_DEPTH_MAX: usize = 32;

/// The maximum size of a table, without its length field. Twice the usual size of a frame, so that the headers of a
/// message may fill one and dead letters can still add theirs.
pub const TABLE_SIZE_BYTES_MAX: usize = 256 * 1024;

const TOO_LARGE: DecodeError = DecodeError::over_bound("a table is over 262144 bytes");
const TOO_DEEP: DecodeError = DecodeError::over_bound("a table nests over 32 levels deep");
const UNKNOWN_TYPE: DecodeError = DecodeError::syntax("a table has a value of unknown type");

/// The bytes of a table, without its length field. They are decoded lazily, and may be invalid until
/// [`RawTable::check`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RawTable<'a>(&'a [u8]);

/// The bytes of an array, without its length field.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RawArray<'a>(&'a [u8]);

/// A value, borrowed from a table's bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue<'a> {
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
    Text(&'a [u8]),
    /// Type `A`.
    Array(RawArray<'a>),
    /// Type `T`: seconds since 1970-01-01 UTC.
    Timestamp(u64),
    /// Type `F`.
    Table(RawTable<'a>),
    /// Type `V`.
    Void,
    /// Type `x`.
    Bytes(&'a [u8]),
}

impl<'a> RawValue<'a> {
    #[inline]
    fn read(decoder: &mut WireDecoder<'a>) -> Result<Self, DecodeError> {
        Ok(match decoder.u8()? {
            b'S' => Self::Text(decoder.long_bytes()?),
            b't' => Self::Bool(decoder.u8()? != 0),
            b'I' => Self::I32(decoder.i32()?),
            b'l' | b'L' => Self::I64(decoder.i64()?),
            b'F' => Self::Table(RawTable(decoder.long_bytes()?)),
            b'A' => Self::Array(RawArray(decoder.long_bytes()?)),
            b'b' => Self::I8(decoder.i8()?),
            b'B' => Self::U8(decoder.u8()?),
            b's' => Self::I16(decoder.i16()?),
            b'u' => Self::U16(decoder.u16()?),
            b'i' => Self::U32(decoder.u32()?),
            b'f' => Self::F32(decoder.f32()?),
            b'd' => Self::F64(decoder.f64()?),
            b'D' => Self::Decimal { scale: decoder.u8()?, unscaled: decoder.i32()? },
            b'T' => Self::Timestamp(decoder.u64()?),
            b'V' => Self::Void,
            b'x' => Self::Bytes(decoder.long_bytes()?),
            _ => return Err(UNKNOWN_TYPE),
        })
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
    pub fn as_str(&self) -> Option<&'a str> {
        match *self {
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

    fn check(&self, depth: usize) -> Result<(), DecodeError> {
        match self {
            Self::Table(table) => table.check_at(depth),
            Self::Array(array) => array.check_at(depth),
            _ => Ok(()),
        }
    }

    fn to_value(self, depth: usize) -> Result<FieldValue, DecodeError> {
        Ok(match self {
            Self::Bool(value) => FieldValue::Bool(value),
            Self::I8(value) => FieldValue::I8(value),
            Self::U8(value) => FieldValue::U8(value),
            Self::I16(value) => FieldValue::I16(value),
            Self::U16(value) => FieldValue::U16(value),
            Self::I32(value) => FieldValue::I32(value),
            Self::U32(value) => FieldValue::U32(value),
            Self::I64(value) => FieldValue::I64(value),
            Self::F32(value) => FieldValue::F32(value),
            Self::F64(value) => FieldValue::F64(value),
            Self::Decimal { scale, unscaled } => FieldValue::Decimal { scale, unscaled },
            Self::Text(bytes) => FieldValue::Text(bytes.into()),
            Self::Array(array) => FieldValue::Array(array.parse_at(depth)?),
            Self::Timestamp(seconds) => FieldValue::Timestamp(seconds),
            Self::Table(table) => FieldValue::Table(table.parse_at(depth)?),
            Self::Void => FieldValue::Void,
            Self::Bytes(bytes) => FieldValue::Bytes(bytes.into()),
        })
    }
}

/// Refuses a table that is too deep or too large, before decoding it.
#[inline]
fn check_bounds(bytes: &[u8], depth: usize) -> Result<(), DecodeError> {
    if bytes.len() > TABLE_SIZE_BYTES_MAX {
        Err(TOO_LARGE)
    } else if depth > TABLE_DEPTH_MAX {
        Err(TOO_DEEP)
    } else {
        Ok(())
    }
}

impl<'a> RawTable<'a> {
    /// The table whose bytes, without the length field, are `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes, without the length field.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Whether it has no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields in their order. After an error the iterator ends.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> RawFields<'a> {
        RawFields(WireDecoder::new(self.0))
    }

    /// The value of the first field of this name; also None where the bytes before it are damaged.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        self.iter().map_while(Result::ok).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The fields in their order, each with its own bytes (name, type and value), to be copied without being decoded.
    pub(crate) fn fields_as_bytes(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut decoder = WireDecoder::new(self.0);
        std::iter::from_fn(move || {
            let before = decoder.remaining();
            let key = decoder.short().ok()?;
            RawValue::read(&mut decoder).ok()?;
            Some((key, &before[..before.len() - decoder.remaining().len()]))
        })
    }

    /// Decodes everything once, without keeping it: afterwards iterating gives no error at any level.
    ///
    /// # Errors
    /// The bytes are no table, nest too deep, or are too many.
    #[inline]
    pub fn check(&self) -> Result<(), DecodeError> {
        self.check_at(1)
    }

    fn check_at(&self, depth: usize) -> Result<(), DecodeError> {
        check_bounds(self.0, depth)?;
        self.iter().try_for_each(|field| field?.1.check(depth + 1))
    }

    /// Decodes the values.
    ///
    /// # Errors
    /// The errors of [`RawTable::check`].
    pub fn parse(&self) -> Result<Table, DecodeError> {
        self.parse_at(1)
    }

    fn parse_at(&self, depth: usize) -> Result<Table, DecodeError> {
        check_bounds(self.0, depth)?;
        let mut fields = Vec::new();
        for field in self.iter() {
            let (key, value) = field?;
            fields.push((key.into(), value.to_value(depth + 1)?));
        }
        Ok(Table(fields))
    }
}

impl fmt::Debug for RawTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse() {
            Ok(table) => table.fmt(f),
            Err(error) => write!(f, "{{{error}}}"),
        }
    }
}

impl<'a> IntoIterator for RawTable<'a> {
    type Item = Result<(&'a str, RawValue<'a>), DecodeError>;
    type IntoIter = RawFields<'a>;

    fn into_iter(self) -> RawFields<'a> {
        self.iter()
    }
}

impl<'a> RawArray<'a> {
    /// The values in their order. After an error the iterator ends.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> RawValues<'a> {
        RawValues(WireDecoder::new(self.0))
    }

    fn check_at(&self, depth: usize) -> Result<(), DecodeError> {
        check_bounds(self.0, depth)?;
        self.iter().try_for_each(|value| value?.check(depth + 1))
    }

    fn parse_at(&self, depth: usize) -> Result<Vec<FieldValue>, DecodeError> {
        check_bounds(self.0, depth)?;
        self.iter().map(|value| value?.to_value(depth + 1)).collect()
    }
}

impl fmt::Debug for RawArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse_at(1) {
            Ok(values) => values.fmt(f),
            Err(error) => write!(f, "[{error}]"),
        }
    }
}

impl<'a> IntoIterator for RawArray<'a> {
    type Item = Result<RawValue<'a>, DecodeError>;
    type IntoIter = RawValues<'a>;

    fn into_iter(self) -> RawValues<'a> {
        self.iter()
    }
}

/// The fields of a [`RawTable`].
#[derive(Clone, Debug)]
pub struct RawFields<'a>(WireDecoder<'a>);

impl<'a> Iterator for RawFields<'a> {
    type Item = Result<(&'a str, RawValue<'a>), DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.0.short().and_then(|key| Ok((key, RawValue::read(&mut self.0)?)));
        if field.is_err() {
            self.0 = WireDecoder::new(&[]);
        }
        Some(field)
    }
}

/// The values of a [`RawArray`].
#[derive(Clone, Debug)]
pub struct RawValues<'a>(WireDecoder<'a>);

impl<'a> Iterator for RawValues<'a> {
    type Item = Result<RawValue<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let value = RawValue::read(&mut self.0);
        if value.is_err() {
            self.0 = WireDecoder::new(&[]);
        }
        Some(value)
    }
}

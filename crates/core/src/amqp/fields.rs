//! Methods by name, with their fields as values, for bindings that know no Rust types and for tests.
//!
//! The codec follows [`super::method::SPECS`], one field after the other; [`super::Method`] is the fast way.

use std::fmt;

use super::error::DecodeError;
use super::frame::{FrameKind, begin_frame, end_frame};
use super::method::{FieldKind, MethodSpec, spec_named, spec_of};
use super::method_id::MethodId;
use super::raw_table::{RawTable, TABLE_SIZE_BYTES_MAX};
use super::reply::ReplyCode;
use super::short_string::SHORT_SIZE_BYTES_MAX;
use super::table::{FieldValue, Table};
use super::wire::{WireDecoder, WireEncoder};

/// A method that cannot be encoded, and why. It is the fault of the caller, not of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(String);

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EncodeError {}

/// Decodes the method in a method frame's payload and its fields, with their tables. Bits become `Bool`, numbers the
/// next larger unsigned type (64 bits: `I64`, negative from 2^63 on), short strings `Text`, long strings `Bytes`.
///
/// # Errors
/// The errors of [`super::Method::decode`], and tables that cannot be decoded.
pub fn decode(payload: &[u8]) -> Result<(&'static MethodSpec, Table), DecodeError> {
    let mut decoder = WireDecoder::new(payload);
    decoder.u32()?;
    let unknown = DecodeError { code: ReplyCode::NotImplemented, reason: "unknown method" };
    let spec = spec_of(MethodId::of_payload(payload)).ok_or(unknown)?;
    let mut fields = Table::new();
    for &(name, kind) in spec.fields {
        fields.push(name, read(&mut decoder, kind)?);
    }
    decoder.finish()?;
    Ok((spec, fields))
}

fn read(decoder: &mut WireDecoder<'_>, kind: FieldKind) -> Result<FieldValue, DecodeError> {
    Ok(match kind {
        FieldKind::Bit => FieldValue::Bool(decoder.bit()?),
        FieldKind::Octet => FieldValue::U8(decoder.u8()?),
        FieldKind::Short => FieldValue::U16(decoder.u16()?),
        FieldKind::Long => FieldValue::U32(decoder.u32()?),
        FieldKind::LongLong => FieldValue::I64(decoder.i64()?),
        FieldKind::ShortString => decoder.short()?.into(),
        FieldKind::LongString => FieldValue::Bytes(decoder.long_bytes()?.into()),
        FieldKind::Table => FieldValue::Table(RawTable::new(decoder.long_bytes()?).parse()?),
    })
}

/// Appends the frame of the method `name`. Fields that `fields` lacks are false, zero or empty.
///
/// # Errors
/// The method or a field does not exist, a value has another type or is out of range, or a text or table is too large
/// for its field.
pub fn encode(name: &str, fields: &Table, channel: u16, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let spec = spec_named(name).ok_or_else(|| EncodeError(format!("no method '{name}'")))?;
    if let Some((unknown, _)) = fields.iter().find(|(key, _)| !spec.fields.iter().any(|(field, _)| field == key)) {
        let known: Vec<_> = spec.fields.iter().map(|(field, _)| *field).collect();
        return Err(EncodeError(format!("{name} has no field '{unknown}': its fields are {}", known.join(", "))));
    }
    let length_before = out.len();
    let frame = begin_frame(out, FrameKind::Method, channel);
    let mut writer = WireEncoder::new(out);
    writer.bytes(&spec.id.class_id.to_be_bytes());
    writer.bytes(&spec.id.method_id.to_be_bytes());
    for &(field, kind) in spec.fields {
        if let Err(expected) = write(&mut writer, kind, fields.get(field)) {
            out.truncate(length_before); // half a frame would damage the stream
            return Err(EncodeError(format!("{name}: '{field}' must be {expected}")));
        }
    }
    end_frame(out, frame);
    Ok(())
}

/// Appends one field, or returns what was expected.
fn write(writer: &mut WireEncoder<'_>, kind: FieldKind, value: Option<&FieldValue>) -> Result<(), &'static str> {
    match kind {
        FieldKind::Bit => writer.bit(match value {
            Some(value) => value.as_bool().ok_or("true or false")?,
            None => false,
        }),
        FieldKind::Octet => writer.bytes(&number::<u8>(value).ok_or("a number from 0 to 255")?.to_be_bytes()),
        FieldKind::Short => writer.bytes(&number::<u16>(value).ok_or("a number from 0 to 65535")?.to_be_bytes()),
        FieldKind::Long => writer.bytes(&number::<u32>(value).ok_or("a number from 0 to 4294967295")?.to_be_bytes()),
        FieldKind::LongLong => writer.bytes(&number::<i64>(value).ok_or("a 64-bit number")?.to_be_bytes()),
        FieldKind::ShortString => {
            let text = value.map_or(Some(""), FieldValue::as_str);
            writer.short(text.filter(|text| text.len() <= SHORT_SIZE_BYTES_MAX).ok_or("text of at most 255 bytes")?);
        }
        FieldKind::LongString => match value {
            Some(FieldValue::Text(bytes) | FieldValue::Bytes(bytes)) => writer.long_bytes(bytes),
            Some(_) => return Err("text or bytes"),
            None => writer.long_bytes(&[]),
        },
        FieldKind::Table => match value {
            Some(FieldValue::Table(table)) => writer.long_bytes(&table_bytes(table)?),
            Some(_) => return Err("a table"),
            None => writer.long_bytes(&[]),
        },
    }
    Ok(())
}

/// The bytes of a table that peers can read.
fn table_bytes(table: &Table) -> Result<Vec<u8>, &'static str> {
    table.check_writable(1)?;
    let bytes = table.to_bytes();
    if bytes.len() > TABLE_SIZE_BYTES_MAX { Err("a table of at most 262144 bytes") } else { Ok(bytes) }
}

fn number<N: TryFrom<i64> + Default>(value: Option<&FieldValue>) -> Option<N> {
    match value {
        Some(value) => value.as_i64().and_then(|number| N::try_from(number).ok()),
        None => Some(N::default()),
    }
}

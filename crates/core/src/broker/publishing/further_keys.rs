//! Sender-selected distribution: further routing keys of a message, which its headers `CC` and `BCC` give.
//!
//! A message is routed by its own key and by all of these, to each queue once. Receivers see `CC` and never `BCC`: the keys
//! of blind copies stay with the message, because its dead letters are routed by them too, and are left out of deliveries.
//!
//! Source: RabbitMQ's sender-selected distribution.

use smallvec::SmallVec;

use crate::amqp::{AmqpError, BasicProperties, PropertyFields, RawTable, RawValue, ReplyCode};
use crate::broker::errors::error;
use crate::broker::parts::Parts;

/// The header whose keys receivers see.
pub(crate) const CC: &str = "CC";
/// The header whose keys nobody sees.
pub(crate) const BCC: &str = "BCC";

/// Maximum number of further keys of a message: an exchange looks each of them up.
pub(crate) const KEYS_MAX: usize = 256;

/// The further routing keys of a message: nearly always none.
pub(crate) type FurtherKeys<'a> = SmallVec<[&'a str; 4]>;

/// Whether a message may have further keys. It is rarely wrong, and then costs a little time.
#[inline]
pub(crate) fn may_have_copies(properties: &BasicProperties<'_>) -> bool {
    properties.headers().is_some_and(|headers| {
        // Both names end in CC, and hardly any other header's does: one search instead of decoding all headers.
        let bytes = headers.as_bytes();
        memchr::memchr_iter(b'C', bytes).any(|at| bytes.get(at + 1) == Some(&b'C'))
    })
}

/// The keys in the headers `CC` and `BCC`.
///
/// # Errors
/// 406 when one of them is no array of strings, a key is longer than 255 bytes, or there are too many.
#[inline]
pub(crate) fn further_keys<'a>(properties: &BasicProperties<'a>) -> Result<FurtherKeys<'a>, AmqpError> {
    match properties.headers() {
        Some(headers) if may_have_copies(properties) => keys_in(headers),
        _ => Ok(FurtherKeys::new()),
    }
}

fn keys_in(headers: RawTable<'_>) -> Result<FurtherKeys<'_>, AmqpError> {
    let mut keys = FurtherKeys::new();
    for name in [CC, BCC] {
        let Some(value) = headers.get(name) else { continue };
        let RawValue::Array(array) = value else { return Err(invalid(name, "expected an array of strings")) };
        for value in array.iter().map_while(Result::ok) {
            match value.as_str() {
                Some(key) if key.len() <= 255 => keys.push(key),
                Some(_) => return Err(invalid(name, "a routing key is over 255 bytes")),
                None => return Err(invalid(name, "expected an array of strings")),
            }
        }
        if keys.len() > KEYS_MAX {
            return Err(invalid(name, &format!("there are over {KEYS_MAX} keys")));
        }
    }
    Ok(keys)
}

fn invalid(header: &str, reason: &str) -> AmqpError {
    error(ReplyCode::PreconditionFailed, &format!("invalid message: header '{header}': {reason}"))
}

/// The parts of a message as receivers see them, without the keys of blind copies; `room` is for other properties.
pub(crate) fn without_blind_copies<'a>(parts: Parts<'a>, room: &'a mut Vec<u8>) -> Parts<'a> {
    let properties = BasicProperties::from_checked(parts.properties);
    if !may_have_copies(&properties) {
        return parts;
    }
    let Some(headers) = properties.headers().filter(|headers| headers.get(BCC).is_some()) else { return parts };
    let headers = without(headers, &[BCC]);
    PropertyFields { headers: Some(RawTable::new(&headers)), ..properties.fields() }.encode(room);
    Parts { properties: room, ..parts }
}

/// The fields of a table without those of these names.
pub(crate) fn without(headers: RawTable<'_>, names: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(headers.as_bytes().len());
    headers
        .fields_as_bytes()
        .filter(|(name, _)| !names.contains(name))
        .for_each(|(_, raw)| bytes.extend_from_slice(raw));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::{FieldValue, Table};

    fn properties(fields: &[(&str, FieldValue)]) -> Vec<u8> {
        let headers = fields.iter().cloned().collect::<Table>().to_bytes();
        let mut bytes = Vec::new();
        let headers = Some(RawTable::new(&headers));
        PropertyFields { headers, app_id: Some("billing"), ..Default::default() }.encode(&mut bytes);
        bytes
    }

    fn texts(texts: &[&str]) -> FieldValue {
        FieldValue::Array(texts.iter().map(|text| FieldValue::from(*text)).collect())
    }

    #[test]
    fn keys_come_from_both_headers_and_nothing_else_is_taken_for_one() {
        let keys = |fields: &[(&str, FieldValue)]| {
            let bytes = properties(fields);
            let keys = further_keys(&BasicProperties::from_checked(&bytes));
            keys.map(|keys| keys.join(" ")).map_err(|error| error.text.clone())
        };
        assert_eq!(keys(&[("BCC", texts(&["c"])), ("CC", texts(&["a", "b"]))]).as_deref(), Ok("a b c"));
        assert_eq!(keys(&[("SUCCESS", texts(&["a"])), ("note", FieldValue::from("CC"))]).as_deref(), Ok(""));
        let refused = keys(&[("CC", FieldValue::from("a"))]).expect_err("no array");
        assert_eq!(refused, "PRECONDITION_FAILED - invalid message: header 'CC': expected an array of strings");
        let mixed = FieldValue::Array(vec![FieldValue::from("a"), FieldValue::I32(1)]);
        assert!(keys(&[("BCC", mixed)]).expect_err("a number").contains("'BCC'"));
        assert!(keys(&[("CC", texts(&["k"; KEYS_MAX]))]).is_ok());
        assert!(keys(&[("CC", texts(&["k"; KEYS_MAX + 1]))]).expect_err("too many").contains("over 256"));
        assert!(keys(&[("CC", texts(&["k".repeat(256).as_str()]))]).expect_err("too long").contains("255"));
    }

    #[test]
    fn receivers_see_all_but_the_blind_copies() {
        let bytes = properties(&[("a", FieldValue::I32(1)), ("BCC", texts(&["c"])), ("CC", texts(&["b"]))]);
        assert!(may_have_copies(&BasicProperties::from_checked(&bytes)));
        let mut room = Vec::new();
        let parts = Parts { route: b"\0\0", properties: &bytes, body: b"x" };
        let seen = without_blind_copies(parts, &mut room);
        assert_eq!(seen.properties, properties(&[("a", FieldValue::I32(1)), ("CC", texts(&["b"]))]));
        assert_eq!((seen.route, seen.body), (parts.route, parts.body));
        let plain = properties(&[("XBCC", texts(&["c"]))]);
        let mut room = Vec::new();
        let parts = Parts { properties: &plain, ..parts };
        assert_eq!(without_blind_copies(parts, &mut room), parts);
    }
}

//! The records of a stream's log: one message each, as it was published.
//!
//! ```text
//! exchange (short string) | routing key (short string) | properties (as in a content header) | body
//! ```
//! The first three contain their lengths, so the body is what remains. The head of the record is not used. Records are on
//! disk, so their layout never changes; another layout would be another kind of record.
//!
//! Source: AMQP 0-9-1 specification, sections 4.2.5.3 (short strings) and 4.2.6.1 (properties).

use crate::amqp::{BasicProperties, DecodeError};

use crate::broker::parts::Parts;

/// The kind of these records.
pub const MESSAGE: u8 = 1;

/// The kind of a record that takes a block of numbers, of a stream without history. It has nothing in it.
pub const NUMBERS: u8 = 2;

/// A message in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRecord<'a> {
    /// The exchange that it was published to; the default exchange is empty.
    pub exchange: &'a str,
    /// The routing key.
    pub routing_key: &'a str,
    /// The properties and headers.
    pub properties: BasicProperties<'a>,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> StreamRecord<'a> {
    /// The message in a record's bytes. Nothing is copied.
    ///
    /// # Errors
    /// The part that is missing or is not valid AMQP. The record is then of another kind, because its checksum was right.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (exchange, remaining) = short(bytes)?;
        let (routing_key, remaining) = short(remaining)?;
        let (properties, body) = BasicProperties::split(remaining)?;
        Ok(Self { exchange, routing_key, properties, body })
    }

    /// The parts of the message, which was decoded from `bytes`.
    pub(crate) fn parts(&self, bytes: &'a [u8]) -> Parts<'a> {
        let route = &bytes[..2 + self.exchange.len() + self.routing_key.len()];
        Parts { route, properties: self.properties.as_bytes(), body: self.body }
    }

    /// Append the message to `out`, as [`StreamRecord::decode`] reads it.
    ///
    /// # Panics
    /// An exchange or a routing key of more than 255 bytes: no frame can have brought one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for text in [self.exchange, self.routing_key] {
            out.push(u8::try_from(text.len()).expect("a short string"));
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(self.properties.as_bytes());
        out.extend_from_slice(self.body);
    }
}

/// The short string that `bytes` begins with, and what follows it.
fn short(bytes: &[u8]) -> Result<(&str, &[u8]), DecodeError> {
    let cut = || DecodeError::syntax("a name ends too early");
    let (&length, remaining) = bytes.split_first().ok_or_else(cut)?;
    let (name, remaining) = remaining.split_at_checked(length.into()).ok_or_else(cut)?;
    let name = std::str::from_utf8(name).map_err(|_| DecodeError::syntax("a name is not valid UTF-8"))?;
    Ok((name, remaining))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::Allowance;
    use crate::amqp::{FieldValue, PropertyFields, RawTable, Table};
    use crate::broker::topology::{BodyMode, Needs, View, ViewScratch, properties_seen};
    use crate::message::{Message, Properties as Seen, Value, lookup};
    use crate::testing::rounds;

    fn table(fields: Vec<(&str, FieldValue)>) -> Vec<u8> {
        fields.into_iter().collect::<Table>().to_bytes()
    }

    fn properties(headers: &[u8]) -> Vec<u8> {
        let fields = PropertyFields {
            headers: Some(RawTable::new(headers)),
            message_id: Some("m1"),
            timestamp: Some(1_600_000_000),
            priority: Some(5),
            ..PropertyFields::default()
        };
        let mut bytes = Vec::new();
        fields.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_shorter_is() {
        let bytes = properties(&table(vec![("price", FieldValue::I32(3))]));
        let properties = BasicProperties::parse(&bytes).expect("properties");
        for (exchange, routing_key, body) in
            [("", "orders", &b"x"[..]), ("amq.topic", "", b""), ("e", "\u{e9}", &[0; 300])]
        {
            let record = StreamRecord { exchange, routing_key, properties, body };
            let mut written = Vec::new();
            record.encode(&mut written);
            assert_eq!(StreamRecord::decode(&written), Ok(record));
            for length in 0..written.len() - body.len() {
                assert!(StreamRecord::decode(&written[..length]).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused_whatever_it_is() {
        let mut written = Vec::new();
        let bytes = properties(&table(vec![("a", FieldValue::Text(Box::from(&b"b"[..])))]));
        let properties = BasicProperties::parse(&bytes).expect("properties");
        StreamRecord { exchange: "e", routing_key: "k", properties, body: b"body" }.encode(&mut written);
        for index in 0..written.len() {
            for value in rounds(0..=255) {
                let mut damaged = written.clone();
                damaged[index] = value;
                if let Ok(record) = StreamRecord::decode(&damaged) {
                    _ = properties_seen(&record.properties, record.body, BodyMode::Json);
                }
            }
        }
    }

    /// Every name that a query could use, in the mapping and in the broker's own view of the same message.
    fn assert_seen_alike(headers: Vec<(&str, FieldValue)>, body: &[u8], mode: BodyMode, names: &[(&str, &str)]) {
        let headers = table(headers);
        let bytes = properties(&headers);
        let amqp = BasicProperties::parse(&bytes).expect("properties");
        let seen = properties_seen(&amqp, body, mode);
        let (mut room, all) = (ViewScratch::default(), Needs { properties: true, text: true, json: true });
        View::new(&mut room, amqp, body).with("k", all, None, |message: &Message<'_>| {
            for (name, in_broker) in names {
                let value = |from: &Seen, name: &str| {
                    lookup(from, name, &Allowance::unlimited()).map(|found| format!("{found:?}"))
                };
                assert_eq!(value(&seen, name), value(message.properties, in_broker), "{name}");
            }
        });
        assert!(seen.keys().all(|name| !name.starts_with('\0')), "nothing of ours");
    }

    #[test]
    fn queries_find_what_they_find_in_the_broker() {
        let inner: Table = [("x", FieldValue::I32(7))].into_iter().collect();
        let headers = || {
            vec![
                ("price", FieldValue::F64(1.5)),
                ("raw", FieldValue::Text(Box::from(&b"\xff"[..]))),
                ("huge", FieldValue::Timestamp(u64::MAX)),
                ("none", FieldValue::Void),
                ("priority", FieldValue::I32(9)),
                ("app_id", FieldValue::Text(Box::from(&b"a header"[..]))),
                ("user_id", FieldValue::Text(Box::from(&b"forged"[..]))),
                ("body", FieldValue::Table(inner.clone())),
                ("body.y", FieldValue::I32(8)),
                ("list", FieldValue::Array(vec![FieldValue::I32(1), FieldValue::Bool(true)])),
            ]
        };
        let same = ["price", "raw", "huge", "none", "priority", "app_id", "user_id", "list", "timestamp", "message_id"];
        let same: Vec<_> = same.iter().map(|name| (*name, *name)).collect();
        for mode in [BodyMode::None, BodyMode::Text, BodyMode::Json] {
            assert_seen_alike(headers(), br#"{"x": 1}"#, mode, &same);
        }
        assert_seen_alike(headers(), b"{}", BodyMode::Text, &[("body.x", "body.x"), ("body.y", "body.y")]);
        let fields = [("body.x", "\0body.x"), ("body.y", "\0body.y"), ("body.z.w", "\0body.z.w")];
        for body in [&br#"{"x": 1, "z": {"w": "t"}}"#[..], br#"[{"x": 1}, {"x": 2}]"#, b"5", b"no JSON", b""] {
            assert_seen_alike(headers(), body, BodyMode::Json, &fields);
        }
        let bytes = properties(&[]);
        let seen = properties_seen(&BasicProperties::parse(&bytes).expect("properties"), b"{}", BodyMode::None);
        assert_eq!(seen.get("timestamp"), Some(&Value::Timestamp(1_600_000_000_000_000)));
    }
}

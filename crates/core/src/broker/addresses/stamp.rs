//! Writes the sender and the address for replies into a message to an address.

use crate::amqp::{BasicProperties, FieldValue, PropertyFields};
use crate::broker::parts::{JoinedParts, Parts};
use crate::broker::topology::AddressKind;

/// The header with the sender's identity; without an identity it has no value. What a client has written there is replaced.
pub(crate) const SENDER: &str = "x-sender";
/// Maximum number of bytes by which a stamp lengthens a message: the header, `reply_to`, the delivery mode, and an identity
/// in the first two.
pub(crate) const STAMP_BYTES_MAX: usize = 600;

/// The properties of a message of a sender with this identity, which may be empty. `reply_to` is its mailbox, unless the
/// sender has named another place.
pub(crate) fn stamped(properties: BasicProperties<'_>, identity: &str, is_persistent: bool) -> Vec<u8> {
    let mailbox = AddressKind::Mailbox.queue_name(identity);
    let sender = if identity.is_empty() { FieldValue::Void } else { FieldValue::from(identity) };
    let mut bytes = Vec::with_capacity(properties.as_bytes().len() + 64 + 2 * identity.len());
    properties.encode_with_header(SENDER, &sender, &mut bytes);
    let fields = BasicProperties::from_checked(&bytes).fields();
    let reply_to = fields.reply_to.or((!identity.is_empty()).then_some(&*mailbox));
    let delivery_mode = if is_persistent { Some(2) } else { fields.delivery_mode };
    let mut out = Vec::with_capacity(bytes.len() + mailbox.len() + 2);
    PropertyFields { reply_to, delivery_mode, ..fields }.encode(&mut out);
    out
}

/// A message with its sender's identity.
pub(crate) fn stamp(identity: &str, parts: &Parts<'_>, is_persistent: bool) -> JoinedParts {
    let properties = stamped(BasicProperties::from_checked(parts.properties), identity, is_persistent);
    Parts { properties: &properties, ..*parts }.joined()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::{RawTable, Table};

    fn stamped_fields(headers: &[(&str, FieldValue)], reply_to: Option<&str>, identity: &str) -> Vec<u8> {
        let headers = headers.iter().cloned().collect::<Table>().to_bytes();
        let mut bytes = Vec::new();
        PropertyFields { headers: Some(RawTable::new(&headers)), reply_to, ..Default::default() }.encode(&mut bytes);
        stamped(BasicProperties::parse(&bytes).expect("properties"), identity, true)
    }

    #[test]
    fn the_sender_is_whom_the_broker_knows() {
        let forged =
            [("x-sender", FieldValue::from("bob")), ("n", FieldValue::I32(1)), ("x-sender", FieldValue::from("bob"))];
        for (identity, expected) in [("ann", Some("ann")), ("", None)] {
            let bytes = stamped_fields(&forged, None, identity);
            let properties = BasicProperties::parse(&bytes).expect("properties");
            let headers = properties.headers().expect("headers");
            let senders: Vec<_> = headers.iter().map_while(Result::ok).filter(|(name, _)| *name == SENDER).collect();
            assert_eq!(senders.len(), 1);
            assert_eq!(senders[0].1.as_str(), expected);
            assert_eq!(headers.get("n").and_then(|value| value.as_i64()), Some(1));
            assert_eq!(properties.reply_to(), expected.map(|_| "amq.mailbox.ann"));
            assert!(properties.is_persistent());
        }
    }

    #[test]
    fn a_stamp_is_no_longer_than_its_bound_and_stays_the_same() {
        let identity = "i".repeat(255 - AddressKind::Mailbox.prefix().len());
        let once = stamped_fields(&[], None, &identity);
        assert!(once.len() < STAMP_BYTES_MAX, "{} bytes", once.len());
        assert_eq!(stamped(BasicProperties::parse(&once).expect("properties"), &identity, true), once);
        let own = stamped_fields(&[], Some("mine"), "ann");
        assert_eq!(BasicProperties::parse(&own).expect("properties").reply_to(), Some("mine"));
    }
}

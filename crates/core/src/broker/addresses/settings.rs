//! The settings of mailboxes and of services, which the control plane chooses.

use crate::amqp::{FieldValue, Table};
use crate::broker::queues::policy::{Overflow, Policy};
use crate::broker::topology::AddressKind;

/// The settings of the queues of one kind of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSettings {
    /// Its queues and all messages in them survive a restart.
    pub durable: bool,
    /// Maximum number of messages that wait in one; then senders wait.
    pub length_max: u64,
    /// Maximum bytes of the messages that wait in one; then senders wait.
    pub bytes_max: u64,
    /// The time that a receiver has to settle a delivery; None is no limit.
    pub consumer_timeout_ms: Option<u64>,
    /// The time after which an empty one that nobody has used is deleted; None is never.
    pub unused_ms: Option<u64>,
}

/// The settings of all kinds of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The settings of mailboxes.
    pub mailbox: AddressSettings,
    /// The settings of services.
    pub service: AddressSettings,
}

impl Default for AddressSettings {
    fn default() -> Self {
        Self { durable: true, length_max: 100_000, bytes_max: 64 << 20, consumer_timeout_ms: None, unused_ms: None }
    }
}

impl Default for Addresses {
    fn default() -> Self {
        let service = AddressSettings { consumer_timeout_ms: Some(1_800_000), ..AddressSettings::default() };
        Self { mailbox: AddressSettings::default(), service }
    }
}

impl Addresses {
    /// The settings of one kind.
    #[must_use]
    pub fn of(&self, kind: AddressKind) -> &AddressSettings {
        match kind {
            AddressKind::Mailbox => &self.mailbox,
            AddressKind::Service => &self.service,
        }
    }
}

impl AddressSettings {
    /// The policy of a queue.
    pub(crate) fn policy(&self, kind: AddressKind) -> Policy {
        Policy {
            length_max: Some(self.length_max),
            bytes_max: Some(self.bytes_max),
            overflow: Overflow::Block,
            consumer_timeout_ms: self.consumer_timeout_ms,
            expires_ms: self.unused_ms,
            address: Some(kind),
            ..Policy::default()
        }
    }

    /// The policy as the arguments with which a queue is declared, for operators.
    pub(crate) fn arguments(&self) -> Vec<u8> {
        let number = |value: u64| FieldValue::I64(i64::try_from(value).unwrap_or(i64::MAX));
        let mut table: Table = [
            ("x-max-length", number(self.length_max)),
            ("x-max-length-bytes", number(self.bytes_max)),
            ("x-overflow", FieldValue::from("block")),
        ]
        .into_iter()
        .collect();
        if let Some(timeout_ms) = self.consumer_timeout_ms {
            table.insert("x-consumer-timeout", number(timeout_ms));
        }
        if let Some(unused_ms) = self.unused_ms {
            table.insert("x-expires", number(unused_ms));
        }
        table.to_bytes()
    }
}

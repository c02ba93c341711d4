//! The numbers by which parts of the broker refer to each other, one type for each kind.

use crate::broker::slab::slot_ids;

slot_ids! {
    /// A connection. [`ConnectionId`] is the same with a serial, for callers.
    pub(crate) struct ConnectionSlot(u32);
    /// An open channel. Its number on the wire is a `u16`, and its connection's own.
    pub(crate) struct ChannelSlot(u32);
    /// A consumer.
    pub(crate) struct ConsumerSlot(u32);
    /// A user in a vhost.
    pub(crate) struct PrincipalSlot(u32);
    /// A message in the store.
    pub(crate) struct MessageId(u32);
    /// A letter that waits for the letters that came of it.
    pub(crate) struct OriginId(u32);
}

impl MessageId {
    /// No message of the store: the message of a stream, which is only in its log.
    pub const NONE: Self = Self(u32::MAX);
}

/// Tells a connection, channel, queue or consumer from those that had its id before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Serial(pub u32);

/// An id with a serial number. Ids are used again; serial numbers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle<Id> {
    pub id: Id,
    pub serial: Serial,
}

/// A connection, for the caller. It is never given to another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    pub(crate) fn new(slot: ConnectionSlot, serial: Serial) -> Self {
        Self(u64::from(serial.0) << 32 | u64::from(slot.0))
    }

    pub(crate) fn slot(self) -> ConnectionSlot {
        ConnectionSlot(self.0 as u32)
    }

    pub(crate) fn serial(self) -> Serial {
        Serial((self.0 >> 32) as u32)
    }

    /// The id as a number, for interfaces without Rust types.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The id that [`ConnectionId::to_bits`] gave.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// The log of a stream, or the journal. No two logs ever have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LogId(pub u32);

/// The journal's id among logs.
pub(crate) const JOURNAL: LogId = LogId(0);

/// The id among logs of the changes that wait for room in the journal: a mark there is a number of changes.
pub(crate) const CHANGES: LogId = LogId(u32::MAX - 3);

/// In place of a log: definitions of deleted queues, which are forgotten when their dead letters are published.
pub(crate) const RETIRED: LogId = LogId(u32::MAX);
/// The id of the purges, which are kept when the journal has recorded what they dropped; their sequence is their number.
pub(crate) const PURGES: LogId = LogId(u32::MAX - 2);
/// The id of the commits, which are kept when the journal has recorded what they settled; their sequence is their number.
pub(crate) const COMMITS: LogId = LogId(u32::MAX - 1);

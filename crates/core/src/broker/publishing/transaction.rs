//! Transactions: what is published and settled is kept until the next commit, which carries out all of it.

use crate::broker::connections::content::PublishFlags;
use crate::broker::consumers::settlement::Settle;
use crate::broker::parts::Parts;

/// A published message. Its route is looked up when it is committed.
#[derive(Debug)]
pub(crate) struct PendingMessage {
    pub(super) bytes: Vec<u8>,
    pub(super) route: usize,
    pub(super) properties: usize,
    pub flags: PublishFlags,
}

impl PendingMessage {
    pub fn new(parts: &Parts<'_>, flags: PublishFlags) -> Self {
        Self { bytes: parts.joined(), route: parts.route.len(), properties: parts.properties.len(), flags }
    }

    pub fn parts(&self) -> Parts<'_> {
        let (route, remaining) = self.bytes.split_at(self.route);
        let (properties, body) = remaining.split_at(self.properties);
        Parts { route, properties, body }
    }
}

/// The work of the next commit: first messages, then settlements.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(super) messages: Vec<PendingMessage>,
    pub(super) settles: Vec<Settle>,
    pub(super) bytes: usize,
}

/// Maximum size of a transaction; a larger one is refused with 506. The journal takes that much beyond the point at
/// which publishers have to wait, so that a commit never stops in the middle for lack of room.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 16 << 20;
/// Maximum number of settlements of a transaction.
pub(crate) const TRANSACTION_SETTLES_MAX: usize = 1 << 20;

impl Transaction {
    /// Keep a message. False when the transaction is too large.
    pub fn publish(&mut self, parts: &Parts<'_>, flags: PublishFlags) -> bool {
        self.bytes += parts.size() + size_of::<PendingMessage>();
        if self.bytes > TRANSACTION_BYTES_MAX {
            return false;
        }
        self.messages.push(PendingMessage::new(parts, flags));
        true
    }

    /// Keep a settlement. False when the transaction is too large.
    pub fn settle(&mut self, settle: Settle) -> bool {
        self.settles.push(settle);
        self.settles.len() <= TRANSACTION_SETTLES_MAX
    }

    /// The memory that the transaction takes.
    pub fn size_bytes(&self) -> usize {
        self.bytes + self.settles.len() * size_of::<Settle>()
    }

    /// Take out everything; the next transaction begins empty.
    pub fn take(&mut self) -> (Vec<PendingMessage>, Vec<Settle>) {
        self.bytes = 0;
        (std::mem::take(&mut self.messages), std::mem::take(&mut self.settles))
    }
}

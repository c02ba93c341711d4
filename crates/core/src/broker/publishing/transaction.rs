//! A transaction: what was published and settled since the last commit, kept until the next.

use crate::broker::connections::content::PublishFlags;
use crate::broker::queues::message_store::Parts;

/// A message that was published, its route looked up when it is committed.
#[derive(Debug)]
pub(crate) struct PendingMessage {
    bytes: Vec<u8>,
    route: usize,
    properties: usize,
    pub flags: PublishFlags,
}

impl PendingMessage {
    pub fn new(parts: &Parts<'_>, flags: PublishFlags) -> Self {
        Self { bytes: parts.joined(), route: parts.route.len(), properties: parts.properties.len(), flags }
    }

    pub fn parts(&self) -> Parts<'_> {
        let (route, rest) = self.bytes.split_at(self.route);
        let (properties, body) = rest.split_at(self.properties);
        Parts { route, properties, body }
    }
}

/// How a delivery is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// Done with.
    Acknowledge,
    /// Back to where it was.
    Requeue,
    /// Dropped.
    Discard,
}

/// An ack, nack or reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settle {
    pub tag: u64,
    pub multiple: bool,
    pub settlement: Settlement,
}

/// What happens at the next commit, in this order: first messages, then settlements.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    messages: Vec<PendingMessage>,
    settles: Vec<Settle>,
    bytes: usize,
}

/// What a transaction may hold; one that grows over it is refused with 506. No more than what the journal takes beyond
/// the point from which publishers have to wait, so that a commit never stops in the middle for lack of room.
const TRANSACTION_BYTES_MAX: usize = 16 << 20;
/// And so many settlements.
const TRANSACTION_SETTLES_MAX: usize = 1 << 20;

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

    /// What it takes in memory.
    pub fn size_bytes(&self) -> usize {
        self.bytes + self.settles.len() * size_of::<Settle>()
    }

    /// Everything that is to happen; the next transaction begins empty.
    pub fn take(&mut self) -> (Vec<PendingMessage>, Vec<Settle>) {
        self.bytes = 0;
        (std::mem::take(&mut self.messages), std::mem::take(&mut self.settles))
    }
}

//! Transactions: what is published and settled is kept until the next commit, which carries out all of it.

use crate::broker::connections::content::PublishFlags;
use crate::broker::consumers::settlement::Settlement;
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::parts::{JoinedParts, Parts};
use crate::broker::publishing::transactions::transaction_check::TransactionCheck;

/// A published message. Its route is looked up when it is committed.
#[derive(Debug)]
pub(crate) struct PendingMessage {
    pub joined: JoinedParts,
    pub flags: PublishFlags,
}

/// Deliveries that a transaction settles alike. Until its end they wait here, and not among the unacknowledged ones: none
/// is settled twice, and basic.recover leaves them alone.
#[derive(Debug)]
pub(crate) struct PendingSettlement {
    pub settlement: Settlement,
    pub deliveries: Vec<Delivery>,
}

/// The work of the next commit: first messages, then settlements.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    messages: Vec<PendingMessage>,
    settlements: Vec<PendingSettlement>,
    /// The number of deliveries in `settlements`.
    settled: usize,
    bytes: usize,
    /// The unfinished check of its messages, if it needs several turns.
    pub(in crate::broker::publishing) check: Option<Box<TransactionCheck>>,
}

/// Maximum size of a transaction's messages; a larger one is refused with 506.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 16 << 20;

/// Maximum number of deliveries in one list: a list that grows is copied.
const DELIVERIES_TOGETHER: usize = 16_384;

impl Transaction {
    /// Keep a message. False when the transaction is too large.
    pub fn publish(&mut self, parts: &Parts<'_>, flags: PublishFlags) -> bool {
        self.bytes += parts.size() + size_of::<PendingMessage>();
        if self.bytes > TRANSACTION_BYTES_MAX {
            return false;
        }
        self.messages.push(PendingMessage { joined: parts.joined(), flags });
        true
    }

    /// Keep a delivery that is settled. There are never more than were unacknowledged.
    pub fn settle(&mut self, settlement: Settlement, delivery: Delivery) {
        self.settled += 1;
        let has_room = |last: &&mut PendingSettlement| {
            last.settlement == settlement && last.deliveries.len() < DELIVERIES_TOGETHER
        };
        match self.settlements.last_mut().filter(has_room) {
            Some(last) => last.deliveries.push(delivery),
            None => self.settlements.push(PendingSettlement { settlement, deliveries: vec![delivery] }),
        }
    }

    /// Keep settlements again that were taken out, and have not been carried out.
    pub(in crate::broker::publishing) fn put_back(&mut self, settlements: Vec<PendingSettlement>) {
        self.settled += settlements.iter().map(|pending| pending.deliveries.len()).sum::<usize>();
        self.settlements.extend(settlements);
    }

    /// The messages that were published, oldest first.
    pub(in crate::broker::publishing) fn messages(&self) -> &[PendingMessage] {
        &self.messages
    }

    /// The memory that the transaction takes.
    pub fn size_bytes(&self) -> usize {
        let checked = self.check.as_ref().map_or(0, |check| check.size_bytes());
        self.bytes + checked + self.settled * size_of::<Delivery>()
    }

    /// Take out all messages.
    pub fn take_messages(&mut self) -> Vec<PendingMessage> {
        self.bytes = 0;
        self.check = None;
        std::mem::take(&mut self.messages)
    }

    /// Take out all settlements.
    pub fn take_settlements(&mut self) -> Vec<PendingSettlement> {
        self.settled = 0;
        std::mem::take(&mut self.settlements)
    }

    /// Take out the delivery that was settled last.
    pub fn take_settled(&mut self) -> Option<Delivery> {
        while let Some(last) = self.settlements.last_mut() {
            if let Some(delivery) = last.deliveries.pop() {
                self.settled -= 1;
                return Some(delivery);
            }
            self.settlements.pop();
        }
        None
    }

    /// The deliveries that it settles.
    #[cfg(test)]
    pub fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.settlements.iter().flat_map(|pending| &pending.deliveries)
    }
}

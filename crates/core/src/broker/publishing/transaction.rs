//! Transactions: what is published and settled is kept until the next commit, which carries out all of it.

use crate::amqp::method::{TxCommitOk, TxRollbackOk};
use crate::amqp::{AmqpError, BasicProperties, ReplyCode};

use crate::broker::Broker;
use crate::broker::connections::content::PublishFlags;
use crate::broker::consumers::settle::Settle;
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::ChannelSlot;
use crate::broker::parts::Parts;

/// A published message. Its route is looked up when it is committed.
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

/// What is carried out at the next commit: first messages, then settlements.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    messages: Vec<PendingMessage>,
    settles: Vec<Settle>,
    bytes: usize,
}

/// Maximum size of a transaction; a larger one is refused with 506. The journal takes that much beyond the point from
/// which publishers have to wait, so that a commit never stops in the middle for lack of room.
const TRANSACTION_BYTES_MAX: usize = 16 << 20;
/// Maximum number of settlements of a transaction.
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

    /// The memory that it takes.
    pub fn size_bytes(&self) -> usize {
        self.bytes + self.settles.len() * size_of::<Settle>()
    }

    /// Take out everything; the next transaction begins empty.
    pub fn take(&mut self) -> (Vec<PendingMessage>, Vec<Settle>) {
        self.bytes = 0;
        (std::mem::take(&mut self.messages), std::mem::take(&mut self.settles))
    }
}

impl Broker {
    /// Carry out all of a transaction. What could fail is checked first: if a message has no exchange, nothing happens.
    pub(crate) fn commit(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let transaction = self.clients[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        let (messages, settles) = transaction.take();
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        if !messages.is_empty() && self.durability.is_congested() {
            let reason = "the journal has no room for the transaction now, and nothing of it has happened";
            return Err(error(ReplyCode::PreconditionFailed, reason));
        }
        for message in &messages {
            self.check_exchange(channel, message)?;
        }
        for message in &messages {
            let parts = message.parts();
            self.publish_now(channel, &parts, message.flags, BasicProperties::from_checked(parts.properties))?;
        }
        for settle in settles {
            self.settle_deliveries(channel, settle)?;
        }
        self.reply(channel, TxCommitOk {}.into())
    }

    /// Check that the exchange of a message exists and that the message may be published there.
    fn check_exchange(&mut self, channel: ChannelSlot, message: &PendingMessage) -> Result<(), AmqpError> {
        let parts = message.parts();
        let (exchange, _) = self.check_route(channel, &parts)?;
        let (vhost, _) = self.clients.vhost_and_owner(channel);
        self.topology.check_exchange(vhost, exchange).map_err(FailedAt::at_publish)
    }

    /// Drop a transaction. What was settled in it waits again for its acknowledgement.
    pub(crate) fn rollback(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let transaction = self.clients[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        drop(transaction.take());
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        self.reply(channel, TxRollbackOk {}.into())
    }
}

fn not_transactional() -> AmqpError {
    error(ReplyCode::PreconditionFailed, "channel is not transactional")
}

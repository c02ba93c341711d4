//! Begins, commits and rolls back transactions.

use crate::amqp::method::{TxCommitOk, TxRollbackOk};
use crate::amqp::{AmqpError, ReplyCode};
use crate::broker::Broker;
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::parts::Arrived;

impl Broker {
    /// Carry out a whole transaction, or nothing of it: whatever can refuse it is checked first.
    pub(crate) fn commit(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let transaction = self.clients[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        let messages = transaction.take_messages();
        self.check_messages(channel, &messages)?;
        let published = messages
            .into_iter()
            .try_for_each(|message| self.publish_now(channel, Arrived::Joined(message.joined), message.flags));
        self.durability.end_reservation();
        published?;
        if let Some(transaction) = &mut self.clients[channel].transaction {
            let settlements = transaction.take_settlements();
            self.settle_committed(channel, settlements);
        }
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        self.reply(channel, TxCommitOk {}.into())
    }

    /// Drop a transaction. Deliveries that it settled wait for their acknowledgement again.
    pub(crate) fn rollback(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        if self.clients[channel].transaction.is_none() {
            return Err(not_transactional());
        }
        self.clients.roll_back(channel);
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        self.reply(channel, TxRollbackOk {}.into())
    }
}

fn not_transactional() -> AmqpError {
    error(ReplyCode::PreconditionFailed, "channel is not transactional")
}

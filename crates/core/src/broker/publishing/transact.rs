//! Begins, commits and rolls back transactions.

use crate::amqp::method::{TxCommitOk, TxRollbackOk};
use crate::amqp::{AmqpError, BasicProperties, ReplyCode};
use crate::broker::Broker;
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::ChannelSlot;
use crate::broker::publishing::transaction::PendingMessage;

impl Broker {
    /// Carry out a whole transaction. Errors are checked first: if the exchange of a message is missing, nothing happens.
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

    /// Drop a transaction. Deliveries that it settled wait for their acknowledgement again.
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

//! tx.select, tx.commit, tx.rollback: all of a transaction, or nothing.

use crate::amqp::method::{BasicPublish, TxCommitOk, TxRollbackOk};
use crate::amqp::{AmqpError, BasicProperties, ReplyCode};

use crate::broker::Broker;
use crate::broker::connections::dispatch::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::publishing::transaction::PendingMessage;

impl Broker {
    pub(crate) fn select_transactions(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let it = &mut self.channels[channel];
        if it.confirms.is_some() {
            return Err(error(ReplyCode::PreconditionFailed, "cannot switch from confirm to tx mode"));
        }
        it.transaction.get_or_insert_default();
        Ok(())
    }

    /// Let all of it happen. What could fail is looked at first: a message without an exchange lets nothing happen.
    pub(crate) fn commit(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let transaction = self.channels[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        let (messages, settles) = transaction.take();
        self.count_unfinished(channel);
        if !messages.is_empty() && self.journal.as_ref().is_some_and(|journal| journal.durable.is_congested()) {
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

    /// Whether this message can be published, whatever its route.
    fn check_exchange(&mut self, channel: ChannelSlot, message: &PendingMessage) -> Result<(), AmqpError> {
        let parts = message.parts();
        let (exchange, _) = self.check_route(channel, &parts)?;
        let (vhost, _) = self.place(channel);
        self.topology.check_exchange(vhost, exchange).map_err(|mut error| {
            error.method = BasicPublish::ID;
            error
        })
    }

    /// Let nothing of it happen. What was settled in it waits again for its acknowledgement.
    pub(crate) fn rollback(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let transaction = self.channels[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        drop(transaction.take());
        self.count_unfinished(channel);
        self.reply(channel, TxRollbackOk {}.into())
    }
}

fn not_transactional() -> AmqpError {
    error(ReplyCode::PreconditionFailed, "channel is not transactional")
}

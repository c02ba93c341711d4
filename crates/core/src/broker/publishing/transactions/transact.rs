//! Begins, commits and rolls back transactions.

use crate::amqp::method::TxRollbackOk;
use crate::amqp::{AmqpError, ReplyCode};
use crate::broker::Broker;
use crate::broker::consumers::settle::SETTLED_AT_ONCE;
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;

impl Broker {
    /// Carry out a whole transaction, or nothing of it: whatever can refuse it is checked first. A large one takes several
    /// turns, of which the first only check, and one is carried out at a time, so that the room that was found is still there.
    pub(crate) fn commit(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        #[cfg(test)]
        if self.faults.commits_unchecked {
            return self.commit_unchecked(channel);
        }
        if self.clients[channel].transaction.is_some() && self.publishing.has_commit() {
            self.turn.repeat_frame();
            return Ok(());
        }
        let mut transaction = self.clients[channel].transaction.take().ok_or_else(not_transactional)?;
        let checked = self.check_messages(channel, &mut transaction);
        self.clients[channel].transaction = Some(transaction);
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        match checked? {
            Some(routes) => self.carry_out(channel, routes),
            None => self.turn.repeat_frame(),
        }
        Ok(())
    }

    /// Drop a transaction. Deliveries that it settled wait for their acknowledgement again. Many take several turns.
    pub(crate) fn rollback(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        if self.clients[channel].transaction.is_none() {
            return Err(not_transactional());
        }
        let is_done = self.clients.roll_back(channel, SETTLED_AT_ONCE);
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        if !is_done {
            self.turn.repeat_frame();
            return Ok(());
        }
        self.reply(channel, TxRollbackOk {}.into())
    }

    /// Publish messages one by one until one is refused: a planted fault.
    #[cfg(test)]
    fn commit_unchecked(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        use crate::broker::parts::Arrived;
        let transaction = self.clients[channel].transaction.as_mut().ok_or_else(not_transactional)?;
        let messages = transaction.take_messages();
        for message in messages {
            self.publish_now(channel, &mut Arrived::Joined(message.joined), message.flags)?;
        }
        self.carry_out(channel, Vec::new());
        Ok(())
    }
}

fn not_transactional() -> AmqpError {
    error(ReplyCode::PreconditionFailed, "channel is not transactional")
}

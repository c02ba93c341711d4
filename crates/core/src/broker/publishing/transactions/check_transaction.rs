//! Checks a whole transaction before anything of it happens, so that a refused commit has done nothing.
//!
//! What a message says of itself was checked when it was published. What may have changed since is checked here: the
//! exchange, permissions, and room in the journal, in streams and in queues that refuse what does not fit. The check finds
//! the route of each message, which it keeps: whatever happens to exchanges while the transaction is carried out, its
//! messages go where they were to go when it was committed.

use crate::amqp::{AmqpError, BasicProperties, ReplyCode};
use crate::broker::Broker;
use crate::broker::addresses::stamp::STAMP_BYTES_MAX;
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::ChannelSlot;
use crate::broker::parts::Parts;
use crate::broker::publishing::further_keys::may_have_copies;
use crate::broker::publishing::publish::cannot_keep;
use crate::broker::publishing::transactions::transaction::{PendingMessage, Transaction};
use crate::broker::publishing::transactions::transaction_check::{CheckedRoute, TransactionCheck};
use crate::broker::queues::policy::Overflow;
use crate::broker::topology::QueueId;

/// Maximum memory of the routes of a transaction's messages; one with more of them is refused with 506.
const ROUTES_BYTES_MAX: usize = 16 << 20;

impl Broker {
    /// Check the messages of a transaction, as far as the turn goes, and in the end reserve room for them in the journal.
    /// Returns their routes; None when the check goes on in the next turn, or when the disk has taken what others have
    /// recorded.
    ///
    /// # Errors
    /// Return the reason to refuse one of them, or all of them together.
    pub(in crate::broker::publishing) fn check_messages(
        &mut self,
        channel: ChannelSlot,
        transaction: &mut Transaction,
    ) -> Result<Option<Vec<CheckedRoute>>, AmqpError> {
        if transaction.messages().is_empty() {
            return Ok(Some(Vec::new()));
        }
        if let Some(reason) = self.fatal() {
            return Err(refused(&format!("nothing can be made durable any more: {reason}")));
        }
        if transaction.check.is_none() && self.await_logs(channel) {
            return Ok(None);
        }
        let mut check = transaction.check.take().unwrap_or_default();
        let mut routed = std::mem::take(&mut self.publishing.routed);
        let checked = self.check_some(channel, transaction.messages(), &mut routed, &mut check);
        self.publishing.routed = routed;
        if !checked.map_err(FailedAt::at_publish)? || self.await_logs(channel) {
            transaction.check = Some(check);
            return Ok(None);
        }
        if !self.durability.reserve(check.journal_bytes) {
            return Err(no_room());
        }
        Ok(Some(check.into_routes()))
    }

    /// Let the connection of a channel wait, as publishers do, if the logs have much to write. Returns whether it waits.
    fn await_logs(&mut self, channel: ChannelSlot) -> bool {
        #[cfg(test)]
        if self.faults.commits_crowded {
            return false;
        }
        if !self.streams.is_congested() && !self.durability.is_congested() {
            return false;
        }
        self.backpressure.await_journal();
        let connection = self.clients[channel].connection;
        self.backpressure.block(&mut self.clients, connection);
        true
    }

    /// Check messages that were not checked yet. Returns whether that was all of them.
    fn check_some(
        &mut self,
        channel: ChannelSlot,
        messages: &[PendingMessage],
        routed: &mut Vec<QueueId>,
        check: &mut TransactionCheck,
    ) -> Result<bool, AmqpError> {
        let mut handles = Vec::new();
        while let Some(message) = messages.get(check.count()) {
            if self.turn.is_over() {
                return Ok(false);
            }
            routed.clear();
            let is_addressed = self.check_message(channel, message, routed, check)?;
            self.turn.spend(1 + routed.len() as u32 / 8);
            handles.clear();
            handles.extend(routed.iter().map(|&id| self.queues[id].handle(id)));
            check.add(&handles, is_addressed);
            if check.size_bytes() > ROUTES_BYTES_MAX {
                let reason = "the messages of one transaction go to too many different sets of queues";
                return Err(error(ReplyCode::ResourceError, reason));
            }
        }
        Ok(true)
    }

    /// Check one message, and find its queues. Returns whether some of them are of addresses.
    fn check_message(
        &mut self,
        channel: ChannelSlot,
        message: &PendingMessage,
        routed: &mut Vec<QueueId>,
        check: &mut TransactionCheck,
    ) -> Result<bool, AmqpError> {
        let parts = message.joined.parts();
        let properties = BasicProperties::from_checked(parts.properties);
        let is_addressed = self.route(channel, &parts, properties, may_have_copies(&properties), routed)?;
        for queue in routed.iter() {
            self.check_queue(*queue, &parts, check)?;
        }
        if (properties.is_persistent() || is_addressed) && !routed.is_empty() {
            if self.durability.is_on() && self.awaits_definition(routed) {
                return Err(no_room());
            }
            let bytes = self.durability.record_bytes(&parts, routed.len()).map_err(|reason| cannot_keep(&reason))?;
            check.journal_bytes += bytes + if is_addressed { STAMP_BYTES_MAX } else { 0 };
        }
        Ok(is_addressed)
    }

    /// Check that a queue has room for one more message of the transaction.
    fn check_queue(&self, id: QueueId, parts: &Parts<'_>, check: &mut TransactionCheck) -> Result<(), AmqpError> {
        let queue = &self.queues[id];
        if let Some(stream) = &queue.stream {
            return self.streams.check_size(stream.log, parts.size()).map_err(|reason| cannot_keep(&reason));
        }
        if queue.policy.overflow == Overflow::DropHead {
            return Ok(());
        }
        let (count, bytes) = check.add_to_queue(id, parts.size());
        if queue.has_no_room_for(count, bytes) {
            let name = self.topology.queue_info(id).map_or("", |info| info.name);
            return Err(refused(&format!(
                "queue '{name}' has no room for the transaction, and nothing of it has happened"
            )));
        }
        Ok(())
    }
}

fn refused(reason: &str) -> AmqpError {
    error(ReplyCode::PreconditionFailed, reason)
}

fn no_room() -> AmqpError {
    refused("the journal has no room for the transaction, and nothing of it has happened")
}

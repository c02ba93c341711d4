//! Checks a whole transaction before anything of it happens, so that a refused commit has done nothing.
//!
//! What a message says of itself was checked when it was published. What may have changed since is checked here: the
//! exchange, permissions, and room in the journal, in streams and in queues that refuse what does not fit.

use hashbrown::HashMap;

use crate::amqp::{AmqpError, BasicProperties, ReplyCode};
use crate::broker::Broker;
use crate::broker::addresses::stamp::STAMP_BYTES_MAX;
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::ChannelSlot;
use crate::broker::parts::Parts;
use crate::broker::publishing::further_keys::may_have_copies;
use crate::broker::publishing::transaction::PendingMessage;
use crate::broker::queues::policy::Overflow;
use crate::broker::topology::QueueId;
use crate::journal::AppendError;

/// The room that the messages of a transaction need.
#[derive(Default)]
struct TransactionDemand {
    journal_bytes: usize,
    /// The messages for each queue that refuses what does not fit: their number and bytes.
    queues: HashMap<QueueId, (u64, u64)>,
}

impl Broker {
    /// Check the messages of a transaction, and reserve room for them in the journal.
    ///
    /// # Errors
    /// Whatever would refuse one of them, or all of them together.
    pub(super) fn check_messages(
        &mut self,
        channel: ChannelSlot,
        messages: &[PendingMessage],
    ) -> Result<(), AmqpError> {
        if messages.is_empty() {
            return Ok(());
        }
        if let Some(reason) = self.fatal() {
            return Err(refused(&format!("nothing can be made durable any more: {reason}")));
        }
        #[cfg(test)]
        if self.faults.commits_unchecked {
            return Ok(());
        }
        let mut demand = TransactionDemand::default();
        let mut routed = std::mem::take(&mut self.publishing.routed);
        let checked = messages.iter().try_for_each(|message| {
            routed.clear();
            self.check_message(channel, message, &mut routed, &mut demand)
        });
        self.publishing.routed = routed;
        checked.map_err(FailedAt::at_publish)?;
        if self.streams.is_congested() || !self.durability.reserve(demand.journal_bytes) {
            return Err(refused("the journal has no room for the transaction now, and nothing of it has happened"));
        }
        Ok(())
    }

    fn check_message(
        &mut self,
        channel: ChannelSlot,
        message: &PendingMessage,
        routed: &mut Vec<QueueId>,
        demand: &mut TransactionDemand,
    ) -> Result<(), AmqpError> {
        let parts = message.joined.parts();
        let properties = BasicProperties::from_checked(parts.properties);
        let is_addressed = self.route(channel, &parts, properties, may_have_copies(&properties), routed)?;
        for queue in routed.iter() {
            self.check_queue(*queue, &parts, demand)?;
        }
        if (properties.is_persistent() || is_addressed) && !routed.is_empty() {
            let bytes = self.durability.record_bytes(&parts, routed.len()).map_err(|reason| cannot_keep(&reason))?;
            demand.journal_bytes += bytes + if is_addressed { STAMP_BYTES_MAX } else { 0 };
        }
        Ok(())
    }

    /// Check that a queue has room for one more message of the transaction.
    fn check_queue(&self, id: QueueId, parts: &Parts<'_>, demand: &mut TransactionDemand) -> Result<(), AmqpError> {
        let queue = &self.queues[id];
        if let Some(stream) = &queue.stream {
            return self.streams.check_size(stream.log, parts.size()).map_err(|reason| cannot_keep(&reason));
        }
        if queue.policy.overflow == Overflow::DropHead {
            return Ok(());
        }
        let (count, bytes) = demand.queues.entry(id).or_default();
        *count += 1;
        *bytes += parts.size() as u64;
        if queue.policy.is_over(queue.ready().len() as u64 + *count, queue.ready_bytes() + *bytes) {
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

fn cannot_keep(reason: &AppendError) -> AmqpError {
    refused(&format!("the message cannot be kept: {reason}"))
}

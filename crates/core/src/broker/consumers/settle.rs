//! Settling: deliveries are acknowledged, put back where they were, or dropped.

use crate::amqp::method::BasicRecoverOk;
use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::clock::NEVER;
use crate::broker::consumers::settlement::{Settle, Settlement};
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, Handle, MessageId};
use crate::broker::publishing::transaction::PendingSettlement;
use crate::broker::queues::letter::Reason;
use crate::broker::queues::queue::QueueEntry;
use crate::broker::topology::QueueId;

impl Broker {
    /// Carry out an ack, nack or reject: now, or with the transaction.
    pub(crate) fn settle_or_keep(&mut self, channel: ChannelSlot, settle: Settle) -> Result<(), AmqpError> {
        let it = &mut self.clients[channel];
        let Some(transaction) = &mut it.transaction else { return self.settle_deliveries(channel, settle) };
        check_tag(settle, it.delivery_tag)?;
        if settle.multiple {
            while let Some(delivery) = it.unacknowledged.settle_oldest(settle.through()) {
                transaction.settle(settle.settlement, delivery);
            }
        } else {
            let delivery = it.unacknowledged.settle(settle.tag).ok_or_else(|| unknown(settle.tag))?;
            transaction.settle(settle.settlement, delivery);
        }
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        Ok(())
    }

    /// Carry out the settlements of a transaction.
    pub(crate) fn settle_committed(&mut self, channel: ChannelSlot, settlements: Vec<PendingSettlement>) {
        let had_credit = self.clients[channel].credit.is_left();
        for PendingSettlement { settlement, deliveries } in settlements {
            match settlement {
                Settlement::Requeue => self.requeue(channel, deliveries),
                _ => deliveries.iter().for_each(|delivery| self.settle_delivery(channel, delivery, settlement)),
            }
        }
        self.wake_if_credit_came(channel, had_credit);
    }

    /// Carry out an ack, nack or reject now.
    ///
    /// # Errors
    /// 406: no such delivery waits.
    pub(crate) fn settle_deliveries(&mut self, channel: ChannelSlot, settle: Settle) -> Result<(), AmqpError> {
        check_tag(settle, self.clients[channel].delivery_tag)?;
        if !settle.multiple {
            let delivery =
                self.clients[channel].unacknowledged.settle(settle.tag).ok_or_else(|| unknown(settle.tag))?;
            let had_credit = self.clients[channel].credit.is_left();
            self.settle_delivery(channel, &delivery, settle.settlement);
            self.wake_if_credit_came(channel, had_credit);
            return Ok(());
        }
        let through = settle.through();
        let had_credit = self.clients[channel].credit.is_left();
        if settle.settlement == Settlement::Requeue {
            let mut deliveries = Vec::new();
            while let Some(delivery) = self.clients[channel].unacknowledged.settle_oldest(through) {
                deliveries.push(delivery);
            }
            self.requeue(channel, deliveries);
        } else {
            while let Some(delivery) = self.clients[channel].unacknowledged.settle_oldest(through) {
                self.settle_delivery(channel, &delivery, settle.settlement);
            }
        }
        self.wake_if_credit_came(channel, had_credit);
        Ok(())
    }

    #[inline]
    fn settle_delivery(&mut self, channel: ChannelSlot, delivery: &Delivery, settlement: Settlement) {
        self.give_credit(channel, delivery);
        let queue = delivery.queue;
        if delivery.entry.message == MessageId::NONE {
            self.metrics.acknowledged += 1;
            return self.queues.read_by_one(queue);
        }
        if self.queues.queue_of(queue).is_none() {
            // The queue was deleted before; only the message is left.
            self.settle_gone(queue, delivery.entry);
            return;
        }
        self.queues[queue.id].unacknowledged -= 1;
        match settlement {
            Settlement::Acknowledge => {
                self.metrics.acknowledged += 1;
                self.settle(queue.id, delivery.entry);
            }
            Settlement::Discard => {
                self.metrics.dropped += 1;
                self.discard(queue.id, delivery.entry, Reason::Rejected);
            }
            Settlement::Requeue => {
                self.metrics.requeued += 1;
                let size = self.messages.get(delivery.entry.message).size();
                #[cfg(test)]
                if self.faults.requeues_last {
                    self.requeue_last(queue.id, delivery.entry, size);
                    return self.requeued(queue.id);
                }
                self.queues[queue.id].requeue(delivery.entry, size);
                self.requeued(queue.id);
            }
        }
    }

    /// Requeue an entry at the end: a planted fault.
    #[cfg(test)]
    fn requeue_last(&mut self, queue: QueueId, entry: QueueEntry, size: usize) {
        let it = &mut self.queues[queue];
        let last = it.next_entry(entry.message, entry.expires);
        it.push(QueueEntry { redelivered: true, ..last }, size);
    }

    /// Release an entry that a queue is done with.
    #[inline]
    pub(crate) fn settle(&mut self, queue: QueueId, entry: QueueEntry) {
        self.release_entry(entry, self.queues[queue].durable_id);
    }

    /// Settle a delivery whose queue was deleted.
    fn settle_gone(&mut self, queue: Handle<QueueId>, entry: QueueEntry) {
        let durable_id = self.durability.settle_deleted(queue);
        self.release_entry(entry, durable_id);
    }

    /// Give back the credit that a delivery took of its consumer and its channel. Where the channel had none left, its
    /// consumers wake together, in their turn.
    #[inline]
    fn give_credit(&mut self, channel: ChannelSlot, delivery: &Delivery) {
        let Some(consumer) = delivery.consumer else { return };
        let had_none = self.clients[channel].credit.give(1);
        if let Some(it) = self.clients.consumer_of(consumer)
            && it.credit.give(1)
            && !had_none
        {
            self.wake(consumer.id);
        }
    }

    fn wake_if_credit_came(&mut self, channel: ChannelSlot, had_credit: bool) {
        if !had_credit && self.clients[channel].credit.is_left() {
            self.wake_channel(channel);
        }
    }

    /// Put deliveries back into their queues, in one pass per queue.
    fn requeue(&mut self, channel: ChannelSlot, mut deliveries: Vec<Delivery>) {
        deliveries.iter().for_each(|delivery| self.give_credit(channel, delivery));
        deliveries.sort_by_key(|delivery| delivery.queue.id);
        for group in deliveries.chunk_by(|a, b| a.queue == b.queue) {
            let queue = group[0].queue;
            if group[0].entry.message == MessageId::NONE {
                group.iter().for_each(|_| self.queues.read_by_one(queue));
                continue;
            }
            if self.queues.queue_of(queue).is_none() {
                group.iter().for_each(|delivery| self.settle_gone(queue, delivery.entry));
                continue;
            }
            let sized = |delivery: &Delivery| (delivery.entry, self.messages.get(delivery.entry.message).size());
            let entries: Vec<_> = group.iter().map(sized).collect();
            let it = &mut self.queues[queue.id];
            it.unacknowledged -= entries.len() as u32;
            self.metrics.requeued += entries.len() as u64;
            it.requeue_many(entries);
            self.requeued(queue.id);
        }
    }

    /// Look after a queue to which entries came back: consumers may take them, and it may be too full, or entries expired.
    fn requeued(&mut self, queue: QueueId) {
        let it = &self.queues[queue];
        let expires = it.front().is_some_and(|front| front.expires != NEVER);
        if it.policy.is_bounded() {
            self.drop_head(queue);
        }
        if expires {
            self.queues.set_timer(queue);
        }
        self.queues.schedule(queue);
    }

    /// Put all unacknowledged deliveries of a channel back.
    pub(crate) fn requeue_all(&mut self, channel: ChannelSlot) {
        let it = &mut self.clients[channel];
        let deliveries: Vec<Delivery> = std::mem::take(&mut it.unacknowledged).iter().copied().collect();
        #[cfg(test)]
        if self.faults.forgets_requeue {
            return deliveries.iter().for_each(|delivery| self.settle_delivery(channel, delivery, Settlement::Discard));
        }
        self.requeue(channel, deliveries);
    }

    /// Carry out basic.recover: deliver unacknowledged messages again.
    pub(crate) fn recover(&mut self, channel: ChannelSlot, requeue: bool, wants_reply: bool) -> Result<(), AmqpError> {
        if !requeue {
            return Err(error(ReplyCode::NotImplemented, "requeue=false"));
        }
        let had_credit = self.clients[channel].credit.is_left();
        self.requeue_all(channel);
        if wants_reply {
            self.reply(channel, BasicRecoverOk {}.into())?;
        }
        self.wake_if_credit_came(channel, had_credit);
        Ok(())
    }
}

/// Refuse a tag that was never given; with `multiple`, 0 stands for all.
fn check_tag(settle: Settle, last: u64) -> Result<(), AmqpError> {
    let is_known = if settle.multiple { settle.tag <= last } else { settle.tag != 0 && settle.tag <= last };
    if is_known { Ok(()) } else { Err(unknown(settle.tag)) }
}

fn unknown(tag: u64) -> AmqpError {
    error(ReplyCode::PreconditionFailed, &format!("unknown delivery tag {tag}"))
}

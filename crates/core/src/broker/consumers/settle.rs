//! Settling: deliveries are acknowledged, put back where they were, or dropped.

use crate::amqp::method::BasicRecoverOk;
use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::clock::NEVER;
use crate::broker::consumers::settlement::{Settle, Settlement};
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, Handle, MessageId};
use crate::broker::publishing::transactions::transaction::{PendingSettlement, Transaction};
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::letter::Reason;
use crate::broker::topology::QueueId;

/// Maximum number of deliveries that are settled in one call, which takes about 2 ms; others follow in the next turns.
pub(crate) const SETTLED_AT_ONCE: usize = 10_000;

impl Broker {
    /// Carry out an ack, nack or reject: now, or with the transaction.
    pub(crate) fn settle_or_keep(&mut self, channel: ChannelSlot, settle: Settle) -> Result<(), AmqpError> {
        let it = &self.clients[channel];
        let is_kept = it.transaction.is_some();
        if !is_kept || settle.multiple {
            return self.settle_deliveries(channel, Settle { is_kept, ..settle });
        }
        check_tag(settle, it.delivery_tag)?;
        if !self.clients.settle_in_transaction(channel, settle) {
            return Err(unknown(settle.tag));
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

    /// Carry out settlements of a transaction whose channel is gone: they take no credit any more.
    pub(crate) fn settle_without_channel(&mut self, pending: PendingSettlement) {
        match pending.settlement {
            Settlement::Requeue => self.requeue_returned(pending.deliveries),
            settlement => pending.deliveries.iter().for_each(|delivery| self.settle_returned(delivery, settlement)),
        }
    }

    /// Put deliveries back that a transaction cannot settle any more, and whose channel is gone.
    pub(crate) fn put_all_back(&mut self, left: Vec<PendingSettlement>) {
        left.into_iter().for_each(|pending| self.requeue_returned(pending.deliveries));
    }

    /// Carry out an ack, nack or reject now, or keep one of many deliveries for the transaction.
    ///
    /// # Errors
    /// 406: no such delivery waits.
    pub(crate) fn settle_deliveries(&mut self, channel: ChannelSlot, settle: Settle) -> Result<(), AmqpError> {
        check_tag(settle, self.clients[channel].delivery_tag)?;
        if !settle.multiple {
            let delivery = self.clients.take_delivery(channel, settle.tag).ok_or_else(|| unknown(settle.tag))?;
            let had_credit = self.clients[channel].credit.is_left();
            self.settle_delivery(channel, &delivery, settle.settlement);
            self.wake_if_credit_came(channel, had_credit);
            return Ok(());
        }
        let tag = if settle.tag == 0 { self.clients[channel].delivery_tag } else { settle.tag };
        let connection = self.clients[channel].connection;
        self.clients[connection].settling.push_back((channel, Settle { tag, ..settle }));
        if !self.go_on_settling(connection) {
            self.suspend(connection);
        }
        Ok(())
    }

    /// Go on with the settlements of many deliveries that a connection has begun. Returns whether they are done.
    pub(crate) fn go_on_settling(&mut self, connection: ConnectionSlot) -> bool {
        let mut left = SETTLED_AT_ONCE;
        while let Some((channel, settle)) = self.clients[connection].settling.front().copied() {
            let had_credit = self.clients[channel].credit.is_left();
            left -= match settle.is_kept {
                true => self.keep_some(channel, settle, left),
                false => self.settle_some(channel, settle, left),
            };
            self.wake_if_credit_came(channel, had_credit);
            if left == 0 {
                return false;
            }
            self.clients[connection].settling.pop_front();
        }
        true
    }

    /// Keep the settlement of the oldest deliveries through a tag for the transaction, at most `count_max`. Returns how many.
    fn keep_some(&mut self, channel: ChannelSlot, settle: Settle, count_max: usize) -> usize {
        let count = self.clients.settle_oldest_in_transaction(channel, settle, count_max);
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        count
    }

    /// Settle the oldest deliveries through a tag, at most `count_max`. Returns how many.
    fn settle_some(&mut self, channel: ChannelSlot, settle: Settle, count_max: usize) -> usize {
        let mut count = 0;
        let mut requeued = Vec::new();
        while count < count_max
            && let Some(delivery) = self.clients.take_oldest(channel, settle.tag)
        {
            count += 1;
            match settle.settlement {
                Settlement::Requeue => requeued.push(delivery),
                _ => self.settle_delivery(channel, &delivery, settle.settlement),
            }
        }
        self.requeue(channel, requeued);
        count
    }

    #[inline]
    fn settle_delivery(&mut self, channel: ChannelSlot, delivery: &Delivery, settlement: Settlement) {
        self.give_credit(channel, delivery);
        if delivery.entry.message == MessageId::NONE
            && !matches!(settlement, Settlement::Requeue)
            && let Some(consumer) = delivery.consumer
        {
            self.settle_for_reader(channel, consumer, delivery.entry.position);
        }
        self.settle_returned(delivery, settlement);
    }

    /// Settle a delivery that takes no credit any more.
    #[inline]
    fn settle_returned(&mut self, delivery: &Delivery, settlement: Settlement) {
        let queue = delivery.queue;
        if delivery.entry.message == MessageId::NONE {
            self.metrics.acknowledged += 1;
            return self.queues.read_by_one(queue);
        }
        let Some(it) = self.queues.queue_of(queue) else {
            // The queue was deleted before; only the message is left.
            return self.settle_gone(queue, delivery.entry);
        };
        it.unacknowledged -= 1;
        match settlement {
            Settlement::Acknowledge => {
                let durable_id = it.durable_id;
                self.metrics.acknowledged += 1;
                self.release_entry(delivery.entry, durable_id);
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
                self.queues.requeue(queue.id, delivery.entry, size);
                self.requeued(queue.id);
            }
        }
    }

    /// Requeue an entry at the end: a planted fault.
    #[cfg(test)]
    fn requeue_last(&mut self, queue: QueueId, entry: QueueEntry, size: usize) {
        let it = &mut self.queues[queue];
        let last = it.next_entry(entry.message, entry.expires);
        self.queues.push(queue, QueueEntry { redelivered: true, ..last }, size);
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
        let may_take = !had_credit || self.backpressure.is_severe;
        if may_take && self.clients[channel].credit.is_left() {
            self.wake_channel(channel);
        }
    }

    /// Put deliveries back into their queues, in one pass per queue.
    fn requeue(&mut self, channel: ChannelSlot, deliveries: Vec<Delivery>) {
        deliveries.iter().for_each(|delivery| self.give_credit(channel, delivery));
        self.requeue_returned(deliveries);
    }

    /// Settle deliveries that no longer take credit.
    fn requeue_returned(&mut self, mut deliveries: Vec<Delivery>) {
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
            self.queues.requeue_many(queue.id, entries);
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

    /// Put all unacknowledged deliveries of a channel that is closed back, with those that its transaction would have settled,
    /// and finish what it had begun to settle.
    pub(crate) fn return_deliveries(&mut self, channel: ChannelSlot, transaction: Option<Box<Transaction>>) {
        let connection = self.clients[channel].connection;
        let settling = &mut self.clients[connection].settling;
        let settles = settling.iter().filter(|(of, _)| *of == channel).map(|(_, settle)| *settle).collect();
        settling.retain(|(of, _)| *of != channel);
        #[cfg(test)]
        if self.faults.forgets_requeue {
            while let Some(delivery) = self.clients.take_oldest(channel, u64::MAX) {
                self.settle_delivery(channel, &delivery, Settlement::Discard);
            }
        }
        self.clients.orphan(channel, settles, transaction);
        if !self.turn.is_over() {
            self.settle_orphans();
        }
    }

    /// Settle some deliveries of channels that are gone, most of which go back to their queues.
    pub(crate) fn settle_orphans(&mut self) {
        if !self.clients.has_orphans() {
            return;
        }
        let mut requeued = Vec::new();
        for count in 0..SETTLED_AT_ONCE {
            match self.clients.next_orphan() {
                None => {
                    self.turn.spend(count as u32);
                    break;
                }
                Some(Some((delivery, Settlement::Requeue))) => requeued.push(delivery),
                Some(Some((delivery, settlement))) => self.settle_returned(&delivery, settlement),
                Some(None) => {}
            }
        }
        self.requeue_returned(requeued);
    }

    /// Carry out basic.recover: deliver unacknowledged messages again.
    pub(crate) fn recover(&mut self, channel: ChannelSlot, requeue: bool, wants_reply: bool) -> Result<(), AmqpError> {
        if !requeue {
            return Err(error(ReplyCode::NotImplemented, "requeue=false"));
        }
        self.settle_deliveries(
            channel,
            Settle { tag: 0, multiple: true, settlement: Settlement::Requeue, is_kept: false },
        )?;
        if wants_reply {
            self.reply(channel, BasicRecoverOk {}.into())?;
        }
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

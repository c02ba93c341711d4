//! Delivery: messages go from queues to the consumers whose turn it is, as frames of their connections.
//!
//! A message that comes to an empty queue with a waiting consumer is written to the consumer's output in the same call: from
//! where it is, when the consumer acknowledges nothing, else from the copy that is stored. When a public call returns, a queue that has both
//! a ready entry and a consumer that can take it is scheduled: it had no room in the turn, and goes on in the next call.

use crate::amqp::properties::put_content;

use crate::broker::Broker;
use crate::broker::clock::NEVER;
use crate::broker::connections::delivery_frames::{GET_OK, delivery_numbers, put_method};
use crate::broker::connections::output_buffer::CROWDED_BYTES;
use crate::broker::consumers::unacknowledged::{CoarseTime, Delivery};
use crate::broker::disk_waits::RETRY_US;
use crate::broker::durable::Saved;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, ConsumerSlot, MessageId};
use crate::broker::parts::Parts;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::expiry::DROP_STEPS;
use crate::broker::queues::letter::Reason;
use crate::broker::queues::message_store::copy_steps;
use crate::broker::queues::queue::Queue;
use crate::broker::topology::QueueId;

/// The steps that it takes to find that a message has to come from the disk.
const ASK_STEPS: u32 = 16;

/// Maximum number of entries of a queue that are dropped at once because it is over its bounds.
const DROPPED_AT_ONCE: usize = 256;

impl Broker {
    /// Deliver a message that is stored nowhere to a consumer without acknowledgements, if one waits for it. `saved` is its
    /// record in the journal, with the number of durable queues that have it there: this one is done with it. Returns
    /// whether it was delivered.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        id: QueueId,
        parts: &Parts<'_>,
        saved: Option<&mut (Saved, u32)>,
        own_ms: Option<u64>,
    ) -> bool {
        let queue = &self.queues[id];
        let needs_no_ack = |slot: ConsumerSlot| self.clients[slot].no_ack;
        if !queue.may_pass() || !queue.ring.next().is_some_and(needs_no_ack) || self.is_late(queue, own_ms) {
            return false;
        }
        let Some(slot) = self.taker(id).filter(|slot| self.clients[*slot].no_ack) else { return false };
        if self.awaits_memory(id, slot, parts.size()) {
            return false;
        }
        self.turn.spend(copy_steps(parts.size()));
        let output_bytes_max = self.output_bytes_max();
        self.clients.outlet(slot).write(false, parts, None, output_bytes_max);
        self.metrics.delivered += 1;
        let queue = &mut self.queues[id];
        queue.published += 1;
        queue.ring.rotate();
        if let (Some(durable_id), Some((saved, queues))) = (queue.durable_id, saved) {
            self.durability.settle(saved.record, durable_id);
            *queues -= 1;
        }
        true
    }

    /// Whether a message that comes to a queue has to wait there, because the turn is over. It goes at once where it could
    /// not stay.
    #[inline]
    fn is_late(&self, queue: &Queue, own_ms: Option<u64>) -> bool {
        self.turn.is_over() && !queue.policy.is_bounded() && queue.expiry(self.clock.now(), own_ms) > self.clock.now()
    }

    /// Put a message of this size at the end of a queue, or deliver it to a consumer that waits. Takes one reference to the
    /// message. It lives for its own time or for the queue's, whichever is shorter. Returns whether a consumer has it. When the
    /// turn is over, it waits in the queue until the end of the call or for another, unless it could not stay there.
    #[inline]
    pub(crate) fn enqueue(&mut self, queue: QueueId, message: MessageId, size: usize, own_ms: Option<u64>) -> bool {
        let is_late = self.is_late(&self.queues[queue], own_ms);
        let it = &mut self.queues[queue];
        let expires = it.expiry(self.clock.now(), own_ms);
        let may_pass = it.may_pass();
        if may_pass
            && !is_late
            && let Some(consumer) = self.taker(queue)
            && !self.awaits_memory(queue, consumer, size)
        {
            let entry = self.queues[queue].next_entry(message, expires);
            self.deliver(queue, consumer, entry);
            return true;
        }
        let entry = self.queues[queue].next_entry(message, expires);
        self.queues.push(queue, entry, size);
        if self.queues[queue].policy.is_bounded() {
            self.drop_head(queue);
        }
        if expires != NEVER {
            self.queues.set_timer(queue);
        }
        if may_pass && is_late {
            self.queues.schedule(queue);
        }
        false
    }

    /// Drop the oldest entries of a queue that is over its bounds: some of them, where there are many, and the others when
    /// its timer runs out. Returns whether it could: an entry may have to wait for the disk.
    pub(crate) fn drop_head(&mut self, queue: QueueId) -> bool {
        for count in 0..DROPPED_AT_ONCE {
            if !self.queues[queue].is_over() {
                return true;
            }
            if !self.queues.fetch_next(queue, self.clock.now()) {
                self.queues.put_off(queue, self.clock.now() + RETRY_US);
                return false;
            }
            let Some(entry) = self.queues.pop(queue, &self.messages) else { return true };
            self.turn.spend(if count > 0 { DROP_STEPS } else { 0 });
            self.metrics.dropped += 1;
            self.discard(queue, entry, Reason::MaxLength);
        }
        self.queues.set_timer(queue);
        true
    }

    /// The consumer whose turn it is. Consumers before it that cannot take anything now leave the ring.
    #[inline]
    pub(crate) fn taker(&mut self, queue: QueueId) -> Option<ConsumerSlot> {
        while let Some(slot) = self.queues[queue].ring.next() {
            if self.can_take(slot) {
                return Some(slot);
            }
            self.clients[slot].is_waiting = false;
            self.queues[queue].ring.leave();
        }
        None
    }

    /// Whether a message may be delivered to this consumer now.
    #[inline]
    pub(crate) fn can_take(&self, consumer: ConsumerSlot) -> bool {
        #[cfg(test)]
        if self.faults.ignores_credit {
            return self.clients[self.clients[consumer].connection].takes_deliveries();
        }
        self.clients.can_take(consumer) && (!self.backpressure.is_severe || self.clients.has_acknowledged_all(consumer))
    }

    /// The size of a connection's output at which its consumers wait: less when many connections have much to write, and
    /// anything while memory is very short.
    #[inline]
    pub(crate) fn output_bytes_max(&self) -> usize {
        let bytes_max = self.options.output_bytes_max;
        if self.backpressure.is_severe {
            0
        } else if self.are_crowded(self.clients.buffer_bytes()) {
            bytes_max.min(CROWDED_BYTES)
        } else {
            bytes_max
        }
    }

    /// Whether buffers of so many bytes take so much of the memory that those of one connection must not be large.
    #[inline]
    pub(crate) fn are_crowded(&self, buffer_bytes: u64) -> bool {
        buffer_bytes > self.options.memory_bytes_max / 16
    }

    /// Whether a message of this size may be copied to the output of a connection. A large one has to wait while the buffers of
    /// others are crowded and there is no memory for it.
    #[inline]
    pub(crate) fn has_memory_for(&self, connection: ConnectionSlot, size: usize) -> bool {
        size <= CROWDED_BYTES
            || !self.are_crowded(self.clients.buffer_bytes_beside(connection))
            || self.memory().total() + size as u64 <= self.options.memory_bytes_max
    }

    /// Whether the first message of a queue waits for memory instead of being delivered to this consumer. It is tried again at
    /// the next tick.
    #[inline]
    fn awaits_memory(&mut self, queue: QueueId, consumer: ConsumerSlot, size: usize) -> bool {
        let has_memory = self.has_memory_for(self.clients[consumer].connection, size);
        if !has_memory {
            self.queues.await_memory(queue);
        }
        !has_memory
    }

    /// The size of the first message of a queue.
    #[inline]
    pub(crate) fn front_size(&self, queue: QueueId) -> usize {
        self.queues[queue].front().map_or(0, |front| self.messages.get(front.message).size())
    }

    /// Wake all consumers.
    pub(crate) fn wake_all(&mut self) {
        let slots: Vec<ConsumerSlot> = self.clients.consumers().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.wake(slot));
    }

    /// Deliver what somebody can take, as far as the turn goes; the rest follows later. Where consumers of other queues share
    /// the credit, the queue goes to the end of those with something to deliver after each message, so that they take turns.
    pub(crate) fn pump(&mut self, queue: QueueId) {
        while self.expire_head(queue) && self.queues[queue].front().is_some() {
            if self.turn.is_over() {
                return self.queues.schedule(queue);
            }
            let Some(consumer) = self.taker(queue) else { return };
            if self.awaits_memory(queue, consumer, self.front_size(queue)) {
                return;
            }
            let prepared = self.prepare_front(queue);
            if let Ok(false) = prepared {
                return self.turn.spend(ASK_STEPS);
            }
            let Some(entry) = self.queues.pop(queue, &self.messages) else { return };
            match prepared {
                Err(reason) => self.lose(queue, entry, reason),
                Ok(_) if self.deliver(queue, consumer, entry) => return self.queues.schedule(queue),
                Ok(_) => {}
            }
        }
    }

    /// Deliver one entry, whose message is ready, to a consumer that can take it. Returns whether it took credit that others
    /// share.
    #[inline]
    fn deliver(&mut self, id: QueueId, slot: ConsumerSlot, entry: QueueEntry) -> bool {
        self.turn.spend(self.messages.get(entry.message).read_steps());
        let output_bytes_max = self.output_bytes_max();
        let mut room = Vec::new();
        let parts = self.messages.visible_parts(entry.message, &mut room);
        let shared = self.messages.shared_body(entry.message);
        let mut outlet = self.clients.outlet(slot);
        let tag = outlet.write(entry.redelivered, &parts, shared, output_bytes_max);
        self.metrics.delivered += 1;
        self.metrics.redelivered += u64::from(entry.redelivered);
        let queue = &mut self.queues[id];
        queue.ring.rotate();
        if outlet.consumer.no_ack {
            let durable_id = queue.durable_id;
            self.release_entry(entry, durable_id);
            return false;
        }
        queue.unacknowledged += 1;
        let delivered = CoarseTime::at(self.clock.now());
        outlet.await_acknowledgement(slot, tag, entry, (queue.handle(id), delivered))
    }

    /// Settle an entry whose message cannot be read, and tell operators.
    #[cold]
    pub(crate) fn lose(&mut self, queue: QueueId, entry: QueueEntry, reason: String) {
        self.report_lost(queue, reason);
        self.settle(queue, entry);
    }

    /// Answer basic.get with an entry, whose message is ready, and the number of entries behind it.
    pub(crate) fn deliver_got(&mut self, slot: ChannelSlot, id: QueueId, entry: QueueEntry, no_ack: bool) {
        let left = self.queues[id].ready().len() as u32;
        let mut room = Vec::new();
        let parts = self.messages.visible_parts(entry.message, &mut room);
        let (connection, channel) = self.clients.channel_outlet(slot);
        channel.delivery_tag += 1;
        let tag = channel.delivery_tag;
        let numbers = delivery_numbers(tag, entry.redelivered);
        let frame_max = connection.frame_max as usize;
        let method = [&GET_OK[..], &numbers, parts.route, &left.to_be_bytes()];
        match channel.held.back_mut() {
            None => {
                put_method(connection.out.tail(), channel.number, method);
                let shared = self.messages.shared_body(entry.message);
                connection.out.append_content(channel.number, &parts, shared, frame_max);
            }
            // Behind the answers that the channel still waits to give.
            Some((_, bytes)) => {
                let before = bytes.len();
                put_method(bytes, channel.number, method);
                put_content(bytes, channel.number, parts.properties, parts.body, frame_max);
                connection.held_answer_bytes += bytes.len() - before;
            }
        }
        self.metrics.delivered += 1;
        let connection = channel.connection;
        if !no_ack {
            let queue = &mut self.queues[id];
            queue.unacknowledged += 1;
            let queue = queue.handle(id);
            let delivered = CoarseTime::at(self.clock.now());
            self.clients.await_acknowledgement(slot, Delivery { tag, entry, queue, consumer: None, delivered });
        }
        self.clients.touch(connection);
        self.clients.count_buffers(connection);
        if no_ack {
            self.settle(id, entry);
        }
    }

    /// Put a consumer that may be able to take something again into its ring, unless something else still stops it.
    pub(crate) fn wake(&mut self, slot: ConsumerSlot) {
        if self.clients[slot].reader.is_some() {
            return self.wake_reader(slot);
        }
        if self.clients[slot].is_waiting || !self.can_take(slot) {
            return;
        }
        let consumer = &mut self.clients[slot];
        consumer.is_waiting = true;
        let (queue, priority) = (consumer.queue, consumer.priority);
        self.queues[queue].ring.wait(slot, priority);
        self.queues.schedule(queue);
    }

    /// Wake all consumers of a channel. The one that took shared credit last comes last.
    pub(crate) fn wake_channel(&mut self, channel: ChannelSlot) {
        let (first, count) = (self.clients[channel].next_in_turn(), self.clients[channel].consumers.len());
        for index in (first..count).chain(0..first) {
            self.wake(self.clients[channel].consumers[index]);
        }
    }

    /// Wake all consumers of a connection.
    pub(crate) fn wake_connection(&mut self, connection: ConnectionSlot) {
        for index in 0..self.clients[connection].channels.len() {
            self.wake_channel(self.clients[connection].channels[index].1);
        }
    }

    /// Deliver from the queues that were scheduled, as far as the turn goes; the others stay scheduled.
    pub(crate) fn run(&mut self) {
        while !self.turn.is_over()
            && let Some(queue) = self.queues.next_runnable()
        {
            self.pump(queue);
        }
    }
}

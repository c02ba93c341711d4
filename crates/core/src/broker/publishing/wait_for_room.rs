//! Lets senders wait: messages to a full queue whose policy is that its senders wait (`x-overflow: block`).
//!
//! The message waits with its channel, unconfirmed and in no queue. Of that channel only acknowledgements are carried out
//! until it has gone; at any other frame of it the connection is read no further. So a client that waits for its confirms
//! goes on with everything else, one that does not is stopped by what it sends, and nobody else waits.

use crate::amqp::method::{BasicAck, BasicNack, BasicReject, ConnectionClose};
use crate::amqp::{AmqpError, Frame, FrameKind, MethodId, ReplyCode};
use crate::broker::Broker;
use crate::broker::connections::content::PublishFlags;
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::{ChannelSlot, ConnectionSlot, Handle};
use crate::broker::parts::Arrived;
use crate::broker::publishing::waiting_senders::WaitingMessage;
use crate::broker::topology::QueueId;

impl Broker {
    /// Drop the message that waits with a channel, which is gone: nobody was told that it is safe.
    pub(crate) fn drop_waiting(&mut self, slot: ChannelSlot) {
        if let Some(message) = self.clients[slot].waiting.take() {
            self.waiting_senders.remove(message.queue, message.ticket);
        }
    }

    /// Let a message wait with its channel, because `queue` has no room for it.
    ///
    /// # Errors
    /// 406: the queue never has room for it.
    pub(super) fn wait_for_room(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
        queue: QueueId,
    ) -> Result<(), AmqpError> {
        let joined = message.take();
        let it = &mut self.queues[queue];
        if it.policy.is_over(1, joined.bytes.len() as u64) {
            let name = self.topology.queue_info(queue).map_or("", |info| info.name);
            let reason = format!("a message of {} bytes never fits into queue '{name}'", joined.bytes.len());
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        it.has_waiting_senders = true;
        let queue = it.handle(queue);
        let channel = &mut self.clients[slot];
        let since = self.clock.now();
        let ticket = self.waiting_senders.push(queue, channel.handle(slot));
        channel.waiting = Some(Box::new(WaitingMessage { queue, ticket, joined, flags, since }));
        self.backpressure.count_unfinished(&mut self.clients[slot]);
        self.metrics.senders_waited += 1;
        Ok(())
    }

    /// Refuse the message that waits with a channel if it has waited for its time: with a nack where messages are confirmed, and
    /// else by closing the channel, since its sender cannot be told otherwise. Returns whether it was refused.
    pub(crate) fn refuse_waiting(&mut self, connection: ConnectionSlot, slot: ChannelSlot) -> bool {
        let Some(waiting) = &self.clients[slot].waiting else { return false };
        let waited_ms = self.clock.now().saturating_sub(waiting.since) / 1000;
        let queue = waiting.queue;
        let limit = self.queues.queue_of(queue).and_then(|queue| queue.policy.wait_ms);
        let Some(limit) = limit.filter(|limit| waited_ms > *limit) else { return false };
        let name = self.topology.queue_info(queue.id).map_or("", |info| info.name);
        let reason = format!("queue '{name}' was full for {} s, and the message is refused", limit / 1000);
        self.drop_waiting(slot);
        self.backpressure.count_unfinished(&mut self.clients[slot]);
        self.metrics.refused += 1;
        let number = self.clients[slot].number;
        let refused = match self.count_publish(slot) {
            None => Err(error(ReplyCode::PreconditionFailed, &reason)),
            published => self.nack(slot, published),
        };
        if let Err(error) = refused {
            self.refuse(connection, number, error.at_publish());
        }
        true
    }

    /// Whether a frame has to wait because its channel does.
    #[inline]
    pub(crate) fn must_wait(&self, connection: ConnectionSlot, frame: &Frame<'_>) -> bool {
        (self.waiting_senders.len() > 0 || self.publishing.has_commit()) && self.waits_behind(connection, frame)
    }

    /// Whether the transaction of this channel is carried out.
    fn is_committing(&self, slot: ChannelSlot) -> bool {
        self.publishing.is_committing(self.clients[slot].handle(slot))
    }

    fn waits_behind(&self, connection: ConnectionSlot, frame: &Frame<'_>) -> bool {
        let connection = &self.clients[connection];
        let id = if frame.kind == FrameKind::Method { MethodId::of_payload(frame.payload) } else { MethodId::NONE };
        if frame.channel == 0 {
            let is_waiting =
                |(_, slot): &(u16, ChannelSlot)| self.clients[*slot].waiting.is_some() || self.is_committing(*slot);
            return id == ConnectionClose::ID && connection.channels.iter().any(is_waiting);
        }
        let settles = [BasicAck::ID, BasicNack::ID, BasicReject::ID].contains(&id);
        let Some(slot) = connection.channel(frame.channel) else { return false };
        (!settles && self.clients[slot].waiting.is_some()) || self.is_committing(slot)
    }

    /// Let senders go on that have waited for room. Returns whether any has.
    pub(crate) fn let_senders_go_on(&mut self) -> bool {
        let mut any = false;
        while !self.turn.is_over()
            && let Some(queue) = self.queues.next_relieved()
        {
            any |= self.fill_relieved(queue);
        }
        any
    }

    /// Publish what waits for a queue, while it has room.
    fn fill_relieved(&mut self, queue: Handle<QueueId>) -> bool {
        let mut any = false;
        while let Some(handle) = self.waiting_senders.first(queue) {
            let size =
                self.clients.channel_of(handle).and_then(|it| it.waiting.as_ref()).map(|it| it.joined.bytes.len());
            if let Some(size) = size
                && self.queues.queue_of(queue).is_some_and(|it| it.blocks(size))
            {
                return any;
            }
            let has_more = self.waiting_senders.pop(queue);
            if let Some(it) = self.queues.queue_of(queue) {
                it.has_waiting_senders = has_more;
            }
            if size.is_some() {
                any = true;
                self.publish_waiting(handle.id);
            }
        }
        any
    }

    /// Publish the message that waits with a channel, and go on with what its connection has sent since.
    fn publish_waiting(&mut self, slot: ChannelSlot) {
        let Some(message) = self.clients[slot].waiting.take() else { return };
        self.backpressure.count_unfinished(&mut self.clients[slot]);
        let (connection, number) = (self.clients[slot].connection, self.clients[slot].number);
        let WaitingMessage { joined, flags, .. } = *message;
        #[cfg(test)]
        if self.faults.loses_waiting {
            self.count_publish(slot);
            return self.release(connection);
        }
        if let Err(error) = self.publish_now(slot, &mut Arrived::Joined(joined), flags) {
            self.refuse(connection, number, error);
        }
        self.release(connection);
    }
}

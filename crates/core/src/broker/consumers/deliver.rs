//! From queues to consumers: whose turn it is, and the frames that go out.
//!
//! The rule that everything here keeps: when a public call returns, no queue has both an entry that is ready and a
//! consumer that can take it.

use crate::amqp::properties::put_content;

use crate::broker::Broker;
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, ConsumerSlot, Handle};
use crate::broker::queues::dead_letter::Reason;
use crate::broker::queues::message_store::{MessageId, Parts};
use crate::broker::queues::queue::QueueEntry;
use crate::broker::topology::QueueId;

/// The start of basic.deliver: class 60, method 60.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// The start of basic.get-ok: class 60, method 71.
const GET_OK: [u8; 4] = [0, 60, 0, 71];

/// Append a method frame that is made of pieces which are encoded already.
fn put_method(out: &mut Vec<u8>, channel: u16, pieces: [&[u8]; 4]) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    let [c1, c0] = channel.to_be_bytes();
    let [s3, s2, s1, s0] = (size as u32).to_be_bytes();
    out.extend_from_slice(&[1, c1, c0, s3, s2, s1, s0]);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.push(0xCE);
}

/// Append a whole delivery. `tag` is the consumer's, as a short string.
pub(crate) fn put_delivery(
    out: &mut Vec<u8>,
    channel: u16,
    tag: &[u8],
    delivery_tag: u64,
    redelivered: bool,
    parts: &Parts<'_>,
    frame_max: usize,
) {
    out.reserve(64 + tag.len() + parts.size());
    let mut numbers = [0; 9];
    numbers[..8].copy_from_slice(&delivery_tag.to_be_bytes());
    numbers[8] = redelivered.into();
    put_method(out, channel, [&DELIVER, tag, &numbers, parts.route]);
    put_content(out, channel, parts.properties, parts.body, frame_max);
}

impl Broker {
    /// Put a message at the end of a queue, or hand it to whoever waits. Takes one reference to the message.
    #[inline]
    pub(crate) fn enqueue(&mut self, queue: QueueId, message: MessageId, expires: u64) {
        let it = &mut self.queues[queue];
        let entry = it.place(message, expires);
        if it.may_pass()
            && let Some(consumer) = self.taker(queue)
        {
            self.deliver(queue, consumer, entry);
            return;
        }
        let size = self.messages.get(message).size();
        let it = &mut self.queues[queue];
        it.push(entry, size);
        if it.policy.is_bounded() {
            self.drop_head(queue);
        }
        if expires != crate::broker::queues::message_store::NEVER {
            self.watch(queue);
        }
    }

    /// Drop the oldest entries of a queue that is over its bounds.
    pub(crate) fn drop_head(&mut self, queue: QueueId) {
        while self.queues[queue].is_over() {
            let Some(entry) = self.pop(queue) else { return };
            self.metrics.dropped += 1;
            self.discard(queue, entry, Reason::MaxLength);
        }
    }

    /// Take the first entry of a queue.
    pub(crate) fn pop(&mut self, queue: QueueId) -> Option<QueueEntry> {
        let front = self.queues[queue].front()?;
        let size = self.messages.get(front.message).size();
        self.queues[queue].pop(size)
    }

    /// The consumer whose turn it is. Those that cannot take anything now lose their place on the way.
    #[inline]
    pub(crate) fn taker(&mut self, queue: QueueId) -> Option<ConsumerSlot> {
        while let Some(number) = self.queues[queue].ring.next() {
            if self.can_take(number) {
                return Some(number);
            }
            self.consumers[number].is_waiting = false;
            self.queues[queue].ring.leave();
        }
        None
    }

    #[inline]
    pub(crate) fn can_take(&self, consumer: ConsumerSlot) -> bool {
        let consumer = &self.consumers[consumer];
        let channel = &self.channels[consumer.channel];
        #[cfg(test)]
        if self.faults.ignores_credit {
            return self.connections[consumer.connection].takes_deliveries();
        }
        (consumer.no_ack || (consumer.credit.is_left() && channel.credit.is_left()))
            && channel.is_flowing
            // A consumer whose basic.consume is not answered yet gets nothing before the answer.
            && channel.held.is_empty()
            && self.connections[consumer.connection].takes_deliveries()
    }

    /// Deliver everything that somebody can take.
    pub(crate) fn pump(&mut self, queue: QueueId) {
        loop {
            let Some(front) = self.queues[queue].front() else { return };
            if front.expires <= self.now {
                self.expire_head(queue);
                continue;
            }
            let Some(consumer) = self.taker(queue) else { return };
            let Some(entry) = self.pop(queue) else { return };
            self.deliver(queue, consumer, entry);
        }
    }

    /// Deliver one entry to a consumer that can take it.
    fn deliver(&mut self, queue: QueueId, number: ConsumerSlot, entry: QueueEntry) {
        let Ok(is_resident) = self.prepare(queue, entry.message) else {
            self.settle(queue, entry);
            return;
        };
        let Self { connections, channels, consumers, queues, messages, dirty, metrics, loaded, .. } = self;
        let consumer = &mut consumers[number];
        let channel = &mut channels[consumer.channel];
        let connection = &mut connections[consumer.connection];
        let message = messages.get(entry.message);
        let parts = if is_resident { message.parts() } else { None };
        let parts = parts.unwrap_or_else(|| message.parts_of(loaded));
        channel.delivery_tag += 1;
        let tag = channel.delivery_tag;
        put_delivery(
            &mut connection.out,
            channel.number,
            &consumer.tag,
            tag,
            entry.redelivered,
            &parts,
            connection.frame_max as usize,
        );
        metrics.delivered += 1;
        metrics.redelivered += u64::from(entry.redelivered);
        connection.is_congested = connection.out.len() >= self.options.output_bytes_max;
        if !connection.is_dirty {
            connection.is_dirty = true;
            dirty.push(consumer.connection);
        }
        let it = &mut queues[queue];
        it.ring.rotate();
        if consumer.no_ack {
            self.settle(queue, entry);
            return;
        }
        it.unacknowledged += 1;
        consumer.credit.take();
        channel.credit.take();
        let queue = Handle { id: queue, serial: it.serial };
        channel.unacknowledged.push(Delivery { tag, entry, queue, consumer: Some(consumer.handle(number)) });
    }

    /// Answer basic.get with an entry, and how many are left behind it.
    pub(crate) fn deliver_got(
        &mut self,
        channel: ChannelSlot,
        queue: QueueId,
        entry: QueueEntry,
        no_ack: bool,
    ) -> bool {
        let Ok(is_resident) = self.prepare(queue, entry.message) else {
            self.settle(queue, entry);
            return false;
        };
        let left = self.queues[queue].ready().len() as u32;
        let Self { connections, channels, messages, loaded, .. } = self;
        let it = &mut channels[channel];
        it.delivery_tag += 1;
        let (tag, number, connection) = (it.delivery_tag, it.number, it.connection);
        let message = messages.get(entry.message);
        let parts = if is_resident { message.parts() } else { None };
        let parts = parts.unwrap_or_else(|| message.parts_of(loaded));
        let mut numbers = [0; 9];
        numbers[..8].copy_from_slice(&tag.to_be_bytes());
        numbers[8] = entry.redelivered.into();
        let frame_max = connections[connection].frame_max as usize;
        // Behind whatever the channel still waits to answer.
        let out = it.held.back_mut().map_or(&mut connections[connection].out, |(_, bytes)| bytes);
        put_method(out, number, [&GET_OK, &numbers, parts.route, &left.to_be_bytes()]);
        put_content(out, number, parts.properties, parts.body, frame_max);
        self.metrics.delivered += 1;
        self.touch(connection);
        if no_ack {
            self.settle(queue, entry);
        } else {
            let it = &mut self.queues[queue];
            it.unacknowledged += 1;
            let queue = Handle { id: queue, serial: it.serial };
            self.channels[channel].unacknowledged.push(Delivery { tag, entry, queue, consumer: None });
        }
        true
    }

    /// Return a mandatory message that found no queue.
    pub(crate) fn return_message(&mut self, channel: ChannelSlot, parts: &Parts<'_>) {
        let it = &self.channels[channel];
        let (number, connection) = (it.number, it.connection);
        let out = &mut self.connections[connection];
        put_method(&mut out.out, number, [&RETURN, NO_ROUTE, parts.route, &[]]);
        put_content(&mut out.out, number, parts.properties, parts.body, out.frame_max as usize);
        self.metrics.returned += 1;
        self.touch(connection);
    }

    /// A queue may have something for somebody: look at the end of this call.
    pub(crate) fn schedule(&mut self, queue: QueueId) {
        let it = &mut self.queues[queue];
        if !it.is_runnable && !it.ring.is_empty() && !it.ready().is_empty() {
            it.is_runnable = true;
            self.runnable.push(queue);
        }
    }

    /// A consumer may be able to take something again: it stands in line, unless something else still stops it.
    pub(crate) fn wake(&mut self, number: ConsumerSlot) {
        if self.consumers[number].reader.is_some() {
            return self.wake_reader(number);
        }
        if self.consumers[number].is_waiting || !self.can_take(number) {
            return;
        }
        let consumer = &mut self.consumers[number];
        consumer.is_waiting = true;
        let (queue, priority) = (consumer.queue, consumer.priority);
        self.queues[queue].ring.wait(number, priority);
        self.schedule(queue);
    }

    /// The same for all consumers of a channel.
    pub(crate) fn wake_channel(&mut self, channel: ChannelSlot) {
        for index in 0..self.channels[channel].consumers.len() {
            self.wake(self.channels[channel].consumers[index]);
        }
    }

    /// The same for all consumers of a connection.
    pub(crate) fn wake_connection(&mut self, connection: ConnectionSlot) {
        for index in 0..self.connections[connection].channels.len() {
            self.wake_channel(self.connections[connection].channels[index].1);
        }
    }

    /// Deliver from all queues that were scheduled.
    pub(crate) fn run(&mut self) {
        while let Some(queue) = self.runnable.pop() {
            if let Some(it) = self.queues.get_mut(queue)
                && it.is_runnable
            {
                it.is_runnable = false;
                self.pump(queue);
            }
        }
    }
}

/// The start of basic.return: class 60, method 50.
const RETURN: [u8; 4] = [0, 60, 0, 50];
/// 312, and its name as a short string.
const NO_ROUTE: &[u8] = b"\x01\x38\x08NO_ROUTE";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::method::{BasicDeliver, BasicReturn};

    const PARTS: Parts<'_> = Parts { route: b"\x04logs\x03a.b", properties: &[0x10, 0, 2], body: b"hello" };

    #[test]
    fn a_delivery_is_what_the_codec_writes() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        put_delivery(&mut out, 7, b"\x03ctg", 300, true, &PARTS, 4096);
        let method = BasicDeliver {
            consumer_tag: "ctg",
            delivery_tag: 300,
            redelivered: true,
            exchange: "logs",
            routing_key: "a.b",
        };
        method.encode_with_content(7, PARTS.properties, PARTS.body, 4096, &mut expected);
        assert_eq!(out, expected);
    }

    #[test]
    fn a_return_is_what_the_codec_writes() {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        put_method(&mut out, 7, [&RETURN, NO_ROUTE, PARTS.route, &[]]);
        let method = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", exchange: "logs", routing_key: "a.b" };
        method.encode(7, &mut expected);
        assert_eq!(out, expected);
    }
}

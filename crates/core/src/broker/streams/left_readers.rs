//! Named readers that were cancelled with deliveries that their clients have yet to acknowledge.
//!
//! A client that stops in good order cancels its consumer first, and then acknowledges what it had in hand. These
//! acknowledgements count until its channel closes, or until another consumer reads under the name.

use crate::journal::Sequence;

use crate::broker::Broker;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::ids::{ChannelSlot, ConsumerSlot, Handle};
use crate::broker::streams::reader_offset::{LeftId, LeftReader, RecordedOffset};

impl Broker {
    /// Keep what a consumer that goes has not acknowledged, with the channel that has it.
    pub(super) fn keep_left(&mut self, consumer: &mut Consumer, slot: ConsumerSlot, position: Sequence) {
        let handle = consumer.handle(slot);
        let Some(named) = consumer.reader.as_mut().and_then(|reader| reader.named.take()) else { return };
        let it = &mut self.queues[consumer.queue];
        let queue = it.handle(consumer.queue);
        let Some(offset) = it.stream.as_mut().and_then(|stream| stream.offsets.get_mut(&named.name)) else { return };
        let channel = &mut self.clients[consumer.channel];
        offset.left_by = Some((channel.handle(consumer.channel), handle));
        channel.left_readers.get_or_insert_default().insert(handle, LeftReader { queue, named, position });
    }

    /// Note that a delivery to a consumer that was cancelled is acknowledged.
    pub(super) fn settle_for_left(&mut self, channel: ChannelSlot, consumer: Handle<ConsumerSlot>, sequence: u64) {
        let it = &mut self.clients[channel];
        let id = (it.handle(channel), consumer);
        let Some(left) = it.left_readers.as_mut().and_then(|readers| readers.get_mut(&consumer)) else { return };
        left.named.settle(Sequence(sequence));
        if !std::mem::replace(&mut left.named.is_listed, true) {
            self.streams.push_acknowledged(id);
        }
    }

    /// Record the offset of a reader that was cancelled. Returns whether it has changed.
    pub(super) fn record_left(&mut self, (channel, consumer): LeftId) -> bool {
        let readers = self.clients.channel_of(channel).and_then(|it| it.left_readers.as_mut());
        let Some(readers) = readers else { return false };
        let Some(left) = readers.get_mut(&consumer) else { return false };
        let offset = self.queues.queue_of(left.queue).and_then(|queue| queue.stream.as_mut());
        let Some(offset) = offset.and_then(|stream| stream.offsets.get_mut(&left.named.name)) else { return false };
        if offset.left_by != Some((channel, consumer)) {
            // Somebody else reads, or has read, under the name.
            readers.remove(&consumer);
            return false;
        }
        left.named.is_listed = false;
        let first = left.named.first_unsettled();
        let next = first.unwrap_or(left.position);
        let (queue, name) = (left.queue.id, left.named.name.clone());
        let recorded = RecordedOffset { next, delivered: Some(left.named.delivered()) };
        if first.is_none() {
            offset.left_by = None;
            readers.remove(&consumer);
        }
        self.record_offset(queue, &name, recorded)
    }

    /// Record the offsets of all readers that were cancelled on a channel that closes, and forget them.
    pub(crate) fn forget_left(&mut self, channel: ChannelSlot) {
        let Some(readers) = &self.clients[channel].left_readers else { return };
        let handle = self.clients[channel].handle(channel);
        let listed = readers.iter().filter(|(_, left)| left.named.is_listed);
        let listed: Vec<_> = listed.map(|(consumer, _)| (handle, *consumer)).collect();
        let mut is_any = false;
        for id in listed {
            is_any |= self.record_left(id);
        }
        self.clients[channel].left_readers = None;
        if is_any {
            self.record_changes();
        }
    }
}

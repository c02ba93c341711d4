//! All clients: connections with their channels and consumers, and which connections have something to write.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use crate::amqp::Method;
use crate::amqp::properties::put_header;

use crate::broker::connections::channel::Channel;
use crate::broker::connections::connection::{Connection, ConnectionState};
use crate::broker::connections::delivery_frames::{
    DELIVER, NO_ROUTE, RETURN, delivery_numbers, put_delivery, put_method,
};
use crate::broker::connections::output_buffer::CROWDED_BYTES;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::consumers::consumer_tags::ConsumerTags;
use crate::broker::consumers::credit::Credit;
use crate::broker::consumers::settlement::{Settle, Settlement};
use crate::broker::consumers::unacknowledged::{CoarseTime, Delivery, DeliveryRoom, Unacknowledged};
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot, ConsumerSlot, Handle};
use crate::broker::parts::{Arrived, Parts};
use crate::broker::publishing::transactions::transaction::Transaction;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::message_bytes::{SHARED_BYTES_MIN, SharedBody};
use crate::broker::slab::{Slab, SlotId};
use crate::broker::topology::{Owner, QueueId, VhostId};

/// Connections, their channels and the consumers of those, each indexed by its own kind of slot.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    connections: Slab<ConnectionSlot, Connection>,
    channels: Slab<ChannelSlot, Channel>,
    consumers: Slab<ConsumerSlot, Consumer>,
    /// The consumers by their channels and tags.
    tags: ConsumerTags,
    /// Connections with something to write, or whose end is to be told.
    dirty: Vec<ConnectionSlot>,
    /// The slot at which the walk over connections goes on.
    cursor: u32,
    /// Room for deliveries that wait for their acknowledgement, of all channels and of those that are gone.
    room: DeliveryRoom,
    /// The unacknowledged deliveries of closed channels.
    orphans: VecDeque<Orphans>,
    /// The memory of all connections' buffers, as it was last counted.
    buffer_bytes: u64,
    /// Connections whose next frame waits for a tick.
    awaiting_tick: Vec<Handle<ConnectionSlot>>,
}

/// The deliveries of a channel that is gone: those that it had settled, and then others, which go back.
#[derive(Debug)]
struct Orphans {
    deliveries: Unacknowledged,
    settles: VecDeque<Settle>,
    /// The transaction that has not settled others, which go back first to where they were.
    transaction: Option<Box<Transaction>>,
}

impl Orphans {
    /// Every delivery.
    #[cfg(test)]
    fn iter(&self) -> impl Iterator<Item = &Delivery> {
        let settled = self.transaction.iter().flat_map(|transaction| transaction.deliveries());
        self.deliveries.iter().chain(settled)
    }
}

/// The connection, channel and consumer that a delivery is written to.
pub(crate) struct Outlet<'a> {
    pub connection: &'a mut Connection,
    pub channel: &'a mut Channel,
    pub consumer: &'a mut Consumer,
    dirty: &'a mut Vec<ConnectionSlot>,
    room: &'a mut DeliveryRoom,
    buffer_bytes: &'a mut u64,
}

impl Outlet<'_> {
    /// Write a delivery. Returns its tag. A large body is given as `shared`, too, and written from there. The connection
    /// takes no more when it has `output_bytes_max` to write.
    #[inline]
    pub fn write(
        &mut self,
        redelivered: bool,
        parts: &Parts<'_>,
        shared: Option<SharedBody>,
        output_bytes_max: usize,
    ) -> u64 {
        let Self { connection, channel, consumer, dirty, buffer_bytes, .. } = self;
        channel.delivery_tag += 1;
        let tag = channel.delivery_tag;
        let numbers = delivery_numbers(tag, redelivered);
        let frame_max = connection.frame_max as usize;
        match shared {
            None => {
                put_delivery(connection.out.tail(), channel.number, &consumer.tag, &numbers, parts, frame_max);
            }
            Some(body) => {
                put_method(connection.out.tail(), channel.number, [&DELIVER, &consumer.tag, &numbers, parts.route]);
                connection.out.append_content(channel.number, parts, Some(body), frame_max);
            }
        }
        connection.is_congested |= connection.out.len() >= output_bytes_max;
        if parts.size() > CROWDED_BYTES {
            connection.recount(buffer_bytes);
        }
        if !connection.is_dirty {
            connection.is_dirty = true;
            dirty.push(consumer.connection);
        }
        tag
    }

    /// Let the delivery that was written wait for its acknowledgement, and take its credit. Returns whether other
    /// consumers share it.
    #[inline(always)]
    pub fn await_acknowledgement(
        &mut self,
        slot: ConsumerSlot,
        tag: u64,
        entry: QueueEntry,
        (queue, delivered): (Handle<QueueId>, CoarseTime),
    ) -> bool {
        self.consumer.credit.take();
        self.channel.credit.take();
        let consumer = Some(self.consumer.handle(slot));
        self.channel.unacknowledged.push(Delivery { tag, entry, queue, consumer, delivered }, self.room);
        let is_shared = self.channel.credit.limit() != 0;
        if is_shared {
            self.channel.served = Some(slot);
        }
        is_shared
    }
}

impl Clients {
    /// The connection that the caller means, if it is still there.
    #[inline]
    pub fn find(&self, id: ConnectionId) -> Option<ConnectionSlot> {
        let connection = self.connections.get(id.slot())?;
        (connection.serial == id.serial()).then_some(id.slot())
    }

    /// The id of a connection, for the caller.
    pub fn id(&self, slot: ConnectionSlot) -> ConnectionId {
        ConnectionId::new(slot, self.connections[slot].serial)
    }

    /// The connection in a slot, if there is one.
    #[inline]
    pub fn connection_in(&mut self, slot: ConnectionSlot) -> Option<&mut Connection> {
        self.connections.get_mut(slot)
    }

    /// The channel in a slot, if there is one.
    #[inline]
    pub fn channel_in(&mut self, slot: ChannelSlot) -> Option<&mut Channel> {
        self.channels.get_mut(slot)
    }

    /// The consumer in a slot, if there is one.
    pub fn consumer_in(&self, slot: ConsumerSlot) -> Option<&Consumer> {
        self.consumers.get(slot)
    }

    /// The connection that a handle was made for, if it is still there.
    pub fn connection_of(&mut self, handle: Handle<ConnectionSlot>) -> Option<&mut Connection> {
        self.connections.get_mut(handle.id).filter(|connection| connection.serial == handle.serial)
    }

    /// The channel that a handle was made for, if it is still there.
    pub fn channel_of(&mut self, handle: Handle<ChannelSlot>) -> Option<&mut Channel> {
        self.channels.get_mut(handle.id).filter(|channel| channel.serial == handle.serial)
    }

    /// The consumer that a handle was made for, if it is still there.
    #[inline]
    pub fn consumer_of(&mut self, handle: Handle<ConsumerSlot>) -> Option<&mut Consumer> {
        self.consumers.get_mut(handle.id).filter(|consumer| consumer.serial == handle.serial)
    }

    /// Add a connection.
    pub fn add_connection(&mut self, connection: Connection) -> ConnectionSlot {
        self.connections.insert(connection)
    }

    /// Add a channel to its connection.
    pub fn add_channel(&mut self, channel: Channel) {
        let (connection, number) = (channel.connection, channel.number);
        let slot = self.channels.insert(channel);
        let channels = &mut self.connections[connection].channels;
        let index = channels.partition_point(|(other, _)| *other < number);
        channels.insert(index, (number, slot));
    }

    /// Add a consumer to its channel, which has none with its tag.
    pub fn add_consumer(&mut self, consumer: Consumer) -> ConsumerSlot {
        let channel = consumer.channel;
        let slot = self.consumers.insert(consumer);
        self.tags.insert(slot, &self.consumers);
        self.channels[channel].consumers.push(slot);
        slot
    }

    /// The consumer of a channel with this tag.
    pub fn consumer_named(&self, channel: ChannelSlot, tag: &str) -> Option<ConsumerSlot> {
        self.tags.find(channel, tag.as_bytes(), &self.consumers)
    }

    /// Take a connection out, which has no channels any more.
    pub fn remove_connection(&mut self, slot: ConnectionSlot) -> Connection {
        let connection = self.connections.remove(slot);
        self.buffer_bytes -= connection.counted_bytes;
        connection
    }

    /// Take a channel out, and from its connection's list.
    pub fn remove_channel(&mut self, slot: ChannelSlot) {
        let channel = self.channels.remove(slot);
        self.connections[channel.connection].channels.retain(|(_, other)| *other != slot);
    }

    /// Take all consumers of a connection from the lists of its channels.
    pub fn take_consumers(&mut self, slot: ConnectionSlot) -> Vec<ConsumerSlot> {
        let Self { connections, channels, .. } = self;
        let of_channel = |(_, channel): &(u16, ChannelSlot)| std::mem::take(&mut channels[*channel].consumers);
        connections[slot].channels.iter().flat_map(of_channel).collect()
    }

    /// Take a consumer out. Its channel's list is the caller's to change.
    pub fn remove_consumer(&mut self, slot: ConsumerSlot) -> Consumer {
        self.tags.remove(slot, &self.consumers);
        self.consumers.remove(slot)
    }

    /// Every connection with its slot.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionSlot, &Connection)> {
        self.connections.iter()
    }

    /// Every channel with its slot.
    pub fn channels(&self) -> impl Iterator<Item = (ChannelSlot, &Channel)> {
        self.channels.iter()
    }

    /// Every consumer with its slot.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerSlot, &Consumer)> {
        self.consumers.iter()
    }

    /// The numbers of connections, channels and consumers.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.connections.len(), self.channels.len(), self.consumers.len())
    }

    /// The number of slots of a walk over all connections.
    pub fn slot_count(&self) -> usize {
        self.connections.end() as usize
    }

    /// The next slot of a walk over all connections, round and round; it may be empty.
    pub fn next_slot(&mut self) -> ConnectionSlot {
        if self.cursor >= self.connections.end() {
            self.cursor = 0;
        }
        self.cursor += 1;
        ConnectionSlot::from_index(self.cursor - 1)
    }

    /// The channel and connection of a consumer, with the consumer itself.
    #[inline]
    pub fn outlet(&mut self, slot: ConsumerSlot) -> Outlet<'_> {
        let Self { connections, channels, consumers, dirty, room, buffer_bytes, .. } = self;
        let consumer = &mut consumers[slot];
        let channel = &mut channels[consumer.channel];
        let connection = &mut connections[consumer.connection];
        Outlet { connection, channel, consumer, dirty, room, buffer_bytes }
    }

    /// A channel with its connection.
    #[inline]
    pub fn channel_outlet(&mut self, slot: ChannelSlot) -> (&mut Connection, &mut Channel) {
        let channel = &mut self.channels[slot];
        (&mut self.connections[channel.connection], channel)
    }

    /// Whether a message may be delivered to this consumer now.
    #[inline]
    pub fn can_take(&self, slot: ConsumerSlot) -> bool {
        self.has_credit(slot) && self.connections[self.consumers[slot].connection].takes_deliveries()
    }

    /// Whether a message that is kept nowhere may wait in the output of this consumer's connection.
    pub fn can_buffer(&self, slot: ConsumerSlot, output_bytes_max: usize) -> bool {
        let connection = &self.connections[self.consumers[slot].connection];
        let has_room = connection.state == ConnectionState::Open && connection.out.len() < output_bytes_max;
        has_room && self.has_credit(slot)
    }

    #[inline]
    fn has_credit(&self, slot: ConsumerSlot) -> bool {
        let consumer = &self.consumers[slot];
        let channel = &self.channels[consumer.channel];
        (consumer.no_ack || (consumer.credit.is_left() && channel.credit.is_left()))
            && channel.is_flowing
            // A consumer whose basic.consume is not answered yet gets nothing before the answer.
            && channel.held.is_empty()
    }

    /// Whether a consumer's channel has nothing that it has not acknowledged.
    pub fn has_acknowledged_all(&self, slot: ConsumerSlot) -> bool {
        self.channels[self.consumers[slot].channel].unacknowledged.len() == 0
    }

    /// The memory of all connections' buffers, as it was last counted.
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Count the buffers of a connection again, after they may have grown or shrunk.
    pub fn count_buffers(&mut self, slot: ConnectionSlot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.recount(&mut self.buffer_bytes);
        }
    }

    /// The memory of the buffers of all connections but one.
    pub fn buffer_bytes_beside(&self, slot: ConnectionSlot) -> u64 {
        self.buffer_bytes - self.connections[slot].counted_bytes
    }

    /// Let a delivery of basic.get wait for its acknowledgement.
    pub fn await_acknowledgement(&mut self, slot: ChannelSlot, delivery: Delivery) {
        self.channels[slot].unacknowledged.push(delivery, &mut self.room);
    }

    /// Drop the transaction of a channel: what it settled waits for its acknowledgement again, at most `count_max` of it in one
    /// call. Returns whether that was all.
    pub fn roll_back(&mut self, slot: ChannelSlot, count_max: usize) -> bool {
        let channel = &mut self.channels[slot];
        let Some(transaction) = &mut channel.transaction else { return true };
        drop(transaction.take_messages());
        for _ in 0..count_max {
            let Some(delivery) = transaction.take_settled() else { return true };
            channel.unacknowledged.restore(delivery, &mut self.room);
        }
        false
    }

    /// Keep the settlement of the delivery with this tag for the transaction of its channel. False when none has it.
    pub fn settle_in_transaction(&mut self, slot: ChannelSlot, settle: Settle) -> bool {
        let channel = &mut self.channels[slot];
        let Some(transaction) = &mut channel.transaction else { return false };
        let Some(delivery) = channel.unacknowledged.settle(settle.tag, &mut self.room) else { return false };
        transaction.settle(settle.settlement, delivery);
        true
    }

    /// Keep the settlement of the oldest deliveries through a tag for the transaction, at most `count_max`. Returns how many.
    pub fn settle_oldest_in_transaction(&mut self, slot: ChannelSlot, settle: Settle, count_max: usize) -> usize {
        let channel = &mut self.channels[slot];
        let Some(transaction) = &mut channel.transaction else { return 0 };
        let mut count = 0;
        while count < count_max
            && let Some(delivery) = channel.unacknowledged.settle_oldest(settle.tag, &mut self.room)
        {
            transaction.settle(settle.settlement, delivery);
            count += 1;
        }
        count
    }

    /// Take out the delivery of a channel with this tag, if it waits.
    #[inline]
    pub fn take_delivery(&mut self, slot: ChannelSlot, tag: u64) -> Option<Delivery> {
        self.channels[slot].unacknowledged.settle(tag, &mut self.room)
    }

    /// Take out the oldest delivery of a channel, if its tag is at most `through`.
    #[inline]
    pub fn take_oldest(&mut self, slot: ChannelSlot, through: u64) -> Option<Delivery> {
        self.channels[slot].unacknowledged.settle_oldest(through, &mut self.room)
    }

    /// Leave the deliveries of a channel to be put back later, after what the channel had begun to settle.
    pub fn orphan(&mut self, slot: ChannelSlot, settles: VecDeque<Settle>, mut transaction: Option<Box<Transaction>>) {
        let channel = &mut self.channels[slot];
        // Nothing is delivered on it any more.
        channel.credit = Credit::default();
        transaction.iter_mut().for_each(|transaction| drop(transaction.take_messages()));
        let deliveries = std::mem::take(&mut channel.unacknowledged);
        self.orphans.push_back(Orphans { deliveries, settles, transaction });
    }

    /// Take out the next delivery of a channel that is gone, with how it is settled. `Some(None)` is a step without one.
    pub fn next_orphan(&mut self) -> Option<Option<(Delivery, Settlement)>> {
        let Orphans { deliveries, settles, transaction } = self.orphans.front_mut()?;
        if let Some(delivery) = transaction.as_mut().and_then(|transaction| transaction.take_settled()) {
            deliveries.restore(delivery, &mut self.room);
            return Some(None);
        }
        while let Some(settle) = settles.front() {
            if let Some(delivery) = deliveries.settle_oldest(settle.tag, &mut self.room) {
                return Some(Some((delivery, settle.settlement)));
            }
            settles.pop_front();
        }
        let oldest = deliveries.settle_oldest(u64::MAX, &mut self.room);
        let next = oldest.map(|delivery| (delivery, Settlement::Requeue));
        if next.is_none() {
            self.orphans.pop_front();
        }
        Some(next)
    }

    /// Whether deliveries of channels that are gone wait to be put back.
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Every delivery of channels that are gone.
    #[cfg(test)]
    pub fn orphans(&self) -> impl Iterator<Item = &Delivery> {
        self.orphans.iter().flat_map(Orphans::iter)
    }

    /// The number of deliveries of channels that are gone, except those that their transactions would have settled.
    #[cfg(test)]
    pub fn orphans_waiting(&self) -> usize {
        self.orphans.iter().map(|orphans| orphans.deliveries.len()).sum()
    }

    /// The deliveries that wait for their acknowledgement, together.
    pub fn delivery_room(&self) -> &DeliveryRoom {
        &self.room
    }

    /// Note that a connection has something to write, or to say.
    #[inline]
    pub fn touch(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.connections[slot];
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Note that the next frame of a connection waits for a tick.
    pub fn await_tick(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.connections[slot];
        if !connection.awaits_tick {
            connection.awaits_tick = true;
            self.awaiting_tick.push(connection.handle(slot));
        }
    }

    /// Take the connections whose next frame has waited for this tick.
    pub fn take_awaiting_tick(&mut self) -> Vec<Handle<ConnectionSlot>> {
        let mut awaiting = std::mem::take(&mut self.awaiting_tick);
        awaiting.retain(|handle| self.connection_of(*handle).is_some_and(|it| std::mem::take(&mut it.awaits_tick)));
        awaiting
    }

    /// Move all connections that have something to write, or have ended, to the end of `ids`, each once.
    pub fn take_dirty(&mut self, ids: &mut Vec<ConnectionId>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            // One that went since has nothing to say.
            if let Some(connection) = self.connections.get_mut(slot)
                && connection.is_dirty
            {
                connection.is_dirty = false;
                ids.push(ConnectionId::new(slot, connection.serial));
                self.count_buffers(slot);
            }
        }
        self.dirty = dirty;
    }

    /// The vhost of a channel, and its connection as an owner of queues.
    pub fn vhost_and_owner(&self, channel: ChannelSlot) -> (VhostId, Owner) {
        let slot = self.channels[channel].connection;
        (self.connections[slot].vhost, self.id(slot).to_bits())
    }

    /// Return a mandatory message that is routed to no queue.
    pub fn return_message(&mut self, slot: ChannelSlot, message: &mut Arrived<'_>) {
        let channel = &self.channels[slot];
        let (number, connection) = (channel.number, channel.connection);
        let Connection { out, frame_max, .. } = &mut self.connections[connection];
        let parts = message.parts();
        put_method(out.tail(), number, [&RETURN, NO_ROUTE, parts.route, &[]]);
        if parts.size() < SHARED_BYTES_MIN {
            out.append_content(number, &parts, None, *frame_max as usize);
        } else {
            put_header(out.tail(), number, parts.properties, parts.body.len() as u64);
            out.append_body(number, message.take_body(), *frame_max as usize);
        }
        self.touch(connection);
    }

    /// Write a method on a channel, behind the answers that it still waits to give.
    pub fn answer_in_order(&mut self, slot: ChannelSlot, method: Method<'_>) {
        let channel = &mut self.channels[slot];
        let (connection, number) = (channel.connection, channel.number);
        match channel.held.back_mut() {
            Some((_, bytes)) => {
                let before = bytes.len();
                method.encode(number, bytes);
                self.connections[connection].held_answer_bytes += bytes.len() - before;
            }
            None => self.answer(connection, number, method),
        }
    }

    /// Drop the answers of a channel that wait for a disk.
    pub fn drop_held(&mut self, slot: ChannelSlot) {
        let channel = &mut self.channels[slot];
        let bytes: usize = channel.held.drain(..).map(|(_, bytes)| bytes.len()).sum();
        self.connections[channel.connection].held_answer_bytes -= bytes;
    }

    /// Write a method.
    pub fn answer(&mut self, slot: ConnectionSlot, channel: u16, method: Method<'_>) {
        method.encode(channel, self.connections[slot].out.tail());
        self.touch(slot);
    }
}

impl Index<ConnectionSlot> for Clients {
    type Output = Connection;

    #[inline]
    fn index(&self, slot: ConnectionSlot) -> &Connection {
        &self.connections[slot]
    }
}

impl IndexMut<ConnectionSlot> for Clients {
    #[inline]
    fn index_mut(&mut self, slot: ConnectionSlot) -> &mut Connection {
        &mut self.connections[slot]
    }
}

impl Index<ChannelSlot> for Clients {
    type Output = Channel;

    #[inline]
    fn index(&self, slot: ChannelSlot) -> &Channel {
        &self.channels[slot]
    }
}

impl IndexMut<ChannelSlot> for Clients {
    #[inline]
    fn index_mut(&mut self, slot: ChannelSlot) -> &mut Channel {
        &mut self.channels[slot]
    }
}

impl Index<ConsumerSlot> for Clients {
    type Output = Consumer;

    #[inline]
    fn index(&self, slot: ConsumerSlot) -> &Consumer {
        &self.consumers[slot]
    }
}

impl IndexMut<ConsumerSlot> for Clients {
    #[inline]
    fn index_mut(&mut self, slot: ConsumerSlot) -> &mut Consumer {
        &mut self.consumers[slot]
    }
}

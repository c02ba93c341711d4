//! What publishers are told: confirms, and answers that wait for a disk.

use crate::amqp::method::{BasicAck, BasicNack};
use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::connections::dispatch::error;
use crate::broker::ids::{ChannelSlot, Handle};
use crate::broker::publishing::confirms::{Confirms, SyncMark, SyncMarks};

impl Broker {
    pub(crate) fn select_confirms(&mut self, channel: ChannelSlot) -> Result<(), AmqpError> {
        let it = &mut self.channels[channel];
        if it.transaction.is_some() {
            return Err(error(ReplyCode::PreconditionFailed, "cannot switch from tx to confirm mode"));
        }
        it.confirms.get_or_insert_default();
        Ok(())
    }

    /// A message is published: its number, when the channel's messages are confirmed.
    #[inline]
    pub(crate) fn count_publish(&mut self, channel: ChannelSlot) -> Option<u64> {
        let it = &mut self.channels[channel];
        let confirms: &mut Confirms = it.confirms.as_mut()?;
        if !it.has_published {
            it.has_published = true;
            self.confirming.push(channel);
        }
        Some(confirms.publish())
    }

    /// The last message is kept by these logs: its confirm, or the answer to its commit, waits for them.
    pub(crate) fn await_marks(&mut self, channel: ChannelSlot, number: Option<u64>, marks: SyncMarks) {
        if self.options.confirms_received {
            return;
        }
        let it = &mut self.channels[channel];
        if let (Some(number), Some(confirms)) = (number, &mut it.confirms) {
            confirms.wait(number, marks);
        } else if it.transaction.is_some() {
            marks.into_iter().for_each(|mark| self.promise(mark));
        }
    }

    /// The last message is not taken: tell its publisher, when it wants to be told.
    pub(crate) fn nack(&mut self, channel: ChannelSlot, number: Option<u64>) {
        let it = &mut self.channels[channel];
        let (Some(number), Some(confirms)) = (number, &mut it.confirms) else { return };
        confirms.refuse(number);
        let (connection, channel) = (it.connection, it.number);
        self.answer(connection, channel, BasicNack { delivery_tag: number, multiple: false, requeue: false }.into());
    }

    /// Confirm what was published in this call and waits for no disk.
    pub(crate) fn confirm(&mut self) {
        let mut confirming = std::mem::take(&mut self.confirming);
        for channel in confirming.drain(..) {
            if let Some(it) = self.channels.get_mut(channel)
                && it.has_published
            {
                it.has_published = false;
                self.acknowledge(channel);
            }
        }
        self.confirming = confirming;
    }

    /// Confirm what is done on a channel. After the journal has failed nothing is confirmed, whatever it is.
    fn acknowledge(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let Some(mut confirms) = self.channels[channel].confirms.take() else { return };
        let acknowledged = confirms.acknowledge(|mark: SyncMark| self.is_reached(mark));
        let is_waiting = confirms.is_waiting();
        let it = &mut self.channels[channel];
        it.confirms = Some(confirms);
        let (connection, number) = (it.connection, it.number);
        if let Some(ack) = acknowledged {
            self.metrics.confirms += 1;
            self.answer(connection, number, BasicAck { delivery_tag: ack.tag, multiple: ack.multiple }.into());
        }
        if is_waiting {
            self.await_disk(channel);
        }
    }

    /// Something of this channel waits for a disk: look at it when that has moved.
    pub(crate) fn await_disk(&mut self, channel: ChannelSlot) {
        let it = &mut self.channels[channel];
        if !it.is_awaiting {
            it.is_awaiting = true;
            let reference = Handle { id: channel, serial: it.serial };
            self.awaiting.push(reference);
        }
    }

    /// The disk has moved: tell whoever waited for that.
    pub(crate) fn settle_waiting(&mut self) {
        for reference in std::mem::take(&mut self.awaiting) {
            let channel = reference.id;
            if let Some(it) = self.channels.get_mut(channel)
                && it.serial == reference.serial
            {
                it.is_awaiting = false;
                self.acknowledge(channel);
                self.answer_held(channel);
            }
        }
    }

    /// Give the answers that need wait no longer.
    fn answer_held(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let mut held = std::mem::take(&mut self.channels[channel].held);
        let connection = self.channels[channel].connection;
        while let Some((marks, bytes)) = held.front() {
            if !marks.iter().all(|mark| self.is_reached(*mark)) {
                self.channels[channel].held = held;
                return self.await_disk(channel);
            }
            self.connections[connection].out.extend_from_slice(bytes);
            self.touch(connection);
            held.pop_front();
        }
        self.wake_channel(channel);
    }
}

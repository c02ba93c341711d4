//! Tells publishers what is safe: sends confirms, and answers that wait for the disk.

use crate::amqp::method::{BasicAck, BasicNack};
use crate::amqp::{AmqpError, ReplyCode};
use crate::broker::Broker;
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::publishing::confirms::{Confirms, DiskMark};

impl Broker {
    /// Count a message that is published. Returns its number, when the channel's messages are confirmed.
    #[inline]
    pub(crate) fn count_publish(&mut self, channel: ChannelSlot) -> Option<u64> {
        let it = &mut self.clients[channel];
        let confirms: &mut Confirms = it.confirms.as_mut()?;
        if !it.has_published {
            it.has_published = true;
            self.publishing.confirming.push(channel);
        }
        Some(confirms.publish())
    }

    /// Let the confirm of the last message wait for the logs that keep it.
    #[inline]
    pub(crate) fn await_marks(&mut self, channel: ChannelSlot, number: Option<u64>, marks: &[DiskMark]) {
        if self.options.confirms_received {
            return;
        }
        let it = &mut self.clients[channel];
        if let (Some(number), Some(confirms)) = (number, &mut it.confirms) {
            confirms.wait(number, marks);
        }
    }

    /// Tell the publisher of a channel's last message that it is not taken, when it wants to be told.
    ///
    /// # Errors
    /// 406: too many were refused since the first message that still waits for the disk.
    pub(super) fn nack(&mut self, channel: ChannelSlot, number: Option<u64>) -> Result<(), AmqpError> {
        let it = &mut self.clients[channel];
        let (Some(number), Some(confirms)) = (number, &mut it.confirms) else { return Ok(()) };
        if !confirms.refuse(number) {
            let reason = "too many messages are refused while an earlier one waits for the disk";
            return Err(error(ReplyCode::PreconditionFailed, reason));
        }
        #[cfg(test)]
        if self.faults.acks_refused {
            confirms.forget_refused();
        }
        let (connection, channel) = (it.connection, it.number);
        let nack = BasicNack { delivery_tag: number, multiple: false, requeue: false };
        self.clients.answer(connection, channel, nack.into());
        Ok(())
    }

    /// Confirm what was published in this call and waits for no disk.
    pub(crate) fn confirm(&mut self) {
        let mut confirming = std::mem::take(&mut self.publishing.confirming);
        for channel in confirming.drain(..) {
            if let Some(it) = self.clients.channel_in(channel)
                && it.has_published
            {
                it.has_published = false;
                self.acknowledge(channel);
            }
        }
        self.publishing.confirming = confirming;
    }

    /// Confirm the messages of a channel that are safe. After the journal has failed nothing is confirmed any more.
    fn acknowledge(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let Some(mut confirms) = self.clients[channel].confirms.take() else { return };
        let (connection, number) = (self.clients[channel].connection, self.clients[channel].number);
        while let Some(ack) = confirms.acknowledge(|mark: DiskMark| self.is_reached(mark)) {
            self.metrics.confirms += 1;
            self.clients.answer(connection, number, BasicAck { delivery_tag: ack.tag, multiple: ack.multiple }.into());
        }
        let is_waiting = confirms.is_waiting();
        self.clients[channel].confirms = Some(confirms);
        if is_waiting {
            self.await_disk(channel);
        }
    }

    /// Look at this channel again when more is on disk.
    pub(crate) fn await_disk(&mut self, channel: ChannelSlot) {
        let it = &mut self.clients[channel];
        if !it.is_awaiting {
            it.is_awaiting = true;
            let handle = it.handle(channel);
            self.publishing.awaiting.push(handle);
        }
    }

    /// Confirm and answer everything that the disk has now taken.
    pub(crate) fn settle_waiting(&mut self) {
        for handle in std::mem::take(&mut self.publishing.awaiting) {
            if let Some(channel) = self.clients.channel_of(handle) {
                channel.is_awaiting = false;
                self.acknowledge(handle.id);
                self.answer_held(handle.id);
            }
        }
    }

    /// Give the answers that need not wait any longer.
    fn answer_held(&mut self, channel: ChannelSlot) {
        if self.fatal().is_some() {
            return;
        }
        let mut held = std::mem::take(&mut self.clients[channel].held);
        let connection = self.clients[channel].connection;
        while let Some((marks, bytes)) = held.front() {
            if !self.are_reached(marks) {
                self.clients[channel].held = held;
                return self.await_disk(channel);
            }
            let it = &mut self.clients[connection];
            it.held_answer_bytes -= bytes.len();
            it.out.tail().extend_from_slice(bytes);
            self.clients.touch(connection);
            held.pop_front();
        }
        self.wake_channel(channel);
    }
}

//! What publishers are told: confirms, and answers that wait for a disk.

use crate::amqp::method::{BasicAck, BasicNack};
use crate::amqp::{AmqpError, ReplyCode};

use super::Broker;
use super::confirm::{Confirms, Mark};
use super::dispatch::error;

impl Broker {
    pub(super) fn select_confirms(&mut self, channel: u32) -> Result<(), AmqpError> {
        let it = &mut self.channels[channel];
        if it.transaction.is_some() {
            return Err(error(ReplyCode::PreconditionFailed, "cannot switch from tx to confirm mode"));
        }
        it.confirms.get_or_insert_default();
        Ok(())
    }

    /// A message is published: its number, when the channel's messages are confirmed.
    #[inline]
    pub(super) fn count_publish(&mut self, channel: u32) -> Option<u64> {
        let it = &mut self.channels[channel];
        let confirms: &mut Confirms = it.confirms.as_mut()?;
        if !it.has_published {
            it.has_published = true;
            self.confirming.push(channel);
        }
        Some(confirms.publish())
    }

    /// The last message is not taken: tell its publisher, when it wants to be told.
    pub(super) fn nack(&mut self, channel: u32, number: Option<u64>) {
        let it = &mut self.channels[channel];
        let (Some(number), Some(confirms)) = (number, &mut it.confirms) else { return };
        confirms.refuse(number);
        let (connection, channel) = (it.connection, it.number);
        self.answer(connection, channel, BasicNack { delivery_tag: number, multiple: false, requeue: false }.into());
    }

    /// Confirm what was published in this call and waits for no disk.
    pub(super) fn confirm(&mut self) {
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

    /// Confirm what is done on a channel.
    fn acknowledge(&mut self, channel: u32) {
        let it = &mut self.channels[channel];
        let Some(confirms) = &mut it.confirms else { return };
        let acknowledged = confirms.acknowledge(|_mark: Mark| true);
        let (connection, number) = (it.connection, it.number);
        if let Some(ack) = acknowledged {
            self.metrics.confirms += 1;
            self.answer(connection, number, BasicAck { delivery_tag: ack.tag, multiple: ack.multiple }.into());
        }
    }
}

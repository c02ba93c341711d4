//! What takes too long: a delivery that is not settled in time, and a message that waits for a full queue.
//!
//! If a delivery is not settled in time, its channel is closed, and its deliveries are requeued: the consumer hangs. The time is
//! `x-consumer-timeout` of the consumer or of its queue. A message waits for a full mailbox or service as long as the settings
//! say. Each connection is looked at about once a second.

use smallvec::SmallVec;

use crate::amqp::{AmqpError, ReplyCode};
use crate::broker::Broker;
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot};

/// Maximum number of deliveries of a channel that are looked at each time.
const LOOKED_AT_ONCE: usize = 16_384;

impl Broker {
    /// Refuse what a connection's channels have waited to publish for too long, and close the channels that have not settled a
    /// delivery in its time.
    pub(crate) fn close_overdue(&mut self, slot: ConnectionSlot) {
        let clients = &self.clients;
        let may_be_late = |(_, slot): &(u16, ChannelSlot)| {
            clients[*slot].timeout_ms_min.is_some() || clients[*slot].waiting.is_some()
        };
        let channels: SmallVec<[(u16, ChannelSlot); 1]> =
            clients[slot].channels.iter().copied().filter(may_be_late).collect();
        let mut is_any = false;
        for (number, channel) in channels {
            is_any |= self.refuse_waiting(slot, channel);
            // What a client has settled may not have been read: unless its channel is what the connection waits for.
            let is_read = self.clients[slot].wants_input() || self.clients[channel].waiting.is_some();
            if is_read
                && let Some(timeout_ms_min) = self.clients[channel].timeout_ms_min
                && let Some(error) = self.overdue(channel, timeout_ms_min)
            {
                self.metrics.consumer_timeouts += 1;
                self.refuse(slot, number, error);
                is_any = true;
            }
        }
        if is_any {
            self.release(slot);
        }
    }

    /// Why a channel is closed, if it has not settled a delivery in its time. Of many old ones some are looked at each time.
    /// Deliveries are in the order of their times.
    fn overdue(&mut self, channel: ChannelSlot, timeout_ms_min: u64) -> Option<AmqpError> {
        let now = self.clock.now();
        let (next, timeout_ms) = {
            let it = &self.clients[channel];
            let aged = it.unacknowledged.iter_from(it.next_looked_at);
            let aged = aged.map(|delivery| (delivery, delivery.delivered.age(now) / 1000));
            let mut old = aged.take_while(|(_, age_ms)| *age_ms > timeout_ms_min);
            let mut looked_at = old.by_ref().take(LOOKED_AT_ONCE);
            let overdue =
                looked_at.find_map(|(delivery, age_ms)| self.timeout_ms(delivery).filter(|timeout| age_ms > *timeout));
            (old.next().map_or(0, |(delivery, _)| delivery.tag), overdue)
        };
        self.clients[channel].next_looked_at = next;
        let timeout_ms = timeout_ms?;
        let it = &self.clients[channel];
        let reason = format!(
            "delivery acknowledgement on channel {} timed out. Timeout value used: {timeout_ms} ms. \
             This timeout value can be configured, see x-consumer-timeout",
            it.number
        );
        Some(error(ReplyCode::PreconditionFailed, &reason))
    }

    /// The time to settle a delivery: its consumer's, or its queue's.
    fn timeout_ms(&self, delivery: &Delivery) -> Option<u64> {
        let consumer = delivery
            .consumer
            .and_then(|handle| self.clients.consumer_in(handle.id).filter(|consumer| consumer.serial == handle.serial));
        match consumer {
            Some(consumer) => consumer.timeout_ms,
            None => self.queues.get(delivery.queue.id)?.policy.consumer_timeout_ms,
        }
    }
}

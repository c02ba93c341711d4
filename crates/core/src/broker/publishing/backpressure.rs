//! Backpressure: publishers wait while memory or disk is short, and go on when it is not.
//!
//! A connection that publishes during a shortage is told (connection.blocked, where it knows that method) and is read no
//! further; what it has sent already waits in its `input`. Consumers go on, and end the shortage. When only the journal's
//! thread is behind, which passes in milliseconds, publishers are not read either, but not told.

use crate::amqp::ReplyCode;
use crate::amqp::method::ConnectionUnblocked;

use crate::broker::Broker;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::errors::error;
use crate::broker::management::event::Event;
use crate::broker::publishing::shortage::Shortage;

impl Broker {
    /// The memory that messages take: in queues, in transactions, and incomplete ones.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.messages.resident_bytes() + self.backpressure.unfinished_bytes + self.letters.size_bytes()
    }

    /// Close the connection of the channel that keeps most of what is in no queue yet, when that takes all the memory:
    /// no consumer can end such a shortage, and a blocked publisher cannot finish. At most one for each tick.
    pub(crate) fn shed_unfinished(&mut self) {
        let is_short = self.backpressure.shortage == Some(Shortage::Memory);
        if !is_short || self.backpressure.unfinished_bytes <= self.options.memory_bytes_max / 10 * 9 {
            return;
        }
        let largest = self.clients.channels().max_by_key(|(_, channel)| channel.unfinished_bytes);
        if let Some((connection, number)) = largest.map(|(_, channel)| (channel.connection, channel.number)) {
            let reason = "low on memory: too much is in open transactions and in messages that are not whole yet";
            self.refuse(connection, number, error(ReplyCode::ResourceError, reason));
        }
    }

    /// The current shortage, if any. A shortage of memory ends at nine tenths of the watermark, so that it does not flutter.
    fn shortage(&self) -> Option<Shortage> {
        let bytes = self.memory_bytes();
        let bytes_max = self.options.memory_bytes_max;
        let was_short = self.backpressure.shortage == Some(Shortage::Memory);
        if self.durability.is_full() || self.streams.is_full() {
            Some(Shortage::Disk)
        } else if bytes > bytes_max || (was_short && bytes > bytes_max / 10 * 9) {
            Some(Shortage::Memory)
        } else if self.streams.is_congested() || self.durability.is_congested() || self.letters.is_congested() {
            Some(Shortage::Journal)
        } else {
            None
        }
    }

    /// Check for shortages. Returns whether publishers may go on again, so that there may be work.
    pub(crate) fn check_shortage(&mut self) -> bool {
        let shortage = self.shortage();
        let was = std::mem::replace(&mut self.backpressure.shortage, shortage);
        if was == shortage {
            return false;
        }
        match (was.and_then(Shortage::reason), self.backpressure.reason()) {
            (None, Some(reason)) => {
                self.events.push(Event::Blocked { reason: reason.to_owned() });
                self.backpressure.block_publishers(&mut self.clients);
            }
            (Some(_), None) => self.events.push(Event::Unblocked),
            _ => {}
        }
        if shortage.is_none() {
            self.unblock();
        }
        shortage.is_none()
    }

    fn unblock(&mut self) {
        for handle in std::mem::take(&mut self.backpressure.blocked) {
            let Some(connection) = self.clients.connection_of(handle) else { continue };
            connection.is_blocked = false;
            // While it was not read, it could not be heard.
            connection.heard = self.clock.now();
            if std::mem::take(&mut connection.was_told_blocked) && connection.state == ConnectionState::Open {
                self.clients.answer(handle.id, 0, ConnectionUnblocked {}.into());
            }
            self.clients.touch(handle.id);
            self.resume(handle.id);
        }
    }
}

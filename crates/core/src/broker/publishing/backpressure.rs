//! Backpressure: publishers wait while memory or disk is short, and go on when it is not.
//!
//! A connection that publishes during a shortage is told (connection.blocked, where it knows that method) and is read no
//! further; what it has sent already waits in its `input`. While memory is what is short, a publisher goes on as long as
//! consumers take its messages at once: these take no memory for long. Consumers go on, and end the shortage; but when
//! memory grows further, a channel gets its next message only when it has acknowledged and read the last, and every
//! publisher waits. When only the journal's
//! thread is behind, which passes in milliseconds, publishers are not read either, but not told.

use crate::amqp::method::ConnectionUnblocked;
use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::errors::error;
use crate::broker::management::event::Event;
use crate::broker::publishing::shortage::Shortage;

impl Broker {
    /// The memory that counts ([`crate::broker::MemoryUse`]). What cannot change quickly is as it was at the end of the
    /// last call.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.messages.resident_bytes()
            + self.queues.chunks().resident_bytes()
            + self.backpressure.unfinished_bytes
            + self.publishing.commit_bytes()
            + self.backpressure.other_bytes
    }

    /// Refuse a new exchange, queue or binding when these take half of the memory, or when all together take more than
    /// publishers may: nobody can be made to wait until there are fewer of them.
    ///
    /// # Errors
    /// 506.
    pub(crate) fn check_memory_for_definitions(&self) -> Result<(), AmqpError> {
        let (bytes, bytes_max) = (self.memory(), self.options.memory_bytes_max);
        let reason = if bytes.definitions > bytes_max / 2 {
            "low on memory: exchanges, queues and bindings take half of what there is (memory_bytes)"
        } else if bytes.total() > bytes_max / 10 * 11 {
            "low on memory: there is no room for further exchanges, queues and bindings until messages are consumed"
        } else {
            return Ok(());
        };
        Err(error(ReplyCode::ResourceError, reason))
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
    fn shortage(&self, bytes: u64) -> Option<Shortage> {
        let bytes_max = self.options.memory_bytes_max;
        let was_short = self.backpressure.shortage == Some(Shortage::Memory);
        if self.durability.is_full() || self.streams.is_full() {
            Some(Shortage::Disk)
        } else if bytes > bytes_max || (was_short && bytes > bytes_max / 10 * 9) {
            Some(Shortage::Memory)
        } else if self.streams.is_congested() || self.durability.is_congested() {
            Some(Shortage::Journal)
        } else if self.letters.is_congested() {
            // Those that go to several queues do not pass before there is memory for them.
            Some(if was_short || self.is_very_crowded() { Shortage::Memory } else { Shortage::Letters })
        } else {
            None
        }
    }

    /// Check for shortages. Returns whether somebody may go on again, so that there may be work.
    pub(crate) fn check_shortage(&mut self) -> bool {
        let (bytes, may_deliver) = self.count_memory();
        let shortage = self.shortage(bytes);
        let was = std::mem::replace(&mut self.backpressure.shortage, shortage);
        if was == shortage && !may_deliver {
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
        self.unblock() || may_deliver || shortage.is_none()
    }

    /// Let publishers go on that wait for a shortage, and whose consumers can take their messages again.
    pub(crate) fn try_blocked_again(&mut self) {
        if self.backpressure.is_on() {
            self.backpressure.try_again(&mut self.clients);
            self.unblock();
        }
    }

    /// Count all memory, and note whether it is so short that consumers get messages one by one. Returns the sum, and
    /// whether consumers may go on that had to wait for it.
    fn count_memory(&mut self) -> (u64, bool) {
        let memory = self.memory();
        let bytes = memory.total();
        self.backpressure.other_bytes = bytes - memory.messages - memory.entries - memory.unfinished;
        let is_severe = self.is_severe(bytes);
        let was_severe = std::mem::replace(&mut self.backpressure.is_severe, is_severe);
        let has_ended = was_severe && !is_severe;
        if has_ended {
            self.wake_all();
        }
        (bytes, has_ended)
    }

    /// Whether memory is so short that what consumers do not acknowledge or read must not take more of it.
    fn is_severe(&self, bytes: u64) -> bool {
        bytes > self.options.memory_bytes_max / 100 * 115
    }

    /// While consumers get messages one by one, look for those that can take another.
    pub(crate) fn feed_sparingly(&mut self) {
        if self.backpressure.is_severe {
            self.wake_all();
        }
    }

    /// Let publishers go on that may. Returns whether there are some.
    fn unblock(&mut self) -> bool {
        let unblocked = self.backpressure.take_unblocked(&mut self.clients);
        let has_some = !unblocked.is_empty();
        for handle in unblocked {
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
        has_some
    }
}

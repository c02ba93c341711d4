//! Backpressure: publishers wait while memory or disk is short, and go on when it is not.
//!
//! A connection that publishes during a shortage is told (connection.blocked, where it knows that method) and is read no
//! further; what it has sent already waits in its `input`. Consumers go on, and end the shortage. When only the journal's
//! thread is behind, which passes in milliseconds, publishers are not read either, but not told.

use crate::amqp::ReplyCode;
use crate::amqp::method::{ConnectionBlocked, ConnectionUnblocked};

use crate::broker::Broker;
use crate::broker::connections::channel::Channel;
use crate::broker::connections::clients::Clients;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::errors::error;
use crate::broker::ids::{ConnectionSlot, Handle};
use crate::broker::management::event::Event;

/// What is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    Memory,
    Disk,
    /// More is recorded than the disk has taken.
    Journal,
}

impl Shortage {
    /// What clients and operators are told; nothing when it passes by itself.
    fn reason(self) -> Option<&'static str> {
        match self {
            Self::Memory => Some("low on memory"),
            Self::Disk => Some("low on disk"),
            Self::Journal => None,
        }
    }
}

/// Why publishers wait, and which connections do.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    shortage: Option<Shortage>,
    /// Connections that are not read because of that.
    blocked: Vec<Handle<ConnectionSlot>>,
    /// What channels keep of incomplete messages and open transactions.
    unfinished_bytes: u64,
}

impl Backpressure {
    /// Whether publishers wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shortage.is_some()
    }

    /// What channels keep of incomplete messages and open transactions.
    #[cfg(test)]
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes
    }

    /// Publishers wait from now on, each after at most one more message, until the disk has taken what is recorded.
    #[inline]
    pub fn await_journal(&mut self) {
        self.shortage.get_or_insert(Shortage::Journal);
    }

    /// Count again what a channel keeps that is in no queue yet.
    pub fn count_unfinished(&mut self, channel: &mut Channel) {
        let bytes = channel.unfinished();
        self.unfinished_bytes = self.unfinished_bytes - channel.unfinished_bytes + bytes;
        channel.unfinished_bytes = bytes;
    }

    /// A connection published: during a shortage, it is read no further.
    #[inline]
    pub fn note_publisher(&mut self, clients: &mut Clients, slot: ConnectionSlot) {
        clients[slot].publishes = true;
        if self.is_on() {
            self.block(clients, slot);
        }
    }

    fn block_publishers(&mut self, clients: &mut Clients) {
        let publishers = clients.connections().filter(|(_, connection)| connection.publishes);
        let publishers: Vec<ConnectionSlot> = publishers.map(|(slot, _)| slot).collect();
        publishers.into_iter().for_each(|slot| self.block(clients, slot));
    }

    fn block(&mut self, clients: &mut Clients, slot: ConnectionSlot) {
        let connection = &mut clients[slot];
        if connection.state != ConnectionState::Open {
            return;
        }
        if !connection.is_blocked {
            connection.is_blocked = true;
            self.blocked.push(Handle { id: slot, serial: connection.serial });
            clients.touch(slot);
        }
        let connection = &mut clients[slot];
        if let Some(reason) = self.reason()
            && connection.knows_blocked
            && !connection.was_told_blocked
        {
            connection.was_told_blocked = true;
            clients.answer(slot, 0, ConnectionBlocked { reason }.into());
        }
    }

    fn reason(&self) -> Option<&'static str> {
        self.shortage.and_then(Shortage::reason)
    }
}

impl Broker {
    /// The memory that messages take: in queues, in transactions, and incomplete ones.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.messages.resident_bytes() + self.backpressure.unfinished_bytes
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

    /// What is short now. A shortage of memory ends at nine tenths of the watermark, so that it does not flutter.
    fn shortage(&self) -> Option<Shortage> {
        let bytes = self.memory_bytes();
        let bytes_max = self.options.memory_bytes_max;
        let was_short = self.backpressure.shortage == Some(Shortage::Memory);
        if self.durability.is_full() || self.streams.is_full() {
            Some(Shortage::Disk)
        } else if bytes > bytes_max || (was_short && bytes > bytes_max / 10 * 9) {
            Some(Shortage::Memory)
        } else if self.streams.is_congested() || self.durability.is_congested() {
            Some(Shortage::Journal)
        } else {
            None
        }
    }

    /// See what is short. Returns whether publishers were let go on, so that there may be work again.
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

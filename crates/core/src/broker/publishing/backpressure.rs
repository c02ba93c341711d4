//! Shortage: publishers wait while memory or disk is short, and go on when it is not.
//!
//! A connection that publishes during a shortage is told (connection.blocked, where it knows that) and read no more;
//! what it sent already waits in its `input`. Consumers go on, and are what ends the shortage. When only the journal's
//! thread is behind, which passes in milliseconds, publishers are not read either, but not told.

use crate::amqp::ReplyCode;
use crate::amqp::method::{ConnectionBlocked, ConnectionUnblocked};

use crate::broker::Broker;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::connections::dispatch::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, Handle, LogId};
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

impl Broker {
    /// What messages take in memory: in queues, in transactions, and such as are not whole yet.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.messages.resident_bytes() + self.unfinished_bytes
    }

    /// What a channel keeps that is in no queue yet has changed.
    pub(crate) fn count_unfinished(&mut self, channel: ChannelSlot) {
        let it = &mut self.channels[channel];
        let bytes = it.unfinished();
        self.unfinished_bytes = self.unfinished_bytes - it.unfinished_bytes + bytes;
        it.unfinished_bytes = bytes;
    }

    /// Where what is in no queue yet takes all the memory, no consumer can end the shortage, and whoever is blocked
    /// cannot finish: the connection of the channel that has most of it is closed, one with each tick.
    pub(crate) fn shed_unfinished(&mut self) {
        if self.blocked != Some(Shortage::Memory) || self.unfinished_bytes <= self.options.memory_bytes_max / 10 * 9 {
            return;
        }
        let largest = self.channels.iter().max_by_key(|(_, channel)| channel.unfinished_bytes);
        if let Some((connection, number)) = largest.map(|(_, channel)| (channel.connection, channel.number)) {
            let reason = "low on memory: too much is in open transactions and in messages that are not whole yet";
            self.refuse(connection, number, error(ReplyCode::ResourceError, reason));
        }
    }

    /// What is short now. A shortage of memory ends at nine tenths of the watermark, so that it does not flutter.
    fn shortage(&self) -> Option<Shortage> {
        let bytes = self.memory_bytes();
        let most = self.options.memory_bytes_max;
        let was_short = self.blocked == Some(Shortage::Memory);
        let is_full = |number: &LogId| self.logs.get(number).is_some_and(crate::journal::Log::is_full);
        if self.journal.as_ref().is_some_and(|journal| journal.durable.is_full()) || self.pressed.iter().any(is_full) {
            Some(Shortage::Disk)
        } else if bytes > most || (was_short && bytes > most / 10 * 9) {
            Some(Shortage::Memory)
        } else if !self.pressed.is_empty()
            || self.journal.as_ref().is_some_and(|journal| journal.durable.is_congested())
        {
            Some(Shortage::Journal)
        } else {
            None
        }
    }

    /// See what is short. Returns whether publishers were let go on, so that there may be work again.
    pub(crate) fn check_shortage(&mut self) -> bool {
        let shortage = self.shortage();
        let was = std::mem::replace(&mut self.blocked, shortage);
        if was == shortage {
            return false;
        }
        let told = |shortage: Option<Shortage>| shortage.and_then(Shortage::reason);
        match (told(was), told(shortage)) {
            (None, Some(reason)) => {
                self.events.push(Event::Blocked { reason: reason.to_owned() });
                self.block_publishers();
            }
            (Some(_), None) => self.events.push(Event::Unblocked),
            _ => {}
        }
        if shortage.is_none() {
            self.unblock();
        }
        shortage.is_none()
    }

    fn block_publishers(&mut self) {
        let publishers: Vec<ConnectionSlot> =
            self.connections.iter().filter(|(_, connection)| connection.publishes).map(|(number, _)| number).collect();
        publishers.into_iter().for_each(|number| self.block(number));
    }

    /// A connection published: when there is a shortage, it is the last that is heard of it for now.
    #[inline]
    pub(crate) fn note_publisher(&mut self, number: ConnectionSlot) {
        self.connections[number].publishes = true;
        if self.blocked.is_some() {
            self.block(number);
        }
    }

    fn block(&mut self, number: ConnectionSlot) {
        let reason = self.blocked.and_then(Shortage::reason);
        let connection = &mut self.connections[number];
        if connection.life != ConnectionState::Open {
            return;
        }
        if !connection.is_blocked {
            connection.is_blocked = true;
            self.blocked_connections.push(Handle { id: number, serial: connection.serial });
            self.touch(number);
        }
        let connection = &mut self.connections[number];
        if let Some(reason) = reason
            && connection.knows_blocked
            && !connection.was_told_blocked
        {
            connection.was_told_blocked = true;
            self.answer(number, 0, ConnectionBlocked { reason }.into());
        }
    }

    fn unblock(&mut self) {
        for reference in std::mem::take(&mut self.blocked_connections) {
            let Handle { id: number, serial } = reference;
            let Some(connection) = self.connections.get_mut(number).filter(|it| it.serial == serial) else { continue };
            connection.is_blocked = false;
            // Whoever was not read could not be heard.
            connection.heard = self.now;
            if std::mem::take(&mut connection.was_told_blocked) && connection.life == ConnectionState::Open {
                self.answer(number, 0, ConnectionUnblocked {}.into());
            }
            self.touch(number);
            self.resume(number);
        }
    }
}

//! The current shortage, and the connections that are not read because of it.

use crate::amqp::method::ConnectionBlocked;
use crate::broker::connections::channel::Channel;
use crate::broker::connections::clients::Clients;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::ids::{ConnectionSlot, Handle};

/// The number of tries of a publisher whose messages passed before: one at each tick.
const PASSED_MAX: u8 = 32;

/// The resource that is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    Memory,
    Disk,
    /// The journal has more to write than the disk has taken.
    Journal,
    /// Too many dead letters wait.
    Letters,
}

impl Shortage {
    /// The reason as clients and operators are told it; None when the shortage passes by itself.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Self::Memory => Some("low on memory"),
            Self::Disk => Some("low on disk"),
            Self::Journal | Self::Letters => None,
        }
    }
}

/// The reason why publishers wait, and the connections that do.
#[derive(Debug, Default)]
pub(crate) struct Backpressure {
    pub(super) shortage: Option<Shortage>,
    /// Connections that are not read because of the shortage.
    pub(super) blocked: Vec<Handle<ConnectionSlot>>,
    /// The memory that incomplete messages and open transactions of channels take.
    pub(crate) unfinished_bytes: u64,
    /// All memory that counts, except that of messages, entries and what is unfinished: as it was last counted.
    pub(super) other_bytes: u64,
    /// The memory of the process that no part counts, beyond what is tolerated.
    pub(crate) uncounted_bytes: u64,
    /// Whether memory is so short that consumers get messages one by one.
    pub(crate) is_severe: bool,
    /// Whether consumers took the current message at once, from all of its queues.
    pub(crate) has_passed: bool,
}

impl Backpressure {
    /// Whether publishers wait.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shortage.is_some()
    }

    /// Whether dead letters wait, too: each may go to very many queues.
    pub fn is_overrun(&self) -> bool {
        self.is_severe && self.uncounted_bytes > 0
    }

    /// Let publishers wait, each after at most one more message, until the disk has taken what is recorded.
    #[inline]
    pub fn await_journal(&mut self) {
        self.shortage.get_or_insert(Shortage::Journal);
    }

    /// Update the memory that a channel takes for messages that are in no queue yet.
    pub fn count_unfinished(&mut self, channel: &mut Channel) {
        let bytes = channel.unfinished();
        self.unfinished_bytes = self.unfinished_bytes - channel.unfinished_bytes + bytes;
        channel.unfinished_bytes = bytes;
    }

    /// Note that a connection begins to publish: during a shortage, it is read no further, unless its messages pass.
    #[inline]
    pub fn note_publisher(&mut self, clients: &mut Clients, slot: ConnectionSlot) {
        clients[slot].publishes = true;
        if self.is_on() && !self.lets_pass(clients[slot].passes) {
            self.block(clients, slot);
        }
    }

    /// Note that a connection has published a message, and where that went.
    #[inline]
    pub fn note_published(&mut self, clients: &mut Clients, slot: ConnectionSlot) {
        let connection = &mut clients[slot];
        connection.passes = self.has_passed;
        connection.passed =
            if self.has_passed { (connection.passed + 1).min(PASSED_MAX) } else { connection.passed.saturating_sub(1) };
        self.note_publisher(clients, slot);
    }

    /// Let publishers try again whose messages mostly passed: their consumers may have been late once. Each goes on with one
    /// message, and then with others only if that one has passed.
    pub(super) fn try_again(&mut self, clients: &mut Clients) {
        for handle in &self.blocked {
            if let Some(connection) = clients.connection_of(*handle) {
                connection.passes = connection.passed > 0;
            }
        }
    }

    /// Take those of the blocked publishers that may go on now: all without a shortage, else those whose messages pass.
    pub(super) fn take_unblocked(&mut self, clients: &mut Clients) -> Vec<Handle<ConnectionSlot>> {
        let mut blocked = std::mem::take(&mut self.blocked);
        let may_go_on = |handle: &Handle<ConnectionSlot>| {
            !self.is_on() || clients.connection_of(*handle).is_none_or(|connection| self.lets_pass(connection.passes))
        };
        let (unblocked, still) = blocked.drain(..).partition(may_go_on);
        self.blocked = still;
        unblocked
    }

    /// Whether a publisher goes on during the shortage: not if the disk is what is short.
    fn lets_pass(&self, passes: bool) -> bool {
        let is_disk_free = matches!(self.shortage, Some(Shortage::Memory | Shortage::Letters));
        passes && is_disk_free && !self.is_severe
    }

    pub(super) fn block_publishers(&mut self, clients: &mut Clients) {
        let publishers = clients.connections();
        let publishers = publishers.filter(|(_, it)| it.publishes && !self.lets_pass(it.passes));
        let publishers: Vec<ConnectionSlot> = publishers.map(|(slot, _)| slot).collect();
        publishers.into_iter().for_each(|slot| self.block(clients, slot));
    }

    pub(in crate::broker::publishing) fn block(&mut self, clients: &mut Clients, slot: ConnectionSlot) {
        let connection = &mut clients[slot];
        if connection.state != ConnectionState::Open {
            return;
        }
        if !connection.is_blocked {
            connection.is_blocked = true;
            self.blocked.push(connection.handle(slot));
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

    pub(super) fn reason(&self) -> Option<&'static str> {
        self.shortage.and_then(Shortage::reason)
    }
}

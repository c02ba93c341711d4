//! Events that operators may want to read: for the log, never for the broker's own work.

use std::collections::VecDeque;

use crate::amqp::AmqpError;

use crate::broker::Broker;
use crate::broker::ids::{ChannelSlot, ConnectionId};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection was closed because of what its client did.
    ConnectionRefused {
        /// The connection.
        connection: ConnectionId,
        /// The text that the client received.
        error: AmqpError,
    },
    /// A channel was closed because of what its client did.
    ChannelRefused {
        /// The connection of the channel.
        connection: ConnectionId,
        /// The number of the channel.
        channel: u16,
        /// The text that the client received.
        error: AmqpError,
    },
    /// A connection was silent for two heartbeat intervals.
    HeartbeatMissed {
        /// The connection.
        connection: ConnectionId,
    },
    /// A connection took nothing of its output for a minute, while clients that do not read held much memory.
    OutputNotTaken {
        /// The connection.
        connection: ConnectionId,
    },
    /// Publishers are blocked from now on.
    Blocked {
        /// The reason, in words.
        reason: String,
    },
    /// Publishers may go on.
    Unblocked,
    /// Nothing can be made durable any more: the process must end.
    Fatal {
        /// The reason.
        reason: String,
    },
    /// Entries of queues cannot be moved to disk now: they stay in memory, and publishers wait when it is full.
    SpillFailed {
        /// The error that the disk reported.
        reason: String,
    },
    /// Something was declared or bound that is accepted, and can hardly be meant as it is written.
    Warning {
        /// The connection.
        connection: ConnectionId,
        /// The queue or binding.
        subject: String,
        /// The text for the log.
        reason: String,
    },
    /// A message could not be read back from the journal and is lost.
    MessageLost {
        /// The queue from which it was to be delivered.
        queue: String,
        /// The fault in the message's record.
        reason: String,
    },
}

/// Maximum number of characters of a reason that repeats what a client wrote.
const REASON_CHARS_MAX: usize = 500;

impl Broker {
    /// Tell operators of something that a client declared or bound, which can hardly be meant as it is written.
    pub(crate) fn warn(&mut self, channel: ChannelSlot, subject: String, reason: String) {
        let connection = self.clients.id(self.clients[channel].connection);
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        self.events.push(Event::Warning { connection, subject, reason });
    }
}

/// Events that nobody has read yet. When there are too many, the oldest are dropped and counted.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    pub dropped: u64,
}

const EVENTS_MAX: usize = 1024;

impl Events {
    pub fn push(&mut self, event: Event) {
        if self.waiting.len() == EVENTS_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(event);
    }

    pub fn take(&mut self) -> Vec<Event> {
        self.waiting.drain(..).collect()
    }
}

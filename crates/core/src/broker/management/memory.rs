//! The memory that the broker takes: who takes how much, and the sum that decides when publishers wait.
//!
//! Each part counts what it keeps as it changes, so that the sum costs a few additions. Costs of small things are
//! estimates: what one of them took on average when a million were made.

use crate::broker::Broker;
use crate::broker::connections::channel::Channel;
use crate::broker::connections::connection::Connection;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::queues::queue::Queue;

/// Memory in bytes, by what takes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Messages: bodies that are in memory, and what is kept of each message wherever its body is.
    pub messages: u64,
    /// Entries of queues that are in memory.
    pub entries: u64,
    /// Deliveries that are not acknowledged.
    pub unacknowledged: u64,
    /// Incomplete messages and open transactions.
    pub unfinished: u64,
    /// Dead letters on their way.
    pub letters: u64,
    /// What waits to be written to connections, and what was read from them and waits.
    pub buffers: u64,
    /// Connections, channels and consumers.
    pub connections: u64,
    /// Queues without their entries, exchanges, bindings and their queries.
    pub definitions: u64,
    /// Records of the journal: the places of live ones, and those that wait to be written.
    pub journal: u64,
}

impl MemoryUse {
    /// The names of the parts and what they take.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("messages", self.messages),
            ("entries", self.entries),
            ("unacknowledged", self.unacknowledged),
            ("unfinished", self.unfinished),
            ("letters", self.letters),
            ("buffers", self.buffers),
            ("connections", self.connections),
            ("definitions", self.definitions),
            ("journal", self.journal),
        ]
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }
}

impl Broker {
    /// The memory above which publishers wait.
    #[must_use]
    pub fn memory_bytes_max(&self) -> u64 {
        self.options.memory_bytes_max
    }

    /// The memory that the broker takes now. Cost: some nanoseconds.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        let (connections, channels, consumers) = self.clients.counts();
        MemoryUse {
            messages: self.messages.resident_bytes(),
            entries: self.queues.chunks().resident_bytes(),
            unacknowledged: self.clients.delivery_room().size_bytes(),
            unfinished: self.backpressure.unfinished_bytes,
            letters: self.letters.size_bytes(),
            buffers: self.clients.buffer_bytes(),
            connections: connections as u64 * (size_of::<Connection>() as u64 + self.options.connection_bytes)
                + (channels * size_of::<Channel>() + consumers * size_of::<Consumer>()) as u64,
            definitions: (self.queues.len() * size_of::<Queue>()) as u64 + self.topology.memory_bytes(),
            journal: self.durability.memory_bytes(),
        }
    }
}

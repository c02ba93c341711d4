//! The memory that the broker takes: who takes how much, and the sum that decides when publishers wait.
//!
//! Each part counts what it keeps as it changes, so that the sum costs a few additions. Costs of small things are
//! estimates: what one of them took on average when a million were made.

use crate::broker::Broker;
use crate::broker::connections::channel::Channel;
use crate::broker::connections::connection::Connection;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::queues::held_letters::HELD_BYTES;
use crate::broker::queues::queue::Queue;

/// The part of the limit up to which the index of the journal's current segment counts. Nothing but further records makes it
/// go, so that publishers must not wait for that alone.
const INDEX_PART: u64 = 8;
/// The part of the limit that may be in use without being counted, and what may be so under a low limit.
const UNCOUNTED_PART: u64 = 4;
const UNCOUNTED_BYTES_MIN: u64 = 32 << 20;

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
    /// The bytes that wait to be written to connections, and those that were read and wait.
    pub buffers: u64,
    /// Connections, channels and consumers.
    pub connections: u64,
    /// Queues without their entries, exchanges, bindings and their queries, and remembered routes.
    pub definitions: u64,
    /// Records of the journal: the places of live ones, those that wait to be written, and the index of the current segment;
    /// records of streams that wait to be written, or that live readers have yet to get, and what other readers have read
    /// from the disk.
    pub journal: u64,
    /// The memory of the process that nothing counts, above the tolerated amount: see [`Broker::note_process_memory`].
    pub uncounted: u64,
}

impl MemoryUse {
    /// The names of the parts and what they take.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 10] {
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
            ("uncounted", self.uncounted),
        ]
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// The sum of what the broker counts by itself.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.total() - self.uncounted
    }
}

impl Broker {
    /// The memory above which publishers wait.
    #[must_use]
    pub fn memory_bytes_max(&self) -> u64 {
        self.options.memory_bytes_max
    }

    /// Tell the broker how much memory the process has from the system, without what it had before it began. Call it about
    /// ten times a second.
    ///
    /// Parts are estimates, and an allocator keeps more than it hands out. So a quarter of the limit, and at least 32 MiB,
    /// is tolerated besides what is counted; what is beyond that counts like everything else, until the next call.
    pub fn note_process_memory(&mut self, bytes: u64) {
        let tolerated = (self.options.memory_bytes_max / UNCOUNTED_PART).max(UNCOUNTED_BYTES_MIN);
        self.backpressure.uncounted_bytes = bytes.saturating_sub(self.memory().counted() + tolerated);
    }

    /// The memory that the broker takes now. Cost: some nanoseconds.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        let (connections, channels, consumers) = self.clients.counts();
        MemoryUse {
            messages: self.messages.resident_bytes(),
            entries: self.queues.chunks().resident_bytes(),
            unacknowledged: self.clients.delivery_room().size_bytes(),
            unfinished: self.backpressure.unfinished_bytes + self.publishing.commit_bytes(),
            letters: self.letters.size_bytes() + (self.letters.held_count() * HELD_BYTES) as u64,
            buffers: self.clients.buffer_bytes(),
            connections: connections as u64 * (size_of::<Connection>() as u64 + self.options.connection_bytes)
                + (channels * size_of::<Channel>() + consumers * size_of::<Consumer>()) as u64,
            definitions: (self.queues.len() * size_of::<Queue>()) as u64
                + self.topology.memory_bytes()
                + self.publishing.route_bytes(),
            journal: self.durability.memory_bytes()
                + (self.streams.tail_bytes() + self.streams.pending_memory_bytes()) as u64
                + self.durability.block_bytes()
                + self.durability.index_memory_bytes().min(self.options.memory_bytes_max / INDEX_PART),
            uncounted: self.backpressure.uncounted_bytes,
        }
    }
}

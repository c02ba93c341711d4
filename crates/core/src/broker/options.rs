//! The broker's bounds, and what happens at each of them.

use crate::broker::addresses::settings::Addresses;
use crate::broker::topology::QueryLimits;

/// Bounds and settings of a [`super::Broker`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// Maximum size of a frame when a client agreed to none; it bounds what is read before a frame is complete.
    pub frame_max: u32,
    /// Maximum number of channels of a connection; one more is refused with 530.
    pub channel_max: u16,
    /// Maximum size of a body; a larger one is refused with 406 when its header announces it.
    pub message_bytes_max: usize,
    /// Maximum size of a connection's output before its consumers wait and its frames are not answered. One frame may
    /// exceed it: by at most one message, or one answer.
    pub output_bytes_max: usize,
    /// Maximum of what [`super::Broker::output`] hands over in one call.
    pub output_bytes_at_once: usize,
    /// Maximum memory of all that [`super::MemoryUse`] counts before publishers are blocked.
    pub memory_bytes_max: u64,
    /// The memory that the caller needs for a connection.
    pub connection_bytes: u64,
    /// Maximum number of consumers of a channel; one more is refused with 530.
    pub consumers_max: usize,
    /// Maximum number of streams, each of which keeps a file open; one more is refused with 506. All of them are opened at the
    /// start.
    pub streams_max: usize,
    /// Confirm messages when they arrive instead of when they are on disk: for messages that may be lost.
    pub confirms_received: bool,
    /// Maximum work for a connection's frames before others have their turn, in steps of about a quarter of a
    /// microsecond (`connections/fairness.rs`).
    pub turn_budget: u32,
    /// Limits of queries and of matching.
    pub queries: QueryLimits,
    /// The settings of mailboxes and services.
    pub addresses: Addresses,
    /// The seed of generated names; give it something random, except in a simulation.
    pub seed: u64,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self {
            frame_max: 128 * 1024,
            channel_max: 2047,
            message_bytes_max: 16 << 20,
            output_bytes_max: 512 * 1024,
            output_bytes_at_once: 256 * 1024,
            memory_bytes_max: 1 << 30,
            connection_bytes: 0,
            consumers_max: 65_536,
            streams_max: 16_384,
            confirms_received: false,
            turn_budget: 8192,
            queries: QueryLimits::default(),
            addresses: Addresses::default(),
            seed: 0,
        }
    }
}

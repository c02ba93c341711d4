//! What the broker's bounds are, and what happens at each.

/// Bounds and settings of a [`crate::broker::Broker`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerOptions {
    /// The largest frame, when a client agreed to none; it bounds what is read before a frame is complete.
    pub frame_max: u32,
    /// Channels of a connection; one more is refused with 530.
    pub channel_max: u16,
    /// The largest body; a larger one is refused with 406 when its header announces it.
    pub message_bytes_max: usize,
    /// What a connection may have to write before its consumers wait and no more of its frames are answered. What one
    /// frame adds may go over it: at most one message, or one answer.
    pub output_bytes_max: usize,
    /// What [`crate::broker::Broker::output`] hands over at most in one call.
    pub output_bytes_at_once: usize,
    /// What messages may take in memory before publishers are blocked.
    pub memory_bytes_max: u64,
    /// Consumers of a channel; one more is refused with 530.
    pub consumers_max: usize,
    /// Confirm messages when they come instead of when they are on disk: for those that may be lost.
    pub confirms_received: bool,
    /// How much of a connection's frames is done before others have their turn, in units of a quarter of a microsecond or
    /// so (`turns.rs`).
    pub turn_units_max: u32,
    /// Whatever names the broker makes up come from here; give it something random, except in a simulation.
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
            consumers_max: 65_536,
            confirms_received: false,
            turn_units_max: 8192,
            seed: 0,
        }
    }
}

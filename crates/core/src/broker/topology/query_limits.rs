//! The limits of queries: what one, a connection's and a vhost's may take, and how long a match may last.

/// Limits of queries, and of matching a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Maximum memory of one compiled query; a larger one is refused with 406.
    pub bytes_max: u64,
    /// Maximum of the worst time of one query per byte of a message's texts; a higher one is refused with 406.
    pub ns_per_byte_max: u64,
    /// Maximum memory of the queries that one connection has bound or consumes with; more is refused with 406.
    pub connection_bytes_max: u64,
    /// Maximum memory of all queries of a vhost; more is refused with 406.
    pub vhost_bytes_max: u64,
    /// Maximum size of a body that queries read. A larger one is unknown to them, or refused.
    pub body_bytes_max: usize,
    /// Maximum number of values of a JSON body that queries read. One with more is unknown to them, or refused.
    pub body_values_max: usize,
    /// Whether a message is refused with 406 when a query asks for a body that is too large to be read.
    pub refuses_large_bodies: bool,
    /// Maximum time of matching one message, by the rates in [`crate::allowance`]. A message that would take more is
    /// refused with 406.
    pub match_ns_max: u64,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 20,
            ns_per_byte_max: 100_000,
            connection_bytes_max: 128 << 20,
            vhost_bytes_max: 256 << 20,
            body_bytes_max: 256 * 1024,
            body_values_max: 20_000,
            refuses_large_bodies: false,
            match_ns_max: 8_000_000,
        }
    }
}

impl QueryLimits {
    /// These limits, and never more than a part of the broker's memory.
    #[must_use]
    pub fn within_memory(mut self, memory_bytes: u64) -> Self {
        self.connection_bytes_max = self.connection_bytes_max.min(memory_bytes / 8);
        self.vhost_bytes_max = self.vhost_bytes_max.min(memory_bytes / 4);
        self
    }
}

//! Streams: queues that are logs, and the consumers that read them.

pub(crate) mod stream;
pub mod stream_record;

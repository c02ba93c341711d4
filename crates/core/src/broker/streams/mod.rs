//! Streams: queues that are logs, and the consumers that read them.

pub(crate) mod all_streams;
pub(crate) mod reading;
pub(crate) mod stream;
pub mod stream_record;

//! Streams: queues that are logs, and the consumers that read them.

pub(crate) mod all_streams;
pub(crate) mod begin_reading;
pub(crate) mod cursor;
pub(crate) mod deliver_live;
pub(crate) mod left_readers;
pub(crate) mod live_readers;
pub(crate) mod named_readers;
pub(crate) mod numbers;
pub(crate) mod progress;
pub(crate) mod reader_offset;
pub(crate) mod reader_table;
pub(crate) mod reading;
pub(crate) mod skipping;
pub(crate) mod stream;
pub mod stream_record;
pub(crate) mod summarizer;
pub(crate) mod summary;
pub(crate) mod summary_file;
pub(crate) mod tail;

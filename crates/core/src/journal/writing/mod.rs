//! The writing side of a log: what was appended, written and synced, and the thread that commits it.

pub(crate) mod appending;
pub(crate) mod catalog;
pub(crate) mod commit;
pub(crate) mod committer;
pub(crate) mod errands;
pub(crate) mod mark_file;
pub(crate) mod read_back;
pub(crate) mod segment_writer;
pub(crate) mod shared;

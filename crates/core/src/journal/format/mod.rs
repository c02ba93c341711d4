//! The files of a log, byte by byte: records, segments with their footers, and the mark.

pub(crate) mod footer;
pub(crate) mod heads;
pub(crate) mod mark;
pub(crate) mod record;
pub(crate) mod segment;

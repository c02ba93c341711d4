//! What is in the directory of a log, and how a log is recovered from it.

pub(crate) mod directory;
pub(crate) mod recover;
pub(crate) mod scan;

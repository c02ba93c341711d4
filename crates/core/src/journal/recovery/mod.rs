//! Recovers a log from the files in its directory.

pub(crate) mod completeness;
pub(crate) mod directory;
pub(crate) mod recover;
pub(crate) mod scan;

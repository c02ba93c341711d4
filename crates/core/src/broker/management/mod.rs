//! Management: counters, events and overviews for operators.

pub(crate) mod event;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod overview;

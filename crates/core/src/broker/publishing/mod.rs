//! Publishing: a message is checked, routed, kept and confirmed.

pub(crate) mod backpressure;
pub(crate) mod confirming;
pub(crate) mod confirms;
pub(crate) mod publish;
pub(crate) mod transact;
pub(crate) mod transaction;

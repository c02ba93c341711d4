//! Publishing: a message is checked, routed, kept and confirmed.

pub(crate) mod backpressure;
pub(crate) mod confirms;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod transaction;

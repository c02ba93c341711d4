//! Publishing: a message is checked, routed, kept and confirmed.

pub(crate) mod backpressure;
pub(crate) mod confirms;
pub(crate) mod publish;
pub(crate) mod routes;
pub(crate) mod transaction;

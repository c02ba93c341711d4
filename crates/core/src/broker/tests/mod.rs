//! The broker through raw bytes, as clients see it.

pub(super) mod client;
mod delivering;
pub(super) mod invariants;
mod keeping;
mod nonsense;
mod refusing;
mod streaming;
mod turns;

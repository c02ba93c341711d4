//! The broker through raw bytes, as clients see it.

pub(super) mod client;
mod confirming;
mod copies;
mod dead_letters;
mod delivering;
pub(super) mod invariants;
mod keeping;
mod nonsense;
mod refusing;
mod shortage;
mod streaming;
mod transactions;
mod turns;

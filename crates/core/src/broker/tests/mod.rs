//! The broker through raw bytes, as clients see it.

mod addresses;
pub(super) mod client;
mod closing;
mod confirming;
mod copies;
mod dead_letters;
mod delivering;
mod expiring;
pub(super) mod invariants;
mod keeping;
mod large_messages;
mod live_readers;
mod memory;
mod named_readers;
mod nonsense;
mod opening_streams;
mod permissions;
mod pricing;
mod purging;
mod reader_memory;
mod refusing;
mod shortage;
mod stream_model;
mod streaming;
mod taking_turns;
mod transactions;
mod turns;

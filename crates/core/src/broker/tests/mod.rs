//! The broker through raw bytes, as clients see it.

mod client;
mod delivering;
mod invariants;
mod keeping;

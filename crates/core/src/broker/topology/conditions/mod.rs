//! The conditions of bindings and consumers: their queries, and an AMQP message as queries see it.

pub mod filter;
pub(super) mod headers;
pub(super) mod names;
pub(super) mod view;

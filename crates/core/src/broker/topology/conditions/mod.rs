//! What a binding or a consumer asks for: its query, and what the query sees of an AMQP message.

pub mod filter;
pub(super) mod headers;
pub(super) mod names;
pub(super) mod view;

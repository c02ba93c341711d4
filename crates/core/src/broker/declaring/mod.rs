//! Declarations: exchanges, queues, bindings and stored queries are made, checked and removed.

pub(crate) mod bindings;
pub(crate) mod exchanges;
pub(crate) mod queues;
pub(crate) mod stored_queries;

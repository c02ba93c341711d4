//! Mailboxes and services: queues with an address, made on demand.
//!
//! A message that is published to the exchange `mailbox` or `service`, or by the name of such a queue to the default
//! exchange, goes to the queue of its address. The queue is made on demand: by the message, by a worker that consumes, or
//! when a client with an identity connects. The broker writes into each such message who sent it. Everything else is that of
//! any durable queue whose senders wait when it is full.

pub(crate) mod make;
pub(crate) mod send;
pub(crate) mod settings;
pub(crate) mod stamp;

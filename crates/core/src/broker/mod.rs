//! The data plane of the AMQP broker.

pub mod durable;
mod slab;
pub mod topology;

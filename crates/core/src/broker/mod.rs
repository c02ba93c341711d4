//! The data plane of the AMQP broker.

mod slab;
pub mod topology;

//! Consumers: who takes messages, what is delivered to them, and what comes back.

pub(crate) mod consume;
pub(crate) mod consumer;
pub(crate) mod credit;
pub(crate) mod deliver;
pub(crate) mod settle;
pub(crate) mod settlement;
pub(crate) mod unacknowledged;

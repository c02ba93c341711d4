//! Consumers: what is delivered to them, and how they acknowledge, requeue or reject it.

pub(crate) mod consume;
pub(crate) mod consumer;
pub(crate) mod consumer_tags;
pub(crate) mod credit;
pub(crate) mod deliver;
pub(crate) mod overdue;
pub(crate) mod settle;
pub(crate) mod settlement;
pub(crate) mod unacknowledged;

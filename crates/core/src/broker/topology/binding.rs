//! A binding: its source and its destination, by name for clients and by id inside.

use crate::amqp::RawTable;

use super::ids::{ConditionId, Destination, ExchangeId};

/// The destination of a binding, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// To a queue.
    Queue(&'a str),
    /// To an exchange.
    Exchange(&'a str),
}

/// A binding to be made or removed. Two are the same when all four fields are.
#[derive(Clone, Copy, Debug)]
pub struct Bind<'a> {
    /// The exchange from which it leads.
    pub source: &'a str,
    /// The destination.
    pub target: Target<'a>,
    /// The binding's routing key.
    pub key: &'a str,
    /// `x-query`, the headers of a headers exchange, and others, in any order.
    pub arguments: RawTable<'a>,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub source: ExchangeId,
    pub condition: ConditionId,
    pub destination: Destination,
    /// The index among the destinations of the condition.
    pub index: u32,
    /// The index among the bindings that lead to the destination.
    pub incoming_index: u32,
}

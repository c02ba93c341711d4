//! A binding: where it leads from and to, by name for clients and by id inside.

use crate::amqp::RawTable;

use super::ids::{ConditionId, Destination, ExchangeId};

/// Where a binding leads, by name.
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
    /// Where it leads.
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
    /// Its index among the destinations of the condition.
    pub index: u32,
    /// Its index among the bindings that lead to the destination.
    pub incoming_index: u32,
}

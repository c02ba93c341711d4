//! Turns: a read of one connection may ask for more work than others should have to wait for.
//!
//! Work is counted in steps of about a quarter of a microsecond: an entry of a queue is one, a binding is
//! [`METHOD_STEPS`]. When the budget of a turn ([`BrokerOptions::turn_budget`](crate::broker::BrokerOptions)) is used
//! up, the connection is read no further, and the rest of what it sent waits in its `input` until [`Broker::work`] gives it
//! another turn, one connection at a time. A frame that has begun is always finished, so that a turn exceeds its budget by
//! at most one frame: a commit, or a message to very many queues.

use std::collections::VecDeque;

use crate::amqp::MethodId;
use crate::amqp::method::{BasicAck, BasicGet, BasicNack, BasicReject};

use crate::broker::Broker;
use crate::broker::ids::{ConnectionSlot, Handle};

/// The cost of a method that neither publishes nor settles a message: making a binding takes about 5 us.
const METHOD_STEPS: u32 = 16;

/// The budget of this turn, and the connections that wait for another turn.
#[derive(Debug)]
pub(crate) struct Turn {
    left: u32,
    budget: u32,
    resting: VecDeque<Handle<ConnectionSlot>>,
}

impl Turn {
    /// The first of many turns of this budget.
    pub fn new(budget: u32) -> Self {
        Self { left: budget, budget, resting: VecDeque::new() }
    }

    /// Use up some of the budget.
    #[inline]
    pub fn spend(&mut self, steps: u32) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Use up the cost of a method.
    #[inline]
    pub fn spend_method(&mut self, method: MethodId) {
        self.spend(match method {
            BasicAck::ID | BasicNack::ID | BasicReject::ID | BasicGet::ID => 1,
            _ => METHOD_STEPS,
        });
    }

    /// Whether the budget is used up.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Begin the next turn with its whole budget.
    pub fn begin(&mut self) {
        self.left = self.budget;
    }

    /// Whether a connection waits for another turn.
    pub fn has_next(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Whether this connection waits for another turn.
    #[cfg(test)]
    pub fn is_waiting(&self, connection: Handle<ConnectionSlot>) -> bool {
        self.resting.contains(&connection)
    }
}

impl Broker {
    /// End the turn of a connection before its input is used up: it goes on in [`Broker::work`].
    pub(crate) fn rest(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        connection.is_suspended = true;
        if !connection.is_resting {
            connection.is_resting = true;
            self.turn.resting.push_back(Handle { id: slot, serial: connection.serial });
        }
        self.clients.touch(slot);
    }

    /// Let the next connection go on whose turn was over.
    pub(crate) fn next_turn(&mut self) {
        while let Some(handle) = self.turn.resting.pop_front() {
            let Some(connection) = self.clients.connection_of(handle) else { continue };
            connection.is_resting = false;
            // While it was not read, it could not be heard.
            connection.heard = self.clock.now();
            return self.resume(handle.id);
        }
    }
}

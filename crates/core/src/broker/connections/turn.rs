//! The remaining budget of this turn, and the connections that wait for the next.

use crate::amqp::MethodId;
use crate::amqp::method::{BasicAck, BasicGet, BasicNack, BasicPublish, BasicReject};
use crate::broker::ids::{ConnectionSlot, Handle};
use std::collections::VecDeque;

/// The cost of a method that neither publishes nor settles a message: making a binding takes about 5 us.
const METHOD_STEPS: u32 = 16;

/// The time of a step, about.
pub(crate) const STEP_NS: u64 = 250;

/// The budget of this turn, and the connections that wait for another turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(super) left: u32,
    pub(super) budget: u32,
    pub(super) resting: VecDeque<Handle<ConnectionSlot>>,
    /// The method that was carried out last.
    method: MethodId,
    /// Whether the current frame could not be carried out in this turn.
    repeats: bool,
}

impl Turn {
    /// The first turn, with this budget for each turn.
    pub fn new(budget: u32) -> Self {
        Self { left: budget, budget, resting: VecDeque::new(), method: MethodId::NONE, repeats: false }
    }

    /// Use up some of the budget.
    #[inline]
    pub fn spend(&mut self, steps: u32) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Use up the cost of a method.
    #[inline]
    pub fn spend_method(&mut self, method: MethodId) {
        self.method = method;
        self.spend(match method {
            BasicAck::ID | BasicNack::ID | BasicReject::ID | BasicGet::ID => 1,
            _ => METHOD_STEPS,
        });
    }

    /// Note that a message is published.
    #[inline]
    pub fn note_publish(&mut self) {
        self.method = BasicPublish::ID;
    }

    /// The method that was carried out last, which takes most of a call that takes long.
    pub fn method(&self) -> MethodId {
        self.method
    }

    /// Whether the budget is used up.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Carry out the current frame in the connection's next turn: in this one it has had no effect.
    pub fn repeat_frame(&mut self) {
        self.repeats = true;
    }

    /// Whether the current frame is carried out in the next turn.
    #[inline]
    pub fn takes_repeat(&mut self) -> bool {
        std::mem::take(&mut self.repeats)
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

//! Turns: limits the work that one connection may do before others get their turn.
//!
//! Work is counted in steps of about a quarter of a microsecond: an entry of a queue is one, a binding is
//! [`METHOD_STEPS`]. When the budget of a turn ([`BrokerOptions::turn_budget`](crate::broker::BrokerOptions)) is used
//! up, the connection is read no further, and its remaining bytes wait in its `input` until [`Broker::work`] gives it
//! another turn, one connection at a time. A frame that has begun is always finished, so that a turn exceeds its budget by
//! at most one frame: a commit, or a message to very many queues. Settling very many deliveries takes several turns.

use crate::broker::Broker;
use crate::broker::ids::{ConnectionSlot, Handle};

impl Broker {
    /// End the turn of a connection before its input is used up: it goes on in [`Broker::work`].
    pub(crate) fn suspend(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        connection.is_suspended = true;
        if !connection.is_resting {
            connection.is_resting = true;
            self.turn.resting.push_back(Handle { id: slot, serial: connection.serial });
        }
        self.clients.touch(slot);
    }

    /// Give the next waiting connection its turn.
    pub(crate) fn next_turn(&mut self) {
        while let Some(handle) = self.turn.resting.pop_front() {
            let Some(connection) = self.clients.connection_of(handle) else { continue };
            connection.is_resting = false;
            // While it was not read, it could not be heard.
            connection.heard = self.clock.now();
            if !self.go_on_settling(handle.id) {
                return self.suspend(handle.id);
            }
            return self.resume(handle.id);
        }
    }
}

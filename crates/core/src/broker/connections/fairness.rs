//! Turns: a read of one connection may ask for more than anybody else should have to wait for.
//!
//! What frames ask for is counted in units of a quarter of a microsecond or so: an entry of a queue is one, a binding
//! some [`METHOD_UNITS`]. When [`BrokerOptions::turn_units_max`](crate::broker::BrokerOptions) are used up, the rest of what the connection
//! sent waits in its `input`, it is not read, and it goes on in [`Broker::work`], one connection at a time. A frame that
//! has begun is always finished, so a turn is longer by one at the most: a commit, or a message to very many queues.

use crate::amqp::MethodId;
use crate::amqp::method::{BasicAck, BasicGet, BasicNack, BasicReject};

use crate::broker::Broker;
use crate::broker::ids::{ConnectionSlot, Handle};

/// What a method takes that is neither a message nor settles one: making a binding takes about 5 us.
const METHOD_UNITS: u32 = 16;

/// What a method takes.
fn units(method: MethodId) -> u32 {
    match method {
        BasicAck::ID | BasicNack::ID | BasicReject::ID | BasicGet::ID => 1,
        _ => METHOD_UNITS,
    }
}

impl Broker {
    /// Count so much of the turn as used.
    #[inline]
    pub(crate) fn spend(&mut self, units: u32) {
        self.turn_left = self.turn_left.saturating_sub(units);
    }

    /// Count a method.
    #[inline]
    pub(crate) fn spend_method(&mut self, method: MethodId) {
        self.spend(units(method));
    }

    /// The turn of a connection is over before its input is: it goes on in [`Broker::work`].
    pub(crate) fn rest(&mut self, number: ConnectionSlot) {
        let connection = &mut self.connections[number];
        connection.is_suspended = true;
        if !connection.is_resting {
            connection.is_resting = true;
            self.resting.push_back(Handle { id: number, serial: connection.serial });
        }
        self.touch(number);
    }

    /// The next connection whose turn was over goes on.
    pub(crate) fn next_turn(&mut self) {
        while let Some(Handle { id: number, serial }) = self.resting.pop_front() {
            let now = self.now;
            let Some(connection) = self.connections.get_mut(number).filter(|it| it.serial == serial) else { continue };
            connection.is_resting = false;
            // Whoever was not read could not be heard.
            connection.heard = now;
            return self.resume(number);
        }
    }
}

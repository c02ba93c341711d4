//! Turns: limits the work that one connection may do before others get their turn.
//!
//! Work is counted in steps of about a quarter of a microsecond: an entry of a queue is one, a binding is
//! [`METHOD_STEPS`]. When the budget of a turn ([`BrokerOptions::turn_budget`](crate::broker::BrokerOptions)) is used
//! up, the connection is read no further, and its remaining bytes wait in its `input` until [`Broker::work`] gives it
//! another turn, one connection at a time. A frame that has begun is always finished, so that a turn exceeds its budget by
//! at most one frame: a binding with a large query, or a message to very many queues. A commit, and settling very many
//! deliveries, take several turns. What follows from frames, such as deliveries, has turns of its own.
//!
//! Steps can take longer than they should: when memory has to be fetched, or the disk. With a stopwatch
//! ([`Broker::measure_turns`]) they count as what they take.
//!
//! All turns between two calls of [`Broker::work`] are a round. When the caller hands over the bytes of many connections
//! one after the other, each of them may take its turn, and all together take long: beyond [`TURNS_A_ROUND`] whole turns,
//! the others are short. Small requests are still done at once; the others wait for [`Broker::work`], which the caller makes
//! after it has looked after its sockets.
//!
//! Dead letters, and entries that are dropped or go to disk, are side work, which every call goes on with for a time. While a
//! client waits for its answer, all calls of a round share that time.

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::ids::{ConnectionId, ConnectionSlot};

/// A body of which at least so much is still to come is read in pieces.
const LARGE_BYTES: usize = 64 * 1024;

impl Broker {
    /// Whether a connection is to be read in small pieces: it sends the rest of a large body, and a client waits for its
    /// answer.
    #[must_use]
    pub fn wants_pieces(&self, id: ConnectionId) -> bool {
        self.turn.is_attentive() && self.clients.find(id).is_some_and(|slot| self.missing_bytes(slot) >= LARGE_BYTES)
    }

    /// The bytes that are missing of the message whose body the last read ended in.
    fn missing_bytes(&self, slot: ConnectionSlot) -> usize {
        let connection = &self.clients[slot];
        let channel = connection.cut_body.and_then(|cut| connection.channel(cut.channel));
        let incoming = channel.and_then(|channel| self.clients[channel].incoming.as_ref());
        incoming.map_or(0, |incoming| incoming.missing())
    }

    /// Let turns end in time, also when what they do takes longer than usual.
    ///
    /// `stopwatch` returns the microseconds since any moment. Without one, turns are counted in steps alone, as in a
    /// simulation, where the same calls always have the same effect.
    pub fn measure_turns(&mut self, stopwatch: fn() -> Micros) {
        self.turn.measure_by(stopwatch);
    }

    /// End the turn of a connection before its input is used up: it goes on in [`Broker::work`].
    pub(crate) fn suspend(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        connection.is_suspended = true;
        if !connection.is_resting {
            connection.is_resting = true;
            self.turn.resting.push_back(connection.handle(slot));
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

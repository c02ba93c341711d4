//! Bytes out: hands the output of connections to the caller, and resumes what waited for room.

use crate::amqp::{AmqpError, Method};

use crate::broker::Broker;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot};

/// The minimum size of output that is handed over in its own buffer. Less is copied, so that small connections do not
/// end up with the buffers of large ones.
const SWAP_BYTES_MIN: usize = 32 * 1024;

/// Whether a connection goes on after [`Broker::output`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The connection goes on.
    Open,
    /// The connection is over: write what you have, then close the socket. Its id is unknown from now on.
    Ended,
}

impl Broker {
    /// Move all connections that have something to write, or have ended, to the end of `connections`, each once.
    pub fn take_dirty(&mut self, connections: &mut Vec<ConnectionId>) {
        self.clients.take_dirty(connections);
    }

    /// Append what is to be written, at most
    /// [`output_bytes_at_once`](crate::broker::BrokerOptions::output_bytes_at_once): when there is more, the connection
    /// is dirty again. Call it when the socket takes bytes; what is not taken stops this connection's consumers.
    pub fn output(&mut self, id: ConnectionId, bytes: &mut Vec<u8>) -> Flow {
        let Some(slot) = self.clients.find(id) else { return Flow::Ended };
        let at_once = self.options.output_bytes_at_once;
        let connection = &mut self.clients[slot];
        let count = connection.out.len().min(at_once);
        if count >= SWAP_BYTES_MIN && count == connection.out.len() && bytes.is_empty() {
            std::mem::swap(bytes, &mut connection.out);
        } else {
            bytes.extend_from_slice(&connection.out[..count]);
            connection.out.drain(..count);
        }
        connection.bytes_out += count as u64;
        self.metrics.bytes_out += count as u64;
        if count > 0 {
            connection.said = self.clock.now();
        }
        if !connection.out.is_empty() {
            self.clients.touch(slot);
        } else if connection.state == ConnectionState::Ended {
            self.remove_connection(slot);
            self.finish();
            return Flow::Ended;
        }
        if self.clients[slot].is_congested || self.clients[slot].is_suspended {
            self.relieve(slot);
        }
        Flow::Open
    }

    /// Resume consumers and frames that waited, since there is room to write again.
    fn relieve(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        if connection.out.len() * 2 > self.options.output_bytes_max {
            return;
        }
        connection.is_congested = false;
        self.wake_connection(slot);
        self.resume(slot);
        self.finish();
    }

    /// Whether the socket takes bytes. While it does not, nothing is delivered to this connection.
    pub fn set_writable(&mut self, id: ConnectionId, is_writable: bool) {
        let Some(slot) = self.clients.find(id) else { return };
        self.clients[slot].is_writable = is_writable;
        if is_writable {
            self.wake_connection(slot);
            self.finish();
        }
    }

    /// Whether bytes from this connection are worth reading now. When this is false, stop reading its socket until it is
    /// true again; the connection becomes dirty when that changes. What is handed over in between is kept, not answered.
    #[must_use]
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.clients.find(id).is_some_and(|slot| self.clients[slot].wants_input())
    }

    /// Answer on a channel, after the answers that are still held back there.
    pub(crate) fn reply(&mut self, slot: ChannelSlot, method: Method<'_>) -> Result<(), AmqpError> {
        let marks = self.take_promised();
        if marks.is_empty() {
            self.clients.answer_in_order(slot, method);
            return Ok(());
        }
        let channel = &mut self.clients[slot];
        let mut bytes = Vec::new();
        method.encode(channel.number, &mut bytes);
        channel.held.push_back((marks, bytes));
        self.await_disk(slot);
        Ok(())
    }
}

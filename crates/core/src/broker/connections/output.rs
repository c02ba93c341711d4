//! Bytes out: hands the output of connections to the caller, and resumes what waited for room.

use crate::amqp::{AmqpError, Method};

use crate::broker::Broker;
use crate::broker::connections::output_buffer::CROWDED_BYTES;
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot};
use crate::broker::publishing::confirms::DiskMarks;

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
        bytes.reserve(self.output_len(id));
        self.hand_over(id, &mut |piece| bytes.extend_from_slice(piece))
    }

    /// The number of bytes that [`Broker::hand_over`] puts now.
    #[must_use]
    pub fn output_len(&self, id: ConnectionId) -> usize {
        self.clients.find(id).map_or(0, |slot| self.clients[slot].out.next_len(self.options.output_bytes_at_once))
    }

    /// Call `put` with what [`Broker::output`] would append, piece by piece, each in its place: the bodies of large messages
    /// are not copied before.
    pub fn hand_over(&mut self, id: ConnectionId, put: &mut dyn FnMut(&[u8])) -> Flow {
        let Some(slot) = self.clients.find(id) else { return Flow::Ended };
        let count = self.output_len(id);
        if let Some(finished) = self.clients[slot].out.hand_over(self.options.output_bytes_at_once, put) {
            self.messages.offer_spare(finished);
        }
        self.note_handed_over(slot, count)
    }

    fn note_handed_over(&mut self, slot: ConnectionSlot, count: usize) -> Flow {
        let connection = &mut self.clients[slot];
        connection.bytes_out += count as u64;
        self.metrics.bytes_out += count as u64;
        if count > 0 {
            connection.said = self.clock.now();
            connection.handed_over = count;
        }
        if self.are_crowded(self.clients.buffer_bytes()) && self.clients[slot].out.capacity() > CROWDED_BYTES {
            // Others wait for it.
            self.clients[slot].out.trim();
        }
        self.clients.count_buffers(slot);
        let connection = &mut self.clients[slot];
        if !connection.out.is_empty() {
            self.clients.touch(slot);
        } else if connection.has_ended() {
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
        if connection.waiting_bytes() * 2 > self.options.output_bytes_max {
            return;
        }
        connection.is_congested = false;
        if connection.is_suspended {
            // While it was not read, it could not be heard.
            connection.heard = self.clock.now();
        }
        self.wake_connection(slot);
        self.resume(slot);
        self.finish();
    }

    /// Whether the socket takes bytes. While it does not, nothing is delivered to this connection.
    pub fn set_writable(&mut self, id: ConnectionId, is_writable: bool) {
        let Some(slot) = self.clients.find(id) else { return };
        self.clients[slot].is_writable = is_writable;
        self.clients.count_buffers(slot);
        if is_writable {
            self.wake_connection(slot);
            self.finish();
        }
    }

    /// Whether the connection is over and nothing is left to be written. Such a connection is told by
    /// [`Broker::output`] even if its socket takes no bytes.
    #[must_use]
    pub fn is_over(&self, id: ConnectionId) -> bool {
        self.clients.find(id).is_some_and(|slot| self.clients[slot].is_over())
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
        let mut bytes = Vec::new();
        method.encode(self.clients[slot].number, &mut bytes);
        self.hold_back(slot, marks, bytes);
        Ok(())
    }

    /// Let a channel wait as if the current method had an answer: nothing is delivered on it before.
    pub(crate) fn hold_promised(&mut self, slot: ChannelSlot) {
        let marks = self.take_promised();
        if !marks.is_empty() {
            self.hold_back(slot, marks, Vec::new());
        }
    }

    fn hold_back(&mut self, slot: ChannelSlot, marks: DiskMarks, bytes: Vec<u8>) {
        let connection = self.clients[slot].connection;
        self.clients[connection].held_answer_bytes += bytes.len();
        self.clients[slot].held.push_back((marks, bytes));
        self.await_disk(slot);
    }
}

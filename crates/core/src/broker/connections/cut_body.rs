//! Body frames that are cut by the end of a read: their bytes go to the message as they come, and are not copied twice.

use crate::amqp::frame::{FRAME_END, FRAME_HEADER_BYTES, FrameError};
use crate::amqp::{AmqpError, Frame, FrameKind};

use crate::broker::Broker;
use crate::broker::connections::channel::ChannelState;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::connections::content::CutBody;
use crate::broker::ids::{ChannelSlot, ConnectionSlot};

impl Broker {
    /// Take the beginning of a body frame that `bytes` do not complete. Returns the number of bytes used: all, or none if they
    /// are something else.
    pub(super) fn begin_cut_body(&mut self, slot: ConnectionSlot, bytes: &[u8]) -> usize {
        const BODY: u8 = FrameKind::Body as u8;
        let Some((&[BODY, c1, c0, s3, s2, s1, s0], payload)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return 0;
        };
        let (number, size) = (u16::from_be_bytes([c1, c0]), u32::from_be_bytes([s3, s2, s1, s0]) as usize);
        let frame = Frame { kind: FrameKind::Body, channel: number, payload: &[] };
        if self.clients[slot].state != ConnectionState::Open || self.must_wait(slot, &frame) {
            return 0;
        }
        let Some(channel) = self.clients[slot].channel(number) else { return 0 };
        let is_announced = |channel: ChannelSlot| {
            let incoming = self.clients[channel].incoming.as_ref();
            incoming.is_some_and(|incoming| size <= incoming.missing())
        };
        if self.clients[channel].state != ChannelState::Body || !is_announced(channel) {
            return 0;
        }
        self.clients[slot].cut_body = Some(CutBody { channel: number, missing: size });
        FRAME_HEADER_BYTES + self.continue_cut_body(slot, payload)
    }

    /// Take what comes of a body frame whose beginning was taken. Returns the number of bytes used.
    pub(super) fn continue_cut_body(&mut self, slot: ConnectionSlot, bytes: &[u8]) -> usize {
        let Some(CutBody { channel, missing }) = self.clients[slot].cut_body else { return 0 };
        let (piece, remaining) = bytes.split_at(missing.min(bytes.len()));
        let is_complete = self.add_to_message(slot, channel, piece);
        let missing = missing - piece.len();
        let (0, Some(end)) = (missing, remaining.first()) else {
            self.clients[slot].cut_body = Some(CutBody { channel, missing });
            return bytes.len();
        };
        self.clients[slot].cut_body = None;
        self.turn.spend(1);
        if *end != FRAME_END {
            self.end_at_bad_frame(slot, FrameError::NoEnd(*end));
            return bytes.len();
        }
        if is_complete && let Err(error) = self.publish_complete(slot, channel) {
            self.refuse(slot, channel, error);
        }
        piece.len() + 1
    }

    /// Add bytes to the message that arrives on a channel. Returns whether it is complete. A channel that was closed in the
    /// meantime drops them.
    fn add_to_message(&mut self, slot: ConnectionSlot, number: u16, piece: &[u8]) -> bool {
        let Some(channel) = self.clients[slot].channel(number) else { return false };
        let it = &mut self.clients[channel];
        let (ChannelState::Body, Some(incoming)) = (it.state, it.incoming.as_mut()) else { return false };
        // More than was announced was refused when the frame began.
        let is_complete = incoming.body(piece).unwrap_or(false);
        self.backpressure.count_unfinished(it);
        is_complete
    }

    fn publish_complete(&mut self, slot: ConnectionSlot, number: u16) -> Result<(), AmqpError> {
        let Some(channel) = self.clients[slot].channel(number) else { return Ok(()) };
        match self.clients[channel].incoming.take() {
            Some(incoming) => self.publish_collected(channel, *incoming),
            None => Ok(()),
        }
    }
}

//! Bytes in: cuts reads into frames without copying, and passes each frame to its channel.
//!
//! A frame that is cut by the end of a read waits in the connection's `input`, and only that frame is copied. What there is
//! of a body goes to its message at once (`cut_body.rs`). When a connection has too much to write, publishes while memory
//! is short, or has had its turn (`fairness.rs`), the remaining bytes that it sent wait there too.

use crate::amqp::frame::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FrameError};
use crate::amqp::method::{ChannelClose, ChannelCloseOk};
use crate::amqp::{AmqpError, Frame, FrameKind, Method, MethodId, ReplyCode, next_frame};

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::connections::channel::{ChannelState, Input, Step, step, unexpected};
use crate::broker::connections::connection::ConnectionState;
use crate::broker::connections::content::{Incoming, Publish, check_size, is_publish, whole_content};
use crate::broker::connections::input_buffer::InputBuffer;
use crate::broker::errors::FailedAt;
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot};
use crate::broker::parts::{Arrived, Parts};

impl Broker {
    /// Process a whole read of a connection's socket. Any error in it becomes a close in the output.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Micros) {
        self.clock.advance(now);
        let Some(slot) = self.clients.find(id) else { return };
        self.metrics.bytes_in += bytes.len() as u64;
        let connection = &mut self.clients[slot];
        connection.bytes_in += bytes.len() as u64;
        connection.heard = self.clock.now();
        if !connection.wants_input() {
            if !connection.has_ended() {
                connection.input.append(bytes);
                connection.is_suspended = true;
            }
            self.clients.count_buffers(slot);
            return;
        }
        let remaining = self.complete_frame(slot, bytes);
        let used = self.process(slot, remaining);
        if let Some(connection) = self.clients.connection_in(slot)
            && !connection.has_ended()
        {
            connection.input.append(&remaining[used..]);
            self.turn.end_read(&mut connection.small_reads);
        }
        self.clients.count_buffers(slot);
        self.finish();
    }

    /// Go on with frames that waited, if nothing stops them now.
    pub(crate) fn resume(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        let is_free = !connection.is_blocked && !connection.is_resting && !connection.is_held;
        if connection.is_suspended && is_free && connection.waiting_bytes() < self.options.output_bytes_max {
            connection.is_suspended = false;
            self.clients.touch(slot);
            let input = std::mem::take(&mut self.clients[slot].input);
            self.process_input(slot, input);
        }
    }

    /// Let the next frame of a connection wait for something else than its turn, until it is released.
    pub(crate) fn hold(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        (connection.is_held, connection.is_suspended) = (true, true);
        self.clients.touch(slot);
    }

    /// Let the next frame of a connection wait for a tick: what it waits for ends without a word.
    pub(crate) fn hold_until_tick(&mut self, slot: ConnectionSlot) {
        self.hold(slot);
        self.clients.await_tick(slot);
    }

    /// Try the frames again that have waited for this tick.
    pub(crate) fn try_held_frames(&mut self) {
        self.clients.take_awaiting_tick().into_iter().for_each(|handle| self.release(handle.id));
    }

    /// Go on with the frames of a connection, if the next one was held.
    pub(crate) fn release(&mut self, slot: ConnectionSlot) {
        let connection = &mut self.clients[slot];
        if std::mem::take(&mut connection.is_held) {
            // While it was not read, it could not be heard.
            connection.heard = self.clock.now();
            self.resume(slot);
        }
    }

    /// Complete the frame that the last read ended in, and process it. Returns the remaining bytes.
    fn complete_frame<'a>(&mut self, slot: ConnectionSlot, mut bytes: &'a [u8]) -> &'a [u8] {
        let connection = &mut self.clients[slot];
        if connection.input.is_empty() {
            return bytes;
        }
        let mut input = std::mem::take(&mut connection.input);
        for wanted in [|_: &[u8]| FRAME_HEADER_BYTES, frame_bytes] {
            let missing = wanted(input.waiting()).saturating_sub(input.waiting().len()).min(bytes.len());
            // The size that a frame announces is checked against the limit before the frame is waited for.
            let (piece, remaining) = bytes.split_at(missing.min(connection.frame_max as usize + FRAME_OVERHEAD_BYTES));
            input.append(piece);
            bytes = remaining;
        }
        self.process_input(slot, input);
        if self.clients[slot].wants_input() {
            return bytes;
        }
        self.clients[slot].input.append(bytes);
        &[]
    }

    /// Process the frames that have waited. What has to wait further is the connection's input again.
    fn process_input(&mut self, slot: ConnectionSlot, mut input: InputBuffer) {
        let used = self.process(slot, input.waiting());
        input.take(used);
        self.clients[slot].input = input;
    }

    /// Process complete frames. Returns how many bytes were used; the others are the beginning of a frame, or wait.
    fn process(&mut self, slot: ConnectionSlot, bytes: &[u8]) -> usize {
        let mut at = self.continue_cut_body(slot, bytes);
        loop {
            let connection = &mut self.clients[slot];
            if connection.has_ended() {
                return bytes.len();
            }
            let is_full = connection.waiting_bytes() >= self.options.output_bytes_max;
            if connection.is_blocked || connection.is_resting || is_full {
                connection.is_suspended = true;
                self.clients.touch(slot);
                return at;
            }
            if self.turn.is_over() && at < bytes.len() {
                // The remaining bytes may not be a complete frame; the next turn finds that out.
                self.suspend(slot);
                return at;
            }
            let frame_max = connection.frame_max as usize;
            match next_frame(&bytes[at..], frame_max) {
                Ok(None) => return at + self.begin_cut_body(slot, &bytes[at..]),
                Ok(Some((frame, _))) if self.must_wait(slot, &frame) => {
                    self.hold(slot);
                    return at;
                }
                Ok(Some((frame, used))) => {
                    at += used;
                    self.turn.spend(1);
                    if frame.kind == FrameKind::Method && is_publish(frame.payload) {
                        at += self.take_publish(slot, &frame, &bytes[at..]);
                    } else if let Err(error) = self.take_frame(slot, &frame) {
                        self.refuse(slot, frame.channel, error);
                    } else if self.turn.takes_repeat() {
                        if !self.clients[slot].is_held {
                            self.suspend(slot);
                        }
                        return at - used;
                    }
                }
                Err(error) => {
                    self.end_at_bad_frame(slot, error);
                    return bytes.len();
                }
            }
        }
    }

    /// End a connection whose bytes are no frame: nobody knows where the next one begins.
    pub(super) fn end_at_bad_frame(&mut self, slot: ConnectionSlot, error: FrameError) {
        self.refuse(slot, 0, error.into());
        self.clients[slot].end(self.clock.now());
    }

    /// Process a basic.publish, with its content if all of it follows. Returns the number of bytes used of `remaining`.
    #[inline]
    fn take_publish(&mut self, slot: ConnectionSlot, frame: &Frame<'_>, remaining: &[u8]) -> usize {
        let connection = &self.clients[slot];
        let frame_max = connection.frame_max as usize;
        if connection.state == ConnectionState::Open
            && let Some(channel) = connection.channel(frame.channel)
            && self.clients[channel].state == ChannelState::Open
            && let Some(content) = whole_content(remaining, frame.channel, frame_max)
        {
            let result = self.publish_whole(channel, frame.payload, content.properties, content.body);
            if let Err(error) = result {
                self.refuse(slot, frame.channel, error);
            }
            return content.used;
        }
        if let Err(error) = self.take_frame(slot, frame) {
            self.refuse(slot, frame.channel, error);
        }
        0
    }

    #[inline]
    fn publish_whole(
        &mut self,
        channel: ChannelSlot,
        payload: &[u8],
        properties: &[u8],
        body: &[u8],
    ) -> Result<(), AmqpError> {
        let publish = Publish::decode(payload).map_err(|error| error.at(MethodId::of_payload(payload)))?;
        check_size(body.len(), self.options.message_bytes_max)?;
        let parts = Parts { route: publish.route, properties, body };
        self.publish(channel, &mut Arrived::Borrowed(parts), publish.flags)
    }

    /// Process one frame of any kind.
    fn take_frame(&mut self, slot: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        if let ConnectionState::Closing(_) = self.clients[slot].state {
            return self.take_while_closing(slot, frame);
        }
        if frame.kind == FrameKind::Heartbeat {
            return Ok(());
        }
        if frame.channel == 0 {
            return match frame.kind {
                FrameKind::Method => self.connection_method(slot, frame.payload),
                _ => Err(AmqpError::new(ReplyCode::UnexpectedFrame, "content on channel 0", MethodId::NONE)),
            };
        }
        match self.clients[slot].channel(frame.channel) {
            Some(channel) => self.take_on_channel(slot, channel, frame),
            None => self.take_on_unopened(slot, frame),
        }
    }

    /// Process a frame between our connection.close and the client's close-ok: all others were sent before the client knew.
    fn take_while_closing(&mut self, slot: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        if frame.channel == 0 && frame.kind == FrameKind::Method {
            match Method::decode(frame.payload) {
                Ok(Method::ConnectionCloseOk(_)) => self.end_connection(slot),
                Ok(Method::ConnectionClose(_)) => {
                    self.clients.answer(slot, 0, crate::amqp::method::ConnectionCloseOk {}.into());
                    self.end_connection(slot);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_on_unopened(&mut self, slot: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        let id = MethodId::of_payload(frame.payload);
        let method = match frame.kind {
            FrameKind::Method => Method::decode(frame.payload).map_err(|error| error.at(id))?,
            _ => {
                return Err(AmqpError::new(
                    ReplyCode::ChannelError,
                    "content on a channel that is not open",
                    MethodId::NONE,
                ));
            }
        };
        match method {
            Method::ChannelOpen(_) => self.open_channel(slot, frame.channel),
            // Both sides closed the channel at the same time.
            Method::ChannelCloseOk(_) => Ok(()),
            _ => Err(AmqpError::new(ReplyCode::ChannelError, "expected 'channel.open'", id)),
        }
    }

    fn take_on_channel(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelSlot,
        frame: &Frame<'_>,
    ) -> Result<(), AmqpError> {
        let id = if frame.kind == FrameKind::Method { MethodId::of_payload(frame.payload) } else { MethodId::NONE };
        let input = match frame.kind {
            FrameKind::Header => Input::Header,
            FrameKind::Body => Input::Body,
            _ if id == ChannelClose::ID => Input::Close,
            _ if id == ChannelCloseOk::ID => Input::CloseOk,
            _ if is_publish(frame.payload) => Input::Publish,
            _ => Input::Method,
        };
        let state = self.clients[channel].state;
        match (step(state, input), input) {
            (Step::Take, Input::Publish) => self.begin_content(channel, frame.payload),
            (Step::Take, Input::Header | Input::Body) => self.go_on_with_content(channel, frame),
            (Step::Take, _) => {
                let method = Method::decode(frame.payload).map_err(|error| error.at(id))?;
                self.turn.spend_method(id);
                self.publishing.begin_method();
                self.channel_method(slot, channel, &method).map_err(|error| error.failed_at(id))
            }
            (Step::Drop, _) => Ok(()),
            (Step::Close, _) => {
                self.remove_channel(channel);
                if input == Input::Close {
                    self.clients.answer(slot, frame.channel, ChannelCloseOk {}.into());
                }
                Ok(())
            }
            (Step::Invalid, _) => Err(AmqpError::new(ReplyCode::CommandInvalid, "no close to answer", id)),
            (Step::Unexpected, _) => Err(AmqpError::new(ReplyCode::UnexpectedFrame, unexpected(state, frame.kind), id)),
        }
    }

    fn begin_content(&mut self, channel: ChannelSlot, payload: &[u8]) -> Result<(), AmqpError> {
        let publish = Publish::decode(payload).map_err(|error| error.at(MethodId::of_payload(payload)))?;
        let channel = &mut self.clients[channel];
        channel.incoming = Some(Box::new(Incoming::new(&publish)));
        channel.state = ChannelState::Header;
        // Incomplete messages take memory too.
        let connection = channel.connection;
        self.backpressure.note_publisher(&mut self.clients, connection);
        Ok(())
    }

    fn go_on_with_content(&mut self, channel: ChannelSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        let it = &mut self.clients[channel];
        let Some(mut incoming) = it.incoming.take() else { return Ok(()) };
        let is_complete = match it.state {
            ChannelState::Header => {
                let is_complete = incoming.header(frame, self.options.message_bytes_max)?;
                if let Some(room) = self.messages.take_spare(incoming.size()) {
                    incoming.move_into(room);
                }
                is_complete
            }
            _ => incoming.body(frame.payload)?,
        };
        if is_complete {
            return self.publish_collected(channel, *incoming);
        }
        it.state = ChannelState::Body;
        it.incoming = Some(incoming);
        self.backpressure.count_unfinished(&mut self.clients[channel]);
        Ok(())
    }

    /// Publish a message whose parts are all there.
    pub(super) fn publish_collected(&mut self, channel: ChannelSlot, incoming: Incoming) -> Result<(), AmqpError> {
        let it = &mut self.clients[channel];
        it.state = ChannelState::Open;
        self.backpressure.count_unfinished(it);
        self.publish(channel, &mut Arrived::Joined(incoming.joined), incoming.flags)
    }
}

/// The size of the frame that `input` begins with, once its header is there.
fn frame_bytes(input: &[u8]) -> usize {
    match input {
        [_, _, _, s3, s2, s1, s0, ..] => u32::from_be_bytes([*s3, *s2, *s1, *s0]) as usize + FRAME_OVERHEAD_BYTES,
        _ => 0,
    }
}

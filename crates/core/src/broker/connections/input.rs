//! Bytes in: cut into frames where they lie, and each frame brought to its channel.
//!
//! A frame that is cut by the end of a read waits in the connection's `input`, and only that frame is copied. When a
//! connection has too much to write, publishes while memory is short, or has had its turn (`turns.rs`), the rest of what
//! it sent waits there too.

use crate::amqp::frame::{FRAME_HEADER_BYTES, FRAME_OVERHEAD_BYTES};
use crate::amqp::method::{ChannelClose, ChannelCloseOk, ConnectionClose};
use crate::amqp::{AmqpError, Frame, FrameKind, Method, MethodId, ReplyCode, Scope, next_frame};

use crate::broker::Broker;
use crate::broker::connections::channel::{ChannelState, Input, Step, step, unexpected};
use crate::broker::connections::connection::ConnectionState;
use crate::broker::connections::content::{Incoming, Publish, check_size, is_publish, whole_content};
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot};
use crate::broker::management::event::Event;
use crate::broker::queues::message_store::{Micros, Parts};

impl Broker {
    /// Take a whole read of a connection's socket. Anything wrong in it becomes a close in the output.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Micros) {
        self.advance(now);
        let Some(number) = self.find(id) else { return };
        self.metrics.bytes_in += bytes.len() as u64;
        let connection = &mut self.connections[number];
        connection.bytes_in += bytes.len() as u64;
        connection.heard = self.now;
        if !connection.wants_input() {
            if connection.life != ConnectionState::Ended {
                connection.input.extend_from_slice(bytes);
                connection.is_suspended = true;
            }
            return;
        }
        let rest = self.complete_frame(number, bytes);
        let used = self.process(number, rest);
        if let Some(connection) = self.connections.get_mut(number)
            && connection.life != ConnectionState::Ended
        {
            connection.input.extend_from_slice(&rest[used..]);
        }
        self.finish();
    }

    /// Go on with frames that waited, if nothing stops them now.
    pub(crate) fn resume(&mut self, number: ConnectionSlot) {
        let connection = &mut self.connections[number];
        let is_free = !connection.is_blocked && !connection.is_resting;
        if connection.is_suspended && is_free && connection.out.len() < self.options.output_bytes_max {
            connection.is_suspended = false;
            self.touch(number);
            let input = std::mem::take(&mut self.connections[number].input);
            let used = self.process(number, &input);
            self.connections[number].input = input[used..].to_vec();
        }
    }

    /// Complete the frame that the last read was cut in, and process it. Returns what is left of `bytes`.
    fn complete_frame<'a>(&mut self, number: ConnectionSlot, mut bytes: &'a [u8]) -> &'a [u8] {
        let connection = &mut self.connections[number];
        if connection.input.is_empty() {
            return bytes;
        }
        let mut input = std::mem::take(&mut connection.input);
        for wanted in [Self::head_bytes, Self::frame_bytes] {
            let missing = wanted(&input).saturating_sub(input.len()).min(bytes.len());
            // What a frame claims to take is checked against the limit before it is waited for.
            let (piece, rest) = bytes.split_at(missing.min(connection.frame_max as usize + FRAME_OVERHEAD_BYTES));
            input.extend_from_slice(piece);
            bytes = rest;
        }
        let used = self.process(number, &input);
        input.drain(..used);
        self.connections[number].input = input;
        if self.connections[number].wants_input() {
            return bytes;
        }
        self.connections[number].input.extend_from_slice(bytes);
        &[]
    }

    fn head_bytes(_: &[u8]) -> usize {
        FRAME_HEADER_BYTES
    }

    fn frame_bytes(input: &[u8]) -> usize {
        match input {
            [_, _, _, s3, s2, s1, s0, ..] => u32::from_be_bytes([*s3, *s2, *s1, *s0]) as usize + FRAME_OVERHEAD_BYTES,
            _ => 0,
        }
    }

    /// Process whole frames. Returns how many bytes were used; what is left is the beginning of a frame, or waits.
    fn process(&mut self, number: ConnectionSlot, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let connection = &mut self.connections[number];
            if connection.life == ConnectionState::Ended {
                return bytes.len();
            }
            if connection.is_blocked || connection.out.len() >= self.options.output_bytes_max {
                connection.is_suspended = true;
                self.touch(number);
                return at;
            }
            if self.turn_left == 0 && at < bytes.len() {
                // What is left may be no whole frame; then the next turn finds that out.
                self.rest(number);
                return at;
            }
            let frame_max = connection.frame_max as usize;
            match next_frame(&bytes[at..], frame_max) {
                Ok(None) => return at,
                Ok(Some((frame, used))) => {
                    at += used;
                    self.spend(1);
                    if frame.kind == FrameKind::Method && is_publish(frame.payload) {
                        at += self.take_publish(number, &frame, &bytes[at..]);
                    } else if let Err(error) = self.take_frame(number, &frame) {
                        self.refuse(number, frame.channel, error);
                    }
                }
                Err(error) => {
                    self.refuse(number, 0, error.into());
                    // Where the next frame begins nobody knows.
                    self.connections[number].life = ConnectionState::Ended;
                    return bytes.len();
                }
            }
        }
    }

    /// A basic.publish, with its content when that lies whole behind it. Returns how much of `rest` that took.
    #[inline]
    fn take_publish(&mut self, number: ConnectionSlot, frame: &Frame<'_>, rest: &[u8]) -> usize {
        let connection = &self.connections[number];
        let frame_max = connection.frame_max as usize;
        if connection.life == ConnectionState::Open
            && let Some(channel) = connection.channel(frame.channel)
            && self.channels[channel].state == ChannelState::Open
            && let Some(content) = whole_content(rest, frame.channel, frame_max)
        {
            let result = self.publish_whole(channel, frame.payload, content.properties, content.body);
            if let Err(error) = result {
                self.refuse(number, frame.channel, error);
            }
            return content.used;
        }
        if let Err(error) = self.take_frame(number, frame) {
            self.refuse(number, frame.channel, error);
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
        self.publish(channel, &Parts { route: publish.route, properties, body }, publish.flags)
    }

    /// One frame, whatever it is.
    fn take_frame(&mut self, number: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        if let ConnectionState::Closing(_) = self.connections[number].life {
            return self.take_while_closing(number, frame);
        }
        if frame.kind == FrameKind::Heartbeat {
            return Ok(());
        }
        if frame.channel == 0 {
            return match frame.kind {
                FrameKind::Method => self.connection_method(number, frame.payload),
                _ => Err(AmqpError::new(ReplyCode::UnexpectedFrame, "content on channel 0", MethodId::NONE)),
            };
        }
        match self.connections[number].channel(frame.channel) {
            Some(channel) => self.take_on_channel(number, channel, frame),
            None => self.take_on_unopened(number, frame),
        }
    }

    /// Between our connection.close and the client's close-ok everything else was sent too early to know.
    fn take_while_closing(&mut self, number: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        if frame.channel == 0 && frame.kind == FrameKind::Method {
            match Method::decode(frame.payload) {
                Ok(Method::ConnectionCloseOk(_)) => self.end(number),
                Ok(Method::ConnectionClose(_)) => {
                    self.answer(number, 0, crate::amqp::method::ConnectionCloseOk {}.into());
                    self.end(number);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_on_unopened(&mut self, number: ConnectionSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
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
            Method::ChannelOpen(_) => self.open_channel(number, frame.channel),
            // Both sides closed it at once.
            Method::ChannelCloseOk(_) => Ok(()),
            _ => Err(AmqpError::new(ReplyCode::ChannelError, "expected 'channel.open'", id)),
        }
    }

    fn take_on_channel(
        &mut self,
        number: ConnectionSlot,
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
        let state = self.channels[channel].state;
        match (step(state, input), input) {
            (Step::Take, Input::Publish) => self.begin_content(channel, frame.payload),
            (Step::Take, Input::Header | Input::Body) => self.go_on_with_content(channel, frame),
            (Step::Take, _) => {
                let method = Method::decode(frame.payload).map_err(|error| error.at(id))?;
                self.spend_method(id);
                // What earlier work has promised to others is no affair of this method's answer.
                self.promised.clear();
                self.channel_method(number, channel, &method).map_err(|error| at(error, id))
            }
            (Step::Drop, _) => Ok(()),
            (Step::Close, _) => {
                self.remove_channel(channel);
                if input == Input::Close {
                    self.answer(number, frame.channel, ChannelCloseOk {}.into());
                }
                Ok(())
            }
            (Step::Invalid, _) => Err(AmqpError::new(ReplyCode::CommandInvalid, "no close to answer", id)),
            (Step::Unexpected, _) => Err(AmqpError::new(ReplyCode::UnexpectedFrame, unexpected(state, frame.kind), id)),
        }
    }

    fn begin_content(&mut self, channel: ChannelSlot, payload: &[u8]) -> Result<(), AmqpError> {
        let publish = Publish::decode(payload).map_err(|error| error.at(MethodId::of_payload(payload)))?;
        let channel = &mut self.channels[channel];
        channel.incoming = Some(Box::new(Incoming::new(&publish)));
        channel.state = ChannelState::Header;
        // What is not whole yet takes memory too.
        let connection = channel.connection;
        self.note_publisher(connection);
        Ok(())
    }

    fn go_on_with_content(&mut self, channel: ChannelSlot, frame: &Frame<'_>) -> Result<(), AmqpError> {
        let it = &mut self.channels[channel];
        let Some(mut incoming) = it.incoming.take() else { return Ok(()) };
        let is_complete = match it.state {
            ChannelState::Header => incoming.header(frame, self.options.message_bytes_max)?,
            _ => incoming.body(frame)?,
        };
        if is_complete {
            it.state = ChannelState::Open;
            self.count_unfinished(channel);
            return self.publish(channel, &incoming.parts(), incoming.flags);
        }
        it.state = ChannelState::Body;
        it.incoming = Some(incoming);
        self.count_unfinished(channel);
        Ok(())
    }

    /// A client did something wrong: close its channel, or its connection.
    pub(crate) fn refuse(&mut self, number: ConnectionSlot, channel_number: u16, error: AmqpError) {
        self.metrics.errors += 1;
        let connection = ConnectionId::new(number, self.connections[number].serial);
        let channel = self.connections[number].channel(channel_number);
        match channel.filter(|_| error.scope == Scope::Channel) {
            Some(channel) => {
                self.empty_channel(channel);
                self.channels[channel].state = ChannelState::Closing;
                let close = ChannelClose {
                    reply_code: error.code.number(),
                    reply_text: &error.text,
                    class_id: error.method.class_id,
                    method_id: error.method.method_id,
                };
                self.answer(number, channel_number, close.into());
                self.events.push(Event::ChannelRefused { connection, channel: channel_number, error });
            }
            None => {
                self.close_connection(number, &error);
                self.events.push(Event::ConnectionRefused { connection, error });
            }
        }
    }

    /// Close a connection from our side; what is on its way from the client is dropped.
    pub(crate) fn close_connection(&mut self, number: ConnectionSlot, error: &AmqpError) {
        if self.connections[number].life != ConnectionState::Open {
            return;
        }
        let close = ConnectionClose {
            reply_code: error.code.number(),
            reply_text: &error.text,
            class_id: error.method.class_id,
            method_id: error.method.method_id,
        };
        self.answer(number, 0, close.into());
        self.connections[number].life = ConnectionState::Closing(self.now);
        self.empty_connection(number);
    }

    /// Nothing more comes; when all is written, the socket is to be closed.
    pub(crate) fn end(&mut self, number: ConnectionSlot) {
        self.empty_connection(number);
        let connection = &mut self.connections[number];
        connection.life = ConnectionState::Ended;
        connection.input = Vec::new();
        self.touch(number);
    }

    /// Write a method.
    pub(crate) fn answer(&mut self, number: ConnectionSlot, channel: u16, method: Method<'_>) {
        method.encode(channel, &mut self.connections[number].out);
        self.touch(number);
    }
}

/// The method that failed, where the error does not know it.
fn at(mut error: AmqpError, id: MethodId) -> AmqpError {
    if error.method == MethodId::NONE {
        error.method = id;
    }
    error
}

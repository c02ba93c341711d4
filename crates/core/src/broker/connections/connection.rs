//! A connection: its buffers, its limits, and whether it may be read and written.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::broker::clock::Micros;
use crate::broker::connections::content::CutBody;
use crate::broker::connections::input_buffer::InputBuffer;
use crate::broker::connections::output_buffer::OutputBuffer;
use crate::broker::consumers::settlement::Settle;
use crate::broker::ids::{ChannelSlot, ConnectionSlot, Handle, PrincipalSlot, Serial};
use crate::broker::options::BrokerOptions;
use crate::broker::topology::{QueueId, VhostId};

/// The user of a connection and what was agreed with the client, when the control plane hands the connection over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The vhost, which exists.
    pub vhost: String,
    /// Maximum size of a frame, as in connection.tune-ok; 0 is the broker's own limit.
    pub frame_max: u32,
    /// Maximum channel number; 0 is the broker's own limit.
    pub channel_max: u16,
    /// The heartbeat interval in seconds; 0 is none.
    pub heartbeat_s: u16,
    /// The client's address, for operators.
    pub peer: String,
    /// The name that the client gave itself, for operators.
    pub client_name: String,
    /// The address of its mailbox, which the control plane has checked; empty for none.
    pub identity: String,
    /// Capability `connection.blocked`: the client wants to be told when it is blocked.
    pub knows_blocked: bool,
    /// Capability `consumer_cancel_notify`: the client wants to be told when the queue of a consumer is deleted.
    pub knows_cancel: bool,
    /// basic.qos without `global` applies to all consumers of the channel, as in the specification, and not to each
    /// consumer that begins later, as in RabbitMQ.
    pub qos_is_for_channel: bool,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Open,
    /// We sent connection.close at this time, and drop what arrives until close-ok.
    Closing(Micros),
    /// Since this time nothing more is read; what is left in `out` is written, then the socket is closed.
    Ended(Micros),
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub serial: Serial,
    pub state: ConnectionState,
    pub principal: PrincipalSlot,
    pub vhost: VhostId,
    pub frame_max: u32,
    pub channel_max: u16,
    /// Half of the agreed heartbeat interval; 0 is none.
    pub heartbeat_us: Micros,
    /// Whether the caller can write to the socket.
    pub is_writable: bool,
    /// Whether consumers wait until `out` has been taken.
    pub is_congested: bool,
    /// Whether it has published during a shortage of memory or disk, and is read no further.
    pub is_blocked: bool,
    /// Whether the client was told that it is blocked.
    pub was_told_blocked: bool,
    /// Whether it has ever published.
    pub publishes: bool,
    /// Whether consumers took its last message at once, so that a shortage of memory need not stop it.
    pub passes: bool,
    /// A score from 0 to 32: one up for each message that consumers took at once, one down for each other.
    pub passed: u8,
    /// The number of its last reads in succession that have published a little.
    pub small_reads: u8,
    /// Whether it is in the broker's list of connections that have something to write or to say.
    pub is_dirty: bool,
    /// Whether frames in `input` wait for room in `out`, for the end of a shortage, or for the connection's next turn.
    pub is_suspended: bool,
    /// Whether the next frame in `input` waits: for the message or the transaction of its channel, or for files of a stream.
    pub is_held: bool,
    /// Whether the next frame in `input` waits for a tick.
    pub awaits_tick: bool,
    /// Whether frames in `input` wait for the connection's next turn, and for nothing else.
    pub is_resting: bool,
    pub knows_blocked: bool,
    pub knows_cancel: bool,
    pub qos_is_for_channel: bool,
    /// The last times that bytes were read and written.
    pub heard: Micros,
    pub said: Micros,
    /// Open channels by ascending number on the wire, with their slots.
    pub channels: Vec<(u16, ChannelSlot)>,
    /// Bytes that are not a complete frame yet, or wait to be processed.
    pub input: InputBuffer,
    /// The body frame whose beginning is with its message already.
    pub cut_body: Option<CutBody>,
    /// Bytes that wait to be written.
    pub out: OutputBuffer,
    /// The bytes of answers of its channels that wait for a disk.
    pub held_answer_bytes: usize,
    /// The number of bytes that were handed over to be written last.
    pub handed_over: usize,
    /// The memory of the buffers when it was last counted.
    pub counted_bytes: u64,
    /// The exclusive queues, which are deleted with the connection.
    pub exclusive_queues: Vec<QueueId>,
    /// Settlements of many deliveries that are carried out a part at a time; no frame is processed before they are done.
    pub settling: VecDeque<(ChannelSlot, Settle)>,
    pub about: Arc<PeerInfo>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// The information about a connection that operators see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerInfo {
    pub peer: Box<str>,
    pub client_name: Box<str>,
    /// The address of its mailbox; empty for none.
    pub identity: Box<str>,
    pub since: Micros,
}

impl Connection {
    /// A connection that was taken over from the control plane just now.
    pub fn new(
        login: Login,
        serial: Serial,
        principal: PrincipalSlot,
        vhost: VhostId,
        options: &BrokerOptions,
        now: Micros,
    ) -> Self {
        let limit = |asked: u32, maximum: u32| if asked == 0 { maximum } else { asked.min(maximum) };
        Self {
            serial,
            state: ConnectionState::Open,
            principal,
            vhost,
            frame_max: limit(login.frame_max, options.frame_max),
            channel_max: limit(login.channel_max.into(), options.channel_max.into()) as u16,
            heartbeat_us: Micros::from(login.heartbeat_s) * 500_000,
            is_writable: true,
            is_congested: false,
            is_blocked: false,
            was_told_blocked: false,
            publishes: false,
            passes: false,
            passed: 0,
            small_reads: 0,
            is_dirty: false,
            is_suspended: false,
            is_held: false,
            awaits_tick: false,
            is_resting: false,
            knows_blocked: login.knows_blocked,
            knows_cancel: login.knows_cancel,
            qos_is_for_channel: login.qos_is_for_channel,
            heard: now,
            said: now,
            channels: Vec::new(),
            input: InputBuffer::default(),
            cut_body: None,
            out: OutputBuffer::default(),
            held_answer_bytes: 0,
            handed_over: 0,
            counted_bytes: 0,
            exclusive_queues: Vec::new(),
            settling: VecDeque::new(),
            about: Arc::new(PeerInfo {
                peer: login.peer.into(),
                client_name: login.client_name.into(),
                identity: login.identity.into(),
                since: now,
            }),
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// The handle of what is in this slot.
    #[inline]
    pub fn handle(&self, slot: ConnectionSlot) -> Handle<ConnectionSlot> {
        Handle { id: slot, serial: self.serial }
    }

    /// The slot of an open channel.
    #[inline]
    pub fn channel(&self, number: u16) -> Option<ChannelSlot> {
        match self.channels.as_slice() {
            [(only, channel)] => (*only == number).then_some(*channel),
            channels => {
                let index = channels.binary_search_by_key(&number, |(number, _)| *number).ok()?;
                Some(channels[index].1)
            }
        }
    }

    /// Whether nothing more is read.
    #[inline]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, ConnectionState::Ended(_))
    }

    /// Whether deliveries may be added to its output.
    #[inline]
    pub fn takes_deliveries(&self) -> bool {
        self.is_writable && !self.is_congested && self.state == ConnectionState::Open
    }

    /// Whether bytes from the client are worth reading now.
    pub fn wants_input(&self) -> bool {
        !self.is_blocked && !self.is_suspended && !self.has_ended()
    }

    /// Read nothing more from now on. One that has ended stays as it is.
    pub fn end(&mut self, now: Micros) {
        if !self.has_ended() {
            self.state = ConnectionState::Ended(now);
        }
        self.input = InputBuffer::default();
    }

    /// The bytes that wait for the client: to be written, or for a disk before that.
    #[inline]
    pub fn waiting_bytes(&self) -> usize {
        self.out.len() + self.held_answer_bytes
    }

    /// Whether frames wait for nothing but that the client reads what is written.
    pub fn awaits_reading(&self) -> bool {
        let is_free = !self.is_blocked && !self.is_resting && !self.is_held;
        self.is_suspended && is_free && !self.out.is_empty() && !self.has_ended()
    }

    /// Whether nothing more is read, and everything is written.
    pub fn is_over(&self) -> bool {
        self.has_ended() && self.out.is_empty()
    }

    /// The memory of its buffers, here and at the caller, which has what a socket does not take.
    pub fn held_bytes(&self) -> u64 {
        let with_caller = if self.is_writable { 0 } else { self.handed_over };
        (self.out.capacity() + self.held_answer_bytes + self.input.capacity() + with_caller) as u64
    }

    /// Count the memory of its buffers anew in the sum of all.
    pub fn recount(&mut self, sum: &mut u64) {
        let bytes = self.held_bytes();
        *sum = *sum - self.counted_bytes + bytes;
        self.counted_bytes = bytes;
    }

    /// Free the memory that a burst needed.
    pub fn trim(&mut self) {
        self.out.trim();
        if self.input.is_empty() {
            self.input = InputBuffer::default();
        }
    }
}

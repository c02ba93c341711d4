//! The data plane of the AMQP broker: bytes in, bytes out. No socket, no clock, no thread of its own.
//!
//! A caller (the shell) owns sockets and time. It hands whole socket reads to [`Broker::receive`], asks
//! [`Broker::take_dirty`] which connections have something to write, and writes what [`Broker::output`] gives. Whatever
//! a client does wrong becomes a `channel.close` or `connection.close` in its output and concerns nobody else: no public
//! method fails because of what came over the wire. With the same calls in the same order the broker does the same.
//!
//! ```text
//! receive ──► frames (input) ──► methods (dispatch) ──► declare, consume, settle, transaction
//!                    └─ content ─► publish ─► route (topology) ─► queues ─► deliver ─► output
//!                                     └─ journal ─► committed ─► confirm
//! ```
//! Who refers to whom: a connection knows its channels, a channel its consumers and unacknowledged deliveries, a queue
//! its consumers; all by number (`slab.rs`), and all from the top down, so that removing something walks what is below.
//!
//! Bounds: [`BrokerOptions`], and `topology`'s.

mod access;
mod connections;
mod consumers;
mod declaring;
mod dense_map;
mod durability;
mod ids;
mod management;
mod options;
mod publishing;
mod queues;
#[cfg(test)]
mod simulation;
mod slab;
mod streams;
#[cfg(test)]
mod tests;
pub mod topology;

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::amqp::{AmqpError, MethodId, ReplyCode};
use crate::journal::Log;

use access::Principals;
pub use access::{Access, Control, Resource, UserLimits, Verb};
use connections::channel::Channel;
pub use connections::connection::Login;
use connections::connection::{About, Connection, ConnectionState};
use consumers::consumer::Consumer;
use dense_map::DenseMap;
pub use durability::durable;
use durability::journaling;
pub use durability::recovery::{RecoveryReport, Storage, StorageError};
pub use ids::ConnectionId;
use ids::{ChannelSlot, ConnectionSlot, ConsumerSlot, Handle, LogId};
pub use management::event::Event;
use management::event::Events;
pub use management::metrics::{JournalMetrics, Metrics};
pub use management::overview::{ConnectionOverview, ConsumerOverview, QueueOverview};
pub use options::BrokerOptions;
use publishing::{backpressure as blocking, confirms as confirm};
use queues::dead_letter;
use queues::message_store::MessageStore;
pub use queues::message_store::Micros;
pub use queues::policy::QueueKind;
use queues::queue::{Queue, QueueEntry};
use slab::Slab;
pub use streams::stream_record;
use topology::{QueueId, RouteScratch, Topology};

/// What [`Broker::output`] left of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Open,
    /// Write what you have, then close the socket; the connection is unknown from now on.
    Ended,
}

/// The data plane. One for a process, used from one thread.
pub struct Broker {
    options: BrokerOptions,
    control: Box<dyn Control + Send>,
    topology: Topology,
    /// What is kept through a restart, unless all is kept in memory only.
    journal: Option<Box<journaling::Journal>>,
    /// The logs of streams, by their numbers among logs.
    logs: HashMap<LogId, Log>,
    log_count: u32,
    /// Queues that are streams, and the logs of those that have more to write than the disk takes.
    stream_queues: Vec<QueueId>,
    pressed: Vec<LogId>,
    /// Readers of streams that can go on.
    readers: Vec<Handle<ConsumerSlot>>,
    /// What is left of the turn that this call is, and connections whose turn was over before their input was.
    turn_left: u32,
    resting: VecDeque<Handle<ConnectionSlot>>,
    /// Room to ask readers' queries of messages.
    view: topology::ViewScratch,
    /// Room for changes on their way to the journal.
    changes: Vec<topology::Change>,
    /// What the answer to what is done now must wait for.
    promised: confirm::SyncMarks,
    /// Room for what is read back: the record, and the message that was delivered last from there.
    load_buffer: Vec<u8>,
    /// How far the walk over the messages has come that lets older ones leave memory.
    paged_to: u32,
    loaded: Vec<u8>,
    /// Room for the durable queues that a message goes to.
    durable_ids: Vec<durable::DefinitionId>,
    /// Changes with every change of the topology: what was remembered of routes is old then.
    topology_version: u64,
    route_scratch: RouteScratch,
    /// Where the message goes that is published now.
    routed: Vec<QueueId>,
    principals: Principals,
    connections: Slab<ConnectionSlot, Connection>,
    channels: Slab<ChannelSlot, Channel>,
    consumers: Slab<ConsumerSlot, Consumer>,
    queues: DenseMap<QueueId, Queue>,
    messages: MessageStore,
    /// What channels keep of messages that are not whole yet, and of open transactions.
    unfinished_bytes: u64,
    /// Connections with something to write, or an end to be told.
    dirty: Vec<ConnectionSlot>,
    /// Queues with something to deliver, perhaps.
    runnable: Vec<QueueId>,
    /// Channels that have published since their last confirm, and those whose confirms or answers wait for a disk.
    confirming: Vec<ChannelSlot>,
    awaiting: Vec<Handle<ChannelSlot>>,
    /// Queues in which something may expire, and where the walk over them and over connections goes on.
    timed: Vec<Handle<QueueId>>,
    timed_cursor: usize,
    connection_cursor: u32,
    /// Entries of purged and deleted queues, let go a few at a time: a million of them must not stop everybody.
    rubbish: VecDeque<Rubbish>,
    /// What queues have dropped and send on, at the end of the same call.
    letters: VecDeque<dead_letter::Letter>,
    /// Why publishers are blocked.
    blocked: Option<blocking::Shortage>,
    /// Connections that are not read because of that.
    blocked_connections: Vec<Handle<ConnectionSlot>>,
    is_stopping: bool,
    serial: u32,
    random: u64,
    now: Micros,
    /// Wall clock minus `now`.
    wall_offset: i64,
    events: Events,
    metrics: Metrics,
    /// What it does wrong, so that simulations can show that they see it.
    #[cfg(test)]
    faults: simulation::Faults,
}

/// Entries that nobody can reach any more.
#[derive(Debug)]
struct Rubbish {
    entries: VecDeque<QueueEntry>,
    /// The queue's definition, when it is durable: what it had is settled there.
    durable_id: Option<durable::DefinitionId>,
}

/// From here on output is handed over in the buffer that it was written to. Less is copied, so that small connections
/// do not come by the buffers of large ones.
const SWAP_BYTES_MIN: usize = 32 * 1024;
/// How many entries of [`Rubbish`] are let go in one call: some 100 µs.
const RUBBISH_AT_ONCE: usize = 1000;
/// How many bindings of queues and exchanges that are gone are taken away in one call: some 200 µs.
const BINDINGS_AT_ONCE: usize = 100;

impl Broker {
    /// A broker with nothing in it but the vhost `/`. `now` is the caller's monotonic clock, `wall_us` microseconds
    /// since 1970.
    #[must_use]
    pub fn new(options: BrokerOptions, control: Box<dyn Control + Send>, now: Micros, wall_us: i64) -> Self {
        let mut topology = Topology::new();
        topology.add_vhost("/");
        let (random, turn_left) = (options.seed, options.turn_units_max);
        Self {
            options,
            control,
            topology,
            journal: None,
            logs: HashMap::new(),
            log_count: 0,
            stream_queues: Vec::new(),
            pressed: Vec::new(),
            readers: Vec::new(),
            turn_left,
            resting: VecDeque::new(),
            view: topology::ViewScratch::default(),
            changes: Vec::new(),
            promised: confirm::SyncMarks::new(),
            load_buffer: Vec::new(),
            paged_to: 0,
            loaded: Vec::new(),
            durable_ids: Vec::new(),
            topology_version: 0,
            route_scratch: RouteScratch::default(),
            routed: Vec::new(),
            principals: Principals::default(),
            connections: Slab::default(),
            channels: Slab::default(),
            consumers: Slab::default(),
            queues: DenseMap::default(),
            messages: MessageStore::default(),
            unfinished_bytes: 0,
            dirty: Vec::new(),
            runnable: Vec::new(),
            confirming: Vec::new(),
            awaiting: Vec::new(),
            timed: Vec::new(),
            timed_cursor: 0,
            connection_cursor: 0,
            rubbish: VecDeque::new(),
            letters: VecDeque::new(),
            blocked: None,
            blocked_connections: Vec::new(),
            is_stopping: false,
            serial: 0,
            random,
            now,
            wall_offset: wall_us.wrapping_sub(now as i64),
            events: Events::default(),
            metrics: Metrics::default(),
            #[cfg(test)]
            faults: simulation::Faults::default(),
        }
    }

    /// Make a vhost, if there is none of that name.
    pub fn add_vhost(&mut self, name: &str) {
        self.topology.add_vhost(name);
        self.changed();
    }

    /// The names of all vhosts.
    pub fn vhosts(&self) -> impl Iterator<Item = &str> {
        self.topology.vhosts().map(|(_, name)| name)
    }

    /// Take over a connection: its handshake is done and connection.open-ok sent. One that may not be (an unknown vhost,
    /// a user with too many) is taken over and closed with 530.
    pub fn connect(&mut self, login: Login, now: Micros) -> ConnectionId {
        self.advance(now);
        let known = self.topology.vhost(&login.vhost);
        let vhost = known.unwrap_or_else(|| self.topology.add_vhost("/"));
        let (principal, allowed) =
            self.principals.connect(&mut *self.control, &login.user, &login.vhost.as_str().into());
        let limit = |asked: u32, most: u32| if asked == 0 { most } else { asked.min(most) };
        let serial = self.next_serial();
        let number = self.connections.insert(Connection {
            serial,
            life: ConnectionState::Open,
            principal,
            vhost,
            frame_max: limit(login.frame_max, self.options.frame_max),
            channel_max: limit(login.channel_max.into(), self.options.channel_max.into()) as u16,
            heartbeat_us: Micros::from(login.heartbeat_s) * 500_000,
            is_writable: true,
            is_congested: false,
            is_blocked: false,
            was_told_blocked: false,
            publishes: false,
            is_dirty: false,
            is_suspended: false,
            is_resting: false,
            knows_blocked: login.knows_blocked,
            knows_cancel: login.knows_cancel,
            qos_is_for_channel: login.qos_is_for_channel,
            heard: now,
            said: now,
            channels: Vec::new(),
            input: Vec::new(),
            out: Vec::new(),
            exclusive_queues: Vec::new(),
            about: About { peer: login.peer.into(), client_name: login.client_name.into(), since: now }.into(),
            bytes_in: 0,
            bytes_out: 0,
        });
        self.metrics.connections_made += 1;
        let refusal = match (known, allowed) {
            (None, _) => Some(format!("vhost {} not found", login.vhost)),
            (_, Err(reason)) => Some(reason),
            _ if self.is_stopping => Some("the broker is stopping".to_owned()),
            _ => None,
        };
        if let Some(reason) = refusal {
            self.close_connection(number, &AmqpError::new(ReplyCode::NotAllowed, &reason, MethodId::NONE));
        }
        ConnectionId::new(number, serial)
    }

    /// The socket is gone: what was delivered and not acknowledged goes back, exclusive queues go, and so on.
    pub fn disconnect(&mut self, id: ConnectionId, now: Micros) {
        self.advance(now);
        if let Some(number) = self.find(id) {
            self.remove_connection(number);
            self.finish();
        }
    }

    /// Move all connections that have something to write, or have ended, to the end of `connections`, each once.
    pub fn take_dirty(&mut self, connections: &mut Vec<ConnectionId>) {
        for number in self.dirty.drain(..) {
            // One that went since has nothing to say.
            if let Some(connection) = self.connections.get_mut(number)
                && connection.is_dirty
            {
                connection.is_dirty = false;
                connections.push(ConnectionId::new(number, connection.serial));
            }
        }
    }

    /// Append what is to be written, at most [`BrokerOptions::output_bytes_at_once`]: when there is more, the connection is
    /// dirty again. Call it when the socket takes bytes; what is not taken stops this connection's consumers.
    pub fn output(&mut self, id: ConnectionId, bytes: &mut Vec<u8>) -> Flow {
        let Some(number) = self.find(id) else { return Flow::Ended };
        let at_once = self.options.output_bytes_at_once;
        let connection = &mut self.connections[number];
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
            connection.said = self.now;
        }
        if !connection.out.is_empty() {
            self.touch(number);
        } else if connection.life == ConnectionState::Ended {
            self.remove_connection(number);
            self.finish();
            return Flow::Ended;
        }
        if self.connections[number].is_congested || self.connections[number].is_suspended {
            self.relieve(number);
        }
        Flow::Open
    }

    /// There is room to write again: consumers go on, and so do frames that waited.
    fn relieve(&mut self, number: ConnectionSlot) {
        let connection = &mut self.connections[number];
        if connection.out.len() * 2 > self.options.output_bytes_max {
            return;
        }
        connection.is_congested = false;
        self.wake_connection(number);
        self.resume(number);
        self.finish();
    }

    /// Whether the socket takes bytes. While it does not, nothing is delivered to this connection.
    pub fn set_writable(&mut self, id: ConnectionId, is_writable: bool) {
        let Some(number) = self.find(id) else { return };
        self.connections[number].is_writable = is_writable;
        if is_writable {
            self.wake_connection(number);
            self.finish();
        }
    }

    /// Whether bytes from this connection are worth reading now. When this is false, stop reading its socket until it is
    /// true again; the connection becomes dirty when that changes. What is handed over in between is kept, not answered.
    #[must_use]
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.find(id).is_some_and(|number| self.connections[number].wants_input())
    }

    /// Time passes: heartbeats, expiry, and what was put off. Call it about ten times a second.
    pub fn tick(&mut self, now: Micros, wall_us: i64) {
        self.advance(now);
        self.wall_offset = wall_us.wrapping_sub(now as i64);
        self.check_connections();
        self.expire();
        self.expire_streams();
        self.remove_doomed();
        self.refuse_held();
        self.shed_unfinished();
        self.finish();
    }

    /// Close every connection with 320, take no new ones, and let nothing more in. What is on its way to the disk is
    /// there when the broker has been dropped.
    pub fn stop(&mut self, reason: &str, now: Micros) {
        self.advance(now);
        self.is_stopping = true;
        let error = AmqpError::new(ReplyCode::ConnectionForced, reason, MethodId::NONE);
        let numbers: Vec<ConnectionSlot> = self.connections.iter().map(|(number, _)| number).collect();
        numbers.into_iter().for_each(|number| self.close_connection(number, &error));
        self.finish();
        self.stop_journal();
    }

    /// Close one connection with 320: an operator wants it gone.
    pub fn close(&mut self, id: ConnectionId, reason: &str, now: Micros) {
        self.advance(now);
        if let Some(number) = self.find(id) {
            let error = AmqpError::new(ReplyCode::ConnectionForced, reason, MethodId::NONE);
            self.close_connection(number, &error);
            self.finish();
        }
    }

    /// What this user may do has changed, or what anybody may.
    pub fn forget_permissions(&mut self, user: Option<&str>) {
        self.principals.forget(user);
    }

    /// What happened since the last call, for the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    fn find(&self, id: ConnectionId) -> Option<ConnectionSlot> {
        let connection = self.connections.get(id.slot())?;
        (connection.serial == id.serial()).then_some(id.slot())
    }

    /// A number that no connection, channel, queue or consumer ever had (of the last four billion).
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Time never goes back here, whatever the caller says.
    fn advance(&mut self, now: Micros) {
        self.now = self.now.max(now);
    }

    fn wall_us(&self) -> i64 {
        (self.now as i64).wrapping_add(self.wall_offset)
    }

    /// This connection has something to write, or to say.
    #[inline]
    fn touch(&mut self, number: ConnectionSlot) {
        let connection = &mut self.connections[number];
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(number);
        }
    }

    /// What every public call ends with: deliver what can be, let go a little of what is gone, record what was settled,
    /// confirm what is done, and see whether anything is short.
    fn finish(&mut self) {
        self.run();
        self.read_streams();
        self.send_letters();
        self.sweep();
        self.topology.sweep(BINDINGS_AT_ONCE);
        self.flush();
        self.confirm();
        if self.check_shortage() {
            self.run();
            self.send_letters();
            self.flush();
            self.confirm();
        }
        self.turn_left = self.options.turn_units_max;
    }

    /// The next of a row of numbers that look random (SplitMix64).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

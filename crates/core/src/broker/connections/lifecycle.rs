//! The life of connections and channels: opened, refused, closed from either side, checked for heartbeats, removed.

use crate::amqp::method::{ChannelClose, ChannelOpen, ChannelOpenOk, ConnectionClose};
use crate::amqp::{AmqpError, MethodId, ReplyCode, Scope};

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::connections::channel::{Channel, ChannelState};
use crate::broker::connections::connection::{Connection, ConnectionState, Login};
use crate::broker::ids::{ChannelSlot, ConnectionId, ConnectionSlot};
use crate::broker::management::event::Event;

/// The time that a client has to answer our connection.close, and after that to read what is left for it.
const CLOSE_US_MAX: Micros = 10_000_000;
/// Maximum number of exclusive queues that are removed at once with their connection, which takes about 2 ms; others
/// follow in the next calls.
pub(crate) const QUEUES_AT_ONCE: usize = 500;
/// The silence after which the memory of buffers is freed.
const TRIM_AFTER_US: Micros = 2_000_000;

/// The time in which a client has to take something of its output, while the output of all takes a sixteenth of the memory.
const TAKING_US_MAX: Micros = 60_000_000;

impl Broker {
    /// Take over a connection: its handshake is done and connection.open-ok sent. One that is not allowed (an unknown
    /// vhost, a user with too many connections) is taken over and closed with 530.
    pub fn connect(&mut self, login: Login, now: Micros) -> ConnectionId {
        self.clock.advance(now);
        let known = self.topology.vhost(&login.vhost);
        let vhost = known.unwrap_or_else(|| self.topology.add_vhost("/"));
        let (principal, allowed) = self.permissions.connect(&login.user, &login.vhost.as_str().into());
        let refusal = match (known, allowed) {
            (None, _) => Some(format!("vhost {} not found", login.vhost)),
            (_, Err(reason)) => Some(reason),
            _ if self.is_stopping => Some("the broker is stopping".to_owned()),
            _ => None,
        };
        let serial = self.unique.next_serial();
        let connection = Connection::new(login, serial, principal, vhost, &self.options, now);
        let slot = self.clients.add_connection(connection);
        self.metrics.connections_made += 1;
        match refusal {
            Some(reason) => {
                self.close_connection(slot, &AmqpError::new(ReplyCode::NotAllowed, &reason, MethodId::NONE));
            }
            None => self.make_own_mailbox(slot),
        }
        ConnectionId::new(slot, serial)
    }

    /// Note that the socket is gone: unacknowledged deliveries go back, exclusive queues are deleted, and so on.
    pub fn disconnect(&mut self, id: ConnectionId, now: Micros) {
        self.clock.advance(now);
        if let Some(slot) = self.clients.find(id) {
            self.remove_connection(slot);
            self.finish();
        }
    }

    /// Close one connection with 320, as an operator asked.
    pub fn close(&mut self, id: ConnectionId, reason: &str, now: Micros) {
        self.clock.advance(now);
        if let Some(slot) = self.clients.find(id) {
            self.close_connection(slot, &AmqpError::new(ReplyCode::ConnectionForced, reason, MethodId::NONE));
            self.finish();
        }
    }

    /// Close every connection with 320, take no new ones, and read nothing more. Everything recorded is on disk when the
    /// broker has been dropped.
    pub fn stop(&mut self, reason: &str, now: Micros) {
        self.clock.advance(now);
        self.is_stopping = true;
        let error = AmqpError::new(ReplyCode::ConnectionForced, reason, MethodId::NONE);
        let slots: Vec<ConnectionSlot> = self.clients.connections().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.close_connection(slot, &error));
        self.finish();
        while self.publishing.has_commit() {
            self.turn.begin_round();
            self.go_on_with_commit();
        }
        while self.clients.has_orphans() {
            self.settle_orphans();
        }
        self.stop_journal();
    }

    /// Close the channel or the connection of a client that did something wrong.
    pub(crate) fn refuse(&mut self, slot: ConnectionSlot, channel_number: u16, error: AmqpError) {
        self.metrics.errors += 1;
        let connection = self.clients.id(slot);
        let channel = self.clients[slot].channel(channel_number);
        match channel.filter(|_| error.scope == Scope::Channel) {
            Some(channel) => {
                self.empty_channel(channel);
                self.clients[channel].state = ChannelState::Closing;
                let close = ChannelClose {
                    reply_code: error.code.number(),
                    reply_text: &error.text,
                    class_id: error.method.class_id,
                    method_id: error.method.method_id,
                };
                self.clients.answer(slot, channel_number, close.into());
                self.events.push(Event::ChannelRefused { connection, channel: channel_number, error });
            }
            None => {
                self.close_connection(slot, &error);
                self.events.push(Event::ConnectionRefused { connection, error });
            }
        }
    }

    /// Close a connection from our side; what is on its way from the client is dropped.
    fn close_connection(&mut self, slot: ConnectionSlot, error: &AmqpError) {
        if self.clients[slot].state != ConnectionState::Open {
            return;
        }
        let close = ConnectionClose {
            reply_code: error.code.number(),
            reply_text: &error.text,
            class_id: error.method.class_id,
            method_id: error.method.method_id,
        };
        self.clients.answer(slot, 0, close.into());
        self.clients[slot].state = ConnectionState::Closing(self.clock.now());
        self.empty_connection(slot);
    }

    /// End a connection: nothing more is read, and the socket is closed when everything is written.
    pub(crate) fn end_connection(&mut self, slot: ConnectionSlot) {
        self.empty_connection(slot);
        let now = self.clock.now();
        self.clients[slot].end(now);
        self.clients.touch(slot);
    }

    /// End a connection whose client does not do its part: what it has not read is dropped.
    fn cut_connection(&mut self, slot: ConnectionSlot) {
        self.end_connection(slot);
        self.clients[slot].out.clear();
    }

    /// Remove the channels and the exclusive queues of a connection.
    pub(crate) fn empty_connection(&mut self, slot: ConnectionSlot) {
        let consumers = self.clients.take_consumers(slot);
        let queues = std::mem::take(&mut self.clients[slot].exclusive_queues);
        self.remove_consumers(&consumers);
        for (_, channel) in std::mem::take(&mut self.clients[slot].channels) {
            self.remove_channel(channel);
        }
        let mut queues = queues.into_iter();
        queues.by_ref().take(QUEUES_AT_ONCE).for_each(|queue| self.remove_queue(queue));
        queues.for_each(|queue| self.queues.abandon(queue));
    }

    /// Remove some queues whose connections are gone.
    pub(crate) fn remove_abandoned(&mut self) {
        for _ in 0..QUEUES_AT_ONCE {
            let Some(queue) = self.queues.next_abandoned() else { return };
            // An auto-delete queue may have a consumer again.
            if self.queues[queue].consumers.is_empty() {
                self.remove_queue(queue);
            }
        }
    }

    /// Remove a connection with all that it holds.
    pub(crate) fn remove_connection(&mut self, slot: ConnectionSlot) {
        self.empty_connection(slot);
        let connection = self.clients.remove_connection(slot);
        self.topology.forget_connection(ConnectionId::new(slot, connection.serial).to_bits());
        self.permissions.disconnect(connection.principal);
    }

    /// Open a channel.
    pub(crate) fn open_channel(&mut self, slot: ConnectionSlot, number: u16) -> Result<(), AmqpError> {
        let connection = &self.clients[slot];
        if number > connection.channel_max {
            let reason = format!("channel {number} is over the negotiated channel_max of {}", connection.channel_max);
            return Err(AmqpError::new(ReplyCode::NotAllowed, &reason, ChannelOpen::ID));
        }
        let serial = self.unique.next_serial();
        self.clients.add_channel(Channel::new(slot, number, serial));
        self.clients.answer(slot, number, ChannelOpenOk { channel_id: &[] }.into());
        Ok(())
    }

    /// Remove the consumers of a channel, requeue its deliveries, and drop the message that it was publishing.
    fn empty_channel(&mut self, slot: ChannelSlot) {
        let channel = &mut self.clients[slot];
        channel.incoming = None;
        channel.confirms = None;
        let (connection, transaction) = (channel.connection, channel.transaction.take());
        if transaction.is_some() {
            // What it had begun to settle is rolled back, too.
            self.clients[connection].settling.retain(|(of, settle)| *of != slot || !settle.is_kept);
        }
        self.clients.drop_held(slot);
        self.drop_waiting(slot);
        let consumers = std::mem::take(&mut self.clients[slot].consumers);
        self.remove_consumers(&consumers);
        self.backpressure.count_unfinished(&mut self.clients[slot]);
        self.return_deliveries(slot, transaction);
        self.forget_left(slot);
    }

    /// Remove a channel with all that it holds.
    pub(crate) fn remove_channel(&mut self, slot: ChannelSlot) {
        self.empty_channel(slot);
        self.clients.remove_channel(slot);
    }

    /// Check heartbeats, closes that nobody answers, and buffers that are no longer needed: of some connections each
    /// time, so that each is looked at about once a second.
    pub(crate) fn check_connections(&mut self) {
        for _ in 0..self.clients.slot_count() / 10 + 1 {
            let slot = self.clients.next_slot();
            if self.clients.connection_in(slot).is_some() {
                self.check_connection(slot);
            }
        }
    }

    fn check_connection(&mut self, slot: ConnectionSlot) {
        let now = self.clock.now();
        let connection = &mut self.clients[slot];
        if let ConnectionState::Closing(since) | ConnectionState::Ended(since) = connection.state {
            if now - since > CLOSE_US_MAX {
                self.cut_connection(slot);
            }
            return;
        }
        if connection.is_writable {
            connection.out.shrink();
        } else {
            connection.out.shrink_to_fit();
        }
        if now - connection.heard > TRIM_AFTER_US && now - connection.said > TRIM_AFTER_US {
            connection.trim();
        }
        self.clients.count_buffers(slot);
        self.close_overdue(slot);
        let is_crowded = self.are_crowded(self.clients.buffer_bytes());
        let connection = &mut self.clients[slot];
        if is_crowded && !connection.is_writable && !connection.out.is_empty() && now - connection.said > TAKING_US_MAX
        {
            let id = ConnectionId::new(slot, connection.serial);
            self.events.push(Event::OutputNotTaken { connection: id });
            return self.cut_connection(slot);
        }
        let half = connection.heartbeat_us;
        if half == 0 {
            return;
        }
        // A connection that is not read cannot be heard, and after a stall it has its whole time once more. If it is not
        // read because it does not read itself, it has its time after each piece that it takes.
        let heard = connection.heard.max(self.clock.hearing_since());
        let heard = if connection.awaits_reading() { heard.max(connection.said) } else { heard };
        if (connection.wants_input() || connection.awaits_reading()) && now - heard > 4 * half {
            let id = ConnectionId::new(slot, connection.serial);
            self.events.push(Event::HeartbeatMissed { connection: id });
            self.cut_connection(slot);
        } else if connection.out.is_empty() && now - connection.said >= half {
            connection.out.tail().extend_from_slice(&crate::amqp::frame::HEARTBEAT);
            connection.said = now;
            self.clients.touch(slot);
        }
    }
}

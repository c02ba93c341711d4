//! Methods to what they do, and the ends of channels and connections.

use crate::amqp::method::{
    BasicQosOk, ChannelFlowOk, ChannelOpenOk, ConfirmSelectOk, ConnectionCloseOk, ConnectionUpdateSecretOk, TxSelectOk,
};
use crate::amqp::{AmqpError, Method, MethodId, ReplyCode};

use crate::broker::Broker;
use crate::broker::connections::channel::Channel;
use crate::broker::connections::connection::ConnectionState;
use crate::broker::ids::{ChannelSlot, ConnectionSlot};
use crate::broker::publishing::transaction::{Settle, Settlement};
use crate::broker::slab::SlotId;

/// An error at no particular method: the caller fills it in.
pub(crate) fn error(code: ReplyCode, reason: &str) -> AmqpError {
    AmqpError::new(code, reason, MethodId::NONE)
}

impl Broker {
    /// A method on channel 0.
    pub(crate) fn connection_method(&mut self, number: ConnectionSlot, payload: &[u8]) -> Result<(), AmqpError> {
        let id = MethodId::of_payload(payload);
        match Method::decode(payload).map_err(|error| error.at(id))? {
            Method::ConnectionClose(_) => {
                self.empty_connection(number);
                self.answer(number, 0, ConnectionCloseOk {}.into());
                self.end(number);
                Ok(())
            }
            Method::ConnectionCloseOk(_) => Err(AmqpError::new(ReplyCode::CommandInvalid, "no close to answer", id)),
            // Who may do what was decided at login, and is asked again when the control plane says so.
            Method::ConnectionUpdateSecret(_) => {
                self.answer(number, 0, ConnectionUpdateSecretOk {}.into());
                Ok(())
            }
            method => {
                let reason = format!("{} may not come on channel 0 of an open connection", method.name());
                Err(AmqpError::new(ReplyCode::CommandInvalid, &reason, id))
            }
        }
    }

    pub(crate) fn open_channel(&mut self, number: ConnectionSlot, channel: u16) -> Result<(), AmqpError> {
        let connection = &self.connections[number];
        if channel > connection.channel_max {
            let reason = format!("channel {channel} is over the negotiated channel_max of {}", connection.channel_max);
            return Err(AmqpError::new(ReplyCode::NotAllowed, &reason, crate::amqp::method::ChannelOpen::ID));
        }
        let serial = self.next_serial();
        let inner = self.channels.insert(Channel::new(number, channel, serial));
        let channels = &mut self.connections[number].channels;
        let index = channels.partition_point(|(other, _)| *other < channel);
        channels.insert(index, (channel, inner));
        self.answer(number, channel, ChannelOpenOk { channel_id: &[] }.into());
        Ok(())
    }

    /// A method on an open channel.
    pub(crate) fn channel_method(
        &mut self,
        number: ConnectionSlot,
        channel: ChannelSlot,
        method: &Method<'_>,
    ) -> Result<(), AmqpError> {
        match method {
            Method::BasicAck(it) => {
                self.settle_or_keep(channel, settle(it.delivery_tag, it.multiple, Settlement::Acknowledge))
            }
            Method::BasicNack(it) => {
                self.settle_or_keep(channel, settle(it.delivery_tag, it.multiple, back(it.requeue)))
            }
            Method::BasicReject(it) => self.settle_or_keep(channel, settle(it.delivery_tag, false, back(it.requeue))),
            Method::BasicGet(it) => self.get(channel, it),
            Method::BasicConsume(it) => self.consume(channel, it),
            Method::BasicCancel(it) => self.cancel(channel, it),
            Method::BasicQos(it) => {
                self.qos(channel, it)?;
                self.reply(channel, BasicQosOk {}.into())
            }
            Method::BasicRecover(it) => self.recover(channel, it.requeue, true),
            Method::BasicRecoverAsync(it) => self.recover(channel, it.requeue, false),
            Method::ExchangeDeclare(it) => self.declare_exchange(channel, it),
            Method::ExchangeDelete(it) => self.delete_exchange(channel, it),
            Method::ExchangeBind(it) => self.bind_exchange(channel, it),
            Method::ExchangeUnbind(it) => self.unbind_exchange(channel, it),
            Method::QueueDeclare(it) => self.declare_queue(channel, it),
            Method::QueueBind(it) => self.bind_queue(channel, it),
            Method::QueueUnbind(it) => self.unbind_queue(channel, it),
            Method::QueuePurge(it) => self.purge_queue(channel, it),
            Method::QueueDelete(it) => self.delete_queue(channel, it),
            Method::ConfirmSelect(it) => {
                self.select_confirms(channel)?;
                if it.no_wait { Ok(()) } else { self.reply(channel, ConfirmSelectOk {}.into()) }
            }
            Method::TxSelect(_) => {
                self.select_transactions(channel)?;
                self.reply(channel, TxSelectOk {}.into())
            }
            Method::TxCommit(_) => self.commit(channel),
            Method::TxRollback(_) => self.rollback(channel),
            Method::ChannelFlow(it) => {
                self.channels[channel].is_flowing = it.active;
                self.reply(channel, ChannelFlowOk { active: it.active }.into())?;
                self.wake_channel(channel);
                Ok(())
            }
            Method::ChannelFlowOk(_) | Method::BasicCancelOk(_) => Ok(()),
            Method::ChannelOpen(_) => Err(error(ReplyCode::ChannelError, "second 'channel.open' seen")),
            method => {
                let what = if method.id().class_id == 10 { "on a channel other than 0" } else { "from a client" };
                let reason =
                    format!("{} may not come {what} (channel of connection {})", method.name(), number.index());
                Err(error(ReplyCode::CommandInvalid, &reason))
            }
        }
    }

    /// Answer on a channel, behind whatever it still waits to answer.
    pub(crate) fn reply(&mut self, channel: ChannelSlot, method: Method<'_>) -> Result<(), AmqpError> {
        let marks = self.take_promised();
        let it = &mut self.channels[channel];
        let (connection, number) = (it.connection, it.number);
        if !marks.is_empty() {
            let mut bytes = Vec::new();
            method.encode(number, &mut bytes);
            it.held.push_back((marks, bytes));
            self.await_disk(channel);
        } else if let Some((_, bytes)) = it.held.back_mut() {
            method.encode(number, bytes);
        } else {
            self.answer(connection, number, method);
        }
        Ok(())
    }

    /// Undo what a channel holds: its consumers go, its deliveries go back, what it was publishing is forgotten.
    pub(crate) fn empty_channel(&mut self, channel: ChannelSlot) {
        let it = &mut self.channels[channel];
        it.incoming = None;
        it.transaction = None;
        it.confirms = None;
        it.memo = None;
        it.held.clear();
        for consumer in std::mem::take(&mut it.consumers) {
            self.remove_consumer(consumer);
        }
        self.count_unfinished(channel);
        self.requeue_all(channel);
    }

    /// End a channel.
    pub(crate) fn remove_channel(&mut self, channel: ChannelSlot) {
        self.empty_channel(channel);
        let it = self.channels.remove(channel);
        self.connections[it.connection].channels.retain(|(_, other)| *other != channel);
    }

    /// Undo what a connection holds: its channels and its exclusive queues go.
    pub(crate) fn empty_connection(&mut self, number: ConnectionSlot) {
        let channels = std::mem::take(&mut self.connections[number].channels);
        for (_, channel) in channels {
            self.empty_channel(channel);
            self.channels.remove(channel);
        }
        for queue in std::mem::take(&mut self.connections[number].exclusive_queues) {
            self.remove_queue(queue);
        }
    }

    /// End a connection.
    pub(crate) fn remove_connection(&mut self, number: ConnectionSlot) {
        self.empty_connection(number);
        let connection = self.connections.remove(number);
        self.principals.disconnect(connection.principal);
    }

    /// Heartbeats, closes that nobody answers, and buffers that are no longer needed: of some connections each time, so
    /// that each is looked at about once a second.
    pub(crate) fn check_connections(&mut self) {
        for _ in 0..self.connections.len() / 10 + 1 {
            if self.connection_cursor >= self.connections.end() {
                self.connection_cursor = 0;
            }
            let number = ConnectionSlot::from_index(self.connection_cursor);
            self.connection_cursor += 1;
            if self.connections.get(number).is_some() {
                self.check_connection(number);
            }
        }
    }

    fn check_connection(&mut self, number: ConnectionSlot) {
        let now = self.now;
        let connection = &mut self.connections[number];
        if let ConnectionState::Closing(since) = connection.life {
            if now - since > CLOSE_US_MAX {
                self.end(number);
            }
            return;
        }
        if now - connection.heard > TRIM_AFTER_US && now - connection.said > TRIM_AFTER_US {
            connection.trim();
        }
        let half = connection.heartbeat_us;
        if half == 0 || connection.life == ConnectionState::Ended {
            return;
        }
        // A connection that is not read cannot be heard.
        if connection.wants_input() && now - connection.heard > 4 * half {
            let id = crate::broker::ConnectionId::new(number, connection.serial);
            self.events.push(crate::broker::Event::HeartbeatMissed { connection: id });
            self.end(number);
        } else if connection.out.is_empty() && now - connection.said >= half {
            connection.out.extend_from_slice(&crate::amqp::frame::HEARTBEAT);
            connection.said = now;
            self.touch(number);
        }
    }
}

/// How long a client may take to answer our connection.close.
const CLOSE_US_MAX: u64 = 10_000_000;
/// Buffers are given back after so much silence.
const TRIM_AFTER_US: u64 = 2_000_000;

fn settle(tag: u64, multiple: bool, settlement: Settlement) -> Settle {
    Settle { tag, multiple, settlement }
}

fn back(requeue: bool) -> Settlement {
    if requeue { Settlement::Requeue } else { Settlement::Discard }
}

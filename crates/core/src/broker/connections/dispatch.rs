//! Decodes the methods of clients, and calls the code that carries each out.

use crate::amqp::method::{
    BasicQosOk, ChannelFlowOk, ConfirmSelectOk, ConnectionCloseOk, ConnectionUpdateSecretOk, TxSelectOk,
};
use crate::amqp::{AmqpError, Method, MethodId, ReplyCode};

use crate::broker::Broker;
use crate::broker::consumers::settlement::Settle;
use crate::broker::consumers::settlement::Settlement;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot};
use crate::broker::slab::SlotId;

impl Broker {
    /// Carry out a method on channel 0.
    pub(crate) fn connection_method(&mut self, slot: ConnectionSlot, payload: &[u8]) -> Result<(), AmqpError> {
        let id = MethodId::of_payload(payload);
        match Method::decode(payload).map_err(|error| error.at(id))? {
            Method::ConnectionClose(_) => {
                self.empty_connection(slot);
                self.clients.answer(slot, 0, ConnectionCloseOk {}.into());
                self.end_connection(slot);
                Ok(())
            }
            Method::ConnectionCloseOk(_) => Err(AmqpError::new(ReplyCode::CommandInvalid, "no close to answer", id)),
            // Permissions were decided at login, and are asked for again when the control plane says so.
            Method::ConnectionUpdateSecret(_) => {
                self.clients.answer(slot, 0, ConnectionUpdateSecretOk {}.into());
                Ok(())
            }
            method => {
                let reason = format!("{} may not come on channel 0 of an open connection", method.name());
                Err(AmqpError::new(ReplyCode::CommandInvalid, &reason, id))
            }
        }
    }

    /// Carry out a method on an open channel.
    pub(crate) fn channel_method(
        &mut self,
        slot: ConnectionSlot,
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
                self.clients[channel].select_confirms()?;
                if it.no_wait { Ok(()) } else { self.reply(channel, ConfirmSelectOk {}.into()) }
            }
            Method::TxSelect(_) => {
                self.clients[channel].select_transactions()?;
                self.reply(channel, TxSelectOk {}.into())
            }
            Method::TxCommit(_) => self.commit(channel),
            Method::TxRollback(_) => self.rollback(channel),
            Method::ChannelFlow(it) => {
                self.clients[channel].is_flowing = it.active;
                self.reply(channel, ChannelFlowOk { active: it.active }.into())?;
                self.wake_channel(channel);
                Ok(())
            }
            Method::ChannelFlowOk(_) | Method::BasicCancelOk(_) => Ok(()),
            Method::ChannelOpen(_) => Err(error(ReplyCode::ChannelError, "second 'channel.open' seen")),
            method => {
                let what = if method.id().class_id == 10 { "on a channel other than 0" } else { "from a client" };
                let reason = format!("{} may not come {what} (channel of connection {})", method.name(), slot.index());
                Err(error(ReplyCode::CommandInvalid, &reason))
            }
        }
    }
}

fn settle(tag: u64, multiple: bool, settlement: Settlement) -> Settle {
    Settle { tag, multiple, settlement, is_kept: false }
}

fn back(requeue: bool) -> Settlement {
    if requeue { Settlement::Requeue } else { Settlement::Discard }
}

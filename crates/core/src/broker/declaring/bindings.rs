//! Makes and removes bindings.

use crate::amqp::AmqpError;
use crate::amqp::method::{
    ExchangeBind, ExchangeBindOk, ExchangeUnbind, ExchangeUnbindOk, QueueBind, QueueBindOk, QueueUnbind, QueueUnbindOk,
};

use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::ids::ChannelSlot;
use crate::broker::topology::{Bind, Target, check_query_arguments};

impl Broker {
    /// Carry out exchange.bind.
    pub(crate) fn bind_exchange(&mut self, channel: ChannelSlot, it: &ExchangeBind<'_>) -> Result<(), AmqpError> {
        let target = Target::Exchange(it.destination);
        self.bind(channel, &Bind { source: it.source, target, key: it.routing_key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeBindOk {}.into()) }
    }

    /// Carry out exchange.unbind.
    pub(crate) fn unbind_exchange(&mut self, channel: ChannelSlot, it: &ExchangeUnbind<'_>) -> Result<(), AmqpError> {
        let target = Target::Exchange(it.destination);
        self.unbind(channel, &Bind { source: it.source, target, key: it.routing_key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeUnbindOk {}.into()) }
    }

    /// Carry out queue.bind.
    pub(crate) fn bind_queue(&mut self, channel: ChannelSlot, it: &QueueBind<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.clients[channel].queue_name(it.queue)?.into();
        // Neither a queue nor a key: the queue that was declared last, under its own name.
        let key = if it.queue.is_empty() && it.routing_key.is_empty() { &*name } else { it.routing_key };
        self.bind(channel, &Bind { source: it.exchange, target: Target::Queue(&name), key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, QueueBindOk {}.into()) }
    }

    /// Carry out queue.unbind.
    pub(crate) fn unbind_queue(&mut self, channel: ChannelSlot, it: &QueueUnbind<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.clients[channel].queue_name(it.queue)?.into();
        let key = if it.queue.is_empty() && it.routing_key.is_empty() { &*name } else { it.routing_key };
        self.unbind(
            channel,
            &Bind { source: it.exchange, target: Target::Queue(&name), key, arguments: it.arguments },
        )?;
        self.reply(channel, QueueUnbindOk {}.into())
    }

    fn bind(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        self.check_binding(channel, bind)?;
        check_query_arguments(bind.arguments)?;
        self.check_memory_for_definitions()?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        if let Err(full) = self.durability.check_room()
            && self.topology.is_new_and_survives(vhost, bind, owner)?
        {
            return Err(full);
        }
        let permissions = &mut self.permissions;
        self.topology.bind(vhost, bind, owner, &mut |key| permissions.stored_query(key))?;
        self.changed();
        Ok(())
    }

    fn unbind(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        self.check_binding(channel, bind)?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        self.topology.unbind(vhost, bind, owner)?;
        self.changed();
        Ok(())
    }

    /// Check that a binding may be made or removed: it writes to its destination and reads from its source.
    fn check_binding(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        let (resource, name) = match bind.target {
            Target::Queue(name) => (Resource::Queue, name),
            Target::Exchange(name) => (Resource::Exchange, name),
        };
        self.check_access(channel, Verb::Write, resource, name)?;
        self.check_access(channel, Verb::Read, Resource::Exchange, bind.source)?;
        self.check_topic_access(channel, Verb::Read, bind.source, bind.key)
    }
}

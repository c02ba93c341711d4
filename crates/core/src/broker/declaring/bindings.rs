//! Makes and removes bindings.

use crate::amqp::method::{
    ExchangeBind, ExchangeBindOk, ExchangeUnbind, ExchangeUnbindOk, QueueBind, QueueBindOk, QueueUnbind, QueueUnbindOk,
};
use crate::amqp::{AmqpError, RawTable};

use crate::broker::Broker;
use crate::broker::access::ANY_KEY;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::ids::ChannelSlot;
use crate::broker::topology::{Bind, ExchangeKind, Target, check_query_arguments};

/// The bytes of a query's text that are parsed in a step.
const ARGUMENT_BYTES_PER_STEP: usize = 16;
/// The bytes of a compiled query that are made in a step.
const COMPILED_BYTES_PER_STEP: u64 = 64;

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
        self.refuse_addressed(self.clients.vhost_and_owner(channel).0, bind)?;
        check_query_arguments(bind.arguments)?;
        self.check_stored_query(channel, bind.arguments)?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        if let Err(short) = self.check_memory_for_definitions()
            && self.topology.is_new(vhost, bind, owner)?
        {
            return Err(short);
        }
        if let Err(full) = self.durability.check_room()
            && self.topology.is_new_and_survives(vhost, bind, owner)?
        {
            return Err(full);
        }
        let permissions = &mut self.permissions;
        let bound = self.topology.bind(vhost, bind, owner, &mut |key| permissions.stored_query(key));
        self.spend_compiled();
        self.turn.spend((bind.arguments.as_bytes().len() / ARGUMENT_BYTES_PER_STEP) as u32);
        bound?;
        self.warn_of_query(channel, bind);
        self.changed();
        Ok(())
    }

    /// Tell operators what can hardly be meant in the query that was just bound.
    fn warn_of_query(&mut self, channel: ChannelSlot, bind: &Bind<'_>) {
        let warnings = self.topology.take_warnings();
        if !warnings.is_empty() {
            let (kind, name) = match bind.target {
                Target::Queue(name) => ("queue", name),
                Target::Exchange(name) => ("exchange", name),
            };
            let subject = format!("binding of {kind} '{name}' to exchange '{}'", bind.source);
            self.warn(channel, subject, warnings.join("; "));
        }
    }

    /// Charge the turn for the queries that were compiled, also for those that were refused.
    pub(crate) fn spend_compiled(&mut self) {
        let bytes = self.topology.take_compiled_bytes();
        self.turn.spend(u32::try_from(bytes / COMPILED_BYTES_PER_STEP).unwrap_or(u32::MAX));
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
        self.check_topic_access(channel, Verb::Read, bind.source, bind.key)?;
        match bind.target {
            // Whatever passes through the binding is published there.
            Target::Exchange(name) => {
                self.check_topic_access(channel, Verb::Write, name, self.passing_keys(channel, bind))
            }
            Target::Queue(_) => Ok(()),
        }
    }

    /// The pattern of the routing keys that pass through a binding.
    fn passing_keys<'a>(&self, channel: ChannelSlot, bind: &Bind<'a>) -> &'a str {
        let (vhost, _) = self.clients.vhost_and_owner(channel);
        match self.topology.exchange_info(vhost, bind.source).map(|info| info.settings.kind) {
            Some(ExchangeKind::Direct | ExchangeKind::Topic) => bind.key,
            _ => ANY_KEY,
        }
    }

    /// Check that the user may use the query of the store that arguments name.
    pub(crate) fn check_stored_query(
        &mut self,
        channel: ChannelSlot,
        arguments: RawTable<'_>,
    ) -> Result<(), AmqpError> {
        match arguments.get("x-query-key").and_then(|key| key.as_str()) {
            Some(key) => self.check_access(channel, Verb::Read, Resource::Query, key),
            None => Ok(()),
        }
    }
}

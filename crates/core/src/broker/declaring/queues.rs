//! Exchanges, queues and bindings: made, checked and removed.

use crate::amqp::method::{
    ExchangeBind, ExchangeBindOk, ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk, ExchangeUnbind,
    ExchangeUnbindOk, QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge,
    QueuePurgeOk, QueueUnbind, QueueUnbindOk,
};
use crate::amqp::{AmqpError, RawTable, ReplyCode};
use crate::broker::Rubbish;

use crate::broker::access::{Resource, Verb};
use crate::broker::connections::dispatch::error;
use crate::broker::ids::{ChannelSlot, ConnectionId, Handle, JOURNAL};
use crate::broker::publishing::confirms::SyncMark;
use crate::broker::queues::policy::{Policy, QueueKind};
use crate::broker::queues::queue::Queue;
use crate::broker::topology::{Bind, Declared, ExchangeSettings, Owner, QueueId, QueueSettings, Target, VhostId};
use crate::broker::{Broker, topology};

impl Broker {
    /// The vhost of a channel, and its connection as an owner of queues.
    pub(crate) fn place(&self, channel: ChannelSlot) -> (VhostId, Owner) {
        let number = self.channels[channel].connection;
        let connection = &self.connections[number];
        (connection.vhost, ConnectionId::new(number, connection.serial).to_bits())
    }

    pub(crate) fn vhost_name(&self, channel: ChannelSlot) -> &str {
        let connection = &self.connections[self.channels[channel].connection];
        &self.principals.get(connection.principal).vhost
    }

    /// Ask whether the user of a channel may do that.
    pub(crate) fn check_access(
        &mut self,
        channel: ChannelSlot,
        verb: Verb,
        resource: Resource,
        name: &str,
    ) -> Result<(), AmqpError> {
        let principal = self.connections[self.channels[channel].connection].principal;
        if self.principals.allows(&mut *self.control, principal, verb, resource, name) {
            return Ok(());
        }
        let verb = match verb {
            Verb::Configure => "configure",
            Verb::Write => "write",
            Verb::Read => "read",
        };
        let (resource, name) = match (resource, name) {
            (Resource::Exchange, "") => ("exchange", "amq.default"),
            (Resource::Exchange, name) => ("exchange", name),
            (Resource::Queue, name) => ("queue", name),
        };
        let principal = self.principals.get(principal);
        let reason = format!(
            "{verb} access to {resource} '{name}' in vhost '{}' refused for user '{}'",
            principal.vhost, principal.user
        );
        Err(error(ReplyCode::AccessRefused, &reason))
    }

    /// What an empty queue name means: the queue that the channel declared last.
    pub(crate) fn queue_name<'a>(&'a self, channel: ChannelSlot, name: &'a str) -> Result<&'a str, AmqpError> {
        match (name, &*self.channels[channel].last_queue) {
            ("", "") => Err(error(ReplyCode::NotFound, "no previously declared queue")),
            ("", last) => Ok(last),
            (name, _) => Ok(name),
        }
    }

    pub(crate) fn declare_exchange(&mut self, channel: ChannelSlot, it: &ExchangeDeclare<'_>) -> Result<(), AmqpError> {
        let (vhost, _) = self.place(channel);
        if it.passive {
            self.topology.check_exchange(vhost, it.exchange)?;
        } else {
            self.check_access(channel, Verb::Configure, Resource::Exchange, it.exchange)?;
            if it.durable && self.topology.check_exchange(vhost, it.exchange).is_err() {
                self.check_room()?;
            }
            let settings = ExchangeSettings {
                kind: it.exchange_type.parse()?,
                durable: it.durable,
                auto_delete: it.auto_delete,
                internal: it.internal,
                arguments: it.arguments,
            };
            if let Some(alternate) = it.arguments.get("alternate-exchange").and_then(|value| value.as_str()) {
                self.check_access(channel, Verb::Read, Resource::Exchange, it.exchange)?;
                self.check_access(channel, Verb::Write, Resource::Exchange, alternate)?;
            }
            self.topology.declare_exchange(vhost, it.exchange, &settings)?;
            self.changed();
        }
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeDeclareOk {}.into()) }
    }

    pub(crate) fn delete_exchange(&mut self, channel: ChannelSlot, it: &ExchangeDelete<'_>) -> Result<(), AmqpError> {
        let (vhost, _) = self.place(channel);
        self.check_access(channel, Verb::Configure, Resource::Exchange, it.exchange)?;
        self.topology.delete_exchange(vhost, it.exchange, it.if_unused)?;
        self.changed();
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeDeleteOk {}.into()) }
    }

    pub(crate) fn bind_exchange(&mut self, channel: ChannelSlot, it: &ExchangeBind<'_>) -> Result<(), AmqpError> {
        let target = Target::Exchange(it.destination);
        self.bind(channel, &Bind { source: it.source, target, key: it.routing_key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeBindOk {}.into()) }
    }

    pub(crate) fn unbind_exchange(&mut self, channel: ChannelSlot, it: &ExchangeUnbind<'_>) -> Result<(), AmqpError> {
        let target = Target::Exchange(it.destination);
        self.unbind(channel, &Bind { source: it.source, target, key: it.routing_key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeUnbindOk {}.into()) }
    }

    pub(crate) fn bind_queue(&mut self, channel: ChannelSlot, it: &QueueBind<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.queue_name(channel, it.queue)?.into();
        // Neither a queue nor a key: the queue that was declared last, under its own name.
        let key = if it.queue.is_empty() && it.routing_key.is_empty() { &*name } else { it.routing_key };
        self.bind(channel, &Bind { source: it.exchange, target: Target::Queue(&name), key, arguments: it.arguments })?;
        if it.no_wait { Ok(()) } else { self.reply(channel, QueueBindOk {}.into()) }
    }

    pub(crate) fn unbind_queue(&mut self, channel: ChannelSlot, it: &QueueUnbind<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.queue_name(channel, it.queue)?.into();
        let key = if it.queue.is_empty() && it.routing_key.is_empty() { &*name } else { it.routing_key };
        self.unbind(
            channel,
            &Bind { source: it.exchange, target: Target::Queue(&name), key, arguments: it.arguments },
        )?;
        self.reply(channel, QueueUnbindOk {}.into())
    }

    fn bind(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        self.check_binding(channel, bind)?;
        topology::check_query_arguments(bind.arguments)?;
        let (vhost, owner) = self.place(channel);
        if let Err(full) = self.check_room()
            && self.topology.is_new_and_survives(vhost, bind, owner)?
        {
            return Err(full);
        }
        let control = &mut self.control;
        self.topology.bind(vhost, bind, owner, &mut |key| control.stored_query(key))?;
        self.changed();
        Ok(())
    }

    fn unbind(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        self.check_binding(channel, bind)?;
        let (vhost, owner) = self.place(channel);
        self.topology.unbind(vhost, bind, owner)?;
        self.changed();
        Ok(())
    }

    /// A binding writes to where it leads and reads from where it comes from.
    fn check_binding(&mut self, channel: ChannelSlot, bind: &Bind<'_>) -> Result<(), AmqpError> {
        let (resource, name) = match bind.target {
            Target::Queue(name) => (Resource::Queue, name),
            Target::Exchange(name) => (Resource::Exchange, name),
        };
        self.check_access(channel, Verb::Write, resource, name)?;
        self.check_access(channel, Verb::Read, Resource::Exchange, bind.source)?;
        self.check_topic_access(channel, Verb::Read, bind.source, bind.key)
    }

    pub(crate) fn declare_queue(&mut self, channel: ChannelSlot, it: &QueueDeclare<'_>) -> Result<(), AmqpError> {
        let (vhost, owner) = self.place(channel);
        let (name, id) = if it.passive {
            let name: Box<str> = self.queue_name(channel, it.queue)?.into();
            let id = self.topology.queue(vhost, &name, owner)?;
            (name, id)
        } else {
            self.make_queue(channel, it)?
        };
        let queue = &mut self.queues[id];
        queue.used = self.now;
        let (ready, consumer_count) = (queue.ready().len() as u64, queue.consumers.len() as u32);
        let queue = &self.queues[id];
        let message_count = queue.stream.as_ref().map_or(ready, |stream| self.stream_length(stream));
        let message_count = u32::try_from(message_count).unwrap_or(u32::MAX);
        if !it.no_wait {
            self.reply(channel, QueueDeclareOk { queue: &name, message_count, consumer_count }.into())?;
        }
        self.channels[channel].last_queue = name;
        Ok(())
    }

    fn make_queue(&mut self, channel: ChannelSlot, it: &QueueDeclare<'_>) -> Result<(Box<str>, QueueId), AmqpError> {
        let (vhost, owner) = self.place(channel);
        let name: Box<str> = match it.queue {
            "" => format!("amq.gen-{:016x}{:016x}", self.next_random(), self.next_random()).into(),
            name => name.into(),
        };
        self.check_access(channel, Verb::Configure, Resource::Queue, &name)?;
        let policy = self.queue_policy(channel, it, &name)?;
        if let Some(letters) = &policy.dead_letters {
            // Else a queue of one's own would be a way to publish where one may not, or to take what one may not read.
            self.check_access(channel, Verb::Read, Resource::Queue, &name)?;
            self.check_access(channel, Verb::Write, Resource::Exchange, &letters.exchange)?;
        }
        let is_new = || self.topology.queue(vhost, &name, owner).is_err_and(|error| error.code == ReplyCode::NotFound);
        if it.durable && !it.exclusive && is_new() {
            self.check_room()?;
        }
        let settings = QueueSettings {
            durable: it.durable,
            exclusive: it.exclusive,
            auto_delete: it.auto_delete,
            arguments: it.arguments,
        };
        let (id, declared) = self.topology.declare_queue(vhost, &name, &settings, owner, it.queue.is_empty())?;
        if declared == Declared::Existed {
            // Whoever declared it may still wait for the disk, and this answer promises the same.
            if let Some(durable_id) = self.queues[id].durable_id {
                self.promise(SyncMark { log: JOURNAL, sequence: durable_id.0 });
            }
            return Ok((name, id));
        }
        let connection = self.channels[channel].connection;
        let user = self.principals.get(self.connections[connection].principal).user.clone();
        if let Err(reason) = self.principals.add_queue(&mut *self.control, &user) {
            self.topology.remove_queue(id);
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        let number = id;
        let mut queue = Queue::new(id, policy, self.next_serial(), self.now);
        queue.auto_delete = it.auto_delete;
        queue.creator = Some(user);
        queue.owner = it.exclusive.then_some(connection);
        let expires = queue.policy.expires_ms.is_some();
        self.queues.insert(number, queue);
        if it.exclusive {
            self.connections[connection].exclusive_queues.push(number);
        }
        if expires {
            self.watch(number);
        }
        self.changed();
        if self.queues[number].policy.kind == QueueKind::Stream
            && let Err(reason) = self.begin_stream(number, &name)
        {
            self.remove_queue(number);
            return Err(error(ReplyCode::ResourceError, &format!("the stream '{name}' cannot be opened: {reason}")));
        }
        Ok((name, id))
    }

    /// Give a queue of type stream, which was recorded just now, its log.
    fn begin_stream(&mut self, queue: QueueId, name: &str) -> Result<(), String> {
        let id = self.queues[queue].durable_id.ok_or("the journal has no room for its definition now")?;
        self.open_stream(queue, id, name)?;
        self.stream_queues.push(queue);
        Ok(())
    }

    /// What the arguments of a queue ask for.
    fn queue_policy(&self, channel: ChannelSlot, it: &QueueDeclare<'_>, name: &str) -> Result<Policy, AmqpError> {
        it.arguments.check().map_err(|error| error.at(QueueDeclare::ID))?;
        let place = || format!("for queue '{name}' in vhost '{}'", self.vhost_name(channel));
        let policy = Policy::parse(RawTable::new(it.arguments.as_bytes())).map_err(|(argument, reason)| {
            error(ReplyCode::PreconditionFailed, &format!("invalid arg '{argument}' {}: {reason}", place()))
        })?;
        if policy.kind == QueueKind::Stream && self.journal.is_none() {
            return Err(error(ReplyCode::NotImplemented, "queues of type stream without a data directory"));
        }
        let needs_durable = matches!(policy.kind, QueueKind::Quorum | QueueKind::Stream);
        let refused = match policy.kind {
            _ if needs_durable && !it.durable => Some("non-durable"),
            _ if needs_durable && it.exclusive => Some("exclusive"),
            QueueKind::Stream if it.auto_delete => Some("auto-delete"),
            _ => None,
        };
        match refused {
            Some(property) => {
                let reason = format!("invalid property '{property}' {}: type {}", place(), policy.kind.name());
                Err(error(ReplyCode::PreconditionFailed, &reason))
            }
            None => Ok(policy),
        }
    }

    pub(crate) fn purge_queue(&mut self, channel: ChannelSlot, it: &QueuePurge<'_>) -> Result<(), AmqpError> {
        let (queue, _) = self.named_queue(channel, it.queue, Verb::Read)?;
        if self.queues[queue].stream.is_some() {
            return Err(error(ReplyCode::NotImplemented, "queue.purge of a stream"));
        }
        let message_count = self.drain(queue);
        if it.no_wait { Ok(()) } else { self.reply(channel, QueuePurgeOk { message_count }.into()) }
    }

    /// Drop all that is ready in a queue. Returns how many entries that were.
    fn drain(&mut self, queue: QueueId) -> u32 {
        let it = &mut self.queues[queue];
        let entries = it.drain();
        let count = entries.len() as u32;
        if count > 0 {
            self.rubbish.push_back(Rubbish { entries, durable_id: it.durable_id });
        }
        count
    }

    pub(crate) fn delete_queue(&mut self, channel: ChannelSlot, it: &QueueDelete<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.queue_name(channel, it.queue)?.into();
        self.check_access(channel, Verb::Configure, Resource::Queue, &name)?;
        let (vhost, owner) = self.place(channel);
        let queues = &self.queues;
        let logs = &self.logs;
        let contents = |id: QueueId| {
            let queue = &queues[id];
            let log = queue.stream.as_ref().and_then(|stream| logs.get(&stream.number));
            let in_log = log.map_or(0, |log| log.next_sequence().0.saturating_sub(log.first_sequence().0));
            (queue.consumers.len(), queue.ready().len() + in_log as usize)
        };
        let id = self.topology.delete_queue(vhost, &name, owner, (it.if_unused, it.if_empty), contents)?;
        let message_count = id.map_or(0, |id| self.forget_queue(id));
        if it.no_wait { Ok(()) } else { self.reply(channel, QueueDeleteOk { message_count }.into()) }
    }

    /// Remove a queue with all bindings to it: its owner is gone, or its last consumer, or its time is up.
    pub(crate) fn remove_queue(&mut self, queue: QueueId) {
        if let Some(it) = self.queues.get(queue) {
            self.topology.remove_queue(it.id);
            self.forget_queue(queue);
        }
    }

    /// Drop what the broker keeps of a queue that the topology has removed. Returns how many entries were ready.
    fn forget_queue(&mut self, queue: QueueId) -> u32 {
        self.changed();
        let count = self.drain(queue);
        self.cancel_consumers(queue);
        if let Some(it) = self.queues.remove(queue) {
            if let Some(stream) = &it.stream {
                self.drop_stream(stream);
                self.stream_queues.retain(|other| *other != queue);
            }
            if let (Some(durable_id), Some(journal)) = (it.durable_id, &mut self.journal)
                && it.unacknowledged > 0
                && it.stream.is_none()
            {
                let reference = Handle { id: queue, serial: it.serial };
                journal.gone.insert(reference, (durable_id, it.unacknowledged));
            }
            if let Some(user) = &it.creator {
                self.principals.remove_queue(user);
            }
            if let Some(owner) = it.owner {
                // It is no longer that connection's to remove.
                self.connections[owner].exclusive_queues.retain(|other| *other != queue);
            }
        }
        count
    }
}

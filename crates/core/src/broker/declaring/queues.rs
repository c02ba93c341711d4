//! Declares, purges and deletes queues.

use std::sync::Arc;

use crate::amqp::method::{QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge, QueuePurgeOk};
use crate::amqp::{AmqpError, RawTable, ReplyCode};

use crate::broker::Broker;
use crate::broker::access::ANY_KEY;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionId, ConsumerSlot, JOURNAL, PURGES, RETIRED};
use crate::broker::publishing::confirms::DiskMark;
use crate::broker::queues::policy::{DeadLetters, Policy, QueueKind};
use crate::broker::queues::queue::Queue;
use crate::broker::streams::reading::{NewLog, cannot_be_opened};
use crate::broker::topology::{Declared, DefinitionKey, Owner, QueueId, QueueSettings, VhostId};

impl Broker {
    /// Carry out queue.declare.
    pub(crate) fn declare_queue(&mut self, channel: ChannelSlot, it: &QueueDeclare<'_>) -> Result<(), AmqpError> {
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        let (name, id) = if it.passive {
            let name: Box<str> = self.clients[channel].queue_name(it.queue)?.into();
            let id = self.topology.queue(vhost, &name, owner)?;
            (name, id)
        } else {
            // A stream waits for its files, and then is declared anew.
            let Some(made) = self.make_queue(channel, it)? else { return Ok(()) };
            made
        };
        // What has expired is not counted.
        self.expire_head(id);
        let queue = &mut self.queues[id];
        queue.used = self.clock.now();
        let (ready, consumer_count) = (queue.ready().len() as u64, queue.consumers.len() as u32);
        let queue = &self.queues[id];
        let message_count = queue.stream.as_ref().map_or(ready, |stream| self.streams.length(stream.log));
        let message_count = u32::try_from(message_count).unwrap_or(u32::MAX);
        if !it.no_wait {
            self.reply(channel, QueueDeclareOk { queue: &name, message_count, consumer_count }.into())?;
        }
        self.clients[channel].last_queue = name;
        Ok(())
    }

    /// Declare a queue that is not passive. Returns its name and id; None when it is a stream whose files are being made.
    fn make_queue(
        &mut self,
        channel: ChannelSlot,
        it: &QueueDeclare<'_>,
    ) -> Result<Option<(Box<str>, QueueId)>, AmqpError> {
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        let name: Box<str> = match it.queue {
            "" => self.new_queue_name(channel),
            name => name.into(),
        };
        self.check_access(channel, Verb::Configure, Resource::Queue, &name)?;
        let policy = self.queue_policy(channel, it, &name)?;
        if let Some(letters) = &policy.dead_letters {
            self.check_letters(channel, vhost, &name, letters)?;
        }
        let user = Arc::clone(&self.principal(channel).user);
        let mut log = None;
        if self.topology.queue(vhost, &name, owner).is_err_and(|error| error.code == ReplyCode::NotFound) {
            self.check_memory_for_definitions()?;
            let key = DefinitionKey::queue(&self.principal(channel).vhost, &name);
            if it.durable && !it.exclusive {
                self.durability.check_room()?;
                self.durability.check_retired(&key, &name)?;
            }
            if policy.kind == QueueKind::Stream {
                self.topology.check_new_queue(&name, it.queue.is_empty())?;
                let refused = |reason: String| error(ReplyCode::PreconditionFailed, &reason);
                self.permissions.check_queues(&user).map_err(refused)?;
                log = self.take_opened(channel, &key, (&name, it.queue.is_empty()), &policy)?;
                if log.is_none() {
                    return Ok(None);
                }
            }
        }
        let settings = QueueSettings {
            durable: it.durable,
            exclusive: it.exclusive,
            auto_delete: it.auto_delete,
            arguments: it.arguments,
            creator: Some(&user),
        };
        let (id, declared) = self.topology.declare_queue(vhost, &name, &settings, owner, it.queue.is_empty())?;
        if declared == Declared::Existed {
            self.promise_queue(id);
            return Ok(Some((name, id)));
        }
        if let Err(reason) = self.permissions.add_queue(&user) {
            self.topology.remove_queue(id);
            self.changed();
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        if policy.kind == QueueKind::Quorum {
            self.warn(
                channel,
                format!("queue '{name}'"),
                "type quorum: the queue has one copy, on this broker".to_owned(),
            );
        }
        let mut queue = Queue::new(policy, self.unique.next_serial(), self.clock.now());
        queue.creator = Some(user);
        self.queues.insert(id, queue);
        if it.exclusive {
            let connection = self.clients[channel].connection;
            self.clients[connection].exclusive_queues.push(id);
        }
        self.queues.set_timer(id);
        match log {
            Some(log) => self.begin_stream(id, &name, log)?,
            None => self.changed(),
        }
        Ok(Some((name, id)))
    }

    /// A name for a queue that was declared without one: the one that it was given before it waited for its files.
    fn new_queue_name(&mut self, channel: ChannelSlot) -> Box<str> {
        let handle = self.clients[channel].handle(channel);
        self.durability.generated_name(handle).unwrap_or_else(|| self.unique.next_name("amq.gen-").into())
    }

    /// Check where a queue's dead letters go. Otherwise a user's own queue would be a way to publish or to read where the user
    /// may not.
    fn check_letters(
        &mut self,
        channel: ChannelSlot,
        vhost: VhostId,
        queue: &str,
        letters: &DeadLetters,
    ) -> Result<(), AmqpError> {
        self.check_access(channel, Verb::Read, Resource::Queue, queue)?;
        self.check_access(channel, Verb::Write, Resource::Exchange, &letters.exchange)?;
        if self.is_addressed(vhost, &letters.exchange, letters.routing_key.as_deref()) {
            let reason = format!("dead letters of queue '{queue}' cannot go to a mailbox or a service");
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        let key = letters.routing_key.as_deref().unwrap_or(ANY_KEY);
        self.check_topic_access(channel, Verb::Write, &letters.exchange, key)
    }

    /// Answer for a queue that exists: its first declaration may still wait for the disk, and this answer promises the same.
    fn promise_queue(&mut self, queue: QueueId) {
        match self.queues[queue].durable_id {
            Some(durable_id) => self.publishing.promise(DiskMark { log: JOURNAL, sequence: durable_id.0 }),
            None => self.await_changes(),
        }
    }

    /// Give a new queue of type stream its log, and record it. The log was there first, so that no recorded stream ever lacks
    /// it; it is named by the number that the definition has.
    fn begin_stream(&mut self, queue: QueueId, name: &str, (log, dir, definition): NewLog) -> Result<(), AmqpError> {
        self.give_log(queue, log, dir);
        self.changed();
        if self.queues[queue].durable_id == Some(definition) {
            return Ok(());
        }
        self.remove_queue(queue);
        Err(cannot_be_opened(name, "the journal has no room for its definition now"))
    }

    /// Read the arguments of a queue.
    ///
    /// # Errors
    /// 406 or 540, with the argument.
    fn queue_policy(&self, channel: ChannelSlot, it: &QueueDeclare<'_>, name: &str) -> Result<Policy, AmqpError> {
        it.arguments.check().map_err(|error| error.at(QueueDeclare::ID))?;
        let which = || format!("for queue '{name}' in vhost '{}'", self.principal(channel).vhost);
        let arguments = RawTable::new(it.arguments.as_bytes());
        let policy = Policy::check_known(arguments).and_then(|()| Policy::parse(arguments));
        let policy = policy.and_then(|policy| policy.check_together(arguments).map(|()| policy));
        let policy = policy.map_err(|(argument, reason)| {
            error(ReplyCode::PreconditionFailed, &format!("invalid arg '{argument}' {}: {reason}", which()))
        })?;
        if policy.kind == QueueKind::Stream && !self.durability.is_on() {
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
                let reason = format!("invalid property '{property}' {}: type {}", which(), policy.kind.name());
                Err(error(ReplyCode::PreconditionFailed, &reason))
            }
            None => Ok(policy),
        }
    }

    /// Carry out queue.purge.
    pub(crate) fn purge_queue(&mut self, channel: ChannelSlot, it: &QueuePurge<'_>) -> Result<(), AmqpError> {
        let (queue, _) = self.named_queue(channel, it.queue, Verb::Read)?;
        if self.queues[queue].stream.is_some() {
            return Err(error(ReplyCode::NotImplemented, "queue.purge of a stream"));
        }
        let message_count = self.purge(queue);
        if it.no_wait { Ok(()) } else { self.reply(channel, QueuePurgeOk { message_count }.into()) }
    }

    /// Drop all ready entries of a queue, and return their number. If the queue is durable, the answer waits until none can
    /// come back, nor any that a purge shortly before has dropped.
    fn purge(&mut self, queue: QueueId) -> u32 {
        let is_durable = self.queues[queue].durable_id.is_some();
        let count = self.queues.drain(queue, is_durable);
        if is_durable {
            if count > 0 {
                self.durability.begin_purge();
            }
            self.publishing.promise(DiskMark { log: PURGES, sequence: self.durability.last_purge() });
        }
        count
    }

    /// Carry out queue.delete.
    pub(crate) fn delete_queue(&mut self, channel: ChannelSlot, it: &QueueDelete<'_>) -> Result<(), AmqpError> {
        let name: Box<str> = self.clients[channel].queue_name(it.queue)?.into();
        self.check_access(channel, Verb::Configure, Resource::Queue, &name)?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        let (queues, streams) = (&self.queues, &self.streams);
        let contents = |id: QueueId| {
            let queue = &queues[id];
            let in_log = queue.stream.as_ref().map_or(0, |stream| streams.length(stream.log));
            (queue.consumers.len(), queue.ready().len() + queue.held.len() + in_log as usize)
        };
        let id = self.topology.delete_queue(vhost, &name, owner, (it.if_unused, it.if_empty), contents)?;
        // An exclusive queue can only be deleted by the connection that owns it.
        let (message_count, consumers) = id.map_or((0, Vec::new()), |id| self.forget_queue(id, Some(owner)));
        if !it.no_wait {
            self.reply(channel, QueueDeleteOk { message_count }.into())?;
        }
        // Behind the answer: a client may close its channel when it is told.
        self.cancel_consumers(consumers);
        Ok(())
    }

    /// Remove a queue with all bindings to it, because its owner or its last consumer is gone, or its time is up.
    pub(crate) fn remove_queue(&mut self, id: QueueId) {
        if self.queues.get(id).is_some() {
            let owner = self.topology.queue_info(id).and_then(|info| info.owner);
            self.topology.remove_queue(id);
            let (_, consumers) = self.forget_queue(id, owner);
            self.cancel_consumers(consumers);
        }
    }

    /// Drop the contents of a queue that the topology has removed. Returns the number of entries that were ready, and the
    /// consumers, which have to be cancelled. `owner` is the connection that may have it among its exclusive queues.
    fn forget_queue(&mut self, id: QueueId, owner: Option<Owner>) -> (u32, Vec<ConsumerSlot>) {
        self.changed();
        let count = self.queues.drain(id, false);
        let Some(queue) = self.queues.remove(id) else { return (count, Vec::new()) };
        if let Some(durable_id) = queue.durable_id.filter(|id| !self.durability.is_forgotten(*id)) {
            // Its dead letters are published first.
            self.publishing.promise(DiskMark { log: RETIRED, sequence: durable_id.0 });
        }
        match (&queue.stream, queue.durable_id) {
            (Some(stream), _) => self.drop_stream(id, stream),
            (None, Some(durable_id)) if queue.unacknowledged > 0 => {
                let handle = queue.handle(id);
                self.durability.queue_deleted(handle, durable_id, queue.unacknowledged);
            }
            _ => {}
        }
        if let Some(user) = &queue.creator {
            self.permissions.remove_queue(user);
        }
        if let Some(owner) = owner.and_then(|owner| self.clients.find(ConnectionId::from_bits(owner))) {
            // It is no longer that connection's to remove.
            self.clients[owner].exclusive_queues.retain(|other| *other != id);
        }
        self.release_held_letters(queue.held);
        (count, queue.consumers)
    }
}

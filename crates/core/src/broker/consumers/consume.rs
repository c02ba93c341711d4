//! Methods that take messages: basic.consume, basic.cancel, basic.get and basic.qos.

use crate::amqp::method::{
    BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicGet, BasicGetEmpty, BasicQos,
};
use crate::amqp::{AmqpError, RawTable, RawValue, ReplyCode};

use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::connections::channel::Channel;
use crate::broker::connections::lifecycle::QUEUES_AT_ONCE;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::consumers::credit::Credit;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConsumerSlot};
use crate::broker::queues::policy::milliseconds;
use crate::broker::streams::named_readers::READER;
use crate::broker::streams::reading::OFFSET;
use crate::broker::topology::{AddressKind, QueueId};
use crate::spelling;

impl Broker {
    /// Carry out basic.qos.
    pub(crate) fn qos(&mut self, channel: ChannelSlot, qos: &BasicQos) -> Result<(), AmqpError> {
        if qos.prefetch_size != 0 {
            return Err(error(ReplyCode::NotImplemented, &format!("prefetch_size!=0 ({})", qos.prefetch_size)));
        }
        let (connection, it) = self.clients.channel_outlet(channel);
        if !qos.global && !connection.qos_is_for_channel {
            it.prefetch = qos.prefetch_count;
        } else if it.credit.set_limit(qos.prefetch_count) {
            self.wake_channel(channel);
        }
        Ok(())
    }

    /// Carry out basic.consume.
    pub(crate) fn consume(&mut self, channel: ChannelSlot, consume: &BasicConsume<'_>) -> Result<(), AmqpError> {
        consume.arguments.check().map_err(|error| error.at(BasicConsume::ID))?;
        let (queue, name) = self.named_queue(channel, consume.queue, Verb::Read)?;
        self.check_consume(channel, queue, &name, consume)?;
        let of = &self.queues[queue];
        let ConsumerArguments { priority, timeout_ms } =
            ConsumerArguments::parse(consume.arguments, of.stream.is_some())?;
        let timeout_ms = timeout_ms.or(of.policy.consumer_timeout_ms);
        let address = of.policy.address;
        refuse_unacknowledged(address, consume.no_ack)?;
        let reader = self.read_stream(channel, queue, consume)?;
        let tag = match consume.consumer_tag {
            "" => self.unique.next_name("amq.ctag-"),
            tag => tag.to_owned(),
        };
        let serial = self.unique.next_serial();
        let it = &self.clients[channel];
        let consumer = self.clients.add_consumer(Consumer {
            connection: it.connection,
            channel,
            queue,
            serial,
            tag: [&[tag.len() as u8], tag.as_bytes()].concat().into(),
            no_ack: consume.no_ack,
            is_exclusive: consume.exclusive,
            credit: Credit::new(prefetch(it, address)),
            priority,
            timeout_ms,
            reader,
            is_waiting: false,
        });
        self.clients[channel].limit_time(timeout_ms);
        let of = &mut self.queues[queue];
        of.consumers.push(consumer);
        of.has_exclusive_consumer = consume.exclusive;
        of.used = self.clock.now();
        match consume.no_wait {
            false => self.reply(channel, BasicConsumeOk { consumer_tag: &tag }.into())?,
            true => self.hold_promised(channel),
        }
        self.wake(consumer);
        Ok(())
    }

    /// Check that a channel may have another consumer, and that the queue may.
    fn check_consume(
        &self,
        channel: ChannelSlot,
        queue: QueueId,
        name: &str,
        consume: &BasicConsume<'_>,
    ) -> Result<(), AmqpError> {
        let it = &self.clients[channel];
        if self.clients.consumer_named(channel, consume.consumer_tag).is_some() {
            let reason = format!("attempt to reuse consumer tag '{}'", consume.consumer_tag);
            return Err(error(ReplyCode::NotAllowed, &reason));
        }
        if it.consumers.len() >= self.options.consumers_max {
            return Err(error(
                ReplyCode::NotAllowed,
                &format!("a channel has at most {} consumers", it.consumers.len()),
            ));
        }
        let of = &self.queues[queue];
        if of.has_exclusive_consumer || (consume.exclusive && !of.consumers.is_empty()) {
            let reason = format!("queue '{name}' in vhost '{}' in exclusive use", self.principal(channel).vhost);
            return Err(error(ReplyCode::AccessRefused, &reason));
        }
        Ok(())
    }

    /// Carry out basic.cancel. A consumer that does not exist is cancelled already.
    pub(crate) fn cancel(&mut self, channel: ChannelSlot, cancel: &BasicCancel<'_>) -> Result<(), AmqpError> {
        if let Some(consumer) = self.clients.consumer_named(channel, cancel.consumer_tag) {
            self.clients[channel].consumers.retain(|other| *other != consumer);
            self.remove_consumers(&[consumer]);
        }
        if cancel.no_wait {
            return Ok(());
        }
        self.reply(channel, BasicCancelOk { consumer_tag: cancel.consumer_tag }.into())
    }

    /// Remove consumers, which their channels do not list any more, from their queues. Their unacknowledged deliveries stay
    /// with the channels. An auto-delete queue goes with its last consumer. Cost: linear in the consumers of these queues.
    pub(crate) fn remove_consumers(&mut self, slots: &[ConsumerSlot]) {
        let mut removed: Vec<_> = slots.iter().map(|slot| (self.clients[*slot].queue, *slot)).collect();
        removed.sort_unstable();
        let mut unused = 0;
        for group in removed.chunk_by(|a, b| a.0 == b.0) {
            let queue = group[0].0;
            self.remove_consumers_of(queue, group);
            if self.queues[queue].consumers.is_empty() && self.topology.is_auto_delete(queue) {
                unused += 1;
                if unused <= QUEUES_AT_ONCE { self.remove_queue(queue) } else { self.queues.abandon(queue) }
            }
        }
    }

    /// Remove consumers from their queue; `removed` ascends.
    fn remove_consumers_of(&mut self, queue: QueueId, removed: &[(QueueId, ConsumerSlot)]) {
        let (mut were_waiting, mut was_exclusive) = (false, false);
        for (_, slot) in removed {
            let mut consumer = self.clients.remove_consumer(*slot);
            self.record_last_offset(&mut consumer, *slot);
            self.leave_stream(*slot, &consumer);
            self.forget_filter(&consumer);
            were_waiting |= consumer.is_waiting;
            was_exclusive |= consumer.is_exclusive;
        }
        let it = &mut self.queues[queue];
        let stays = |consumer: ConsumerSlot| removed.binary_search(&(queue, consumer)).is_err();
        if were_waiting && it.stream.is_none() {
            it.ring.retain(stays);
        }
        it.consumers.retain(|consumer| stays(*consumer));
        it.has_exclusive_consumer &= !was_exclusive;
        it.used = self.clock.now();
        if it.consumers.is_empty() {
            self.queues.set_timer(queue);
        }
    }

    /// Give back what the query of a consumer took.
    fn forget_filter(&mut self, consumer: &Consumer) {
        if let Some(filter) = consumer.reader.as_ref().and_then(|reader| reader.filter()) {
            let (vhost, owner) = self.clients.vhost_and_owner(consumer.channel);
            self.topology.remove_filter(vhost, owner, filter);
        }
    }

    /// Remove the consumers of a queue that is deleted, and tell their clients: behind answers that wait to be given. Cost:
    /// linear in the consumers of their channels.
    pub(crate) fn cancel_consumers(&mut self, mut consumers: Vec<ConsumerSlot>) {
        let mut channels = Vec::new();
        for &slot in &consumers {
            let mut consumer = self.clients.remove_consumer(slot);
            self.record_last_offset(&mut consumer, slot);
            self.leave_stream(slot, &consumer);
            self.forget_filter(&consumer);
            channels.push(consumer.channel);
            let (connection, _) = self.clients.channel_outlet(consumer.channel);
            if connection.knows_cancel
                && let Ok(consumer_tag) = std::str::from_utf8(consumer.name())
            {
                self.clients.answer_in_order(consumer.channel, BasicCancel { consumer_tag, no_wait: true }.into());
            }
        }
        consumers.sort_unstable();
        channels.sort_unstable();
        channels.dedup();
        for channel in channels {
            self.clients[channel].consumers.retain(|consumer| consumers.binary_search(consumer).is_err());
        }
    }

    /// Carry out basic.get. Where more has expired than fits into the turn, it is carried out in a later one, and where too
    /// many dead letters wait already, or there is no memory for a large message, after a later tick. Where the message has to
    /// come from the disk, it is tried again soon.
    pub(crate) fn get(&mut self, channel: ChannelSlot, get: &BasicGet<'_>) -> Result<(), AmqpError> {
        let (queue, _) = self.named_queue(channel, get.queue, Verb::Read)?;
        if self.queues[queue].stream.is_some() {
            return Err(error(ReplyCode::NotImplemented, "basic.get from a stream"));
        }
        refuse_unacknowledged(self.queues[queue].policy.address, get.no_ack)?;
        self.clients[channel].limit_time(self.queues[queue].policy.consumer_timeout_ms);
        self.queues[queue].used = self.clock.now();
        if self.queues[queue].held.are_too_many() {
            return self.reply(channel, BasicGetEmpty { cluster_id: "" }.into());
        }
        let connection = self.clients[channel].connection;
        while self.expire_head(queue) && self.has_memory_for(connection, self.front_size(queue)) {
            let prepared = self.prepare_front(queue);
            if let Ok(false) = prepared {
                self.let_connection_await_disk(connection);
                return Ok(());
            }
            let Some(entry) = self.queues.pop(queue, &self.messages) else {
                return self.reply(channel, BasicGetEmpty { cluster_id: "" }.into());
            };
            match prepared {
                Err(reason) => self.lose(queue, entry, reason),
                Ok(_) => {
                    self.deliver_got(channel, queue, entry, get.no_ack);
                    return Ok(());
                }
            }
        }
        if !self.turn.is_over() {
            self.hold_until_tick(connection);
        }
        self.turn.repeat_frame();
        Ok(())
    }

    /// The queue with this name, or the one that the channel declared last, if the user may do this with it.
    pub(crate) fn named_queue(
        &mut self,
        channel: ChannelSlot,
        name: &str,
        verb: Verb,
    ) -> Result<(QueueId, Box<str>), AmqpError> {
        let name: Box<str> = self.clients[channel].queue_name(name)?.into();
        if let Some((kind, address)) = AddressKind::of_queue(&name) {
            return Ok((self.address_to_read(channel, kind, address)?, name));
        }
        self.check_access(channel, verb, Resource::Queue, &name)?;
        let (vhost, owner) = self.clients.vhost_and_owner(channel);
        let id = self.topology.queue(vhost, &name, owner)?;
        Ok((id, name))
    }
}

/// Arguments that only a reader of a stream has: to ignore them would deliver other messages than were asked for.
const OF_STREAMS: [&str; 4] = [OFFSET, READER, "x-stream-filter", "x-stream-match-unfiltered"];

/// The arguments of a reader of a stream.
const OF_READERS: [&str; 7] = [OFFSET, READER, "x-query", "x-query-language", "x-query-body", "x-query-key", TIMEOUT];

const TIMEOUT: &str = "x-consumer-timeout";

/// The arguments of a consumer.
#[derive(Debug, Default)]
struct ConsumerArguments {
    priority: i32,
    timeout_ms: Option<u64>,
}

impl ConsumerArguments {
    /// Read the arguments. What is not offered for such a queue is refused by name. A reader of a stream has no other
    /// arguments that begin with `x-`; those of other consumers are ignored, as those of exchanges are.
    fn parse(arguments: RawTable<'_>, is_reader: bool) -> Result<Self, AmqpError> {
        let mut parsed = Self::default();
        for (name, value) in arguments.iter().map_while(Result::ok) {
            parsed.set(name, value, is_reader).map_err(|reason| {
                error(ReplyCode::PreconditionFailed, &format!("invalid arg '{name}' of a consumer: {reason}"))
            })?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: RawValue<'_>, is_reader: bool) -> Result<(), String> {
        match name {
            TIMEOUT => self.timeout_ms = Some(milliseconds(value, 1)?),
            "x-priority" if !is_reader => {
                let priority = value.as_i64().and_then(|value| i32::try_from(value).ok());
                self.priority = priority.ok_or("expected an integer of 32 bits")?;
            }
            _ if is_reader => check_of_reader(name)?,
            _ if OF_STREAMS.contains(&name) || name.starts_with("x-query") => {
                return Err("not offered by this broker for such a queue".to_owned());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Check that a reader of a stream has such an argument. Those that do not begin with `x-` are the client's own.
fn check_of_reader(name: &str) -> Result<(), String> {
    let is_own = !name.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-"));
    if is_own || OF_READERS.contains(&name) {
        return Ok(());
    }
    Err(match spelling::nearest(name, &OF_READERS) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("a reader of a stream has none; expected one of {}", OF_READERS.join(", ")),
    })
}

/// Refuse to deliver without acknowledgement what must not be lost with its receiver.
fn refuse_unacknowledged(address: Option<AddressKind>, no_ack: bool) -> Result<(), AmqpError> {
    match address {
        Some(kind) if no_ack => {
            let reason = format!("a {} has no consumers without acknowledgement", kind.name());
            Err(error(ReplyCode::PreconditionFailed, &reason))
        }
        _ => Ok(()),
    }
}

/// The prefetch of a new consumer: a worker that has set none gets one request at a time.
fn prefetch(channel: &Channel, address: Option<AddressKind>) -> u16 {
    match (channel.prefetch, channel.credit.limit()) {
        (0, 0) if address == Some(AddressKind::Service) => 1,
        (prefetch, _) => prefetch,
    }
}

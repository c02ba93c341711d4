//! A message comes in: may it, where does it go, and what is the publisher told.

use crate::amqp::method::BasicPublish;
use crate::amqp::{AmqpError, BasicProperties, MethodId, ReplyCode};

use crate::journal::AppendError;

use crate::broker::Broker;
use crate::broker::access::{Resource, Verb};
use crate::broker::connections::content::PublishFlags;
use crate::broker::connections::dispatch::error;
use crate::broker::durable::Saved;
use crate::broker::ids::{ChannelSlot, JOURNAL};
use crate::broker::publishing::confirms::{SyncMark, SyncMarks};
use crate::broker::queues::message_store::{Kept, Micros, NEVER, Parts};
use crate::broker::topology::{ExchangeKind, Published, QueueId};

/// The route that the last message of a channel took, for the next one with the same exchange and key. It holds while
/// the topology and the permissions stay as they were, and is kept only when the key alone decided.
#[derive(Debug)]
pub(crate) struct Memo {
    /// Exchange and key, as on the wire.
    route: Box<[u8]>,
    topology_version: u64,
    principals_version: u64,
    queues: Box<[QueueId]>,
}

/// A route to more queues is not remembered: looking it up costs little beside what it leads to.
const MEMO_QUEUES_MAX: usize = 64;

impl Broker {
    /// Publish a whole message on a channel: now, or with its transaction.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'_>,
        flags: PublishFlags,
    ) -> Result<(), AmqpError> {
        let properties = BasicProperties::parse(parts.properties).map_err(|error| error.at(BasicPublish::ID))?;
        if flags.immediate() {
            return Err(error(ReplyCode::NotImplemented, "immediate=true").at_publish());
        }
        self.note_publisher(self.channels[channel].connection);
        let it = &mut self.channels[channel];
        if let Some(transaction) = &mut it.transaction {
            if transaction.publish(parts, flags) {
                self.count_unfinished(channel);
                return self.check_publish(channel, parts, &properties);
            }
            return Err(error(ReplyCode::ResourceError, "too much is published in one transaction").at_publish());
        }
        self.publish_now(channel, parts, flags, properties)
    }

    /// The same when the transaction is committed.
    pub(crate) fn publish_now(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'_>,
        flags: PublishFlags,
        properties: BasicProperties<'_>,
    ) -> Result<(), AmqpError> {
        let mut routed = std::mem::take(&mut self.routed);
        routed.clear();
        let result = self.route(channel, parts, properties, &mut routed).and_then(|()| {
            let expires = self.expiration(&properties)?;
            self.accept(channel, parts, flags, properties, &routed, expires)
        });
        self.routed = routed;
        result.map_err(AtPublish::at_publish)
    }

    /// Whether the message may be published, apart from where it goes.
    fn check_publish(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'_>,
        properties: &BasicProperties<'_>,
    ) -> Result<(), AmqpError> {
        self.check_route(channel, parts).map_err(AtPublish::at_publish)?;
        self.check_user(channel, properties).map_err(AtPublish::at_publish)
    }

    /// The queues that a message goes to.
    fn route(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'_>,
        properties: BasicProperties<'_>,
        routed: &mut Vec<QueueId>,
    ) -> Result<(), AmqpError> {
        self.check_user(channel, &properties)?;
        if let Some(memo) = &self.channels[channel].memo
            && *memo.route == *parts.route
            && memo.topology_version == self.topology_version
            && memo.principals_version == self.principals.version
        {
            routed.extend_from_slice(&memo.queues);
            return Ok(());
        }
        let (exchange, routing_key) = self.check_route(channel, parts)?;
        let (vhost, _) = self.place(channel);
        let message = Published { exchange, routing_key, properties, body: parts.body };
        self.topology.route(vhost, &message, &mut self.route_scratch, routed)?;
        if self.route_scratch.key_decided() && routed.len() <= MEMO_QUEUES_MAX {
            self.channels[channel].memo = Some(Box::new(Memo {
                route: parts.route.into(),
                topology_version: self.topology_version,
                principals_version: self.principals.version,
                queues: routed.as_slice().into(),
            }));
        }
        Ok(())
    }

    /// The exchange and key of a message that may be published there.
    pub(crate) fn check_route<'a>(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'a>,
    ) -> Result<(&'a str, &'a str), AmqpError> {
        let text =
            |bytes| std::str::from_utf8(bytes).map_err(|_| error(ReplyCode::SyntaxError, "a name is not valid UTF-8"));
        let (exchange, routing_key) = (text(parts.exchange())?, text(parts.routing_key())?);
        self.check_access(channel, Verb::Write, Resource::Exchange, exchange)?;
        self.check_topic_access(channel, Verb::Write, exchange, routing_key)?;
        Ok((exchange, routing_key))
    }

    /// A client may sign its messages with its own name only.
    fn check_user(&self, channel: ChannelSlot, properties: &BasicProperties<'_>) -> Result<(), AmqpError> {
        let Some(claimed) = properties.user_id() else { return Ok(()) };
        let connection = self.channels[channel].connection;
        let user = &*self.principals.get(self.connections[connection].principal).user;
        if claimed == user {
            return Ok(());
        }
        let reason = format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        Err(error(ReplyCode::PreconditionFailed, &reason))
    }

    /// When a message's own time runs out.
    fn expiration(&self, properties: &BasicProperties<'_>) -> Result<Micros, AmqpError> {
        let Some(text) = properties.expiration() else { return Ok(NEVER) };
        match text.parse::<u32>() {
            Ok(milliseconds) => Ok(self.now + Micros::from(milliseconds) * 1000),
            Err(_) => {
                let reason = format!("invalid expiration '{text}': expected milliseconds between 0 and {}", u32::MAX);
                Err(error(ReplyCode::PreconditionFailed, &reason))
            }
        }
    }

    /// Put a message into the queues that it is routed to, and tell the publisher what it wants to be told.
    fn accept(
        &mut self,
        channel: ChannelSlot,
        parts: &Parts<'_>,
        flags: PublishFlags,
        properties: BasicProperties<'_>,
        routed: &[QueueId],
        expires: Micros,
    ) -> Result<(), AmqpError> {
        self.metrics.published += 1;
        self.spend(routed.len() as u32);
        let number = self.count_publish(channel);
        if routed.is_empty() {
            self.metrics.unroutable += 1;
            if flags.mandatory() {
                self.return_message(channel, parts);
            }
            return Ok(());
        }
        let mut marks = SyncMarks::new();
        let mut kept = Kept::Nowhere;
        if !self.stream_queues.is_empty() {
            let queues = routed.iter().copied();
            if let Err(reason) = self.append_to_streams(parts, queues, &mut marks) {
                return self.refuse_publish(channel, number, &reason);
            }
            if routed.iter().all(|queue| self.queues[*queue].stream.is_some()) {
                self.await_marks(channel, number, marks);
                return Ok(());
            }
        }
        if self.journal.is_some() && properties.is_persistent() {
            match self.save_for(parts, routed) {
                Ok(None) => {}
                Ok(Some((saved, queues))) => {
                    kept = Kept::Saved { record: saved.record, queues };
                    marks.push(SyncMark { log: JOURNAL, sequence: saved.sequence.0 });
                }
                // Nobody was promised that it survives.
                Err(AppendError::Busy | AppendError::Failed(_))
                    if number.is_none() && self.channels[channel].transaction.is_none() => {}
                Err(reason) => return self.refuse_publish(channel, number, &reason),
            }
        }
        let sequence = marks.iter().find(|mark| mark.log == JOURNAL).map_or(0, |mark| mark.sequence);
        if self.put_into_queues(parts, kept, sequence, routed, expires) {
            self.metrics.refused += 1;
            self.nack(channel, number);
            return Ok(());
        }
        if !marks.is_empty() {
            self.await_marks(channel, number, marks);
        }
        Ok(())
    }

    /// Put a message into the queues that it is routed to; streams have it already. `sequence` is that of its record, 0
    /// when there is none. Whether one of the queues refused it.
    pub(crate) fn put_into_queues(
        &mut self,
        parts: &Parts<'_>,
        kept: Kept,
        sequence: u64,
        routed: &[QueueId],
        expires: Micros,
    ) -> bool {
        let message = self.messages.insert(parts, self.wall_us());
        let it = self.messages.get_mut(message);
        it.kept = kept;
        it.sequence = sequence;
        let mut is_refused = false;
        for &queue in routed {
            if self.queues[queue].stream.is_some() {
                continue;
            }
            if self.queues[queue].refuses(parts.size()) {
                is_refused = true;
                continue;
            }
            self.metrics.enqueued += 1;
            self.messages.retain(message);
            let expires = expires.min(self.queue_expiry(queue));
            self.enqueue(queue, message, expires);
        }
        self.messages.release(message);
        self.page_out(message);
        is_refused
    }

    /// There is no room for a message: whoever wants to know that it is safe is told that it is not. One that never will
    /// have room closes the channel, like any message that is too large: who tries again would try for ever.
    fn refuse_publish(
        &mut self,
        channel: ChannelSlot,
        number: Option<u64>,
        reason: &AppendError,
    ) -> Result<(), AmqpError> {
        self.metrics.refused += 1;
        if self.channels[channel].transaction.is_some() || matches!(reason, AppendError::TooLarge { .. }) {
            return Err(error(ReplyCode::PreconditionFailed, &format!("the message cannot be kept: {reason}")));
        }
        self.nack(channel, number);
        Ok(())
    }

    /// Record a message for the durable queues among those that it goes to, and take it. None when there are none.
    pub(crate) fn save_for(
        &mut self,
        parts: &Parts<'_>,
        routed: &[QueueId],
    ) -> Result<Option<(Saved, u32)>, AppendError> {
        let mut ids = std::mem::take(&mut self.durable_ids);
        ids.clear();
        let takers = routed.iter().map(|queue| &self.queues[*queue]);
        let takers = takers.filter(|queue| queue.stream.is_none() && !queue.refuses(parts.size()));
        ids.extend(takers.filter_map(|queue| queue.durable_id));
        let saved = match ids.is_empty() {
            true => Ok(None),
            false => self.save(parts, &ids).map(|saved| Some((saved, ids.len() as u32))),
        };
        self.durable_ids = ids;
        saved
    }

    /// When the time of a message runs out that comes to this queue now.
    #[inline]
    fn queue_expiry(&self, queue: QueueId) -> Micros {
        self.queues[queue].policy.message_ttl_ms.map_or(NEVER, |ttl| self.now + ttl * 1000)
    }

    /// Whether routing keys matter to what may be done with this exchange, and if so, whether this one may.
    pub(crate) fn check_topic_access(
        &mut self,
        channel: ChannelSlot,
        verb: Verb,
        exchange: &str,
        routing_key: &str,
    ) -> Result<(), AmqpError> {
        let (vhost, _) = self.place(channel);
        let principal = self.connections[self.channels[channel].connection].principal;
        if !self.principals.has_topic_rules(&mut *self.control, principal) {
            return Ok(());
        }
        let is_topic = |info: crate::broker::topology::ExchangeInfo<'_>| info.settings.kind == ExchangeKind::Topic;
        if !self.topology.exchange_info(vhost, exchange).is_some_and(is_topic)
            || self.principals.allows_topic(&mut *self.control, principal, verb, exchange, routing_key)
        {
            return Ok(());
        }
        let principal = self.principals.get(principal);
        let verb = if verb == Verb::Write { "write" } else { "read" };
        let reason = format!(
            "{verb} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{}' refused for user '{}'",
            principal.vhost, principal.user
        );
        Err(error(ReplyCode::AccessRefused, &reason))
    }
}

/// Names basic.publish as the method that failed.
trait AtPublish {
    fn at_publish(self) -> Self;
}

impl AtPublish for AmqpError {
    fn at_publish(mut self) -> Self {
        if self.method == MethodId::NONE {
            self.method = BasicPublish::ID;
        }
        self
    }
}

//! Publishes a message: checks whether it may be published, routes it, stores it, and tells the publisher.

use std::sync::Arc;

use crate::amqp::method::BasicPublish;
use crate::amqp::{AmqpError, BasicProperties, ReplyCode};
use crate::journal::AppendError;

use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::addresses::stamp::{stamp, without_sender};
use crate::broker::connections::content::PublishFlags;
use crate::broker::connections::turn::STEP_NS;
use crate::broker::durability::journal_access::Room;
use crate::broker::durable::{Content, Saved, TimeToLive};
use crate::broker::errors::{FailedAt, error};
use crate::broker::ids::{ChannelSlot, JOURNAL};
use crate::broker::parts::{Arrived, Parts};
use crate::broker::publishing::confirms::{DiskMark, DiskMarks};
use crate::broker::publishing::further_keys::{FurtherKeys, further_keys, may_have_copies, without_blind_copies};
use crate::broker::publishing::route_memos::RouteKey;
use crate::broker::queues::message_bytes::SHARED_BYTES_MIN;
use crate::broker::queues::message_store::StoredMessage;
use crate::broker::queues::policy::TIME_MS_MAX;
use crate::broker::topology::{Published, QueueId};

/// Maximum time of matching a message that the turn need not pay for.
const FREE_NS_MAX: u64 = 50_000;

/// The properties of a message that queues obey.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub is_persistent: bool,
    /// Whether there may be keys that receivers must not see.
    pub may_have_copies: bool,
    /// Whether it goes to an address, so that its receivers must know who sent it.
    pub is_addressed: bool,
    /// The message's own time to live; a queue may have a shorter one.
    pub time_to_live_ms: Option<u64>,
}

impl Broker {
    /// Publish a complete message on a channel: now, or with its transaction.
    pub(crate) fn publish(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
    ) -> Result<(), AmqpError> {
        BasicProperties::parse(message.parts().properties).map_err(|error| error.at(BasicPublish::ID))?;
        if flags.immediate() {
            return Err(error(ReplyCode::NotImplemented, "immediate=true").at_publish());
        }
        if let Some(joined) = without_sender(&message.parts()) {
            *message = Arrived::Joined(joined);
        }
        let connection = self.clients[slot].connection;
        self.backpressure.has_passed = false;
        let result = self.publish_or_keep(slot, message, flags);
        self.backpressure.note_published(&mut self.clients, connection);
        result
    }

    /// Publish a message now, or keep it for its transaction.
    #[inline]
    fn publish_or_keep(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
    ) -> Result<(), AmqpError> {
        if let Some(transaction) = &mut self.clients[slot].transaction {
            let parts = message.parts();
            if transaction.publish(&parts, flags) {
                self.backpressure.count_unfinished(&mut self.clients[slot]);
                let properties = BasicProperties::from_checked(parts.properties);
                return self.check_publish(slot, &parts, &properties).map_err(FailedAt::at_publish);
            }
            return Err(error(ReplyCode::ResourceError, "too much is published in one transaction").at_publish());
        }
        self.publish_now(slot, message, flags)
    }

    /// Publish a complete message now.
    pub(super) fn publish_now(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
    ) -> Result<(), AmqpError> {
        self.turn.note_publish();
        let mut routed = std::mem::take(&mut self.publishing.routed);
        routed.clear();
        let terms = self.route_on_terms(slot, &message.parts(), &mut routed);
        let result = terms.and_then(|terms| self.accept_or_wait(slot, message, flags, &mut routed, terms));
        self.publishing.routed = routed;
        result.map_err(FailedAt::at_publish)
    }

    /// Put a message into its queues; one to an address is signed before.
    #[inline]
    fn accept_or_wait(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
        routed: &mut Vec<QueueId>,
        terms: Terms,
    ) -> Result<(), AmqpError> {
        if terms.is_addressed {
            return self.accept_addressed(slot, message, flags, routed, terms);
        }
        self.accept_with_room(slot, message, flags, routed, terms)
    }

    /// Put a message into its queues, or let it wait until all of them have room.
    #[inline]
    fn accept_with_room(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
        routed: &mut Vec<QueueId>,
        terms: Terms,
    ) -> Result<(), AmqpError> {
        match self.queues.first_blocking(routed, message.parts().size()) {
            Some(full) => self.wait_for_room(slot, message, flags, full),
            None => self.accept(slot, message, flags, routed, terms),
        }
    }

    /// Put a message to an address into its queues, signed with its sender.
    #[cold]
    fn accept_addressed(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
        routed: &mut Vec<QueueId>,
        mut terms: Terms,
    ) -> Result<(), AmqpError> {
        let about = Arc::clone(&self.clients[self.clients[slot].connection].about);
        let mut signed = self.with_sender(&about.identity, message, routed, &mut terms);
        self.accept_with_room(slot, &mut signed, flags, routed, terms)
    }

    /// Write the sender into a message to an address; it is kept as the address is.
    pub(super) fn with_sender(
        &self,
        identity: &str,
        message: &Arrived<'_>,
        routed: &[QueueId],
        terms: &mut Terms,
    ) -> Arrived<'static> {
        let is_durable = |queue: &QueueId| self.topology.queue_info(*queue).is_some_and(|info| info.settings.durable);
        terms.is_persistent |= routed.iter().any(is_durable);
        Arrived::Joined(stamp(identity, &message.parts(), terms.is_persistent))
    }

    /// Find the queues that a message goes to, and what it asks of them.
    #[inline]
    fn route_on_terms(
        &mut self,
        slot: ChannelSlot,
        parts: &Parts<'_>,
        routed: &mut Vec<QueueId>,
    ) -> Result<Terms, AmqpError> {
        let properties = BasicProperties::from_checked(parts.properties);
        let may_have_copies = may_have_copies(&properties);
        let is_addressed = self.route(slot, parts, properties, may_have_copies, routed)?;
        let time_to_live_ms = expiration(&properties)?;
        Ok(Terms { is_persistent: properties.is_persistent(), may_have_copies, is_addressed, time_to_live_ms })
    }

    /// Check all that can be known of a message before its transaction is committed.
    fn check_publish(
        &mut self,
        slot: ChannelSlot,
        parts: &Parts<'_>,
        properties: &BasicProperties<'_>,
    ) -> Result<(), AmqpError> {
        self.check_user(slot, properties)?;
        expiration(properties)?;
        let (exchange, _) = self.check_route(slot, parts, &further_keys(properties)?)?;
        let (vhost, _) = self.clients.vhost_and_owner(slot);
        self.topology.check_publish(vhost, exchange)
    }

    /// Find the queues that a message goes to: often those of a message of late. Returns whether some of them are of addresses.
    #[inline]
    pub(super) fn route(
        &mut self,
        slot: ChannelSlot,
        parts: &Parts<'_>,
        properties: BasicProperties<'_>,
        may_have_copies: bool,
        routed: &mut Vec<QueueId>,
    ) -> Result<bool, AmqpError> {
        self.check_user(slot, &properties)?;
        let key = self.route_key(slot, parts.route);
        if !may_have_copies && let Some(memo) = self.publishing.route_memos.find(&key) {
            routed.extend_from_slice(&memo.queues);
            return Ok(memo.is_addressed);
        }
        self.route_anew(slot, parts, properties, may_have_copies, routed)
    }

    /// What the route of a message of this channel is remembered by.
    #[inline]
    fn route_key<'a>(&self, slot: ChannelSlot, route: &'a [u8]) -> RouteKey<'a> {
        let principal = self.clients[self.clients[slot].connection].principal;
        RouteKey { principal, route, versions: (self.topology.version(), self.permissions.version()) }
    }

    /// Find the queues of a message whose route is not remembered, or is not that of its key alone.
    fn route_anew(
        &mut self,
        slot: ChannelSlot,
        parts: &Parts<'_>,
        properties: BasicProperties<'_>,
        may_have_copies: bool,
        routed: &mut Vec<QueueId>,
    ) -> Result<bool, AmqpError> {
        let further_keys = if may_have_copies { further_keys(&properties)? } else { FurtherKeys::new() };
        let (exchange, routing_key) = self.check_route(slot, parts, &further_keys)?;
        let (vhost, _) = self.clients.vhost_and_owner(slot);
        self.turn.spend(further_keys.len() as u32);
        let message = Published { exchange, routing_key, further_keys: &further_keys, properties, body: parts.body };
        let scratch = &mut self.publishing.route_scratch;
        self.topology.route(vhost, &message, scratch, routed)?;
        let key_decided = scratch.key_decided();
        if !key_decided {
            self.check_reading(exchange, parts)?;
        }
        let is_addressed = self.route_to_addresses(slot, exchange, (routing_key, &further_keys), routed)?;
        if !may_have_copies && key_decided {
            let key = self.route_key(slot, parts.route);
            self.publishing.route_memos.offer(&key, routed, is_addressed);
        }
        Ok(is_addressed)
    }

    /// Charge the turn for the queries that were matched, and refuse a message that is too much for them. A transaction
    /// is routed before any of it happens, so that it is refused whole.
    fn check_reading(&mut self, exchange: &str, parts: &Parts<'_>) -> Result<(), AmqpError> {
        let reading = self.publishing.reading();
        self.metrics.count_reading(reading);
        if reading.spent_ns > FREE_NS_MAX {
            self.turn.spend((reading.spent_ns / STEP_NS) as u32);
        }
        let limits = self.topology.limits();
        let size = parts.body.len();
        let reason = if reading.is_over {
            format!(
                "the queries bound to exchange '{exchange}' would take more than {} ms to match this message of {size} bytes",
                limits.match_ns_max / 1_000_000
            )
        } else if reading.is_body_unread && limits.refuses_large_bodies {
            format!(
                "a query bound to exchange '{exchange}' reads bodies of at most {} bytes and {} values, and this one has {size} \
                 bytes",
                limits.body_bytes_max, limits.body_values_max
            )
        } else {
            return Ok(());
        };
        Err(error(ReplyCode::PreconditionFailed, &reason))
    }

    /// The exchange and key of a message, if it may be published there with all of its keys.
    fn check_route<'a>(
        &mut self,
        slot: ChannelSlot,
        parts: &Parts<'a>,
        further_keys: &[&str],
    ) -> Result<(&'a str, &'a str), AmqpError> {
        let text =
            |bytes| std::str::from_utf8(bytes).map_err(|_| error(ReplyCode::SyntaxError, "a name is not valid UTF-8"));
        let (exchange, routing_key) = (text(parts.exchange())?, text(parts.routing_key())?);
        self.check_access(slot, Verb::Write, Resource::Exchange, exchange)?;
        for key in std::iter::once(&routing_key).chain(further_keys) {
            self.check_topic_access(slot, Verb::Write, exchange, key)?;
        }
        Ok((exchange, routing_key))
    }

    /// Check that the client signs its message only with its own name.
    #[inline]
    fn check_user(&self, slot: ChannelSlot, properties: &BasicProperties<'_>) -> Result<(), AmqpError> {
        properties.user_id().map_or(Ok(()), |claimed| self.check_claimed_user(slot, claimed))
    }

    fn check_claimed_user(&self, slot: ChannelSlot, claimed: &str) -> Result<(), AmqpError> {
        let user = &*self.principal(slot).user;
        if claimed == user {
            return Ok(());
        }
        let reason = format!("user_id property set to '{claimed}' but authenticated user was '{user}'");
        Err(error(ReplyCode::PreconditionFailed, &reason))
    }

    /// Leave out some of the queues: planted faults.
    #[cfg(test)]
    fn leave_out(&self, routed: &mut Vec<QueueId>) {
        if self.faults.routes_short && routed.len() > 1 {
            routed.pop();
        }
        if self.faults.skips_streams {
            routed.retain(|queue| self.queues[*queue].stream.is_none());
        }
    }

    /// Put a message into the queues that it is routed to, and tell the publisher what it wants to be told.
    fn accept(
        &mut self,
        slot: ChannelSlot,
        message: &mut Arrived<'_>,
        flags: PublishFlags,
        routed: &mut Vec<QueueId>,
        terms: Terms,
    ) -> Result<(), AmqpError> {
        self.metrics.published += 1;
        // The frame has paid for the first queue.
        self.turn.spend((routed.len() as u32).saturating_sub(1));
        let number = self.count_publish(slot);
        if routed.is_empty() {
            self.metrics.unroutable += 1;
            if flags.mandatory() {
                self.metrics.returned += 1;
                self.clients.return_message(slot, message);
            }
            return Ok(());
        }
        #[cfg(test)]
        self.leave_out(routed);
        message.share_large();
        let parts = message.parts();
        let mut marks = DiskMarks::new();
        if !self.streams.is_empty() {
            if let Err(reason) = self.append_to_streams(message, terms.may_have_copies, routed, &mut marks) {
                return self.refuse_publish(slot, number, &reason);
            }
            routed.retain(|queue| self.queues[*queue].stream.is_none());
            if routed.is_empty() {
                if !marks.is_empty() {
                    self.await_marks(slot, number, &marks);
                }
                return Ok(());
            }
        }
        let refusing = self.queues.take_refusing(routed, parts.size());
        let mut saved = None;
        if self.durability.is_on() && terms.is_persistent {
            match self.save_for(message.content(), routed, terms.time_to_live_ms) {
                Ok(done) => saved = done,
                // Nobody was promised that it survives.
                Err(AppendError::Busy | AppendError::Failed(_)) if number.is_none() => {}
                Err(reason) => return self.refuse_publish(slot, number, &reason),
            }
        }
        if let Some((saved, _)) = saved {
            marks.push(DiskMark { log: JOURNAL, sequence: saved.sequence.0 });
        }
        if !refusing.is_empty() {
            self.bury_refused(&parts, &refusing);
        }
        self.put_into_queues(message, saved, routed, terms);
        if !refusing.is_empty() {
            return self.nack(slot, number);
        }
        if !marks.is_empty() {
            self.await_marks(slot, number, &marks);
        }
        Ok(())
    }

    /// Put a message into queues that take it, none of which is a stream. `saved` is its record, with the number of
    /// durable queues that have it there. It is stored for the first queue that keeps it: what goes to consumers without
    /// acknowledgements at once is written to them from where it is.
    pub(crate) fn put_into_queues(
        &mut self,
        message: &mut Arrived<'_>,
        mut saved: Option<(Saved, u32)>,
        queues: &[QueueId],
        terms: Terms,
    ) {
        if queues.is_empty() {
            return;
        }
        self.metrics.enqueued += queues.len() as u64;
        let parts = message.parts();
        let size = parts.size();
        let mut passed = 0;
        if size < SHARED_BYTES_MIN {
            let mut room = Vec::new();
            let visible = if terms.may_have_copies { without_blind_copies(parts, &mut room) } else { parts };
            while let Some(queue) = queues.get(passed)
                && self.pass(*queue, &visible, saved.as_mut(), terms.time_to_live_ms)
            {
                passed += 1;
            }
        }
        self.backpressure.has_passed = true;
        if passed < queues.len() {
            self.store_for(message, saved, &queues[passed..], terms);
        }
    }

    /// Store a message, and put it into queues.
    fn store_for(&mut self, message: &mut Arrived<'_>, saved: Option<(Saved, u32)>, queues: &[QueueId], terms: Terms) {
        let stored = StoredMessage::new(message, queues.len(), terms.may_have_copies, saved);
        let size = stored.size();
        let message = self.messages.insert(stored);
        for &queue in queues {
            let has_passed = self.enqueue(queue, message, size, terms.time_to_live_ms);
            self.backpressure.has_passed &= has_passed;
        }
        self.spill(message);
    }

    /// Refuse a message for lack of room: a publisher that asked for confirms gets a nack. A message that can never have
    /// room closes the channel, like any message that is too large: it would be tried for ever.
    fn refuse_publish(
        &mut self,
        slot: ChannelSlot,
        number: Option<u64>,
        reason: &AppendError,
    ) -> Result<(), AmqpError> {
        self.metrics.refused += 1;
        if matches!(reason, AppendError::TooLarge { .. }) {
            return Err(cannot_keep(reason));
        }
        self.nack(slot, number)
    }

    /// Record a message for the durable queues among those that take it. Returns its record and the number of those
    /// queues; None when there are none.
    #[inline(always)]
    pub(crate) fn save_for(
        &mut self,
        content: Content<'_>,
        takers: &[QueueId],
        time_to_live_ms: Option<u64>,
    ) -> Result<Option<(Saved, u32)>, AppendError> {
        if self.awaits_definition(takers) {
            return Err(AppendError::Busy);
        }
        self.save_in(Room::Shared, content, takers, time_to_live_ms)
    }

    /// Record a message for the durable queues among those that take it, none of which waits for its definition. Returns
    /// as [`Broker::save_for`].
    ///
    /// All of it is inlined: what a call returns through memory is waited for.
    #[inline(always)]
    pub(super) fn save_in(
        &mut self,
        room: Room,
        content: Content<'_>,
        takers: &[QueueId],
        time_to_live_ms: Option<u64>,
    ) -> Result<Option<(Saved, u32)>, AppendError> {
        let ids = &mut self.publishing.durable_ids;
        ids.clear();
        ids.extend(takers.iter().filter_map(|queue| self.queues[*queue].durable_id));
        if ids.is_empty() {
            return Ok(None);
        }
        let time_to_live = TimeToLive::from_ms(time_to_live_ms);
        #[cfg(test)]
        let time_to_live = if self.faults.forgets_expiration { TimeToLive::FOREVER } else { time_to_live };
        let saved = self.durability.save(room, content, ids, self.clock.wall_us(), time_to_live);
        if self.durability.is_congested() {
            self.backpressure.await_journal();
        }
        saved.map(|saved| Some((saved, self.publishing.durable_ids.len() as u32)))
    }

    /// Whether one of these queues is durable, and its definition waits for room: what is in it would not survive.
    pub(crate) fn awaits_definition(&self, queues: &[QueueId]) -> bool {
        let is_waiting = |queue: &QueueId| {
            self.queues[*queue].durable_id.is_none()
                && self
                    .topology
                    .queue_info(*queue)
                    .is_some_and(|info| info.settings.durable && !info.settings.exclusive)
        };
        self.durability.waiting_changes().is_some() && queues.iter().any(is_waiting)
    }
}

/// The refusal of a message that can never be kept.
pub(super) fn cannot_keep(reason: &AppendError) -> AmqpError {
    error(ReplyCode::PreconditionFailed, &format!("the message cannot be kept: {reason}"))
}

/// The milliseconds that a message lives by its own `expiration`; None without one.
///
/// # Errors
/// 406: it is no number, or too large.
#[inline]
pub(crate) fn expiration(properties: &BasicProperties<'_>) -> Result<Option<u64>, AmqpError> {
    let Some(text) = properties.expiration() else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(milliseconds) if milliseconds <= TIME_MS_MAX => Ok(Some(milliseconds)),
        _ => {
            let reason = format!("invalid expiration '{text}': expected milliseconds between 0 and {TIME_MS_MAX}");
            Err(error(ReplyCode::PreconditionFailed, &reason))
        }
    }
}

//! Dead letters: messages that a queue drops are published to its dead letter exchange, with the reason in a header.
//!
//! A letter is made when an entry is dropped and published at the end of the same call, before what was settled is recorded:
//! a crash in between doubles it and never loses it. Publishing may drop entries of other queues, which makes further
//! letters; they are queued, so that a chain of full queues needs no stack.
//!
//! Source: RabbitMQ's dead letter exchanges; the header `x-death` is theirs.

use crate::amqp::table::{FieldValue, Table};
use crate::amqp::{BasicProperties, PropertyFields, RawTable};

use crate::broker::Broker;
use crate::broker::parts::Parts;
use crate::broker::publishing::confirms::DiskMarks;
use crate::broker::queues::letter::{Letter, Reason};
use crate::broker::queues::queue::QueueEntry;
use crate::broker::topology::{Published, QueueId};

/// Why and where a message was dropped, for the header `x-death`.
struct Death<'a> {
    queue: &'a str,
    reason: Reason,
    exchange: &'a str,
    routing_key: &'a str,
    time_s: u64,
}

impl Broker {
    /// Drop an entry of a queue, after making its dead letter if the queue has a dead letter exchange.
    pub(crate) fn discard(&mut self, queue: QueueId, entry: QueueEntry, reason: Reason) {
        if self.queues[queue].policy.dead_letters.is_some()
            && let Some(letter) = self.letter(queue, entry, reason)
        {
            self.queues.push_letter(letter);
        }
        self.settle(queue, entry);
    }

    fn letter(&mut self, queue: QueueId, entry: QueueEntry, reason: Reason) -> Option<Letter> {
        self.prepare(queue, entry.message).ok()?;
        let time_s = u64::try_from(self.clock.wall_us() / 1_000_000).unwrap_or_default();
        let parts = self.messages.parts(entry.message);
        let info = self.topology.queue_info(queue)?;
        let to = self.queues[queue].policy.dead_letters.as_ref()?;
        let exchange = std::str::from_utf8(parts.exchange()).ok()?;
        let routing_key = std::str::from_utf8(parts.routing_key()).ok()?;
        let death = Death { queue: info.name, reason, exchange, routing_key, time_s };
        Some(Letter {
            vhost: info.vhost,
            exchange: to.exchange.clone(),
            routing_key: to.routing_key.clone().unwrap_or_else(|| routing_key.into()),
            properties: with_death(BasicProperties::from_checked(parts.properties), &death),
            body: parts.body.to_vec(),
        })
    }

    /// Publish all dead letters, including those that result from publishing.
    pub(crate) fn send_letters(&mut self) {
        while let Some(letter) = self.queues.next_letter() {
            self.send_letter(&letter);
        }
    }

    /// Put a letter into the queues that it is routed to. An exchange that does not exist takes nothing.
    fn send_letter(&mut self, letter: &Letter) {
        let properties = BasicProperties::from_checked(&letter.properties);
        let message =
            Published { exchange: &letter.exchange, routing_key: &letter.routing_key, properties, body: &letter.body };
        let mut routed: Vec<QueueId> = Vec::new();
        if self.topology.route(letter.vhost, &message, self.publishing.route_scratch(), &mut routed).is_err() {
            return;
        }
        let deaths = deaths_of(properties.headers());
        routed.retain(|queue| !self.is_cycle(*queue, &deaths));
        if routed.is_empty() {
            return;
        }
        let mut route = Vec::with_capacity(letter.exchange.len() + letter.routing_key.len() + 2);
        for name in [&letter.exchange, &letter.routing_key] {
            route.push(name.len() as u8);
            route.extend_from_slice(name.as_bytes());
        }
        let parts = Parts { route: &route, properties: &letter.properties, body: &letter.body };
        self.put_letter(&parts, properties.is_persistent(), &mut routed);
    }

    fn put_letter(&mut self, parts: &Parts<'_>, is_persistent: bool, routed: &mut Vec<QueueId>) {
        if !self.streams.is_empty() {
            // A stream whose disk has no room drops it: there is nobody who could be told to wait.
            _ = self.append_to_streams(parts, routed, &mut DiskMarks::new());
            routed.retain(|queue| self.queues[*queue].stream.is_none());
        }
        // A queue that refuses it drops it, too.
        self.queues.drop_refusing(routed, parts.size());
        let is_durable = self.durability.is_on() && is_persistent;
        let saved = if is_durable { self.save_for(parts, routed, None).ok().flatten() } else { None };
        self.put_into_queues(parts, saved, routed, None);
    }

    /// Whether a message has been in this queue before, and nobody has rejected it since: it would go round for ever.
    fn is_cycle(&self, queue: QueueId, deaths: &[Table]) -> bool {
        let Some(name) = self.topology.queue_info(queue).map(|info| info.name) else { return true };
        let is = |death: &Table, field, value| death.get(field).and_then(FieldValue::as_str) == Some(value);
        let mut since = deaths.iter().take_while(|death| !is(death, "reason", Reason::Rejected.name()));
        since.any(|death| is(death, "queue", name))
    }
}

/// The entries of `x-death`, the latest first.
fn deaths_of(headers: Option<RawTable<'_>>) -> Vec<Table> {
    let parsed = headers.and_then(|headers| headers.parse().ok()).unwrap_or_default();
    match parsed.get("x-death") {
        Some(FieldValue::Array(deaths)) => deaths
            .iter()
            .filter_map(|death| match death {
                FieldValue::Table(death) => Some(death.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A message's properties with one more entry in `x-death`. Its own time to live is removed: it would expire again.
fn with_death(properties: BasicProperties<'_>, death: &Death<'_>) -> Vec<u8> {
    let mut headers = properties.headers().and_then(|headers| headers.parse().ok()).unwrap_or_default();
    let mut deaths = deaths_of(properties.headers());
    let same = |other: &Table| {
        other.get("queue").and_then(FieldValue::as_str) == Some(death.queue)
            && other.get("reason").and_then(FieldValue::as_str) == Some(death.reason.name())
    };
    let before = deaths.iter().position(same).map(|index| deaths.remove(index));
    let count = before.as_ref().and_then(|death| death.get("count")?.as_i64()).unwrap_or(0) + 1;
    let mut latest = before.unwrap_or_default();
    latest.insert("count", count);
    latest.insert("reason", death.reason.name());
    latest.insert("queue", death.queue);
    latest.insert("time", FieldValue::Timestamp(death.time_s));
    latest.insert("exchange", death.exchange);
    latest.insert("routing-keys", FieldValue::Array(vec![death.routing_key.into()]));
    if let Some(expiration) = properties.expiration() {
        latest.insert("original-expiration", expiration);
    }
    deaths.insert(0, latest);
    headers.insert("x-death", FieldValue::Array(deaths.into_iter().map(FieldValue::Table).collect()));
    for (name, value) in [
        ("x-first-death-reason", death.reason.name()),
        ("x-first-death-queue", death.queue),
        ("x-first-death-exchange", death.exchange),
    ] {
        if headers.get(name).is_none() {
            headers.insert(name, value);
        }
    }
    let bytes = headers.to_bytes();
    let mut out = Vec::new();
    PropertyFields { headers: Some(RawTable::new(&bytes)), expiration: None, ..properties.fields() }.encode(&mut out);
    out
}

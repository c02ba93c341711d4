//! The header `x-death`: why, where and how often a message was dropped.
//!
//! A message that goes through many queues has an entry of each. All but the latest are copied as they are.
//!
//! Source: RabbitMQ's dead letter exchanges; the header is theirs.

use std::iter;

use crate::amqp::raw_table::RawArray;
use crate::amqp::table::put_tables;
use crate::amqp::{BasicProperties, FieldValue, PropertyFields, RawTable, RawValue, Table};
use crate::broker::publishing::further_keys::{BCC, CC, without};
use crate::broker::queues::letter::Reason;

/// The header.
const DEATHS: &str = "x-death";
/// The fields of an entry that say which it is.
pub(super) const QUEUE: &str = "queue";
pub(super) const REASON: &str = "reason";
/// The field with the number of times that this has happened.
const COUNT: &str = "count";
/// Room for an entry and the first death's three headers, so that they are written without growing.
const ADDED_BYTES: usize = 512;

/// Why and where a message was dropped.
pub(super) struct Death<'a> {
    pub queue: &'a str,
    pub reason: Reason,
    pub exchange: &'a str,
    pub routing_key: &'a str,
    pub time_s: u64,
    /// Whether the letter has another routing key: then the message's own keys end here.
    pub is_readdressed: bool,
}

impl Death<'_> {
    /// A message's properties with this death as the first entry of `x-death`, counted on if the entry was there. Its own
    /// time to live is removed: it would expire again. So are the keys of copies, when the letter is addressed anew.
    pub fn added_to(&self, properties: BasicProperties<'_>) -> Vec<u8> {
        let headers = properties.headers().unwrap_or_default();
        let before = deaths_of(headers).position(|other| self.is_counted_in(other));
        let latest = self.entry(before.and_then(|index| deaths_of(headers).nth(index)), &properties, headers);
        let others = deaths_of(headers).enumerate().filter(|(index, _)| Some(*index) != before).map(|(_, death)| death);
        let ended: &[&str] = if self.is_readdressed { &[DEATHS, CC, BCC] } else { &[DEATHS] };
        let mut bytes = without(headers, ended);
        bytes.reserve(headers.as_bytes().len() + ADDED_BYTES - bytes.len());
        put_tables(&mut bytes, DEATHS, iter::once(RawTable::new(&latest.to_bytes())).chain(others));
        let mut first = Table::new();
        for (name, value) in [
            ("x-first-death-reason", self.reason.name()),
            ("x-first-death-queue", self.queue),
            ("x-first-death-exchange", self.exchange),
        ] {
            if headers.get(name).is_none() {
                first.push(name, value);
            }
        }
        first.encode_fields(&mut bytes);
        let mut out = Vec::with_capacity(properties.as_bytes().len() + ADDED_BYTES);
        PropertyFields { headers: Some(RawTable::new(&bytes)), expiration: None, ..properties.fields() }
            .encode(&mut out);
        out
    }

    /// Whether this entry is of the same queue and reason.
    fn is_counted_in(&self, other: RawTable<'_>) -> bool {
        let is = |field, value| other.get(field).and_then(|it| it.as_str()) == Some(value);
        is(REASON, self.reason.name()) && is(QUEUE, self.queue)
    }

    /// The entry of `x-death`: what it was, with the fields of this death.
    fn entry(&self, before: Option<RawTable<'_>>, properties: &BasicProperties<'_>, headers: RawTable<'_>) -> Table {
        let count = before.and_then(|death| death.get(COUNT)?.as_i64()).unwrap_or(0) + 1;
        let mut entry = before.and_then(|death| death.parse().ok()).unwrap_or_default();
        entry.insert(COUNT, count);
        entry.insert(REASON, self.reason.name());
        entry.insert(QUEUE, self.queue);
        entry.insert("time", FieldValue::Timestamp(self.time_s));
        entry.insert("exchange", self.exchange);
        entry.insert("routing-keys", visible_keys(self.routing_key, headers));
        if let Some(expiration) = properties.expiration() {
            entry.insert("original-expiration", expiration);
        }
        entry
    }
}

/// The entries of `x-death`, the latest first.
pub(super) fn deaths_of(headers: RawTable<'_>) -> impl Iterator<Item = RawTable<'_>> + Clone {
    let deaths = match headers.get(DEATHS) {
        Some(RawValue::Array(deaths)) => deaths,
        _ => RawArray::default(),
    };
    deaths.iter().map_while(Result::ok).filter_map(|death| match death {
        RawValue::Table(death) => Some(death),
        _ => None,
    })
}

/// The routing keys of a message as `x-death` shows them: its own and those of copies that are not blind.
fn visible_keys(own: &str, headers: RawTable<'_>) -> FieldValue {
    let mut keys = vec![FieldValue::from(own)];
    if let Some(RawValue::Array(copies)) = headers.get(CC) {
        keys.extend(copies.iter().map_while(Result::ok).filter_map(|key| key.as_str().map(FieldValue::from)));
    }
    FieldValue::Array(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, rounds};

    const REASONS: [Reason; 3] = [Reason::Expired, Reason::Rejected, Reason::MaxLength];

    /// The headers with this death, all of them decoded, changed as values, and without another key.
    fn naive(death: &Death<'_>, properties: &BasicProperties<'_>) -> Table {
        let mut headers = properties.headers().unwrap_or_default().parse().expect("a table");
        let mut deaths = match headers.remove(DEATHS) {
            Some(FieldValue::Array(deaths)) => deaths,
            _ => Vec::new(),
        };
        deaths.retain(|entry| matches!(entry, FieldValue::Table(_)));
        let is_same = |entry: &FieldValue| match entry {
            FieldValue::Table(entry) => {
                entry.get(QUEUE).and_then(FieldValue::as_str) == Some(death.queue)
                    && entry.get(REASON).and_then(FieldValue::as_str) == Some(death.reason.name())
            }
            _ => false,
        };
        let mut latest = match deaths.iter().position(is_same).map(|index| deaths.remove(index)) {
            Some(FieldValue::Table(entry)) => entry,
            _ => Table::new(),
        };
        let count = latest.get(COUNT).and_then(FieldValue::as_i64).unwrap_or(0) + 1;
        latest.insert(COUNT, count);
        latest.insert(REASON, death.reason.name());
        latest.insert(QUEUE, death.queue);
        latest.insert("time", FieldValue::Timestamp(death.time_s));
        latest.insert("exchange", death.exchange);
        latest.insert("routing-keys", FieldValue::Array(vec![death.routing_key.into()]));
        if let Some(expiration) = properties.expiration() {
            latest.insert("original-expiration", expiration);
        }
        deaths.insert(0, latest.into());
        headers.push(DEATHS, deaths);
        for (name, value) in [
            ("x-first-death-reason", death.reason.name()),
            ("x-first-death-queue", death.queue),
            ("x-first-death-exchange", death.exchange),
        ] {
            if headers.get(name).is_none() {
                headers.push(name, value);
            }
        }
        headers
    }

    fn properties(headers: &Table, expiration: Option<&str>) -> Vec<u8> {
        let (bytes, mut out) = (headers.to_bytes(), Vec::new());
        PropertyFields { headers: Some(RawTable::new(&bytes)), expiration, app_id: Some("a"), ..Default::default() }
            .encode(&mut out);
        out
    }

    #[test]
    fn a_death_is_added_as_if_all_headers_were_decoded() {
        let mut random = Random(7);
        for round in rounds(0..40) {
            let mut headers: Table = [("kind", FieldValue::from(1))].into_iter().collect();
            match round % 4 {
                // What a client may have written itself.
                0 => headers.push(DEATHS, "text"),
                1 => {
                    let entry: Table = [(QUEUE, "q1"), (REASON, "expired"), ("more", "x")].into_iter().collect();
                    headers.push(DEATHS, vec![FieldValue::Void, entry.into(), FieldValue::from(5)]);
                }
                _ => {}
            }
            let mut bytes = properties(&headers, (round % 2 == 0).then_some("50"));
            for time_s in 0..30 {
                let queue = format!("q{}", random.below(9));
                let (exchange, routing_key) = ("letters", "key");
                let reason = REASONS[random.below(3)];
                let death = Death { queue: &queue, reason, exchange, routing_key, time_s, is_readdressed: false };
                let before = BasicProperties::from_checked(&bytes);
                let expected = naive(&death, &before);
                let after = death.added_to(before);
                let added = BasicProperties::parse(&after).expect("properties");
                assert_eq!(added.headers().expect("headers").parse().expect("a table"), expected);
                assert_eq!((added.expiration(), added.app_id()), (None, Some("a")));
                bytes = after;
            }
        }
    }
}

//! An AMQP message as queries see it: converted when the first query needs it, at most once per message.

use crate::allowance::{JSON_NS, JSON_VALUE_NS};
use crate::amqp::{BasicProperties as AmqpProperties, RawTable, RawValue};
use crate::index::NameFilter;
use crate::json;
use crate::message::{Body, Message, Properties, Value};

use super::super::query_limits::QueryLimits;
use super::names::{self, BodyMode, JSON, Needs};

/// Buffers for what queries see, kept between messages.
#[derive(Debug, Default)]
pub struct ViewScratch {
    properties: Properties,
}

/// A message as queries see it.
#[derive(Debug)]
pub struct View<'a> {
    room: &'a mut ViewScratch,
    properties: AmqpProperties<'a>,
    body: &'a [u8],
    /// The names of the properties that are converted.
    converted: Converted,
    has_json: bool,
    text: Option<Body<'a>>,
    limits: ReadLimits,
    reading: Reading,
}

/// The properties of a message that are converted.
#[derive(Clone, Debug)]
enum Converted {
    None,
    /// Those with these names.
    Named(NameFilter),
    All,
}

impl Converted {
    /// Whether those with these names are; None: all.
    fn includes(&self, names: Option<&NameFilter>) -> bool {
        match (self, names) {
            (Self::All, _) => true,
            (Self::Named(known), Some(names)) => known.includes(names),
            _ => false,
        }
    }
}

/// The limits of what queries read of a message.
#[derive(Clone, Copy, Debug)]
struct ReadLimits {
    body_bytes_max: usize,
    body_values_max: usize,
    match_ns_max: u64,
}

/// The cost of reading a message for queries, and the limits that it met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The time that it took, by the rates in [`crate::allowance`].
    pub spent_ns: u64,
    /// Whether a query asked for a body that is too large to be read: it was unknown to it.
    pub is_body_unread: bool,
    /// Whether the match would have taken too long: what was not read by then was unknown.
    pub is_over: bool,
}

impl<'a> View<'a> {
    /// Begin a message; nothing is converted yet.
    #[must_use]
    pub fn new(room: &'a mut ViewScratch, properties: AmqpProperties<'a>, body: &'a [u8]) -> Self {
        let limits = ReadLimits { body_bytes_max: usize::MAX, body_values_max: usize::MAX, match_ns_max: u64::MAX };
        let reading = Reading::default();
        Self { room, properties, body, converted: Converted::None, has_json: false, text: None, limits, reading }
    }

    /// Limit what queries read of it.
    #[must_use]
    pub fn within(mut self, limits: &QueryLimits) -> Self {
        let QueryLimits { body_bytes_max, body_values_max, match_ns_max, .. } = *limits;
        self.limits = ReadLimits { body_bytes_max, body_values_max, match_ns_max };
        self
    }

    /// The cost of reading it so far.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.reading
    }

    /// Call `work` with a message that has the parts that it `needs`, of the properties those with these `names` (None: all),
    /// and perhaps more of them.
    ///
    /// Cost: linear in the size of those parts, the first time that they are needed.
    pub fn with<R>(
        &mut self,
        routing_key: &str,
        needs: Needs,
        names: Option<&NameFilter>,
        work: impl FnOnce(&Message<'_>) -> R,
    ) -> R {
        if needs.properties && !self.converted.includes(names) {
            self.begin();
            // Whoever comes second may ask for others, and the next one for others again.
            let names = names.filter(|_| matches!(self.converted, Converted::None));
            self.converted = names.map_or(Converted::All, |names| Converted::Named(names.clone()));
            fill(&mut self.room.properties, &self.properties, names);
        }
        if needs.json && !self.has_json {
            self.begin();
            self.has_json = true;
            self.fill_json();
        }
        let body = if needs.text { self.text() } else { Body::Absent };
        self.begin();
        let left_ns = self.limits.match_ns_max.saturating_sub(self.reading.spent_ns);
        let message = Message::new(routing_key, &self.room.properties, body).with_allowance(left_ns);
        let result = work(&message);
        self.reading.spent_ns += left_ns - message.allowance().left_ns();
        self.reading.is_over |= message.allowance().is_over();
        result
    }

    /// The body as text. One that is too large is there, but unknown, like one that is not text.
    fn text(&mut self) -> Body<'a> {
        if self.body.len() > self.limits.body_bytes_max {
            self.reading.is_body_unread = true;
            return Body::Binary(self.body);
        }
        *self.text.get_or_insert_with(|| Body::from_bytes(self.body))
    }

    /// Insert the fields of the body. Of one that is not JSON, has no fields, or is too large, `body.x` is unknown.
    fn fill_json(&mut self) {
        if self.body.len() > self.limits.body_bytes_max {
            self.reading.is_body_unread = true;
            return;
        }
        let values_max = self.limits.body_values_max.min(self.body.len() / 2);
        self.reading.spent_ns += self.body.len() as u64 * JSON_NS + values_max as u64 * JSON_VALUE_NS;
        match json::parse_within(self.body, self.limits.body_values_max, &|_| true) {
            Ok(Some(value)) => drop(self.room.properties.insert(JSON.into(), value)),
            Ok(None) => self.reading.is_body_unread = true,
            Err(_) => {}
        }
    }

    /// Clear the message before, while nothing of this one is converted.
    fn begin(&mut self) {
        if matches!(self.converted, Converted::None) && !self.has_json {
            self.room.properties.clear();
        }
    }
}

/// All properties of a message as queries see them, to match it outside the broker: with this mapping a query matches as it
/// does in a binding of that `mode`.
///
/// If `mode` is JSON, the fields of the body are in a mapping `body`, and headers that such names would reach are left out:
/// in the broker they cannot be reached either. Cost: linear in the size of those parts.
#[must_use]
pub fn properties_seen(amqp: &AmqpProperties<'_>, body: &[u8], mode: BodyMode) -> Properties {
    let has_fields = |value: &Value| matches!(value, Value::Map(_) | Value::List(_));
    let mut properties = Properties::default();
    fill(&mut properties, amqp, None);
    properties.retain(|name, _| !name.starts_with('\0'));
    if mode == BodyMode::Json {
        properties.retain(|name, value| !(name.starts_with("body.") || (&**name == "body" && has_fields(value))));
        if let Some(fields) = json::parse(body).ok().filter(has_fields) {
            properties.insert("body".into(), fields);
        }
    }
    properties
}

/// Insert headers and properties under their names: those with these `names`, or all. What is there already stays.
fn fill(properties: &mut Properties, amqp: &AmqpProperties<'_>, names: Option<&NameFilter>) {
    let is_asked = |name: &str| names.is_none_or(|names| names.may_have(name));
    for (name, value) in amqp.headers().iter().flat_map(RawTable::iter).map_while(Result::ok) {
        if name.starts_with('\0') {
            continue; // internal
        }
        // Of two headers with the same name the first counts, as everywhere.
        if let Some(beside) = names::beside_property(name) {
            if is_asked(beside) {
                properties.entry(beside.into()).or_insert_with(|| self::value(value));
            }
            if name == "user_id" {
                continue;
            }
        }
        if is_asked(name) {
            properties.entry(name.into()).or_insert_with(|| self::value(value));
        }
    }
    let fields = amqp.fields();
    let mut text = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|_| is_asked(name)) {
            properties.insert(name.into(), Value::Text(value.into()));
        }
    };
    text("content_type", fields.content_type);
    text("content_encoding", fields.content_encoding);
    text("correlation_id", fields.correlation_id);
    text("reply_to", fields.reply_to);
    text("expiration", fields.expiration);
    text("message_id", fields.message_id);
    text("type", fields.message_type);
    text("user_id", fields.user_id);
    text("app_id", fields.app_id);
    text("cluster_id", fields.cluster_id);
    let mut other = |name: &str, value: Option<Value>| {
        if let Some(value) = value.filter(|_| is_asked(name)) {
            properties.insert(name.into(), value);
        }
    };
    other("delivery_mode", fields.delivery_mode.map(|mode| Value::Int(mode.into())));
    other("priority", fields.priority.map(|priority| Value::Int(priority.into())));
    other("timestamp", fields.timestamp.map(instant));
}

/// A field's value as queries see it. Bytes that are not UTF-8, and numbers and instants beyond 64 bits, are present but
/// have no value.
pub fn value(raw: RawValue<'_>) -> Value {
    match raw {
        RawValue::Bool(truth) => Value::Bool(truth),
        RawValue::F32(number) => Value::Float(number.into()),
        RawValue::F64(number) => Value::Float(number),
        RawValue::Decimal { scale, unscaled } => Value::Float(f64::from(unscaled) / 10_f64.powi(scale.into())),
        RawValue::Text(bytes) | RawValue::Bytes(bytes) => {
            std::str::from_utf8(bytes).map_or(Value::Present, |text| Value::Text(text.into()))
        }
        RawValue::Array(array) => Value::List(array.iter().map_while(Result::ok).map(value).collect()),
        RawValue::Table(table) => {
            let mut inner = Properties::default();
            for (name, raw) in table.iter().map_while(Result::ok) {
                inner.entry(name.into()).or_insert_with(|| value(raw));
            }
            Value::Map(inner)
        }
        RawValue::Timestamp(seconds) => instant(seconds),
        RawValue::Void => Value::Null,
        whole => whole.as_i64().map_or(Value::Present, Value::Int),
    }
}

fn instant(seconds: u64) -> Value {
    let micros = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
    micros.map_or(Value::Present, Value::Timestamp)
}

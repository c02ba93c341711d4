//! A queue's policy: what its arguments that begin with `x-` ask for, and what is wrong with them.
//!
//! An argument that this broker does not offer or does not know is refused by its name, never ignored: a client that asks
//! for dead letters and gets none would lose messages without notice. Hints about where a queue should live
//! (`x-queue-mode`, ...) are accepted and have no effect. Arguments that do not begin with `x-` are the client's own; they
//! are kept.

use crate::amqp::{RawTable, RawValue};
use crate::broker::topology::AddressKind;
use crate::spelling;

/// `x-queue-type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// Entries are removed when they are acknowledged.
    #[default]
    Classic,
    /// Declared as replicated; a durable queue here.
    Quorum,
    /// A log: entries stay until retention takes them, and readers start where they like.
    Stream,
}

impl QueueKind {
    /// The value on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
            Self::Stream => "stream",
        }
    }
}

/// The rules by which a queue treats messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub kind: QueueKind,
    pub length_max: Option<u64>,
    pub bytes_max: Option<u64>,
    /// The action for a message that does not fit.
    pub overflow: Overflow,
    /// The time that a consumer has to settle a delivery.
    pub consumer_timeout_ms: Option<u64>,
    pub message_ttl_ms: Option<u64>,
    /// The time after which an unused queue is deleted.
    pub expires_ms: Option<u64>,
    /// The time that a message waits for room with its sender, before it is refused.
    pub wait_ms: Option<u64>,
    /// The destination of dropped messages.
    pub dead_letters: Option<DeadLetters>,
    /// A stream's retention by age.
    pub age_max_s: Option<u64>,
    pub segment_bytes: Option<u64>,
    /// The kind of its address, if it has one. Such a queue expires only while it is empty.
    pub address: Option<AddressKind>,
}

/// `x-overflow`: what happens when a message does not fit into a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The oldest entries are dropped.
    #[default]
    DropHead,
    /// The new message is refused.
    Reject,
    /// The new message is refused, and becomes a dead letter.
    RejectAndBury,
    /// The sender waits.
    Block,
}

/// The destination to which a queue publishes the messages that it drops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadLetters {
    /// `x-dead-letter-exchange`.
    pub exchange: Box<str>,
    /// `x-dead-letter-routing-key`; none keeps the message's own.
    pub routing_key: Option<Box<str>>,
    /// Whether a letter that no queue takes is kept: `x-dead-letter-strategy` is `at-least-once`.
    pub is_certain: bool,
}

/// Arguments that other brokers know and this one does not offer.
const REFUSED: &[&str] =
    &["x-max-priority", "x-single-active-consumer", "x-delivery-limit", "x-stream-filter-size-bytes"];

/// Arguments that have a meaning here.
const KNOWN: [&str; 12] = [
    "x-consumer-timeout",
    "x-queue-type",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-message-ttl",
    "x-expires",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
];

/// Arguments that say where other brokers keep a queue, or in what form: here each queue is in one place.
const HINTS: [&str; 9] = [
    "x-queue-mode",
    "x-queue-version",
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-initial-cluster-size",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
];

/// The longest time to live of a message or queue, in milliseconds: ten years, as in RabbitMQ.
pub(crate) const TIME_MS_MAX: u64 = 10 * 365 * 86_400 * 1000;

/// Why an argument is refused: its name, and the reason in words.
pub(crate) type Refusal<'a> = (&'a str, String);

impl Policy {
    /// Read a queue's arguments.
    ///
    /// # Errors
    /// The first argument that is not offered or has no meaning.
    pub fn parse(arguments: RawTable<'_>) -> Result<Self, Refusal<'_>> {
        let mut policy = Self::default();
        for field in arguments.iter() {
            let Ok((name, value)) = field else { return Err(("arguments", "not a table".to_owned())) };
            policy.set(name, value).map_err(|reason| (name, reason))?;
        }
        policy.dead_letters = dead_letters(arguments)?;
        if policy.kind == QueueKind::Stream {
            policy.refuse_for_streams()?;
        } else if policy.age_max_s.is_some() {
            return Err(("x-max-age", "only a stream has it".to_owned()));
        } else if policy.segment_bytes.is_some() {
            return Err(("x-stream-max-segment-size-bytes", "only a stream has it".to_owned()));
        }
        Ok(policy)
    }

    /// Check that each argument that begins with `x-` is known, when a client declares a queue. What was declared before is
    /// not checked again.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check_known(arguments: RawTable<'_>) -> Result<(), Refusal<'_>> {
        let is_unknown = |name: &str| {
            name.starts_with("x-") && ![&KNOWN[..], &HINTS, REFUSED].iter().any(|names| names.contains(&name))
        };
        match arguments.iter().map_while(Result::ok).find(|(name, _)| is_unknown(name)) {
            None => Ok(()),
            Some((name, _)) => Err((
                name,
                match spelling::nearest(name, &KNOWN) {
                    Some(meant) => format!("unknown; did you mean {meant}?"),
                    None => "unknown to this broker".to_owned(),
                },
            )),
        }
    }

    /// Check that what a client asks for can be done together. What was declared before is not checked again.
    ///
    /// # Errors
    /// The argument that asks for too much.
    pub fn check_together(&self, arguments: RawTable<'_>) -> Result<(), Refusal<'static>> {
        if self.dead_letters.is_none() && arguments.get("x-dead-letter-strategy").is_some() {
            return Err(("x-dead-letter-strategy", "needs x-dead-letter-exchange".to_owned()));
        }
        let is_certain = self.dead_letters.as_ref().is_some_and(|letters| letters.is_certain);
        if is_certain && self.is_bounded() && self.overflow == Overflow::DropHead {
            let reason = "at-least-once needs an x-overflow that drops nothing, such as reject-publish, with a maximum";
            return Err(("x-dead-letter-strategy", reason.to_owned()));
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: RawValue<'_>) -> Result<(), String> {
        match name {
            "x-queue-type" => self.kind = kind(value)?,
            "x-max-length" => self.length_max = Some(count(value)?),
            "x-max-length-bytes" => self.bytes_max = Some(count(value)?),
            "x-overflow" => self.overflow = overflow(value)?,
            "x-consumer-timeout" => self.consumer_timeout_ms = Some(milliseconds(value, 1)?),
            "x-message-ttl" => self.message_ttl_ms = Some(milliseconds(value, 0)?),
            "x-expires" => self.expires_ms = Some(milliseconds(value, 1)?),
            "x-max-age" => self.age_max_s = Some(age_s(value)?),
            "x-stream-max-segment-size-bytes" => self.segment_bytes = Some(count(value)?.max(1)),
            _ if REFUSED.contains(&name) => return Err("not offered by this broker".to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn refuse_for_streams(&self) -> Result<(), Refusal<'static>> {
        let refused = [
            ("x-max-length", self.length_max.is_some()),
            ("x-overflow", self.overflow != Overflow::DropHead),
            ("x-consumer-timeout", self.consumer_timeout_ms.is_some()),
            ("x-message-ttl", self.message_ttl_ms.is_some()),
            ("x-expires", self.expires_ms.is_some()),
            ("x-dead-letter-exchange", self.dead_letters.is_some()),
        ];
        match refused.into_iter().find(|(_, given)| *given) {
            Some((name, _)) => Err((name, "a stream has no such argument".to_owned())),
            None if !self.keeps_history() && self.segment_bytes.is_some() => {
                Err(("x-stream-max-segment-size-bytes", "a stream that keeps no history has no segments".to_owned()))
            }
            None => Ok(()),
        }
    }

    /// Whether a stream keeps messages after its live readers have got them.
    pub fn keeps_history(&self) -> bool {
        self.bytes_max != Some(0) && self.age_max_s != Some(0)
    }

    /// Whether `length` entries of `bytes` are more than the queue may hold.
    pub fn is_over(&self, length: u64, bytes: u64) -> bool {
        self.length_max.is_some_and(|max| length > max) || self.bytes_max.is_some_and(|max| bytes > max)
    }

    /// Whether a message that does not fit is refused.
    #[inline]
    pub fn rejects(&self) -> bool {
        matches!(self.overflow, Overflow::Reject | Overflow::RejectAndBury)
    }

    /// Whether the sender of a message that does not fit waits.
    #[inline]
    pub fn blocks(&self) -> bool {
        self.overflow == Overflow::Block
    }

    /// Whether entries are dropped from its head, or refused at its tail.
    pub fn is_bounded(&self) -> bool {
        self.length_max.is_some() || self.bytes_max.is_some()
    }
}

/// Read where dead letters go. A routing key for them needs an exchange.
fn dead_letters(arguments: RawTable<'_>) -> Result<Option<DeadLetters>, Refusal<'static>> {
    let text = |name: &'static str| match arguments.get(name) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) if text.len() <= 255 => Ok(Some(Box::from(text))),
            _ => Err((name, "expected a string of at most 255 bytes".to_owned())),
        },
    };
    let strategy = arguments.get("x-dead-letter-strategy").map_or(Ok(false), is_certain);
    let is_certain = strategy.map_err(|reason| ("x-dead-letter-strategy", reason))?;
    match (text("x-dead-letter-exchange")?, text("x-dead-letter-routing-key")?) {
        (Some(exchange), routing_key) => Ok(Some(DeadLetters { exchange, routing_key, is_certain })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(("x-dead-letter-routing-key", "needs x-dead-letter-exchange".to_owned())),
    }
}

fn kind(value: RawValue<'_>) -> Result<QueueKind, String> {
    match value.as_str() {
        Some("classic") => Ok(QueueKind::Classic),
        Some("quorum") => Ok(QueueKind::Quorum),
        Some("stream") => Ok(QueueKind::Stream),
        Some(other) => Err(format!("'{other}' is none of classic, quorum, stream")),
        None => Err("expected a string".to_owned()),
    }
}

fn overflow(value: RawValue<'_>) -> Result<Overflow, String> {
    match value.as_str() {
        Some("drop-head") => Ok(Overflow::DropHead),
        Some("reject-publish") => Ok(Overflow::Reject),
        Some("reject-publish-dlx") => Ok(Overflow::RejectAndBury),
        Some("block") => Ok(Overflow::Block),
        Some(other) => Err(format!("'{other}' is none of drop-head, reject-publish, reject-publish-dlx, block")),
        None => Err("expected a string".to_owned()),
    }
}

/// Whether a dead letter that no queue takes is kept. In any case it is recorded before its original is settled.
fn is_certain(value: RawValue<'_>) -> Result<bool, String> {
    match value.as_str() {
        Some("at-most-once") => Ok(false),
        Some("at-least-once") => Ok(true),
        Some(other) => Err(format!("'{other}' is none of at-most-once, at-least-once")),
        None => Err("expected a string".to_owned()),
    }
}

fn count(value: RawValue<'_>) -> Result<u64, String> {
    let number = value.as_i64().ok_or("expected an integer")?;
    u64::try_from(number).map_err(|_| format!("{number} is negative"))
}

pub(crate) fn milliseconds(value: RawValue<'_>, least: u64) -> Result<u64, String> {
    let number = value.as_i64().ok_or("expected an integer of milliseconds")?;
    u64::try_from(number)
        .ok()
        .filter(|number| (least..=TIME_MS_MAX).contains(number))
        .ok_or_else(|| format!("{number} is not between {least} and {TIME_MS_MAX} milliseconds"))
}

/// Read an age such as `7D` or `12h`: a number and one of `Y M D h m s`. Returns seconds.
pub(crate) fn age_s(value: RawValue<'_>) -> Result<u64, String> {
    const EXPECTED: &str = "expected a number and one of Y M D h m s, as in '7D'";
    let text = value.as_str().ok_or(EXPECTED)?;
    let unit = match text.as_bytes().last() {
        Some(b'Y') => 365 * 86_400,
        Some(b'M') => 30 * 86_400,
        Some(b'D') => 86_400,
        Some(b'h') => 3_600,
        Some(b'm') => 60,
        Some(b's') => 1,
        _ => return Err(EXPECTED.to_owned()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| EXPECTED)?;
    number.checked_mul(unit).ok_or_else(|| EXPECTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::{FieldValue, Table};

    fn parse(arguments: &[(&str, FieldValue)]) -> Result<Policy, (String, String)> {
        let mut table = Table::new();
        arguments.iter().for_each(|(name, value)| table.insert(name, value.clone()));
        let mut bytes = Vec::new();
        table.encode_fields(&mut bytes);
        Policy::parse(RawTable::new(&bytes)).map_err(|(name, reason)| (name.to_owned(), reason))
    }

    fn text(value: &str) -> FieldValue {
        FieldValue::from(value)
    }

    #[test]
    fn unknown_arguments_of_this_kind_are_refused_when_a_client_declares() {
        let check = |name: &str| {
            let bytes = [(name, text("1"))].into_iter().collect::<Table>().to_bytes();
            Policy::check_known(RawTable::new(&bytes)).map_err(|(_, reason)| reason)
        };
        for name in KNOWN.iter().chain(&HINTS).chain(REFUSED).chain(&["ha-mode", "note"]) {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        assert_eq!(check("x-mesage-ttl"), Err("unknown; did you mean x-message-ttl?".to_owned()));
        assert_eq!(check("x-length"), Err("unknown to this broker".to_owned()));
    }

    #[test]
    fn arguments_are_read() {
        let policy = parse(&[
            ("x-max-length", FieldValue::I32(5)),
            ("x-message-ttl", FieldValue::I64(60_000)),
            ("x-overflow", text("reject-publish")),
            ("x-queue-mode", text("lazy")),
            ("mine", text("kept")),
        ])
        .expect("all are offered");
        assert_eq!((policy.length_max, policy.message_ttl_ms), (Some(5), Some(60_000)));
        assert_eq!(policy.overflow, Overflow::Reject);
        assert!(policy.is_over(6, 0) && !policy.is_over(5, u64::MAX));
        let stream = parse(&[("x-queue-type", text("stream")), ("x-max-age", text("7D"))]).expect("a stream");
        assert_eq!((stream.kind, stream.age_max_s), (QueueKind::Stream, Some(7 * 86_400)));
    }

    #[test]
    fn what_is_not_offered_or_means_nothing_is_refused_by_name() {
        let refused = |arguments: &[(&str, FieldValue)]| parse(arguments).expect_err("refused");
        assert_eq!(refused(&[("x-dead-letter-routing-key", text("k"))]).1, "needs x-dead-letter-exchange");
        assert_eq!(
            refused(&[("x-message-ttl", FieldValue::I32(-1))]).1,
            "-1 is not between 0 and 315360000000 milliseconds"
        );
        assert_eq!(refused(&[("x-expires", FieldValue::I32(0))]).0, "x-expires");
        assert_eq!(
            refused(&[("x-dead-letter-strategy", text("perhaps"))]).1,
            "'perhaps' is none of at-most-once, at-least-once"
        );
        assert_eq!(refused(&[("x-max-length", text("5"))]).1, "expected an integer");
        assert_eq!(refused(&[("x-queue-type", text("lazy"))]).0, "x-queue-type");
        assert_eq!(refused(&[("x-max-age", text("7D"))]).1, "only a stream has it");
        assert_eq!(
            refused(&[("x-queue-type", text("stream")), ("x-max-length", FieldValue::I32(1))]).0,
            "x-max-length"
        );
    }
}

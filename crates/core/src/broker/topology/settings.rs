//! The settings of exchanges and queues, and when two declarations are the same.

use std::str::FromStr;
use std::sync::Arc;

use crate::amqp::{AmqpError, RawTable, RawValue};

use super::address_kind::AddressKind;
use super::errors;

/// The type of an exchange: the way in which it chooses among its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// The binding's key is the routing key.
    Direct,
    /// Every binding.
    Fanout,
    /// The binding's key is a pattern of the routing key, in AMQP's dialect.
    Topic,
    /// The binding's arguments are the message's headers, by `x-match`.
    Headers,
    /// The binding's query is true, whatever the routing key; a binding without a query takes every message.
    Query,
    /// The routing key is an address; there are no bindings.
    Address(AddressKind),
}

impl ExchangeKind {
    const ALL: [Self; 7] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::Query,
        Self::Address(AddressKind::Mailbox),
        Self::Address(AddressKind::Service),
    ];

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
            Self::Query => "x-query",
            Self::Address(kind) => kind.name(),
        }
    }

    /// The kind of its addresses, if its routing keys are addresses.
    #[must_use]
    pub fn address(self) -> Option<AddressKind> {
        match self {
            Self::Address(kind) => Some(kind),
            _ => None,
        }
    }
}

impl FromStr for ExchangeKind {
    type Err = AmqpError;

    /// The kind called `name`; 503 when there is none.
    fn from_str(name: &str) -> Result<Self, AmqpError> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| errors::unknown_kind(name))
    }
}

/// The settings of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeSettings<'a> {
    /// The type.
    pub kind: ExchangeKind,
    /// It survives a restart.
    pub durable: bool,
    /// It is deleted with its last binding.
    pub auto_delete: bool,
    /// Clients may not publish to it.
    pub internal: bool,
    /// `alternate-exchange`, and the client's own arguments.
    pub arguments: RawTable<'a>,
}

/// The settings of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings<'a> {
    /// It survives a restart, unless it is exclusive.
    pub durable: bool,
    /// Only the connection that declared it may use it.
    pub exclusive: bool,
    /// It is deleted with its last consumer.
    pub auto_delete: bool,
    /// Its policies: `x-message-ttl` and others.
    pub arguments: RawTable<'a>,
    /// The user who declares it, whose queues are counted. Another user may declare the same queue again.
    pub creator: Option<&'a Arc<str>>,
}

/// Arguments that must be the same when a queue is declared again. Others are the client's own.
const QUEUE_ARGUMENTS: [&str; 17] = [
    "x-consumer-timeout",
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delivery-limit",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-max-age",
    "x-overflow",
    "x-queue-mode",
    "x-queue-type",
    "x-single-active-consumer",
    "x-stream-max-segment-size-bytes",
    "x-queue-version",
];

/// The argument that names the exchange for messages that no binding takes.
pub(super) const ALTERNATE: &str = "alternate-exchange";

/// Check that an exchange that was declared as `is` may be declared again as `wanted`.
pub(super) fn same_exchange(
    is: &ExchangeSettings<'_>,
    wanted: &ExchangeSettings<'_>,
    resource: &str,
) -> Result<(), AmqpError> {
    if is.kind != wanted.kind {
        let (received, current) = (quoted(wanted.kind.name()), quoted(is.kind.name()));
        return Err(errors::inequivalent("type", resource, &received, &current));
    }
    same_flag("durable", is.durable, wanted.durable, resource)?;
    same_flag("auto_delete", is.auto_delete, wanted.auto_delete, resource)?;
    same_flag("internal", is.internal, wanted.internal, resource)?;
    same_argument(ALTERNATE, is.arguments, wanted.arguments, resource)
}

/// Check that a queue that was declared as `is` may be declared again as `wanted`; its owner has been checked.
pub(super) fn same_queue(is: &QueueSettings<'_>, wanted: &QueueSettings<'_>, resource: &str) -> Result<(), AmqpError> {
    same_flag("durable", is.durable, wanted.durable, resource)?;
    same_flag("auto_delete", is.auto_delete, wanted.auto_delete, resource)?;
    if is.arguments == wanted.arguments {
        return Ok(());
    }
    QUEUE_ARGUMENTS.iter().try_for_each(|name| same_argument(name, is.arguments, wanted.arguments, resource))
}

fn same_flag(name: &str, is: bool, wanted: bool, resource: &str) -> Result<(), AmqpError> {
    let quoted = |flag: bool| quoted(if flag { "true" } else { "false" });
    if is == wanted { Ok(()) } else { Err(errors::inequivalent(name, resource, &quoted(wanted), &quoted(is))) }
}

fn same_argument(name: &str, is: RawTable<'_>, wanted: RawTable<'_>, resource: &str) -> Result<(), AmqpError> {
    let (is, wanted) = (is.get(name), wanted.get(name));
    let is_same = match (&is, &wanted) {
        (None, None) => true,
        (Some(a), Some(b)) => same_value(a, b),
        // A queue without a type is a classic one.
        (Some(one), None) | (None, Some(one)) => name == "x-queue-type" && one.as_str() == Some("classic"),
    };
    if is_same {
        return Ok(());
    }
    let (received, current) = match (&wanted, &is) {
        (Some(wanted), Some(is)) => (quoted(&shown(wanted)), quoted(&shown(is))),
        (wanted, is) => (with_type(wanted.as_ref()), with_type(is.as_ref())),
    };
    Err(errors::inequivalent(name, resource, &received, &current))
}

/// Whether two values are the same. Integers of all widths are one type, because clients choose the narrowest that fits.
fn same_value(a: &RawValue<'_>, b: &RawValue<'_>) -> bool {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn shown(value: &RawValue<'_>) -> String {
    match value {
        RawValue::Text(bytes) | RawValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        RawValue::Bool(truth) => truth.to_string(),
        value => value.as_i64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
    }
}

fn with_type(value: Option<&RawValue<'_>>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let name = match value {
        RawValue::Text(_) => "longstr",
        RawValue::Bool(_) => "bool",
        RawValue::I8(_) => "byte",
        RawValue::U8(_) => "unsignedbyte",
        RawValue::I16(_) => "short",
        RawValue::U16(_) => "unsignedshort",
        RawValue::I32(_) => "signedint",
        RawValue::U32(_) => "unsignedint",
        RawValue::I64(_) => "long",
        RawValue::F32(_) => "float",
        RawValue::F64(_) => "double",
        RawValue::Decimal { .. } => "decimal",
        RawValue::Array(_) => "array",
        RawValue::Timestamp(_) => "timestamp",
        RawValue::Table(_) => "table",
        RawValue::Void => "void",
        RawValue::Bytes(_) => "binary",
    };
    format!("the value '{}' of type '{name}'", shown(value))
}

//! The exchanges and queues of a simulation, the ways to publish, and the queues between which a message moves.

use crate::amqp::method::{ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare};
use crate::amqp::{FieldValue, Method, RawTable};
use crate::broker::tests::client::{table, text};

/// The number of a queue in [`QUEUES`].
pub type QueueIndex = usize;
/// The number of a group of queues: a message that was put into one of them is in one of them until it is settled.
pub type GroupIndex = usize;

/// The time that messages live in the queue `fleeting` and in `letters.b`, and messages in `waiting`.
pub const TIME_US_MAX: u64 = 3_000_000;

/// A queue of the simulation.
#[derive(Debug, Clone, Copy)]
pub struct QueuePlan {
    pub name: &'static str,
    pub group: GroupIndex,
    pub is_durable: bool,
    /// What is rejected here goes on to another queue of the group.
    pub sends_on: bool,
    /// Nothing stays here longer than [`TIME_US_MAX`].
    pub has_time: bool,
    arguments: &'static [(&'static str, Argument)],
}

#[derive(Debug, Clone, Copy)]
enum Argument {
    Text(&'static str),
    Number(i32),
}

use Argument::{Number, Text};

const fn plain(name: &'static str, group: GroupIndex) -> QueuePlan {
    QueuePlan { name, group, is_durable: true, sends_on: false, has_time: false, arguments: &[] }
}

const fn transient(name: &'static str, group: GroupIndex) -> QueuePlan {
    QueuePlan { is_durable: false, ..plain(name, group) }
}

const fn bounded(name: &'static str, group: GroupIndex, arguments: &'static [(&'static str, Argument)]) -> QueuePlan {
    QueuePlan { arguments, ..plain(name, group) }
}

const fn letters(name: &'static str, group: GroupIndex, arguments: &'static [(&'static str, Argument)]) -> QueuePlan {
    QueuePlan { sends_on: true, ..bounded(name, group, arguments) }
}

const fn timed(plan: QueuePlan) -> QueuePlan {
    QueuePlan { has_time: true, ..plan }
}

const EXCHANGE: &str = "x-dead-letter-exchange";
const KEY: &str = "x-dead-letter-routing-key";
const LENGTH: &str = "x-max-length";
const TTL: &str = "x-message-ttl";

/// Groups in which messages move, by themselves or when they are rejected.
const MOVING: std::ops::RangeInclusive<GroupIndex> = 13..=15;
/// Groups whose queues may drop a message: it need not be anywhere.
const DROPPING: std::ops::RangeInclusive<GroupIndex> = 17..=18;
pub const STREAM: GroupIndex = 19;
/// Groups of queues that have an address: nobody declares them, and all messages in them survive.
const ADDRESSED: std::ops::RangeInclusive<GroupIndex> = 20..=21;

pub const QUEUES: &[QueuePlan] = &[
    plain("durable.a", 0),
    plain("durable.b", 1),
    plain("durable.c", 2),
    transient("transient", 3),
    plain("fan.1", 4),
    plain("fan.2", 5),
    transient("fan.3", 6),
    plain("of.direct", 7),
    plain("of.topic", 8),
    plain("of.headers", 9),
    plain("of.query", 10),
    plain("of.inner", 11),
    plain("of.alternate", 12),
    // A circle, through an internal exchange; it is walked only when somebody rejects.
    letters("letters.a", 13, &[(EXCHANGE, Text("dead")), (KEY, Text("b"))]),
    timed(letters("letters.b", 13, &[(EXCHANGE, Text("dead")), (KEY, Text("c")), (TTL, Number(2000))])),
    letters("letters.c", 13, &[(EXCHANGE, Text("dead")), (KEY, Text("a"))]),
    timed(letters("waiting", 14, &[(EXCHANGE, Text("")), (KEY, Text("waited"))])),
    plain("waited", 14),
    letters("full", 15, &[(EXCHANGE, Text("")), (KEY, Text("overflowed")), (LENGTH, Number(5))]),
    plain("overflowed", 15),
    bounded("refusing", 16, &[(LENGTH, Number(5)), ("x-overflow", Text("reject-publish"))]),
    bounded("ring", 17, &[("x-max-length-bytes", Number(10_000))]),
    timed(bounded("fleeting", 18, &[(TTL, Number(1000))])),
    bounded("log", STREAM, &[("x-queue-type", Text("stream"))]),
    plain("amq.mailbox.ann", 20),
    plain("amq.service.work", 21),
    bounded("blocking", 22, &[(LENGTH, Number(5)), ("x-overflow", Text("block"))]),
];

/// Whether the queues of this group have an address.
pub fn is_addressed(group: GroupIndex) -> bool {
    ADDRESSED.contains(&group)
}

/// Whether messages of this group move from queue to queue: a crash may double them.
pub fn is_moving(group: GroupIndex) -> bool {
    MOVING.contains(&group)
}

/// Whether queues of this group may drop a message.
pub fn may_drop(group: GroupIndex) -> bool {
    DROPPING.contains(&group)
}

/// Whether all queues of this group survive a crash.
pub fn is_durable(group: GroupIndex) -> bool {
    QUEUES.iter().all(|queue| queue.group != group || queue.is_durable)
}

/// A way to publish, and the groups that get the message.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub exchange: &'static str,
    pub routing_key: &'static str,
    /// The header `number`.
    pub number: i32,
    pub expiration: Option<&'static str>,
    pub groups: &'static [GroupIndex],
}

const fn way(exchange: &'static str, routing_key: &'static str, number: i32, groups: &'static [GroupIndex]) -> Way {
    Way { exchange, routing_key, number, expiration: None, groups }
}

pub const WAYS: &[Way] = &[
    way("", "durable.a", 0, &[0]),
    way("", "durable.b", 0, &[1]),
    way("", "durable.c", 0, &[2]),
    way("", "transient", 0, &[3]),
    way("fan", "", 0, &[4, 5, 6]),
    way("fan", "any", 7, &[4, 5, 6]),
    way("direct", "a", 0, &[7]),
    way("direct", "b", 0, &[12]),
    way("topic", "a.b", 0, &[8]),
    way("topic", "in.a", 0, &[11]),
    way("topic", "a.in", 0, &[8]),
    way("topic", "b", 0, &[]),
    way("headers", "", 1, &[9]),
    way("headers", "a", 2, &[]),
    way("query", "", 7, &[10]),
    way("query", "a", 3, &[]),
    way("", "letters.a", 0, &[13]),
    way("", "letters.b", 0, &[13]),
    Way { expiration: Some("3000"), ..way("", "waiting", 0, &[14]) },
    Way { expiration: Some("500"), ..way("", "waiting", 0, &[14]) },
    way("", "full", 0, &[15]),
    way("", "full", 0, &[15]),
    way("", "refusing", 0, &[16]),
    way("", "refusing", 0, &[16]),
    way("", "ring", 0, &[17]),
    way("", "fleeting", 0, &[18]),
    way("", "log", 0, &[STREAM]),
    way("", "log", 0, &[STREAM]),
    way("mailbox", "ann", 0, &[20]),
    way("", "amq.mailbox.ann", 0, &[20]),
    way("service", "work", 0, &[21]),
    way("", "blocking", 0, &[22]),
    way("", "blocking", 0, &[22]),
];

/// The methods that declare everything.
pub fn declarations() -> Vec<Method<'static>> {
    let mut methods: Vec<Method<'static>> = Vec::new();
    for (exchange, exchange_type, internal, alternate) in [
        ("fan", "fanout", false, None),
        ("direct", "direct", false, Some("alternate")),
        ("topic", "topic", false, None),
        ("headers", "headers", false, None),
        ("query", "x-query", false, None),
        ("inner", "fanout", true, None),
        ("alternate", "fanout", false, None),
        ("dead", "direct", true, None),
    ] {
        let arguments = alternate.map_or(RawTable::default(), |name| table(&[("alternate-exchange", text(name))]));
        let declare =
            ExchangeDeclare { exchange, exchange_type, internal, durable: true, arguments, ..Default::default() };
        methods.push(declare.into());
    }
    for plan in QUEUES.iter().filter(|plan| !is_addressed(plan.group)) {
        let fields: Vec<(&str, FieldValue)> =
            plan.arguments.iter().map(|(name, value)| (*name, value.field())).collect();
        let arguments = table(&fields);
        methods
            .push(QueueDeclare { queue: plan.name, durable: plan.is_durable, arguments, ..Default::default() }.into());
    }
    for (queue, exchange, routing_key, arguments) in [
        ("fan.1", "fan", "", RawTable::default()),
        ("fan.2", "fan", "", RawTable::default()),
        ("fan.3", "fan", "", RawTable::default()),
        ("of.direct", "direct", "a", RawTable::default()),
        ("of.topic", "topic", "a.*", RawTable::default()),
        ("of.headers", "headers", "", table(&[("number", FieldValue::I32(1))])),
        ("of.query", "query", "", table(&[("x-query", text("number > 5"))])),
        ("of.inner", "inner", "", RawTable::default()),
        ("of.alternate", "alternate", "", RawTable::default()),
        ("letters.a", "dead", "a", RawTable::default()),
        ("letters.b", "dead", "b", RawTable::default()),
        ("letters.c", "dead", "c", RawTable::default()),
    ] {
        methods.push(QueueBind { queue, exchange, routing_key, arguments, ..Default::default() }.into());
    }
    methods
        .push(ExchangeBind { destination: "inner", source: "topic", routing_key: "in.#", ..Default::default() }.into());
    methods
}

impl Argument {
    fn field(self) -> FieldValue {
        match self {
            Text(value) => text(value),
            Number(value) => FieldValue::I32(value),
        }
    }
}

//! A client that speaks AMQP in bytes, for the tests and the simulation.

use crate::amqp::method::{BasicConsume, BasicPublish, ChannelOpen, ConfirmSelect, QueueDeclare};
use crate::amqp::properties::put_content;
use crate::amqp::{ContentHeader, FieldValue, FrameKind, Method, PropertyFields, RawTable, Table, next_frame};
use crate::broker::durable::DurableOptions;
use crate::broker::topology::StoredQuery;
use crate::broker::{
    Access, Broker, BrokerOptions, ConnectionId, Control, Flow, Login, RecoveryReport, Storage, UserLimits,
};
use crate::journal::{Committer, SimulatedDisk};
use std::sync::{Arc, Mutex};

use super::invariants::violation;

/// Allows what does not begin with `forbidden`, and knows one query.
#[derive(Debug, Default)]
pub struct Easy {
    pub limits: UserLimits,
}

impl Control for Easy {
    fn allowed(&mut self, access: &Access<'_>) -> bool {
        !access.name.starts_with("forbidden")
    }

    fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
        match key {
            "expensive" => Ok(StoredQuery { language: "selector".into(), text: "price > 10".into() }),
            _ => Err("there is no such query".to_owned()),
        }
    }

    fn limits(&mut self, _: &str) -> UserLimits {
        self.limits
    }
}

/// The properties of a message that survives a restart.
pub const PERSISTENT: PropertyFields<'static> = PropertyFields {
    delivery_mode: Some(2),
    content_type: None,
    content_encoding: None,
    headers: None,
    priority: None,
    correlation_id: None,
    reply_to: None,
    expiration: None,
    message_id: None,
    timestamp: None,
    message_type: None,
    user_id: None,
    app_id: None,
    cluster_id: None,
};

/// A method that came, with its content when it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMethod {
    pub channel: u16,
    pub payload: Vec<u8>,
    pub properties: Vec<u8>,
    pub body: Vec<u8>,
}

impl ReceivedMethod {
    pub fn method(&self) -> Method<'_> {
        Method::decode(&self.payload).expect("the broker writes methods")
    }
}

/// Cut bytes that the broker wrote into methods with their content. Panics where they are none.
pub fn read(bytes: &[u8]) -> (Vec<ReceivedMethod>, usize) {
    let (mut seen, mut at, mut whole) = (Vec::<ReceivedMethod>::new(), 0, 0);
    let mut missing = None;
    while let Some((frame, used)) = next_frame(&bytes[at..], 1 << 24).expect("frames") {
        at += used;
        match frame.kind {
            FrameKind::Method => {
                assert_eq!(missing, None, "content comes whole");
                let (channel, payload) = (frame.channel, frame.payload.to_vec());
                seen.push(ReceivedMethod { channel, payload, properties: Vec::new(), body: Vec::new() });
                let has_content = matches!(
                    seen.last().expect("pushed").method(),
                    Method::BasicDeliver(_) | Method::BasicGetOk(_) | Method::BasicReturn(_)
                );
                missing = has_content.then_some(u64::MAX);
            }
            FrameKind::Header => {
                assert_eq!(missing, Some(u64::MAX), "a header belongs to a method");
                let header = ContentHeader::decode(frame.payload).expect("a header");
                seen.last_mut().expect("a method").properties = header.properties.as_bytes().to_vec();
                missing = Some(header.body_size);
            }
            FrameKind::Body => {
                let message = seen.last_mut().expect("a method");
                assert_eq!(message.channel, frame.channel);
                message.body.extend_from_slice(frame.payload);
                missing = Some(missing.expect("a body has a header") - frame.payload.len() as u64);
            }
            FrameKind::Heartbeat => {}
        }
        if missing == Some(0) {
            missing = None;
        }
        if missing.is_none() {
            whole = at;
        }
    }
    if missing.is_some() {
        seen.pop();
    }
    (seen, whole)
}

/// A broker and time.
pub struct TestBroker {
    pub broker: Broker,
    pub now: u64,
}

/// The wall clock when `now` is 0.
pub const EPOCH_US: i64 = 1_700_000_000_000_000;

impl Default for TestBroker {
    fn default() -> Self {
        Self::new(BrokerOptions::default())
    }
}

impl TestBroker {
    pub fn new(options: BrokerOptions) -> Self {
        Self { broker: Broker::new(options, Box::new(Easy::default()), 0, EPOCH_US), now: 0 }
    }

    /// A broker with what is on `disk`.
    pub fn on_disk(disk: &SimulatedDisk, options: BrokerOptions) -> (Self, RecoveryReport) {
        Self::open(disk, options).expect("opened")
    }

    /// The same, which may fail.
    pub fn open(disk: &SimulatedDisk, options: BrokerOptions) -> Result<(Self, RecoveryReport), String> {
        Self::open_with(disk, options, Easy::default())
    }

    /// The same, with a control plane.
    pub fn open_with(
        disk: &SimulatedDisk,
        options: BrokerOptions,
        control: Easy,
    ) -> Result<(Self, RecoveryReport), String> {
        let journal = DurableOptions { segment_bytes: 1 << 20, ..DurableOptions::default() };
        Self::open_journal(disk, options, control, journal)
    }

    /// The same, with settings of the journal.
    pub fn open_journal(
        disk: &SimulatedDisk,
        options: BrokerOptions,
        control: Easy,
        journal: DurableOptions,
    ) -> Result<(Self, RecoveryReport), String> {
        let committer = Committer::manual(|| ());
        let storage = Storage { disk: Arc::new(disk.clone()), dir: "/data".into(), committer, journal };
        let (broker, found) =
            Broker::open(options, Box::new(control), storage, 0, EPOCH_US).map_err(|error| error.to_string())?;
        Ok((Self { broker, now: 0 }, found))
    }

    /// Let the journal write and sync.
    pub fn commit(&mut self) {
        self.broker.commit_once();
        self.broker.committed(self.now);
    }

    /// Let the committer make the files of streams that are declared, and write and sync their definitions.
    pub fn commit_streams(&mut self) {
        self.commit();
        self.commit();
    }

    /// A connection with channel 1 open.
    pub fn connect(&mut self) -> ConnectionId {
        let id = self.connect_as(Login::default());
        let seen = self.ask(id, 1, ChannelOpen::default());
        assert!(matches!(seen[0].method(), Method::ChannelOpenOk(_)));
        id
    }

    pub fn connect_as(&mut self, login: Login) -> ConnectionId {
        let defaults = Login {
            user: "guest".to_owned(),
            vhost: "/".to_owned(),
            knows_blocked: true,
            knows_cancel: true,
            ..login.clone()
        };
        let user = if login.user.is_empty() { defaults.user.clone() } else { login.user };
        let vhost = if login.vhost.is_empty() { defaults.vhost.clone() } else { login.vhost };
        self.broker.connect(Login { user, vhost, ..defaults }, self.now)
    }

    pub fn send(&mut self, id: ConnectionId, channel: u16, method: impl Into<Method<'static>>) {
        let mut bytes = Vec::new();
        method.into().encode(channel, &mut bytes);
        self.broker.receive(id, &bytes, self.now);
    }

    /// Everything that the broker has written for a connection.
    pub fn seen(&mut self, id: ConnectionId) -> Vec<ReceivedMethod> {
        self.try_seen(id).expect("every invariant holds")
    }

    /// The same.
    ///
    /// # Errors
    /// An invariant of the broker that does not hold, in words.
    pub fn try_seen(&mut self, id: ConnectionId) -> Result<Vec<ReceivedMethod>, String> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len();
            let flow = self.broker.output(id, &mut bytes);
            if flow == Flow::Ended || bytes.len() == before {
                break;
            }
        }
        let (seen, used) = read(&bytes);
        assert_eq!(used, bytes.len(), "whole frames");
        violation(&self.broker).map_or(Ok(seen), Err)
    }

    /// Everything that the broker has written for a connection after it has gone on with what it had put off.
    pub fn more(&mut self, id: ConnectionId) -> Vec<ReceivedMethod> {
        self.broker.work(self.now);
        self.seen(id)
    }

    pub fn ask(&mut self, id: ConnectionId, channel: u16, method: impl Into<Method<'static>>) -> Vec<ReceivedMethod> {
        self.send(id, channel, method);
        self.seen(id)
    }

    pub fn declare(&mut self, id: ConnectionId, queue: &'static str) {
        let seen = self.ask(id, 1, QueueDeclare { queue, ..Default::default() });
        assert!(matches!(seen[0].method(), Method::QueueDeclareOk(_)), "{:?}", seen[0].method());
    }

    /// Consume; returns what came with it.
    pub fn consume(
        &mut self,
        id: ConnectionId,
        queue: &'static str,
        tag: &'static str,
        no_ack: bool,
    ) -> Vec<ReceivedMethod> {
        let mut seen = self.ask(id, 1, BasicConsume { queue, consumer_tag: tag, no_ack, ..Default::default() });
        assert!(matches!(seen.remove(0).method(), Method::BasicConsumeOk(_)));
        seen
    }

    pub fn confirm_select(&mut self, id: ConnectionId) {
        let seen = self.ask(id, 1, ConfirmSelect { no_wait: false });
        assert!(matches!(seen[0].method(), Method::ConfirmSelectOk(_)));
    }

    pub fn publish(&mut self, id: ConnectionId, exchange: &str, routing_key: &str, body: &[u8]) {
        let bytes = published(exchange, routing_key, &PropertyFields::default(), body);
        self.broker.receive(id, &bytes, self.now);
    }
}

/// Arguments that live as long as the program: methods in tests borrow them.
pub fn table(fields: &[(&str, FieldValue)]) -> RawTable<'static> {
    // Kept where a search for leaks finds them.
    static KEPT: Mutex<Vec<&'static [u8]>> = Mutex::new(Vec::new());
    let table: Table = fields.iter().cloned().collect();
    let bytes: &'static [u8] = Box::leak(table.to_bytes().into_boxed_slice());
    KEPT.lock().expect("no test panics here").push(bytes);
    RawTable::new(bytes)
}

/// A value of a table.
pub fn text(value: &str) -> FieldValue {
    FieldValue::Text(value.as_bytes().into())
}

/// A publish on channel 1, in bytes.
pub fn published(exchange: &str, routing_key: &str, properties: &PropertyFields<'_>, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    BasicPublish { exchange, routing_key, ..Default::default() }.encode(1, &mut bytes);
    let mut raw = Vec::new();
    properties.encode(&mut raw);
    put_content(&mut bytes, 1, &raw, body, 4096);
    bytes
}

/// The bodies of deliveries, as text.
pub fn bodies(seen: &[ReceivedMethod]) -> Vec<String> {
    let deliveries =
        seen.iter().filter(|seen| matches!(seen.method(), Method::BasicDeliver(_) | Method::BasicGetOk(_)));
    deliveries.map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect()
}

/// The names of methods.
pub fn names(seen: &[ReceivedMethod]) -> Vec<&'static str> {
    seen.iter().map(|seen| seen.method().name()).collect()
}

/// The code and text of the close that came, and on which channel.
pub fn closed(seen: &[ReceivedMethod]) -> Option<(u16, u16, String)> {
    seen.iter().find_map(|seen| match seen.method() {
        Method::ChannelClose(close) => Some((seen.channel, close.reply_code, close.reply_text.to_owned())),
        Method::ConnectionClose(close) => Some((0, close.reply_code, close.reply_text.to_owned())),
        _ => None,
    })
}

//! Tests of clients' mistakes: each gets the right code and a helpful text, and affects nobody else.

use super::client::{TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{
    BasicAck, BasicConsume, BasicGet, BasicPublish, BasicQos, BasicRecover, ChannelClose, ChannelCloseOk, ChannelFlow,
    ChannelOpen, ConfirmSelect, ConnectionCloseOk, ConnectionUpdateSecret, ExchangeBind, ExchangeDeclare,
    ExchangeDelete, QueueBind, QueueDeclare, QueueDelete, TxCommit, TxRollback, TxSelect,
};
use crate::amqp::properties::put_content;
use crate::amqp::{FieldValue, Method, PropertyFields};
use crate::broker::{BrokerOptions, ConnectionId, Control, Event, Flow, Login, UserLimits};

/// What a connection of its own is told for sending this, while another goes on.
fn refusal(world: &mut TestBroker, bytes: &[u8]) -> (u16, u16, String) {
    let (id, bystander) = (world.connect(), world.connect());
    world.broker.receive(id, bytes, world.now);
    let close = closed(&world.seen(id)).unwrap_or_else(|| panic!("nothing was closed by {bytes:?}"));
    world.declare(bystander, "bystander");
    world.broker.disconnect(id, world.now);
    world.broker.disconnect(bystander, world.now);
    close
}

fn encoded(methods: &[Method<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    methods.iter().for_each(|method| method.encode(1, &mut bytes));
    bytes
}

#[test]
fn a_channel_is_closed_for_what_concerns_it_alone() {
    let mut world = TestBroker::default();
    let owner = world.connect();
    world.ask(owner, 1, QueueDeclare { queue: "locked", exclusive: true, ..Default::default() });
    world.declare(owner, "plain");
    world.ask(owner, 1, BasicConsume { queue: "plain", exclusive: true, ..Default::default() });
    let missing = table(&[("x-query", FieldValue::Text(b"price >> 3"[..].into()))]);
    let ttl = table(&[("x-message-ttl", FieldValue::I32(-1))]);
    let unknown = table(&[("x-max-priority", FieldValue::I32(5))]);
    let misspelt = table(&[("x-query-lang", FieldValue::from("cbm"))]);
    let to_forbidden = table(&[("x-dead-letter-exchange", FieldValue::from("forbidden"))]);
    let cases: Vec<(Method<'static>, u16, &str)> = vec![
        (
            QueueDeclare { queue: "none", passive: true, ..Default::default() }.into(),
            404,
            "no queue 'none' in vhost '/'",
        ),
        (BasicGet { queue: "none", ..Default::default() }.into(), 404, "no queue 'none' in vhost '/'"),
        (BasicGet::default().into(), 404, "no previously declared queue"),
        (ExchangeDeclare { exchange: "none", passive: true, ..Default::default() }.into(), 404, "no exchange 'none'"),
        (QueueBind { queue: "plain", exchange: "none", ..Default::default() }.into(), 404, "no exchange 'none'"),
        (
            QueueDeclare { queue: "locked", ..Default::default() }.into(),
            405,
            "exclusive access to locked queue 'locked'",
        ),
        (QueueDelete { queue: "locked", ..Default::default() }.into(), 405, "locked queue 'locked'"),
        (
            BasicConsume { queue: "plain", ..Default::default() }.into(),
            403,
            "queue 'plain' in vhost '/' in exclusive use",
        ),
        (QueueDeclare { queue: "amq.mine", ..Default::default() }.into(), 403, "reserved prefix"),
        (
            QueueDeclare { queue: "forbidden", ..Default::default() }.into(),
            403,
            "configure access to queue 'forbidden'",
        ),
        (ExchangeDelete { exchange: "amq.topic", ..Default::default() }.into(), 403, "amq.topic"),
        (QueueBind { queue: "plain", exchange: "", ..Default::default() }.into(), 403, "default exchange"),
        (
            QueueDeclare { queue: "plain", durable: true, ..Default::default() }.into(),
            406,
            "received 'true' but current is 'false'",
        ),
        (
            QueueDeclare { queue: "q", arguments: ttl, ..Default::default() }.into(),
            406,
            "'x-message-ttl' for queue 'q'",
        ),
        (QueueDeclare { queue: "q", arguments: unknown, ..Default::default() }.into(), 406, "'x-max-priority'"),
        (
            QueueDeclare { queue: "q", arguments: to_forbidden, ..Default::default() }.into(),
            403,
            "write access to exchange 'forbidden'",
        ),
        (
            QueueBind { queue: "plain", exchange: "amq.topic", arguments: misspelt, ..Default::default() }.into(),
            406,
            "unknown argument 'x-query-lang'",
        ),
        (QueueDelete { queue: "plain", if_unused: true, ..Default::default() }.into(), 406, "in use"),
        (
            QueueBind { queue: "plain", exchange: "amq.topic", arguments: missing, ..Default::default() }.into(),
            406,
            "position",
        ),
        (BasicAck { delivery_tag: 1, multiple: false }.into(), 406, "unknown delivery tag 1"),
        (BasicAck { delivery_tag: 1, multiple: true }.into(), 406, "unknown delivery tag 1"),
        (TxCommit {}.into(), 406, "not transactional"),
        (TxRollback {}.into(), 406, "not transactional"),
        (
            ExchangeBind { destination: "none", source: "amq.topic", ..Default::default() }.into(),
            404,
            "no exchange 'none'",
        ),
    ];
    for (method, code, text) in cases {
        let (channel, got, said) = refusal(&mut world, &encoded(&[method]));
        assert_eq!((channel, got), (1, code), "{method:?}: {said}");
        assert!(said.contains(text), "{method:?}: {said}");
    }
    let both = [Method::from(TxSelect {}), ConfirmSelect { no_wait: true }.into()];
    assert_eq!(refusal(&mut world, &encoded(&both)).1, 406);
    assert_eq!(bodies(&world.seen(owner)), [""; 0]);
}

#[test]
fn a_connection_is_closed_for_what_no_channel_can_answer_for() {
    let mut world = TestBroker::default();
    let other_channel = |method: Method<'_>| {
        let mut bytes = Vec::new();
        method.encode(9, &mut bytes);
        bytes
    };
    let mut header_alone = Vec::new();
    put_content(&mut header_alone, 1, &[], b"", 4096);
    let mut interrupted = encoded(&[BasicPublish { routing_key: "q", ..Default::default() }.into()]);
    interrupted.extend(encoded(&[QueueDeclare::default().into()]));
    let mut overflow = encoded(&[BasicPublish { routing_key: "q", ..Default::default() }.into()]);
    let mut content = Vec::new();
    put_content(&mut content, 1, &[], b"12345", 4096);
    content[7 + 11] = 4;
    overflow.extend(content);
    let cases: Vec<(Vec<u8>, u16)> = vec![
        (other_channel(QueueDeclare::default().into()), 504),
        (encoded(&[ChannelOpen::default().into()]), 504),
        (header_alone, 505),
        (interrupted, 505),
        (overflow, 501),
        (vec![1, 0, 1, 0, 0, 0, 0, 0], 501),
        (vec![9, 0, 1, 0, 0, 0, 0, 0xCE], 501),
        (vec![1, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF], 501),
        (vec![1, 0, 1, 0, 0, 0, 4, 0, 99, 0, 99, 0xCE], 540),
        (vec![1, 0, 1, 0, 0, 0, 6, 0, 50, 0, 10, 0, 0, 0xCE], 502),
        (encoded(&[BasicQos { prefetch_size: 1, ..Default::default() }.into()]), 540),
        (encoded(&[BasicRecover { requeue: false }.into()]), 540),
        (encoded(&[ExchangeDeclare { exchange: "e", exchange_type: "unheard", ..Default::default() }.into()]), 503),
        (encoded(&[ChannelCloseOk {}.into()]), 503),
        (encoded(&[ConnectionCloseOk {}.into()]), 503),
    ];
    for (bytes, code) in cases {
        let (channel, got, text) = refusal(&mut world, &bytes);
        assert_eq!((channel, got), (0, code), "{bytes:?}: {text}");
    }
    let mut immediate = encoded(&[BasicPublish { immediate: true, ..Default::default() }.into()]);
    put_content(&mut immediate, 1, &[], b"", 4096);
    assert_eq!(refusal(&mut world, &immediate).1, 540);
    assert!(world.broker.take_events().iter().all(|event| !matches!(event, Event::HeartbeatMissed { .. })));
}

#[test]
fn what_was_sent_before_a_close_was_heard_of_is_dropped() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "work");
    let mut bytes = encoded(&[BasicAck { delivery_tag: 7, multiple: false }.into()]);
    bytes.extend(published("", "work", &PropertyFields::default(), &[b'x'; 5000]));
    bytes.extend(encoded(&[QueueDelete { queue: "work", ..Default::default() }.into()]));
    world.broker.receive(id, &bytes, 0);
    assert_eq!(names(&world.seen(id)), ["channel.close"]);
    assert_eq!(world.broker.metrics().published, 0);
    let seen = world.ask(id, 1, ChannelCloseOk {});
    assert_eq!(names(&seen), [""; 0]);
    assert_eq!(names(&world.ask(id, 1, ChannelOpen::default())), ["channel.open-ok"]);
    let seen = world.ask(id, 1, QueueDeclare { queue: "work", passive: true, ..Default::default() });
    assert_eq!(names(&seen), ["queue.declare-ok"]);
}

#[test]
fn a_publisher_may_give_up_in_the_middle_of_a_message() {
    let mut world = TestBroker::default();
    let id = world.connect();
    // Three body frames, of which the last does not come.
    let mut bytes = published("", "work", &PropertyFields::default(), &[b'x'; 9000]);
    bytes.truncate(bytes.len() - (9000 - 2 * 4088) - 8);
    bytes.extend(encoded(&[ChannelClose::default().into()]));
    world.broker.receive(id, &bytes, 0);
    assert_eq!(names(&world.seen(id)), ["channel.close-ok"]);
    assert_eq!(world.broker.metrics().published, 0);
}

#[test]
fn messages_have_bounds_and_true_senders() {
    let options = BrokerOptions { message_bytes_max: 1000, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let large = published("", "q", &PropertyFields::default(), &[0; 1001]);
    assert_eq!(refusal(&mut world, &large).1, 406);
    let forged = PropertyFields { user_id: Some("somebody"), ..Default::default() };
    assert_eq!(refusal(&mut world, &published("", "q", &forged, b"m")).1, 406);
    let signed = PropertyFields { user_id: Some("guest"), ..Default::default() };
    let id = world.connect();
    world.broker.receive(id, &published("", "q", &signed, b"m"), 0);
    assert_eq!(names(&world.seen(id)), [""; 0]);
    let never = PropertyFields { expiration: Some("soon"), ..Default::default() };
    assert_eq!(refusal(&mut world, &published("", "q", &never, b"m")).1, 406);
    assert_eq!(refusal(&mut world, &published("none", "q", &PropertyFields::default(), b"m")).1, 404);
    assert_eq!(refusal(&mut world, &published("forbidden", "q", &PropertyFields::default(), b"m")).1, 403);
}

#[test]
fn a_full_queue_drops_its_head_or_refuses_as_declared() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let bounded = |overflow: &str| table(&[("x-max-length", FieldValue::I32(2)), ("x-overflow", text(overflow))]);
    world.ask(id, 1, QueueDeclare { queue: "drops", arguments: bounded("drop-head"), ..Default::default() });
    world.ask(id, 1, QueueDeclare { queue: "refuses", arguments: bounded("reject-publish"), ..Default::default() });
    world.confirm_select(id);
    let mut told = Vec::new();
    for queue in ["drops", "refuses"] {
        for body in ["1", "2", "3"] {
            world.publish(id, "", queue, body.as_bytes());
            told.extend(names(&world.seen(id)));
        }
    }
    assert_eq!(told, ["basic.ack", "basic.ack", "basic.ack", "basic.ack", "basic.ack", "basic.nack"]);
    assert_eq!(bodies(&world.consume(id, "drops", "d", true)), ["2", "3"]);
    assert_eq!(bodies(&world.consume(id, "refuses", "r", true)), ["1", "2"]);
}

#[test]
fn messages_and_queues_end_when_their_time_is_up() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let arguments = table(&[("x-message-ttl", FieldValue::I32(1000)), ("x-expires", FieldValue::I32(5000))]);
    world.ask(id, 1, QueueDeclare { queue: "short", arguments, ..Default::default() });
    world.declare(id, "plain");
    world.publish(id, "", "short", b"1");
    let properties = PropertyFields { expiration: Some("500"), ..Default::default() };
    world.broker.receive(id, &published("", "plain", &properties, b"1"), 0);
    world.publish(id, "", "plain", b"2");
    world.now = 600_000;
    world.broker.tick(world.now, 0);
    assert_eq!(world.broker.metrics().messages, 2);
    assert_eq!(bodies(&world.consume(id, "plain", "c", true)), ["2"]);
    world.now = 1_000_000;
    world.broker.tick(world.now, 0);
    assert_eq!((world.broker.metrics().messages, world.broker.metrics().expired), (0, 2));
    world.now = 4_900_000;
    world.ask(id, 1, QueueDeclare { queue: "short", passive: true, ..Default::default() });
    world.now = 9_800_000;
    world.broker.tick(world.now, 0);
    assert_eq!(world.broker.metrics().queues, 2);
    world.now = 9_900_000;
    world.broker.tick(world.now, 0);
    assert_eq!(world.broker.metrics().queues, 1);
}

#[test]
fn a_transaction_happens_whole_or_not_at_all() {
    let mut world = TestBroker::default();
    let (id, other) = (world.connect(), world.connect());
    world.declare(id, "work");
    world.publish(other, "", "work", b"0");
    world.consume(id, "work", "c", false);
    world.ask(id, 1, TxSelect {});
    world.publish(id, "", "work", b"1");
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(world.broker.metrics().messages, 1);
    assert_eq!(names(&world.ask(id, 1, TxRollback {})), ["tx.rollback-ok"]);
    world.publish(id, "", "work", b"2");
    world.send(id, 1, BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["basic.deliver", "tx.commit-ok"]);
    assert_eq!(world.broker.metrics().messages, 1);
    world.publish(id, "", "work", b"3");
    world.publish(id, "none", "work", b"4");
    let seen = world.ask(id, 1, TxCommit {});
    assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(404));
    assert_eq!(world.broker.metrics().published, 2, "the message before the wrong one was not published either");
}

#[test]
fn publishers_wait_while_memory_is_short_and_consumers_end_that() {
    let options = BrokerOptions { memory_bytes_max: 100_000, ..BrokerOptions::default() };
    let mut world = TestBroker::new(options);
    let (publisher, consumer) = (world.connect(), world.connect());
    world.declare(consumer, "work");
    let mut sent = 0;
    while world.broker.wants_input(publisher) {
        world.publish(publisher, "", "work", &[0; 1000]);
        sent += 1;
    }
    assert!((80..100).contains(&sent), "{sent}");
    assert_eq!(names(&world.seen(publisher)), ["connection.blocked"]);
    assert!(world.broker.wants_input(consumer));
    world.publish(publisher, "", "work", b"waits");
    world.now = 600_000_000;
    world.broker.tick(world.now, 0);
    assert_eq!(world.broker.metrics().connections, 2, "silence is not the client's fault now");
    let got = bodies(&world.consume(consumer, "work", "c", true));
    assert_eq!((got.len(), got.last().map(String::as_str)), (sent + 1, Some("waits")));
    assert_eq!(names(&world.seen(publisher)), ["connection.unblocked"]);
}

#[test]
fn connections_are_heard_of_or_end() {
    let mut world = TestBroker::default();
    let login = Login { heartbeat_s: 10, ..Login::default() };
    let (silent, alive) = (world.connect_as(login.clone()), world.connect_as(login));
    let (mut bytes, mut is_over) = (Vec::new(), false);
    for second in 1..=25 {
        world.now = second * 1_000_000;
        (0..10).for_each(|_| world.broker.tick(world.now, 0));
        world.broker.receive(alive, &crate::amqp::frame::HEARTBEAT, world.now);
        is_over |= world.broker.output(silent, &mut bytes) == Flow::Ended;
    }
    assert!(is_over);
    let beats = bytes.len() / 8;
    assert!((3..=5).contains(&beats), "{beats} heartbeats in 25 s");
    assert!(world.broker.wants_input(alive));
    assert!(matches!(world.broker.take_events()[..], [Event::HeartbeatMissed { connection }] if connection == silent));
}

#[test]
fn a_client_that_could_not_be_heard_has_its_time_again() {
    let mut world = TestBroker::default();
    let login = Login { heartbeat_s: 2, ..Login::default() };
    let (alive, silent) = (world.connect_as(login.clone()), world.connect_as(login));
    world.broker.tick(100_000, 0);
    // The caller was busy: the first thing that it does is a tick, and what the client has sent is still in the socket.
    world.broker.tick(11_400_000, 0);
    (0..10).for_each(|_| world.broker.tick(11_400_000, 0));
    assert_eq!(world.broker.metrics().connections, 2);
    for tenth in 1..=60 {
        world.now = 11_400_000 + tenth * 100_000;
        world.broker.receive(alive, &crate::amqp::frame::HEARTBEAT, world.now);
        (0..5).for_each(|_| world.broker.tick(world.now, 0));
    }
    assert!(world.broker.wants_input(alive));
    assert_eq!(world.broker.output(silent, &mut Vec::new()), Flow::Ended, "the control: silence of its own ends it");
}

#[test]
fn users_have_limits_and_unknown_vhosts_are_refused() {
    struct Tight;
    impl Control for Tight {
        fn allowed(&mut self, _: &crate::broker::Access<'_>) -> bool {
            true
        }
        fn stored_query(&mut self, _: &str) -> Result<crate::broker::topology::StoredQuery, String> {
            Err("none".to_owned())
        }
        fn limits(&mut self, _: &str) -> UserLimits {
            UserLimits { connections: Some(1), queues: Some(1) }
        }
    }
    let broker = crate::broker::Broker::new(BrokerOptions::default(), Box::new(Tight), 0, 0);
    let mut world = TestBroker { broker, now: 0 };
    let close = |world: &mut TestBroker, id: ConnectionId| closed(&world.seen(id)).map(|(_, code, _)| code);
    let lost = world.connect_as(Login { vhost: "none".to_owned(), user: "bob".to_owned(), ..Login::default() });
    assert_eq!(close(&mut world, lost), Some(530));
    let id = world.connect();
    let second = world.connect_as(Login::default());
    assert_eq!(close(&mut world, second), Some(530));
    world.declare(id, "one");
    let seen = world.ask(id, 1, QueueDeclare { queue: "two", ..Default::default() });
    assert_eq!(closed(&seen).map(|(_, code, _)| code), Some(406));
}

#[test]
fn small_courtesies_are_answered() {
    let mut world = TestBroker::default();
    let id = world.connect();
    let secret = ConnectionUpdateSecret { new_secret: b"s", reason: "r" };
    assert_eq!(names(&world.ask(id, 0, secret)), ["connection.update-secret-ok"]);
    world.declare(id, "work");
    world.consume(id, "work", "c", true);
    assert_eq!(names(&world.ask(id, 1, ChannelFlow { active: false })), ["channel.flow-ok"]);
    world.publish(id, "", "work", b"1");
    assert_eq!(names(&world.seen(id)), [""; 0]);
    assert_eq!(names(&world.ask(id, 1, ChannelFlow { active: true })), ["channel.flow-ok", "basic.deliver"]);
    let seen = world.ask(id, 1, QueueDeclare { queue: "", ..Default::default() });
    let Method::QueueDeclareOk(ok) = seen[0].method() else { panic!("{seen:?}") };
    assert!(ok.queue.starts_with("amq.gen-"));
    let seen = world.ask(id, 1, QueueDeclare { queue: "", passive: true, ..Default::default() });
    assert!(matches!(seen[0].method(), Method::QueueDeclareOk(again) if again.queue == ok.queue));
    world.broker.stop("over", 0);
    assert_eq!(closed(&world.seen(id)), Some((0, 320, "CONNECTION_FORCED - over".to_owned())));
    let late = world.connect_as(Login::default());
    assert_eq!(closed(&world.seen(late)).map(|(_, code, _)| code), Some(530));
}

#[test]
fn what_can_hardly_be_meant_in_a_binding_is_told_once() {
    let mut world = TestBroker::default();
    let id = world.connect();
    world.declare(id, "q");
    let bind = |query: &str| QueueBind {
        queue: "q",
        exchange: "amq.topic",
        routing_key: "#",
        arguments: table(&[("x-query", text(query))]),
        ..QueueBind::default()
    };
    for query in ["price > '100'", "price > '100'", "price > 100"] {
        world.ask(id, 1, bind(query));
    }
    let odd: Vec<_> = (0..10).map(|number| format!("price{number} > '100'")).collect();
    world.ask(id, 1, bind(&odd.join(" AND ")));
    let told = world.broker.take_events();
    let [Event::Warning { connection, subject, reason }, Event::Warning { reason: long, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((*connection, &**subject), (id, "binding of queue 'q' to exchange 'amq.topic'"));
    assert!(reason.starts_with("position 8: '100' in quotes is a text"), "{reason}");
    assert_eq!(long.chars().count(), 500);
}

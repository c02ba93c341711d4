//! Mailboxes and services: made on demand, read by whom they are for, and signed by the broker.

use super::client::{ReceivedMethod, TestBroker, bodies, closed, names, published, table, text};
use crate::amqp::method::{
    BasicAck, BasicConsume, BasicGet, BasicQos, ChannelCloseOk, ChannelOpen, ExchangeBind, ExchangeDeclare,
    ExchangeDelete, QueueBind, QueueDeclare, TxCommit, TxSelect,
};
use crate::amqp::{BasicProperties, Method, PropertyFields};
use crate::broker::topology::AddressKind;
use crate::broker::{AddressSettings, Addresses, BrokerOptions, ConnectionId, Login};
use crate::journal::SimulatedDisk;

/// A client with an identity, with channel 1 open.
fn client(world: &mut TestBroker, identity: &str) -> ConnectionId {
    let id = world.connect_as(Login { identity: identity.to_owned(), ..Login::default() });
    world.ask(id, 1, ChannelOpen::default());
    id
}

/// The sender and the reply address of a delivery.
fn signature(seen: &ReceivedMethod) -> (Option<String>, Option<String>) {
    let properties = BasicProperties::parse(&seen.properties).expect("properties");
    let sender = properties.headers().and_then(|headers| headers.get("x-sender")).expect("a sender");
    (sender.as_str().map(str::to_owned), properties.reply_to().map(str::to_owned))
}

fn ack(delivery_tag: u64) -> BasicAck {
    BasicAck { delivery_tag, multiple: false }
}

fn of_length(length_max: u64) -> BrokerOptions {
    let settings = AddressSettings { length_max, ..AddressSettings::default() };
    BrokerOptions { addresses: Addresses { mailbox: settings, service: settings }, ..BrokerOptions::default() }
}

#[test]
fn a_mailbox_is_there_before_its_owner_and_keeps_what_comes() {
    let mut world = TestBroker::default();
    let ann = client(&mut world, "ann");
    world.confirm_select(ann);
    world.publish(ann, "mailbox", "bob", b"hello");
    assert_eq!(names(&world.seen(ann)), ["basic.ack"]);
    let bob = client(&mut world, "bob");
    let seen = world.consume(bob, "amq.mailbox.bob", "c", false);
    assert_eq!(bodies(&seen), ["hello"]);
    assert_eq!(signature(&seen[0]), (Some("ann".to_owned()), Some("amq.mailbox.ann".to_owned())));
    assert_eq!((world.broker.metrics().mailboxes, world.broker.metrics().services), (2, 0));
}

#[test]
fn a_reply_goes_back_by_reply_to() {
    let mut world = TestBroker::default();
    let (ann, bob) = (client(&mut world, "ann"), client(&mut world, "bob"));
    world.publish(ann, "mailbox", "bob", b"ping");
    let (_, reply_to) = signature(&world.consume(bob, "amq.mailbox.bob", "c", false)[0]);
    world.publish(bob, "", &reply_to.expect("ann's mailbox"), b"pong");
    let seen = world.consume(ann, "amq.mailbox.ann", "c", false);
    assert_eq!(bodies(&seen), ["pong"]);
    assert_eq!(signature(&seen[0]).0, Some("bob".to_owned()));
}

#[test]
fn a_sender_cannot_be_forged_on_any_way_to_a_mailbox() {
    let mut world = TestBroker::default();
    let (mallory, bob) = (client(&mut world, ""), client(&mut world, "bob"));
    world.declare(mallory, "hers");
    let headers = table(&[("x-sender", text("ann"))]);
    let forged = PropertyFields { headers: Some(headers), ..Default::default() };
    for (exchange, key) in [("mailbox", "bob"), ("", "amq.mailbox.bob")] {
        world.broker.receive(mallory, &published(exchange, key, &forged, b"forged"), 0);
        let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
        assert_eq!(signature(&seen[0]), (None, None), "by '{exchange}'");
    }
    let copied =
        table(&[("x-sender", text("ann")), ("CC", crate::amqp::FieldValue::Array(vec![text("amq.mailbox.bob")]))]);
    let copied = PropertyFields { headers: Some(copied), ..Default::default() };
    world.broker.receive(mallory, &published("", "hers", &copied, b"copied"), 0);
    let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
    assert_eq!((bodies(&seen), signature(&seen[0])), (vec!["copied".to_owned()], (None, None)));
    // No other way leads there.
    let to_box =
        |exchange, key| table(&[("x-dead-letter-exchange", text(exchange)), ("x-dead-letter-routing-key", text(key))]);
    let ways: Vec<Method<'static>> = vec![
        QueueBind { queue: "amq.mailbox.bob", exchange: "amq.topic", routing_key: "#", ..Default::default() }.into(),
        QueueBind { queue: "hers", exchange: "mailbox", routing_key: "bob", ..Default::default() }.into(),
        ExchangeBind { destination: "mailbox", source: "amq.topic", routing_key: "#", ..Default::default() }.into(),
        QueueDeclare { queue: "q", arguments: to_box("mailbox", "bob"), ..Default::default() }.into(),
        QueueDeclare { queue: "q", arguments: to_box("", "amq.mailbox.bob"), ..Default::default() }.into(),
        ExchangeDeclare {
            exchange: "e",
            exchange_type: "direct",
            arguments: table(&[("alternate-exchange", text("mailbox"))]),
            ..Default::default()
        }
        .into(),
        ExchangeDeclare { exchange: "other", exchange_type: "mailbox", durable: true, ..Default::default() }.into(),
    ];
    for way in ways {
        let name = way.name();
        let (channel, code, text) = closed(&world.ask(mallory, 1, way)).expect(name);
        assert_eq!((channel, code), (1, 406), "{text}");
        world.ask(mallory, 1, ChannelCloseOk {});
        world.ask(mallory, 1, ChannelOpen::default());
    }
    let dropping = table(&[("x-dead-letter-exchange", text("")), ("x-message-ttl", crate::amqp::FieldValue::I32(0))]);
    world.ask(mallory, 1, QueueDeclare { queue: "dropping", arguments: dropping, ..Default::default() });
    world.ask(
        mallory,
        1,
        QueueBind { queue: "dropping", exchange: "amq.direct", routing_key: "amq.mailbox.bob", ..Default::default() },
    );
    world.broker.receive(mallory, &published("amq.direct", "amq.mailbox.bob", &forged, b"letter"), 0);
    world.broker.work(1_000);
    let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
    assert_eq!(names(&seen), ["basic.get-empty"]);
}

#[test]
fn nobody_else_gets_a_sender_that_a_client_has_written() {
    let disk = SimulatedDisk::new();
    let mut world = TestBroker::on_disk(&disk, BrokerOptions::default()).0;
    let mallory = client(&mut world, "mallory");
    for (name, arguments) in [
        ("plain", vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("letters"))]),
        ("letters", vec![]),
        ("log", vec![("x-queue-type", text("stream"))]),
    ] {
        let arguments = table(&arguments);
        world.send(mallory, 1, QueueDeclare { queue: name, durable: true, arguments, ..Default::default() });
        world.commit_streams();
        assert_eq!(names(&world.seen(mallory)), ["queue.declare-ok"]);
    }
    let headers =
        table(&[("n", crate::amqp::FieldValue::I32(1)), ("x-sender", text("ann")), ("x-stream-missed", text("7"))]);
    let forged = PropertyFields { headers: Some(headers), message_id: Some("m"), ..Default::default() };
    let check = |seen: &[ReceivedMethod], way: &str| {
        let properties = BasicProperties::parse(&seen.last().expect(way).properties).expect("properties");
        let headers = properties.headers().expect("headers");
        assert!(headers.get("x-sender").is_none(), "{way}");
        assert_eq!(headers.get("n").and_then(|value| value.as_i64()), Some(1), "{way}");
        assert_eq!(properties.message_id(), Some("m"), "{way}");
    };
    world.broker.receive(mallory, &published("", "plain", &forged, b"x"), 0);
    let seen = world.ask(mallory, 1, BasicGet { queue: "plain", ..Default::default() });
    check(&seen, "a queue");
    world.ask(mallory, 1, crate::amqp::method::BasicReject { delivery_tag: 1, requeue: false });
    world.broker.work(1_000);
    world.commit();
    check(&world.ask(mallory, 1, BasicGet { queue: "letters", ..Default::default() }), "a dead letter");
    world.ask(mallory, 1, TxSelect {});
    world.broker.receive(mallory, &published("", "log", &forged, b"x"), 0);
    world.ask(mallory, 1, TxCommit {});
    world.commit();
    let reader = world.connect();
    let seen = super::streaming::read(&mut world, reader, 1, &[("x-stream-offset", text("first"))]);
    check(&seen, "a stream, in a transaction");
    let headers = BasicProperties::from_checked(&seen[0].properties).headers().expect("headers");
    assert!(headers.get("x-stream-missed").is_none(), "nothing was missed");
}

#[test]
fn only_the_owner_reads_a_mailbox_and_acknowledges_what_it_reads() {
    let mut world = TestBroker::default();
    client(&mut world, "bob");
    let refusals: [(&str, Method<'static>, u16); 5] = [
        ("ann", BasicConsume { queue: "amq.mailbox.bob", ..Default::default() }.into(), 403),
        ("", BasicGet { queue: "amq.mailbox.bob", ..Default::default() }.into(), 403),
        ("ann", crate::amqp::method::QueuePurge { queue: "amq.mailbox.bob", ..Default::default() }.into(), 403),
        ("bob", BasicConsume { queue: "amq.mailbox.bob", no_ack: true, ..Default::default() }.into(), 406),
        ("bob", BasicGet { queue: "amq.mailbox.bob", no_ack: true, ..Default::default() }.into(), 406),
    ];
    for (identity, method, code) in refusals {
        let id = client(&mut world, identity);
        assert_eq!(closed(&world.ask(id, 1, method)).map(|(_, code, _)| code), Some(code), "{identity}");
    }
}

#[test]
fn predeclared_exchanges_stay_and_are_declared_again_as_they_are() {
    let mut world = TestBroker::default();
    for (name, code) in [("mailbox", 403), ("service", 403)] {
        let id = world.connect();
        let again = ExchangeDeclare { exchange: name, exchange_type: name, durable: true, ..Default::default() };
        assert_eq!(names(&world.ask(id, 1, again)), ["exchange.declare-ok"]);
        let refused = closed(&world.ask(id, 1, ExchangeDelete { exchange: name, ..Default::default() }));
        assert_eq!(refused.map(|(_, code, _)| code), Some(code));
    }
}

#[test]
fn an_exchange_that_was_called_mailbox_before_there_were_mailboxes_stays_as_it_was() {
    use crate::broker::topology::{Definition, ExchangeKind, Topology};
    let mut topology = Topology::new();
    let vhost = topology.add_vhost("/");
    let definition = Definition::Exchange {
        vhost: "/".to_owned(),
        name: "mailbox".to_owned(),
        kind: ExchangeKind::Direct,
        auto_delete: false,
        internal: false,
        arguments: Vec::new(),
    };
    topology.recover(&definition).expect("recovered");
    let kind = |name| topology.exchange_info(vhost, name).expect("there").settings.kind;
    assert_eq!(kind("mailbox"), ExchangeKind::Direct);
    assert_eq!(kind("service"), ExchangeKind::Address(AddressKind::Service));
    assert!(topology.definitions().any(|it| it == definition));
}

#[test]
fn mailboxes_and_requests_survive_a_power_cut() {
    let disk = SimulatedDisk::default();
    let (mut world, _) = TestBroker::on_disk(&disk, BrokerOptions::default());
    let ann = client(&mut world, "ann");
    world.confirm_select(ann);
    world.publish(ann, "mailbox", "bob", b"letter");
    world.publish(ann, "service", "resize", b"request");
    assert_eq!(names(&world.seen(ann)), [""; 0], "nothing is confirmed before it is on disk");
    world.commit();
    assert_eq!(names(&world.seen(ann)), ["basic.ack"]);
    drop(world);
    let (mut world, _) = TestBroker::on_disk(&disk, of_length(1));
    let bob = client(&mut world, "bob");
    world.commit();
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "m", false)), ["letter"]);
    let seen = world.consume(bob, "amq.service.resize", "s", false);
    assert_eq!((bodies(&seen), signature(&seen[0]).0), (vec!["request".to_owned()], Some("ann".to_owned())));
    assert_eq!((world.broker.metrics().mailboxes, world.broker.metrics().services), (2, 1));
}

#[test]
fn workers_get_one_request_at_a_time_as_they_become_ready() {
    let mut world = TestBroker::default();
    let (ann, first, second) = (client(&mut world, "ann"), client(&mut world, ""), client(&mut world, ""));
    world.consume(first, "amq.service.resize", "w", false);
    for body in ["1", "2", "3", "4"] {
        world.publish(ann, "service", "resize", body.as_bytes());
    }
    assert_eq!(bodies(&world.seen(first)), ["1"]);
    assert_eq!(bodies(&world.consume(second, "amq.service.resize", "w", false)), ["2"]);
    assert_eq!(bodies(&world.ask(first, 1, ack(1))), ["3"]);
    // A dead worker's request is with the next worker at once, and says so.
    world.broker.disconnect(second, 0);
    let seen = world.ask(first, 1, ack(2));
    assert_eq!(bodies(&seen), ["2"]);
    assert!(matches!(seen[0].method(), Method::BasicDeliver(it) if it.redelivered));
}

#[test]
fn workers_that_ask_for_more_get_more() {
    let mut world = TestBroker::default();
    let (ann, worker) = (client(&mut world, "ann"), client(&mut world, ""));
    world.ask(worker, 1, BasicQos { prefetch_size: 0, prefetch_count: 2, global: false });
    world.consume(worker, "amq.service.resize", "w", false);
    for body in ["1", "2", "3"] {
        world.publish(ann, "service", "resize", body.as_bytes());
    }
    assert_eq!(bodies(&world.seen(worker)), ["1", "2"]);
}

#[test]
fn a_worker_that_hangs_loses_its_request() {
    let settings = AddressSettings { consumer_timeout_ms: Some(5_000), ..AddressSettings::default() };
    let addresses = Addresses { service: settings, ..Addresses::default() };
    let mut world = TestBroker::new(BrokerOptions { addresses, ..BrokerOptions::default() });
    let (ann, hung, next) = (client(&mut world, "ann"), client(&mut world, ""), client(&mut world, ""));
    world.publish(ann, "service", "resize", b"1");
    assert_eq!(bodies(&world.consume(hung, "amq.service.resize", "w", false)), ["1"]);
    world.consume(next, "amq.service.resize", "w", false);
    let wait = |world: &mut TestBroker, until: u64| {
        while world.now < until {
            world.now += 100_000;
            world.broker.tick(world.now, super::client::EPOCH_US + world.now as i64);
        }
    };
    wait(&mut world, 5_000_000);
    assert!(world.seen(next).is_empty(), "its time is not up");
    wait(&mut world, 8_000_000);
    let (channel, code, text) = closed(&world.seen(hung)).expect("closed");
    assert_eq!((channel, code), (1, 406));
    assert!(text.contains("delivery acknowledgement on channel 1 timed out"), "{text}");
    let seen = world.seen(next);
    assert_eq!(bodies(&seen), ["1"]);
    assert!(matches!(seen[0].method(), Method::BasicDeliver(it) if it.redelivered));
    assert_eq!(world.broker.metrics().consumer_timeouts, 1);
    // Whoever settles in time goes on.
    world.ask(next, 1, ack(1));
    wait(&mut world, 20_000_000);
    assert_eq!(names(&world.seen(next)), [""; 0]);
}

#[test]
fn a_consumer_may_have_a_time_of_its_own_on_any_queue() {
    let mut world = TestBroker::default();
    let (patient, hasty) = (world.connect(), world.connect());
    world.declare(patient, "work");
    world.publish(patient, "", "work", b"1");
    world.publish(patient, "", "work", b"2");
    world.ask(patient, 1, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
    world.consume(patient, "work", "c", false);
    let arguments = table(&[("x-consumer-timeout", crate::amqp::FieldValue::I32(1_000))]);
    world.ask(hasty, 1, BasicConsume { queue: "work", arguments, ..Default::default() });
    for _ in 0..50 {
        world.now += 100_000;
        world.broker.tick(world.now, super::client::EPOCH_US);
    }
    assert_eq!(closed(&world.seen(hasty)).map(|(_, code, _)| code), Some(406));
    assert_eq!(closed(&world.seen(patient)), None);
    let wrong = table(&[("x-consumer-timeout", text("soon"))]);
    let refused =
        closed(&world.ask(patient, 1, BasicConsume { queue: "work", arguments: wrong, ..Default::default() }));
    assert!(refused.expect("refused").2.contains("invalid arg 'x-consumer-timeout'"));
}

#[test]
fn an_empty_mailbox_that_nobody_uses_goes_and_one_with_messages_stays() {
    let settings = AddressSettings { unused_ms: Some(1_000), ..AddressSettings::default() };
    let addresses = Addresses { mailbox: settings, ..Addresses::default() };
    let mut world = TestBroker::new(BrokerOptions { addresses, ..BrokerOptions::default() });
    let ann = client(&mut world, "ann");
    client(&mut world, "carol");
    world.publish(ann, "mailbox", "bob", b"1");
    for _ in 0..50 {
        world.now += 100_000;
        world.broker.work(world.now);
    }
    assert_eq!(world.broker.metrics().mailboxes, 1);
    let bob = client(&mut world, "bob");
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "c", false)), ["1"]);
    world.ask(bob, 1, ack(1));
    world.broker.disconnect(bob, world.now);
    for _ in 0..50 {
        world.now += 100_000;
        world.broker.work(world.now);
    }
    assert_eq!(world.broker.metrics().mailboxes, 0);
}

#[test]
fn a_sender_waits_for_a_full_mailbox_and_nobody_else_does() {
    let mut world = TestBroker::new(of_length(1));
    let (ann, carol, bob) = (client(&mut world, "ann"), client(&mut world, "carol"), client(&mut world, "bob"));
    world.confirm_select(ann);
    world.publish(ann, "mailbox", "bob", b"1");
    world.publish(ann, "mailbox", "bob", b"2");
    assert_eq!(names(&world.seen(ann)), ["basic.ack"], "the second waits");
    assert_eq!(world.broker.metrics().senders_waiting, 1);
    assert!(world.broker.wants_input(ann), "what it settles is still heard");
    // What it publishes behind that waits too, unread.
    world.publish(ann, "mailbox", "carol", b"3");
    assert!(!world.broker.wants_input(ann));
    // Another one goes on, and its own message waits in turn.
    world.confirm_select(carol);
    world.publish(carol, "mailbox", "ann", b"4");
    world.publish(carol, "mailbox", "bob", b"5");
    assert_eq!(names(&world.seen(carol)), ["basic.ack"]);
    for (tag, expected) in [(1, "1"), (2, "2"), (3, "5")] {
        let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
        assert_eq!(bodies(&seen), [expected]);
        world.ask(bob, 1, ack(tag));
    }
    assert!(world.broker.wants_input(ann));
    assert!(matches!(world.seen(ann)[0].method(), Method::BasicAck(ack) if ack.delivery_tag == 3));
    assert_eq!(names(&world.seen(carol)), ["basic.ack"]);
    assert_eq!(bodies(&world.consume(carol, "amq.mailbox.carol", "c", false)), ["3"]);
    assert_eq!(world.broker.metrics().senders_waiting, 0);
}

#[test]
fn two_clients_whose_mailboxes_are_full_can_still_read_them() {
    let mut world = TestBroker::new(of_length(1));
    let (ann, bob) = (client(&mut world, "ann"), client(&mut world, "bob"));
    for (from, to) in [(ann, "bob"), (bob, "ann")] {
        world.confirm_select(from);
        world.publish(from, "mailbox", to, b"1");
        world.publish(from, "mailbox", to, b"2");
    }
    // Acknowledgements are carried out on another channel, and on the one that waits.
    world.ask(ann, 2, ChannelOpen::default());
    world.ask(ann, 2, BasicQos { prefetch_size: 0, prefetch_count: 1, global: false });
    let seen = world.ask(ann, 2, BasicConsume { queue: "amq.mailbox.ann", ..Default::default() });
    assert_eq!(bodies(&seen), ["1"]);
    assert_eq!(bodies(&world.ask(ann, 2, ack(1))), ["2"]);
    assert!(names(&world.seen(bob)).contains(&"basic.ack"));
}

/// Let time pass until a moment, in microseconds.
fn wait(world: &mut TestBroker, until: u64) {
    while world.now < until {
        world.now += 100_000;
        world.broker.tick(world.now, super::client::EPOCH_US + world.now as i64);
    }
}

fn with_times(wait_ms: u64, worker_ms: u64) -> BrokerOptions {
    let settings = AddressSettings { length_max: 1, wait_ms: Some(wait_ms), ..AddressSettings::default() };
    let service = AddressSettings { consumer_timeout_ms: Some(worker_ms), ..AddressSettings::default() };
    BrokerOptions { addresses: Addresses { mailbox: settings, service }, ..BrokerOptions::default() }
}

#[test]
fn a_sender_waits_no_longer_than_its_time_and_is_told() {
    let mut world = TestBroker::new(with_times(5_000, 60_000));
    let (ann, carol, bob) = (client(&mut world, "ann"), client(&mut world, "carol"), client(&mut world, "bob"));
    world.confirm_select(ann);
    for body in [b"1", b"2"] {
        world.publish(ann, "mailbox", "bob", body);
    }
    world.publish(ann, "mailbox", "carol", b"3");
    world.publish(carol, "mailbox", "bob", b"4");
    assert_eq!(world.broker.metrics().senders_waiting, 2);
    wait(&mut world, 4_900_000);
    assert_eq!(names(&world.seen(ann)), ["basic.ack"]);
    wait(&mut world, 8_000_000);
    let seen = world.seen(ann);
    assert!(matches!(seen[0].method(), Method::BasicNack(nack) if nack.delivery_tag == 2), "{:?}", names(&seen));
    assert!(matches!(seen[1].method(), Method::BasicAck(ack) if ack.delivery_tag == 3), "what came behind goes on");
    let (channel, code, text) = closed(&world.seen(carol)).expect("closed");
    assert_eq!((channel, code), (1, 406));
    assert!(text.contains("queue 'amq.mailbox.bob' was full for 5 s"), "{text}");
    assert_eq!((world.broker.metrics().senders_waiting, world.broker.metrics().refused), (0, 2));
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "c", false)), ["1"]);
    assert!(world.ask(bob, 1, ack(1)).is_empty(), "what was refused does not come");
    world.publish(ann, "mailbox", "bob", b"5");
    assert_eq!(bodies(&world.seen(bob)), ["5"]);
}

#[test]
fn a_worker_whose_reply_waits_for_a_full_mailbox_loses_its_request_in_time() {
    let mut world = TestBroker::new(with_times(600_000, 5_000));
    let (ann, worker, next) = (client(&mut world, "ann"), client(&mut world, ""), client(&mut world, ""));
    world.publish(ann, "service", "resize", b"request");
    assert_eq!(bodies(&world.consume(worker, "amq.service.resize", "w", false)), ["request"]);
    world.consume(next, "amq.service.resize", "w", false);
    for body in [b"1", b"2", b"3"] {
        world.publish(worker, "", "amq.mailbox.ann", body);
    }
    assert!(!world.broker.wants_input(worker), "it is held by its own reply");
    wait(&mut world, 8_000_000);
    assert_eq!(closed(&world.seen(worker)).map(|(_, code, _)| code), Some(406));
    assert!(world.broker.wants_input(worker));
    assert_eq!(bodies(&world.seen(next)), ["request"]);
    assert_eq!((world.broker.metrics().senders_waiting, world.broker.metrics().consumer_timeouts), (0, 1));
}

#[test]
fn an_owner_has_its_time_to_acknowledge_and_messages_their_own_to_live() {
    let mailbox = AddressSettings { consumer_timeout_ms: Some(5_000), ..AddressSettings::default() };
    let addresses = Addresses { mailbox, ..Addresses::default() };
    let mut world = TestBroker::new(BrokerOptions { addresses, ..BrokerOptions::default() });
    let (ann, bob) = (client(&mut world, "ann"), client(&mut world, "bob"));
    world.publish(ann, "mailbox", "bob", b"1");
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "c", false)), ["1"]);
    wait(&mut world, 8_000_000);
    assert_eq!(closed(&world.seen(bob)).map(|(_, code, _)| code), Some(406));
    let short = PropertyFields { expiration: Some("1000"), ..Default::default() };
    let bytes = published("mailbox", "bob", &short, b"2");
    world.broker.receive(ann, &bytes, world.now);
    let bob = client(&mut world, "bob");
    let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
    assert_eq!(bodies(&seen), ["1"]);
    assert!(matches!(seen[0].method(), Method::BasicGetOk(it) if it.redelivered));
    wait(&mut world, 10_000_000);
    let seen = world.ask(bob, 1, BasicGet { queue: "amq.mailbox.bob", ..Default::default() });
    assert_eq!(names(&seen), ["basic.get-empty"], "the second has lived its time");
}

#[test]
fn what_is_not_durable_is_gone_after_a_restart() {
    let service = AddressSettings { durable: false, ..AddressSettings::default() };
    let addresses = Addresses { service, ..Addresses::default() };
    let options = BrokerOptions { addresses, ..BrokerOptions::default() };
    let disk = SimulatedDisk::default();
    let (mut world, _) = TestBroker::on_disk(&disk, options.clone());
    let ann = client(&mut world, "ann");
    world.confirm_select(ann);
    world.publish(ann, "service", "resize", b"request");
    assert_eq!(names(&world.seen(ann)), ["basic.ack"], "it waits for no disk");
    world.publish(ann, "mailbox", "bob", b"letter");
    world.commit();
    drop(world);
    let (mut world, _) = TestBroker::on_disk(&disk, options);
    assert_eq!((world.broker.metrics().mailboxes, world.broker.metrics().services), (2, 0));
    let worker = client(&mut world, "");
    assert_eq!(bodies(&world.consume(worker, "amq.service.resize", "w", false)), [""; 0]);
}

#[test]
fn a_sender_that_leaves_while_it_waits_leaves_nothing_behind() {
    let mut world = TestBroker::new(of_length(1));
    let bob = client(&mut world, "bob");
    for _ in 0..3 {
        let ann = client(&mut world, "");
        world.publish(ann, "mailbox", "bob", b"1");
        world.publish(ann, "mailbox", "bob", b"2");
        world.broker.disconnect(ann, 0);
    }
    assert_eq!(world.broker.metrics().senders_waiting, 0);
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "c", false)), ["1"]);
}

#[test]
fn a_mailbox_that_is_deleted_while_somebody_waits_is_made_again() {
    let mut world = TestBroker::new(of_length(1));
    let (ann, bob) = (client(&mut world, "ann"), client(&mut world, "bob"));
    world.confirm_select(ann);
    world.publish(ann, "mailbox", "bob", b"1");
    world.publish(ann, "mailbox", "bob", b"2");
    world.ask(bob, 1, crate::amqp::method::QueueDelete { queue: "amq.mailbox.bob", ..Default::default() });
    assert_eq!(names(&world.seen(ann)), ["basic.ack", "basic.ack"]);
    assert_eq!(bodies(&world.consume(bob, "amq.mailbox.bob", "c", false)), ["2"]);
}

#[test]
fn what_never_fits_is_refused_and_a_transaction_does_not_wait() {
    let settings = AddressSettings { bytes_max: 100, ..AddressSettings::default() };
    let addresses = Addresses { mailbox: settings, ..Addresses::default() };
    let mut world = TestBroker::new(BrokerOptions { addresses, ..BrokerOptions::default() });
    let ann = client(&mut world, "ann");
    world.publish(ann, "mailbox", "bob", &[b'x'; 200]);
    let (_, code, text) = closed(&world.seen(ann)).expect("refused");
    assert_eq!(code, 406);
    assert!(text.contains("never fits into queue 'amq.mailbox.bob'"), "{text}");
    let mut world = TestBroker::new(of_length(1));
    let ann = client(&mut world, "ann");
    world.ask(ann, 1, TxSelect {});
    world.publish(ann, "mailbox", "bob", b"1");
    world.publish(ann, "mailbox", "bob", b"2");
    let (_, code, text) = closed(&world.ask(ann, 1, TxCommit {})).expect("refused");
    assert_eq!(code, 406);
    assert!(text.contains("has no room for the transaction"), "{text}");
}

#[test]
fn an_address_is_neither_empty_nor_too_long() {
    let mut world = TestBroker::default();
    for address in ["", &"x".repeat(250)] {
        let id = world.connect();
        world.publish(id, "mailbox", address, b"1");
        let (_, code, text) = closed(&world.seen(id)).expect("refused");
        assert_eq!(code, 406, "{text}");
        assert!(text.contains("expected 1 to 243 bytes"), "{text}");
    }
}

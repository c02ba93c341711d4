//! Declaring, deleting, binding: what is made, and what is refused in which words.

use super::*;
use crate::amqp::ReplyCode;
use crate::testing::or_few;

fn settings(kind: ExchangeKind) -> ExchangeSettings<'static> {
    let arguments = RawTable::default();
    ExchangeSettings { kind, durable: false, auto_delete: false, internal: false, arguments }
}

fn text<T: std::fmt::Debug>(result: Result<T, AmqpError>) -> String {
    result.expect_err("refused").text.clone()
}

#[test]
fn every_type_routes_by_its_own_rule() {
    let mut world = TestTopology::new();
    for name in ["a", "b", "c"] {
        world.queue(name);
    }
    let [a, b, c] = ["a", "b", "c"].map(Target::Queue);
    for exchange in ["amq.direct", "amq.topic", "amq.fanout"] {
        world.bind(exchange, a, "x.y", &none()).expect("bound");
        world.bind(exchange, b, "x.*", &none()).expect("bound");
        world.bind(exchange, c, "#", &none()).expect("bound");
    }
    assert_eq!(world.route("", "b", &none(), ""), ["b"]);
    assert_eq!(world.route("amq.direct", "x.y", &none(), ""), ["a"]);
    assert_eq!(world.route("amq.direct", "x.*", &none(), ""), ["b"]);
    assert_eq!(world.route("amq.topic", "x.y", &none(), ""), ["a", "b", "c"]);
    assert_eq!(world.route("amq.topic", "x.*", &none(), ""), ["b", "c"]);
    assert_eq!(world.route("amq.topic", "", &none(), ""), ["c"]);
    assert_eq!(world.route("amq.fanout", "z", &none(), ""), ["a", "b", "c"]);
    world.bind("amq.headers", a, "", &table([("x-match", "any".into()), ("n", 1.into())])).expect("bound");
    world.bind("amq.headers", b, "", &table([("n", 1.into()), ("m", "x".into())])).expect("bound");
    assert_eq!(world.route("amq.headers", "z", &table([("n", 1_i64.into())]), ""), ["a"]);
    assert_eq!(world.route("amq.match", "z", &table([("n", 1.into())]), ""), [""; 0]);
    assert_eq!(world.route("amq.headers", "z", &table([("n", 1.into()), ("m", "x".into())]), ""), ["a", "b"]);
    world.exchange("q", ExchangeKind::Query, &none());
    world.bind("q", a, "k", &table([("x-query", "price > 10 AND topic = 'z'".into())])).expect("bound");
    world.bind("q", b, "k", &none()).expect("bound");
    assert_eq!(world.route("q", "z", &table([("price", 11.into())]), ""), ["a", "b"]);
    assert_eq!(world.route("q", "y", &table([("price", 11.into())]), ""), ["b"]);
}

#[test]
fn what_is_missing_reserved_or_locked_is_refused() {
    let mut world = TestTopology::new();
    world.queue("q");
    let vhost = world.vhost;
    assert_eq!(text(world.topology.check_exchange(vhost, "x")), "NOT_FOUND - no exchange 'x' in vhost '/'");
    assert_eq!(text(world.topology.queue(vhost, "x", ME)), "NOT_FOUND - no queue 'x' in vhost '/'");
    assert_eq!(text(world.bind("x", Target::Queue("q"), "", &none())), "NOT_FOUND - no exchange 'x' in vhost '/'");
    assert_eq!(
        text(world.bind("amq.direct", Target::Queue("x"), "", &none())),
        "NOT_FOUND - no queue 'x' in vhost '/'"
    );
    assert!(!world.unbind("x", Target::Queue("q"), "", &none()));
    assert!(!world.unbind("amq.direct", Target::Queue("x"), "", &none()));
    let topic = settings(ExchangeKind::Topic);
    assert_eq!(
        text(world.topology.declare_exchange(vhost, "amq.x", &topic)),
        "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"
    );
    for refused in [
        text(world.topology.declare_exchange(vhost, "", &topic)),
        text(world.topology.delete_exchange(vhost, "", false)),
        text(world.bind("", Target::Queue("q"), "", &none())),
        text(world.bind("amq.fanout", Target::Exchange(""), "", &none())),
    ] {
        assert_eq!(refused, "ACCESS_REFUSED - operation not permitted on the default exchange");
    }
    assert_eq!(
        text(world.topology.delete_exchange(vhost, "amq.topic", false)),
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed"
    );
    let reserved = world.topology.declare_queue(vhost, "amq.x", &plain(), ME, false);
    assert_eq!(reserved.expect_err("reserved").code, ReplyCode::AccessRefused);
    assert!(world.topology.declare_queue(vhost, "amq.gen-1", &plain(), ME, true).is_ok());
    let exclusive = QueueSettings { exclusive: true, ..plain() };
    world.topology.declare_queue(vhost, "mine", &exclusive, ME, false).expect("a queue");
    for refused in [
        world.topology.declare_queue(vhost, "mine", &exclusive, 2, false).map(drop),
        world.topology.declare_queue(vhost, "mine", &plain(), ME, false).map(drop),
        world.topology.queue(vhost, "mine", 2).map(drop),
        world.topology.delete_queue(vhost, "mine", 2, (false, false), |_| (0, 0)).map(drop),
    ] {
        assert!(text(refused).starts_with("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine'"));
    }
    assert_eq!("x-foo".parse::<ExchangeKind>().expect_err("unknown").code, ReplyCode::CommandInvalid);
}

#[test]
fn what_is_declared_again_must_be_the_same() {
    let mut world = TestTopology::new();
    let vhost = world.vhost;
    world.exchange("x", ExchangeKind::Topic, &table([("alternate-exchange", "y".into())]));
    let refused = |world: &mut TestTopology, settings: &ExchangeSettings<'_>| {
        text(world.topology.declare_exchange(vhost, "x", settings))
    };
    assert_eq!(
        refused(&mut world, &settings(ExchangeKind::Direct)),
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is \
         'topic'"
    );
    assert_eq!(
        refused(&mut world, &settings(ExchangeKind::Topic)),
        "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but current \
         is 'true'"
    );
    assert_eq!(
        refused(&mut world, &ExchangeSettings { durable: true, ..settings(ExchangeKind::Topic) }),
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received none but \
         current is the value 'y' of type 'longstr'"
    );
    let bytes = table([("x-expires", 1000.into()), ("note", "a".into())]).to_bytes();
    let expires = QueueSettings { arguments: RawTable::new(&bytes), ..plain() };
    let (id, declared) = world.topology.declare_queue(vhost, "q", &expires, ME, false).expect("a queue");
    assert_eq!(declared, Declared::Created);
    // The width of a number and what is the client's own do not matter.
    let bytes = table([("x-expires", 1000_i64.into()), ("x-queue-type", "classic".into())]).to_bytes();
    let again = QueueSettings { arguments: RawTable::new(&bytes), ..plain() };
    let again = world.topology.declare_queue(vhost, "q", &again, 2, false).expect("the same");
    assert_eq!(again, (id, Declared::Existed));
    let bytes = table([("x-expires", 2000.into())]).to_bytes();
    let other = QueueSettings { arguments: RawTable::new(&bytes), ..plain() };
    assert_eq!(
        text(world.topology.declare_queue(vhost, "q", &other, ME, false)),
        "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/': received '2000' but current is \
         '1000'"
    );
    assert_eq!(
        text(world.topology.declare_queue(vhost, "q", &plain(), ME, false)),
        "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/': received none but current is \
         the value '1000' of type 'signedint'"
    );
}

#[test]
fn what_is_in_use_or_not_empty_stays_when_asked_to() {
    let mut world = TestTopology::new();
    let vhost = world.vhost;
    let id = world.queue("q");
    world.exchange("x", ExchangeKind::Fanout, &none());
    world.bind("x", Target::Queue("q"), "", &none()).expect("bound");
    assert_eq!(
        text(world.topology.delete_exchange(vhost, "x", true)),
        "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    );
    let delete =
        |world: &mut TestTopology, flags, contents| world.topology.delete_queue(vhost, "q", ME, flags, |_| contents);
    assert_eq!(text(delete(&mut world, (true, false), (1, 0))), "PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
    assert_eq!(
        text(delete(&mut world, (true, true), (0, 1))),
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    );
    assert_eq!(delete(&mut world, (true, true), (0, 0)), Ok(Some(id)));
    assert_eq!(delete(&mut world, (true, true), (0, 0)), Ok(None));
    assert_eq!(world.topology.delete_exchange(vhost, "x", true), Ok(()));
    assert_eq!(world.topology.delete_exchange(vhost, "x", true), Ok(()));
    assert_eq!(world.topology.counts(), (7, 0, 0));
}

#[test]
fn the_same_binding_twice_is_one_whatever_the_order_of_its_arguments() {
    let mut world = TestTopology::new();
    world.queue("q");
    let q = Target::Queue("q");
    let ab = table([("a", 1.into()), ("b", 2.into())]);
    let ba = table([("b", 2.into()), ("a", 1.into())]);
    assert_eq!(world.bind("amq.topic", q, "k", &ab), Ok(true));
    assert_eq!(world.bind("amq.topic", q, "k", &ba), Ok(false));
    assert_eq!(world.bind("amq.topic", q, "k", &none()), Ok(true));
    assert_eq!(world.bind("amq.topic", q, "k", &none()), Ok(false));
    assert_eq!(world.topology.bindings_to(world.vhost, "q", ME).expect("a queue").count(), 2);
    assert_eq!(world.route("amq.topic", "k", &none(), ""), ["q"]);
    assert!(world.unbind("amq.topic", q, "k", &ba));
    assert!(!world.unbind("amq.topic", q, "k", &ab));
    assert_eq!(world.route("amq.topic", "k", &none(), ""), ["q"]);
    assert!(world.unbind("amq.topic", q, "k", &none()));
    assert_eq!(world.route("amq.topic", "k", &none(), ""), [""; 0]);
}

#[test]
fn exchanges_that_go_by_themselves_go_with_their_last_binding() {
    let mut world = TestTopology::new();
    let vhost = world.vhost;
    world.queue("q");
    for name in ["a", "b"] {
        let settings = ExchangeSettings { auto_delete: true, ..settings(ExchangeKind::Fanout) };
        world.topology.declare_exchange(vhost, name, &settings).expect("an exchange");
    }
    world.bind("a", Target::Exchange("b"), "", &none()).expect("bound");
    world.bind("b", Target::Exchange("b"), "", &none()).expect("bound");
    world.bind("b", Target::Queue("q"), "", &none()).expect("bound");
    assert_eq!(world.route("a", "", &none(), ""), ["q"]);
    world.topology.delete_queue(vhost, "q", ME, (false, false), |_| (0, 0)).expect("deleted");
    assert!(world.topology.check_exchange(vhost, "b").is_ok(), "it is bound to itself");
    assert!(world.unbind("b", Target::Exchange("b"), "", &none()));
    assert!(world.topology.check_exchange(vhost, "b").is_err());
    assert!(world.topology.check_exchange(vhost, "a").is_err(), "its only binding led to b");
    assert_eq!(world.topology.counts(), (7, 0, 0));
}

#[test]
fn messages_that_no_binding_takes_go_to_the_alternate_exchange() {
    let mut world = TestTopology::new();
    let alternate = |name: &str| table([("alternate-exchange", name.into())]);
    world.exchange("a", ExchangeKind::Topic, &alternate("b"));
    world.exchange("b", ExchangeKind::Direct, &alternate("a"));
    world.exchange("c", ExchangeKind::Direct, &alternate("missing"));
    world.exchange("d", ExchangeKind::Direct, &alternate(""));
    world.queue("x");
    world.queue("y");
    world.bind("a", Target::Queue("x"), "x", &none()).expect("bound");
    world.bind("b", Target::Queue("y"), "y", &none()).expect("bound");
    assert_eq!(world.route("a", "x", &none(), ""), ["x"]);
    assert_eq!(world.route("a", "y", &none(), ""), ["y"]);
    assert_eq!(world.route("a", "z", &none(), ""), [""; 0]);
    assert_eq!(world.route("c", "x", &none(), ""), [""; 0]);
    assert_eq!(world.route("d", "x", &none(), ""), ["x"]);
}

#[test]
fn internal_exchanges_are_reached_by_bindings_alone() {
    let mut world = TestTopology::new();
    let vhost = world.vhost;
    let settings = ExchangeSettings { internal: true, ..settings(ExchangeKind::Fanout) };
    world.topology.declare_exchange(vhost, "x", &settings).expect("an exchange");
    world.queue("q");
    world.bind("x", Target::Queue("q"), "", &none()).expect("bound");
    world.bind("amq.fanout", Target::Exchange("x"), "", &none()).expect("bound");
    assert_eq!(world.route("amq.fanout", "", &none(), ""), ["q"]);
    let message = Published {
        exchange: "x",
        routing_key: "",
        further_keys: &[],
        properties: BasicProperties::default(),
        body: b"",
    };
    let refused = world.topology.route(vhost, &message, &mut world.scratch, &mut Vec::new());
    assert_eq!(text(refused), "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'");
}

#[test]
fn what_had_many_bindings_is_gone_at_once_and_swept_later() {
    let mut world = TestTopology::new();
    let vhost = world.vhost;
    world.queue("other");
    world.bind("amq.topic", Target::Queue("other"), "7.*", &none()).expect("bound");
    let settings = ExchangeSettings { auto_delete: true, ..settings(ExchangeKind::Fanout) };
    world.topology.declare_exchange(vhost, "x", &settings).expect("an exchange");
    let id = world.queue("q");
    for key in 0..or_few(1_000, 100) {
        world.bind("amq.topic", Target::Queue("q"), &format!("{key}.*"), &none()).expect("bound");
        world.bind("x", Target::Queue("q"), &key.to_string(), &none()).expect("bound");
    }
    assert_eq!(world.route("amq.topic", "7.a", &none(), ""), ["other", "q"]);
    world.topology.remove_queue(id);
    assert!(world.topology.check_exchange(vhost, "x").is_err(), "its last binding is gone");
    assert_eq!(world.topology.counts(), (7, 1, 1));
    assert_eq!(world.topology.bindings().count(), 1);
    assert!(world.topology.queue_info(id).is_none());
    assert_ne!(world.queue("q"), id, "bindings still lead to the old one");
    assert_eq!(world.route("amq.topic", "7.a", &none(), ""), ["other"]);
    assert_eq!(world.bind("amq.topic", Target::Queue("q"), "7.*", &none()), Ok(true));
    assert_eq!(world.route("amq.topic", "7.a", &none(), ""), ["other", "q"]);
    assert_eq!(world.route("amq.topic", "8.a", &none(), ""), [""; 0]);
    while world.topology.sweep(100) {}
    assert_eq!(world.topology.counts(), (7, 2, 2));
    assert_eq!(world.queue("next"), id);
    assert_eq!(world.route("amq.topic", "7.a", &none(), ""), ["other", "q"]);
}

#[test]
fn a_message_that_only_removed_queues_would_take_goes_to_the_alternate_exchange() {
    let mut world = TestTopology::new();
    world.exchange("x", ExchangeKind::Fanout, &table([("alternate-exchange", "amq.fanout".into())]));
    let id = world.queue("q");
    world.queue("other");
    world.bind("amq.fanout", Target::Queue("other"), "", &none()).expect("bound");
    for key in 0..100 {
        world.bind("x", Target::Queue("q"), &key.to_string(), &none()).expect("bound");
    }
    assert_eq!(world.route("x", "", &none(), ""), ["q"]);
    world.topology.remove_queue(id);
    assert_eq!(world.route("x", "", &none(), ""), ["other"]);
    assert!(world.topology.sweep(1));
    assert_eq!(world.route("x", "", &none(), ""), ["other"]);
}

//! Permissions hold on every way by which a message or a query gets somewhere.

use super::client::{TestBroker, closed, names, table};
use crate::amqp::method::{
    ChannelOpen, ConnectionCloseOk, ExchangeBind, ExchangeDeclare, ExchangeUnbind, QueueBind, QueueDeclare,
};
use crate::amqp::{FieldValue, Method};
use crate::broker::topology::StoredQuery;
use crate::broker::{Access, Broker, BrokerOptions, Control, Login, Resource, Verb};

/// May publish to `held` only with keys that begin with `mine`, and use only queries that begin with `mine`.
struct Held;

impl Control for Held {
    fn allowed(&mut self, access: &Access<'_>) -> bool {
        match (access.resource, access.routing_key) {
            (Resource::Query, _) => access.verb == Verb::Read && access.name.starts_with("mine"),
            (_, Some(key)) => access.name != "held" || access.verb != Verb::Write || key.starts_with("mine"),
            (_, None) => true,
        }
    }

    fn has_topic_rules(&mut self, _: &str, _: &str) -> bool {
        true
    }

    fn stored_query(&mut self, _: &str) -> Result<StoredQuery, String> {
        Ok(StoredQuery { language: "selector".into(), text: "price > 10".into() })
    }
}

/// What becomes of each method on a connection of its own: None, or the code and text of the refusal.
fn outcome(method: impl Into<Method<'static>>) -> Option<(u16, String)> {
    let broker = Broker::new(BrokerOptions::default(), Box::new(Held), 0, 0);
    let mut world = TestBroker { broker, now: 0 };
    let id = world.connect();
    for (exchange, exchange_type) in [("held", "topic"), ("direct", "direct"), ("fanout", "fanout"), ("topic", "topic")]
    {
        let seen = world.ask(id, 1, ExchangeDeclare { exchange, exchange_type, ..Default::default() });
        assert_eq!(names(&seen), ["exchange.declare-ok"]);
    }
    world.declare(id, "queue");
    let seen = world.ask(id, 1, method);
    world.send(id, 0, ConnectionCloseOk {});
    closed(&seen).map(|(_, code, text)| (code, text))
}

fn is_refused(method: impl Into<Method<'static>>, topic: &str) -> bool {
    match outcome(method) {
        None => false,
        Some((403, text)) if text.contains(&format!("write access to topic '{topic}' in exchange 'held'")) => true,
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn an_exchange_passes_on_only_what_its_binder_may_publish() {
    let bind = |source, routing_key| ExchangeBind { destination: "held", source, routing_key, ..Default::default() };
    for source in ["direct", "topic"] {
        assert!(!is_refused(bind(source, "mine.a"), "mine.a"), "{source}");
        assert!(is_refused(bind(source, "other"), "other"), "{source}");
    }
    assert!(!is_refused(bind("topic", "mine.#"), "mine.#"));
    assert!(is_refused(bind("topic", "#"), "#"));
    assert!(is_refused(bind("fanout", "mine"), "#"), "a fanout exchange passes every key on");
    let unbind = ExchangeUnbind { destination: "held", source: "topic", routing_key: "#", ..Default::default() };
    assert!(is_refused(unbind, "#"));
    let elsewhere = ExchangeBind { destination: "topic", source: "fanout", ..Default::default() };
    assert_eq!(outcome(elsewhere), None, "no rule is about that exchange");
}

#[test]
fn dead_letters_go_only_where_their_queue_s_owner_may_publish() {
    let letters_to = |exchange: &str, key: Option<&str>| {
        let key = key.map(|key| ("x-dead-letter-routing-key", FieldValue::from(key)));
        let to = [("x-dead-letter-exchange", FieldValue::from(exchange))];
        let arguments = table(&to.into_iter().chain(key).collect::<Vec<_>>());
        QueueDeclare { queue: "letters", arguments, ..Default::default() }
    };
    assert!(!is_refused(letters_to("held", Some("mine.a")), "mine.a"));
    assert!(is_refused(letters_to("held", Some("other")), "other"));
    assert!(is_refused(letters_to("held", None), "#"), "a message keeps the key that it was published with");
    assert_eq!(outcome(letters_to("topic", None)), None);
    assert_eq!(outcome(letters_to("", Some("queue"))), None, "the default exchange has no topics");
}

#[test]
fn an_alternate_exchange_takes_only_what_its_declarer_may_publish() {
    let beside = |alternate: &str| {
        let arguments = table(&[("alternate-exchange", FieldValue::from(alternate))]);
        ExchangeDeclare { exchange: "with", exchange_type: "direct", arguments, ..Default::default() }
    };
    assert!(is_refused(beside("held"), "#"));
    assert_eq!(outcome(beside("topic")), None);
}

#[test]
fn a_query_of_the_store_asks_for_a_permission() {
    let bind = |key: &str| {
        let arguments = table(&[("x-query-key", FieldValue::from(key))]);
        QueueBind { queue: "queue", exchange: "topic", routing_key: "#", arguments, ..Default::default() }
    };
    assert_eq!(outcome(bind("mine")), None);
    let (code, text) = outcome(bind("other")).expect("refused");
    assert!(code == 403 && text.contains("read access to stored query 'other'"), "{text}");
}

/// Lets only `ann` publish.
struct OnlyAnn;

impl Control for OnlyAnn {
    fn allowed(&mut self, access: &Access<'_>) -> bool {
        access.verb != Verb::Write || access.user == "ann"
    }

    fn stored_query(&mut self, _: &str) -> Result<StoredQuery, String> {
        Err("there is none".to_owned())
    }
}

#[test]
fn a_remembered_route_is_that_of_its_user() {
    let broker = Broker::new(BrokerOptions::default(), Box::new(OnlyAnn), 0, 0);
    let mut world = TestBroker { broker, now: 0 };
    let login = |user: &str| Login { user: user.to_owned(), ..Login::default() };
    let owner = world.connect_as(login("owner"));
    world.ask(owner, 1, ChannelOpen::default());
    world.declare(owner, "queue");
    for user in ["ann", "bob", "ann"] {
        // The last one has the number that the one before had, who is gone.
        let id = world.connect_as(login(user));
        world.ask(id, 1, ChannelOpen::default());
        (0..3).for_each(|_| world.publish(id, "", "queue", b"x"));
        let refused = closed(&world.seen(id)).map(|(_, code, _)| code);
        assert_eq!(refused, (user != "ann").then_some(403), "{user}");
        world.broker.disconnect(id, 0);
    }
    assert_eq!(world.broker.metrics().messages, 6);
}

//! What queries may take: prices at bind, and the time of a match.

use crate::amqp::FieldValue;
use crate::amqp::method::{
    BasicConsume, BasicQos, ChannelOpen, QueueBind, QueueDeclare, QueueUnbind, TxCommit, TxSelect,
};
use crate::broker::topology::QueryLimits;
use crate::broker::{BrokerOptions, ConnectionId};
use crate::journal::SimulatedDisk;

use super::client::{TestBroker, closed, names, table, text};

fn within(queries: QueryLimits) -> TestBroker {
    TestBroker::new(BrokerOptions { queries, ..BrokerOptions::default() })
}

fn bind(world: &mut TestBroker, id: ConnectionId, key: &'static str, fields: &[(&str, FieldValue)]) -> Option<String> {
    let bind = QueueBind {
        queue: "q",
        exchange: "amq.fanout",
        routing_key: key,
        arguments: table(fields),
        ..QueueBind::default()
    };
    let seen = world.ask(id, 1, bind);
    let refused = closed(&seen).map(|(_, _, text)| text);
    if refused.is_some() {
        world.ask(id, 1, crate::amqp::method::ChannelCloseOk {});
        world.ask(id, 1, ChannelOpen::default());
    }
    refused
}

fn bind_query(world: &mut TestBroker, id: ConnectionId, key: &'static str, query: &str) -> Option<String> {
    bind(world, id, key, &[("x-query", text(query)), ("x-query-body", text("json"))])
}

fn topology_bytes(world: &TestBroker) -> u64 {
    world.broker.metrics().topology_bytes
}

#[test]
fn a_query_over_a_limit_is_refused_with_its_price_and_what_takes_most() {
    let regex = r"a = 1 AND REGEX(body, '\w{3}')";
    let small = QueryLimits { bytes_max: 20_000, ..QueryLimits::default() };
    let slow = QueryLimits { ns_per_byte_max: 2, ..QueryLimits::default() };
    let too_large = format!("a IN ({})", (0..300).map(|i| i.to_string()).collect::<Vec<_>>().join(", "));
    let cases = [
        (small, &*too_large, "bytes when compiled, and the limit is 20000", "most takes a IN (0, 1, 2, "),
        (slow, regex, "ns per byte", r"most takes REGEX(body, '\w{3}')"),
    ];
    for (limits, query, of, most) in cases {
        let mut world = within(limits);
        let id = world.connect();
        world.declare(id, "q");
        let refused = bind_query(&mut world, id, "", query).expect("refused");
        assert!(refused.starts_with("PRECONDITION_FAILED - the query takes ") && refused.contains(of), "{refused}");
        assert!(refused.contains(most), "{refused}");
        assert_eq!(bind_query(&mut world, id, "", "a = 1 AND PREFIX(body, 'x')"), None, "the control");
    }
    let mut world = within(QueryLimits::default());
    let id = world.connect();
    world.declare(id, "q");
    assert_eq!(bind_query(&mut world, id, "", regex), None, "the control");
}

#[test]
fn compiling_ends_at_the_first_pattern_that_is_too_much() {
    let mut world = within(QueryLimits { bytes_max: 20_000, ..QueryLimits::default() });
    let id = world.connect();
    world.declare(id, "q");
    // What stands behind the pattern is no query, and nobody has looked at it.
    for (query, expected) in [
        (r"a = 1 OR REGEX(body, '\w{3}') OR =", "at most 20000 bytes when compiled"),
        (&*format!("body LIKE '{}' OR =", "%a".repeat(400)), "expected patterns of at most 20000 bytes"),
    ] {
        let refused = bind_query(&mut world, id, "", query).expect("refused");
        assert!(refused.contains("position ") && refused.contains(expected), "{refused}");
    }
    assert_eq!(bind_query(&mut world, id, "", "REGEX(body, 'ab+')"), None, "the control");
}

#[test]
fn a_connection_and_a_vhost_have_limits_and_get_back_what_is_unbound() {
    let query = r"REGEX(body, '\w\d')";
    let one = crate::query::selector::parse(query, crate::query::selector::SelectorDialect::Jms).expect("a query");
    let bytes = one.price().bytes;
    let limits =
        QueryLimits { connection_bytes_max: bytes * 5 / 2, vhost_bytes_max: bytes * 7 / 2, ..QueryLimits::default() };
    let mut world = within(limits);
    let (id, other) = (world.connect(), world.connect());
    world.declare(id, "q");
    let before = topology_bytes(&world);
    let keys = ["a", "b", "c", "d"];
    let taken = |world: &mut TestBroker, id, keys: &[&'static str]| -> Vec<bool> {
        keys.iter().map(|key| bind_query(world, id, key, query).is_none()).collect()
    };
    assert_eq!(taken(&mut world, id, &keys[..3]), [true, true, false], "those of a connection");
    assert_eq!(taken(&mut world, other, &keys[2..]), [true, false], "those of the vhost");
    assert!(topology_bytes(&world) >= before + 3 * bytes);
    for key in keys {
        let arguments = table(&[("x-query", text(query)), ("x-query-body", text("json"))]);
        let unbind =
            QueueUnbind { queue: "q", exchange: "amq.fanout", routing_key: key, arguments, ..Default::default() };
        world.ask(id, 1, unbind);
    }
    assert_eq!(topology_bytes(&world), before);
    assert_eq!(taken(&mut world, id, &keys[..2]), [true, true], "there is room again");
}

#[test]
fn a_consumer_of_a_stream_pays_for_its_query_until_it_is_cancelled() {
    let disk = SimulatedDisk::new();
    let options = BrokerOptions {
        queries: QueryLimits { bytes_max: 20_000, ..QueryLimits::default() },
        ..BrokerOptions::default()
    };
    let mut world = TestBroker::on_disk(&disk, options).0;
    let id = world.connect();
    let arguments = table(&[("x-queue-type", text("stream"))]);
    world.ask(id, 1, QueueDeclare { queue: "s", durable: true, arguments, ..Default::default() });
    world.commit_streams();
    world.seen(id);
    world.ask(id, 1, BasicQos { prefetch_count: 10, ..Default::default() });
    let before = topology_bytes(&world);
    let consume = |query: &str| BasicConsume {
        queue: "s",
        consumer_tag: "c",
        arguments: table(&[("x-query", text(query)), ("x-query-body", text("text"))]),
        ..Default::default()
    };
    let seen = world.ask(id, 1, consume("REGEX(body, 'ab+')"));
    assert_eq!(names(&seen), ["basic.consume-ok"]);
    assert!(topology_bytes(&world) > before);
    world.ask(id, 1, crate::amqp::method::BasicCancel { consumer_tag: "c", ..Default::default() });
    assert_eq!(topology_bytes(&world), before);
    let seen = world.ask(id, 1, consume(r"REGEX(body, '\w{3}')"));
    assert!(closed(&seen).expect("refused").2.contains("the query takes"));
}

#[test]
fn a_body_that_is_too_large_is_unknown_or_refused_as_set() {
    for refuses_large_bodies in [false, true] {
        let limits =
            QueryLimits { body_bytes_max: 100, body_values_max: 10, refuses_large_bodies, ..QueryLimits::default() };
        let mut world = within(limits);
        let id = world.connect();
        world.declare(id, "q");
        assert_eq!(bind_query(&mut world, id, "", "PREFIX(body, '[') OR body.a = 1"), None);
        let publish = |world: &mut TestBroker, body: &str| {
            world.publish(id, "amq.fanout", "", body.as_bytes());
            closed(&world.seen(id)).map(|(_, code, text)| (code, text))
        };
        let fits = format!("[{}]", "1,".repeat(4).trim_end_matches(','));
        assert_eq!(publish(&mut world, &fits), None, "the control");
        assert_eq!(world.broker.metrics().messages, 1);
        assert_eq!(world.broker.metrics().bodies_unread, 0);
        let long = format!("[{}1]", " ".repeat(100));
        let refused = publish(&mut world, &long);
        assert_eq!(world.broker.metrics().bodies_unread, 1);
        assert_eq!(world.broker.metrics().messages, 1, "no query is true of it");
        match refused {
            Some((406, text)) => {
                assert!(refuses_large_bodies);
                assert!(text.contains("reads bodies of at most 100 bytes") && text.contains("103 bytes"), "{text}");
            }
            other => assert_eq!((other, refuses_large_bodies), (None, false)),
        }
    }
}

#[test]
fn json_has_a_limit_of_values() {
    let mut world = within(QueryLimits { body_values_max: 10, ..QueryLimits::default() });
    let id = world.connect();
    world.declare(id, "q");
    assert_eq!(bind_query(&mut world, id, "", "body.a = 1"), None);
    for (values, unread) in [(9, 0), (10, 1)] {
        let others = (0..values).map(|i| format!(", \"b{i}\": 1")).collect::<String>();
        world.publish(id, "amq.fanout", "", format!("{{\"a\": 1{others}}}").as_bytes());
        assert_eq!(world.broker.metrics().bodies_unread, unread);
    }
    assert_eq!(world.broker.metrics().messages, 1);
}

/// Hundreds of NEARs that no two of them share.
fn many_nears(of: usize) -> String {
    let one = |i: usize| format!("NEAR(body, 'a', 'b', {})", i + 1);
    (0..900).map(|i| one(of * 1_000 + i)).collect::<Vec<_>>().join(" OR ")
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_match_that_takes_too_long_is_refused_and_counted_and_the_turn_pays_for_it() {
    let mut world = within(QueryLimits::default());
    let id = world.connect();
    world.declare(id, "q");
    for (number, key) in ["0", "1", "2", "3", "4"].into_iter().enumerate() {
        assert_eq!(bind_query(&mut world, id, key, &many_nears(number)), None);
    }
    let body = "a ".repeat(60_000) + &"c ".repeat(5_500) + "b";
    world.publish(id, "amq.fanout", "", b"a c c c c");
    assert_eq!(closed(&world.seen(id)), None, "the control: a short body");
    world.publish(id, "amq.fanout", "", body.as_bytes());
    let (_, code, reason) = closed(&world.seen(id)).expect("refused");
    assert_eq!(code, 406);
    assert!(reason.contains("exchange 'amq.fanout' would take more than 8 ms"), "{reason}");
    assert_eq!(world.broker.metrics().matches_cut, 1);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_transaction_with_a_message_that_takes_too_long_is_refused_whole() {
    let mut world = within(QueryLimits { match_ns_max: 10_000, ..QueryLimits::default() });
    let id = world.connect();
    world.declare(id, "q");
    assert_eq!(bind_query(&mut world, id, "", "body LIKE '%x%' OR CONTAINS(body, 'y')"), None);
    world.ask(id, 1, TxSelect {});
    world.publish(id, "amq.fanout", "", b"x");
    assert_eq!(names(&world.ask(id, 1, TxCommit {})), ["tx.commit-ok"], "the control");
    world.publish(id, "amq.fanout", "", b"x");
    world.publish(id, "amq.fanout", "", "x y ".repeat(5_000).as_bytes());
    let (_, code, reason) = closed(&world.ask(id, 1, TxCommit {})).expect("refused");
    assert!(code == 406 && reason.contains("would take more than"), "{reason}");
    let metrics = world.broker.metrics();
    assert_eq!((metrics.matches_cut, metrics.messages), (1, 1));
}

#[test]
fn binding_takes_turns_by_what_is_compiled() {
    let mut world = within(QueryLimits::default());
    let id = world.connect();
    world.declare(id, "q");
    let query = (0..40).map(|i| format!(r"REGEX(h{i}, '[a-z]{{30}}{i}')")).collect::<Vec<_>>().join(" OR ");
    let (mut cheap, mut expensive) = (Vec::new(), Vec::new());
    for number in 0..40_u32 {
        for (bytes, query) in
            [(&mut cheap, format!("n = {number}")), (&mut expensive, format!("n = {number} OR {query}"))]
        {
            let arguments = table(&[("x-query", text(&query))]);
            QueueBind { queue: "q", exchange: "amq.fanout", arguments, ..Default::default() }.encode(1, bytes);
        }
    }
    world.broker.receive(id, &cheap, 0);
    assert!(!world.broker.has_work(), "the control");
    world.broker.receive(id, &expensive, 0);
    assert!(world.broker.has_work(), "the rest waits for other turns");
    (0..200).for_each(|_| world.broker.work(0));
    assert!(!world.broker.has_work());
    assert_eq!(world.seen(id).len(), 80);
}

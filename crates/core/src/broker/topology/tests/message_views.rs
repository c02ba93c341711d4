//! Tests of how queries see a message, and of what bindings may ask.

use super::*;
use crate::amqp::FieldValue;

fn query(text: &str, body: &str) -> Table {
    table([("x-query", text.into()), ("x-query-body", body.into())])
}

#[test]
fn bindings_with_different_bodies_see_one_message_each_in_its_way() {
    let mut world = TestTopology::new();
    for (name, mode) in [("none", "none"), ("text", "text"), ("json", "json")] {
        world.queue(name);
        world.bind("amq.fanout", Target::Queue(name), "", &query("body.price > 10", mode)).expect("bound");
        world.queue(&format!("{name} contains"));
        let contains = query("CONTAINS(body, 'price')", mode);
        let bound = world.bind("amq.fanout", Target::Queue(&format!("{name} contains")), "", &contains);
        assert_eq!(bound.is_ok(), mode != "none");
    }
    let json = r#"{"price": 11}"#;
    assert_eq!(world.route("amq.fanout", "", &none(), json), ["json", "json contains", "text contains"]);
    // A header of that name is what the others see, and cannot stand in for the body.
    let forged = table([("body.price", 12.into()), ("\0body.price", 12.into())]);
    assert_eq!(world.route("amq.fanout", "", &forged, "{"), ["none", "text"]);
    let nested = table([("body", table([("price", 12.into())]).into())]);
    assert_eq!(world.route("amq.fanout", "", &nested, ""), ["none", "text"]);
    // Nothing is left of a message when the next one comes.
    assert_eq!(world.route("amq.fanout", "", &none(), ""), [""; 0]);
}

#[test]
fn a_header_is_seen_where_a_property_is_not_set_but_for_the_user() {
    let mut world = TestTopology::new();
    for (name, text) in [("priority", "priority = 5"), ("user", "user_id = 'me'"), ("type", "type = 'order'")] {
        world.queue(name);
        world.bind("amq.fanout", Target::Queue(name), "", &query(text, "none")).expect("bound");
    }
    world.queue("header");
    world.bind("amq.headers", Target::Queue("header"), "", &table([("user_id", "me".into())])).expect("bound");
    let headers = table([("priority", 5.into()), ("user_id", "me".into()), ("type", "order".into())]);
    assert_eq!(world.route("amq.fanout", "", &headers, ""), ["priority", "type"]);
    assert_eq!(world.route("amq.headers", "", &headers, ""), ["header"]);
    let bytes = headers.to_bytes();
    let fields = PropertyFields {
        headers: Some(RawTable::new(&bytes)),
        priority: Some(4),
        user_id: Some("me"),
        ..PropertyFields::default()
    };
    let mut bytes = Vec::new();
    fields.encode(&mut bytes);
    let properties = BasicProperties::parse(&bytes).expect("properties");
    assert_eq!(world.route_with("amq.fanout", "", properties, b""), ["type", "user"]);
}

#[test]
fn exchanges_on_one_route_ask_for_different_properties() {
    let mut world = TestTopology::new();
    let asks = [
        ("first", query("place.country = 'FR'", "none")),
        ("second", query("body.price > 10 AND priority = 4", "json")),
        ("third", table([("x-query", r#"Symbol = "A""#.into()), ("x-query-language", "cbm".into())])),
        ("fourth", query("n = 1 AND type IS NULL AND place.country = 'FR'", "none")),
    ];
    for (name, arguments) in &asks {
        world.exchange(name, ExchangeKind::Fanout, &none());
        world.queue(&format!("of {name}"));
        world.bind(name, Target::Queue(&format!("of {name}")), "", arguments).expect("bound");
    }
    for pair in asks.windows(2) {
        world.bind(pair[0].0, Target::Exchange(pair[1].0), "", &none()).expect("bound");
    }
    let place = table([("country", "FR".into())]);
    let headers = table([("n", 1.into()), ("place", place.into()), ("symbol", "A".into()), ("priority", 4.into())]);
    let found = ["of first", "of fourth", "of second", "of third"];
    assert_eq!(world.route("first", "", &headers, r#"{"price": 11}"#), found);
    assert_eq!(world.route("first", "", &headers, ""), ["of first", "of fourth", "of third"]);
    assert_eq!(world.route("fourth", "", &headers, ""), ["of fourth"]);
    assert_eq!(world.route("third", "", &table([("type", "x".into()), ("n", 1.into())]), ""), [""; 0]);
}

#[test]
fn arrays_and_tables_of_a_headers_exchange_must_be_equal() {
    let mut world = TestTopology::new();
    world.queue("q");
    let array = |values: &[i32]| FieldValue::Array(values.iter().map(|value| FieldValue::I32(*value)).collect());
    let inner = |value: i32| table([("k", value.into())]);
    let wanted = table([("a", array(&[1, 2])), ("t", inner(1).into())]);
    world.bind("amq.headers", Target::Queue("q"), "", &wanted).expect("bound");
    let mut route = |a: FieldValue, t: Table| world.route("amq.headers", "", &table([("a", a), ("t", t.into())]), "");
    assert_eq!(route(array(&[1, 2]), inner(1)), ["q"]);
    assert_eq!(route(array(&[2, 1]), inner(1)), [""; 0]);
    assert_eq!(route(array(&[1, 2]), inner(2)), [""; 0]);
    assert_eq!(route(1.into(), inner(1)), [""; 0]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn bindings_that_make_no_sense_are_refused_and_leave_nothing() {
    let mut world = TestTopology::new();
    world.queue("q");
    let refused = [
        ("amq.fanout", query("price >> 3", "none"), "position 7: expected a number near 'price >> 3'"),
        ("amq.topic", query("a = 1", "xml"), "x-query-body 'xml': expected none, text or json"),
        ("amq.topic", table([("x-query", 1.into())]), "x-query: expected text in UTF-8"),
        ("amq.topic", table([("x-query", "a".into()), ("x-query-key", "b".into())]), "cannot both be given"),
        ("amq.headers", table([("x-match", "some".into())]), "invalid x-match field value 'some'"),
        ("amq.headers", table([("h", FieldValue::Text(b"\xff".as_slice().into()))]), "header 'h' of the binding"),
        ("amq.direct", query("opaque('x')", "none"), "position"),
    ];
    for (exchange, arguments, expected) in refused {
        let error = world.bind(exchange, Target::Queue("q"), "k", &arguments).expect_err(expected);
        assert_eq!(error.code, crate::amqp::ReplyCode::PreconditionFailed);
        assert!(error.text.contains(expected) && error.text.len() <= 255, "{}", error.text);
    }
    assert_eq!(world.topology.counts().2, 0);
    let many = format!("n IN ({})", vec!["1"; 20_000].join(","));
    assert!(world.bind("amq.fanout", Target::Queue("q"), "", &query(&many, "none")).is_err());
    assert_eq!(world.route("amq.fanout", "k", &none(), ""), [""; 0]);
}

#[test]
fn a_filter_of_a_consumer_asks_as_a_binding_does() {
    let bytes = query("n = 1 AND body.x = 2 AND TOPIC('a.*')", "json").to_bytes();
    let filter = ConsumerFilter::parse(RawTable::new(&bytes), &mut |_| unreachable!(), &Hierarchies::new())
        .expect("a query")
        .expect("one");
    assert!(
        ConsumerFilter::parse(RawTable::default(), &mut |_| unreachable!(), &Hierarchies::new())
            .expect("nothing")
            .is_none()
    );
    let headers = table([("n", 1.into())]).to_bytes();
    let fields = PropertyFields { headers: Some(RawTable::new(&headers)), ..PropertyFields::default() };
    let mut bytes = Vec::new();
    fields.encode(&mut bytes);
    let mut room = ViewScratch::default();
    let mut asked = |body: &[u8], key: &str| {
        filter.is_match(
            key,
            &mut View::new(&mut room, BasicProperties::from_checked(&bytes), body),
            &Hierarchies::new(),
        )
    };
    assert!(asked(br#"{"x": 2}"#, "a.b"));
    assert!(!asked(br#"{"x": 2}"#, "b.a"));
    assert!(!asked(br#"{"x": 3}"#, "a.b"));
    assert!(!asked(b"2", "a.b"));
}

#[test]
fn a_key_is_met_whatever_arguments_stand_beside_it() {
    for (exchange, kind) in [("d", ExchangeKind::Direct), ("t", ExchangeKind::Topic)] {
        let mut world = TestTopology::new();
        world.exchange(exchange, kind, &none());
        for (queue, arguments) in [
            ("plain", none()),
            ("other", table([("note", "mine".into())])),
            ("always", table([("x-query", "TRUE".into())])),
        ] {
            world.queue(queue);
            world.bind(exchange, Target::Queue(queue), "a.b", &arguments).expect("bound");
        }
        assert_eq!(world.route(exchange, "a.b", &none(), ""), ["always", "other", "plain"]);
        assert_eq!(world.route(exchange, "a", &none(), ""), [""; 0]);
    }
}

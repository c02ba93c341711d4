//! The test cases of RabbitMQ, LavinMQ, qlobber and RabbitMQ's Java client.
//!
//! They are not part of the project. Where they are absent, the tests say so and pass.

use std::path::PathBuf;

use super::*;
use crate::amqp::FieldValue;
use crate::testing::rounds;
use serde_json::Value as Json;

fn cases(file: &str) -> Vec<Json> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("TAMIS_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("conformance/topics").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {}", path.display());
        return Vec::new();
    };
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn text(value: &Json) -> &str {
    value.as_str().expect("text")
}

fn fields(value: &Json) -> Table {
    let field = |(name, value): (&String, &Json)| match value {
        Json::Null => (name.clone(), FieldValue::Void),
        value => (name.clone(), text(value).into()),
    };
    value.as_object().map_or_else(Table::new, |fields| fields.iter().map(field).collect())
}

/// The queues that the case expects, after binding them as it says.
fn bound(world: &mut TestTopology, exchange: &str, case: &Json) -> Vec<String> {
    for binding in case["bindings"].as_array().expect("bindings") {
        let queue = text(&binding["dest"]);
        world.queue(queue);
        let (key, arguments) = (binding["pattern"].as_str().unwrap_or(""), fields(&binding["args"]));
        world.bind(exchange, Target::Queue(queue), key, &arguments).expect("bound");
    }
    let mut expected: Vec<_> = case["expect"].as_array().expect("names").iter().map(|n| text(n).to_owned()).collect();
    expected.sort();
    expected
}

#[test]
fn topic_exchanges_route_as_those_of_rabbitmq_and_lavinmq() {
    for file in [
        "lavinmq_message_routing_spec.jsonl",
        "misc_spec_blog_javaclient.jsonl",
        "qlobber_rabbitmq.jsonl",
        "rabbitmq_db_topic_exchange_suite.jsonl",
        "rabbitmq_routing_suite.jsonl",
    ] {
        for case in rounds(cases(file)) {
            let mut world = TestTopology::new();
            let expected = bound(&mut world, "amq.topic", &case);
            assert_eq!(world.route("amq.topic", text(&case["routing_key"]), &none(), ""), expected, "{case}");
        }
    }
}

#[test]
fn headers_exchanges_route_as_those_of_rabbitmq() {
    for case in cases("headers_exchange_javaclient.jsonl") {
        let mut world = TestTopology::new();
        let expected = bound(&mut world, "amq.headers", &case);
        assert_eq!(world.route("amq.headers", "", &fields(&case["headers"]), ""), expected, "{case}");
    }
}

//! Runs cases of other projects' own suites, read by path from the folder beside the checkout.
//!
//! The projects are ActiveMQ, Artemis, Qpid, Joram, RabbitMQ, LavinMQ and qlobber. Where the folder is absent, the tests
//! say so and pass.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::selector::{SelectorDialect, parse};
use tamis_core::topic::{self, TopicPattern};

/// The selector suites in their order of authority.
const SELECTOR_SUITES: [&str; 8] = [
    "activemq_SelectorTest",
    "activemq_UnknownHandlingSelectorTest",
    "artemis_FilterTest",
    "artemis_SelectorTest",
    "qpid_JMSSelectorFilterSyntaxTest",
    "qpid_SelectorParserTest",
    "joram_jms_conform",
    "rabbitmq_amqp_filter_sql_unit",
];
const TOPIC_SUITES: [&str; 5] = [
    "lavinmq_message_routing_spec",
    "misc_spec_blog_javaclient",
    "qlobber_rabbitmq",
    "rabbitmq_db_topic_exchange_suite",
    "rabbitmq_routing_suite",
];

/// A reason not to hold a case against tamis, and the rule that finds such cases.
type Skip = (&'static str, fn(&Case) -> bool);

/// Every skip there is. Whatever none of these rules names must hold.
const SKIPS: [Skip; 13] = [
    ("functions of ActiveMQ, XPath, headers of Artemis: other languages", |case| case.dialect_has('+')),
    ("ActiveMQ: the destination, which is no property of the captured message", |case| {
        case.bare.contains("JMSDestination")
    }),
    ("RabbitMQ: functions of the time", |case| case.json["time_dependent"] == true),
    ("Qpid: the suffix L of integers is its own choice", |case| case.selector.contains("807L")),
    ("RabbitMQ: its own errors", |case| case.is_rabbitmq() && case.expect == "error"),
    ("RabbitMQ: texts in double quotes, which hold names here", |case| case.is_rabbitmq() && case.bare.contains('"')),
    ("RabbitMQ: names in brackets", |case| case.is_rabbitmq() && case.bare.contains('[')),
    ("RabbitMQ: binary literals", |case| case.is_rabbitmq() && case.bare.contains("0x")),
    ("RabbitMQ: the operator %", |case| case.is_rabbitmq() && case.bare.contains('%')),
    ("RabbitMQ: sections of an AMQP 1.0 message", |case| case.is_rabbitmq() && case.has_section()),
    ("docs/semantics.md: IN has no literal on its left and nothing else on its right", |case| {
        case.is_rabbitmq() && ["'' IN", "'' NOT IN", "IN (data)"].iter().any(|form| case.bare.contains(form))
    }),
    ("docs/semantics.md: TRUE and FALSE have no order and are compared with no number", |case| {
        ["country <= TRUE", "country >= TRUE", "TRUE = 1"].contains(&&*case.selector) && case.is_rabbitmq()
    }),
    ("docs/semantics.md: arithmetic is no condition", |case| {
        ["+weight", "+city", "-absent"].contains(&&*case.selector) && case.is_rabbitmq()
    }),
];

/// One line of a selector suite.
struct Case {
    selector: String,
    /// The selector with its texts in single quotes emptied.
    bare: String,
    expect: String,
    json: Json,
}

impl Case {
    fn new(json: Json) -> Self {
        let selector = json["selector"].as_str().expect("a selector").to_owned();
        let parts = selector.split('\'').enumerate();
        let bare = parts.map(|(index, part)| if index % 2 == 0 { part } else { "" }).collect::<Vec<_>>().join("'");
        Self { bare, selector, expect: json["expect"].as_str().expect("what to expect").to_owned(), json }
    }

    fn dialect_has(&self, character: char) -> bool {
        self.json["dialect"].as_str().is_some_and(|dialect| dialect.contains(character))
    }

    fn is_rabbitmq(&self) -> bool {
        self.json["source"].as_str().is_some_and(|source| source.starts_with("rabbitmq"))
    }

    fn has_section(&self) -> bool {
        let names = self.bare.split(|c: char| !c.is_alphanumeric() && c != '.' && c != '_');
        const SECTIONS: [&str; 6] = ["p", "h", "a", "properties", "header", "application_properties"];
        names.filter_map(|name| name.split_once('.')).any(|(section, _)| SECTIONS.contains(&section))
    }

    fn skip(&self) -> Option<usize> {
        SKIPS.iter().position(|(_, applies)| applies(self))
    }

    fn properties(&self) -> Properties {
        let mut properties = Properties::default();
        for (name, typed) in self.json["props"].as_object().into_iter().flatten() {
            properties.insert(name.as_str().into(), property(typed[0].as_str().expect("a type"), &typed[1]));
        }
        for (name, header) in self.json["headers"].as_object().into_iter().flatten() {
            if let Some(text) = header.as_str() {
                properties.insert(name.as_str().into(), Value::Text(text.into()));
            }
        }
        properties
    }

    /// The difference between the case and what tamis reads and evaluates, if there is one.
    fn failure(&self) -> Option<String> {
        let query = match parse(&self.selector, SelectorDialect::Jms) {
            Ok(query) if self.expect == "error" => return Some(format!("read as {query}")),
            Ok(query) => query,
            Err(_) if self.expect == "error" => return None,
            Err(error) => return Some(error.to_string()),
        };
        let canonical = query.to_string();
        match parse(&canonical, SelectorDialect::Jms) {
            Ok(again) if again == query && again.to_string() == canonical => {}
            other => return Some(format!("{canonical} reads as {other:?}")),
        }
        let properties = self.properties();
        let truth = query.evaluate(&Message::new("", &properties, Body::Absent), None);
        let holds = match &*self.expect {
            "parses" => true,
            "true" => truth == Some(true),
            "false" => truth == Some(false),
            "unknown" => truth.is_none(),
            "not-true" => truth != Some(true),
            other => panic!("what is {other}?"),
        };
        (!holds).then(|| format!("is {truth:?}, and should be {}; as {canonical}", self.expect))
    }
}

fn property(kind: &str, value: &Json) -> Value {
    match (kind, value) {
        ("null", _) => Value::Null,
        ("float" | "double", number) => Value::Float(number.as_f64().expect("a float")),
        (_, Json::Bool(truth)) => Value::Bool(*truth),
        (_, Json::Number(number)) => Value::Int(number.as_i64().expect("an integer")),
        (_, Json::String(text)) => Value::Text(text.as_str().into()),
        other => panic!("no property: {other:?}"),
    }
}

/// The folder of conformance cases and real data: `TAMIS_SHARED`, or the one beside the project.
fn shared() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    std::env::var_os("TAMIS_SHARED").map_or_else(beside, PathBuf::from)
}

/// The cases of a suite, one JSON object per line; None where there is no shared folder.
fn suite(folder: &str, name: &str) -> Option<Vec<Json>> {
    let path = shared().join("conformance").join(folder).join(format!("{name}.jsonl"));
    match fs::read_to_string(&path) {
        Ok(lines) => Some(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()),
        Err(error) => {
            eprintln!("skipped: {}: {error}", path.display());
            None
        }
    }
}

#[test]
fn selectors_mean_what_other_brokers_say() {
    let mut failures = Vec::new();
    let mut skipped = [0; SKIPS.len()];
    let mut held = 0;
    for name in SELECTOR_SUITES {
        for case in suite("selectors", name).unwrap_or_default().into_iter().map(Case::new) {
            match (case.skip(), case.failure()) {
                (Some(rule), _) => skipped[rule] += 1,
                (None, None) => held += 1,
                (None, Some(failure)) => failures.push(format!("{name}: {}\n    {failure}", case.selector)),
            }
        }
    }
    println!("{held} cases hold; skipped:");
    for ((reason, _), count) in SKIPS.iter().zip(skipped) {
        println!("{count:5}  {reason}");
        assert!(held == 0 || count > 0, "a rule that skips nothing: {reason}");
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn topic_patterns_mean_what_other_brokers_say() {
    for name in TOPIC_SUITES {
        for case in suite("topics", name).unwrap_or_default() {
            let topic = case["routing_key"].as_str().expect("a routing key");
            let bindings = case["bindings"].as_array().expect("bindings").iter();
            let mut matched: Vec<&str> = bindings
                .filter(|binding| {
                    let pattern = binding["pattern"].as_str().expect("a pattern");
                    TopicPattern::new(pattern, topic::TopicDialect::Amqp).is_match(topic)
                })
                .map(|binding| binding["dest"].as_str().expect("a destination"))
                .collect();
            matched.sort_unstable();
            matched.dedup();
            assert_eq!(Json::from(matched), case["expect"], "{name}: {topic}");
        }
    }
}

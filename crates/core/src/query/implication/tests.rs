//! Tests implication by examples, and on random queries and messages.

use super::Meaning;
use crate::message::{Body, Message, Properties, Value};
use crate::query::Query;
use crate::query::selector::{SelectorDialect, parse};
use crate::testing::{Random, fewer, rounds};

fn query(text: &str) -> Query {
    parse(text, SelectorDialect::Jms).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn is_covered(narrow: &str, wide: &str) -> bool {
    query(narrow).is_covered_by(&query(wide))
}

#[test]
fn what_can_hold_of_no_message_is_never_true() {
    for text in [
        "FALSE",
        "1 = 2",
        "a > 1 / 0",
        "a BETWEEN 5 AND 3",
        "a BETWEEN 'x' AND 3",
        "a = 1 AND NOT a = 1",
        "a = 1 AND NOT a < 5",
        "a IN (1, 2) AND a NOT IN (2, 3) AND NOT a = 1",
        "NOT a = 1 AND NOT a <> 1",
        "NOT a > 5 AND a > 7",
        "a LIKE 'x%' AND a NOT LIKE 'x%'",
        "a = 1 AND a IS NULL",
        "a + 1 = 2 AND a IS NULL",
        "a = b AND NOT EXISTS(a)",
        "a < b AND a > b",
        "a + 1 > 5 AND a + 1 < 3",
        "a + 1 = 2 AND a + 1 LIKE 'x'",
        "topic = 'a' AND topic = 'b'",
        "body = 'a' AND CONTAINS(body, 'b')",
        "TOPIC('a.#') AND TOPIC('b.*')",
        "TOPIC('a.b') AND NOT TOPIC('a.*')",
        "PREFIX(topic, 'a') AND PREFIX(topic, 'b')",
        "topic IS NULL OR NOT EXISTS(topic)",
        "(a = 1 OR a = 2) AND NOT a IN (1, 2, 3)",
        "(a = 1 AND NOT b = 1 OR a = 2 AND NOT c = 2) AND NOT a < 3",
        "b = 1 AND (a = 1 AND NOT b < 2 OR b IS NULL)",
        "a UNDER 'x' AND NOT a UNDER 'x'",
        "a AND NOT a",
        "NOT a > DATE '2002-08-22' AND NOT a <= DATE '2002-08-22' AND a = TIMESTAMP '2002-08-22T18:26:25Z'",
    ] {
        assert!(query(text).is_never_true(), "{text}");
    }
}

#[test]
fn what_a_list_satisfies_can_be_true() {
    for text in [
        "a = 1 AND a = 2",
        "a > 5 AND a < 3",
        "a LIKE 'x%' AND a = 5",
        "a AND a = FALSE",
        "PREFIX(a, 'x') AND PREFIX(a, 'y')",
        "NOT a = 1 AND a <> 1",
        "NOT a > 5 AND NOT a < 3",
        "a IS NULL AND EXISTS(a)",
        "a = TIMESTAMP '2002-08-22T18:26:25Z' AND NOT a <> '2002-08-22T18:26:25Z'",
        "a = DATE '2002-08-22' AND NOT a <> '2002-08-22' AND NOT a = TIMESTAMP '2002-08-22T00:00:00Z'",
        "a > DATE '2002-08-22' AND NOT a NOT LIKE '%'",
        "a <> b AND a < b",
        "a",
    ] {
        assert!(!query(text).is_never_true(), "{text}");
    }
}

#[test]
fn only_what_can_never_be_unknown_is_always_true() {
    for text in [
        "",
        "TRUE",
        "1 = 1",
        "a = 1 OR TRUE",
        "NOT (a = 1 AND FALSE)",
        "EXISTS(a) OR NOT EXISTS(a)",
        "a IS NULL OR a IS NOT NULL",
        "a IS NULL OR b = 1 OR EXISTS(a)",
        "TOPIC('#')",
        "TOPIC('#.#')",
        "TOPIC('a.#') OR NOT TOPIC('a.#')",
        "topic <> 'a' OR topic = 'a'",
        "topic <> 'a' OR TOPIC('*')",
        "EXISTS(topic) AND topic IS NOT NULL",
        "PREFIX(topic, '')",
    ] {
        assert!(query(text).is_always_true(), "{text}");
    }
    for text in
        ["a = 1 OR NOT a = 1", "a = 1 OR a <> 1 OR a IS NULL", "TOPIC('#', 'openamq')", "TOPIC('*')", "EXISTS(a)"]
    {
        assert!(!query(text).is_always_true(), "{text}");
    }
}

#[test]
fn a_query_is_covered_by_a_wider_one() {
    for (narrow, wide) in [
        ("a = 1 AND b = 2", "b = 2"),
        ("b = 2 AND a = 1", "a = 1 AND b = 2"),
        ("a = 1", "a IN (1, 2)"),
        ("a = 1.0", "a = 1"),
        ("a IN (1, 2)", "a = 2 OR a = 1 OR c = 3"),
        ("a = 1 OR a = 2", "a IN (1, 2, 3)"),
        ("a = 5", "a > 3"),
        ("a = 'xy'", "a LIKE 'x%'"),
        ("a = 'garlic and frost'", "NEAR(a, 'frost', 'garlic')"),
        ("a > 5", "a >= 5"),
        ("a BETWEEN 3 AND 5", "a > 2 AND a <= 5"),
        ("5 < a", "a > 4"),
        ("NOT a = 1", "a <> 1"),
        ("NOT a IN (1, 2)", "NOT a = 1"),
        ("NOT a > 3", "NOT a > 4"),
        ("a = 1", "a IS NOT NULL"),
        ("a + 1 > 2", "EXISTS(a)"),
        ("a", "a = TRUE"),
        ("NOT a", "NOT a = 5"),
        ("a = b", "a <= b"),
        ("NOT a < b", "b IS NOT NULL"),
        ("PREFIX(a, 'forex.')", "PREFIX(a, 'for')"),
        ("CONTAINS(body, 'the first frost')", "CONTAINS(body, 'first')"),
        ("NEAR(body, 'a', 'b', 3)", "NEAR(body, 'B', 'a', 5) AND CONTAINS(body, 'a')"),
        ("TOPIC('news.world')", "TOPIC('news.#')"),
        ("TOPIC('news.*.eu')", "TOPIC('#.eu')"),
        ("TOPIC('a.#.b.*')", "TOPIC('a.#.*')"),
        ("TOPIC('a.#', 'openamq-program')", "TOPIC('#.#', 'openamq-program') OR a = 1"),
        ("topic = 'a.b'", "TOPIC('*.b', 'openamq')"),
        ("(a = 1 OR b = 1) AND c = 1", "b = 1 OR a IN (1, 2)"),
        ("NOT (a = 1 OR b = 2)", "NOT b = 2"),
    ] {
        assert!(is_covered(narrow, wide), "{narrow} by {wide}");
    }
}

#[test]
fn a_query_that_can_be_true_alone_is_not_covered() {
    for (narrow, wide) in [
        ("a = 1", "a = 1 AND b = 2"),
        ("a <> 1", "NOT a = 1"),
        ("a > 2 AND a < 5", "a BETWEEN 2 AND 5"),
        ("a = TRUE", "NOT a = FALSE"),
        ("NOT a = TRUE", "NOT a"),
        ("a = '5'", "a = 5"),
        ("a > 5", "a <> 'x' AND a > 6"),
        ("a = 1", "A = 1"),
        ("TOPIC('#')", "TOPIC('#', 'openamq')"),
        ("TOPIC('a.#')", "TOPIC('a.*')"),
        ("TOPIC('#.a', 'openamq-program')", "TOPIC('*.#.a', 'openamq-program')"),
        ("EXISTS(a)", "a IS NOT NULL"),
        ("NEAR(body, 'a', 'b', 6)", "NEAR(body, 'a', 'b', 5)"),
        ("a BETWEEN b AND 5", "a < 6 AND b < 7"),
    ] {
        assert!(!is_covered(narrow, wide), "{narrow} by {wide}");
    }
}

impl Random {
    fn query_text(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 1 } else { 4 }) {
            0 => self.predicate(),
            1 => format!("({} AND {})", self.query_text(depth - 1), self.query_text(depth - 1)),
            2 => format!("({} OR {})", self.query_text(depth - 1), self.query_text(depth - 1)),
            _ => format!("NOT ({})", self.query_text(depth - 1)),
        }
    }

    fn predicate(&mut self) -> String {
        let name = self.pick(&["a", "b", "a", "-a", "a + b"]);
        let constant = |random: &mut Self| random.pick(&["1", "2", "2.0", "3", "1.5", "'x'", "'xy'"]);
        let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.below(18) {
            0..=4 => format!("{name} {op} {}", constant(self)),
            14..=15 => format!("a {op} {}", self.time()),
            16 => format!("a BETWEEN {} AND {}", self.time(), self.time()),
            17 => format!("a IN ({}, {})", self.time(), self.time()),
            5 => format!("{name} BETWEEN {} AND {}", constant(self), constant(self)),
            6 => format!("{name} IN ({}, {})", constant(self), constant(self)),
            7 => self.pick(&["a", "b", "a = TRUE", "a = FALSE", "TRUE", "FALSE"]).to_owned(),
            8 => format!("a {op} b"),
            9 => format!("{name} IS NULL"),
            10 => self.pick(&["EXISTS(a)", "EXISTS(b)"]).to_owned(),
            11 => self.pick(&["a LIKE 'x%'", "PREFIX(a, 'x')", "PREFIX(a, 'xy')", "topic LIKE '%b'"]).to_owned(),
            12 => {
                let pattern = self.pick(&["a.b", "a.*", "a.#", "#", "*.b", "#.b", "b.#", "*", "#.a.#"]);
                let dialect = self.pick(&["amqp", "amqp", "openamq", "openamq-program"]);
                format!("TOPIC('{pattern}', '{dialect}')")
            }
            _ => self
                .pick(&["topic = 'a.b'", "topic <> 'a'", "topic IN ('a', 'b')", "topic > 'a'", "a BETWEEN b AND 3"])
                .to_owned(),
        }
    }

    /// Times, and texts that are or may be times.
    fn time(&mut self) -> &'static str {
        self.pick(&[
            "TIMESTAMP '1970-01-01T00:00:00Z'",
            "TIMESTAMP '1970-01-02T12:00:00Z'",
            "DATE '1970-01-01'",
            "DATE '1970-01-02'",
            "'1970-01-01T00:00:00Z'",
            "'1970-01-02T13:00:00+01:00'",
            "'1970-01-01'",
            "'1'",
        ])
    }

    fn scalar(&mut self) -> Value {
        match self.below(13) {
            10 => Value::Timestamp(self.pick(&[0, 129_600_000_000, 1])),
            11 | 12 => {
                let texts = ["1970-01-01T00:00:00Z", "1970-01-02T13:00:00+01:00", "1970-01-01", "1970-01-02"];
                Value::Text(self.pick(&texts).into())
            }
            0 => Value::Null,
            1 => Value::Present,
            2 => Value::Bool(self.one_in(2)),
            3 => Value::Float(f64::NAN),
            4 => Value::Text(self.pick(&["x", "xy", "y"]).into()),
            5 => Value::Map(Properties::default()),
            6 => Value::Float(1.5),
            _ => Value::Int(i64::try_from(self.below(4)).expect("small")),
        }
    }

    fn properties(&mut self) -> Properties {
        let mut properties = Properties::default();
        for name in ["a", "b"] {
            match self.below(4) {
                0 => {}
                1 => {
                    let elements = (0..self.below(3)).map(|_| self.scalar()).collect();
                    properties.insert(name.into(), Value::List(elements));
                }
                _ => {
                    properties.insert(name.into(), self.scalar());
                }
            }
        }
        properties
    }
}

#[test]
fn whatever_is_said_of_random_queries_holds_of_random_messages() {
    let mut random = Random(11);
    let messages: Vec<(Properties, &str)> =
        rounds(0..400).map(|_| (random.properties(), random.pick(&["", "a", "b", "a.b", "b.a", "a.b.b"]))).collect();
    let (mut never, mut always, mut covered) = (0, 0, 0);
    for _ in rounds(0..200) {
        let texts: Vec<String> = (0..24).map(|index| random.query_text(index % 3)).collect();
        let queries: Vec<Query> = texts.iter().map(|text| query(text)).collect();
        let truths: Vec<Vec<bool>> = queries
            .iter()
            .map(|query| {
                let truth = |(properties, topic): &(Properties, &str)| {
                    query.evaluate(&Message::new(topic, properties, Body::Absent), None) == Some(true)
                };
                messages.iter().map(truth).collect()
            })
            .collect();
        let meanings: Vec<Meaning<'_>> = queries.iter().map(Meaning::of).collect();
        for (index, meaning) in meanings.iter().enumerate() {
            if meaning.is_never_true() {
                never += 1;
                assert!(!truths[index].contains(&true), "never: {}", texts[index]);
            }
            if meaning.is_always_true() {
                always += 1;
                assert!(!truths[index].contains(&false), "always: {}", texts[index]);
            }
            for (wider, wide) in meanings.iter().enumerate() {
                if index != wider && meaning.is_covered_by(wide) {
                    covered += 1;
                    let holds = truths[index].iter().zip(&truths[wider]).all(|(narrow, wide)| !narrow || *wide);
                    assert!(holds, "{} by {}", texts[index], texts[wider]);
                    let filed = wide.filing(&|_| 0);
                    let looked_up = meaning.lookups();
                    let is_found = meaning.is_never_true()
                        || wide.is_always_true()
                        || (filed.keys.iter().any(|key| looked_up.contains(key))
                            && filed.needed.iter().all(|key| looked_up.contains(key))
                            && filed.alternatives.iter().all(|keys| keys.iter().any(|key| looked_up.contains(key))));
                    assert!(is_found, "not looked up: {} by {}", texts[index], texts[wider]);
                }
            }
        }
    }
    assert!(
        cfg!(miri) || never > 100 && always > 50 && covered > 3_000,
        "too few to mean much: {never} {always} {covered}"
    );
}

#[test]
fn large_queries_take_bounded_time() {
    let many = |word: &str, make: &dyn Fn(usize) -> String| (0..fewer(1_000)).map(make).collect::<Vec<_>>().join(word);
    let values = (0..fewer(5_000)).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    for text in [
        many(" AND ", &|index| format!("NOT a = {index}")),
        many(" OR ", &|index| format!("a > {index}")),
        (0..fewer(500)).map(|index| format!("(a > {index} OR b = 1)")).collect::<Vec<_>>().join(" AND "),
        format!("a IN ({values}) AND NOT a IN ({values}) AND b = 1"),
        format!("TOPIC('{}') AND TOPIC('{}')", "#.a.".repeat(fewer(5_000)), "*.a.".repeat(fewer(5_000))),
    ] {
        let query = query(&text);
        let _ = (query.is_never_true(), query.is_always_true(), query.is_covered_by(&query));
    }
}

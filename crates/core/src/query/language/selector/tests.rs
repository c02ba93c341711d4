//! Tests the selector language: what it accepts, what it means, and how it refuses.

use super::*;
use crate::message::{Body, Message, Properties};
use crate::query::boolean;
use crate::testing::rounds;

fn read(text: &str, dialect: SelectorDialect) -> Query {
    parse(text, dialect).unwrap_or_else(|error| panic!("{text}: {error} {:?}", error.hint))
}

/// The canonical text, which reads back as the same query.
fn canonical(text: &str) -> String {
    let query = read(text, SelectorDialect::Jms);
    let canonical = query.to_string();
    assert_eq!(parse(&canonical, SelectorDialect::Jms), Ok(query), "{canonical}");
    canonical
}

fn cbm(text: &str) -> String {
    let query = read(text, SelectorDialect::Cbm);
    let canonical = query.to_string();
    assert_eq!(parse(&canonical, SelectorDialect::Jms), Ok(query), "{canonical}");
    canonical
}

/// The position at which `text` is refused, with the hint if there is one, else with what was expected.
fn refused(text: &str) -> (usize, String) {
    let error = parse(text, SelectorDialect::Jms).expect_err(text);
    (error.position, error.hint.unwrap_or(error.expected))
}

fn is_refused_at(text: &str, position: usize) {
    assert_eq!(refused(text).0, position, "{text}: {}", refused(text).1);
}

#[test]
fn ranks_and_negations() {
    assert_eq!(canonical("NOT a > 1 AND b OR c"), "NOT a > 1 AND b OR c");
    assert_eq!(canonical("(a OR b) AND NOT (c OR NOT d)"), "(a OR b) AND NOT (c OR NOT d)");
    assert_eq!(canonical("((a AND (b)) AND c)"), "a AND b AND c");
    assert_eq!(canonical("not a not like 'x' or a is not null"), "NOT a NOT LIKE 'x' OR a IS NOT NULL");
    assert_eq!(canonical("a not between 1 and 2 and b"), "a NOT BETWEEN 1 AND 2 AND b");
    assert_eq!(canonical("a != 'x'"), "a <> 'x'");
    assert_eq!(canonical(" \n"), "TRUE");
}

#[test]
fn arithmetic_keeps_only_the_parentheses_it_needs() {
    assert_eq!(canonical("a + (b * c) - (d - e) > 1"), "a + b * c - (d - e) > 1");
    assert_eq!(canonical("(a + b) * c / (d / e) = (1)"), "(a + b) * c / (d / e) = 1");
    assert_eq!(canonical("-(a + 1) = - -a"), "-(a + 1) = - -a");
    assert_eq!(canonical("a - -5 = -(5) * -b"), "a - -5 = -5 * -b");
    assert_eq!(canonical("+a = +5"), "0 + a = 5");
    assert_eq!(canonical("a-1=0"), "a - 1 = 0");
}

#[test]
fn numbers() {
    assert_eq!(canonical("a = -9223372036854775808"), "a = -9223372036854775808");
    assert_eq!(canonical("a = - -9223372036854775808"), "a = - -9223372036854775808");
    assert_eq!(canonical("a IN (1., .5, 1.E1, 4E-10, 042, +6.2)"), "a IN (1.0, 0.5, 10.0, 4e-10, 42, 6.2)");
    assert_eq!(canonical("a < 1e999 AND a > -1e999"), "a < 1e999 AND a > -1e999");
    is_refused_at("a = 9223372036854775808", 4);
    is_refused_at("a = -9223372036854775809", 4);
    assert_eq!(refused("a = 57L"), (4, "numbers have no suffix: 57".into()));
    is_refused_at("1uncorrect IS NULL", 0);
    is_refused_at("a = 0x1F", 4);
}

#[test]
fn names() {
    assert_eq!(canonical("\"a b\" AND \"say \"\"x\"\"\" AND \"\""), "\"a b\" AND \"say \"\"x\"\"\" AND \"\"");
    assert_eq!(canonical("topic = 'a' AND \"topic\" = 'a'"), "topic = 'a' AND \"topic\" = 'a'");
    assert_eq!(canonical("Topic AND body IS NULL"), "Topic AND body IS NULL");
    assert_eq!(canonical("größe = 1 AND $a.b_2.c = 2"), "größe = 1 AND $a.b_2.c = 2");
    assert_eq!(canonical("\"and\" AND under UNDER 'x'"), "\"and\" AND under UNDER 'x'");
    assert_eq!(canonical("Date = 1 AND timestamp = near AND contains"), "Date = 1 AND timestamp = near AND contains");
    assert_eq!(canonical("ANYCASE(From) AND ANYCASE(\"Topic\")"), "ANYCASE(from) AND ANYCASE(\"topic\")");
}

#[test]
fn functions() {
    assert_eq!(canonical("contains(body, 'it''s here')"), "CONTAINS(body, 'it''s here')");
    assert_eq!(canonical("NEAR(body,'a','b') AND NEAR(x,'a','b',4294967295)"), {
        "NEAR(body, 'a', 'b', 5) AND NEAR(x, 'a', 'b', 4294967295)"
    });
    assert_eq!(canonical("TOPIC('a.#') OR TOPIC('a.*', 'openamq')"), "TOPIC('a.#') OR TOPIC('a.*', 'openamq')");
    assert_eq!(canonical("PREFIX(topic, 'a') AND NOT REGEX(\"x y\", '^a')"), {
        "PREFIX(topic, 'a') AND NOT REGEX(\"x y\", '^a')"
    });
    assert_eq!(canonical("EXISTS(ANYCASE(x))"), "EXISTS(ANYCASE(x))");
    is_refused_at("CONTAINS(body, '!?')", 15);
    is_refused_at("NEAR(body, 'a b', 'c')", 11);
    is_refused_at("NEAR(body, 'a', 'c', 0)", 21);
    is_refused_at("TOPIC('a', 'mqtt')", 11);
    is_refused_at("REGEX(body, '(?=a)')", 12);
    is_refused_at("CONTAINS(body, 'a') = TRUE", 0);
    assert_eq!(refused("CONTAIN(body, 'a')"), (7, "did you mean `CONTAINS`?".into()));
}

#[test]
fn instants() {
    let expected = "d = TIMESTAMP '2002-08-22T18:26:25Z'";
    for form in ["2002-08-22T18:26:25Z", "2002-08-22 18:26:25", "2002-08-22T20:26:25+02:00"] {
        assert_eq!(canonical(&format!("d = timestamp '{form}'")), expected, "{form}");
    }
    assert_eq!(canonical("d < TIMESTAMP '2002-08-22T18:26:25.5Z'"), "d < TIMESTAMP '2002-08-22T18:26:25.500Z'");
    assert_eq!(canonical("d IN (DATE '2002-08-22')"), "d IN (TIMESTAMP '2002-08-22T00:00:00Z')");
    is_refused_at("d = DATE '2002-8-22'", 9);
    is_refused_at("d = TIMESTAMP 'yesterday'", 14);
    is_refused_at("d = TIMESTAMP '0001-01-01T00:00:00+01:00'", 14);
}

#[test]
fn the_examples_of_the_paper_are_read_as_printed() {
    assert_eq!(cbm("Author = \"James\" and source = \"CNN\""), "ANYCASE(author) = 'James' AND ANYCASE(source) = 'CNN'");
    assert_eq!(cbm("From = \"Someone (Someone@yahoo.com)\""), "ANYCASE(author) = 'Someone (Someone@yahoo.com)'");
    assert_eq!(cbm("Subject LIKE \"%question%\""), "ANYCASE(subject) LIKE '%question%'");
    assert_eq!(cbm("Body LIKE %garlic%"), "body LIKE '%garlic%'");
    assert_eq!(cbm("Body LIKE %warmer%"), "body LIKE '%warmer%'");
    assert_eq!(cbm("(Body NOT LIKE %a%) or TOPIC = 'x'"), "body NOT LIKE '%a%' OR topic = 'x'");
    assert_eq!(cbm("Body LIKE !%_ ESCAPE \"!\" and x in (\"a\", 1)"), {
        "body LIKE '!%_' ESCAPE '!' AND ANYCASE(x) IN ('a', 1)"
    });
    let error = parse("Body LIKE", SelectorDialect::Cbm).expect_err("no pattern");
    assert_eq!((error.position, &*error.expected), (9, "a pattern in quotes"));
}

#[test]
fn conditions_and_values_are_not_mixed_up() {
    for (text, position) in [
        ("3 + 5", 0),
        ("TRUE AND 3+5", 9),
        ("'x'", 0),
        ("a AND -b", 6),
        ("(a = 1) = TRUE", 0),
        ("a = (b = 1)", 4),
        ("a = b = c", 6),
        ("TRUE = 1", 7),
        ("1 <> FALSE", 5),
        ("a < TRUE", 2),
        ("a BETWEEN TRUE AND 2", 10),
        ("FALSE BETWEEN a AND 2", 0),
        ("a LIKE 2", 7),
        ("a LIKE \"b\"", 7),
        ("a LIKE 'b' ESCAPE 'xy'", 18),
        ("'a' LIKE 'a'", 0),
        ("'a' IN ('a')", 0),
        ("5 IS NULL", 0),
        ("a IN (b)", 6),
        ("a IN ()", 6),
        ("a IN (-b)", 6),
        ("a IN ('x' 'y')", 10),
        ("topic UNDER 'x'", 0),
        ("a UNDER b", 8),
        ("NULL = 0", 0),
        ("NOT = 0", 4),
        ("a IS TRUE", 5),
        ("a NOT 5", 6),
        ("a b", 2),
        ("(a", 2),
        ("a)", 1),
    ] {
        is_refused_at(text, position);
    }
}

#[test]
fn errors_guess_what_was_meant() {
    assert_eq!(refused("price >> 3"), (7, "did you mean `>`?".into()));
    assert_eq!(parse("price >> 3", SelectorDialect::Jms).expect_err("not a query").expected, "a number");
    assert_eq!(refused("a == 1"), (3, "did you mean `=`?".into()));
    assert_eq!(refused("a => 1"), (3, "did you mean `>=`?".into()));
    assert_eq!(refused("a && b"), (2, "did you mean `AND`?".into()));
    assert_eq!(refused("!a"), (0, "did you mean `NOT`?".into()));
    assert_eq!(refused("a = 1 AMD  b = 2"), (6, "did you mean `AND`?".into()));
    assert_eq!(refused("a BETWEN 1 AND 2"), (2, "did you mean `BETWEEN`?".into()));
    assert_eq!(refused("a LIEK 'x'"), (2, "did you mean `LIKE`?".into()));
    assert_eq!(refused("é = 'x"), (4, "a closing `'` for the quote here".into()));
    assert_eq!(refused("a = ‘x’"), (4, "quotes are straight: ' or \"".into()));
    assert_eq!(refused("in = 5"), (0, "in double quotes it is a name: \"in\"".into()));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn limits_hold() {
    let nested = |open: &str, depth: usize| open.repeat(depth) + "a" + &")".repeat(depth) + " = 1";
    canonical(&nested("(", 100));
    is_refused_at(&nested("(", 101), 100);
    canonical(&("NOT ".repeat(100) + "a"));
    is_refused_at(&("NOT ".repeat(101) + "a"), 400);
    canonical(&("- ".repeat(100) + "a = 1"));
    canonical(&nested("-(b * ", 50));
    is_refused_at(&("a = ".to_owned() + &"+".repeat(101) + "a"), 104);
    canonical(&vec!["a"; 1_000].join(" OR "));
    is_refused_at(&vec!["a"; 1_001].join(" OR "), 5_000);
    canonical(&format!("a = {}", vec!["b"; 1_001].join("+")));
    is_refused_at(&format!("a = {}", vec!["b"; 1_002].join("+")), 4 + 2_001);
    canonical(&format!("a IN ({})", vec!["1"; 10_000].join(",")));
    is_refused_at(&format!("a IN ({})", vec!["1"; 10_001].join(",")), 6 + 20_000);
    is_refused_at(&"a".repeat(65_537), 65_536);
    canonical(&format!("a IN ({})", vec!["1e15"; 3_000].join(",")));
    is_refused_at(&format!("a IN ({})", vec!["1e15"; 4_000].join(",")), 0);
}

#[test]
fn whatever_the_text_it_is_read_or_refused() {
    let words: Vec<&str> =
        "a b topic 'x' \"n\" 1 2.5 -1 ( ) ( ) , = <> < + - * / AND OR NOT IN LIKE BETWEEN IS NULL TRUE \
         ESCAPE UNDER { } != == || && ! CONTAINS( NEAR( ANYCASE( DATE 'y % \u{301} é"
            .split(' ')
            .collect();
    let mut state = 7_u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let properties = Properties::default();
    let mut read = 0;
    for _ in rounds(0..30_000) {
        let text: Vec<&str> = (0..=next(9)).map(|_| words[next(words.len())]).collect();
        let text = text.join(" ");
        match parse(&text, SelectorDialect::Jms) {
            Ok(query) => {
                canonical(&text);
                let _ = query.evaluate(&Message::new("", &properties, Body::Absent), None);
                read += 1;
            }
            Err(error) => assert!(error.position <= text.chars().count(), "{text}"),
        }
        for query in [parse(&text, SelectorDialect::Cbm), boolean::parse(&text)].into_iter().flatten() {
            assert_eq!(parse(&query.to_string(), SelectorDialect::Jms), Ok(query), "{text}");
        }
    }
    assert!(cfg!(miri) || read > 300, "too few were read to mean much: {read}");
}

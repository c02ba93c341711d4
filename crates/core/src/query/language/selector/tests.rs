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
    assert_eq!(canonical("d IN (date '2002-08-22')"), "d IN (DATE '2002-08-22')");
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
        for query in [parse(&text, SelectorDialect::Cbm), boolean::parse(&text, &[] as &[&str])].into_iter().flatten() {
            assert_eq!(parse(&query.to_string(), SelectorDialect::Jms), Ok(query), "{text}");
        }
    }
    assert!(cfg!(miri) || read > 300, "too few were read to mean much: {read}");
}

/// The warnings about `text`: the position and the hint of each.
fn warned(text: &str) -> Vec<(usize, String)> {
    let query = parse(text, SelectorDialect::Jms).expect(text);
    let warnings = query.warnings().iter();
    warnings.map(|warning| (warning.position, warning.hint.clone().unwrap_or_default())).collect()
}

#[test]
fn what_can_hardly_be_meant_is_warned_about() {
    for (text, position, hint) in [
        ("author = \"James\"", 9, "write a text in single quotes: 'James'"),
        ("\"it's\" <> author", 0, "write a text in single quotes: 'it''s'"),
        ("é = 1 AND date > '2002-01-01'", 17, "a time is written DATE '2002-01-01'"),
        ("'2002-01-01T00:00:00Z' = date", 0, "a time is written TIMESTAMP '2002-01-01T00:00:00Z'"),
        ("date IN ('x', '2002-01-01 00:00:00')", 14, "a time is written TIMESTAMP '2002-01-01 00:00:00'"),
        ("price > '100'", 8, "without quotes it is a number: 100"),
        ("price BETWEEN 1 AND '1e3'", 20, "without quotes it is a number: 1e3"),
        ("header.X-Mailer-2 = 'x'", 0, "in double quotes it is one name: \"header.X-Mailer-2\""),
        ("a LIKE '*garlic*'", 7, "`%` is any text: '%garlic%'"),
        ("CONTAINS(bdy, 'x')", 9, "did you mean `body`?"),
        ("NEAR(Bodyy, 'x', 'y')", 5, "did you mean `body`?"),
        (" ", 0, "TRUE says so, too"),
    ] {
        assert_eq!(warned(text), [(position, hint.to_owned())], "{text}");
    }
    let two = parse("a > '1' OR a = \"x\"", SelectorDialect::Jms).expect("two warnings");
    assert_eq!(two.warnings().len(), 2);
    assert_eq!(
        two.warnings()[0].to_string(),
        "'1' in quotes is a text, which is neither above nor below a number\n  a > '1' OR a = \"x\"\n      ^ without \
         quotes it is a number: 1"
    );
    assert_eq!(boolean::parse("date < 2002-01-01 && p >= '5' && q == '5'", &[""]).expect("legal").warnings().len(), 2);
}

#[test]
fn what_can_well_be_meant_is_not_warned_about() {
    for text in [
        "author = 'James' AND zip = '08210' AND a LIKE '%x_'",
        "\"a b\" = 'x' AND \"a b\" = \"c d\" AND a = \"header.X-Mailer\"",
        "a.b - c.d > 1 AND low-high > 1 AND \"header.X-Mailer\" = 'x'",
        "date > DATE '2002-01-01' AND CONTAINS(body, 'x') AND CONTAINS(subject, 'x')",
        "TRUE",
    ] {
        assert_eq!(warned(text), [], "{text}");
    }
    assert!(read("Author = \"James\"", SelectorDialect::Cbm).warnings().is_empty());
    let many = vec!["a > '1'"; 100].join(" OR ");
    assert_eq!(warned(&many).len(), 10);
}

#[test]
fn hints_say_what_to_write_instead() {
    assert_eq!(refused("a = NULL"), (4, "to ask for null, write `IS NULL`".into()));
    assert_eq!(refused("a <> NULL"), (5, "to ask for null, write `IS NOT NULL`".into()));
    assert_eq!(refused("subject CONTAINS 'x'"), (8, "the name stands inside: CONTAINS(subject, '...')".into()));
    assert_eq!(refused("LOWER(author) = 'x'"), (5, "to ignore case, write REGEX(name, '(?i)^text$')".into()));
    assert_eq!(refused("a IN (\"x\")"), (6, "write a text in single quotes".into()));
}

#[test]
fn under_takes_several_values_of_which_one_is_enough() {
    assert_eq!(canonical("a UNDER ('x' || 'y') AND b"), "(a UNDER 'x' OR a UNDER 'y') AND b");
    assert_eq!(canonical("NOT a UNDER ('x' OR 'y', 'z')"), "NOT (a UNDER 'x' OR a UNDER 'y' OR a UNDER 'z')");
    assert_eq!(canonical("a UNDER ('x')"), "a UNDER 'x'");
    is_refused_at("a UNDER (x || y)", 9);
    is_refused_at("a UNDER ('x' 'y')", 13);
    let nested = |depth: usize| format!("{}a UNDER ('x' || 'y'){}", "NOT ".repeat(depth), "");
    assert!(canonical(&nested(99)).starts_with("NOT NOT"));
    assert!(parse(&nested(100), SelectorDialect::Jms).is_err());
}

#[test]
fn texts_that_read_as_times_are_times_beside_times() {
    let truth = |text: &str, value: Value| {
        let properties: Properties = [("a".into(), value)].into_iter().collect();
        read(text, SelectorDialect::Jms)
            .evaluate(&Message::new("2026-01-31T12:00:00Z", &properties, Body::Absent), None)
    };
    let text = |text: &str| Value::Text(text.into());
    let noon = "2026-01-31T12:00:00+00:00";
    for (query, value, expected) in [
        ("a = TIMESTAMP '2026-01-31T12:00:00Z'", noon, true),
        ("a <> TIMESTAMP '2026-01-31T12:00:00Z'", noon, false),
        ("TIMESTAMP '2026-01-31T11:00:00Z' < a", noon, true),
        ("a BETWEEN DATE '2026-01-31' AND DATE '2026-02-01'", noon, true),
        ("a IN ('x', DATE '2026-01-31', TIMESTAMP '2026-01-31T12:00:00Z')", noon, true),
        ("a NOT IN (DATE '2026-01-31')", "2026-01-31", false),
        ("a = DATE '2026-01-31'", "2026-01-31T00:00:00Z", true),
        ("a >= DATE '2026-01-31'", "2026-01-31", true),
        ("a > TIMESTAMP '2026-01-01T00:00:00Z'", "2026-01-31", false),
        ("a <> TIMESTAMP '2026-01-31T00:00:00Z'", "2026-01-31", true),
        ("a > DATE '2026-01-01'", "31 January 2026", false),
        ("a > '2026-01-31'", noon, true),
        ("a LIKE '2026%'", noon, true),
        ("topic > DATE '2026-01-01'", "", false),
        ("a + '' > DATE '2026-01-01'", noon, false),
    ] {
        assert_eq!(truth(query, text(value)), Some(expected), "{query} of {value}");
    }
    let list = Value::List(vec![text("x"), text(noon), Value::Timestamp(0)]);
    assert_eq!(truth("a > DATE '2026-01-01'", list.clone()), Some(true));
    assert_eq!(truth("a = DATE '2026-01-01'", list), Some(false));
    assert_eq!(truth("a = '1970-01-01T00:00:00Z'", Value::Timestamp(0)), Some(false));
    let properties: Properties = [("a".into(), text(noon)), ("b".into(), Value::Timestamp(0))].into_iter().collect();
    let message = Message::new("", &properties, Body::Absent);
    for (query, expected) in [("a > b", true), ("b < a", true), ("b BETWEEN b AND a", true), ("a = b", false)] {
        assert_eq!(read(query, SelectorDialect::Jms).evaluate(&message, None), Some(expected), "{query}");
    }
}

#[test]
fn the_figure_of_the_pnnl_paper_is_read_as_it_was_sent() {
    let properties: Properties = [
        ("From", "Someone (Someone@yahoo.com)"),
        ("Date", "2002-12-28 21:04:22 PST"),
        ("Subject", "I have a question..."),
        ("Body", "I covered my daffodils, garlic, and rhubarb\nlast night in hopes of saving them. ... get warmer?"),
    ]
    .map(|(name, value)| (name.into(), Value::Text(value.into())))
    .into_iter()
    .collect();
    let message = Message::of_record(&properties, None, None);
    for text in [
        "From = \"Someone (Someone@yahoo.com)\"",
        "Subject LIKE \"%question%\"",
        "Body LIKE %garlic%",
        "Body LIKE %warmer%",
    ] {
        assert_eq!(read(text, SelectorDialect::Cbm).evaluate(&message, None), Some(true), "{text}");
    }
    let author: Properties =
        [("from".into(), Value::Int(1)), ("Author".into(), Value::Text("James".into()))].into_iter().collect();
    let message = Message::of_record(&author, None, None);
    assert_eq!(read("From = \"James\"", SelectorDialect::Cbm).evaluate(&message, None), Some(true));
}

#[test]
#[cfg_attr(miri, ignore = "compiles expressions that take miri minutes")]
fn equal_expressions_are_compiled_once_and_counted_each_time() {
    let twice = read(r"REGEX(a, '\w{3}') OR REGEX(b, '\w{3}')", SelectorDialect::Jms);
    let one = read(r"REGEX(a, '\w{3}')", SelectorDialect::Jms);
    let bytes = one.price().bytes as usize;
    assert!(twice.price().bytes as usize >= 2 * bytes);
    let text = [r"REGEX(a, '\w{3}')"; 9].join(" OR ");
    let within = |bytes_max: usize| parse_within(&text, SelectorDialect::Jms, bytes_max);
    assert!(within(10 * bytes).is_ok(), "the control");
    let error = within(5 * bytes).expect_err("too many");
    assert_eq!(error.expected, format!("patterns of at most {} bytes when compiled", 5 * bytes));
}

//! Tests of the JSON reader: examples, and random texts, whole and broken, beside a reader made of serde_json.

mod oracle;

use crate::message::{Properties, Value};
use crate::testing::{Random, rounds};

use super::{parse, parse_object, parse_within};

/// Names of members, some with dots, escapes and other letters.
const NAMES: [&str; 9] = ["a", "b", "a.b", "", "ab", "\\u0061", "\u{e9}", "k\\n", "a long name of a member"];
/// What stands between tokens.
const SPACES: [&str; 6] = ["", "", "", " ", "\n\t", "\r\n  "];
const TEXTS: [&str; 14] = [
    "",
    "x",
    "exactly8",
    "seven \u{e9}",
    "\u{1F600} and more than eight bytes",
    "\\\"",
    "\\\\",
    "a\\/b\\b\\f\\n\\r\\t",
    "\\u00e9",
    "\\ud83d\\ude00",
    "more than eight \\u0000",
    "\\ud83d",
    "\\ude00",
    "\\ud83d\\u0041",
];
const NUMBERS: [&str; 22] = [
    "0",
    "-0",
    "7",
    "-12",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "0.1",
    "-0.0",
    "1e3",
    "1E+3",
    "1e-3",
    "12.75",
    "5e-324",
    "1e400",
    "01",
    "1.",
    "-",
    "1e",
    "2.2250738585072011e-308",
];
/// What random edits insert.
const EDITS: [&str; 16] = ["{", "}", "[", "]", ",", ":", "\"", "\\", "0", "-", ".", "e", " ", "tru", "null", "\u{1}"];

/// A random value in JSON, in at most `depth` lists and objects. Now and then it is no JSON.
fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => random.pick(&["true", "false", "null"]).to_owned(),
        1 | 2 => some_of(random, &NUMBERS, 6).to_owned(),
        3..6 => format!("\"{}\"", some_of(random, &TEXTS, 11)),
        6 => list(random, depth - 1),
        _ => object(random, depth - 1),
    }
}

/// Mostly one of the first `usual` of `all`.
fn some_of<'a>(random: &mut Random, all: &[&'a str], usual: usize) -> &'a str {
    let count = if random.one_in(8) { all.len() } else { usual };
    random.pick(&all[..count])
}

fn spaced(random: &mut Random, token: &str) -> String {
    format!("{}{token}{}", random.pick(&SPACES), random.pick(&SPACES))
}

fn list(random: &mut Random, depth: usize) -> String {
    let elements: Vec<_> = (0..random.below(4)).map(|_| value(random, depth)).collect();
    let elements: Vec<_> = elements.iter().map(|element| spaced(random, element)).collect();
    format!("[{}{}]", elements.join(","), random.pick(&SPACES))
}

fn object(random: &mut Random, depth: usize) -> String {
    let member = |random: &mut Random| {
        let name = format!("\"{}\"", random.pick(&NAMES));
        let name = spaced(random, &name);
        let value = value(random, depth);
        format!("{name}:{}", spaced(random, &value))
    };
    let members: Vec<_> = (0..random.below(6)).map(|_| member(random)).collect();
    format!("{{{}{}}}", members.join(","), random.pick(&SPACES))
}

/// `text` with a few random edits.
fn edited(random: &mut Random, mut text: String) -> String {
    for _ in 0..random.below(3) {
        let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
        let Some(at) = (!places.is_empty()).then(|| random.pick(&places)) else { break };
        match random.below(3) {
            0 => text.truncate(at),
            1 => text.insert_str(at, random.pick(&EDITS)),
            _ => _ = text.remove(at),
        }
    }
    text
}

/// Equal, though serde_json may read a float as a neighbour of the nearest.
fn is_same(ours: &Value, other: &Value) -> bool {
    match (ours, other) {
        (Value::Float(a), Value::Float(b)) => {
            a == b && a.is_sign_negative() == b.is_sign_negative() || a.to_bits().abs_diff(b.to_bits()) == 1
        }
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Map(a), Value::Map(b)) => are_same(a, b),
        _ => ours == other,
    }
}

fn are_same(ours: &Properties, other: &Properties) -> bool {
    ours.len() == other.len()
        && ours.iter().all(|(name, value)| other.get(name).is_some_and(|found| is_same(value, found)))
}

/// The bytes in an error's position, if the text has one line.
fn column(error: &str) -> Option<usize> {
    error.rsplit_once("line 1 column ")?.1.parse().ok()
}

#[test]
fn random_texts_are_read_and_refused_as_serde_json_does() {
    let (mut random, mut read, mut refused, mut more) = (Random(1), 0, 0, 0);
    for _ in rounds(0..30_000) {
        let whole = if random.one_in(8) { value(&mut random, 4) } else { object(&mut random, 4) };
        let text = edited(&mut random, whole);
        let asked: Vec<_> = ["a", "b", "a.b", "a.a", "ab", "", ".a", "a.a.a", "\u{e9}"]
            .into_iter()
            .filter(|_| random.one_in(2))
            .collect();
        let is_asked = |name: &str| asked.contains(&name);
        match (parse_object(text.as_bytes(), &is_asked), oracle::parse_object(&text, &is_asked)) {
            (Ok(ours), Ok(other)) => {
                assert!(are_same(&ours, &other), "{text}: {ours:?}, not {other:?}");
                read += 1;
            }
            (Err(ours), Err(other)) => {
                // Where the error lies is agreed on, give or take the bytes of one token.
                let apart = column(&ours).zip(column(&other)).map_or(0, |(ours, other)| ours.abs_diff(other));
                let is_elsewhere =
                    ["64 bits", "out of range", "a JSON object"].iter().any(|reason| ours.contains(reason));
                assert!(apart <= 12 || is_elsewhere, "{text}: {ours}, not {other}");
                refused += 1;
            }
            (ours, other) => panic!("{text}, {asked:?}: {ours:?}, not {other:?}"),
        }
        let values_max = random.below(12);
        match (parse_within(text.as_bytes(), values_max, &|_| true), oracle::parse_within(&text, values_max, &|_| true))
        {
            (Ok(None), Ok(None)) => more += 1,
            (Ok(Some(ours)), Ok(Some(other))) => assert!(is_same(&ours, &other), "{text}: {ours:?}, not {other:?}"),
            (Err(_), Err(_)) => {}
            // serde_json's float is known for a long integer when the whole text has been read.
            (Err(ours), Ok(None)) if ours.contains("64 bits") => {}
            (ours, other) => panic!("{text}: {ours:?}, not {other:?}"),
        }
    }
    assert!(read.min(refused).min(more) * 20 > read, "{read} read, {refused} refused, {more} too large");
}

#[test]
fn a_text_ends_where_its_quote_is_at_any_place_of_a_word() {
    for length in 0..40 {
        for special in ["\\n", "\u{1}", "\u{e9}", "\u{7f}", "!", "#", "["] {
            for at in 0..=length {
                let text = format!("\"{}{special}{}\"", "x".repeat(at), "y".repeat(length - at));
                let expected = serde_json::from_str::<String>(&text).ok().map(|text| Value::Text(text.into()));
                assert_eq!(parse(text.as_bytes()).ok(), expected, "{text}");
                let skipped = parse_object(format!("{{\"a\": {text}}}").as_bytes(), &|_| false);
                assert_eq!(skipped.is_ok(), expected.is_some(), "{text}");
            }
        }
    }
}

#[test]
fn a_float_is_the_nearest_to_its_text() {
    let mut random = Random(2);
    for _ in rounds(0..20_000) {
        let digits = |random: &mut Random, count: usize| -> String {
            (0..1 + random.below(count)).map(|_| random.pick(&['0', '1', '4', '5', '9'])).collect()
        };
        let exponent = random.below(640);
        let text = format!("1{}.{}e{}", digits(&mut random, 18), digits(&mut random, 18), exponent as i64 - 330);
        let nearest: f64 = text.parse().expect("a number");
        let expected = nearest.is_finite().then_some(Value::Float(nearest));
        assert_eq!(parse(text.as_bytes()).ok(), expected, "{text}");
    }
}

#[test]
fn only_an_integer_that_is_asked_for_has_to_fit() {
    let long = "123456789012345678901234567890";
    let read = |text: &str| parse_object(text.as_bytes(), &|name| name == "a");
    assert_eq!(
        read(&format!(r#"{{"b": {long}, "a": 1e30}}"#)),
        Ok([("a".into(), Value::Float(1e30))].into_iter().collect())
    );
    let refusal = read(&format!("{{\n \"a\": {long}}}")).expect_err("too long");
    assert_eq!(refusal, format!("{long} is beyond a signed integer of 64 bits at line 2 column 7"));
}

#[test]
fn json_becomes_values() {
    let expected: Properties = [
        ("a".into(), Value::Int(-1)),
        ("b".into(), Value::Float(1e30)),
        ("c".into(), Value::List(vec![Value::Null, Value::Bool(true), Value::Text("\"12345678901234567890".into())])),
        ("d".into(), Value::Map([("e".into(), Value::Int(i64::MAX))].into_iter().collect())),
    ]
    .into_iter()
    .collect();
    let text =
        r#" {"a": -1, "b": 1e30, "c": [null, true, "\"12345678901234567890"], "d": {"e": 9223372036854775807}} "#;
    assert_eq!(parse(text.as_bytes()), Ok(Value::Map(expected)));
}

#[test]
fn a_text_has_at_most_so_many_values() {
    let text = br#"{"a": [1, 2, {"b": 3}], "c": 4}"#;
    assert_eq!(parse_within(text, 6, &|_| true), Ok(Some(parse(text).expect("JSON"))));
    assert_eq!(parse_within(text, 5, &|_| true), Ok(None));
    assert!(parse_within(b"{\"a\": ", 5, &|_| true).is_err());
}

#[test]
fn what_is_no_json_or_beyond_64_bits_is_refused() {
    let refusal = |text: &str| parse(text.as_bytes()).expect_err(text);
    assert!(refusal(r#"{"a": 1"#).contains("EOF"));
    assert!(refusal("{} x").contains("trailing"));
    assert!(refusal(r#"{"a": 9223372036854775808}"#).contains("64 bits"));
    assert!(refusal(r#"{"a": [1e30, 123456789012345678901234567890]}"#).contains("64 bits"));
    assert!(refusal(r#"{"a": -123456789012345678901234567890, "b": 1}"#).contains("64 bits"));
    assert!(refusal(&("[".repeat(101) + &"]".repeat(101))).contains("nesting"));
    assert!(refusal(&"[".repeat(1_000_000)).contains("nesting"));
    assert_eq!(parse(b"{\xff"), Err("expected JSON text in UTF-8 (at byte 1)".to_owned()));
}

#[test]
fn of_an_object_only_the_values_that_are_asked_for_are_read() {
    let deep = "[".repeat(101) + &"]".repeat(101);
    let text = format!(r#"{{"b": {deep}, "c": 9223372036854775808, "a": 1, "a": 2}}"#);
    let read = |text: &str| parse_object(text.as_bytes(), &|name| name == "a");
    assert_eq!(read(&text), Ok([("a".into(), Value::Int(2))].into_iter().collect()));
    assert!(read(r#"{"a": 9223372036854775808}"#).expect_err("too long").contains("64 bits"));
    assert!(read(r#"{"b": [1, }"#).expect_err("no JSON").contains("line 1 column 11"));
    assert!(read("[1]").expect_err("no object").contains("a JSON object"));
    assert!(read(r#"{"a": 1} x"#).expect_err("more").contains("trailing"));
}

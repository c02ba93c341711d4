//! Reads JSON text into values of messages.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::message::{NESTING_MAX, Properties, Value};

/// Floats from this size on may have been integers in the text.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Parses one JSON text. Linear in its length.
///
/// # Errors
/// The input is not JSON, is not UTF-8, nests too deep, or has an integer beyond 64 bits; with the position.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let parsed = parse_within(bytes, usize::MAX)?;
    parsed.ok_or_else(|| "expected fewer values".to_owned())
}

/// Parses one JSON text of at most `values_max` values; None when it has more. Linear in its length.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_within(bytes: &[u8], values_max: usize) -> Result<Option<Value>, String> {
    let text = utf8(bytes)?;
    let reading = JsonReading::of(&|_| true, values_max);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = JsonValue { depth: 0, reading: &reading }.deserialize(&mut deserializer);
    if reading.left.get().is_none() {
        return Ok(None);
    }
    let value = value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| error.to_string())?;
    reading.check_integers(text)?;
    Ok(Some(value))
}

/// Parses one JSON object, and of its values those whose name `is_asked`; the others only have to be JSON. What stands in an
/// object within it is named with dots, and what stands in a list as the list. Linear in its length.
///
/// # Errors
/// Those of [`parse`], and a value that is not an object.
pub fn parse_object(bytes: &[u8], is_asked: &dyn Fn(&str) -> bool) -> Result<Properties, String> {
    let text = utf8(bytes)?;
    let reading = JsonReading::of(is_asked, usize::MAX);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = deserializer.deserialize_map(RootObject(&reading));
    let object = object.and_then(|object| deserializer.end().map(|()| object)).map_err(|error| error.to_string())?;
    reading.check_integers(text)?;
    Ok(object)
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("expected JSON text in UTF-8 (at byte {})", error.valid_up_to()))
}

/// The state of reading one text.
struct JsonReading<'a> {
    is_asked: &'a dyn Fn(&str) -> bool,
    /// The names of the objects around the value that is read next, with dots.
    path: RefCell<String>,
    /// Whether a float was so large that it may have been an integer.
    is_huge: Cell<bool>,
    /// The number of values that may still come; None when there were too many.
    left: Cell<Option<usize>>,
}

impl<'a> JsonReading<'a> {
    fn of(is_asked: &'a dyn Fn(&str) -> bool, values_max: usize) -> Self {
        Self { is_asked, path: RefCell::default(), is_huge: Cell::new(false), left: Cell::new(Some(values_max)) }
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        self.left.set(self.left.get().and_then(|left| left.checked_sub(1)));
        if self.left.get().is_some() { Ok(()) } else { Err(E::custom("expected fewer values")) }
    }

    fn check_integers(&self, text: &str) -> Result<(), String> {
        match self.is_huge.get().then(|| long_integer(text)).flatten() {
            Some(integer) => Err(format!("{integer} is beyond a signed integer of 64 bits")),
            None => Ok(()),
        }
    }

    /// The members of an object whose values are `values`; what nobody asks for is skipped.
    fn members<'de, A: MapAccess<'de>>(&self, mut members: A, values: JsonValue<'_>) -> Result<Properties, A::Error> {
        let mut properties = Properties::default();
        let outer = self.path.borrow().len();
        while let Some(name) = members.next_key_seed(AskedName(self))? {
            if let Some(name) = name {
                properties.insert(name, members.next_value_seed(values)?);
                self.path.borrow_mut().truncate(outer);
                self.count()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(properties)
    }
}

/// Reads a name of an object: None where nobody asks for it, else it becomes the last of the path.
struct AskedName<'a>(&'a JsonReading<'a>);

impl<'de> DeserializeSeed<'de> for AskedName<'_> {
    type Value = Option<Box<str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for AskedName<'_> {
    type Value = Option<Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let mut path = self.0.path.borrow_mut();
        let outer = path.len();
        if outer > 0 {
            path.push('.');
        }
        path.push_str(name);
        if (self.0.is_asked)(&path) {
            return Ok(Some(name.into()));
        }
        path.truncate(outer);
        Ok(None)
    }
}

/// Reads the object that is the whole text.
struct RootObject<'a>(&'a JsonReading<'a>);

impl<'de> Visitor<'de> for RootObject<'_> {
    type Value = Properties;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Properties, A::Error> {
        self.0.members(members, JsonValue { depth: 0, reading: self.0 })
    }
}

/// The first integer of a valid JSON text that does not fit, which the parser delivers as a float.
fn long_integer(text: &str) -> Option<&str> {
    let mut outside_strings = true;
    let mut is_escaped = false;
    let mut boundary = |character: char| {
        match character {
            '"' if !is_escaped => outside_strings = !outside_strings,
            _ => {}
        }
        is_escaped = character == '\\' && !is_escaped;
        !(outside_strings && matches!(character, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
    };
    text.split(&mut boundary)
        .filter(|token| token.ends_with(|last: char| last.is_ascii_digit()) && !token.contains(['.', 'e', 'E']))
        .find(|token| token.parse::<i64>().is_err())
}

/// Parses a value at `depth`.
#[derive(Clone, Copy)]
struct JsonValue<'a> {
    depth: usize,
    reading: &'a JsonReading<'a>,
}

impl JsonValue<'_> {
    fn below<E: Error>(self) -> Result<Self, E> {
        if self.depth == NESTING_MAX {
            return Err(E::custom(format!("expected nesting of at most {NESTING_MAX}")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for JsonValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        let beyond = |_| E::custom(format!("{value} is beyond a signed integer of 64 bits"));
        i64::try_from(value).map(Value::Int).map_err(beyond)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        let reading = self.reading;
        reading.is_huge.set(reading.is_huge.get() || value.abs() >= TWO_63);
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(below)? {
            values.push(value);
            self.reading.count()?;
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        self.reading.members(members, self.below()?).map(Value::Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_becomes_values() {
        let expected: Properties = [
            ("a".into(), Value::Int(-1)),
            ("b".into(), Value::Float(1e30)),
            (
                "c".into(),
                Value::List(vec![Value::Null, Value::Bool(true), Value::Text("\"12345678901234567890".into())]),
            ),
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
        assert_eq!(parse_within(text, 6), Ok(Some(parse(text).expect("JSON"))));
        assert_eq!(parse_within(text, 5), Ok(None));
        assert!(parse_within(b"{\"a\": ", 5).is_err());
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
}

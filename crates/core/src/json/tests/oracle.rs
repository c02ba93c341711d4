//! A reader of JSON made of serde_json, which the tests compare with the project's own.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::message::{NESTING_MAX, Properties, Value};

/// Floats from this size on may have been integers in the text.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// As [`super::parse_within`], with errors in other words.
pub fn parse_within(text: &str, values_max: usize, is_asked: &dyn Fn(&str) -> bool) -> Result<Option<Value>, String> {
    let reading = JsonReading::of(is_asked, values_max);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = JsonValue { depth: 0, reading: &reading }.deserialize(&mut deserializer);
    if reading.left.get().is_none() {
        return Ok(None);
    }
    let value = value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| error.to_string())?;
    reading.check_integers(text)?;
    Ok(Some(value))
}

/// As [`super::parse_object`], with errors in other words.
pub fn parse_object(text: &str, is_asked: &dyn Fn(&str) -> bool) -> Result<Properties, String> {
    let reading = JsonReading::of(is_asked, usize::MAX);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let object = deserializer.deserialize_map(RootObject(&reading));
    let object = object.and_then(|object| deserializer.end().map(|()| object)).map_err(|error| error.to_string())?;
    reading.check_integers(text)?;
    Ok(object)
}

/// The state of reading one text.
struct JsonReading<'a> {
    is_asked: &'a dyn Fn(&str) -> bool,
    /// The names of the objects around the value that is read next.
    path: RefCell<Vec<String>>,
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
        while let Some(name) = members.next_key_seed(AskedName(self))? {
            if let Some(name) = name {
                properties.insert(name, members.next_value_seed(values)?);
                self.path.borrow_mut().pop();
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
        path.push(name.to_owned());
        if (self.0.is_asked)(&path.join(".")) {
            return Ok(Some(name.into()));
        }
        path.pop();
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

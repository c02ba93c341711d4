//! Reads JSON text into values of messages, in one pass over its bytes that skips what nobody asks for.

mod cursor;
mod error;
mod open_brackets;
mod plain;
mod reader;
#[cfg(test)]
mod tests;
mod text_end;

use crate::message::{Properties, Value};

use error::JsonError;
use reader::JsonReader;

/// Parses one JSON text. Linear in its length.
///
/// # Errors
/// The input is not JSON, is not UTF-8, nests too deep, or has an integer beyond 64 bits; with the position.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let parsed = parse_within(bytes, usize::MAX, &|_| true)?;
    parsed.ok_or_else(|| "expected fewer values".to_owned())
}

/// Parses one JSON text of at most `values_max` values, of which those count whose name `is_asked`, as for [`parse_object`];
/// None when it has more. Linear in its length.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_within(bytes: &[u8], values_max: usize, is_asked: &dyn Fn(&str) -> bool) -> Result<Option<Value>, String> {
    let text = utf8(bytes)?;
    match JsonReader::new(text, values_max, is_asked).read_value() {
        Ok(value) => Ok(Some(value)),
        Err(JsonError::TooMany) => Ok(None),
        Err(error) => Err(error.describe(text)),
    }
}

/// Parses one JSON object, and of its values those whose name `is_asked`; the others only have to be JSON. What stands in an
/// object within it is named with dots, and what stands in a list as the list. Linear in its length.
///
/// # Errors
/// Those of [`parse`], and a value that is not an object.
pub fn parse_object(bytes: &[u8], is_asked: &dyn Fn(&str) -> bool) -> Result<Properties, String> {
    let text = utf8(bytes)?;
    JsonReader::new(text, usize::MAX, is_asked).read_object().map_err(|error| error.describe(text))
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("expected JSON text in UTF-8 (at byte {})", error.valid_up_to()))
}

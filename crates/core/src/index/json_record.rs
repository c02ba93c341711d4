//! Reads JSON objects as records, without regard to what no query asks for.

use super::Engine;
use crate::error::EngineError;
use crate::json;
use crate::message::{Properties, Value};

impl Engine {
    /// The properties of a record, one JSON object; the last of equal keys counts. Of what no query asks for only the form
    /// is checked.
    ///
    /// Cost: linear in the text; in the queries, too, if the text is JSON and something in it cannot be a property.
    ///
    /// # Errors
    /// The text is no JSON object, with the position; or what a query asks for cannot be a property.
    pub fn read_record(&self, text: &[u8]) -> Result<Properties, EngineError> {
        let version = self.current();
        if let Some(asked) = version.asked_if_known() {
            return json::parse_object(text, &|name| asked.has(name)).map_err(EngineError::Row);
        }
        let reason = match json::parse(text) {
            Ok(Value::Map(properties)) => return Ok(properties),
            Ok(_) => "expected a JSON object".to_owned(),
            Err(reason) => reason,
        };
        json::parse_object(text, &|_| false).map_err(|_| EngineError::Row(reason))?;
        let asked = version.asked()?;
        json::parse_object(text, &|name| asked.has(name)).map_err(EngineError::Row)
    }
}

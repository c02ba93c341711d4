//! Reads JSON objects as records, without regard to what no query asks for.

use hashbrown::HashSet;

use super::Engine;
use crate::error::EngineError;
use crate::json;
use crate::message::{Properties, Value};
use crate::query::Query;
use crate::query::expr::Reference;

impl Engine {
    /// The properties of a record, one JSON object; the last of equal keys counts. Of what no query asks for only the form
    /// is checked.
    ///
    /// Cost: linear in the text; in the queries, too, if the text is JSON and something in it cannot be a property.
    ///
    /// # Errors
    /// The text is no JSON object, with the position; or what a query asks for cannot be a property.
    pub fn read_record(&self, text: &[u8]) -> Result<Properties, EngineError> {
        let reason = match json::parse(text) {
            Ok(Value::Map(properties)) => return Ok(properties),
            Ok(_) => "expected a JSON object".to_owned(),
            Err(reason) => reason,
        };
        json::parse_object(text, &|_| false).map_err(|_| EngineError::Row(reason))?;
        let subscriptions = self.subscriptions()?;
        let mut asked: HashSet<String> = ["topic", "body"].map(String::from).into();
        subscriptions.iter().for_each(|(_, query)| ask(query, &mut asked));
        json::parse_object(text, &|name| asked.contains(&name.to_lowercase())).map_err(EngineError::Row)
    }
}

/// Add the names of the properties that `query` asks for, and their beginnings up to a dot, without regard to case.
fn ask(query: &Query, asked: &mut HashSet<String>) {
    for predicate in query.expr().predicates() {
        for reference in predicate.references() {
            if let Reference::Property(name) = reference {
                let name = name.text.to_lowercase();
                asked.extend(name.match_indices('.').map(|(dot, _)| name[..dot].to_owned()));
                asked.insert(name);
            }
        }
    }
}

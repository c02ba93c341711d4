//! Queries in the arguments of bindings and consumers.
//!
//! The arguments are `x-query`, `x-query-language`, `x-query-body` and `x-query-key`.

use std::sync::Arc;

use crate::amqp::{AmqpError, RawTable};
use crate::error::QueryError;
use crate::query::expr::{Expr, Predicate, Reference};
use crate::query::selector::{self, SelectorDialect};
use crate::query::{Query, boolean};
use crate::text::Phrase;

use super::super::{View, errors};
use super::names::{self, BodyMode, Needs};

const QUERY: &str = "x-query";
const LANGUAGE: &str = "x-query-language";
const BODY: &str = "x-query-body";
const KEY: &str = "x-query-key";

/// All arguments about queries: they are not headers of a headers exchange.
pub(in crate::broker::topology) const ARGUMENTS: [&str; 4] = [QUERY, LANGUAGE, BODY, KEY];

/// A query of the store, as it was when it was bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredQuery {
    /// Its language, as in `x-query-language`.
    pub language: Box<str>,
    /// Its text, in that language.
    pub text: Box<str>,
}

/// A function that looks up a query of the store by its key, or returns the reason why there is none.
pub type FindStored<'a> = &'a mut dyn FnMut(&str) -> Result<StoredQuery, String>;

/// The key of the store that `arguments` name in `x-query-key`.
///
/// # Errors
/// 406: it is not text, or stands beside an `x-query`.
pub fn stored_key<'a>(arguments: RawTable<'a>) -> Result<Option<&'a str>, AmqpError> {
    let key = text_argument(arguments, KEY)?;
    if key.is_some() && arguments.get(QUERY).is_some() {
        return Err(errors::precondition("x-query and x-query-key cannot both be given"));
    }
    Ok(key)
}

/// Check the arguments that a client sends: each that begins with `x-query` is known, and has the query that it is about.
/// With a misspelt argument a binding would be made that asks for something else.
///
/// # Errors
/// 406, with the name.
pub fn check_query_arguments(arguments: RawTable<'_>) -> Result<(), AmqpError> {
    let has = |name| arguments.get(name).is_some();
    for (name, _) in arguments.iter().map_while(Result::ok) {
        let reason = match name {
            LANGUAGE if !has(QUERY) => format!("{LANGUAGE}: expected {QUERY} beside it"),
            BODY if !has(QUERY) && !has(KEY) => format!("{BODY}: expected {QUERY} or {KEY} beside it"),
            name if name.starts_with(QUERY) && !ARGUMENTS.contains(&name) => {
                format!("unknown argument '{name}': expected {QUERY}, {LANGUAGE}, {BODY} or {KEY}")
            }
            _ => continue,
        };
        return Err(errors::precondition(&reason));
    }
    Ok(())
}

/// The query of `arguments`, or `stored`, which they name by its key; None when they have none. References to the body are
/// resolved, because other queries may match the same message with another `x-query-body`.
///
/// # Errors
/// 406: a query that cannot be parsed, with the position on one line; an unknown language or mode; an argument that is not
/// text.
pub(in crate::broker::topology) fn parse(
    arguments: RawTable<'_>,
    stored: Option<&StoredQuery>,
) -> Result<Option<(Expr, Needs)>, AmqpError> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let given = text_argument(arguments, QUERY)?;
    let language = text_argument(arguments, LANGUAGE)?;
    let mode = match text_argument(arguments, BODY)? {
        None => BodyMode::None,
        Some(name) => BodyMode::from_name(name)
            .ok_or_else(|| errors::precondition(&format!("{BODY} '{name}': expected none, text or json")))?,
    };
    let (text, language) = match (given, stored) {
        (Some(text), _) => (text, language.unwrap_or("selector")),
        (None, Some(stored)) => (&*stored.text, &*stored.language),
        (None, None) => return Ok(None),
    };
    let query = read(text, language)?;
    Ok(Some(names::resolve(query.expr().clone(), mode)))
}

fn text_argument<'a>(arguments: RawTable<'a>, name: &str) -> Result<Option<&'a str>, AmqpError> {
    let text = |value: crate::amqp::RawValue<'a>| {
        value.as_str().ok_or_else(|| errors::precondition(&format!("{name}: expected text in UTF-8")))
    };
    arguments.get(name).map(text).transpose()
}

fn read(text: &str, language: &str) -> Result<Query, AmqpError> {
    let query = match language {
        "selector" => selector::parse(text, SelectorDialect::Jms),
        "cbm" => selector::parse(text, SelectorDialect::Cbm),
        "boolean" => boolean::parse(text, &[] as &[&str]),
        "text" => Phrase::new(text)
            .ok_or_else(|| QueryError::at_byte(text, 0, "a word"))
            .and_then(|phrase| Query::new(Predicate::Contains(Reference::Body, phrase).into())),
        other => {
            let expected = "expected selector, cbm, boolean or text";
            return Err(errors::precondition(&format!("{LANGUAGE} '{other}': {expected}")));
        }
    };
    query.map_err(|error| errors::precondition(&error.summary()))
}

/// A query that is evaluated for single messages: that of a consumer of a stream.
#[derive(Clone, Debug)]
pub struct ConsumerFilter {
    query: Arc<Query>,
    needs: Needs,
}

impl ConsumerFilter {
    /// The query in `arguments`; None when they have none.
    ///
    /// # Errors
    /// 406: it cannot be parsed, or its key is unknown to `find`.
    pub fn parse(arguments: RawTable<'_>, find: FindStored<'_>) -> Result<Option<Self>, AmqpError> {
        let stored = find_stored(arguments, find)?;
        let Some((expr, needs)) = parse(arguments, stored.as_ref())? else { return Ok(None) };
        let query = Query::new(expr).map_err(|error| errors::precondition(&error.summary()))?;
        Ok(Some(Self { query: Arc::new(query), needs }))
    }

    /// The query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Whether the query is true of the message that `view` was begun with.
    pub fn is_match(&self, routing_key: &str, view: &mut View<'_>) -> bool {
        view.with(routing_key, self.needs, |message| self.query.is_true(message, None))
    }
}

/// The query of the store that `arguments` name, if they name one.
pub(in crate::broker::topology) fn find_stored(
    arguments: RawTable<'_>,
    find: FindStored<'_>,
) -> Result<Option<StoredQuery>, AmqpError> {
    let Some(key) = stored_key(arguments)? else { return Ok(None) };
    find(key).map(Some).map_err(|reason| errors::precondition(&format!("{KEY} '{key}': {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::Table;
    use crate::testing::fewer;

    fn refusal(fields: &[(&str, &str)]) -> String {
        let bytes = fields.iter().copied().collect::<Table>().to_bytes();
        parse(RawTable::new(&bytes), None).expect_err("refused").text
    }

    #[test]
    fn a_bad_query_is_told_on_one_line() {
        assert_eq!(
            refusal(&[(QUERY, "region = 'EU' AND price >> 3")]),
            "PRECONDITION_FAILED - position 25: expected a number near 'price >> 3' (did you mean `>`?)"
        );
        assert!(refusal(&[(QUERY, "a ="), (LANGUAGE, "boolean")]).contains("position 3: expected"));
        assert!(refusal(&[(QUERY, &"(".repeat(fewer(70_000)))]).len() <= 255);
        assert!(refusal(&[(QUERY, "a"), (LANGUAGE, "sql")]).ends_with("expected selector, cbm, boolean or text"));
        assert!(refusal(&[(QUERY, "a"), (BODY, "xml")]).ends_with("expected none, text or json"));
    }

    #[test]
    fn an_argument_is_known_and_has_its_query() {
        let check = |fields: &[(&str, &str)]| {
            let bytes = fields.iter().copied().collect::<Table>().to_bytes();
            check_query_arguments(RawTable::new(&bytes)).map_err(|error| error.text)
        };
        for good in [&[(QUERY, "a"), (LANGUAGE, "cbm"), (BODY, "json")][..], &[(KEY, "k"), (BODY, "text")], &[]] {
            assert_eq!(check(good), Ok(()));
        }
        for (bad, text) in [
            (&[(QUERY, "a"), ("x-query-lang", "cbm")][..], "unknown argument 'x-query-lang': expected x-query, "),
            (&[("x-query_body", "json"), (QUERY, "a")], "unknown argument 'x-query_body'"),
            (&[(LANGUAGE, "cbm")], "x-query-language: expected x-query beside it"),
            (&[(KEY, "k"), (LANGUAGE, "cbm")], "x-query-language: expected x-query beside it"),
            (&[(BODY, "json"), ("other", "x")], "x-query-body: expected x-query or x-query-key beside it"),
        ] {
            let told = check(bad).expect_err("refused");
            assert!(told.starts_with(&format!("PRECONDITION_FAILED - {text}")), "{told}");
        }
    }
}

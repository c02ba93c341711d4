//! Queries in the arguments of bindings and consumers.
//!
//! The arguments are `x-query`, `x-query-language`, `x-query-body` and `x-query-key`. `x-query` may be a list of queries, of
//! which one has to be true: they are one query, whose price is the sum of theirs, and a message comes once.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::amqp::{AmqpError, RawTable, RawValue};
use crate::hierarchy::{self, Hierarchies};
use crate::query::expr::{Expr, Predicate, Reference};
use crate::query::{COMPILED_BYTES_MAX, Query, named};
use crate::spelling;

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

/// Check the arguments that a client sends: each that is called nearly like one about queries is one, and has the query
/// that it is about. With a misspelt argument a binding would be made that asks for something else.
///
/// # Errors
/// 406, with the name.
pub fn check_query_arguments(arguments: RawTable<'_>) -> Result<(), AmqpError> {
    let has = |name| arguments.get(name).is_some();
    for (name, _) in arguments.iter().map_while(Result::ok) {
        let reason = match name {
            LANGUAGE if !has(QUERY) => format!("{LANGUAGE}: expected {QUERY} beside it"),
            BODY if !has(QUERY) && !has(KEY) => format!("{BODY}: expected {QUERY} or {KEY} beside it"),
            name if ARGUMENTS.contains(&name) => continue,
            name => match spelling::nearest(name, &ARGUMENTS) {
                Some(meant) => format!("unknown argument '{name}': did you mean {meant}?"),
                None if name.starts_with(QUERY) => {
                    format!("unknown argument '{name}': expected {QUERY}, {LANGUAGE}, {BODY} or {KEY}")
                }
                None => continue,
            },
        };
        return Err(errors::precondition(&reason));
    }
    Ok(())
}

/// The query of a binding or a consumer.
#[derive(Debug)]
pub(in crate::broker::topology) struct BoundQuery {
    /// Its tree, in the names that an AMQP message has.
    pub expr: Expr,
    /// The parts of a message that it refers to.
    pub needs: Needs,
    /// The warnings about probable mistakes in it, one per line.
    pub warnings: Vec<String>,
}

/// The query of `arguments`, or `stored`, which they name by its key; None when they have none. References to the body are
/// resolved, because other queries may match the same message with another `x-query-body`.
///
/// In `cbm`, whose messages are fields, `Body` is the header of that name where bodies are not seen.
///
/// `hierarchies` are those that `UNDER` can follow; None for a query that was bound before a restart: it stays, whatever is
/// missing now. Compiling ends where the patterns of the query take more than `bytes_max`.
///
/// # Errors
/// 406: a query that cannot be parsed, with the position on one line; an unknown language or mode; an argument that is not
/// text; a query that could never be true, because it reads what bindings do not see or has no hierarchy to follow.
pub(in crate::broker::topology) fn parse(
    arguments: RawTable<'_>,
    stored: Option<&StoredQuery>,
    hierarchies: Option<&Hierarchies>,
    bytes_max: usize,
) -> Result<Option<BoundQuery>, AmqpError> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let given = query_texts(arguments)?;
    let language = text_argument(arguments, LANGUAGE)?;
    let mode = text_argument(arguments, BODY)?.map(body_mode).transpose()?;
    let (texts, language) = match (given, stored) {
        (Some(texts), _) => (texts, language.unwrap_or("selector")),
        (None, Some(stored)) => (QueryTexts::from_slice(&[&stored.text]), &*stored.language),
        (None, None) => return Ok(None),
    };
    let (mut expr, mut warnings) = read_all(&texts, language, bytes_max)?;
    if language == "cbm" && mode.unwrap_or_default() == BodyMode::None {
        let (has_header, as_headers) = names::body_as_header(expr);
        expr = as_headers;
        if has_header && mode.is_none() {
            warnings.push(format!("without {BODY} Body is the header of that name, not the body of the message"));
        }
    }
    if let Some(hierarchies) = hierarchies {
        check_body(&expr, mode)?;
        check_hierarchies(&expr, hierarchies)?;
    }
    let (expr, needs) = names::resolve(expr, mode.unwrap_or_default());
    Ok(Some(BoundQuery { expr, needs, warnings }))
}

fn body_mode(name: &str) -> Result<BodyMode, AmqpError> {
    BodyMode::from_name(name)
        .ok_or_else(|| errors::precondition(&format!("{BODY} '{name}': expected none, text or json")))
}

/// Check that a query sees the body that it reads. A header may be called `body.x`, so `none` is taken at its word.
fn check_body(expr: &Expr, mode: Option<BodyMode>) -> Result<(), AmqpError> {
    let is_blind = match mode {
        None => names::reads_body(expr),
        Some(BodyMode::None) => names::resolve(expr.clone(), BodyMode::Text).1.text,
        Some(BodyMode::Text | BodyMode::Json) => false,
    };
    if is_blind {
        let seen = mode.map_or("without that argument", |_| "with none");
        return Err(errors::precondition(&format!(
            "the query reads the body: expected {BODY} text or json; {seen} it sees none"
        )));
    }
    Ok(())
}

fn check_hierarchies(expr: &Expr, hierarchies: &Hierarchies) -> Result<(), AmqpError> {
    for predicate in expr.predicates() {
        if let Predicate::Under(Reference::Property(name), _) = predicate
            && hierarchy::of_attribute(hierarchies, name).is_none()
        {
            let reason = format!(
                "UNDER: there is no hierarchy for '{0}': set it in the broker's store (`tamis hierarchy set {0} FILE`)",
                name.text
            );
            return Err(errors::precondition(&reason));
        }
    }
    Ok(())
}

fn text_argument<'a>(arguments: RawTable<'a>, name: &str) -> Result<Option<&'a str>, AmqpError> {
    arguments.get(name).map(|value| text_of(value, name)).transpose()
}

fn text_of<'a>(value: RawValue<'a>, name: &str) -> Result<&'a str, AmqpError> {
    value.as_str().ok_or_else(|| errors::precondition(&format!("{name}: expected text in UTF-8")))
}

/// The texts of one binding or consumer: nearly always one.
type QueryTexts<'a> = SmallVec<[&'a str; 1]>;

/// The texts in `x-query`: one, or a list, of which one has to be true.
fn query_texts(arguments: RawTable<'_>) -> Result<Option<QueryTexts<'_>>, AmqpError> {
    let Some(value) = arguments.get(QUERY) else { return Ok(None) };
    let RawValue::Array(list) = value else { return Ok(Some(QueryTexts::from_slice(&[text_of(value, QUERY)?]))) };
    let texts: QueryTexts<'_> =
        list.iter().map_while(Result::ok).map(|value| text_of(value, QUERY)).collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err(errors::precondition(&format!("{QUERY}: expected at least one query in the list")));
    }
    Ok(Some(texts))
}

/// The tree that is true where one of these queries is, and what can hardly be meant in them. All patterns together are
/// compiled within `bytes_max`.
fn read_all(texts: &[&str], language: &str, bytes_max: usize) -> Result<(Expr, Vec<String>), AmqpError> {
    let (mut trees, mut warnings, mut bytes_left) = (Vec::with_capacity(texts.len()), Vec::new(), bytes_max);
    for (index, text) in texts.iter().enumerate() {
        let named = |summary: String| match texts.len() {
            1 => summary,
            _ => format!("query {}: {summary}", index + 1),
        };
        let query = named::compile_within(text, language, bytes_left).ok_or_else(|| unknown_language(language))?;
        let query = query.map_err(|error| errors::precondition(&named(error.summary())))?;
        bytes_left = bytes_left.saturating_sub(usize::try_from(query.price().bytes).unwrap_or(usize::MAX));
        warnings.extend(query.warnings().iter().map(|warning| named(warning.summary())));
        trees.push(query.expr().clone());
    }
    Ok((Expr::or(trees), warnings))
}

fn unknown_language(name: &str) -> AmqpError {
    let expected = named::LANGUAGES.join(", ");
    errors::precondition(&format!("{LANGUAGE} '{name}': expected one of {expected}"))
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
    pub fn parse(
        arguments: RawTable<'_>,
        find: FindStored<'_>,
        hierarchies: &Hierarchies,
    ) -> Result<Option<Self>, AmqpError> {
        let stored = find_stored(arguments, find)?;
        let Some(bound) = parse(arguments, stored.as_ref(), Some(hierarchies), COMPILED_BYTES_MAX)? else {
            return Ok(None);
        };
        let query = Query::new(bound.expr).map_err(|error| errors::precondition(&error.summary()))?;
        Ok(Some(Self { query: Arc::new(query), needs: bound.needs }))
    }

    /// The query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The query, for an engine.
    pub(in crate::broker) fn shared_query(&self) -> &Arc<Query> {
        &self.query
    }

    /// The parts of a message that the query refers to.
    pub(in crate::broker) fn needs(&self) -> Needs {
        self.needs
    }

    /// Whether the query is true of the message that `view` was begun with.
    pub fn is_match(&self, routing_key: &str, view: &mut View<'_>, hierarchies: &Hierarchies) -> bool {
        view.with(routing_key, self.needs, None, |message| self.query.is_true(message, Some(hierarchies)))
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
    use std::collections::HashMap;

    use crate::amqp::Table;
    use crate::hierarchy::Hierarchy;
    use crate::testing::fewer;

    fn refusal(fields: &[(&str, &str)]) -> String {
        let bytes = fields.iter().copied().collect::<Table>().to_bytes();
        parse(RawTable::new(&bytes), None, Some(&Hierarchies::new()), COMPILED_BYTES_MAX)
            .expect_err("refused")
            .text
            .clone()
    }

    #[test]
    fn what_could_never_be_true_is_refused_but_recovered() {
        let bytes = |fields: &[(&str, &str)]| fields.iter().copied().collect::<Table>().to_bytes();
        let tree = HashMap::from([("grp".to_owned(), Hierarchy::default())]);
        for (fields, expected) in [
            (&[(QUERY, "CONTAINS(body, 'x')")][..], Some("without that argument")),
            (&[(QUERY, "body.n = 1 OR a = 1")], Some("without that argument")),
            (&[(QUERY, "body LIKE 'x%'"), (BODY, "none")], Some("with none it sees none")),
            (&[(QUERY, "body.n = 1"), (BODY, "none")], None),
            (&[(QUERY, "Body LIKE %x%"), (LANGUAGE, "cbm")], None),
            (&[(QUERY, "Body LIKE %x%"), (LANGUAGE, "cbm"), (BODY, "none")], None),
            (&[(QUERY, "Body.n = 1"), (LANGUAGE, "cbm")], Some("reads the body")),
            (&[(QUERY, "x"), (LANGUAGE, "text"), (BODY, "text")], None),
            (&[(QUERY, "grp UNDER 'a'")], None),
            (&[(QUERY, "other UNDER 'a'")], Some("no hierarchy for 'other'")),
        ] {
            let bytes = bytes(fields);
            let arguments = RawTable::new(&bytes);
            match (parse(arguments, None, Some(&tree), COMPILED_BYTES_MAX), expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => assert!(error.text.contains(expected), "{}", error.text),
                (other, _) => panic!("{fields:?}: {other:?}"),
            }
            assert!(parse(arguments, None, None, COMPILED_BYTES_MAX).is_ok(), "what was bound before a restart stays");
        }
    }

    #[test]
    fn what_can_hardly_be_meant_is_told_a_line_each() {
        for (fields, expected) in [
            (&[(QUERY, "price > '100' AND a = 1")][..], &["position 8: '100' in quotes is a text"][..]),
            (&[(QUERY, "Body LIKE %x%"), (LANGUAGE, "cbm")], &["without x-query-body Body is the header"]),
            (&[(QUERY, "Body LIKE %x%"), (LANGUAGE, "cbm"), (BODY, "none")], &[]),
            (&[(QUERY, "Body LIKE %x%"), (LANGUAGE, "cbm"), (BODY, "text")], &[]),
            (&[(QUERY, "price > 100")], &[]),
        ] {
            let bytes = fields.iter().copied().collect::<Table>().to_bytes();
            let told =
                parse(RawTable::new(&bytes), None, None, COMPILED_BYTES_MAX).expect("read").expect("a query").warnings;
            assert_eq!(told.len(), expected.len(), "{fields:?}: {told:?}");
            assert!(told.iter().zip(expected).all(|(told, begin)| told.starts_with(begin)), "{told:?}");
        }
    }

    #[test]
    fn a_bad_query_is_told_on_one_line() {
        assert_eq!(
            refusal(&[(QUERY, "region = 'EU' AND price >> 3")]),
            "PRECONDITION_FAILED - position 25: expected a number near 'price >> 3' (did you mean `>`?)"
        );
        assert!(refusal(&[(QUERY, "a ="), (LANGUAGE, "boolean")]).contains("position 3: expected"));
        assert!(refusal(&[(QUERY, &"(".repeat(fewer(70_000)))]).len() <= 255);
        assert!(refusal(&[(QUERY, "a"), (LANGUAGE, "sql")]).ends_with("'sql': expected one of selector, cbm, boolean, topic, topic:openamq, topic:openamq-program, prefix, regex, fields, text, near"));
        assert!(refusal(&[(QUERY, "a"), (BODY, "xml")]).ends_with("expected none, text or json"));
    }

    #[test]
    fn an_argument_is_known_and_has_its_query() {
        let check = |fields: &[(&str, &str)]| {
            let bytes = fields.iter().copied().collect::<Table>().to_bytes();
            check_query_arguments(RawTable::new(&bytes)).map_err(|error| error.text.clone())
        };
        for good in [&[(QUERY, "a"), (LANGUAGE, "cbm"), (BODY, "json")][..], &[(KEY, "k"), (BODY, "text")], &[]] {
            assert_eq!(check(good), Ok(()));
        }
        for (bad, text) in [
            (&[(QUERY, "a"), ("x-query-lang", "cbm")][..], "unknown argument 'x-query-lang': expected x-query, "),
            (&[("x-query_body", "json"), (QUERY, "a")], "unknown argument 'x-query_body': did you mean x-query-body?"),
            (&[("x-queri", "a")], "unknown argument 'x-queri': did you mean x-query?"),
            (&[(LANGUAGE, "cbm")], "x-query-language: expected x-query beside it"),
            (&[(KEY, "k"), (LANGUAGE, "cbm")], "x-query-language: expected x-query beside it"),
            (&[(BODY, "json"), ("other", "x")], "x-query-body: expected x-query or x-query-key beside it"),
        ] {
            let told = check(bad).expect_err("refused");
            assert!(told.starts_with(&format!("PRECONDITION_FAILED - {text}")), "{told}");
        }
    }
}

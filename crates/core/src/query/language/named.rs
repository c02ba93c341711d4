//! The languages by their names, as files of queries, the store and the arguments of bindings give them.

use crate::error::QueryError;
use crate::query::expr::Predicate;
use crate::query::{COMPILED_BYTES_MAX, Query};
use crate::topic::{TopicDialect, TopicPattern};

use super::selector::SelectorDialect;
use super::{boolean, criteria, selector};

/// The names of all languages, the default first.
pub const LANGUAGES: [&str; 11] = [
    "selector",
    "cbm",
    "boolean",
    "topic",
    "topic:openamq",
    "topic:openamq-program",
    "prefix",
    "regex",
    "fields",
    "text",
    "near",
];

/// The prefix of the name of the Boolean language with groupings: `boolean:group, region`.
const GROUPED: &str = "boolean:";
const NO_GROUPINGS: &[&str] = &[];

/// The groupings in the name of a language; None when it is no such language.
fn groupings(language: &str) -> Option<Vec<&str>> {
    let names = language.strip_prefix(GROUPED)?.split(',').map(str::trim);
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then_some(names)
}

/// Compiles `text` in the language called `language`; None when there is no such language.
///
/// # Errors
/// The position at which parsing failed, and what was expected there.
#[must_use]
pub fn compile(text: &str, language: &str) -> Option<Result<Query, QueryError>> {
    compile_within(text, language, COMPILED_BYTES_MAX)
}

/// Compile a query whose compiled patterns take at most `bytes_max` together, in the languages that have several.
///
/// # Errors
/// Those of [`compile`].
#[must_use]
pub fn compile_within(text: &str, language: &str, bytes_max: usize) -> Option<Result<Query, QueryError>> {
    Some(match language {
        "selector" => selector::parse_within(text, SelectorDialect::Jms, bytes_max),
        "cbm" => selector::parse_within(text, SelectorDialect::Cbm, bytes_max),
        "boolean" => boolean::parse(text, NO_GROUPINGS),
        "topic" => topic(text, TopicDialect::Amqp),
        "topic:openamq" => topic(text, TopicDialect::OpenAmq),
        "topic:openamq-program" => topic(text, TopicDialect::OpenAmqProgram),
        "prefix" => criteria::prefix(text),
        "regex" => criteria::regex(text),
        "fields" => criteria::fields(text),
        "text" => criteria::contains(text).and_then(of_predicate),
        "near" => criteria::near(text),
        other => boolean::parse(text, &groupings(other)?),
    })
}

fn topic(text: &str, dialect: TopicDialect) -> Result<Query, QueryError> {
    of_predicate(Predicate::Topic(TopicPattern::new(text, dialect)))
}

pub(super) fn of_predicate(predicate: Predicate) -> Result<Query, QueryError> {
    Query::new(predicate.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_language() {
        for language in LANGUAGES {
            assert!(compile("a", language).is_some(), "{language}");
        }
        for language in ["sql", "boolean:", "boolean: ,"] {
            assert!(compile("a", language).is_none(), "{language}");
        }
    }

    #[test]
    fn each_language_reads_its_own_text() {
        for (language, text, canonical) in [
            ("selector", "a > 1", "a > 1"),
            ("cbm", "Body LIKE %garlic%", "body LIKE '%garlic%'"),
            ("boolean", "a == (X || Y)", "a IN ('X', 'Y')"),
            ("boolean:a, b c", "a == (X || Y) && b c == Z", "(a UNDER 'X' OR a UNDER 'Y') AND \"b c\" UNDER 'Z'"),
            ("topic", "a.#", "TOPIC('a.#')"),
            ("topic:openamq", "a.*", "TOPIC('a.*', 'openamq')"),
            ("topic:openamq-program", "a.*", "TOPIC('a.*', 'openamq-program')"),
            ("prefix", "forex", "PREFIX(topic, 'forex')"),
            ("prefix", "symbol: EU", "PREFIX(symbol, 'EU')"),
            ("regex", "body:^a:b", "REGEX(body, '^a:b')"),
            ("fields", "currency=USD, urgent", "currency = 'USD' AND EXISTS(urgent)"),
            ("text", "exact phrase", "CONTAINS(body, 'exact phrase')"),
            ("near", "a b 3", "NEAR(body, 'a', 'b', 3)"),
        ] {
            let query = compile(text, language).expect(language).expect(text);
            assert_eq!(query.to_string(), canonical, "{language}");
        }
    }
}

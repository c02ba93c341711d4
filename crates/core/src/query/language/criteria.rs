//! Single criteria as texts: a prefix, a regular expression, fields, words of the body, and words near each other.

use crate::error::QueryError;
use crate::message::Value;
use crate::query::expr::{Comparison, Expr, Operand, Pattern, Predicate, Reference};
use crate::query::{Query, TERMS_MAX};
use crate::text::Phrase;

use super::named::of_predicate;

/// The distance of NEAR where none is given.
pub const DISTANCE: u32 = 5;

const NEAR: &str = "two words and perhaps a distance: `daffodils rhubarb 5`";

/// A word or an exact phrase of the body.
///
/// # Errors
/// The text has no word.
pub fn contains(text: &str) -> Result<Predicate, QueryError> {
    let phrase = Phrase::new(text).ok_or_else(|| QueryError::at_byte(text, 0, "a word"))?;
    Ok(Predicate::Contains(Reference::Body, phrase))
}

/// Two words of the body whose positions differ by at most `distance`.
///
/// # Errors
/// One of the texts is not a single word, or the distance is 0.
pub fn near_words(first: &str, second: &str, distance: u32) -> Result<Predicate, QueryError> {
    if distance == 0 {
        return Err(QueryError::at_byte("0", 0, "a distance of at least 1"));
    }
    Ok(Predicate::Near(Reference::Body, one_word(first)?, one_word(second)?, distance))
}

fn one_word(text: &str) -> Result<Phrase, QueryError> {
    let phrase = Phrase::new(text).filter(|phrase| phrase.words().len() == 1);
    phrase.ok_or_else(|| QueryError::at_byte(text, 0, "one word"))
}

/// A regular expression that matches somewhere in `on`.
///
/// # Errors
/// The syntax is wrong, it has look-around or a back-reference, or it is too large.
pub fn regex_on(on: Reference, pattern: &str) -> Result<Predicate, QueryError> {
    let refused =
        |reason: String| QueryError::at_byte(pattern, 0, "a regular expression of linear time").with_hint(reason);
    Ok(Predicate::Regex(on, Pattern::new(pattern).map_err(refused)?))
}

/// `text`, or `on:text` with the part of a message that it looks at; the topic by default.
pub(super) fn prefix(text: &str) -> Result<Query, QueryError> {
    let (on, _, prefix) = on_and_pattern(text);
    of_predicate(Predicate::Prefix(on, prefix.into()))
}

/// `pattern`, or `on:pattern`; the topic by default.
pub(super) fn regex(text: &str) -> Result<Query, QueryError> {
    let (on, start, pattern) = on_and_pattern(text);
    of_predicate(regex_on(on, pattern).map_err(|error| moved(error, text, start))?)
}

/// `first second`, or `first second distance`.
pub(super) fn near(text: &str) -> Result<Query, QueryError> {
    let mut parts = words_with_starts(text);
    let (Some(first), Some(second), distance, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(QueryError::at_byte(text, text.len(), NEAR));
    };
    let number = match distance {
        None => DISTANCE,
        Some((start, digits)) => match digits.parse() {
            Ok(number) if number > 0 => number,
            _ => return Err(QueryError::at_byte(text, start, "a distance of at least 1, a number of 32 bits")),
        },
    };
    let word = |(start, word)| one_word(word).map_err(|error| moved(error, text, start));
    of_predicate(Predicate::Near(Reference::Body, word(first)?, word(second)?, number))
}

/// `name = value, name`, each a field with its value or present at all; `any:` in front asks for one of them only.
pub(super) fn fields(text: &str) -> Result<Query, QueryError> {
    let (all, list) = match text.split_once(':') {
        Some((require, list)) if require.trim() == "any" => (false, list),
        _ => (true, text),
    };
    let mut start = text.len() - list.len();
    let mut criteria: Vec<Expr> = Vec::new();
    let mut names = Vec::new();
    for part in list.split(',').take(TERMS_MAX + 1) {
        let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
        let name = name.trim();
        if name.is_empty() {
            return Err(QueryError::at_byte(text, start, "a field: `name` or `name=value`"));
        }
        if names.contains(&name) {
            return Err(QueryError::at_byte(
                text,
                start_in(text, name),
                format!("each field once, and '{name}' stands before"),
            ));
        }
        let value = match value.map(|value| (start_in(text, value.trim()), field_value(value.trim()))) {
            None => None,
            Some((_, Some(value))) => Some(value),
            Some((byte, None)) => return Err(QueryError::at_byte(text, byte, "an integer of 64 bits")),
        };
        names.push(name);
        criteria.push(field(name, value).into());
        start += part.len() + 1;
    }
    Query::fields(criteria, all)
}

/// A field that has a value, or that is present.
pub fn field(name: &str, value: Option<Value>) -> Predicate {
    let field = Reference::property(name);
    match value {
        None => Predicate::Exists(field),
        Some(value) => Predicate::Compare(Operand::Reference(field), Comparison::Equal, Operand::Literal(value)),
    }
}

/// A value as it is written: text in quotes, `true` or `false`, a number, or text; None for an integer beyond 64 bits.
fn field_value(text: &str) -> Option<Value> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return Some(Value::Text(inner.into()));
        }
    }
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Some(Value::Bool(text.eq_ignore_ascii_case("true")));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Value::Int);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = if is_number { text.parse().ok() } else { None };
    Some(number.map_or_else(|| Value::Text(text.into()), Value::Float))
}

/// The part of a message before a colon, the byte at which the rest starts, and the rest. Blanks at the end belong to it.
fn on_and_pattern(text: &str) -> (Reference, usize, &str) {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|other| other.is_alphanumeric() || other == '_')
    };
    match text.split_once(':') {
        Some((on, pattern)) if is_name(on.trim()) => {
            let pattern = pattern.trim_start();
            (Reference::part(on.trim()), start_in(text, pattern), pattern)
        }
        _ => (Reference::Topic, 0, text),
    }
}

/// The words between white space, with the byte at which each starts.
fn words_with_starts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(move |word| (start_in(text, word), word))
}

/// The byte of `text` at which its part `part` starts.
fn start_in(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// An error in a part of `text` that starts at byte `start`, as an error in the whole.
fn moved(error: QueryError, text: &str, start: usize) -> QueryError {
    let before = text[..start].chars().count();
    QueryError { text: text.to_owned(), position: before + error.position, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::language::named::compile;

    fn refusal(language: &str, text: &str) -> (usize, String) {
        let error = compile(text, language).expect("a language").expect_err(text);
        assert_eq!(error.text, text);
        (error.position, error.expected)
    }

    #[test]
    fn values_of_fields_are_read_as_they_are_written() {
        for (text, value) in [
            ("1", Value::Int(1)),
            ("+7", Value::Int(7)),
            ("1.5", Value::Float(1.5)),
            ("1e3", Value::Float(1000.0)),
            ("1e400", Value::Float(f64::INFINITY)),
            ("TRUE", Value::Bool(true)),
            ("1.2.3", Value::Text("1.2.3".into())),
            ("e", Value::Text("e".into())),
            ("-", Value::Text("-".into())),
            ("'1'", Value::Text("1".into())),
            ("'", Value::Text("'".into())),
            ("", Value::Text("".into())),
        ] {
            assert_eq!(field_value(text), Some(value), "{text}");
        }
    }

    #[test]
    fn blanks_at_the_end_of_a_pattern_count() {
        for (text, wanted) in [("subject: Re: ", (9, "Re: ")), ("Re: ", (4, "")), ("a.b ", (0, "a.b "))] {
            let (_, start, pattern) = on_and_pattern(text);
            assert_eq!((start, pattern), wanted, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_positions() {
        assert_eq!(refusal("fields", "a=1, =2").0, 4);
        assert_eq!(refusal("fields", "any: a, a=2"), (8, "each field once, and 'a' stands before".into()));
        assert_eq!(refusal("fields", "a= 99999999999999999999"), (3, "an integer of 64 bits".into()));
        assert_eq!(refusal("near", "one"), (3, NEAR.into()));
        assert_eq!(refusal("near", "a b 0").0, 4);
        assert_eq!(refusal("near", "a ! 2"), (2, "one word".into()));
        assert_eq!(refusal("regex", "body: (").0, 6);
        assert_eq!(refusal("text", "..").1, "a word");
    }
}

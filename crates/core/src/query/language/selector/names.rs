//! Parses names, quoted texts and instants, which differ between the dialects.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::{SelectorDialect, SelectorParser, SelectorResult};
use crate::message::Value;
use crate::query::expr::{PropertyName, Reference};
use crate::query::language::lexer::{Token, TokenKind, is_reserved, unquote};

/// The instants that have a four-digit year: 0001-01-01 to the end of 9999, in microseconds.
const INSTANTS: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

impl SelectorParser<'_> {
    /// The next name, in double quotes or not, or `ANYCASE(name)`.
    pub(super) fn reference(&mut self) -> SelectorResult<Reference> {
        let token = self.cursor.token;
        match token.kind {
            TokenKind::Word(word) if word.eq_ignore_ascii_case("ANYCASE") && self.cursor.precedes_parenthesis() => {
                self.cursor.advance();
                self.cursor.advance();
                let name = self.name()?;
                self.cursor.expect_symbol(")", "`)`")?;
                Ok(any_case(&name))
            }
            TokenKind::Word(word) if !is_reserved(word) => {
                self.cursor.advance();
                Ok(self.named(word))
            }
            TokenKind::DoubleQuoted(raw) if self.dialect == SelectorDialect::Jms => {
                self.cursor.advance();
                Ok(Reference::property(&unquote(raw, '"')))
            }
            _ => Err(self.cursor.unexpected("a name")),
        }
    }

    /// The meaning of the unquoted `word`.
    fn named(&self, word: &str) -> Reference {
        match self.dialect {
            SelectorDialect::Jms => match word {
                "topic" => Reference::Topic,
                "body" => Reference::Body,
                name => Reference::property(name),
            },
            SelectorDialect::Cbm => match word.to_lowercase().as_str() {
                "topic" => Reference::Topic,
                "body" => Reference::Body,
                "from" => any_case("author"),
                name => any_case(name),
            },
        }
    }

    fn name(&mut self) -> SelectorResult<String> {
        let name = match self.cursor.token.kind {
            TokenKind::Word(word) if !is_reserved(word) => word.to_owned(),
            TokenKind::DoubleQuoted(raw) => unquote(raw, '"'),
            _ => return Err(self.cursor.unexpected("a name")),
        };
        self.cursor.advance();
        Ok(name)
    }

    pub(super) fn is_text(&self, kind: TokenKind<'_>) -> bool {
        match kind {
            TokenKind::SingleQuoted(_) => true,
            TokenKind::DoubleQuoted(_) => self.dialect == SelectorDialect::Cbm,
            _ => false,
        }
    }

    /// The next quoted text, and the byte at which it begins.
    pub(super) fn text(&mut self, expected: &str) -> SelectorResult<(String, usize)> {
        let Token { kind, start, .. } = self.cursor.token;
        let text = match kind {
            TokenKind::SingleQuoted(raw) => unquote(raw, '\''),
            TokenKind::DoubleQuoted(raw) if self.dialect == SelectorDialect::Cbm => unquote(raw, '"'),
            TokenKind::DoubleQuoted(_) => {
                return Err(self.cursor.unexpected(expected).with_hint("a text stands in single quotes"));
            }
            _ => return Err(self.cursor.unexpected(expected)),
        };
        self.cursor.advance();
        Ok((text, start))
    }

    pub(super) fn is_instant(&self, word: &str) -> bool {
        let is_name = word.eq_ignore_ascii_case("TIMESTAMP") || word.eq_ignore_ascii_case("DATE");
        is_name && self.is_text(self.cursor.peek())
    }

    /// `TIMESTAMP '...'` or `DATE '...'`.
    pub(super) fn instant(&mut self, word: &str) -> SelectorResult<Value> {
        let is_date = word.eq_ignore_ascii_case("DATE");
        self.cursor.advance();
        let (text, start) = self.text("a text in quotes")?;
        let (micros, form) =
            if is_date { (date(&text), "'2002-08-22'") } else { (timestamp(&text), "'2002-08-22T18:26:25Z'") };
        match micros.filter(|micros| INSTANTS.contains(micros)) {
            Some(micros) => Ok(Value::Timestamp(micros)),
            None => Err(self.cursor.error_at(start, format!("an instant like {form}"))),
        }
    }
}

fn any_case(name: &str) -> Reference {
    Reference::Property(PropertyName { text: name.to_lowercase().into(), any_case: true })
}

/// Microseconds since 1970 of an RFC 3339 instant, in UTC when it names no zone.
fn timestamp(text: &str) -> Option<i64> {
    let zoned = DateTime::parse_from_rfc3339(text).map(|instant| instant.with_timezone(&Utc));
    let instant = zoned.or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")).map(|i| i.with_timezone(&Utc)));
    Some(instant.ok()?.timestamp_micros())
}

/// Microseconds since 1970 of midnight UTC of a day `YYYY-MM-DD`.
fn date(text: &str) -> Option<i64> {
    const DAY_BYTES: usize = "2002-08-22".len();
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| text.len() == DAY_BYTES)?;
    Some(NaiveDateTime::from(day).and_utc().timestamp_micros())
}

//! Parses names, quoted texts and instants, which differ between the dialects.

use super::{SelectorDialect, SelectorParser, SelectorResult};
use crate::instant;
use crate::message::Value;
use crate::query::expr::{PropertyName, Reference};
use crate::query::language::lexer::{Token, TokenKind, is_reserved, unquote};

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
                return Err(self.cursor.unexpected(expected).with_hint("write a text in single quotes"));
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
        let (value, form) = if is_date {
            (instant::day(&text).map(Value::Day), "'2002-08-22'")
        } else {
            (instant::instant_or_utc(&text).map(Value::Timestamp), "'2002-08-22T18:26:25Z'")
        };
        value.ok_or_else(|| self.cursor.error_at(start, format!("an instant like {form}")))
    }
}

fn any_case(name: &str) -> Reference {
    Reference::Property(PropertyName { text: name.to_lowercase().into(), any_case: true })
}

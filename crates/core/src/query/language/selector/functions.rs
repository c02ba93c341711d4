//! Parses the functions CONTAINS, NEAR, TOPIC, PREFIX, REGEX and EXISTS.

use super::{SelectorParser, SelectorResult};
use crate::query::expr::{Pattern, Predicate, Reference};
use crate::query::language::lexer::{TokenKind, part_meant};
use crate::text::Phrase;
use crate::topic::{self, TopicPattern};

/// The maximum distance of two words for NEAR when the query states none.
const NEAR_DISTANCE: u32 = 5;

/// OPAQUE is how `str(query)` shows an expensive predicate.
const OPAQUE_HINT: &str = "a function cannot be read from text; combine with tamis.opaque in Python";

impl SelectorParser<'_> {
    /// The predicate that the function `word` makes of its arguments; None, with nothing consumed, when there is no
    /// function of that name.
    pub(super) fn function(&mut self, word: &str) -> SelectorResult<Option<Predicate>> {
        let function = match word.to_ascii_uppercase().as_str() {
            "CONTAINS" => Self::contains,
            "NEAR" => Self::near,
            "TOPIC" => Self::topic,
            "PREFIX" => Self::prefix,
            "REGEX" => Self::regex,
            "EXISTS" => Self::exists,
            "OPAQUE" => {
                let error = self.cursor.error_at(self.cursor.token.start, "a predicate that is text");
                return Err(error.with_hint(OPAQUE_HINT));
            }
            _ => return Ok(None),
        };
        self.cursor.advance();
        self.cursor.advance();
        let predicate = function(self)?;
        self.cursor.expect_symbol(")", "`)`")?;
        Ok(Some(predicate))
    }

    fn comma(&mut self) -> SelectorResult<()> {
        self.cursor.expect_symbol(",", "`,`")
    }

    /// The name of a text in which words are looked for, which usually is `body`.
    fn name_of_text(&mut self) -> SelectorResult<Reference> {
        let token = self.cursor.token;
        let reference = self.reference()?;
        if let TokenKind::Word(word) = token.kind
            && let Some(part) = part_meant(word)
        {
            let message = format!("`{word}` is a property");
            self.warnings.add(token.start, message, format!("did you mean `{part}`?"));
        }
        Ok(reference)
    }

    fn contains(&mut self) -> SelectorResult<Predicate> {
        let reference = self.name_of_text()?;
        self.comma()?;
        let (text, start) = self.text("a word or phrase in quotes")?;
        let phrase = Phrase::new(&text).ok_or_else(|| self.cursor.error_at(start, "a text with a word in it"))?;
        Ok(Predicate::Contains(reference, phrase))
    }

    fn near(&mut self) -> SelectorResult<Predicate> {
        let reference = self.name_of_text()?;
        self.comma()?;
        let a = self.one_word()?;
        self.comma()?;
        let b = self.one_word()?;
        let distance = if self.cursor.eat_symbol(",") { self.distance()? } else { NEAR_DISTANCE };
        Ok(Predicate::Near(reference, a, b, distance))
    }

    fn one_word(&mut self) -> SelectorResult<Phrase> {
        let (text, start) = self.text("a word in quotes")?;
        Phrase::new(&text)
            .filter(|phrase| phrase.words().len() == 1)
            .ok_or_else(|| self.cursor.error_at(start, "a text of one word"))
    }

    fn distance(&mut self) -> SelectorResult<u32> {
        let expected = "a number from 1 to 4294967295";
        match self.cursor.token.kind {
            TokenKind::Integer(digits) => match digits.parse() {
                Ok(distance @ 1..) => {
                    self.cursor.advance();
                    Ok(distance)
                }
                _ => Err(self.cursor.unexpected(expected)),
            },
            _ => Err(self.cursor.unexpected(expected)),
        }
    }

    fn topic(&mut self) -> SelectorResult<Predicate> {
        let (pattern, _) = self.text("a topic pattern in quotes")?;
        let mut dialect = topic::TopicDialect::Amqp;
        if self.cursor.eat_symbol(",") {
            let expected = "'amqp', 'openamq' or 'openamq-program'";
            let (name, start) = self.text(expected)?;
            dialect = topic::TopicDialect::from_name(&name).ok_or_else(|| self.cursor.error_at(start, expected))?;
        }
        Ok(Predicate::Topic(TopicPattern::new(&pattern, dialect)))
    }

    fn prefix(&mut self) -> SelectorResult<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let (prefix, _) = self.text("a text in quotes")?;
        Ok(Predicate::Prefix(reference, prefix.into()))
    }

    fn regex(&mut self) -> SelectorResult<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let (text, start) = self.text("a regular expression in quotes")?;
        let pattern = match self.regexes.get(&*text) {
            Some(pattern) => pattern.clone(),
            None => self.compile_regex(&text, start)?,
        };
        self.count_compiled(pattern.bytes(), start)?;
        Ok(Predicate::Regex(reference, pattern))
    }

    fn compile_regex(&mut self, text: &str, start: usize) -> SelectorResult<Pattern> {
        let pattern = Pattern::within(text, self.compiled_bytes_left)
            .map_err(|reason| self.cursor.error_at(start, "a regular expression").with_hint(reason))?
            .ok_or_else(|| self.too_large(start))?;
        self.regexes.insert(text.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn exists(&mut self) -> SelectorResult<Predicate> {
        Ok(Predicate::Exists(self.reference()?))
    }
}

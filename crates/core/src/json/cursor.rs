//! Walks through the bytes of a JSON text: tokens, texts and numbers.

use std::borrow::Cow;
use std::ops::Range;

use super::error::{JsonError, JsonResult};
use super::plain::plain_value_end;
use super::text_end::special_from;

/// A place in a JSON text.
#[derive(Debug)]
pub struct JsonCursor<'t> {
    text: &'t str,
    at: usize,
}

/// A number as it stands in the text.
#[derive(Debug)]
pub struct NumberText {
    /// Its bytes.
    pub range: Range<usize>,
    /// True when it has neither a fraction nor an exponent.
    pub is_integer: bool,
}

impl<'t> JsonCursor<'t> {
    /// The start of `text`.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The index of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The text of `range`.
    pub fn text(&self, range: Range<usize>) -> &'t str {
        &self.text[range]
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn broken<T>(&self, reason: &'static str) -> JsonResult<T> {
        Err(JsonError::Broken(self.at, reason))
    }

    /// The next byte that is no white space; at the end of the text the error `at_end`.
    #[inline]
    pub fn token(&mut self, at_end: &'static str) -> JsonResult<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(token) => return Ok(token),
                None => return self.broken(at_end),
            }
        }
    }

    /// The first byte of the next value.
    #[inline]
    pub fn value(&mut self) -> JsonResult<u8> {
        self.token("EOF while parsing a value: expected one")
    }

    /// Check that only white space is left.
    pub fn end(&mut self) -> JsonResult<()> {
        match self.token("") {
            Ok(_) => self.broken("trailing characters: expected the end of the text"),
            Err(_) => Ok(()),
        }
    }

    /// Go past an opening bracket. True if a name follows, at which the cursor then is; false if the object ends.
    #[inline]
    pub fn first_name(&mut self) -> JsonResult<bool> {
        self.at += 1;
        match self.token("EOF while parsing an object: expected a name or `}`")? {
            b'"' => Ok(true),
            b'}' => {
                self.at += 1;
                Ok(false)
            }
            _ => self.broken("key must be a string: expected a name or `}`"),
        }
    }

    /// Go past a comma. True if a name follows, at which the cursor then is; false if the object ends.
    #[inline]
    pub fn next_name(&mut self) -> JsonResult<bool> {
        match self.token("EOF while parsing an object: expected `,` or `}`")? {
            b',' => {}
            b'}' => {
                self.at += 1;
                return Ok(false);
            }
            _ => return self.broken("expected `,` or `}`"),
        }
        self.at += 1;
        match self.token("EOF while parsing an object: expected a name")? {
            b'"' => Ok(true),
            b'}' => self.broken("trailing comma: expected a name"),
            _ => self.broken("key must be a string: expected a name"),
        }
    }

    /// Go past the colon after a name.
    #[inline]
    pub fn colon(&mut self) -> JsonResult<()> {
        if self.token("EOF while parsing an object: expected `:`")? != b':' {
            return self.broken("expected `:`");
        }
        self.at += 1;
        Ok(())
    }

    /// Go past an opening bracket. True if an element follows; false if the list ends.
    #[inline]
    pub fn first_element(&mut self) -> JsonResult<bool> {
        self.at += 1;
        let is_end = self.token("EOF while parsing a list: expected a value or `]`")? == b']';
        self.at += usize::from(is_end);
        Ok(!is_end)
    }

    /// Go past a comma. True if an element follows; false if the list ends.
    #[inline]
    pub fn next_element(&mut self) -> JsonResult<bool> {
        let token = self.token("EOF while parsing a list: expected `,` or `]`")?;
        if token != b',' && token != b']' {
            return self.broken("expected `,` or `]`");
        }
        self.at += 1;
        if token == b',' && self.value()? == b']' {
            return self.broken("trailing comma: expected a value");
        }
        Ok(token == b',')
    }

    /// Go past `literal`, whose first byte is next.
    pub fn literal(&mut self, literal: &'static str) -> JsonResult<()> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.starts_with(literal.as_bytes()) {
            self.at += literal.len();
            return Ok(());
        }
        self.at += rest.iter().zip(literal.bytes()).take_while(|(a, b)| *a == b).count();
        self.broken("expected `true`, `false` or `null`")
    }

    /// Read the text whose opening quote is next.
    #[inline]
    pub fn read_text(&mut self) -> JsonResult<Cow<'t, str>> {
        let start = self.at + 1;
        self.at = special_from(self.text.as_bytes(), start);
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        self.read_escaped(start).map(Cow::Owned)
    }

    /// Read the rest of a text that starts at `start`; the first special byte is next.
    #[cold]
    fn read_escaped(&mut self, start: usize) -> JsonResult<String> {
        let mut read = self.text[start..self.at].to_owned();
        while self.has_escape()? {
            let character = self.escape()?;
            let start = self.at;
            self.at = special_from(self.text.as_bytes(), start);
            read.push(character);
            read.push_str(&self.text[start..self.at]);
        }
        Ok(read)
    }

    /// Go past the next value if it is plain; else do not move, and return false.
    #[inline]
    pub fn skip_plain_value(&mut self) -> bool {
        let end = plain_value_end(self.text.as_bytes(), self.at);
        self.at = end.unwrap_or(self.at);
        end.is_some()
    }

    /// Go past the text whose opening quote is next. Of its escapes only the form is checked.
    #[inline]
    pub fn skip_text(&mut self) -> JsonResult<()> {
        self.at = special_from(self.text.as_bytes(), self.at + 1);
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(());
        }
        while self.has_escape()? {
            self.escape_code()?;
            self.at = special_from(self.text.as_bytes(), self.at);
        }
        Ok(())
    }

    /// Whether an escape is next. False if the text ends, and then go past its end.
    fn has_escape(&mut self) -> JsonResult<bool> {
        let reason = match self.peek() {
            Some(b'\\') => return Ok(true),
            Some(b'"') => {
                self.at += 1;
                return Ok(false);
            }
            Some(_) => "control character found while parsing a string: expected an escape",
            None => "EOF while parsing a string: expected `\"`",
        };
        self.broken(reason)
    }

    /// Read the character of the escape that is next, which may be two for halves of a surrogate pair.
    fn escape(&mut self) -> JsonResult<char> {
        let start = self.at;
        let code = self.escape_code()?;
        let is_first_half = (0xD800..0xDC00).contains(&code);
        let whole = if is_first_half && self.peek() == Some(b'\\') {
            let second = self.escape_code()?;
            let is_second_half = (0xDC00..0xE000).contains(&second);
            is_second_half.then(|| 0x1_0000 + ((code - 0xD800) << 10 | (second - 0xDC00)))
        } else {
            Some(code)
        };
        let lone = JsonError::Broken(start, "lone surrogate in an escape: expected a pair");
        whole.and_then(char::from_u32).ok_or(lone)
    }

    /// Go past the escape that is next; returns its code.
    fn escape_code(&mut self) -> JsonResult<u32> {
        self.at += 1;
        let code = match self.peek() {
            Some(same @ (b'"' | b'\\' | b'/')) => same,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.hex_code(),
            Some(_) => return self.broken("invalid escape: expected one of `\"\\/bfnrtu`"),
            None => return self.broken("EOF while parsing a string: expected an escape"),
        };
        self.at += 1;
        Ok(code.into())
    }

    fn hex_code(&mut self) -> JsonResult<u32> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|digit| char::from(digit).to_digit(16));
            let Some(digit) = digit else { return self.broken("invalid escape: expected four hexadecimal digits") };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Go past the number that is next.
    #[inline]
    pub fn number(&mut self) -> JsonResult<NumberText> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let is_zero = self.peek() == Some(b'0');
        let digit_count = self.digits()?;
        if is_zero && digit_count > 1 {
            self.at -= digit_count - 1;
            return self.broken("invalid number: a number other than 0 begins with another digit");
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            is_integer = false;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
            is_integer = false;
        }
        Ok(NumberText { range: start..self.at, is_integer })
    }

    /// Go past one digit or more; returns their number.
    #[inline]
    fn digits(&mut self) -> JsonResult<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            return self.broken("invalid number: expected a digit");
        }
        Ok(self.at - start)
    }
}

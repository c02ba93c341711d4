//! Tokens of both query languages, and the cursor with which their parsers read them.
//!
//! The cursor enforces the limits, and its errors guess what was meant.

use unicode_normalization::char::is_combining_mark;

use crate::error::QueryError;
use crate::query::{DEPTH_MAX, TERMS_MAX, TEXT_BYTES_MAX};
use crate::spelling;

/// The maximum number of arithmetic operators in a query: a chain of them leans left, and evaluation recurses down it.
const OPERATORS_MAX: usize = 1_000;

/// Words that cannot be names, in any case (JMS 2.0, section 3.8.1.1).
const RESERVED: [&str; 11] = ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"];
/// The words that a misspelt word may have been meant for.
const KEYWORDS: [&str; 10] = ["AND", "OR", "NOT", "BETWEEN", "LIKE", "IN", "IS", "NULL", "ESCAPE", "UNDER"];
/// The functions that a misspelt word before a parenthesis may have been meant for.
const FUNCTIONS: [&str; 7] = ["CONTAINS", "NEAR", "TOPIC", "PREFIX", "REGEX", "EXISTS", "ANYCASE"];
/// The longest first, so that `<=` is not tokenised as `<`.
const SYMBOLS: [&str; 20] =
    ["==", "<=", ">=", "<>", "!=", "&&", "||", "=", "<", ">", "!", "+", "-", "*", "/", "(", ")", ",", "{", "}"];

/// The language that the tokens belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Numbers, identifiers and arithmetic; `==` is two tokens, of which the second is out of place.
    Selector,
    /// Everything that is no symbol, quote or space is part of a word: `text/plain`, `-5`.
    Boolean,
}

/// The kind of a token. Quoted ones hold the text between the quotes; [`unquote`] decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::query) enum TokenKind<'a> {
    Word(&'a str),
    DoubleQuoted(&'a str),
    SingleQuoted(&'a str),
    Integer(&'a str),
    Float(f64),
    Symbol(&'static str),
    /// A quoted text whose end is missing.
    Unterminated(char),
    /// A number that runs into a name.
    BadNumber(&'a str),
    /// A character that begins no token.
    Other(char),
    End,
}

/// A token, and its byte range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind<'a>,
    pub start: usize,
    pub end: usize,
}

/// The text of a quoted token: each doubled `quote` in `raw` becomes one.
pub(super) fn unquote(raw: &str, quote: char) -> String {
    if raw.contains(quote) { raw.replace(&format!("{quote}{quote}"), &quote.to_string()) } else { raw.to_owned() }
}

/// True for a word that cannot be a name without quotes.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// True when `name` has the form of an identifier, reserved or not.
pub(super) fn is_identifier(name: &str) -> bool {
    name.starts_with(begins_identifier) && name.chars().all(continues_identifier)
}

/// The letters of Java, as JMS requires.
fn begins_identifier(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '_' | '$')
}

fn continues_identifier(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '.');
    }
    character.is_alphanumeric() || is_combining_mark(character)
}

/// The number that the whole of `text` is, if it is one: an optional sign, then a number as in a selector.
pub(in crate::query) fn whole_number(text: &str) -> Option<TokenKind<'_>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (length, is_float) = number_prefix(unsigned)?;
    if length < unsigned.len() {
        return None;
    }
    Some(if is_float { TokenKind::Float(text.parse().ok()?) } else { TokenKind::Integer(text) })
}

/// The number of bytes of `text` that are a number without a sign, and whether it is a float: `7`, `7.`, `.5`, `1.E-3`.
fn number_prefix(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let digits_from = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits_from(0);
    let mut length = whole;
    let mut is_float = false;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits_from(length + 1);
        if whole + fraction == 0 {
            return None;
        }
        length += 1 + fraction;
        is_float = true;
    }
    if length == 0 {
        return None;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits_from((length + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            length += 1 + sign + exponent;
            is_float = true;
        }
    }
    Some((length, is_float))
}

/// Produces tokens one after another; never fails, so that the parser can say what it expected instead.
#[derive(Clone, Copy, Debug)]
struct Lexer<'a> {
    text: &'a str,
    at: usize,
    style: Style,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Token<'a> {
        let start = self.at + space(&self.text[self.at..]);
        let remaining = &self.text[start..];
        let (kind, length) = match remaining.chars().next() {
            None => (TokenKind::End, 0),
            Some(quote @ ('\'' | '"')) => quoted(remaining, quote),
            Some(first) => self.number_or_word(remaining).unwrap_or_else(|| symbol(remaining, first, self.style)),
        };
        self.at = start + length;
        Token { kind, start, end: self.at }
    }

    fn number_or_word(&self, remaining: &'a str) -> Option<(TokenKind<'a>, usize)> {
        match self.style {
            Style::Boolean => {
                let length = remaining.find(|c| !belongs_to_boolean_word(c)).unwrap_or(remaining.len());
                (length > 0).then(|| (TokenKind::Word(&remaining[..length]), length))
            }
            Style::Selector if remaining.starts_with(begins_identifier) => {
                let length = remaining.find(|c| !continues_identifier(c)).unwrap_or(remaining.len());
                Some((TokenKind::Word(&remaining[..length]), length))
            }
            Style::Selector => {
                let (length, is_float) = number_prefix(remaining)?;
                let end =
                    length + remaining[length..].find(|c| !continues_identifier(c)).unwrap_or(remaining.len() - length);
                let digits = &remaining[..length];
                let kind = match digits.parse() {
                    _ if end > length => TokenKind::BadNumber(&remaining[..end]),
                    Ok(float) if is_float => TokenKind::Float(float),
                    _ => TokenKind::Integer(digits),
                };
                Some((kind, end))
            }
        }
    }
}

/// The number of space characters' bytes at the start of `text`. Mostly one or none, which takes a single test.
fn space(text: &str) -> usize {
    match text.as_bytes() {
        [b' ', b'!'..=b'~', ..] => 1,
        [b'!'..=b'~', ..] => 0,
        _ => text.len() - text.trim_start().len(),
    }
}

fn belongs_to_boolean_word(character: char) -> bool {
    !character.is_whitespace() && !"=!<>&|(){},'\"".contains(character)
}

fn quoted(remaining: &str, quote: char) -> (TokenKind<'_>, usize) {
    let mut from = 1;
    while let Some(at) = remaining[from..].find(quote).map(|at| from + at) {
        if !remaining[at + 1..].starts_with(quote) {
            let inside = &remaining[1..at];
            let kind = if quote == '"' { TokenKind::DoubleQuoted(inside) } else { TokenKind::SingleQuoted(inside) };
            return (kind, at + 1);
        }
        from = at + 2;
    }
    (TokenKind::Unterminated(quote), remaining.len())
}

fn symbol(remaining: &str, first: char, style: Style) -> (TokenKind<'_>, usize) {
    // Most symbols are one character that begins no longer symbol.
    if let Some(symbol) = ["(", ")", ",", "+", "-"].into_iter().find(|symbol| symbol.as_bytes()[0] as char == first) {
        return (TokenKind::Symbol(symbol), 1);
    }
    let begins = |symbol: &str| symbol.as_bytes()[0] as char == first && remaining.starts_with(symbol);
    let known = |symbol: &&&str| begins(symbol) && (style == Style::Boolean || **symbol != "==");
    match SYMBOLS.iter().find(known) {
        Some(symbol) => (TokenKind::Symbol(symbol), symbol.len()),
        None => (TokenKind::Other(first), first.len_utf8()),
    }
}

/// A position in the text, and how much of the limits was used up on the way there.
#[derive(Debug)]
pub(super) struct TokenCursor<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    previous: Option<Token<'a>>,
    /// The next token.
    pub token: Token<'a>,
    depth: usize,
    terms: usize,
    operators: usize,
}

impl<'a> TokenCursor<'a> {
    /// A cursor at the start of `text`.
    pub fn new(text: &'a str, style: Style) -> Result<Self, QueryError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(QueryError::at_byte(text, TEXT_BYTES_MAX, format!("at most {TEXT_BYTES_MAX} bytes of text")));
        }
        let mut lexer = Lexer { text, at: 0, style };
        let token = lexer.next();
        Ok(Self { text, lexer, previous: None, token, depth: 0, terms: 0, operators: 0 })
    }

    /// Moves one token on, and returns the one left behind.
    pub fn advance(&mut self) -> Token<'a> {
        let token = self.token;
        self.previous = Some(token);
        self.token = self.lexer.next();
        token
    }

    /// The token after the next one.
    pub fn peek(&self) -> TokenKind<'a> {
        self.lexer.clone().next().kind
    }

    /// True when an opening parenthesis follows the next token.
    pub fn precedes_parenthesis(&self) -> bool {
        self.text[self.token.end..].trim_start().starts_with('(')
    }

    /// Takes the raw text from here to a space or a `)`. None when it is empty.
    pub fn advance_raw(&mut self) -> Option<&'a str> {
        let remaining = &self.text[self.token.start..];
        let length = remaining.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(remaining.len());
        if length == 0 {
            return None;
        }
        self.lexer.at = self.token.start + length;
        self.token.end = self.lexer.at;
        self.advance();
        Some(&remaining[..length])
    }

    /// True when the next token is `keyword` (given in capitals), in any case.
    pub fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.token.kind, TokenKind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Moves past `keyword` when it is next.
    pub fn eat_keyword(&mut self, keyword: &str) -> bool {
        let is_next = self.is_keyword(keyword);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Moves past `symbol` when it is next.
    pub fn eat_symbol(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.token.kind, TokenKind::Symbol(next) if next == symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    /// Moves past what stands between the values of a set: `||`, OR or a comma.
    pub fn eat_separator(&mut self) -> bool {
        ["||", ","].iter().any(|symbol| self.eat_symbol(symbol)) || self.eat_keyword("OR")
    }

    /// The name with dashes that the text from byte `start` on looks like.
    pub fn dashed_word_at(&self, start: usize) -> &'a str {
        let text = &self.text[start..];
        let end = text.find(|c| c != '-' && !continues_identifier(c)).unwrap_or(text.len());
        &text[..end]
    }

    /// Moves past `symbol`; `expected` describes what else could have stood there.
    pub fn expect_symbol(&mut self, symbol: &str, expected: &str) -> Result<(), QueryError> {
        if self.eat_symbol(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// Enters one level, for a parenthesis, a NOT or a sign at the next token.
    pub fn enter(&mut self) -> Result<(), QueryError> {
        self.depth += 1;
        self.limit(self.depth, DEPTH_MAX, self.token.start, "nesting of at most 100")
    }

    /// Leaves one level.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Counts a predicate that begins at byte `start`.
    pub fn count_term(&mut self, start: usize) -> Result<(), QueryError> {
        self.terms += 1;
        self.limit(self.terms, TERMS_MAX, start, "at most 1000 terms")
    }

    /// Counts an arithmetic operator at the next token.
    pub fn count_operator(&mut self) -> Result<(), QueryError> {
        self.operators += 1;
        self.limit(self.operators, OPERATORS_MAX, self.token.start, "at most 1000 arithmetic operators")
    }

    fn limit(&self, count: usize, most: usize, byte: usize, expected: &str) -> Result<(), QueryError> {
        if count > most { Err(self.error_at(byte, expected)) } else { Ok(()) }
    }

    /// An error at byte `byte` of the text.
    pub fn error_at(&self, byte: usize, expected: impl Into<String>) -> QueryError {
        QueryError::at_byte(self.text, byte, expected)
    }

    /// An error at the next token, which is not what was `expected`.
    pub fn unexpected(&self, expected: &str) -> QueryError {
        let error = match self.token.kind {
            TokenKind::Unterminated(quote) => {
                self.error_at(self.token.start, format!("a closing `{quote}` for the quote here"))
            }
            TokenKind::BadNumber(_) => self.error_at(self.token.start, "a number"),
            _ => self.error_at(self.token.start, expected),
        };
        match self.guess() {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// A guess of what was meant by the next token, which is out of place.
    fn guess(&self) -> Option<String> {
        let previous = self.previous.map(|token| token.kind);
        let meant = match (self.token.kind, previous) {
            (TokenKind::Symbol(symbol), Some(TokenKind::Symbol(before))) if self.touches_previous() => {
                operator(before, symbol)?
            }
            (TokenKind::Symbol("("), Some(TokenKind::Word(word))) if changes_case(word) => {
                return Some("to ignore case, write REGEX(name, '(?i)^text$')".to_owned());
            }
            (TokenKind::Symbol("("), Some(TokenKind::Word(word))) => spelling::nearest(word, &FUNCTIONS)?,
            (TokenKind::Word(word), Some(TokenKind::Word(name))) if self.is_text_function(word) => {
                return Some(format!("the name stands inside: {}({name}, '...')", word.to_ascii_uppercase()));
            }
            (TokenKind::Symbol(symbol), _) => self.own_spelling(symbol)?,
            (TokenKind::Word(word), _) if is_reserved(word) => {
                return Some(format!("in double quotes it is a name: \"{word}\""));
            }
            (TokenKind::Word(word), Some(TokenKind::Word(before))) => {
                spelling::nearest(word, &KEYWORDS).or_else(|| spelling::nearest(before, &KEYWORDS))?
            }
            (TokenKind::Word(word), _) => spelling::nearest(word, &KEYWORDS)?,
            (TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_), Some(TokenKind::Word(word))) => {
                spelling::nearest(word, &KEYWORDS)?
            }
            (TokenKind::BadNumber(number), _) => return Some(bad_number(number)),
            (TokenKind::Other('“' | '”' | '„' | '‘' | '’'), _) => {
                return Some("quotes are straight: ' or \"".to_owned());
            }
            _ => return None,
        };
        Some(format!("did you mean `{meant}`?"))
    }

    /// True when nothing stands between the next token and the one before it.
    pub fn touches_previous(&self) -> bool {
        self.previous.is_some_and(|previous| previous.end == self.token.start)
    }

    /// True for a function of a text that is written like an operator: `subject CONTAINS 'x'`.
    fn is_text_function(&self, word: &str) -> bool {
        let is_function = ["CONTAINS", "PREFIX", "REGEX"].iter().any(|function| function.eq_ignore_ascii_case(word));
        is_function && matches!(self.peek(), TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_))
    }

    /// The spelling in this language of an operator of the other one.
    fn own_spelling(&self, symbol: &str) -> Option<&'static str> {
        match (self.lexer.style, symbol) {
            (Style::Selector, "&&") => Some("AND"),
            (Style::Selector, "||") => Some("OR"),
            (Style::Selector, "!") => Some("NOT"),
            (Style::Boolean, "<>") => Some("!="),
            _ => None,
        }
    }
}

/// The operator that two adjacent symbols may have been meant for.
fn operator(before: &str, symbol: &str) -> Option<&'static str> {
    match (before, symbol) {
        ("=", "=") => Some("="),
        ("==", "=") => Some("=="),
        ("=", ">") | (">", "=") => Some(">="),
        ("=", "<") | ("<", "=") => Some("<="),
        ("=", "!") => Some("!="),
        (">", ">") => Some(">"),
        ("<", "<") => Some("<"),
        _ => None,
    }
}

/// True for the functions of other languages that change the case of a text.
fn changes_case(word: &str) -> bool {
    ["LOWER", "UPPER", "LCASE", "UCASE"].iter().any(|function| function.eq_ignore_ascii_case(word))
}

fn bad_number(number: &str) -> String {
    let digits = number.trim_end_matches(['l', 'L', 'f', 'F', 'd', 'D']);
    if digits.len() < number.len() && whole_number(digits).is_some() {
        format!("numbers have no suffix: {digits}")
    } else {
        format!("a name that does not begin with a letter stands in double quotes: \"{number}\"")
    }
}

/// The part of a message that a misspelt word was probably meant for.
pub(super) fn part_meant(word: &str) -> Option<&'static str> {
    spelling::nearest(word, &["body", "topic"])
}

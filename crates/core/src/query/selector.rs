//! The selector language: JMS message selectors (SQL-92 conditional expressions) with text, topic,
//! regular-expression and hierarchy functions. The canonical text of every query.
//!
//! The parser goes down by rank: OR, AND, NOT, predicates, sums, products, signs, primaries. A parenthesis may hold
//! a condition or a value, which is not known before its end, so that every step returns one or the other
//! ([`Node`]) and the step above says which of them it can use.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use crate::error::QueryError;
use crate::message::Value;
use crate::query::expr::{Arithmetic, Comparison, Expr, Name, Operand, Pattern, Predicate, Reference, ValueSet};
use crate::query::lexer::{Cursor, Kind, Style, Token, is_identifier, is_reserved, unquote};
use crate::query::like::LikePattern;
use crate::query::{IN_VALUES_MAX, Query, TEXT_BYTES_MAX};
use crate::text::Phrase;
use crate::topic::{self, TopicPattern};

/// How far apart NEAR lets two words be when the query does not say.
const NEAR_DISTANCE: u32 = 5;
/// The instants that have a four-digit year: 0001-01-01 to the end of 9999, in microseconds.
const INSTANTS: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// How to read a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// JMS / SQL-92, as `SEMANTICS.md` has it.
    Jms,
    /// The examples of paper 002 (PNNL) as printed.
    Cbm,
}

/// Read `text` as a selector. A blank one selects everything.
///
/// # Errors
/// Where it cannot be read, and what was expected there.
pub fn parse(text: &str, dialect: Dialect) -> Result<Query, QueryError> {
    let mut parser = Parser { cursor: Cursor::new(text, Style::Selector)?, dialect };
    let expr = match parser.cursor.token.kind {
        Kind::End => Predicate::Constant(true).into(),
        _ => parser.whole()?,
    };
    finish(text, expr)
}

/// True when `name` reads as one property name without double quotes.
#[must_use]
pub fn is_plain_identifier(name: &str) -> bool {
    is_identifier(name) && !is_reserved(name) && name != "topic" && name != "body"
}

/// A query of `expr`, which was read from `text`, unless its canonical text could not be read again.
pub(super) fn finish(text: &str, expr: Expr) -> Result<Query, QueryError> {
    // `1e15,` becomes `1000000000000000.0, `, and nothing that may stand a thousand times grows more.
    const GROWTH_MAX: usize = 8;
    let query = Query { expr, is_fields: false };
    if text.len() > TEXT_BYTES_MAX / GROWTH_MAX && query.to_string().len() > TEXT_BYTES_MAX {
        return Err(QueryError::at_byte(text, 0, format!("at most {TEXT_BYTES_MAX} bytes of canonical text")));
    }
    Ok(query)
}

/// A part of a selector and the byte at which it begins.
struct Part {
    node: Node,
    start: usize,
}

enum Node {
    Condition(Expr),
    /// A value, or what may yet become a condition: a bare identifier, TRUE, FALSE.
    Value(Operand),
}

impl Part {
    fn condition(expr: impl Into<Expr>, start: usize) -> Self {
        Self { node: Node::Condition(expr.into()), start }
    }

    fn value(operand: Operand, start: usize) -> Self {
        Self { node: Node::Value(operand), start }
    }
}

/// An operand and the byte at which it begins.
struct Placed {
    operand: Operand,
    start: usize,
}

impl Placed {
    fn is_bool(&self) -> bool {
        matches!(self.operand, Operand::Literal(Value::Bool(_)))
    }

    fn is_number(&self) -> bool {
        matches!(self.operand, Operand::Literal(Value::Int(_) | Value::Float(_)))
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    dialect: Dialect,
}

type Parsed<T> = Result<T, QueryError>;

impl Parser<'_> {
    fn whole(&mut self) -> Parsed<Expr> {
        let part = self.disjunction()?;
        match self.cursor.token.kind {
            Kind::End => self.as_condition(part),
            _ => Err(self.cursor.unexpected("an operator or the end")),
        }
    }

    // Conditions ------------------------------------------------------------------------------------------------

    fn disjunction(&mut self) -> Parsed<Part> {
        self.chain("OR", Self::conjunction, Expr::or)
    }

    fn conjunction(&mut self) -> Parsed<Part> {
        self.chain("AND", Self::negation, Expr::and)
    }

    fn chain(
        &mut self,
        keyword: &str,
        operand: fn(&mut Self) -> Parsed<Part>,
        combine: fn(Vec<Expr>) -> Expr,
    ) -> Parsed<Part> {
        let first = operand(self)?;
        if !self.cursor.is_keyword(keyword) {
            return Ok(first);
        }
        let start = first.start;
        let mut operands = vec![self.as_condition(first)?];
        while self.cursor.eat_keyword(keyword) {
            let next = operand(self)?;
            operands.push(self.as_condition(next)?);
        }
        Ok(Part::condition(combine(operands), start))
    }

    fn negation(&mut self) -> Parsed<Part> {
        if !self.cursor.is_keyword("NOT") {
            return self.predicate();
        }
        self.cursor.enter()?;
        let start = self.cursor.advance().start;
        let inner = self.negation()?;
        let condition = self.as_condition(inner)?;
        self.cursor.leave();
        Ok(Part::condition(condition.negate(), start))
    }

    fn predicate(&mut self) -> Parsed<Part> {
        let left = self.arithmetic(Rank::Sum, "a value")?;
        if let Kind::Symbol(symbol) = self.cursor.token.kind
            && let Some(op) = comparison(symbol)
        {
            let left = self.as_operand(left)?;
            let operator = self.cursor.advance();
            return self.compared(left, op, operator.start);
        }
        if self.cursor.eat_keyword("NOT") {
            let left = self.as_operand(left)?;
            let start = left.start;
            let Some(predicate) = self.keyword_predicate(left)? else {
                return Err(self.cursor.unexpected("BETWEEN, IN or LIKE"));
            };
            return self.term(Expr::from(predicate).negate(), start);
        }
        match self.cursor.token.kind {
            Kind::Word(word) if is_predicate_keyword(word) => {
                let left = self.as_operand(left)?;
                self.affirmed(left)
            }
            _ => Ok(left),
        }
    }

    /// `left` and what follows the keyword that is next: IS, UNDER, BETWEEN, IN or LIKE.
    fn affirmed(&mut self, left: Placed) -> Parsed<Part> {
        let start = left.start;
        if self.cursor.eat_keyword("IS") {
            let negated = self.cursor.eat_keyword("NOT");
            if !self.cursor.eat_keyword("NULL") {
                return Err(self.cursor.unexpected(if negated { "NULL" } else { "NULL or NOT NULL" }));
            }
            let test = Expr::from(Predicate::IsNull(self.not_literal(left, "IS NULL")?));
            return self.term(if negated { test.negate() } else { test }, start);
        }
        if self.cursor.eat_keyword("UNDER") {
            let Operand::Reference(reference @ Reference::Property(_)) = left.operand else {
                return Err(self.cursor.error_at(start, "the name of a property before UNDER"));
            };
            let (ancestor, _) = self.text("a text in quotes")?;
            return self.term(Predicate::Under(reference, ancestor.into()), start);
        }
        match self.keyword_predicate(left)? {
            Some(predicate) => self.term(predicate, start),
            None => Err(self.cursor.unexpected("an operator")),
        }
    }

    /// The predicates that NOT may stand before.
    fn keyword_predicate(&mut self, left: Placed) -> Parsed<Option<Predicate>> {
        Ok(Some(if self.cursor.eat_keyword("BETWEEN") {
            self.between(left)?
        } else if self.cursor.eat_keyword("IN") {
            let operand = self.not_literal(left, "IN")?;
            Predicate::In(operand, self.in_values()?)
        } else if self.cursor.eat_keyword("LIKE") {
            let operand = self.not_literal(left, "LIKE")?;
            Predicate::Like(operand, self.like_pattern()?)
        } else {
            return Ok(None);
        }))
    }

    fn compared(&mut self, left: Placed, op: Comparison, operator: usize) -> Parsed<Part> {
        let is_order = !matches!(op, Comparison::Equal | Comparison::NotEqual);
        let right = self.arithmetic(Rank::Sum, if is_order { "a number" } else { "a value" })?;
        let right = self.as_operand(right)?;
        if is_order && (left.is_bool() || right.is_bool()) {
            return Err(self.cursor.error_at(operator, "`=` or `<>`: TRUE and FALSE have no order"));
        }
        if left.is_bool() && right.is_number() {
            return Err(self.cursor.error_at(right.start, "no number: TRUE and FALSE are unlike every number"));
        }
        if left.is_number() && right.is_bool() {
            return Err(self.cursor.error_at(right.start, "a number"));
        }
        self.term(Predicate::Compare(left.operand, op, right.operand), left.start)
    }

    fn between(&mut self, operand: Placed) -> Parsed<Predicate> {
        let low = self.bound()?;
        if !self.cursor.eat_keyword("AND") {
            return Err(self.cursor.unexpected("AND"));
        }
        let high = self.bound()?;
        if operand.is_bool() {
            return Err(self.cursor.error_at(operand.start, "a value that has an order"));
        }
        Ok(Predicate::Between(operand.operand, low, high))
    }

    fn bound(&mut self) -> Parsed<Operand> {
        let part = self.arithmetic(Rank::Sum, "a number")?;
        let bound = self.as_operand(part)?;
        if bound.is_bool() {
            return Err(self.cursor.error_at(bound.start, "a value that has an order"));
        }
        Ok(bound.operand)
    }

    fn in_values(&mut self) -> Parsed<ValueSet> {
        self.cursor.expect_symbol("(", "`(`")?;
        let mut values = Vec::new();
        loop {
            if values.len() == IN_VALUES_MAX {
                let start = self.cursor.token.start;
                return Err(self.cursor.error_at(start, format!("at most {IN_VALUES_MAX} values")));
            }
            let value = self.literal()?;
            values.push(value.ok_or_else(|| self.cursor.unexpected("a literal"))?);
            if !self.cursor.eat_symbol(",") {
                break;
            }
        }
        self.cursor.expect_symbol(")", "`,` or `)`")?;
        Ok(ValueSet::new(values))
    }

    fn like_pattern(&mut self) -> Parsed<LikePattern> {
        let is_bare = !matches!(
            self.cursor.token.kind,
            Kind::SingleQuoted(_) | Kind::DoubleQuoted(_) | Kind::Unterminated(_) | Kind::End
        );
        let bare = if self.dialect == Dialect::Cbm && is_bare { self.cursor.advance_raw() } else { None };
        let pattern = match bare {
            Some(pattern) => pattern.to_owned(),
            None => self.text("a pattern in quotes")?.0,
        };
        if !self.cursor.eat_keyword("ESCAPE") {
            return Ok(LikePattern::new(&pattern, None));
        }
        let (escape, start) = self.text("one character in quotes")?;
        let mut characters = escape.chars();
        match (characters.next(), characters.next()) {
            (Some(escape), None) => Ok(LikePattern::new(&pattern, Some(escape))),
            _ => Err(self.cursor.error_at(start, "one character in quotes")),
        }
    }

    // Values ----------------------------------------------------------------------------------------------------

    /// Sums and products; `expected` is what a missing operand is called.
    fn arithmetic(&mut self, lowest: Rank, expected: &str) -> Parsed<Part> {
        let mut left = self.sign(expected)?;
        while let Some((op, rank)) = arithmetic(self.cursor.token.kind)
            && rank >= lowest
        {
            let placed = self.as_operand(left)?;
            self.cursor.count_operator()?;
            self.cursor.advance();
            let expected = if op == Arithmetic::Add { "a value" } else { "a number" };
            // Operators of one rank lean left, so only products may stand to the right of a sum.
            let right = match rank {
                Rank::Sum => self.arithmetic(Rank::Product, expected)?,
                Rank::Product => self.sign(expected)?,
            };
            let right = self.as_operand(right)?;
            let computed = Operand::Arithmetic(Box::new(placed.operand), op, Box::new(right.operand));
            left = Part::value(computed, placed.start);
        }
        Ok(left)
    }

    fn sign(&mut self, expected: &str) -> Parsed<Part> {
        let start = self.cursor.token.start;
        if let Some(value) = self.literal()? {
            return Ok(Part::value(Operand::Literal(value), start));
        }
        let Kind::Symbol(sign @ ("+" | "-")) = self.cursor.token.kind else {
            return self.primary(expected);
        };
        self.cursor.enter()?;
        if sign == "+" {
            self.cursor.count_operator()?;
        }
        self.cursor.advance();
        let inner = self.sign("a number")?;
        let operand = self.as_operand(inner)?.operand;
        self.cursor.leave();
        Ok(Part::value(if sign == "-" { negative(operand) } else { positive(operand) }, start))
    }

    /// The literal that is next; None, and nothing read, when something else is. A sign belongs to its number.
    fn literal(&mut self) -> Parsed<Option<Value>> {
        let token = self.cursor.token;
        Ok(Some(match token.kind {
            Kind::Symbol(sign @ ("+" | "-")) if matches!(self.cursor.peek(), Kind::Integer(_) | Kind::Float(_)) => {
                self.cursor.advance();
                self.number(sign == "-", token.start)?
            }
            Kind::Integer(_) | Kind::Float(_) => self.number(false, token.start)?,
            Kind::Word(word) if word.eq_ignore_ascii_case("TRUE") => self.truth(true),
            Kind::Word(word) if word.eq_ignore_ascii_case("FALSE") => self.truth(false),
            Kind::Word(word) if self.is_instant(word) => self.instant(word)?,
            kind if self.is_text(kind) => Value::Text(self.text("a text in quotes")?.0.into()),
            _ => return Ok(None),
        }))
    }

    fn truth(&mut self, truth: bool) -> Value {
        self.cursor.advance();
        Value::Bool(truth)
    }

    /// What is neither a literal nor has a sign: a parenthesis, a function or a name.
    fn primary(&mut self, expected: &str) -> Parsed<Part> {
        let token = self.cursor.token;
        match token.kind {
            Kind::Symbol("(") => return self.parenthesis(),
            Kind::Word(word) if is_reserved(word) => return Err(self.cursor.unexpected(expected)),
            Kind::Word(word) if self.cursor.peek() == Kind::Symbol("(") => {
                if let Some(predicate) = self.function(word)? {
                    return self.term(predicate, token.start);
                }
            }
            Kind::Word(_) | Kind::DoubleQuoted(_) => {}
            _ => return Err(self.cursor.unexpected(expected)),
        }
        Ok(Part::value(Operand::Reference(self.reference()?), token.start))
    }

    fn parenthesis(&mut self) -> Parsed<Part> {
        self.cursor.enter()?;
        let start = self.cursor.advance().start;
        let inner = self.disjunction()?;
        self.cursor.expect_symbol(")", "an operator or `)`")?;
        self.cursor.leave();
        Ok(Part { node: inner.node, start })
    }

    /// The number that is next, after a sign at byte `start` or without one.
    fn number(&mut self, is_negative: bool, start: usize) -> Parsed<Value> {
        Ok(match self.cursor.advance().kind {
            Kind::Float(value) => Value::Float(if is_negative { -value } else { value }),
            Kind::Integer(digits) => Value::Int(integer(digits, is_negative).ok_or_else(|| {
                self.cursor
                    .error_at(start, "an integer in 64 bits")
                    .with_hint("with a decimal point it is a floating-point number")
            })?),
            _ => return Err(self.cursor.unexpected("a number")),
        })
    }

    fn is_instant(&self, word: &str) -> bool {
        let is_name = word.eq_ignore_ascii_case("TIMESTAMP") || word.eq_ignore_ascii_case("DATE");
        is_name && self.is_text(self.cursor.peek())
    }

    /// `TIMESTAMP '...'` or `DATE '...'`.
    fn instant(&mut self, word: &str) -> Parsed<Value> {
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

    /// The name that is next, in double quotes or not, or `ANYCASE(name)`.
    fn reference(&mut self) -> Parsed<Reference> {
        let token = self.cursor.token;
        match token.kind {
            Kind::Word(word) if word.eq_ignore_ascii_case("ANYCASE") && self.cursor.peek() == Kind::Symbol("(") => {
                self.cursor.advance();
                self.cursor.advance();
                let name = self.name()?;
                self.cursor.expect_symbol(")", "`)`")?;
                Ok(any_case(&name))
            }
            Kind::Word(word) if !is_reserved(word) => {
                self.cursor.advance();
                Ok(self.named(word))
            }
            Kind::DoubleQuoted(raw) if self.dialect == Dialect::Jms => {
                self.cursor.advance();
                Ok(Reference::property(&unquote(raw, '"')))
            }
            _ => Err(self.cursor.unexpected("a name")),
        }
    }

    /// What the unquoted `word` stands for.
    fn named(&self, word: &str) -> Reference {
        match self.dialect {
            Dialect::Jms => match word {
                "topic" => Reference::Topic,
                "body" => Reference::Body,
                name => Reference::property(name),
            },
            Dialect::Cbm => match word.to_lowercase().as_str() {
                "topic" => Reference::Topic,
                "body" => Reference::Body,
                "from" => any_case("author"),
                name => any_case(name),
            },
        }
    }

    fn name(&mut self) -> Parsed<String> {
        let name = match self.cursor.token.kind {
            Kind::Word(word) if !is_reserved(word) => word.to_owned(),
            Kind::DoubleQuoted(raw) => unquote(raw, '"'),
            _ => return Err(self.cursor.unexpected("a name")),
        };
        self.cursor.advance();
        Ok(name)
    }

    fn is_text(&self, kind: Kind<'_>) -> bool {
        match kind {
            Kind::SingleQuoted(_) => true,
            Kind::DoubleQuoted(_) => self.dialect == Dialect::Cbm,
            _ => false,
        }
    }

    /// The text in quotes that is next, and the byte at which it begins.
    fn text(&mut self, expected: &str) -> Parsed<(String, usize)> {
        let Token { kind, start, .. } = self.cursor.token;
        let text = match kind {
            Kind::SingleQuoted(raw) => unquote(raw, '\''),
            Kind::DoubleQuoted(raw) if self.dialect == Dialect::Cbm => unquote(raw, '"'),
            Kind::DoubleQuoted(_) => {
                return Err(self.cursor.unexpected(expected).with_hint("a text stands in single quotes"));
            }
            _ => return Err(self.cursor.unexpected(expected)),
        };
        self.cursor.advance();
        Ok((text, start))
    }

    // Functions -------------------------------------------------------------------------------------------------

    /// The predicate that the function `word` makes of its arguments; None, and nothing read, when there is none
    /// of that name.
    fn function(&mut self, word: &str) -> Parsed<Option<Predicate>> {
        let function = match word.to_ascii_uppercase().as_str() {
            "CONTAINS" => Self::contains,
            "NEAR" => Self::near,
            "TOPIC" => Self::topic,
            "PREFIX" => Self::prefix,
            "REGEX" => Self::regex,
            "EXISTS" => Self::exists,
            _ => return Ok(None),
        };
        self.cursor.advance();
        self.cursor.advance();
        let predicate = function(self)?;
        self.cursor.expect_symbol(")", "`)`")?;
        Ok(Some(predicate))
    }

    fn comma(&mut self) -> Parsed<()> {
        self.cursor.expect_symbol(",", "`,`")
    }

    fn contains(&mut self) -> Parsed<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let (text, start) = self.text("a word or phrase in quotes")?;
        let phrase = Phrase::new(&text).ok_or_else(|| self.cursor.error_at(start, "a text with a word in it"))?;
        Ok(Predicate::Contains(reference, phrase))
    }

    fn near(&mut self) -> Parsed<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let a = self.one_word()?;
        self.comma()?;
        let b = self.one_word()?;
        let distance = if self.cursor.eat_symbol(",") { self.distance()? } else { NEAR_DISTANCE };
        Ok(Predicate::Near(reference, a, b, distance))
    }

    fn one_word(&mut self) -> Parsed<Phrase> {
        let (text, start) = self.text("a word in quotes")?;
        Phrase::new(&text)
            .filter(|phrase| phrase.words().len() == 1)
            .ok_or_else(|| self.cursor.error_at(start, "a text of one word"))
    }

    fn distance(&mut self) -> Parsed<u32> {
        let expected = "a number from 1 to 4294967295";
        match self.cursor.token.kind {
            Kind::Integer(digits) => match digits.parse() {
                Ok(distance @ 1..) => {
                    self.cursor.advance();
                    Ok(distance)
                }
                _ => Err(self.cursor.unexpected(expected)),
            },
            _ => Err(self.cursor.unexpected(expected)),
        }
    }

    fn topic(&mut self) -> Parsed<Predicate> {
        let (pattern, _) = self.text("a topic pattern in quotes")?;
        let mut dialect = topic::Dialect::Amqp;
        if self.cursor.eat_symbol(",") {
            let expected = "'amqp', 'openamq' or 'openamq-program'";
            let (name, start) = self.text(expected)?;
            dialect = topic::Dialect::from_name(&name).ok_or_else(|| self.cursor.error_at(start, expected))?;
        }
        Ok(Predicate::Topic(TopicPattern::new(&pattern, dialect)))
    }

    fn prefix(&mut self) -> Parsed<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let (prefix, _) = self.text("a text in quotes")?;
        Ok(Predicate::Prefix(reference, prefix.into()))
    }

    fn regex(&mut self) -> Parsed<Predicate> {
        let reference = self.reference()?;
        self.comma()?;
        let (text, start) = self.text("a regular expression in quotes")?;
        match Pattern::new(&text) {
            Ok(pattern) => Ok(Predicate::Regex(reference, pattern)),
            Err(reason) => Err(self.cursor.error_at(start, "a regular expression").with_hint(reason)),
        }
    }

    fn exists(&mut self) -> Parsed<Predicate> {
        Ok(Predicate::Exists(self.reference()?))
    }

    // From parts to conditions and values -----------------------------------------------------------------------

    /// A predicate, negated or not, that begins at byte `start`.
    fn term(&mut self, predicate: impl Into<Expr>, start: usize) -> Parsed<Part> {
        self.cursor.count_term(start)?;
        Ok(Part::condition(predicate, start))
    }

    /// `part` as a condition: a bare identifier, TRUE and FALSE are conditions too.
    fn as_condition(&mut self, part: Part) -> Parsed<Expr> {
        let predicate = match part.node {
            Node::Condition(expr) => return Ok(expr),
            Node::Value(Operand::Reference(reference)) => Predicate::Truth(reference),
            Node::Value(Operand::Literal(Value::Bool(truth))) => Predicate::Constant(truth),
            Node::Value(_) => {
                let hint = "compare it with something";
                return Err(self.cursor.error_at(part.start, "a condition").with_hint(hint));
            }
        };
        self.cursor.count_term(part.start)?;
        Ok(predicate.into())
    }

    fn as_operand(&self, part: Part) -> Parsed<Placed> {
        match part.node {
            Node::Value(operand) => Ok(Placed { operand, start: part.start }),
            Node::Condition(_) => Err(self.cursor.error_at(part.start, "a value, not a condition")),
        }
    }

    fn not_literal(&self, placed: Placed, keyword: &str) -> Parsed<Operand> {
        match placed.operand {
            Operand::Literal(_) => Err(self.cursor.error_at(placed.start, format!("a name before {keyword}"))),
            operand => Ok(operand),
        }
    }
}

/// How tightly an arithmetic operator binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Rank {
    Sum,
    Product,
}

fn arithmetic(kind: Kind<'_>) -> Option<(Arithmetic, Rank)> {
    match kind {
        Kind::Symbol("+") => Some((Arithmetic::Add, Rank::Sum)),
        Kind::Symbol("-") => Some((Arithmetic::Subtract, Rank::Sum)),
        Kind::Symbol("*") => Some((Arithmetic::Multiply, Rank::Product)),
        Kind::Symbol("/") => Some((Arithmetic::Divide, Rank::Product)),
        _ => None,
    }
}

/// The comparison that `symbol` stands for, in either language.
pub(super) fn comparison(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "=" | "==" => Comparison::Equal,
        "<>" | "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn is_predicate_keyword(word: &str) -> bool {
    ["IS", "UNDER", "BETWEEN", "IN", "LIKE"].iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn any_case(name: &str) -> Reference {
    Reference::Property(Name { text: name.to_lowercase().into(), any_case: true })
}

/// `digits` as an integer of 64 bits, the smallest included.
fn integer(digits: &str, is_negative: bool) -> Option<i64> {
    let magnitude: i128 = digits.parse().ok()?;
    i64::try_from(if is_negative { -magnitude } else { magnitude }).ok()
}

/// `- operand`, folded into a number.
fn negative(operand: Operand) -> Operand {
    match operand {
        Operand::Literal(Value::Int(value)) if value != i64::MIN => Operand::Literal(Value::Int(-value)),
        Operand::Literal(Value::Float(value)) => Operand::Literal(Value::Float(-value)),
        other => Operand::Negate(Box::new(other)),
    }
}

/// `+ operand`: a number itself. Of anything else it is `0 + operand`, which is unknown of what is no number.
fn positive(operand: Operand) -> Operand {
    match operand {
        Operand::Literal(Value::Int(_) | Value::Float(_)) => operand,
        other => Operand::Arithmetic(Box::new(Operand::Literal(Value::Int(0))), Arithmetic::Add, Box::new(other)),
    }
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

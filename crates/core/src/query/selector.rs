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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Body, Message, Properties};

    fn read(text: &str, dialect: Dialect) -> Query {
        parse(text, dialect).unwrap_or_else(|error| panic!("{text}: {error} {:?}", error.hint))
    }

    /// The canonical text, which reads back as the same query.
    fn canonical(text: &str) -> String {
        let query = read(text, Dialect::Jms);
        let canonical = query.to_string();
        assert_eq!(parse(&canonical, Dialect::Jms), Ok(query), "{canonical}");
        canonical
    }

    fn cbm(text: &str) -> String {
        let query = read(text, Dialect::Cbm);
        let canonical = query.to_string();
        assert_eq!(parse(&canonical, Dialect::Jms), Ok(query), "{canonical}");
        canonical
    }

    /// Where `text` is refused, with the hint where there is one, else with what was expected.
    fn refused(text: &str) -> (usize, String) {
        let error = parse(text, Dialect::Jms).expect_err(text);
        (error.position, error.hint.unwrap_or(error.expected))
    }

    fn is_refused_at(text: &str, position: usize) {
        assert_eq!(refused(text).0, position, "{text}: {}", refused(text).1);
    }

    #[test]
    fn ranks_and_negations() {
        assert_eq!(canonical("NOT a > 1 AND b OR c"), "NOT a > 1 AND b OR c");
        assert_eq!(canonical("(a OR b) AND NOT (c OR NOT d)"), "(a OR b) AND NOT (c OR NOT d)");
        assert_eq!(canonical("((a AND (b)) AND c)"), "a AND b AND c");
        assert_eq!(canonical("not a not like 'x' or a is not null"), "NOT a NOT LIKE 'x' OR a IS NOT NULL");
        assert_eq!(canonical("a not between 1 and 2 and b"), "a NOT BETWEEN 1 AND 2 AND b");
        assert_eq!(canonical("a != 'x'"), "a <> 'x'");
        assert_eq!(canonical(" \n"), "TRUE");
    }

    #[test]
    fn arithmetic_keeps_only_the_parentheses_it_needs() {
        assert_eq!(canonical("a + (b * c) - (d - e) > 1"), "a + b * c - (d - e) > 1");
        assert_eq!(canonical("(a + b) * c / (d / e) = (1)"), "(a + b) * c / (d / e) = 1");
        assert_eq!(canonical("-(a + 1) = - -a"), "-(a + 1) = - -a");
        assert_eq!(canonical("a - -5 = -(5) * -b"), "a - -5 = -5 * -b");
        assert_eq!(canonical("+a = +5"), "0 + a = 5");
        assert_eq!(canonical("a-1=0"), "a - 1 = 0");
    }

    #[test]
    fn numbers() {
        assert_eq!(canonical("a = -9223372036854775808"), "a = -9223372036854775808");
        assert_eq!(canonical("a = - -9223372036854775808"), "a = - -9223372036854775808");
        assert_eq!(canonical("a IN (1., .5, 1.E1, 4E-10, 042, +6.2)"), "a IN (1.0, 0.5, 10.0, 4e-10, 42, 6.2)");
        assert_eq!(canonical("a < 1e999 AND a > -1e999"), "a < 1e999 AND a > -1e999");
        is_refused_at("a = 9223372036854775808", 4);
        is_refused_at("a = -9223372036854775809", 4);
        assert_eq!(refused("a = 57L"), (4, "numbers have no suffix: 57".into()));
        is_refused_at("1uncorrect IS NULL", 0);
        is_refused_at("a = 0x1F", 4);
    }

    #[test]
    fn names() {
        assert_eq!(canonical("\"a b\" AND \"say \"\"x\"\"\" AND \"\""), "\"a b\" AND \"say \"\"x\"\"\" AND \"\"");
        assert_eq!(canonical("topic = 'a' AND \"topic\" = 'a'"), "topic = 'a' AND \"topic\" = 'a'");
        assert_eq!(canonical("Topic AND body IS NULL"), "Topic AND body IS NULL");
        assert_eq!(canonical("größe = 1 AND $a.b_2.c = 2"), "größe = 1 AND $a.b_2.c = 2");
        assert_eq!(canonical("\"and\" AND under UNDER 'x'"), "\"and\" AND under UNDER 'x'");
        assert_eq!(
            canonical("Date = 1 AND timestamp = near AND contains"),
            "Date = 1 AND timestamp = near AND contains"
        );
        assert_eq!(canonical("ANYCASE(From) AND ANYCASE(\"Topic\")"), "ANYCASE(from) AND ANYCASE(\"topic\")");
    }

    #[test]
    fn functions() {
        assert_eq!(canonical("contains(body, 'it''s here')"), "CONTAINS(body, 'it''s here')");
        assert_eq!(canonical("NEAR(body,'a','b') AND NEAR(x,'a','b',4294967295)"), {
            "NEAR(body, 'a', 'b', 5) AND NEAR(x, 'a', 'b', 4294967295)"
        });
        assert_eq!(canonical("TOPIC('a.#') OR TOPIC('a.*', 'openamq')"), "TOPIC('a.#') OR TOPIC('a.*', 'openamq')");
        assert_eq!(canonical("PREFIX(topic, 'a') AND NOT REGEX(\"x y\", '^a')"), {
            "PREFIX(topic, 'a') AND NOT REGEX(\"x y\", '^a')"
        });
        assert_eq!(canonical("EXISTS(ANYCASE(x))"), "EXISTS(ANYCASE(x))");
        is_refused_at("CONTAINS(body, '!?')", 15);
        is_refused_at("NEAR(body, 'a b', 'c')", 11);
        is_refused_at("NEAR(body, 'a', 'c', 0)", 21);
        is_refused_at("TOPIC('a', 'mqtt')", 11);
        is_refused_at("REGEX(body, '(?=a)')", 12);
        is_refused_at("CONTAINS(body, 'a') = TRUE", 0);
        assert_eq!(refused("CONTAIN(body, 'a')"), (7, "did you mean `CONTAINS`?".into()));
    }

    #[test]
    fn instants() {
        let expected = "d = TIMESTAMP '2002-08-22T18:26:25Z'";
        for form in ["2002-08-22T18:26:25Z", "2002-08-22 18:26:25", "2002-08-22T20:26:25+02:00"] {
            assert_eq!(canonical(&format!("d = timestamp '{form}'")), expected, "{form}");
        }
        assert_eq!(canonical("d < TIMESTAMP '2002-08-22T18:26:25.5Z'"), "d < TIMESTAMP '2002-08-22T18:26:25.500Z'");
        assert_eq!(canonical("d IN (DATE '2002-08-22')"), "d IN (TIMESTAMP '2002-08-22T00:00:00Z')");
        is_refused_at("d = DATE '2002-8-22'", 9);
        is_refused_at("d = TIMESTAMP 'yesterday'", 14);
        is_refused_at("d = TIMESTAMP '0001-01-01T00:00:00+01:00'", 14);
    }

    #[test]
    fn the_examples_of_the_paper_are_read_as_printed() {
        assert_eq!(
            cbm("Author = \"James\" and source = \"CNN\""),
            "ANYCASE(author) = 'James' AND ANYCASE(source) = 'CNN'"
        );
        assert_eq!(cbm("From = \"Someone (Someone@yahoo.com)\""), "ANYCASE(author) = 'Someone (Someone@yahoo.com)'");
        assert_eq!(cbm("Subject LIKE \"%question%\""), "ANYCASE(subject) LIKE '%question%'");
        assert_eq!(cbm("Body LIKE %garlic%"), "body LIKE '%garlic%'");
        assert_eq!(cbm("Body LIKE %warmer%"), "body LIKE '%warmer%'");
        assert_eq!(cbm("(Body NOT LIKE %a%) or TOPIC = 'x'"), "body NOT LIKE '%a%' OR topic = 'x'");
        assert_eq!(cbm("Body LIKE !%_ ESCAPE \"!\" and x in (\"a\", 1)"), {
            "body LIKE '!%_' ESCAPE '!' AND ANYCASE(x) IN ('a', 1)"
        });
        let error = parse("Body LIKE", Dialect::Cbm).expect_err("no pattern");
        assert_eq!((error.position, &*error.expected), (9, "a pattern in quotes"));
    }

    #[test]
    fn conditions_and_values_are_not_mixed_up() {
        for (text, position) in [
            ("3 + 5", 0),
            ("TRUE AND 3+5", 9),
            ("'x'", 0),
            ("a AND -b", 6),
            ("(a = 1) = TRUE", 0),
            ("a = (b = 1)", 4),
            ("a = b = c", 6),
            ("TRUE = 1", 7),
            ("1 <> FALSE", 5),
            ("a < TRUE", 2),
            ("a BETWEEN TRUE AND 2", 10),
            ("FALSE BETWEEN a AND 2", 0),
            ("a LIKE 2", 7),
            ("a LIKE \"b\"", 7),
            ("a LIKE 'b' ESCAPE 'xy'", 18),
            ("'a' LIKE 'a'", 0),
            ("'a' IN ('a')", 0),
            ("5 IS NULL", 0),
            ("a IN (b)", 6),
            ("a IN ()", 6),
            ("a IN (-b)", 6),
            ("a IN ('x' 'y')", 10),
            ("topic UNDER 'x'", 0),
            ("a UNDER b", 8),
            ("NULL = 0", 0),
            ("NOT = 0", 4),
            ("a IS TRUE", 5),
            ("a NOT 5", 6),
            ("a b", 2),
            ("(a", 2),
            ("a)", 1),
        ] {
            is_refused_at(text, position);
        }
    }

    #[test]
    fn errors_guess_what_was_meant() {
        assert_eq!(refused("price >> 3"), (7, "did you mean `>`?".into()));
        assert_eq!(parse("price >> 3", Dialect::Jms).expect_err("not a query").expected, "a number");
        assert_eq!(refused("a == 1"), (3, "did you mean `=`?".into()));
        assert_eq!(refused("a => 1"), (3, "did you mean `>=`?".into()));
        assert_eq!(refused("a && b"), (2, "did you mean `AND`?".into()));
        assert_eq!(refused("!a"), (0, "did you mean `NOT`?".into()));
        assert_eq!(refused("a = 1 AMD  b = 2"), (6, "did you mean `AND`?".into()));
        assert_eq!(refused("a BETWEN 1 AND 2"), (2, "did you mean `BETWEEN`?".into()));
        assert_eq!(refused("a LIEK 'x'"), (2, "did you mean `LIKE`?".into()));
        assert_eq!(refused("é = 'x"), (4, "a closing `'` for this one".into()));
        assert_eq!(refused("a = ‘x’"), (4, "quotes are straight: ' or \"".into()));
        assert_eq!(refused("in = 5"), (0, "in double quotes it is a name: \"in\"".into()));
    }

    #[test]
    fn limits_hold() {
        let nested = |open: &str, depth: usize| open.repeat(depth) + "a" + &")".repeat(depth) + " = 1";
        canonical(&nested("(", 100));
        is_refused_at(&nested("(", 101), 100);
        canonical(&("NOT ".repeat(100) + "a"));
        is_refused_at(&("NOT ".repeat(101) + "a"), 400);
        canonical(&("- ".repeat(100) + "a = 1"));
        canonical(&nested("-(b * ", 50));
        is_refused_at(&("a = ".to_owned() + &"+".repeat(101) + "a"), 104);
        canonical(&vec!["a"; 1_000].join(" OR "));
        is_refused_at(&vec!["a"; 1_001].join(" OR "), 5_000);
        canonical(&format!("a = {}", vec!["b"; 1_001].join("+")));
        is_refused_at(&format!("a = {}", vec!["b"; 1_002].join("+")), 4 + 2_001);
        canonical(&format!("a IN ({})", vec!["1"; 10_000].join(",")));
        is_refused_at(&format!("a IN ({})", vec!["1"; 10_001].join(",")), 6 + 20_000);
        is_refused_at(&"a".repeat(65_537), 65_536);
        canonical(&format!("a IN ({})", vec!["1e15"; 3_000].join(",")));
        is_refused_at(&format!("a IN ({})", vec!["1e15"; 4_000].join(",")), 0);
    }

    #[test]
    fn whatever_the_text_it_is_read_or_refused() {
        let words: Vec<&str> =
            "a b topic 'x' \"n\" 1 2.5 -1 ( ) ( ) , = <> < + - * / AND OR NOT IN LIKE BETWEEN IS NULL TRUE \
             ESCAPE UNDER CONTAINS( NEAR( ANYCASE( DATE 'y % \u{301} é"
                .split(' ')
                .collect();
        let mut state = 7_u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let properties = Properties::default();
        let mut read = 0;
        for _ in 0..30_000 {
            let text: Vec<&str> = (0..=next(9)).map(|_| words[next(words.len())]).collect();
            let text = text.join(" ");
            match parse(&text, Dialect::Jms) {
                Ok(query) => {
                    canonical(&text);
                    let _ = query.evaluate(&Message::new("", &properties, Body::Absent), None);
                    read += 1;
                }
                Err(error) => assert!(error.position <= text.chars().count(), "{text}"),
            }
            let _ = parse(&text, Dialect::Cbm);
            let _ = crate::query::boolean::parse(&text);
        }
        assert!(read > 300, "too few were read to mean much: {read}");
    }
}

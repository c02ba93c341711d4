//! Queries as bytes: the records of a snapshot.
//!
//! A tree is written operator first, one tag byte each; counts and lengths are LEB128, numbers little-endian, texts
//! UTF-8. Tags are part of the format: a new kind of predicate takes a new tag and a new format version. What has to
//! be compiled (regular expressions, LIKE, phrases) is stored as text and compiled when it is read.

use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Arithmetic, Comparison, Expr, Name, Operand, Pattern, Predicate, Reference, ValueSet};
use crate::query::like::LikePattern;
use crate::text::Phrase;
use crate::topic::{Dialect, TopicPattern};

/// Trees that are deeper are refused. A query of the languages stays below: nesting is at most 100 there (an AND in an
/// OR counts once for both), and a chain of arithmetic has at most 1,000 operators.
const DEPTH_MAX: usize = 1_500;

/// Append the record of `query` to `bytes`.
pub fn encode(query: &Query, bytes: &mut Vec<u8>) {
    bytes.push(u8::from(query.is_fields()));
    encode_expr(query.expr(), bytes);
}

/// The query of one whole record.
///
/// # Errors
/// What is wrong with it.
pub fn decode(record: &[u8]) -> Result<Query, String> {
    let mut reader = Reader { rest: record };
    let is_fields = reader.flag()?;
    let expr = reader.expr(DEPTH_MAX)?;
    if !reader.rest.is_empty() {
        return Err(format!("{} bytes follow the query", reader.rest.len()));
    }
    let query = Query::new(expr).map_err(|error| format!("a query over the limits: expected {}", error.expected))?;
    Ok(query.with_fields_mark(is_fields))
}

const NOT: u8 = 1;
const AND: u8 = 2;
const OR: u8 = 3;
const CONSTANT: u8 = 16;
const TRUTH: u8 = 17;
const COMPARE: u8 = 18;
const BETWEEN: u8 = 19;
const IN: u8 = 20;
const LIKE: u8 = 21;
const IS_NULL: u8 = 22;
const EXISTS: u8 = 23;
const CONTAINS: u8 = 24;
const NEAR: u8 = 25;
const TOPIC_PATTERN: u8 = 26;
const PREFIX: u8 = 27;
const REGEX: u8 = 28;
const UNDER: u8 = 29;

const TOPIC: u8 = 0;
const BODY: u8 = 1;
const PROPERTY: u8 = 2;
const PROPERTY_ANY_CASE: u8 = 3;

const LITERAL: u8 = 0;
const REFERENCE: u8 = 1;
const NEGATE: u8 = 2;
const ARITHMETIC: u8 = 3;

const FALSE: u8 = 0;
const TRUE: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const TEXT: u8 = 4;
const TIMESTAMP: u8 = 5;
const NULL: u8 = 6;
const PRESENT: u8 = 7;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
const ARITHMETICS: [Arithmetic; 4] = [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide];
const DIALECTS: [Dialect; 3] = [Dialect::Amqp, Dialect::OpenAmq, Dialect::OpenAmqProgram];

fn encode_expr(expr: &Expr, bytes: &mut Vec<u8>) {
    match expr {
        Expr::Predicate(predicate) => encode_predicate(predicate, bytes),
        Expr::Not(inner) => {
            bytes.push(NOT);
            encode_expr(inner, bytes);
        }
        Expr::And(children) | Expr::Or(children) => {
            bytes.push(if matches!(expr, Expr::And(_)) { AND } else { OR });
            encode_count(children.len(), bytes);
            children.iter().for_each(|child| encode_expr(child, bytes));
        }
    }
}

fn encode_predicate(predicate: &Predicate, bytes: &mut Vec<u8>) {
    match predicate {
        Predicate::Constant(truth) => bytes.extend([CONSTANT, u8::from(*truth)]),
        Predicate::Truth(reference) => encode_tagged(TRUTH, reference, bytes),
        Predicate::Compare(left, op, right) => {
            bytes.extend([COMPARE, place(&COMPARISONS, op)]);
            encode_operand(left, bytes);
            encode_operand(right, bytes);
        }
        Predicate::Between(operand, low, high) => {
            bytes.push(BETWEEN);
            [operand, low, high].into_iter().for_each(|operand| encode_operand(operand, bytes));
        }
        Predicate::In(operand, values) => {
            bytes.push(IN);
            encode_operand(operand, bytes);
            encode_count(values.values().len(), bytes);
            values.values().iter().for_each(|value| encode_value(value, bytes));
        }
        Predicate::Like(operand, pattern) => {
            bytes.push(LIKE);
            encode_operand(operand, bytes);
            encode_text(pattern.pattern(), bytes);
            encode_text(&pattern.escape().map(String::from).unwrap_or_default(), bytes);
        }
        Predicate::IsNull(operand) => {
            bytes.push(IS_NULL);
            encode_operand(operand, bytes);
        }
        Predicate::Exists(reference) => encode_tagged(EXISTS, reference, bytes),
        Predicate::Contains(reference, phrase) => {
            encode_tagged(CONTAINS, reference, bytes);
            encode_text(phrase.text(), bytes);
        }
        Predicate::Near(reference, a, b, distance) => {
            encode_tagged(NEAR, reference, bytes);
            encode_text(a.text(), bytes);
            encode_text(b.text(), bytes);
            encode_count(*distance as usize, bytes);
        }
        Predicate::Topic(pattern) => {
            bytes.extend([TOPIC_PATTERN, place(&DIALECTS, &pattern.dialect())]);
            encode_text(pattern.text(), bytes);
        }
        Predicate::Prefix(reference, prefix) => {
            encode_tagged(PREFIX, reference, bytes);
            encode_text(prefix, bytes);
        }
        Predicate::Regex(reference, pattern) => {
            encode_tagged(REGEX, reference, bytes);
            encode_text(pattern.as_str(), bytes);
        }
        Predicate::Under(reference, ancestor) => {
            encode_tagged(UNDER, reference, bytes);
            encode_text(ancestor, bytes);
        }
    }
}

fn encode_tagged(tag: u8, reference: &Reference, bytes: &mut Vec<u8>) {
    bytes.push(tag);
    encode_reference(reference, bytes);
}

fn encode_reference(reference: &Reference, bytes: &mut Vec<u8>) {
    match reference {
        Reference::Topic => bytes.push(TOPIC),
        Reference::Body => bytes.push(BODY),
        Reference::Property(name) => {
            bytes.push(if name.any_case { PROPERTY_ANY_CASE } else { PROPERTY });
            encode_text(&name.text, bytes);
        }
    }
}

fn encode_operand(operand: &Operand, bytes: &mut Vec<u8>) {
    match operand {
        Operand::Literal(value) => {
            bytes.push(LITERAL);
            encode_value(value, bytes);
        }
        Operand::Reference(reference) => encode_tagged(REFERENCE, reference, bytes),
        Operand::Negate(inner) => {
            bytes.push(NEGATE);
            encode_operand(inner, bytes);
        }
        Operand::Arithmetic(left, op, right) => {
            bytes.extend([ARITHMETIC, place(&ARITHMETICS, op)]);
            encode_operand(left, bytes);
            encode_operand(right, bytes);
        }
    }
}

fn encode_value(value: &Value, bytes: &mut Vec<u8>) {
    let mut number = |tag, bits: u64| {
        bytes.push(tag);
        bytes.extend(bits.to_le_bytes());
    };
    match value {
        Value::Bool(false) => bytes.push(FALSE),
        Value::Bool(true) => bytes.push(TRUE),
        Value::Int(value) => number(INT, value.cast_unsigned()),
        Value::Float(value) => number(FLOAT, value.to_bits()),
        Value::Timestamp(micros) => number(TIMESTAMP, micros.cast_unsigned()),
        Value::Text(text) => {
            bytes.push(TEXT);
            encode_text(text, bytes);
        }
        Value::Present => bytes.push(PRESENT),
        // A literal is never a list or a mapping; were it one, it would be as unknown as null in every comparison.
        Value::Null | Value::List(_) | Value::Map(_) => bytes.push(NULL),
    }
}

/// Append a text and its length.
pub fn encode_text(text: &str, bytes: &mut Vec<u8>) {
    encode_count(text.len(), bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// Append a count as LEB128: seven bits a byte, the low ones first.
pub fn encode_count(count: usize, bytes: &mut Vec<u8>) {
    let mut rest = count as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Where `item` stands in the table that the format numbers it by.
fn place<T: PartialEq>(table: &[T], item: &T) -> u8 {
    let place = table.iter().position(|other| other == item).expect("every operator is in its table");
    u8::try_from(place).expect("a table has fewer than 256 entries")
}

/// Reads what the functions above write, and believes none of it.
pub struct Reader<'a> {
    /// What has not been read yet.
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("the record ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// A Boolean.
    pub fn flag(&mut self) -> Result<bool, String> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(unknown("flag", other)),
        }
    }

    fn word(&mut self) -> Result<u64, String> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// What [`encode_count`] wrote.
    pub fn count(&mut self) -> Result<usize, String> {
        let mut count = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            count |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(count).map_err(|_| "a count beyond this machine".to_owned());
            }
        }
        Err("a count without an end".to_owned())
    }

    /// What [`encode_text`] wrote.
    pub fn text(&mut self) -> Result<&'a str, String> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text that is not UTF-8".to_owned())
    }

    /// `count` things, each of which takes at least one byte.
    fn many<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let count = self.count()?;
        if count > self.rest.len() {
            return Err(format!("{count} things in {} bytes", self.rest.len()));
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn one_of<T: Copy>(&mut self, table: &[T], what: &str) -> Result<T, String> {
        let place = self.byte()?;
        table.get(usize::from(place)).copied().ok_or_else(|| unknown(what, place))
    }

    fn expr(&mut self, depth: usize) -> Result<Expr, String> {
        let depth = deeper(depth)?;
        Ok(match self.byte()? {
            NOT => Expr::Not(Box::new(self.expr(depth)?)),
            AND => Expr::And(self.many(|reader| reader.expr(depth))?),
            OR => Expr::Or(self.many(|reader| reader.expr(depth))?),
            tag => Expr::Predicate(self.predicate(tag, depth)?),
        })
    }

    fn predicate(&mut self, tag: u8, depth: usize) -> Result<Predicate, String> {
        Ok(match tag {
            CONSTANT => Predicate::Constant(self.flag()?),
            TRUTH => Predicate::Truth(self.reference()?),
            COMPARE => {
                let op = self.one_of(&COMPARISONS, "comparison")?;
                Predicate::Compare(self.operand(depth)?, op, self.operand(depth)?)
            }
            BETWEEN => Predicate::Between(self.operand(depth)?, self.operand(depth)?, self.operand(depth)?),
            IN => Predicate::In(self.operand(depth)?, ValueSet::new(self.many(Self::value)?)),
            LIKE => Predicate::Like(self.operand(depth)?, self.like()?),
            IS_NULL => Predicate::IsNull(self.operand(depth)?),
            EXISTS => Predicate::Exists(self.reference()?),
            CONTAINS => Predicate::Contains(self.reference()?, self.phrase()?),
            NEAR => Predicate::Near(self.reference()?, self.phrase()?, self.phrase()?, self.distance()?),
            TOPIC_PATTERN => {
                let dialect = self.one_of(&DIALECTS, "topic dialect")?;
                Predicate::Topic(TopicPattern::new(self.text()?, dialect))
            }
            PREFIX => Predicate::Prefix(self.reference()?, self.text()?.into()),
            REGEX => Predicate::Regex(self.reference()?, Pattern::new(self.text()?)?),
            UNDER => Predicate::Under(self.reference()?, self.text()?.into()),
            other => return Err(unknown("predicate", other)),
        })
    }

    fn reference(&mut self) -> Result<Reference, String> {
        Ok(match self.byte()? {
            TOPIC => Reference::Topic,
            BODY => Reference::Body,
            tag @ (PROPERTY | PROPERTY_ANY_CASE) => {
                Reference::Property(Name { text: self.text()?.into(), any_case: tag == PROPERTY_ANY_CASE })
            }
            other => return Err(unknown("reference", other)),
        })
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, String> {
        let depth = deeper(depth)?;
        Ok(match self.byte()? {
            LITERAL => Operand::Literal(self.value()?),
            REFERENCE => Operand::Reference(self.reference()?),
            NEGATE => Operand::Negate(Box::new(self.operand(depth)?)),
            ARITHMETIC => {
                let op = self.one_of(&ARITHMETICS, "arithmetic operator")?;
                Operand::Arithmetic(Box::new(self.operand(depth)?), op, Box::new(self.operand(depth)?))
            }
            other => return Err(unknown("operand", other)),
        })
    }

    fn value(&mut self) -> Result<Value, String> {
        Ok(match self.byte()? {
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => Value::Int(self.word()?.cast_signed()),
            FLOAT => Value::Float(f64::from_bits(self.word()?)),
            TEXT => Value::Text(self.text()?.into()),
            TIMESTAMP => Value::Timestamp(self.word()?.cast_signed()),
            NULL => Value::Null,
            PRESENT => Value::Present,
            other => return Err(unknown("value", other)),
        })
    }

    fn like(&mut self) -> Result<LikePattern, String> {
        let (pattern, escape) = (self.text()?, self.text()?);
        let mut characters = escape.chars();
        match (characters.next(), characters.next()) {
            (escape, None) => Ok(LikePattern::new(pattern, escape)),
            _ => Err("an escape of several characters".to_owned()),
        }
    }

    fn phrase(&mut self) -> Result<Phrase, String> {
        Phrase::new(self.text()?).ok_or_else(|| "a phrase without words".to_owned())
    }

    fn distance(&mut self) -> Result<u32, String> {
        u32::try_from(self.count()?).map_err(|_| "a distance beyond 32 bits".to_owned())
    }
}

fn deeper(depth: usize) -> Result<usize, String> {
    depth.checked_sub(1).ok_or_else(|| format!("a tree deeper than {DEPTH_MAX}"))
}

fn unknown(what: &str, tag: u8) -> String {
    format!("an unknown {what} ({tag})")
}

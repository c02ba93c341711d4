//! Decodes records into queries.

use crate::expensive::Opaque;
use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Expr, Operand, Pattern, Predicate, PropertyName, Reference, ValueSet};
use crate::query::like::LikePattern;
use crate::text::Phrase;
use crate::topic::TopicPattern;

use super::tags::*;

/// Maximum depth of a tree. The query languages stay below: they nest at most 100 levels (an AND in an OR counts once for
/// both), and a chain of arithmetic has at most 1,000 operators.
const DEPTH_MAX: usize = 1_500;

/// The query of one whole record, with the expensive predicates of the table that it was written with.
///
/// # Errors
/// A description of the damage.
pub fn decode(record: &[u8], opaques: &[Opaque]) -> Result<Query, String> {
    let mut decoder = RecordDecoder::new(record, opaques);
    let is_fields = decoder.flag()?;
    let expr = decoder.expr(DEPTH_MAX)?;
    if !decoder.is_at_end() {
        return Err(format!("{} bytes follow the query", decoder.remaining.len()));
    }
    let query = Query::again(expr).map_err(|error| format!("a query over the limits: expected {}", error.expected))?;
    Ok(query.with_fields_mark(is_fields))
}

/// True when a record is a regular expression and nothing else, or its negation. Constant time.
#[must_use]
pub fn is_regex(record: &[u8]) -> bool {
    matches!(record, [_, REGEX, ..] | [_, NOT, REGEX, ..])
}

/// Decodes what `encode` writes, and checks all of it.
pub struct RecordDecoder<'a> {
    remaining: &'a [u8],
    opaques: &'a [Opaque],
}

impl<'a> RecordDecoder<'a> {
    /// A decoder of `bytes`, with the table of expensive predicates that they were written with.
    pub fn new(bytes: &'a [u8], opaques: &'a [Opaque]) -> Self {
        Self { remaining: bytes, opaques }
    }

    /// True when all bytes have been read.
    pub fn is_at_end(&self) -> bool {
        self.remaining.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, remaining) = self.remaining.split_at_checked(count).ok_or("the record ends too early")?;
        self.remaining = remaining;
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

    /// A number of four bytes.
    pub fn half_word(&mut self) -> Result<u32, String> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(word))
    }

    /// A number of eight bytes.
    pub fn word(&mut self) -> Result<u64, String> {
        let mut word = [0; 8];
        word.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// A count in LEB128.
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

    /// A text after its length.
    pub fn text(&mut self) -> Result<&'a str, String> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text that is not UTF-8".to_owned())
    }

    /// A count and that many items, each of which takes at least one byte.
    fn many<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let count = self.count()?;
        if count > self.remaining.len() {
            return Err(format!("{count} things in {} bytes", self.remaining.len()));
        }
        (0..count).map(|_| read(self)).collect()
    }

    /// The item of `table` whose index is in a byte.
    pub fn one_of<T: Copy>(&mut self, table: &[T], what: &str) -> Result<T, String> {
        let index = self.byte()?;
        table.get(usize::from(index)).copied().ok_or_else(|| unknown(what, index))
    }

    fn expr(&mut self, depth: usize) -> Result<Expr, String> {
        let depth = deeper(depth)?;
        Ok(match self.byte()? {
            NOT => Expr::Not(Box::new(self.expr(depth)?)),
            AND => Expr::And(self.many(|decoder| decoder.expr(depth))?),
            OR => Expr::Or(self.many(|decoder| decoder.expr(depth))?),
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
            OPAQUE => Predicate::Opaque(self.opaque()?),
            other => return Err(unknown("predicate", other)),
        })
    }

    fn reference(&mut self) -> Result<Reference, String> {
        Ok(match self.byte()? {
            TOPIC => Reference::Topic,
            BODY => Reference::Body,
            tag @ (PROPERTY | PROPERTY_ANY_CASE) => {
                Reference::Property(PropertyName { text: self.text()?.into(), any_case: tag == PROPERTY_ANY_CASE })
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
            DAY => Value::Day(self.word()?.cast_signed()),
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

    fn opaque(&mut self) -> Result<Opaque, String> {
        let index = self.count()?;
        let beyond = || format!("expensive predicate {index} of {}", self.opaques.len());
        self.opaques.get(index).cloned().ok_or_else(beyond)
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

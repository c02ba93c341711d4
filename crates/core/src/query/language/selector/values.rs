//! Parses values: sums, products, signs and their operands.

use super::{LocatedOperand, ParsedPart, SelectorParser, SelectorResult};
use crate::message::Value;
use crate::query::expr::{Arithmetic, Operand, Reference};
use crate::query::language::lexer::{TokenKind, is_reserved};

impl SelectorParser<'_> {
    /// Parses sums and products; `expected` is the word for a missing operand.
    pub(super) fn arithmetic(&mut self, lowest: Rank, expected: &str) -> SelectorResult<ParsedPart> {
        let mut left = self.sign(expected)?;
        while let Some((op, rank)) = arithmetic(self.cursor.token.kind)
            && rank >= lowest
        {
            let located = self.as_operand(left)?;
            self.cursor.count_operator()?;
            let touches = self.cursor.touches_previous();
            self.cursor.advance();
            let is_dashed = touches && self.cursor.touches_previous() && op == Arithmetic::Subtract;
            let expected = if op == Arithmetic::Add { "a value" } else { "a number" };
            // Operators of one rank lean left, so only products may stand to the right of a sum.
            let right = match rank {
                Rank::Sum => self.arithmetic(Rank::Product, expected)?,
                Rank::Product => self.sign(expected)?,
            };
            let right = self.as_operand(right)?;
            if is_dashed {
                self.look_at_dash(&located, &right);
            }
            let computed = Operand::Arithmetic(Box::new(located.operand), op, Box::new(right.operand));
            left = ParsedPart::value(computed, located.start);
        }
        Ok(left)
    }

    /// Look for a name with a dash, which is read as a subtraction: `header.X-Mailer`.
    fn look_at_dash(&mut self, left: &LocatedOperand, right: &LocatedOperand) {
        let names = [left, right].map(|located| match &located.operand {
            Operand::Reference(Reference::Property(name)) if !located.is_quoted => Some(&name.text),
            _ => None,
        });
        if let [Some(a), Some(b)] = names
            && (a.contains('.') || b.contains('.'))
        {
            let message = format!("this subtracts `{b}` from `{a}`");
            let hint = format!("in double quotes it is one name: \"{}\"", self.cursor.dashed_word_at(left.start));
            self.warnings.add(left.start, message, hint);
        }
    }

    fn sign(&mut self, expected: &str) -> SelectorResult<ParsedPart> {
        let start = self.cursor.token.start;
        if let Some(value) = self.literal()? {
            return Ok(ParsedPart::value(Operand::Literal(value), start));
        }
        let TokenKind::Symbol(sign @ ("+" | "-")) = self.cursor.token.kind else {
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
        Ok(ParsedPart::value(if sign == "-" { negative(operand) } else { positive(operand) }, start))
    }

    /// The next literal; None, with nothing consumed, when something else is next. A sign belongs to its number.
    pub(super) fn literal(&mut self) -> SelectorResult<Option<Value>> {
        let token = self.cursor.token;
        Ok(Some(match token.kind {
            TokenKind::Symbol(sign @ ("+" | "-"))
                if matches!(self.cursor.peek(), TokenKind::Integer(_) | TokenKind::Float(_)) =>
            {
                self.cursor.advance();
                self.number(sign == "-", token.start)?
            }
            TokenKind::Integer(_) | TokenKind::Float(_) => self.number(false, token.start)?,
            TokenKind::Word(word) if word.eq_ignore_ascii_case("TRUE") => self.truth(true),
            TokenKind::Word(word) if word.eq_ignore_ascii_case("FALSE") => self.truth(false),
            TokenKind::Word(word) if self.is_instant(word) => self.instant(word)?,
            kind if self.is_text(kind) => Value::Text(self.text("a text in quotes")?.0.into()),
            _ => return Ok(None),
        }))
    }

    fn truth(&mut self, truth: bool) -> Value {
        self.cursor.advance();
        Value::Bool(truth)
    }

    /// Parses a primary that is no literal and has no sign: a parenthesis, a function or a name.
    fn primary(&mut self, expected: &str) -> SelectorResult<ParsedPart> {
        let token = self.cursor.token;
        match token.kind {
            TokenKind::Symbol("(") => return self.parenthesis(),
            TokenKind::Word(word) if is_reserved(word) => return Err(self.cursor.unexpected(expected)),
            TokenKind::Word(word) if self.cursor.precedes_parenthesis() => {
                if let Some(predicate) = self.function(word)? {
                    return self.term(predicate, token.start);
                }
            }
            TokenKind::Word(_) | TokenKind::DoubleQuoted(_) => {}
            _ => return Err(self.cursor.unexpected(expected)),
        }
        let is_quoted = matches!(token.kind, TokenKind::DoubleQuoted(_));
        Ok(ParsedPart { is_quoted, ..ParsedPart::value(Operand::Reference(self.reference()?), token.start) })
    }

    fn parenthesis(&mut self) -> SelectorResult<ParsedPart> {
        self.cursor.enter()?;
        let start = self.cursor.advance().start;
        let inner = self.disjunction()?;
        self.cursor.expect_symbol(")", "an operator or `)`")?;
        self.cursor.leave();
        Ok(ParsedPart { start, ..inner })
    }

    /// The next number, after a sign at byte `start` or without one.
    fn number(&mut self, is_negative: bool, start: usize) -> SelectorResult<Value> {
        Ok(match self.cursor.advance().kind {
            TokenKind::Float(value) => Value::Float(if is_negative { -value } else { value }),
            TokenKind::Integer(digits) => Value::Int(integer(digits, is_negative).ok_or_else(|| {
                self.cursor
                    .error_at(start, "an integer in 64 bits")
                    .with_hint("with a decimal point it is a floating-point number")
            })?),
            _ => return Err(self.cursor.unexpected("a number")),
        })
    }
}

/// The rank of an arithmetic operator: a higher one binds more tightly.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Rank {
    Sum,
    Product,
}

fn arithmetic(kind: TokenKind<'_>) -> Option<(Arithmetic, Rank)> {
    match kind {
        TokenKind::Symbol("+") => Some((Arithmetic::Add, Rank::Sum)),
        TokenKind::Symbol("-") => Some((Arithmetic::Subtract, Rank::Sum)),
        TokenKind::Symbol("*") => Some((Arithmetic::Multiply, Rank::Product)),
        TokenKind::Symbol("/") => Some((Arithmetic::Divide, Rank::Product)),
        _ => None,
    }
}

/// `digits` as a 64-bit integer, including the smallest one.
fn integer(digits: &str, is_negative: bool) -> Option<i64> {
    if let Ok(magnitude) = digits.parse::<i64>() {
        return Some(if is_negative { -magnitude } else { magnitude });
    }
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

/// `+ operand`: a number stays as it is. Any other operand becomes `0 + operand`, which is unknown unless it is a
/// number.
fn positive(operand: Operand) -> Operand {
    match operand {
        Operand::Literal(Value::Int(_) | Value::Float(_)) => operand,
        other => Operand::Arithmetic(Box::new(Operand::Literal(Value::Int(0))), Arithmetic::Add, Box::new(other)),
    }
}

//! The selector language: JMS message selectors with text, topic, regular-expression and hierarchy functions.
//!
//! JMS selectors are SQL-92 conditional expressions. The canonical text of every query is a selector.
//!
//! The parser descends by rank: OR, AND, NOT, predicates, sums, products, signs, primaries. A parenthesis may contain a
//! condition or a value, which is not known before its end. So every step returns one or the other (`PartNode`), and
//! the step above decides which of them it can use.

mod functions;
mod names;
mod values;

use hashbrown::HashMap;

use crate::error::QueryError;
use crate::message::Value;
use crate::query::expr::{Comparison, Expr, Operand, Pattern, Predicate, Reference, ValueSet};
use crate::query::language::lexer::{Style, TokenCursor, TokenKind, is_identifier, is_reserved};
use crate::query::like::LikePattern;
use crate::query::warning::WarningList;
use crate::query::{COMPILED_BYTES_MAX, IN_VALUES_MAX, Query, TEXT_BYTES_MAX};
use values::Rank;

/// The rules of the selector language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorDialect {
    /// JMS / SQL-92, as defined in `docs/semantics.md`.
    Jms,
    /// The examples of the PNNL paper as printed.
    Cbm,
}

/// Parses `text` as a selector. A blank one selects everything.
///
/// # Errors
/// The position at which parsing failed, and what was expected there.
pub fn parse(text: &str, dialect: SelectorDialect) -> Result<Query, QueryError> {
    parse_within(text, dialect, COMPILED_BYTES_MAX)
}

/// Parse a query whose compiled patterns take at most `bytes_max` together. Compiling stops where they take more.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_within(text: &str, dialect: SelectorDialect, bytes_max: usize) -> Result<Query, QueryError> {
    let bytes_max = bytes_max.min(COMPILED_BYTES_MAX);
    let cursor = TokenCursor::new(text, Style::Selector)?;
    let mut parser = SelectorParser {
        cursor,
        dialect,
        operands: Vec::new(),
        compiled_bytes_max: bytes_max,
        compiled_bytes_left: bytes_max,
        regexes: HashMap::new(),
        warnings: WarningList::default(),
    };
    let expr = match parser.cursor.token.kind {
        TokenKind::End => {
            parser.warnings.add(0, "an empty query is true of every message", "TRUE says so, too");
            Predicate::Constant(true).into()
        }
        _ => parser.whole()?,
    };
    finish(text, expr, parser.warnings)
}

/// True when `name` parses as one property name without double quotes.
#[must_use]
pub fn is_plain_identifier(name: &str) -> bool {
    is_identifier(name) && !is_reserved(name) && name != "topic" && name != "body"
}

/// A query of `expr`, which was parsed from `text`, unless its canonical text could not be parsed.
pub(super) fn finish(text: &str, expr: Expr, warnings: WarningList) -> Result<Query, QueryError> {
    // `1e15,` becomes `1000000000000000.0, `, and nothing that may occur a thousand times grows more.
    const GROWTH_MAX: usize = 8;
    let query = Query { expr, is_fields: false, warnings: warnings.finish(text) };
    if text.len() > TEXT_BYTES_MAX / GROWTH_MAX && query.to_string().len() > TEXT_BYTES_MAX {
        return Err(QueryError::at_byte(text, 0, format!("at most {TEXT_BYTES_MAX} bytes of canonical text")));
    }
    Ok(query)
}

/// A part of a selector and the byte at which it begins.
struct ParsedPart {
    node: PartNode,
    start: usize,
    /// True for a name in double quotes.
    is_quoted: bool,
}

enum PartNode {
    Condition(Expr),
    /// A value, or a part that may become a condition: a bare identifier, TRUE, FALSE.
    Value(Operand),
}

impl ParsedPart {
    fn condition(expr: impl Into<Expr>, start: usize) -> Self {
        Self { node: PartNode::Condition(expr.into()), start, is_quoted: false }
    }

    fn value(operand: Operand, start: usize) -> Self {
        Self { node: PartNode::Value(operand), start, is_quoted: false }
    }
}

/// An operand and the byte at which it begins.
struct LocatedOperand {
    operand: Operand,
    start: usize,
    is_quoted: bool,
}

impl LocatedOperand {
    fn is_bool(&self) -> bool {
        matches!(self.operand, Operand::Literal(Value::Bool(_)))
    }

    fn is_number(&self) -> bool {
        matches!(self.operand, Operand::Literal(Value::Int(_) | Value::Float(_)))
    }
}

struct SelectorParser<'a> {
    cursor: TokenCursor<'a>,
    dialect: SelectorDialect,
    /// The operands of the chains of AND and OR that have begun, the innermost last.
    operands: Vec<Expr>,
    /// The memory that the patterns of the query may take.
    compiled_bytes_max: usize,
    /// The memory that further patterns of the query may take.
    compiled_bytes_left: usize,
    /// The regular expressions so far: equal ones are compiled once, since compiling is what takes longest.
    regexes: HashMap<String, Pattern>,
    warnings: WarningList,
}

type SelectorResult<T> = Result<T, QueryError>;

impl SelectorParser<'_> {
    fn whole(&mut self) -> SelectorResult<Expr> {
        let part = self.disjunction()?;
        match self.cursor.token.kind {
            TokenKind::End => self.as_condition(part),
            _ => Err(self.cursor.unexpected("an operator or the end")),
        }
    }

    fn disjunction(&mut self) -> SelectorResult<ParsedPart> {
        self.chain("OR", Self::conjunction, Expr::or)
    }

    fn conjunction(&mut self) -> SelectorResult<ParsedPart> {
        self.chain("AND", Self::negation, Expr::and)
    }

    fn chain(
        &mut self,
        keyword: &str,
        operand: fn(&mut Self) -> SelectorResult<ParsedPart>,
        combine: fn(Vec<Expr>) -> Expr,
    ) -> SelectorResult<ParsedPart> {
        let first = operand(self)?;
        if !self.cursor.is_keyword(keyword) {
            return Ok(first);
        }
        let start = first.start;
        let before = self.operands.len();
        let first = self.as_condition(first)?;
        self.operands.push(first);
        while self.cursor.eat_keyword(keyword) {
            let next = operand(self)?;
            let next = self.as_condition(next)?;
            self.operands.push(next);
        }
        // Collected again, so that a query uses no more memory than it needs.
        Ok(ParsedPart::condition(combine(self.operands.drain(before..).collect()), start))
    }

    fn negation(&mut self) -> SelectorResult<ParsedPart> {
        if !self.cursor.is_keyword("NOT") {
            return self.predicate();
        }
        self.cursor.enter()?;
        let start = self.cursor.advance().start;
        let inner = self.negation()?;
        let condition = self.as_condition(inner)?;
        self.cursor.leave();
        Ok(ParsedPart::condition(condition.negate(), start))
    }

    fn predicate(&mut self) -> SelectorResult<ParsedPart> {
        let left = self.arithmetic(Rank::Sum, "a value")?;
        if let TokenKind::Symbol(symbol) = self.cursor.token.kind
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
            TokenKind::Word(word) if is_predicate_keyword(word) => {
                let left = self.as_operand(left)?;
                self.affirmed(left)
            }
            _ => Ok(left),
        }
    }

    /// Parses what follows `left` and the next keyword: IS, UNDER, BETWEEN, IN or LIKE.
    fn affirmed(&mut self, left: LocatedOperand) -> SelectorResult<ParsedPart> {
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
            return self.under(reference, start);
        }
        match self.keyword_predicate(left)? {
            Some(predicate) => self.term(predicate, start),
            None => Err(self.cursor.unexpected("an operator")),
        }
    }

    /// Parses the predicates before which NOT may stand.
    fn keyword_predicate(&mut self, left: LocatedOperand) -> SelectorResult<Option<Predicate>> {
        Ok(Some(if self.cursor.eat_keyword("BETWEEN") {
            self.between(left)?
        } else if self.cursor.eat_keyword("IN") {
            let operand = self.not_literal(left, "IN")?;
            let values = self.in_values(&operand)?;
            Predicate::In(operand, values)
        } else if self.cursor.eat_keyword("LIKE") {
            let operand = self.not_literal(left, "LIKE")?;
            Predicate::Like(operand, self.like_pattern()?)
        } else {
            return Ok(None);
        }))
    }

    fn compared(&mut self, left: LocatedOperand, op: Comparison, operator: usize) -> SelectorResult<ParsedPart> {
        let is_order = !matches!(op, Comparison::Equal | Comparison::NotEqual);
        let expected = match op {
            Comparison::Equal => "a value after `=`",
            Comparison::NotEqual => "a value after `<>`",
            _ => "a number",
        };
        if self.cursor.is_keyword("NULL") {
            let test = if op == Comparison::NotEqual { "IS NOT NULL" } else { "IS NULL" };
            return Err(self.cursor.unexpected(expected).with_hint(format!("to ask for null, write `{test}`")));
        }
        let right = self.arithmetic(Rank::Sum, expected)?;
        let right = self.as_operand(right)?;
        self.look_at(&left, Some(op), &right);
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

    fn between(&mut self, operand: LocatedOperand) -> SelectorResult<Predicate> {
        let low = self.bound()?;
        if !self.cursor.eat_keyword("AND") {
            return Err(self.cursor.unexpected("AND"));
        }
        let high = self.bound()?;
        if operand.is_bool() {
            return Err(self.cursor.error_at(operand.start, "a value that has an order"));
        }
        [&low, &high].into_iter().for_each(|bound| self.look_at(&operand, None, bound));
        Ok(Predicate::Between(operand.operand, low.operand, high.operand))
    }

    /// Parses what follows `name UNDER`: a text, or several of which one is enough: `('X' || 'Y')`.
    fn under(&mut self, name: Reference, start: usize) -> SelectorResult<ParsedPart> {
        if self.cursor.token.kind != TokenKind::Symbol("(") {
            let (ancestor, _) = self.text("a text in quotes")?;
            return self.term(Predicate::Under(name, ancestor.into()), start);
        }
        self.cursor.enter()?;
        self.cursor.advance();
        let mut any = Vec::new();
        loop {
            self.cursor.count_term(start)?;
            let (ancestor, _) = self.text("a text in quotes")?;
            any.push(Predicate::Under(name.clone(), ancestor.into()).into());
            if !self.cursor.eat_separator() {
                break;
            }
        }
        self.cursor.expect_symbol(")", "`||` or `)`")?;
        self.cursor.leave();
        Ok(ParsedPart::condition(Expr::or(any), start))
    }

    /// Look for what can hardly be meant in a comparison. `op` is None for a bound of BETWEEN.
    fn look_at(&mut self, left: &LocatedOperand, op: Option<Comparison>, right: &LocatedOperand) {
        let is_name = |located: &LocatedOperand| matches!(located.operand, Operand::Reference(_));
        let by_name = |located: &LocatedOperand| match &located.operand {
            Operand::Reference(Reference::Property(name)) if located.is_quoted && !name.text.contains('.') => {
                Some(name.text.clone())
            }
            _ => None,
        };
        for (quoted, other) in [(right, left), (left, right)] {
            if let Some(name) = by_name(quoted).filter(|_| is_name(other) && !other.is_quoted) {
                let message = format!("\"{name}\" in double quotes is a name: this compares two properties");
                let hint = format!("write a text in single quotes: '{}'", name.replace('\'', "''"));
                self.warnings.add(quoted.start, message, hint);
            }
        }
        for (name, other, op) in [(left, right, op), (right, left, op.map(Comparison::mirrored))] {
            if let Operand::Literal(literal) = &other.operand {
                self.warnings.look_at_comparison(&name.operand, op, literal, other.start);
            }
        }
    }

    fn bound(&mut self) -> SelectorResult<LocatedOperand> {
        let part = self.arithmetic(Rank::Sum, "a number")?;
        let bound = self.as_operand(part)?;
        if bound.is_bool() {
            return Err(self.cursor.error_at(bound.start, "a value that has an order"));
        }
        Ok(bound)
    }

    fn in_values(&mut self, operand: &Operand) -> SelectorResult<ValueSet> {
        self.cursor.expect_symbol("(", "`(`")?;
        let mut values = Vec::new();
        loop {
            if values.len() == IN_VALUES_MAX {
                let start = self.cursor.token.start;
                return Err(self.cursor.error_at(start, format!("at most {IN_VALUES_MAX} values")));
            }
            let start = self.cursor.token.start;
            let value = self.literal()?.ok_or_else(|| self.no_literal())?;
            self.warnings.look_at_comparison(operand, Some(Comparison::Equal), &value, start);
            values.push(value);
            if !self.cursor.eat_symbol(",") {
                break;
            }
        }
        self.cursor.expect_symbol(")", "`,` or `)`")?;
        Ok(ValueSet::new(values))
    }

    fn no_literal(&self) -> QueryError {
        let error = self.cursor.unexpected("a literal");
        match self.cursor.token.kind {
            TokenKind::DoubleQuoted(_) => error.with_hint("write a text in single quotes"),
            _ => error,
        }
    }

    fn like_pattern(&mut self) -> SelectorResult<LikePattern> {
        let is_bare = !matches!(
            self.cursor.token.kind,
            TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_) | TokenKind::Unterminated(_) | TokenKind::End
        );
        let start = self.cursor.token.start;
        let bare = if self.dialect == SelectorDialect::Cbm && is_bare { self.cursor.advance_raw() } else { None };
        let pattern = match bare {
            Some(pattern) => pattern.to_owned(),
            None => self.text("a pattern in quotes")?.0,
        };
        if LikePattern::bytes_of(&pattern) > COMPILED_BYTES_MAX {
            return Err(self.too_large(start));
        }
        self.warnings.look_at_pattern(&pattern, start);
        let escape = self.escape()?;
        let pattern = LikePattern::new(&pattern, escape);
        self.count_compiled(pattern.bytes(), start)?;
        Ok(pattern)
    }

    /// The escape character of a pattern, when the query gives one.
    fn escape(&mut self) -> SelectorResult<Option<char>> {
        if !self.cursor.eat_keyword("ESCAPE") {
            return Ok(None);
        }
        let (escape, start) = self.text("one character in quotes")?;
        let mut characters = escape.chars();
        match (characters.next(), characters.next()) {
            (Some(escape), None) => Ok(Some(escape)),
            _ => Err(self.cursor.error_at(start, "one character in quotes")),
        }
    }

    /// Count the memory of a pattern that begins at byte `start`.
    fn count_compiled(&mut self, bytes: usize, start: usize) -> SelectorResult<()> {
        let left = self.compiled_bytes_left.checked_sub(bytes);
        self.compiled_bytes_left = left.ok_or_else(|| self.too_large(start))?;
        Ok(())
    }

    fn too_large(&self, start: usize) -> QueryError {
        let expected = format!("patterns of at most {} bytes when compiled", self.compiled_bytes_max);
        self.cursor.error_at(start, expected)
    }

    /// A predicate, negated or not, that begins at byte `start`.
    fn term(&mut self, predicate: impl Into<Expr>, start: usize) -> SelectorResult<ParsedPart> {
        self.cursor.count_term(start)?;
        Ok(ParsedPart::condition(predicate, start))
    }

    /// `part` as a condition: a bare identifier, TRUE and FALSE are conditions too.
    fn as_condition(&mut self, part: ParsedPart) -> SelectorResult<Expr> {
        let predicate = match part.node {
            PartNode::Condition(expr) => return Ok(expr),
            PartNode::Value(Operand::Reference(reference)) => Predicate::Truth(reference),
            PartNode::Value(Operand::Literal(Value::Bool(truth))) => Predicate::Constant(truth),
            PartNode::Value(_) => {
                let hint = "compare it with something";
                return Err(self.cursor.error_at(part.start, "a condition").with_hint(hint));
            }
        };
        self.cursor.count_term(part.start)?;
        Ok(predicate.into())
    }

    fn as_operand(&self, part: ParsedPart) -> SelectorResult<LocatedOperand> {
        match part.node {
            PartNode::Value(operand) => Ok(LocatedOperand { operand, start: part.start, is_quoted: part.is_quoted }),
            PartNode::Condition(_) => Err(self.cursor.error_at(part.start, "a value, not a condition")),
        }
    }

    fn not_literal(&self, located: LocatedOperand, keyword: &str) -> SelectorResult<Operand> {
        match located.operand {
            Operand::Literal(_) => Err(self.cursor.error_at(located.start, format!("a name before {keyword}"))),
            operand => Ok(operand),
        }
    }
}

/// The comparison that `symbol` means, in either language.
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

#[cfg(test)]
mod tests;

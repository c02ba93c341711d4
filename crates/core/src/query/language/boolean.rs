//! The Boolean language of the ITMO paper, as printed there.
//!
//! The left side of an operator is a name, where several words are one name with spaces. The right side is a value, so
//! that no single word needs quotes.

use std::collections::HashSet;

use crate::error::QueryError;
use crate::message::Value;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, Reference, ValueSet};
use crate::query::language::lexer::{Style, TokenCursor, TokenKind, unquote, whole_number};
use crate::query::selector::{comparison, finish};
use crate::query::warning::WarningList;
use crate::query::{IN_VALUES_MAX, Query};

/// Words that cannot be part of a name, in any case.
const KEYWORDS: [&str; 5] = ["AND", "OR", "NOT", "IN", "UNDER"];

/// Parses `text` as a Boolean filter. For the names in `groupings`, `==` and `in` mean UNDER: the paper's groups are the
/// dynamic groupings of a hierarchy.
///
/// # Errors
/// The position at which parsing failed, and what was expected there.
pub fn parse(text: &str, groupings: &[impl AsRef<str>]) -> Result<Query, QueryError> {
    let groupings = groupings.iter().map(AsRef::as_ref).collect();
    let (cursor, warnings) = (TokenCursor::new(text, Style::Boolean)?, WarningList::default());
    let mut parser = BooleanParser { cursor, groupings, warnings };
    let expr = parser.disjunction()?;
    match parser.cursor.token.kind {
        TokenKind::End => finish(text, expr, parser.warnings),
        _ => Err(parser.cursor.unexpected("`&&`, `||` or the end")),
    }
}

struct BooleanParser<'a> {
    cursor: TokenCursor<'a>,
    /// The names whose values are groups of a hierarchy.
    groupings: HashSet<&'a str>,
    warnings: WarningList,
}

/// The left side, before it is known whether an operator follows.
enum Left {
    Name(Reference),
    /// A bare word that parses as a value: `true` is a condition, a number is not.
    Value(Value),
}

type BooleanResult<T> = Result<T, QueryError>;

impl BooleanParser<'_> {
    fn disjunction(&mut self) -> BooleanResult<Expr> {
        self.chain("||", "OR", Self::conjunction, Expr::or)
    }

    fn conjunction(&mut self) -> BooleanResult<Expr> {
        self.chain("&&", "AND", Self::negation, Expr::and)
    }

    fn chain(
        &mut self,
        symbol: &str,
        keyword: &str,
        operand: fn(&mut Self) -> BooleanResult<Expr>,
        combine: fn(Vec<Expr>) -> Expr,
    ) -> BooleanResult<Expr> {
        let mut operands = vec![operand(self)?];
        while self.cursor.eat_symbol(symbol) || self.cursor.eat_keyword(keyword) {
            operands.push(operand(self)?);
        }
        Ok(combine(operands))
    }

    fn negation(&mut self) -> BooleanResult<Expr> {
        let is_parenthesis = self.cursor.token.kind == TokenKind::Symbol("(");
        if !is_parenthesis && self.cursor.token.kind != TokenKind::Symbol("!") && !self.cursor.is_keyword("NOT") {
            return self.predicate();
        }
        self.cursor.enter()?;
        self.cursor.advance();
        let inner = if is_parenthesis { self.disjunction()? } else { self.negation()?.negate() };
        if is_parenthesis {
            self.cursor.expect_symbol(")", "`&&`, `||` or `)`")?;
        }
        self.cursor.leave();
        Ok(inner)
    }

    fn predicate(&mut self) -> BooleanResult<Expr> {
        let start = self.cursor.token.start;
        self.cursor.count_term(start)?;
        let left = self.left()?;
        if !self.at_operator() {
            return match left {
                Left::Name(reference) => Ok(Predicate::Truth(reference).into()),
                Left::Value(Value::Bool(truth)) => Ok(Predicate::Constant(truth).into()),
                Left::Value(_) => Err(self.cursor.error_at(start, "a condition")),
            };
        }
        let Left::Name(reference) = left else {
            let hint = "the name stands on the left; one that looks like a value stands in quotes";
            return Err(self.cursor.error_at(start, "a name").with_hint(hint));
        };
        self.tested(reference, start)
    }

    fn left(&mut self) -> BooleanResult<Left> {
        match self.cursor.token.kind {
            TokenKind::Word(word) if !is_keyword(word) => {
                let mut words = vec![word];
                self.cursor.advance();
                while let TokenKind::Word(word) = self.cursor.token.kind
                    && !is_keyword(word)
                {
                    words.push(word);
                    self.cursor.advance();
                }
                Ok(match words.as_slice() {
                    ["topic"] => Left::Name(Reference::Topic),
                    ["body"] => Left::Name(Reference::Body),
                    [word] => match value_of(word) {
                        Some(Value::Text(_)) => Left::Name(Reference::property(word)),
                        Some(value) => Left::Value(value),
                        None => Left::Value(Value::Null),
                    },
                    words => Left::Name(Reference::property(&words.join(" "))),
                })
            }
            TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_) => {
                Ok(Left::Name(Reference::property(&self.quoted())))
            }
            _ => Err(self.cursor.unexpected("a name")),
        }
    }

    /// The text of the next token, which is quoted.
    fn quoted(&mut self) -> String {
        match self.cursor.advance().kind {
            TokenKind::SingleQuoted(raw) => unquote(raw, '\''),
            TokenKind::DoubleQuoted(raw) => unquote(raw, '"'),
            _ => String::new(),
        }
    }

    fn at_operator(&self) -> bool {
        match self.cursor.token.kind {
            TokenKind::Symbol(symbol) => symbol != "<>" && comparison(symbol).is_some(),
            TokenKind::Word(word) => ["IN", "NOT", "UNDER"].iter().any(|keyword| keyword.eq_ignore_ascii_case(word)),
            _ => false,
        }
    }

    /// Parses the operator after `reference`, with its right side.
    fn tested(&mut self, reference: Reference, start: usize) -> BooleanResult<Expr> {
        if self.cursor.eat_keyword("UNDER") {
            return self.under(reference, start);
        }
        let is_negated = self.cursor.eat_keyword("NOT");
        if self.cursor.eat_keyword("IN") {
            if self.is_grouping(&reference) {
                return self.grouped(reference, start, is_negated);
            }
            return Ok(one_of(reference, self.set("`{`")?, is_negated));
        }
        let operator = self.cursor.token;
        let TokenKind::Symbol(symbol) = operator.kind else { return Err(self.cursor.unexpected("IN")) };
        let Some(op) = comparison(symbol).filter(|_| !is_negated) else {
            return Err(self.cursor.unexpected("IN"));
        };
        self.cursor.advance();
        match op {
            Comparison::Equal | Comparison::NotEqual if self.is_grouping(&reference) => {
                self.grouped(reference, start, op == Comparison::NotEqual)
            }
            _ => self.compared(reference, op, operator.start),
        }
    }

    fn is_grouping(&self, reference: &Reference) -> bool {
        matches!(reference, Reference::Property(name) if self.groupings.contains(&*name.text))
    }

    /// Parses the value or set of a grouping: the condition that `reference` is under one of them, or under none.
    fn grouped(&mut self, reference: Reference, start: usize, is_negated: bool) -> BooleanResult<Expr> {
        if is_negated {
            self.cursor.enter()?;
        }
        let under = self.under(reference, start)?;
        if is_negated {
            self.cursor.leave();
        }
        Ok(if is_negated { under.negate() } else { under })
    }

    fn under(&mut self, reference: Reference, start: usize) -> BooleanResult<Expr> {
        if !matches!(reference, Reference::Property(_)) {
            return Err(self.cursor.error_at(start, "the name of a property before UNDER"));
        }
        let close = match self.cursor.token.kind {
            TokenKind::Symbol("(") => ")",
            TokenKind::Symbol("{") => "}",
            _ => {
                let ancestor = self.ancestor()?;
                self.no_second_word()?;
                return Ok(Predicate::Under(reference, ancestor.into()).into());
            }
        };
        self.cursor.enter()?;
        self.cursor.advance();
        let mut any = vec![Predicate::Under(reference.clone(), self.ancestor()?.into()).into()];
        while self.cursor.eat_separator() {
            self.cursor.count_term(start)?;
            any.push(Predicate::Under(reference.clone(), self.ancestor()?.into()).into());
        }
        self.cursor.expect_symbol(close, if close == ")" { "`||` or `)`" } else { "`,` or `}`" })?;
        self.cursor.leave();
        Ok(Expr::or(any))
    }

    /// The value after UNDER, which is a text even if it reads as a number.
    fn ancestor(&mut self) -> BooleanResult<String> {
        match self.cursor.token.kind {
            TokenKind::Word(word) => {
                self.cursor.advance();
                Ok(word.to_owned())
            }
            TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_) => Ok(self.quoted()),
            _ => Err(self.cursor.unexpected("a value")),
        }
    }

    fn compared(&mut self, reference: Reference, op: Comparison, operator: usize) -> BooleanResult<Expr> {
        let is_order = !matches!(op, Comparison::Equal | Comparison::NotEqual);
        let is_set = matches!(self.cursor.token.kind, TokenKind::Symbol("(" | "{"));
        if is_set && is_order {
            return Err(self.cursor.unexpected("one value, for an order takes no set"));
        }
        if is_set {
            return Ok(one_of(reference, self.set("`(`")?, op == Comparison::NotEqual));
        }
        let byte = self.cursor.token.start;
        let value = self.value()?;
        self.warnings.look_at_comparison(&Operand::Reference(reference.clone()), Some(op), &value, byte);
        if is_order && matches!(value, Value::Bool(_)) {
            return Err(self.cursor.error_at(operator, "`==` or `!=`: true and false have no order"));
        }
        self.no_second_word()?;
        Ok(compare(reference, op, value))
    }

    /// Parses `(X || Y)` or `{X, Y}`; `expected` describes what may begin one here.
    fn set(&mut self, expected: &str) -> BooleanResult<Vec<Value>> {
        let (close, wanted) = if self.cursor.eat_symbol("(") { (")", "`||` or `)`") } else { ("}", "`,` or `}`") };
        if close == "}" {
            self.cursor.expect_symbol("{", expected)?;
        }
        let mut values = vec![self.value()?];
        while self.cursor.eat_separator() {
            if values.len() == IN_VALUES_MAX {
                let start = self.cursor.token.start;
                return Err(self.cursor.error_at(start, format!("at most {IN_VALUES_MAX} values")));
            }
            values.push(self.value()?);
        }
        self.cursor.expect_symbol(close, wanted)?;
        Ok(values)
    }

    fn value(&mut self) -> BooleanResult<Value> {
        match self.cursor.token.kind {
            TokenKind::Word(word) => {
                let value = value_of(word).ok_or_else(|| {
                    let hint = "in quotes it is a text";
                    self.cursor.error_at(self.cursor.token.start, "an integer in 64 bits").with_hint(hint)
                })?;
                self.cursor.advance();
                Ok(value)
            }
            TokenKind::SingleQuoted(_) | TokenKind::DoubleQuoted(_) => Ok(Value::Text(self.quoted().into())),
            _ => Err(self.cursor.unexpected("a value")),
        }
    }

    /// Several words on the right are no value; this error is reported here, where it is known that quotes are missing.
    fn no_second_word(&self) -> BooleanResult<()> {
        match self.cursor.token.kind {
            TokenKind::Word(word) if !is_keyword(word) => {
                let mut error = self.cursor.unexpected("`&&`, `||` or the end");
                error.hint.get_or_insert_with(|| "a text with spaces stands in quotes".to_owned());
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// The value of a bare word on the right; None for an integer of more than 64 bits.
fn value_of(word: &str) -> Option<Value> {
    Some(match whole_number(word) {
        Some(TokenKind::Float(value)) => Value::Float(value),
        Some(_) => Value::Int(word.parse().ok()?),
        None if word.eq_ignore_ascii_case("true") => Value::Bool(true),
        None if word.eq_ignore_ascii_case("false") => Value::Bool(false),
        None => Value::Text(word.into()),
    })
}

fn compare(reference: Reference, op: Comparison, value: Value) -> Expr {
    Predicate::Compare(Operand::Reference(reference), op, Operand::Literal(value)).into()
}

/// The condition that `reference` equals one of `values`, which are not empty, or none of them.
///
/// `a NOT IN ('X')` means the same for a list as `NOT a = 'X'`, and nests no deeper than the text as written.
fn one_of(reference: Reference, mut values: Vec<Value>, is_negated: bool) -> Expr {
    if values.len() == 1 && !is_negated {
        return compare(reference, Comparison::Equal, values.remove(0));
    }
    let one_of = Expr::from(Predicate::In(Operand::Reference(reference), ValueSet::new(values)));
    if is_negated { one_of.negate() } else { one_of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector;

    const NONE: &[&str] = &[];

    /// The canonical text, which reads back as the same query.
    fn canonical(text: &str) -> String {
        let query = parse(text, NONE).unwrap_or_else(|error| panic!("{text}: {error}"));
        let canonical = query.to_string();
        assert_eq!(selector::parse(&canonical, selector::SelectorDialect::Jms), Ok(query), "{canonical}");
        canonical
    }

    fn refused(text: &str) -> (usize, String) {
        let error = parse(text, NONE).expect_err(text);
        (error.position, error.hint.unwrap_or(error.expected))
    }

    #[test]
    fn the_filters_of_the_paper_are_read_as_printed() {
        assert_eq!(canonical("stock == IBM && MIC == XEUR"), "stock = 'IBM' AND MIC = 'XEUR'");
        assert_eq!(
            canonical(
                "deleted = false && (CFI == OXXXX || CFI == FXXXX) && group == (American || European) \
                 && Trading enabled == true"
            ),
            "deleted = FALSE AND (CFI = 'OXXXX' OR CFI = 'FXXXX') AND group IN ('American', 'European') \
             AND \"Trading enabled\" = TRUE"
        );
    }

    #[test]
    fn a_bare_word_on_the_right_is_a_text_unless_it_reads_as_a_value() {
        assert_eq!(canonical("a == -5 && b=+.5 && c<1e3"), "a = -5 AND b = 0.5 AND c < 1000.0");
        assert_eq!(canonical("a == '5' && b == \"TRUE\" && c == True"), "a = '5' AND b = 'TRUE' AND c = TRUE");
        assert_eq!(canonical("a == text/plain && b != x-1"), "a = 'text/plain' AND b <> 'x-1'");
        assert_eq!(canonical("state == OR or state == in"), "state = 'OR' OR state = 'in'");
        assert_eq!(canonical("a == nan && b == infinity"), "a = 'nan' AND b = 'infinity'");
    }

    #[test]
    fn sets_of_one_are_a_comparison_and_of_more_a_list() {
        assert_eq!(canonical("a in {X, 5, true}"), "a IN ('X', 5, TRUE)");
        assert_eq!(canonical("a IN (X || Y) && b not in {X, Y}"), "a IN ('X', 'Y') AND b NOT IN ('X', 'Y')");
        assert_eq!(canonical("a == (X) && a in {X}"), "a = 'X' AND a = 'X'");
        assert_eq!(canonical("a != (X or Y)"), "a NOT IN ('X', 'Y')");
        assert_eq!(canonical("a != (X)"), "a NOT IN ('X')");
    }

    #[test]
    fn names_conditions_and_keywords() {
        assert_eq!(canonical("!a && NOT (b || c)"), "NOT a AND NOT (b OR c)");
        assert_eq!(canonical("Trading enabled and true"), "\"Trading enabled\" AND TRUE");
        assert_eq!(canonical("topic == a.b && 'topic' == c && \"x y\" == d"), {
            "topic = 'a.b' AND \"topic\" = 'c' AND \"x y\" = 'd'"
        });
        assert_eq!(canonical("!group under American"), "NOT group UNDER 'American'");
        assert_eq!(canonical("a || b && c"), "a OR b AND c");
    }

    #[test]
    fn of_several_groups_one_is_enough() {
        let either = "group UNDER 'American' OR group UNDER 'European'";
        for text in [
            "group UNDER (American || European)",
            "group under {American, European}",
            "group UNDER ('American' or \"European\")",
        ] {
            assert_eq!(canonical(text), either);
        }
        assert_eq!(canonical("group UNDER (5) && !(a UNDER (X || Y))"), {
            "group UNDER '5' AND NOT (a UNDER 'X' OR a UNDER 'Y')"
        });
        assert_eq!(refused("group UNDER (A B)").0, 15);
        assert_eq!(refused("group UNDER (A ||").0, 17);
    }

    #[test]
    fn for_groupings_equality_is_being_under() {
        let grouped = |text: &str| parse(text, &["group", "Trading enabled"]).map(|query| query.to_string());
        let either = "group UNDER 'American' OR group UNDER 'European'";
        for text in ["group == (American || European)", "group in {American, European}", "group = (American, European)"]
        {
            assert_eq!(grouped(text).as_deref(), Ok(either));
        }
        assert_eq!(grouped("group == 5 && a == 5").as_deref(), Ok("group UNDER '5' AND a = 5"));
        assert_eq!(grouped("group != X").as_deref(), Ok("NOT group UNDER 'X'"));
        assert_eq!(
            grouped("group not in {X, Y} && b").as_deref(),
            Ok("NOT (group UNDER 'X' OR group UNDER 'Y') AND b")
        );
        assert_eq!(grouped("Trading enabled == x || group < 'A'").as_deref(), {
            Ok("\"Trading enabled\" UNDER 'x' OR group < 'A'")
        });
        let names = (0..1_001).map(|index| format!("g{index}")).collect::<Vec<_>>().join(" || ");
        assert!(grouped(&format!("group == ({names})")).is_err());
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(refused("a === 1"), (4, "did you mean `==`?".into()));
        assert_eq!(refused("a => 1"), (3, "did you mean `>=`?".into()));
        assert_eq!(refused("a <> 1"), (2, "did you mean `!=`?".into()));
        assert_eq!(refused("city == New York"), (12, "a text with spaces stands in quotes".into()));
        assert_eq!(refused("a == 'x"), (5, "a closing `'` for the quote here".into()));
        assert_eq!(refused("a < (1 || 2)"), (4, "one value, for an order takes no set".into()));
        assert_eq!(refused("a < true").0, 2);
        assert_eq!(refused("a == 9223372036854775808"), (5, "in quotes it is a text".into()));
        assert_eq!(refused("5").0, 0);
        assert_eq!(refused("5 == a").0, 0);
        assert_eq!(refused(""), (0, "a name".into()));
        assert_eq!(refused("(a == 1"), (7, "`&&`, `||` or `)`".into()));
        assert_eq!(refused("a == (X || )").0, 11);
        assert_eq!(refused("a not == 5"), (6, "IN".into()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn limits_hold() {
        let nested = |depth: usize| "(".repeat(depth) + "a" + &")".repeat(depth);
        assert!(parse(&nested(100), NONE).is_ok());
        assert_eq!(refused(&nested(101)).0, 100);
        assert_eq!(refused(&vec!["a"; 1_001].join("||")).0, 3_000);
        assert!(parse(&format!("a in {{{}}}", vec!["x"; 10_000].join(",")), NONE).is_ok());
        assert!(parse(&format!("a in {{{}}}", vec!["x"; 10_001].join(",")), NONE).is_err());
        assert!(parse(&"a".repeat(65_537), NONE).is_err());
    }
}

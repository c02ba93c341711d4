//! The selector language: JMS message selectors (SQL-92 conditional expressions) with text, topic,
//! regular-expression and hierarchy functions. The canonical text of every query.

use crate::error::QueryError;
use crate::query::Query;

/// How to read a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// JMS / SQL-92, as `SEMANTICS.md` has it.
    Jms,
    /// The examples of paper 002 (PNNL) as printed.
    Cbm,
}

/// Read `text` as a selector.
///
/// # Errors
/// Where it cannot be read, and what was expected there.
pub fn parse(text: &str, dialect: Dialect) -> Result<Query, QueryError> {
    todo!("{text} {dialect:?}")
}

/// True when `name` reads as one property name without double quotes.
#[must_use]
pub fn is_plain_identifier(name: &str) -> bool {
    todo!("{name}")
}

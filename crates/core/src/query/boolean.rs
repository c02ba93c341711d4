//! The Boolean language of paper 004 (ITMO), as printed there.

use crate::error::QueryError;
use crate::query::Query;

/// Read `text` as a Boolean filter.
///
/// # Errors
/// Where it cannot be read, and what was expected there.
pub fn parse(text: &str) -> Result<Query, QueryError> {
    todo!("{text}")
}

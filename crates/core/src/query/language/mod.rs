//! The languages of queries: selectors, the boolean expressions of `in`, `and`, `or`, single criteria, and their names.

pub mod boolean;
pub mod criteria;
pub(super) mod lexer;
pub mod named;
pub mod selector;

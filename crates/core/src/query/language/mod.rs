//! The languages of queries: selectors and the boolean expressions of `in`, `and`, `or`, read through one lexer.

pub mod boolean;
pub(super) mod lexer;
pub mod selector;

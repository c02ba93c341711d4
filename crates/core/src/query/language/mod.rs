//! The languages of queries: selectors and the boolean expressions of `in`, `and`, `or`, read through one lexer.

pub mod boolean;
mod lexer;
pub mod selector;

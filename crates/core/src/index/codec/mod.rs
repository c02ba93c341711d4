//! Queries as bytes: the records of a snapshot.
//!
//! A tree is written operator first, one tag byte each; counts and lengths are LEB128, numbers little-endian, texts
//! UTF-8. Tags are part of the format: a new kind of predicate takes a new tag and a new format version. What has to
//! be compiled (regular expressions, LIKE, phrases) is stored as text and compiled when it is read. An expensive predicate is
//! its place in a table that whoever keeps the records keeps too.

mod decode;
mod encode;

use crate::query::expr::{Arithmetic, Comparison};
use crate::topic::TopicDialect;

pub use decode::{Reader, decode};
pub use encode::{encode, encode_count, encode_opaques, encode_text};

// An expression begins with one of these ...
const NOT: u8 = 1;
const AND: u8 = 2;
const OR: u8 = 3;
// ... or a predicate with one of these;
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
const OPAQUE: u8 = 30;

// a reference with one of these;
const TOPIC: u8 = 0;
const BODY: u8 = 1;
const PROPERTY: u8 = 2;
const PROPERTY_ANY_CASE: u8 = 3;

// an operand with one of these;
const LITERAL: u8 = 0;
const REFERENCE: u8 = 1;
const NEGATE: u8 = 2;
const ARITHMETIC: u8 = 3;

// a value with one of these.
const FALSE: u8 = 0;
const TRUE: u8 = 1;
const INT: u8 = 2;
const FLOAT: u8 = 3;
const TEXT: u8 = 4;
const TIMESTAMP: u8 = 5;
const NULL: u8 = 6;
const PRESENT: u8 = 7;

// Operators are numbered by their place here.
const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
const ARITHMETICS: [Arithmetic; 4] = [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide];
const DIALECTS: [TopicDialect; 3] = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];

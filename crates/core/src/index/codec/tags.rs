//! The tags of records, which are part of the snapshot's format.

use crate::query::expr::{Arithmetic, Comparison};
use crate::topic::TopicDialect;

// An expression starts with one of these.
pub const NOT: u8 = 1;
pub const AND: u8 = 2;
pub const OR: u8 = 3;
// A predicate starts with one of these.
pub const CONSTANT: u8 = 16;
pub const TRUTH: u8 = 17;
pub const COMPARE: u8 = 18;
pub const BETWEEN: u8 = 19;
pub const IN: u8 = 20;
pub const LIKE: u8 = 21;
pub const IS_NULL: u8 = 22;
pub const EXISTS: u8 = 23;
pub const CONTAINS: u8 = 24;
pub const NEAR: u8 = 25;
pub const TOPIC_PATTERN: u8 = 26;
pub const PREFIX: u8 = 27;
pub const REGEX: u8 = 28;
pub const UNDER: u8 = 29;
pub const OPAQUE: u8 = 30;

// A reference starts with one of these.
pub const TOPIC: u8 = 0;
pub const BODY: u8 = 1;
pub const PROPERTY: u8 = 2;
pub const PROPERTY_ANY_CASE: u8 = 3;

// An operand starts with one of these.
pub const LITERAL: u8 = 0;
pub const REFERENCE: u8 = 1;
pub const NEGATE: u8 = 2;
pub const ARITHMETIC: u8 = 3;

// A value starts with one of these.
pub const FALSE: u8 = 0;
pub const TRUE: u8 = 1;
pub const INT: u8 = 2;
pub const FLOAT: u8 = 3;
pub const TEXT: u8 = 4;
pub const TIMESTAMP: u8 = 5;
pub const NULL: u8 = 6;
pub const PRESENT: u8 = 7;
pub const DAY: u8 = 8;

// Operators are numbered by their index here.
pub const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
pub const ARITHMETICS: [Arithmetic; 4] =
    [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide];
pub const DIALECTS: [TopicDialect; 3] = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];

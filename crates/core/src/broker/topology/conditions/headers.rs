//! Headers exchanges: the arguments of a binding as a condition on a message's headers.
//!
//! `x-match` is `all` (the default), `any`, `all-with-x` or `any-with-x`; headers whose names begin with `x-` count
//! only with the latter two. A header without a value asks for its presence. Whole numbers of all widths, and numbers
//! with and without a point, are compared by value; arrays and tables must be equal.
//!
//! Source: RabbitMQ, `rabbit_exchange_type_headers`.

use crate::amqp::{AmqpError, RawTable, RawValue};
use crate::expensive::{ExpensivePredicate, Failure, Opaque};
use crate::message::{Message, Value};
use crate::query::expr::{Comparison, Expr, Operand, Predicate, Reference};
use crate::query::truth::Truth;

use super::super::errors;
use super::filter::ARGUMENTS as FILTER_ARGUMENTS;
use super::{names, view};

const MATCH: &str = "x-match";

/// The condition on the message's headers; None when nothing is asked for, so that every message matches.
pub(in crate::broker::topology) fn condition(arguments: RawTable<'_>) -> Result<Option<Expr>, AmqpError> {
    let (is_all, with_x) = mode(arguments)?;
    let mut tests = Vec::new();
    for field in arguments.iter() {
        let (name, value) = field.map_err(|error| errors::precondition(&error.to_string()))?;
        let is_ours = name == MATCH || FILTER_ARGUMENTS.contains(&name);
        if !is_ours && (with_x || !name.starts_with("x-")) {
            tests.push(test(name, value)?.into());
        }
    }
    Ok(match (tests.is_empty(), is_all) {
        (true, true) => None,
        (true, false) => Some(Predicate::Constant(false).into()),
        (false, true) => Some(Expr::and(tests)),
        (false, false) => Some(Expr::or(tests)),
    })
}

/// Whether all headers must match, and whether those that begin with `x-` count.
fn mode(arguments: RawTable<'_>) -> Result<(bool, bool), AmqpError> {
    let Some(value) = arguments.get(MATCH) else { return Ok((true, false)) };
    Ok(match value.as_str() {
        Some("all") => (true, false),
        Some("any") => (false, false),
        Some("all-with-x") => (true, true),
        Some("any-with-x") => (false, true),
        other => {
            let found = other.map_or_else(|| "a value that is no text".to_owned(), |text| format!("'{text}'"));
            let expected = "expected all, any, all-with-x, or any-with-x";
            return Err(errors::precondition(&format!("invalid x-match field value {found}; {expected}")));
        }
    })
}

fn test(name: &str, value: RawValue<'_>) -> Result<Predicate, AmqpError> {
    let header = names::beside_property(name).unwrap_or(name);
    let reference = Reference::property(header);
    Ok(match view::value(value) {
        Value::Null => Predicate::Exists(reference),
        value @ (Value::List(_) | Value::Map(_)) => {
            Predicate::Opaque(Opaque::new(SameHeader { name: header.into(), value }))
        }
        Value::Present => {
            let reason = format!("header '{name}' of the binding has a value that no message can be compared with");
            return Err(errors::precondition(&reason));
        }
        value => Predicate::Compare(Operand::Reference(reference), Comparison::Equal, Operand::Literal(value)),
    })
}

/// Tests whether a header equals an array or a table. No other predicate can express that: in queries a list stands for
/// its elements, and a mapping for its fields.
#[derive(Debug)]
struct SameHeader {
    name: Box<str>,
    value: Value,
}

impl ExpensivePredicate for SameHeader {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_ns(&self) -> f64 {
        100.0
    }

    fn test(&self, message: &Message<'_>) -> Result<Truth, Failure> {
        Ok(message.properties.get(&*self.name).map(|value| *value == self.value))
    }
}

//! Explains why a query is true, false or unknown of a message: each predicate's result and value.

use crate::hierarchy::Hierarchies;
use crate::message::{Message, Value};
use crate::query::Query;
use crate::query::evaluate::Referent;
use crate::query::expr::{Operand, Predicate, Reference};
use crate::query::truth::Truth;

/// The part of one predicate in the answer.
#[derive(Clone, Debug)]
pub struct PredicateResult {
    /// The predicate as selector text.
    pub text: String,
    /// The first value of the message that it used; null when that is absent.
    pub value: Value,
    /// The truth value of the predicate.
    pub result: Truth,
}

/// The answer and its parts.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The truth value of the query.
    pub result: Truth,
    /// Every predicate, from left to right.
    pub predicates: Vec<PredicateResult>,
    /// The names that the query uses and the message lacks, each once.
    pub missing: Vec<String>,
}

impl Query {
    /// Evaluates every predicate, including those that evaluation would not have reached. Cost: each once.
    #[must_use]
    pub fn explain(&self, message: &Message<'_>, hierarchies: Option<&Hierarchies>) -> Explanation {
        let mut missing: Vec<String> = Vec::new();
        let mut predicates = Vec::new();
        for predicate in self.expr().predicates() {
            for reference in predicate.references() {
                let name = reference.to_string();
                if matches!(reference.value(message), Referent::Absent) && !missing.contains(&name) {
                    missing.push(name);
                }
            }
            predicates.push(PredicateResult {
                text: predicate.to_string(),
                value: predicate.first_value(message),
                result: predicate.evaluate(message, hierarchies),
            });
        }
        Explanation { result: self.evaluate(message, hierarchies), predicates, missing }
    }
}

impl Predicate {
    /// The parts of the message that the predicate uses, from left to right.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        let mut references = Vec::new();
        self.for_each_reference(&mut |reference| references.push(reference));
        references
    }

    /// Call `each` with the parts of the message that the predicate uses, from left to right.
    pub fn for_each_reference<'a>(&'a self, each: &mut impl FnMut(&'a Reference)) {
        match self {
            Self::Constant(_) | Self::Opaque(_) => {}
            Self::Topic(_) => each(&Reference::Topic),
            Self::Truth(reference)
            | Self::Exists(reference)
            | Self::Contains(reference, _)
            | Self::Near(reference, ..)
            | Self::Prefix(reference, _)
            | Self::Regex(reference, _)
            | Self::Under(reference, _) => each(reference),
            Self::In(operand, _) | Self::Like(operand, _) | Self::IsNull(operand) => operand.for_each_reference(each),
            Self::Compare(left, _, right) => [left, right].into_iter().for_each(|side| side.for_each_reference(each)),
            Self::Between(operand, low, high) => {
                [operand, low, high].into_iter().for_each(|part| part.for_each_reference(each));
            }
        }
    }

    fn first_value(&self, message: &Message<'_>) -> Value {
        match self.references().first().map(|reference| reference.value(message)) {
            None | Some(Referent::Absent) => Value::Null,
            Some(Referent::Binary) => Value::Present,
            Some(Referent::One(value)) => value.clone(),
            Some(Referent::Text(text)) => Value::Text(text.into()),
            Some(Referent::Many(values)) => Value::List(values.into_iter().cloned().collect()),
        }
    }
}

impl Operand {
    /// Call `each` with the parts of the message that the operand uses, from left to right.
    pub(in crate::query) fn for_each_reference<'a>(&'a self, each: &mut impl FnMut(&'a Reference)) {
        match self {
            Self::Literal(_) => {}
            Self::Reference(reference) => each(reference),
            Self::Negate(inner) => inner.for_each_reference(each),
            Self::Arithmetic(left, _, right) => {
                [left, right].into_iter().for_each(|side| side.for_each_reference(each));
            }
        }
    }
}

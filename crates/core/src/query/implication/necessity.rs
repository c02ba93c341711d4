//! The necessary conditions of a query: a summary of many messages may show that none of them fulfils one.
//!
//! Sound, not complete: a message that satisfies a query has what is necessary, and others may have it too.

use super::budget::{Budget, STEPS_MAX};
use super::claim::{Atom, Claim, Subject};
use super::form::Form;
use super::patterns::literal_beginning;
use super::region::{Region, Set, ValueInterval};
use crate::message::Value;
use crate::query::Query;
use crate::query::expr::{Predicate, Reference};

/// The maximum number of values of which one is sought; of a longer list only the presence of a value is.
const VALUES_MAX: usize = 64;

/// A necessary condition on a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Necessity {
    /// Nothing: any message may satisfy the query.
    Nothing,
    /// A condition that no message fulfils.
    Impossible,
    /// A part with such a value.
    Has(Part, Sought),
    /// All of these.
    All(Vec<Self>),
    /// One of these.
    Any(Vec<Self>),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its topic.
    Topic,
    /// The property that this dotted name reaches.
    Property(std::sync::Arc<str>),
}

/// A condition on a value, or on an element of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Sought {
    /// Anything, also null or a mapping.
    Any,
    /// Equal to this text, number or Boolean.
    Value(Value),
    /// A number from the one to the other, both included.
    Number(f64, f64),
    /// An instant or a day from the one to the other, in microseconds, both included; or a text that reads as one.
    Time(i64, i64),
    /// A text that begins so.
    Beginning(Box<str>),
}

impl Query {
    /// The necessary condition for this query to be true of a message. Sound, not complete; bounded time.
    #[must_use]
    pub fn necessity(&self) -> Necessity {
        of_form(&Form::of(self.expr(), &mut Budget(STEPS_MAX)))
    }
}

impl Necessity {
    fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = parts.into_iter().filter(|part| *part != Self::Nothing).collect();
        if parts.contains(&Self::Impossible) {
            return Self::Impossible;
        }
        match parts.len() {
            0 => Self::Nothing,
            1 => parts.remove(0),
            _ => Self::All(parts),
        }
    }

    fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = parts.into_iter().filter(|part| *part != Self::Impossible).collect();
        if parts.contains(&Self::Nothing) {
            return Self::Nothing;
        }
        match parts.len() {
            0 => Self::Impossible,
            1 => parts.remove(0),
            _ => Self::Any(parts),
        }
    }
}

fn of_form(form: &Form<'_>) -> Necessity {
    match form {
        Form::Always => Necessity::Nothing,
        Form::Never => Necessity::Impossible,
        Form::Atom(atom) => of_atom(atom),
        Form::And(children) => Necessity::all(children.iter().map(of_form)),
        Form::Or(children) => Necessity::any(children.iter().map(of_form)),
    }
}

fn of_atom(atom: &Atom<'_>) -> Necessity {
    let is_there =
        || Necessity::all(atom.subject.references().into_iter().map(|reference| has(reference, Sought::Any)));
    match &atom.claim {
        Claim::Null | Claim::Absent => Necessity::Nothing,
        Claim::NotNull | Claim::Present => is_there(),
        // Where all elements are in the region, there is one.
        Claim::Some(region) | Claim::All(region) => match atom.subject {
            Subject::Reference(reference) => in_region(reference, region),
            _ => is_there(),
        },
    }
}

fn in_region(reference: &Reference, region: &Region<'_>) -> Necessity {
    let any = || has(reference, Sought::Any);
    match region {
        Region { is_complement: true, .. } => any(),
        Region { set: Set::Values(values), .. } if values.len() <= VALUES_MAX => {
            Necessity::any(values.iter().map(|value| has(reference, equal(value))))
        }
        Region { set: Set::Within(interval), .. } => has(reference, within(interval)),
        Region { set: Set::Texts(test), .. } => has(reference, beginning(test)),
        Region { set: Set::Values(_) | Set::Outcomes(_), .. } => any(),
    }
}

/// The condition that a part has such a value. There is none if a name may reach several properties, or if the part is always
/// present.
fn has(reference: &Reference, sought: Sought) -> Necessity {
    match reference {
        Reference::Topic if !matches!(sought, Sought::Value(_) | Sought::Beginning(_)) => Necessity::Nothing,
        Reference::Topic => Necessity::Has(Part::Topic, sought),
        Reference::Property(name) if !name.any_case => Necessity::Has(Part::Property(name.text.clone()), sought),
        Reference::Property(_) | Reference::Body => Necessity::Nothing,
    }
}

fn equal(value: &Value) -> Sought {
    match value {
        Value::Timestamp(micros) | Value::Day(micros) => Sought::Time(*micros, *micros),
        Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Float(_) => Sought::Value(value.clone()),
        Value::Null | Value::Present | Value::List(_) | Value::Map(_) => Sought::Any,
    }
}

fn within(interval: &ValueInterval<'_>) -> Sought {
    let [low, high] = interval.ends();
    let time = |value: &Value| match value {
        Value::Timestamp(micros) | Value::Day(micros) => Some(*micros),
        _ => None,
    };
    let all = |is: &dyn Fn(&Value) -> bool| [low, high].into_iter().flatten().all(|(value, _)| is(value));
    if all(&|value| number(value).is_some()) {
        let low = low.and_then(|(value, is_included)| end_of_numbers(value, is_included, f64::next_up));
        let high = high.and_then(|(value, is_included)| end_of_numbers(value, is_included, f64::next_down));
        Sought::Number(low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY))
    } else if all(&|value| time(value).is_some()) {
        let [low, high] = [low, high].map(|end| end.and_then(|(value, _)| time(value)));
        Sought::Time(low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX))
    } else {
        Sought::Any
    }
}

/// A number as the nearest float: rounding keeps the order of numbers.
fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "rounding keeps the order of numbers")]
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// The first number within a bound; `next` goes from an excluded bound to the float beside it.
fn end_of_numbers(value: &Value, is_included: bool, next: impl Fn(f64) -> f64) -> Option<f64> {
    /// Below, whole numbers are floats as they are, so that no number beyond the bound is rounded to it.
    const EXACT: f64 = (1_u64 << 53) as f64;
    number(value).map(|bound| if is_included || bound.abs() >= EXACT { bound } else { next(bound) })
}

/// The beginning of the texts that pass a test.
fn beginning(test: &Predicate) -> Sought {
    let text = match test {
        Predicate::Like(_, pattern) => pattern.beginning().to_owned(),
        Predicate::Prefix(_, prefix) => prefix.to_string(),
        Predicate::Topic(pattern) => literal_beginning(pattern).collect::<Vec<_>>().join("."),
        _ => String::new(),
    };
    if text.is_empty() { Sought::Any } else { Sought::Beginning(text.into()) }
}

//! The condition on a run of messages to be read, from the conditions of a query.

use crate::message::Value;
use crate::query::implication::{Necessity, Part, Sought};

use super::terms::{
    NUMBERS, TEXTS, TIMES, equal, equal_text, hash, order_of_number, order_of_text, order_of_time, present, property,
    topic,
};

/// The condition on a run to be read.
#[derive(Clone, Debug)]
pub(crate) enum RunCondition {
    /// No message satisfies the query.
    Never,
    /// This term.
    Term(u64),
    /// Something in this range.
    Range(u64, u64, u64),
    /// All of these.
    All(Vec<Self>),
    /// One of these.
    Any(Vec<Self>),
}

impl RunCondition {
    /// The condition on a run for a query to be true of one of its messages; None if every run fulfils it.
    pub fn of(necessity: &Necessity) -> Option<Self> {
        Some(match necessity {
            Necessity::Nothing => return None,
            Necessity::Impossible => Self::Never,
            // Such names are internal: they are not those of headers.
            Necessity::Has(Part::Property(name), _) if name.starts_with('\0') => return None,
            Necessity::Has(part, sought) => {
                let part = match part {
                    Part::Topic => topic(),
                    Part::Property(name) => property(name),
                };
                match sought {
                    Sought::Any => Self::Term(present(part)),
                    Sought::Value(Value::Text(text)) => Self::Term(equal_text(part, text)),
                    Sought::Value(value) => Self::Term(equal(part, value)),
                    Sought::Number(low, high) => {
                        Self::Range(hash(NUMBERS, part), order_of_number(*low), order_of_number(*high))
                    }
                    Sought::Time(low, high) => {
                        Self::Range(hash(TIMES, part), order_of_time(*low), order_of_time(*high))
                    }
                    Sought::Beginning(text) => {
                        Self::Range(hash(TEXTS, part), order_of_text(text, 0), order_of_text(text, u8::MAX))
                    }
                }
            }
            Necessity::All(parts) => {
                let mut parts: Vec<Self> = parts.iter().filter_map(Self::of).collect();
                match parts.len() {
                    0 => return None,
                    1 => parts.remove(0),
                    _ => Self::All(parts),
                }
            }
            Necessity::Any(parts) => Self::Any(parts.iter().map(Self::of).collect::<Option<_>>()?),
        })
    }
}

//! Measures what queries cost: every predicate is evaluated on a message made for it, and timed.
//!
//! An expensive predicate is not called for that, since it may do anything: it counts with the measured cost of its calls so
//! far, or with its declared cost before the first call.

use std::hint::black_box;
use std::time::Instant;

use super::ExpensiveQuery;
use super::sharing::{DistinctQuery, Sharing};
use crate::message::{Body, Message, Properties, Value};
use crate::query::expr::{Operand, Predicate, Reference};
use crate::text::Signature;

/// The number of queries that are measured again with care: the most expensive by a first measurement.
const CANDIDATES: usize = 64;
const ROUGH_ROUNDS: usize = 2;
const CAREFUL_ROUNDS: usize = 15;

const TOPIC: &str = "probe.of.topic";
/// A text about as long as a line.
const TEXT: &str =
    "The quick brown fox jumps over the lazy dog, and then it goes on to do so again and again until night.";
/// The number of times that [`TEXT`] stands in the body: a thousand characters.
const BODY_LINES: usize = 10;

/// The queries whose predicates cost most together, the most expensive first. Cost: about a microsecond per predicate.
pub(super) fn most_expensive(sharing: &Sharing<'_>, limit: usize) -> Vec<ExpensiveQuery> {
    let probe = Probe::new();
    let rough: Vec<f64> = sharing.predicates.iter().map(|predicate| probe.cost_ns(predicate, ROUGH_ROUNDS)).collect();
    let sum = |query: &DistinctQuery<'_>| query.predicates.iter().map(|index| rough[*index as usize]).sum::<f64>();
    let mut candidates: Vec<(f64, &DistinctQuery<'_>)> =
        sharing.queries.iter().map(|query| (sum(query), query)).collect();
    if candidates.len() > CANDIDATES {
        candidates.select_nth_unstable_by(CANDIDATES, |a, b| b.0.total_cmp(&a.0));
        candidates.truncate(CANDIDATES);
    }
    let measured = candidates.into_iter().map(|(_, query)| ExpensiveQuery {
        id: query.ids[0],
        text: query.query.to_string(),
        cost_ns: query.query.expr().predicates().iter().map(|one| probe.cost_ns(one, CAREFUL_ROUNDS)).sum(),
    });
    let mut most_expensive: Vec<ExpensiveQuery> = measured.collect();
    most_expensive.sort_by(|a, b| b.cost_ns.total_cmp(&a.cost_ns));
    most_expensive.truncate(limit);
    most_expensive
}

/// The message that predicates are measured on.
struct Probe {
    body: String,
    signature: Signature,
    /// The time that reading the clock takes.
    clock_ns: f64,
}

impl Probe {
    fn new() -> Self {
        let body = [TEXT; BODY_LINES].join("\n");
        let signature = Signature::of(&body);
        let mut probe = Self { body, signature, clock_ns: 0.0 };
        probe.clock_ns = probe.cost_ns(&Predicate::Constant(true), 1_000);
        probe
    }

    /// The least time that evaluating `predicate` took: longer times include other work of this machine.
    fn cost_ns(&self, predicate: &Predicate, rounds: usize) -> f64 {
        if let Predicate::Opaque(opaque) = predicate {
            return opaque.counts().measured_ns.unwrap_or_else(|| opaque.cost_ns());
        }
        let properties: Properties =
            predicate.references().into_iter().filter_map(|part| property(part, predicate)).collect();
        let message = Message::new(TOPIC, &properties, Body::Text(&self.body)).with_signature(&self.signature);
        let mut least = f64::INFINITY;
        for _ in 0..rounds {
            let start = Instant::now();
            black_box(black_box(predicate).evaluate(&message, None));
            #[expect(clippy::cast_precision_loss, reason = "a measurement")]
            let elapsed = start.elapsed().as_nanos() as f64;
            least = least.min(elapsed);
        }
        (least - self.clock_ns).max(1.0)
    }
}

/// A property on which `predicate` can decide, of the type that it is compared with.
fn property(part: &Reference, predicate: &Predicate) -> Option<(Box<str>, Value)> {
    let Reference::Property(name) = part else { return None };
    let value = match predicate {
        Predicate::Compare(_, _, Operand::Literal(value)) | Predicate::Compare(Operand::Literal(value), _, _) => {
            value.clone()
        }
        Predicate::In(_, values) => values.values().last().cloned().unwrap_or(Value::Int(1)),
        Predicate::Between(_, Operand::Literal(low), _) => low.clone(),
        Predicate::Truth(_) => Value::Bool(true),
        Predicate::Compare(..) | Predicate::Between(..) => Value::Int(1),
        _ => Value::Text(TEXT.into()),
    };
    Some((name.text.as_ref().into(), value))
}

//! Simple matchers: brute force, one hash access predicate, and flat columns of bounds.

use std::sync::Arc;

use hashbrown::HashMap;
use tamis_core::message::{Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::{Comparison, Expr, Operand, Predicate, Reference};

use super::programs::Programs;

/// A way to find the queries that are true of a message, by index, in any order.
pub trait Baseline {
    /// Append the matches of `properties` to `found`.
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>);
}

/// Evaluates every query, as a flat program.
#[derive(Debug)]
pub struct BruteForce {
    programs: Programs,
    count: u32,
}

impl BruteForce {
    /// The programs of `queries`.
    #[must_use]
    pub fn new(queries: &[Arc<Query>]) -> Self {
        Self { programs: Programs::new(queries), count: queries.len() as u32 }
    }
}

impl Baseline for BruteForce {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        self.programs.read(properties);
        found.extend((0..self.count).filter(|query| self.programs.is_true(*query, properties)));
    }
}

/// Files each query under the rarest value that it demands, and evaluates those of a message's values; the others always.
#[derive(Debug)]
pub struct OnePredicate {
    programs: Programs,
    filed: HashMap<(Box<str>, Box<str>), Vec<u32>>,
    others: Vec<u32>,
    candidates: Vec<u32>,
}

impl OnePredicate {
    /// File `queries`; None when hardly any has a value to be filed under.
    #[must_use]
    pub fn new(queries: &[Arc<Query>]) -> Option<Self> {
        let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
        queries.iter().flat_map(|query| demands(query.expr())).for_each(|(name, values)| {
            values.into_iter().for_each(|value| *counts.entry((name, value)).or_default() += 1);
        });
        let programs = Programs::new(queries);
        let mut all = Self { programs, filed: HashMap::new(), others: Vec::new(), candidates: Vec::new() };
        for (id, query) in (0..).zip(queries) {
            let frequency =
                |(name, values): &(&str, Vec<&str>)| values.iter().map(|v| counts[&(*name, *v)]).sum::<usize>();
            match demands(query.expr()).into_iter().min_by_key(frequency) {
                None => all.others.push(id),
                Some((name, values)) => values.into_iter().for_each(|value| {
                    all.filed.entry((name.into(), value.into())).or_default().push(id);
                }),
            }
        }
        (all.others.len() * 2 <= queries.len()).then_some(all)
    }
}

/// The parts of an AND; of anything else, itself.
pub(super) fn parts(expr: &Expr) -> &[Expr] {
    if let Expr::And(parts) = expr { parts } else { std::slice::from_ref(expr) }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

pub(super) fn name(reference: &Reference) -> Option<&str> {
    if let Reference::Property(name) = reference { Some(&name.text) } else { None }
}

/// The texts that each part of an AND demands of a property.
pub(super) fn demands(expr: &Expr) -> Vec<(&str, Vec<&str>)> {
    fn demand(part: &Expr) -> Option<(&str, Vec<&str>)> {
        match part {
            Expr::Predicate(Predicate::Compare(Operand::Reference(a), Comparison::Equal, Operand::Literal(b))) => {
                Some((name(a)?, vec![text(b)?]))
            }
            Expr::Predicate(Predicate::In(Operand::Reference(a), values)) => {
                Some((name(a)?, values.values().iter().map(text).collect::<Option<_>>()?))
            }
            _ => None,
        }
    }
    parts(expr).iter().filter_map(demand).collect()
}

impl Baseline for OnePredicate {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Self { programs, filed, others, candidates } = self;
        programs.read(properties);
        candidates.clone_from(others);
        for (name, value) in properties {
            let values = if let Value::List(values) = value { &**values } else { std::slice::from_ref(value) };
            for value in values {
                if let Value::Text(text) = value {
                    candidates.extend(filed.get(&Borrowed(name, text)).into_iter().flatten());
                }
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        found.extend(candidates.iter().filter(|query| programs.is_true(**query, properties)));
    }
}

#[derive(Hash)]
struct Borrowed<'a>(&'a str, &'a str);

impl hashbrown::Equivalent<(Box<str>, Box<str>)> for Borrowed<'_> {
    fn equivalent(&self, key: &(Box<str>, Box<str>)) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}

/// The bounds of each property side by side, for queries that are ANDs of ranges of numbers.
#[derive(Debug)]
pub struct FlatColumns {
    columns: HashMap<Box<str>, Column>,
    /// The number of ranges of each query, and of those that hold.
    wanted: Vec<u8>,
    held: Vec<u8>,
}

#[derive(Debug, Default)]
struct Column {
    ids: Vec<u32>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl FlatColumns {
    /// The columns of `queries`; None when one of them is no AND of ranges.
    #[must_use]
    pub fn new(queries: &[Arc<Query>]) -> Option<Self> {
        let mut flat = Self { columns: HashMap::new(), wanted: Vec::new(), held: vec![0; queries.len()] };
        for (id, query) in (0..).zip(queries) {
            let parts = parts(query.expr());
            flat.wanted.push(u8::try_from(parts.len()).ok()?);
            for part in parts {
                let (name, low, high) = range(part)?;
                let column = flat.columns.entry(name.into()).or_default();
                column.ids.push(id);
                column.low.push(low);
                column.high.push(high);
            }
        }
        Some(flat)
    }
}

/// The bounds of a range, both included.
pub(super) fn range(part: &Expr) -> Option<(&str, f64, f64)> {
    let Expr::Predicate(predicate) = part else { return None };
    let (reference, low, high) = match predicate {
        Predicate::Between(Operand::Reference(reference), Operand::Literal(low), Operand::Literal(high)) => {
            (reference, number(low)?, number(high)?)
        }
        Predicate::Compare(Operand::Reference(reference), Comparison::Greater, Operand::Literal(low)) => {
            (reference, number(low)?.next_up(), f64::INFINITY)
        }
        Predicate::Compare(Operand::Reference(reference), Comparison::Less, Operand::Literal(high)) => {
            (reference, f64::NEG_INFINITY, number(high)?.next_down())
        }
        _ => return None,
    };
    let Reference::Property(name) = reference else { return None };
    Some((&name.text, low, high))
}

/// A number, or a time in microseconds, also one that a text reads as.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::Int(value) | Value::Timestamp(value) => Some(*value as f64),
        Value::Text(_) => value.as_time().as_ref().and_then(number),
        _ => None,
    }
}

impl Baseline for FlatColumns {
    fn match_into(&mut self, properties: &Properties, found: &mut Vec<u32>) {
        let Self { columns, wanted, held } = self;
        held.fill(0);
        for (name, value) in properties {
            let (Some(column), Some(number)) = (columns.get(name.as_ref() as &str), number(value)) else { continue };
            let bounds = column.low.iter().zip(&column.high);
            if column.ids.len() == held.len() {
                // All queries ask: no list of them has to be read.
                let hold = |(held, (low, high)): (&mut u8, (&f64, &f64))| {
                    *held += u8::from((number >= *low) & (number <= *high));
                };
                held.iter_mut().zip(bounds).for_each(hold);
            } else {
                for (id, (low, high)) in column.ids.iter().zip(bounds) {
                    held[*id as usize] += u8::from((number >= *low) & (number <= *high));
                }
            }
        }
        let all = (0_u32..).zip(held.iter().zip(&*wanted));
        found.extend(all.filter(|(_, (held, wanted))| held == wanted).map(|(id, _)| id));
    }
}

//! Queries as flat programs over the numbered properties of a message, which evaluate in a few nanoseconds.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::{Comparison, Expr, Operand, Predicate};

use super::baselines::{name, number, range};

/// The target of a jump that ends a program.
const TRUE: u32 = u32::MAX;
const FALSE: u32 = u32::MAX - 1;
/// The number of a text that no query names.
const OTHER: u32 = u32::MAX;
/// A longer list of values is looked up in a table.
const TESTS_MAX: usize = 4;

/// A test of one property. Of a negated test nothing is true that is unknown: an absent property satisfies neither.
#[derive(Clone, Copy, Debug)]
enum Test {
    Within(f64, f64),
    Outside(f64, f64),
    Equal(u32),
    NotEqual(u32),
    OneOf(u32),
    Absent,
    Present,
    /// Anything else: the query with this number.
    Query(u32),
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    test: Test,
    slot: u32,
    if_true: u32,
    if_false: u32,
}

/// The value of a property of the message at hand.
#[derive(Clone, Debug)]
struct Slot {
    is_present: bool,
    number: f64,
    text: u32,
    /// The texts of a list.
    list: Vec<u32>,
}

impl Slot {
    const EMPTY: Self = Self { is_present: false, number: f64::NAN, text: OTHER, list: Vec::new() };

    fn has(&self, is_wanted: impl Fn(u32) -> bool) -> bool {
        is_wanted(self.text) || self.list.iter().any(|text| is_wanted(*text))
    }
}

/// Programs, one per query.
#[derive(Debug, Default)]
pub struct Programs {
    starts: Vec<u32>,
    code: Vec<Instruction>,
    names: HashMap<Box<str>, u32>,
    texts: HashMap<Box<str>, u32>,
    sets: Vec<HashSet<u32>>,
    queries: Vec<Arc<Query>>,
    slots: Vec<Slot>,
    /// The number of labels of the query that is compiled: targets until they are known.
    labels: u32,
}

impl Programs {
    /// The programs of `queries`.
    #[must_use]
    pub fn new<'q>(queries: impl IntoIterator<Item = &'q Arc<Query>>) -> Self {
        let mut all = Self::default();
        for query in queries {
            all.starts.push(all.code.len() as u32);
            all.labels = 0;
            all.compile(query.expr(), false, TRUE, FALSE);
        }
        all.slots = vec![Slot::EMPTY; all.names.len().max(1)];
        all
    }

    /// Read the properties that some query names.
    pub fn read(&mut self, properties: &Properties) {
        let Self { names, texts, slots, .. } = self;
        slots.iter_mut().for_each(|slot| {
            slot.list.clear();
            *slot = Slot { list: std::mem::take(&mut slot.list), ..Slot::EMPTY };
        });
        let number_of = |text: &str| texts.get(text).copied().unwrap_or(OTHER);
        for (name, value) in properties {
            let Some(slot) = names.get(name.as_ref() as &str) else { continue };
            let slot = &mut slots[*slot as usize];
            slot.is_present = !matches!(value, Value::Null);
            match value {
                Value::Text(text) => (slot.text, slot.number) = (number_of(text), number(value).unwrap_or(f64::NAN)),
                Value::List(values) => slot.list.extend(values.iter().map(|value| match value {
                    Value::Text(text) => number_of(text),
                    other => panic!("a shape has a list with {other:?}"),
                })),
                other => slot.number = number(other).unwrap_or(f64::NAN),
            }
        }
    }

    /// Whether the query with this number is true of the message that was read; `properties` are its properties.
    #[inline]
    #[must_use]
    pub fn is_true(&self, query: u32, properties: &Properties) -> bool {
        let mut at = self.starts[query as usize];
        while at < FALSE {
            let Instruction { test, slot, if_true, if_false } = self.code[at as usize];
            let slot = &self.slots[slot as usize];
            let is_true = match test {
                Test::Within(low, high) => slot.number >= low && slot.number <= high,
                Test::Outside(low, high) => slot.number < low || slot.number > high,
                Test::Equal(text) => slot.has(|own| own == text),
                Test::NotEqual(text) => slot.is_present && !slot.has(|own| own == text),
                Test::OneOf(set) => slot.has(|own| self.sets[set as usize].contains(&own)),
                Test::Absent => !slot.is_present,
                Test::Present => slot.is_present,
                Test::Query(query) => {
                    self.queries[query as usize].is_true(&Message::new("", properties, Body::Absent), None)
                }
            };
            at = if is_true { if_true } else { if_false };
        }
        at == TRUE
    }

    /// Append the code of `expr`, or of its negation, which goes on at `if_true` or `if_false`.
    fn compile(&mut self, expr: &Expr, is_negated: bool, if_true: u32, if_false: u32) {
        match expr {
            Expr::Not(inner) => self.compile(inner, !is_negated, if_true, if_false),
            Expr::And(parts) => self.join(parts, is_negated, !is_negated, if_true, if_false),
            Expr::Or(parts) => self.join(parts, is_negated, is_negated, if_true, if_false),
            Expr::Predicate(predicate) => self.test(expr, predicate, is_negated, if_true, if_false),
        }
    }

    /// Append the code of an AND or OR: after a part that does not decide, the next one follows.
    fn join(&mut self, parts: &[Expr], is_negated: bool, is_and: bool, if_true: u32, if_false: u32) {
        self.labels += 1;
        let label = FALSE - self.labels;
        for (index, part) in parts.iter().enumerate() {
            let start = self.code.len();
            if index + 1 == parts.len() {
                return self.compile(part, is_negated, if_true, if_false);
            }
            let (own_true, own_false) = if is_and { (label, if_false) } else { (if_true, label) };
            self.compile(part, is_negated, own_true, own_false);
            let next = self.code.len() as u32;
            for instruction in &mut self.code[start..] {
                for target in [&mut instruction.if_true, &mut instruction.if_false] {
                    if *target == label {
                        *target = next;
                    }
                }
            }
        }
    }

    fn test(&mut self, expr: &Expr, predicate: &Predicate, is_negated: bool, if_true: u32, if_false: u32) {
        if let Some((name, tests)) = self.tests(expr, predicate, is_negated) {
            let next = self.names.len() as u32;
            let slot = *self.names.entry(name).or_insert(next);
            for (left, test) in (0..tests.len()).rev().zip(tests) {
                let next = self.code.len() as u32 + 1;
                self.code.push(Instruction { test, slot, if_true, if_false: if left == 0 { if_false } else { next } });
            }
            return;
        }
        let whole = if is_negated { Expr::Not(Box::new(expr.clone())) } else { expr.clone() };
        let test = Test::Query(self.queries.len() as u32);
        self.queries.push(Arc::new(Query::new(whole).expect("a part of a query")));
        self.code.push(Instruction { test, slot: 0, if_true, if_false });
    }

    /// The property that a predicate tests, and the tests of which one has to be true; None for a predicate of another kind.
    fn tests(&mut self, expr: &Expr, predicate: &Predicate, is_negated: bool) -> Option<(Box<str>, Vec<Test>)> {
        if let Some((name, low, high)) = range(expr) {
            return Some((
                name.into(),
                vec![if is_negated { Test::Outside(low, high) } else { Test::Within(low, high) }],
            ));
        }
        let (reference, tests) = match predicate {
            Predicate::IsNull(Operand::Reference(reference)) => {
                (reference, vec![if is_negated { Test::Present } else { Test::Absent }])
            }
            Predicate::Compare(
                Operand::Reference(reference),
                comparison @ (Comparison::Equal | Comparison::NotEqual),
                Operand::Literal(Value::Text(text)),
            ) if Value::Text(text.clone()).as_time().is_none() => {
                let text = self.text(text);
                let is_equal = (*comparison == Comparison::Equal) != is_negated;
                (reference, vec![if is_equal { Test::Equal(text) } else { Test::NotEqual(text) }])
            }
            Predicate::In(Operand::Reference(reference), values) if !is_negated => {
                let texts: Option<Vec<_>> = values.values().iter().map(super::baselines::text).collect();
                let texts: Vec<_> = texts?.into_iter().map(|text| self.text(text)).collect();
                if texts.len() <= TESTS_MAX {
                    (reference, texts.into_iter().map(Test::Equal).collect())
                } else {
                    self.sets.push(texts.into_iter().collect());
                    (reference, vec![Test::OneOf(self.sets.len() as u32 - 1)])
                }
            }
            _ => return None,
        };
        Some((name(reference)?.into(), tests))
    }

    fn text(&mut self, text: &str) -> u32 {
        let next = self.texts.len() as u32;
        *self.texts.entry(text.into()).or_insert(next)
    }
}

//! Guards: what must hold for a query of the tail, tested on a value that is looked up once per message.
//!
//! `symbol = 'A' AND price > 5` is true only if `symbol = 'A'` and `price > 5` are. These are its guards: of ten such queries
//! the message's `symbol` and `price` are looked up once, and only a query that asks for more is evaluated.

use std::cell::OnceCell;

use smallvec::SmallVec;

use crate::message::{Message, Resolved, Value};
use crate::query::Query;
use crate::query::evaluate::compare;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, PropertyName, Reference};
use crate::query::truth::Truth;

/// The number of looked up names that need no allocation.
const NAMES: usize = 8;

/// The maximum number of guards of a query; what else it asks for is evaluated.
const GUARDS_MAX: usize = 4;

/// A predicate on one property that a query needs to be true.
#[derive(Debug)]
struct Guard {
    name: PropertyName,
    /// The number of the name: equal for all guards of a tail with this name.
    slot: usize,
    /// Its index among the operands of the query's AND; 0 if it is the whole query.
    operand: usize,
}

/// The guards of a query, equalities first.
#[derive(Debug)]
pub struct Guards {
    all: SmallVec<[Guard; 2]>,
    /// Whether the query is nothing but these.
    is_all: bool,
}

impl Guards {
    /// The guards of `query`, which is added after `earlier` ones: its comparisons with constants.
    #[must_use]
    pub fn of<'g>(query: &Query, earlier: impl Iterator<Item = &'g Self>) -> Self {
        let operands = operands(query.expr());
        let mut found: Vec<_> = (0..).zip(operands).filter_map(|(index, part)| Some((index, guarded(part)?))).collect();
        let is_all = found.len() == operands.len() && found.len() <= GUARDS_MAX;
        found.sort_by_key(|(_, (_, is_equality))| !is_equality);
        let mut slots: Vec<(&PropertyName, usize)> =
            earlier.flat_map(|guards| &guards.all).map(|guard| (&guard.name, guard.slot)).collect();
        let mut all = SmallVec::new();
        for (operand, (name, _)) in found.into_iter().take(GUARDS_MAX) {
            let new_slot = slots.iter().map(|(_, slot)| slot + 1).max().unwrap_or(0);
            let slot = slots.iter().find(|(other, _)| *other == name).map_or(new_slot, |(_, slot)| *slot);
            slots.push((name, slot));
            all.push(Guard { name: name.clone(), slot, operand });
        }
        Self { all, is_all }
    }

    /// Whether `query`, whose guards these are, is true; None if it has to be evaluated.
    #[inline]
    #[must_use]
    pub fn decide<'m>(&self, query: &Query, message: &Message<'m>, values: &mut LookedUp<'m>) -> Option<bool> {
        let (operands, mut is_decided) = (operands(query.expr()), self.is_all);
        for guard in &self.all {
            let looked_up = values.get(guard, message);
            match &looked_up.values {
                None => return Some(false), // a comparison with nothing is unknown
                Some(Resolved::Many(_)) => is_decided = false,
                Some(Resolved::One(value)) => {
                    let Expr::Predicate(predicate) = operands.get(guard.operand)? else { return None };
                    if truth_of(predicate, value, &looked_up.time)? != Some(true) {
                        return Some(false);
                    }
                }
            }
        }
        is_decided.then_some(true)
    }
}

/// The conditions that are true whenever `expr` is.
fn operands(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::And(operands) => operands,
        other => std::slice::from_ref(other),
    }
}

/// The property that a comparison with constants tests, and whether it is an equality.
fn guarded(expr: &Expr) -> Option<(&PropertyName, bool)> {
    match expr {
        Expr::Predicate(Predicate::Compare(Operand::Reference(Reference::Property(name)), op, Operand::Literal(_))) => {
            Some((name, *op == Comparison::Equal))
        }
        Expr::Predicate(Predicate::Between(
            Operand::Reference(Reference::Property(name)),
            Operand::Literal(_),
            Operand::Literal(_),
        )) => Some((name, false)),
        Expr::Predicate(Predicate::In(Operand::Reference(Reference::Property(name)), _)) => Some((name, true)),
        _ => None,
    }
}

/// The truth of a predicate of [`guarded`] for the value of its property; None for any other predicate.
#[inline]
fn truth_of(predicate: &Predicate, value: &Value, time: &ReadTime) -> Option<Truth> {
    let compare_read = |op, literal| match time.beside(value, literal) {
        Some(time) => compare(time, op, literal),
        None => compare(value, op, literal),
    };
    match predicate {
        Predicate::Compare(_, op, Operand::Literal(literal)) => Some(compare_read(*op, literal)),
        Predicate::Between(_, Operand::Literal(low), Operand::Literal(high)) => {
            let is_above = compare_read(Comparison::GreaterOrEqual, low);
            Some(if is_above == Some(true) { compare_read(Comparison::LessOrEqual, high) } else { is_above })
        }
        Predicate::In(_, values) => Some((!value.is_unknown()).then(|| values.contains_read(value, || time.of(value)))),
        _ => None,
    }
}

/// The time that a property's text reads as, once a guard has needed it: reading it takes longer than ten comparisons.
#[derive(Debug, Default)]
struct ReadTime(OnceCell<Option<Value>>);

impl ReadTime {
    /// The time that `value` reads as, always the same one.
    #[inline]
    fn of(&self, value: &Value) -> Option<&Value> {
        self.0.get_or_init(|| value.as_time()).as_ref()
    }

    /// As [`Value::as_time_beside`].
    #[inline]
    fn beside(&self, value: &Value, literal: &Value) -> Option<&Value> {
        if literal.is_time() { self.of(value).filter(|time| time.is_comparable_beside(literal)) } else { None }
    }
}

/// What a name leads to in a message.
#[derive(Debug)]
struct LookedUpValue<'m> {
    slot: usize,
    values: Option<Resolved<'m>>,
    /// The time that the one value reads as.
    time: ReadTime,
}

/// The values of a message that guards have asked for, each with its slot.
#[derive(Debug, Default)]
pub struct LookedUp<'m>(SmallVec<[LookedUpValue<'m>; NAMES]>);

impl<'m> LookedUp<'m> {
    /// What the name of `guard` leads to. Cost: a look-up the first time.
    #[inline]
    fn get(&mut self, guard: &Guard, message: &Message<'m>) -> &LookedUpValue<'m> {
        let known = self.0.iter().position(|known| known.slot == guard.slot);
        let index = known.unwrap_or_else(|| {
            let values = message.look_up(&guard.name.text, guard.name.any_case);
            self.0.push(LookedUpValue { slot: guard.slot, values, time: ReadTime::default() });
            self.0.len() - 1
        });
        &self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Body, Properties};
    use crate::query::selector::{SelectorDialect, parse};

    #[test]
    fn what_guards_decide_is_what_evaluating_says() {
        let list = || Value::List(vec![Value::Int(4), Value::Int(9)]);
        let day = || Value::Text("2026-03-01".into());
        let noon = || Value::Text("2026-03-01T12:00:00Z".into());
        let values = [Value::Null, Value::Present, Value::Bool(true), Value::Int(3), Value::Int(5), day(), noon()];
        let others = [Value::Float(5.5), Value::Float(f64::NAN), Value::Timestamp(0), list()];
        let queries = [
            "a = 5",
            "a <> 5",
            "a > 4",
            "a BETWEEN 3 AND 5",
            "a BETWEEN 5 AND 3",
            "a BETWEEN 'a' AND 'y'",
            "a IN (3, 4)",
            "a > TIMESTAMP '2026-03-01T11:00:00Z'",
            "a = DATE '2026-03-01'",
            "a > TIMESTAMP '2026-02-01T11:00:00Z' AND a < DATE '2026-03-02' AND a <> TIMESTAMP '2026-03-01T11:00:00Z'",
            "a IN (TIMESTAMP '2026-03-01T12:00:00Z', 3) AND a >= DATE '2026-03-01'",
            "a BETWEEN TIMESTAMP '2026-03-01T11:00:00Z' AND TIMESTAMP '2026-03-02T00:00:00Z'",
            "a BETWEEN DATE '2026-02-01' AND DATE '2026-03-01' AND b = 1",
            "b < 2 AND a > 4 AND b = 1 AND a <> 7 AND b > 0 AND a < 5",
            "a > 4 AND (a < 6 OR b = 2)",
            "a BETWEEN TIMESTAMP '1969-01-01T00:00:00Z' AND 7",
        ];
        let (mut decided, mut matched) = (0, 0);
        for text in queries {
            let query = parse(text, SelectorDialect::Jms).expect(text);
            let guards = Guards::of(&query, std::iter::empty());
            for value in values.iter().chain(&others) {
                let properties: Properties =
                    [("a".into(), value.clone()), ("b".into(), Value::Int(1))].into_iter().collect();
                let message = Message::new("", &properties, Body::Absent);
                let is_true = query.is_true(&message, None);
                let mut values = LookedUp::default();
                let guarded = guards.decide(&query, &message, &mut values);
                assert!(guarded.is_none_or(|guarded| guarded == is_true), "{text} of {value:?}");
                assert_eq!(
                    guards.decide(&query, &message, &mut values),
                    guarded,
                    "{text} of {value:?}, looked up before"
                );
                decided += usize::from(guarded.is_some());
                matched += usize::from(is_true);
            }
        }
        assert!(decided > 100 && matched > 15, "{decided} decided, {matched} matched");
    }
}

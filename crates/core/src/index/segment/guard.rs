//! Guards: what must hold for a query of the tail, tested on a value that is looked up once per message.
//!
//! `symbol = 'A' AND price > 5` is true only if `symbol = 'A'` is. That is its guard: of ten such queries the message's
//! `symbol` is looked up once, and the queries whose guard fails are not evaluated.

use smallvec::SmallVec;

use crate::message::{Message, Resolved, Value};
use crate::query::Query;
use crate::query::evaluate::compare;
use crate::query::expr::{Comparison, Expr, Operand, Predicate, PropertyName, Reference};
use crate::query::truth::Truth;

/// The number of looked up names that need no allocation.
const NAMES: usize = 8;

/// A predicate on one property that a query needs to be true.
#[derive(Debug)]
pub struct Guard {
    name: PropertyName,
    /// The same for all guards of a tail with this name, and no other.
    slot: usize,
    /// Its index among the operands of the query's AND; 0 if it is the whole query.
    operand: usize,
    /// Whether it is the whole query.
    is_all: bool,
}

impl Guard {
    /// The guard of `query`, which is added after `earlier` ones: an equality if it needs one, else any other comparison with a
    /// constant.
    #[must_use]
    pub fn of<'g>(query: &Query, earlier: impl ExactSizeIterator<Item = Option<&'g Self>>) -> Option<Self> {
        let operands = operands(query.expr());
        let guards = || (0..).zip(operands).filter_map(|(index, operand)| Some((index, guarded(operand)?)));
        let (operand, (name, _)) = guards().find(|(_, (_, is_equality))| *is_equality).or_else(|| guards().next())?;
        let new_slot = earlier.len();
        let slot = earlier.flatten().find(|guard| guard.name == *name).map_or(new_slot, |guard| guard.slot);
        Some(Self { name: name.clone(), slot, operand, is_all: matches!(query.expr(), Expr::Predicate(_)) })
    }

    /// Whether `query`, whose guard this is, is true; None if it has to be evaluated.
    #[inline]
    #[must_use]
    pub fn decide<'m>(&self, query: &Query, message: &Message<'m>, values: &mut LookedUp<'m>) -> Option<bool> {
        let value = match values.get(self, message) {
            None => return Some(false), // a comparison with nothing is unknown
            Some(Resolved::One(value)) => *value,
            Some(Resolved::Many(_)) => return None,
        };
        let Expr::Predicate(predicate) = operands(query.expr()).get(self.operand)? else { return None };
        let is_true = truth_of(predicate, value)? == Some(true);
        if is_true && !self.is_all { None } else { Some(is_true) }
    }
}

/// What has to be true for `expr` to be.
fn operands(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::And(operands) => operands,
        other => std::slice::from_ref(other),
    }
}

/// The property that a comparison with constants tests, and whether it is an equality.
fn guarded(expr: &Expr) -> Option<(&PropertyName, bool)> {
    match expr {
        Expr::Predicate(Predicate::Compare(
            Operand::Reference(Reference::Property(name)),
            op,
            Operand::Literal(value),
        )) if !value.is_time() => Some((name, *op == Comparison::Equal)),
        Expr::Predicate(Predicate::In(Operand::Reference(Reference::Property(name)), _)) => Some((name, true)),
        _ => None,
    }
}

/// The truth of a predicate of [`guarded`] for the value of its property; None for any other predicate.
#[inline]
fn truth_of(predicate: &Predicate, value: &Value) -> Option<Truth> {
    match predicate {
        Predicate::Compare(_, op, Operand::Literal(literal)) => Some(compare(value, *op, literal)),
        Predicate::In(_, values) => Some((!value.is_unknown()).then(|| values.contains_read(value))),
        _ => None,
    }
}

/// The values of a message that guards have asked for, each with its slot.
#[derive(Debug, Default)]
pub struct LookedUp<'m>(SmallVec<[(usize, Option<Resolved<'m>>); NAMES]>);

impl<'m> LookedUp<'m> {
    /// The value that the name of `guard` leads to. Cost: a look-up the first time.
    #[inline]
    fn get(&mut self, guard: &Guard, message: &Message<'m>) -> Option<&Resolved<'m>> {
        let known = self.0.iter().position(|(slot, _)| *slot == guard.slot);
        let index = known.unwrap_or_else(|| {
            self.0.push((guard.slot, message.look_up(&guard.name.text, guard.name.any_case)));
            self.0.len() - 1
        });
        self.0[index].1.as_ref()
    }
}

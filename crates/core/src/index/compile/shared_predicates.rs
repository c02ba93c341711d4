//! Cacheable units (the PNNL paper): predicates that rows of bits cannot decide, each evaluated at most once a message,
//! however many queries have it.

use hashbrown::HashMap;

use crate::expensive::OpaqueTable;
use crate::query::Query;
use crate::query::expr::{Expr, Predicate};

use crate::index::codec::encode;

/// Number of a unit within a segment.
pub type UnitId = u32;

/// Gives numbers to units while a segment is built.
#[derive(Default)]
pub struct Units {
    units: Vec<Query>,
    by_record: HashMap<Vec<u8>, UnitId>,
    opaques: OpaqueTable,
}

impl Units {
    /// The number of a predicate or of its negation, new or known.
    ///
    /// # Panics
    /// Never: one predicate of a query is within the limits of a query.
    pub fn unit(&mut self, predicate: &Predicate, is_negated: bool) -> UnitId {
        let expr = Expr::from(predicate.clone());
        let expr = if is_negated { expr.negate() } else { expr };
        let unit = Query::again(expr).expect("a part of a query that is within the limits");
        let mut record = Vec::new();
        encode(&unit, &mut record, &mut self.opaques);
        let Self { units, by_record, .. } = self;
        *by_record.entry(record).or_insert_with(|| {
            units.push(unit);
            UnitId::try_from(units.len() - 1).expect("fewer than 2^32 predicates fit in memory")
        })
    }

    /// Every unit, by number.
    pub fn all(&self) -> &[Query] {
        &self.units
    }
}

/// What became of the units of a segment in one message.
#[derive(Debug, Default)]
pub struct UnitMemo {
    /// When each was last evaluated, and whether it was true.
    stamps: Vec<(u32, bool)>,
    now: u32,
}

impl UnitMemo {
    /// Forget everything, for a segment of `count` units.
    pub fn begin(&mut self, count: usize) {
        if self.stamps.len() < count {
            self.stamps.resize(count, (0, false));
        }
        self.now = self.now.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill((0, false));
            1
        });
    }

    /// Whether `unit` is true: as it was found before, or by `evaluate`. None when there is no such unit.
    ///
    /// # Errors
    /// What `evaluate` gives.
    pub fn is_true<E>(&mut self, unit: UnitId, evaluate: impl FnOnce() -> Result<bool, E>) -> Result<Option<bool>, E> {
        let Some(stamp) = self.stamps.get_mut(unit as usize) else { return Ok(None) };
        if stamp.0 != self.now {
            *stamp = (self.now, evaluate()?);
        }
        Ok(Some(stamp.1))
    }
}

//! Numbers the shared predicates of a segment: those that no clause can express (cacheable units in the PNNL paper).
//!
//! They are evaluated last, each at most once per message, however many queries have it.

use hashbrown::HashMap;

use crate::expensive::OpaqueTable;
use crate::index::codec::encode;
use crate::index::ids::SharedPredicateId;
use crate::query::Query;
use crate::query::expr::{Expr, Predicate};

/// The shared predicates while a segment is built.
#[derive(Default)]
pub struct SharedPredicates {
    all: Vec<Query>,
    by_record: HashMap<Vec<u8>, SharedPredicateId>,
    opaques: OpaqueTable,
}

impl SharedPredicates {
    /// The number of a predicate or of its negation, new or known.
    ///
    /// # Panics
    /// Never: one predicate of a query is within the limits of a query.
    pub fn id(&mut self, predicate: &Predicate, is_negated: bool) -> SharedPredicateId {
        let expr = Expr::from(predicate.clone());
        let expr = if is_negated { expr.negate() } else { expr };
        let query = Query::again(expr).expect("a part of a query that is within the limits");
        let mut record = Vec::new();
        encode(&query, &mut record, &mut self.opaques);
        let Self { all, by_record, .. } = self;
        *by_record.entry(record).or_insert_with(|| {
            all.push(query);
            SharedPredicateId::of(all.len() - 1)
        })
    }

    /// Every shared predicate as a query, by number.
    pub fn into_all(self) -> Vec<Query> {
        self.all
    }

    /// Every shared predicate as a query, by number.
    pub fn all(&self) -> &[Query] {
        &self.all
    }
}

//! The engine: which of many standing queries are true of a message, without evaluating them all.
//!
//! A first index (issue: one hash access predicate a query, verify the rest), behind the final interface. The naive
//! loop evaluates every query; here a query is filed under necessary equalities ([`access`]), a message looks up those
//! of its values, and only what it finds is evaluated, beside the queries that have no such equality.
//! Subscriptions live in two parts: a delta in memory, and a base that is mapped from a snapshot and never changes.
//!
//! Sources: paper 004 (ITMO), the hash baseline; `DESIGN.md`, "The matching engine".

mod access;
mod delta;
mod hash;
mod postings;
mod scratch;

use std::sync::Arc;

use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::message::Message;
use crate::query::Query;

use delta::Delta;
pub use scratch::Scratch;

/// A subscription's number: given in ascending order, never used again. 64 bits: nobody counts that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// How many of the criteria of a fields query a message meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Whose query it is.
    pub id: SubscriptionId,
    /// How many criteria are true; at least one.
    pub hits: usize,
    /// How many there are.
    pub criteria: usize,
}

/// Standing queries. Matching takes `&self` and may run in many threads; a change takes `&mut self` and is seen by the
/// next match.
#[derive(Debug, Default)]
pub struct Engine {
    delta: Delta,
    hierarchies: Hierarchies,
    next_id: u64,
}

impl Engine {
    /// An engine without subscriptions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a subscription; its id is higher than any before. Cost: linear in the query.
    pub fn add(&mut self, query: Arc<Query>) -> SubscriptionId {
        let id = SubscriptionId(self.next_id);
        self.next_id += 1;
        self.delta.insert(id, query);
        id
    }

    /// Give the subscription `id` another query; it keeps its id and so its place in the order. False when there is
    /// no such subscription.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn replace(&mut self, id: SubscriptionId, query: Arc<Query>) -> Result<bool, EngineError> {
        let found = self.contains(id)?;
        if found {
            self.delta.insert(id, query);
        }
        Ok(found)
    }

    /// Remove the subscription `id`. False when there is none.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn remove(&mut self, id: SubscriptionId) -> Result<bool, EngineError> {
        Ok(self.delta.remove(id))
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.delta.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when there is a subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn contains(&self, id: SubscriptionId) -> Result<bool, EngineError> {
        Ok(self.delta.query(id).is_some())
    }

    /// The query of the subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn query(&self, id: SubscriptionId) -> Result<Option<Arc<Query>>, EngineError> {
        Ok(self.delta.query(id).cloned())
    }

    /// Every subscription, ascending.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn ids(&self) -> Result<Vec<SubscriptionId>, EngineError> {
        Ok(self.delta.subscriptions().map(|(id, _)| id).collect())
    }

    /// Append every subscription whose query is true of `message`, ascending, each once.
    ///
    /// Cost: a look-up for each indexed attribute or each of the message's properties, whichever are fewer, and an
    /// evaluation of each query that shares an access key with the message or has none.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        let start = matched.len();
        let is_true = |query: &Query| query.evaluate(message, Some(&self.hierarchies)) == Some(true);
        self.delta.match_into(message, scratch, matched, is_true)?;
        matched[start..].sort_unstable();
        Ok(())
    }

    /// The fields queries of which at least one criterion is true of `message`, by ascending id (paper 000: hit
    /// counts). Cost: an evaluation of every fields query.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn hits(&self, message: &Message<'_>) -> Result<Vec<Hit>, EngineError> {
        let mut found = Vec::new();
        for (id, query) in self.delta.fields_queries() {
            found.extend(self.count_hits(id, query, message));
        }
        found.sort_unstable_by_key(|hit| hit.id);
        Ok(found)
    }

    fn count_hits(&self, id: SubscriptionId, query: &Query, message: &Message<'_>) -> Option<Hit> {
        let criteria = query.criteria();
        let is_true = |expr: &&crate::query::expr::Expr| expr.evaluate(message, Some(&self.hierarchies)) == Some(true);
        let hits = criteria.iter().filter(is_true).count();
        (hits > 0).then_some(Hit { id, hits, criteria: criteria.len() })
    }

    /// Replace the hierarchy of `attribute`; `UNDER` follows it from the next match on.
    pub fn set_hierarchy(&mut self, attribute: &str, hierarchy: Hierarchy) {
        self.hierarchies.insert(attribute.to_owned(), hierarchy);
    }

    /// Every hierarchy, by attribute.
    #[must_use]
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }
}

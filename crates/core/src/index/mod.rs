//! The engine: which of many standing queries are true of a message, without evaluating them all.
//!
//! The naive loop evaluates every query. Here a query is filed under necessary equalities (`access.rs`), a message looks
//! up those of its values, and only what it finds is evaluated, beside the queries that have no such equality.
//! Subscriptions live in two parts: a delta in memory, and a base that is mapped from a snapshot and never changes.
//!
//! Sources: paper 004 (ITMO), the hash baseline; `DESIGN.md`, "The matching engine".

mod access;
mod base;
mod batch;
mod codec;
mod delta;
mod format;
mod hash;
mod map;
mod pages;
mod postings;
mod scratch;
mod snapshot;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::message::Message;
use crate::query::Query;
use crate::query::expr::Expr;

use base::Base;
use delta::Delta;
use postings::Slot;
pub use scratch::Scratch;
use snapshot::Contents;

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
    base: Option<Base>,
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
        let found = self.remove(id)?;
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
        if self.delta.remove(id) {
            return Ok(true);
        }
        let Some(base) = &mut self.base else { return Ok(false) };
        let slot = base.find_live(id)?;
        slot.into_iter().for_each(|slot| base.remove(slot));
        Ok(slot.is_some())
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.delta.len() + self.base.as_ref().map_or(0, Base::len)
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
        Ok(self.delta.query(id).is_some() || self.find_in_base(id)?.is_some())
    }

    fn find_in_base(&self, id: SubscriptionId) -> Result<Option<(&Base, Slot)>, EngineError> {
        let Some(base) = &self.base else { return Ok(None) };
        Ok(base.find_live(id)?.map(|slot| (base, slot)))
    }

    /// The query of the subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn query(&self, id: SubscriptionId) -> Result<Option<Arc<Query>>, EngineError> {
        if let Some(query) = self.delta.query(id) {
            return Ok(Some(query.clone()));
        }
        self.find_in_base(id)?.map(|(base, slot)| base.query(slot).cloned()).transpose()
    }

    /// Every subscription, ascending. Cost: linear in them.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn ids(&self) -> Result<Vec<SubscriptionId>, EngineError> {
        let mut ids: Vec<_> = self.delta.ids().collect();
        if let Some(base) = &self.base {
            base.live().try_for_each(|slot| base.id(slot).map(|id| ids.push(id)))?;
            ids.sort(); // two ascending runs: linear
        }
        Ok(ids)
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
        if let Some(base) = &self.base {
            base.match_into(message, scratch, matched, is_true)?;
        }
        self.delta.match_into(message, scratch, matched, is_true);
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
        let mut visit = |id, query: &Query| found.extend(self.count_hits(id, query, message));
        self.delta.fields_queries().for_each(|(id, query)| visit(id, query));
        if let Some(base) = &self.base {
            base.visit_fields_queries(visit)?;
        }
        found.sort_unstable_by_key(|hit| hit.id);
        Ok(found)
    }

    fn count_hits(&self, id: SubscriptionId, query: &Query, message: &Message<'_>) -> Option<Hit> {
        let criteria = query.criteria();
        let is_true = |expr: &&Expr| expr.evaluate(message, Some(&self.hierarchies)) == Some(true);
        let hits = criteria.iter().filter(is_true).count();
        (hits > 0).then_some(Hit { id, hits, criteria: criteria.len() })
    }

    /// The first `limit` subscriptions that `message` fails by exactly `off_by` predicates, ascending.
    ///
    /// # Errors
    /// A damaged snapshot.
    ///
    /// Cost: every query, all of its predicates.
    pub fn near_misses(
        &self,
        message: &Message<'_>,
        off_by: usize,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, EngineError> {
        let mut found = Vec::new();
        for id in self.ids()? {
            if found.len() == limit {
                break;
            }
            let query = self.query(id)?;
            if query.is_some_and(|query| query.distance(message, Some(&self.hierarchies)) == off_by) {
                found.push(id);
            }
        }
        Ok(found)
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

    /// Write everything to a snapshot at `path`, with `keys(id)` as opaque bytes for each subscription.
    ///
    /// The file is written under a temporary name, synced and renamed: `path` is always a whole file, the old one or
    /// the new one. Never write into a snapshot or truncate it, since engines have it mapped; replace or delete it.
    /// Cost: linear, and as much memory as the file has bytes.
    ///
    /// # Errors
    /// What the file system says (a full disk leaves nothing behind), or damage in the snapshot that this engine was
    /// opened from.
    pub fn save(&self, path: &Path, keys: &dyn Fn(SubscriptionId) -> Vec<u8>) -> Result<(), EngineError> {
        let mut contents = Contents::default();
        for id in self.ids()? {
            match (self.delta.query(id), self.find_in_base(id)?) {
                (Some(query), _) => contents.push(id, query, &keys(id)),
                (None, Some((base, slot))) => contents.push(id, &base.decode(slot)?, &keys(id)),
                (None, None) => {}
            }
        }
        contents.write(path, self.next_id, &self.hierarchies)
    }

    /// An engine over the snapshot at `path`, which is mapped, not loaded: a query is decoded when a message first
    /// needs it, and each page is checked against its checksum when it is first read. Magic, version, length and the
    /// header's checksum are checked now; with `verify`, everything.
    ///
    /// Changes stay in memory; the file never changes. All processes that open it share its memory. Cost: independent
    /// of the number of subscriptions without `verify`, linear in the hierarchies.
    ///
    /// # Errors
    /// A file that is no snapshot, is of another version or is damaged: what was found and what was expected.
    pub fn open(path: &Path, verify: bool) -> Result<Self, EngineError> {
        let base = Base::open(path, verify)?;
        let (hierarchies, next_id) = (base.hierarchies()?, base.next_id());
        Ok(Self { base: Some(base), delta: Delta::default(), hierarchies, next_id })
    }

    /// The bytes that were saved as the key of `id`; None when it did not come from a snapshot or has been removed.
    /// A replaced query keeps its key.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn key_bytes(&self, id: SubscriptionId) -> Result<Option<&[u8]>, EngineError> {
        let Some(base) = &self.base else { return Ok(None) };
        if !self.contains(id)? {
            return Ok(None);
        }
        base.find(id)?.map(|slot| base.key(slot)).transpose()
    }
}

//! The part of an engine that is in memory: everything that was added since it was made or opened.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use crate::message::Message;
use crate::query::Query;

use super::SubscriptionId;
use super::access::probe;
use super::postings::{Postings, Slot};
use super::scratch::Scratch;

/// Dead slots are tolerated up to this many, then up to as many as live ones: rebuilding is linear and stays rare.
const DEAD_MIN: usize = 1_024;

/// Subscriptions in memory. A removed one leaves a dead slot behind until the whole is rebuilt.
#[derive(Debug, Default)]
pub struct Delta {
    slots: Vec<Option<(SubscriptionId, Arc<Query>)>>,
    by_id: BTreeMap<SubscriptionId, Slot>,
    postings: Postings,
}

impl Delta {
    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Add the subscription `id`, or give it another query. Cost: linear in the query, amortised.
    pub fn insert(&mut self, id: SubscriptionId, query: Arc<Query>) {
        self.remove(id);
        let slot = Slot::try_from(self.slots.len()).expect("fewer than 2^32 subscriptions fit in memory");
        self.postings.insert(slot, &query);
        self.slots.push(Some((id, query)));
        self.by_id.insert(id, slot);
    }

    /// Remove the subscription `id`; false when it is not here.
    pub fn remove(&mut self, id: SubscriptionId) -> bool {
        let Some(slot) = self.by_id.remove(&id) else {
            return false;
        };
        self.slots[slot as usize] = None;
        if self.slots.len() - self.by_id.len() > DEAD_MIN.max(self.by_id.len()) {
            self.rebuild();
        }
        true
    }

    fn rebuild(&mut self) {
        let old = std::mem::take(self);
        for (id, query) in old.slots.into_iter().flatten() {
            self.insert(id, query);
        }
    }

    /// The query of `id`.
    #[must_use]
    pub fn query(&self, id: SubscriptionId) -> Option<&Arc<Query>> {
        let slot = *self.by_id.get(&id)?;
        self.slots[slot as usize].as_ref().map(|(_, query)| query)
    }

    /// Every subscription, ascending.
    pub fn ids(&self) -> impl Iterator<Item = SubscriptionId> {
        self.by_id.keys().copied()
    }

    /// The queries that count hits, in no particular order.
    pub fn fields_queries(&self) -> impl Iterator<Item = (SubscriptionId, &Arc<Query>)> {
        self.postings.fields().iter().filter_map(|slot| self.subscription(*slot))
    }

    fn subscription(&self, slot: Slot) -> Option<(SubscriptionId, &Arc<Query>)> {
        self.slots[slot as usize].as_ref().map(|(id, query)| (*id, query))
    }

    /// Append the ids of the subscriptions that `is_true` accepts, in no particular order, each once.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
        is_true: impl Fn(&Query) -> bool,
    ) {
        scratch.begin(self.slots.len());
        let attributes = self.postings.attributes();
        let names = attributes.map(Ok::<_, Infallible>);
        let Ok(()) = probe(message, names.len(), names, &mut scratch.probes);
        for index in 0..scratch.probes.len() {
            let list = self.postings.list(scratch.probes[index]);
            scratch.add_candidates(list.iter().copied());
        }
        let candidates = scratch.candidates.iter().chain(self.postings.common());
        let live = candidates.filter_map(|slot| self.subscription(*slot));
        matched.extend(live.filter(|(_, query)| is_true(query)).map(|(id, _)| id));
    }
}

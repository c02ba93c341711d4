//! The engine: finds the standing queries that are true of a message, without evaluating all of them.
//!
//! The naive loop evaluates every query. Here a query is compiled to clauses and filed under its rarest access keys
//! (`compile/`). The queries of a key stand side by side in leaves, one bit each (`leaf/`), and a match only evaluates what
//! the values of a message do not rule out (`matching/`). An engine is a few immutable segments (`segment/`) and a short
//! tail of the subscriptions added last. A change makes a new version (`versions/`), so that matching never waits.
//!
//! Sources: the OpenAMQ and Malamute papers, inverted bitmaps; the ITMO paper, access predicates.

mod asked;
pub mod batch;
mod changes;
mod clause;
mod codec;
mod compile;
pub(crate) mod hash;
mod ids;
mod layout;
mod leaf;
mod matching;
mod name_filter;
mod origin;
pub mod report;
mod scratch;
mod segment;
mod snapshots;
mod term;
#[cfg(test)]
mod tests;
pub mod timing;
mod topics;
mod value_class;
mod versions;
mod view;

use std::sync::Arc;

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::Query;

use changes::EngineState;
use matching::field_hits;
use versions::version::Version;

pub use asked::AskedParts;
pub use ids::SubscriptionId;
pub use matching::field_hits::Hit;
pub use matching::matched_ids::MatchedIds;
pub use name_filter::NameFilter;
pub use scratch::Scratch;
pub use view::EngineView;

/// Standing queries. Matching and changing take `&self` and may go on in many threads at once: a match sees the version
/// that was current when it began, and the next match sees a change.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    state: Arc<EngineState>,
}

impl Engine {
    /// An engine without subscriptions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine without subscriptions, for a thread that must not be held up: what takes a change longer than half a
    /// millisecond is done by another thread, apart from what a single query takes.
    #[must_use]
    pub fn quick_to_change() -> Self {
        Self { state: Arc::new(EngineState::quick_to_change()) }
    }

    fn current(&self) -> Arc<Version> {
        self.state.current.load_full()
    }

    /// The number of segments now: small, whatever changes were made. For measuring.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.state.current.load().segments.len()
    }

    /// The number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.current.load().live
    }

    /// True when there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes that the queries and their index take, without saved keys and the file cache: also those of
    /// what matching has built: decoded queries and shared predicates, automata that search texts, sets of expressions, and
    /// the criteria of fields queries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let segments: usize =
            self.current().segments.iter().map(|segment| segment.store.bytes() + segment.kept_bytes()).sum();
        segments + self.tail_bytes()
    }

    /// The part of [`Self::bytes`] that the queries take in coded form, which is kept instead of their texts. Identical
    /// queries count once; the few queries that were added last do not count.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.current().segments.iter().map(|segment| segment.store.record_bytes()).sum()
    }

    /// True when there is a subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn contains(&self, id: SubscriptionId) -> Result<bool, EngineError> {
        Ok(self.current().find(id)?.is_some())
    }

    /// The query of the subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn query(&self, id: SubscriptionId) -> Result<Option<Arc<Query>>, EngineError> {
        let version = self.current();
        version.find(id)?.map(|position| version.query(&position)).transpose()
    }

    /// Every subscription, ascending. Cost: linear in them.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn ids(&self) -> Result<Vec<SubscriptionId>, EngineError> {
        Ok(self.current().subscriptions()?.into_iter().map(|(id, _)| id).collect())
    }

    /// Every hierarchy, by attribute, as it is now.
    #[must_use]
    pub fn hierarchies(&self) -> Arc<Hierarchies> {
        Arc::clone(&self.state.current.load().hierarchies)
    }

    /// The names of the properties that make a difference to a query, and perhaps others. Cost: a copy of 128 bytes.
    #[must_use]
    pub fn names_asked(&self) -> NameFilter {
        self.state.current.load().names_asked().clone()
    }

    /// Append every subscription whose query is true of `message`, ascending, each once.
    ///
    /// Cost: a look-up per property of the message; a few words per leaf, which is a group of 64 queries, that its values do
    /// not rule out; and an evaluation per query that remains and has predicates other than equalities, numbers and presence.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        self.state.current.load().match_into(message, scratch, matched)
    }

    /// The fields queries of which at least one criterion is true of `message`, by ascending id (the OpenAMQ paper: hit
    /// counts). Cost: a look-up per field that queries name, and a step per criterion that is met.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn hits(&self, message: &Message<'_>) -> Result<Vec<Hit>, EngineError> {
        let version = self.current();
        let mut hits = Vec::new();
        for segment in &version.segments {
            segment.hits_into(message, &version.hierarchies, version.number, &mut hits)?;
        }
        for (_, tail) in version.live_tail().filter(|(_, tail)| tail.query.is_fields()) {
            let counted = field_hits::count_hits(&tail.query, message, &version.hierarchies);
            hits.extend(counted.map(|(hits, criteria)| Hit { id: tail.id, hits, criteria }));
        }
        if !hits.is_sorted_by_key(|hit| hit.id) {
            // A few ascending sequences, one per query that was met: a stable sort only has to merge them.
            hits.sort_by_key(|hit| hit.id);
        }
        Ok(hits)
    }

    /// The first `limit` subscriptions that `message` fails by exactly `off_by` predicates, ascending.
    ///
    /// Cost: all predicates of every query.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn near_misses(
        &self,
        message: &Message<'_>,
        off_by: usize,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, EngineError> {
        let version = self.current();
        let mut near = Vec::new();
        for (id, position) in version.subscriptions()? {
            if near.len() == limit {
                break;
            }
            if version.query(&position)?.distance(message, Some(&version.hierarchies)) == off_by {
                near.push(id);
            }
        }
        Ok(near)
    }
}

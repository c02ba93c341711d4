//! Reports on all subscriptions together: which are equal, which never or always match, which are expensive.
//!
//! A report needs no message. It takes one pass over the queries and, for coverage, one over candidates with common keys
//! (`covered.rs`), so that a million queries take seconds. `docs/report.md` says what each part means.

mod covered;
mod measure;
mod served;
mod sharing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hashbrown::HashSet;

use crate::error::EngineError;
use crate::expensive::{Opaque, OpaqueCounts, OpaqueTable};
use crate::query::Query;
use crate::query::expr::{Predicate, PropertyName, Reference};
use crate::query::implication::Meaning;

use crate::index::codec::encode;
use crate::index::compile::clauses::Clauses;
pub use crate::index::compile::index_kind::IndexKind;
use crate::index::compile::interner::Interner;
use crate::index::{Engine, SubscriptionId};
use sharing::Sharing;

/// Maximum number of predicates and queries in lists of which only the first are of interest.
const NAMED_MAX: usize = 20;
/// Maximum number of pairs of covered queries.
const PAIRS_NAMED_MAX: usize = 100_000;

/// A report on all subscriptions. Ids ascend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The number of subscriptions.
    pub subscriptions: usize,
    /// The number of different queries.
    pub distinct_queries: usize,
    /// The number of predicates, counting every occurrence.
    pub predicates: usize,
    /// The number of different predicates.
    pub distinct_predicates: usize,
    /// The predicates that most subscriptions have, as text, with the number of these; at most 20.
    pub shared: Vec<(String, usize)>,
    /// Subscriptions whose queries are equal: groups of two or more.
    pub duplicates: Vec<Vec<SubscriptionId>>,
    /// `(a, b)`: whenever the query of `a` is true, that of `b` is too. At most 8 per `a`, and 100,000 in all. Of queries with
    /// the same meaning, the later is covered by the earlier.
    pub covered: Vec<(SubscriptionId, SubscriptionId)>,
    /// The number of subscriptions that are covered by another one, without those that are equal.
    pub covered_subscriptions: usize,
    /// The number of candidates for coverage that were not compared, to keep the time linear.
    pub candidates_left_out: usize,
    /// Subscriptions that no message satisfies.
    pub never_true: Vec<SubscriptionId>,
    /// Subscriptions that every message satisfies.
    pub always_true: Vec<SubscriptionId>,
    /// Subscriptions that no index can rule out: each is evaluated for every message.
    pub unindexable: Vec<SubscriptionId>,
    /// The number of subscriptions that each kind of index serves. A query that is never true may be in none.
    pub served_by: Vec<(IndexKind, usize)>,
    /// The queries whose predicates cost most, the most expensive first; at most 20.
    pub most_expensive: Vec<ExpensiveQuery>,
    /// The expensive predicates in use, by name.
    pub opaque: Vec<OpaqueUse>,
    /// The number of bytes that the queries and their index take; 0 in a report of [`Report::of`].
    pub bytes: usize,
}

/// A query and the cost of its evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpensiveQuery {
    /// The first subscription with this query.
    pub id: SubscriptionId,
    /// The query as text.
    pub text: String,
    /// The measured cost of its predicates together, in nanoseconds.
    pub cost_ns: f64,
}

/// An expensive predicate and statistics of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueUse {
    /// Its name.
    pub name: String,
    /// The number of subscriptions that have it.
    pub subscriptions: usize,
    /// Its declared cost, in nanoseconds.
    pub cost_ns: f64,
    /// Its calls, errors and times since it was made.
    pub counts: OpaqueCounts,
}

impl Engine {
    /// Every subscription with its query, ascending. A [`Report`] is made from these. Cost: linear.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn subscriptions(&self) -> Result<Vec<(SubscriptionId, Arc<Query>)>, EngineError> {
        let version = self.current();
        version.subscriptions()?.into_iter().map(|(id, position)| Ok((id, version.decode(&position)?))).collect()
    }

    /// The report on all subscriptions of this moment.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn report(&self) -> Result<Report, EngineError> {
        Ok(Report { bytes: self.bytes(), ..Report::of(&self.subscriptions()?) })
    }

    /// The number of bytes that the queries of the tail take as records.
    pub(super) fn tail_bytes(&self) -> usize {
        let (mut records, mut table) = (Vec::new(), OpaqueTable::default());
        self.current().live_tail().for_each(|(_, tail)| encode(&tail.query, &mut records, &mut table));
        records.len()
    }
}

impl Report {
    /// The report on `subscriptions`, which ascend by id.
    ///
    /// Cost: about 20 µs per subscription, and about a kilobyte of memory for each meanwhile.
    #[must_use]
    pub fn of(subscriptions: &[(SubscriptionId, Arc<Query>)]) -> Self {
        let sharing = Sharing::of(subscriptions);
        let mut report = Self {
            subscriptions: subscriptions.len(),
            distinct_queries: sharing.queries.len(),
            predicates: sharing.occurrences,
            distinct_predicates: sharing.predicates.len(),
            shared: sharing.most_shared(NAMED_MAX),
            duplicates: sharing.queries.iter().filter(|q| q.ids.len() > 1).map(|q| q.ids.clone()).collect(),
            served_by: served::served_by(&sharing),
            most_expensive: measure::most_expensive(&sharing, NAMED_MAX),
            opaque: opaque_uses(&sharing),
            ..Self::default()
        };
        let can_cover = report.add_verdicts(&sharing);
        report.add_covered(&sharing, &can_cover);
        report
    }

    /// List the queries that are never true, always true or unindexable. Returns which queries are neither never nor always
    /// true: only for these coverage is worth knowing.
    fn add_verdicts(&mut self, sharing: &Sharing<'_>) -> Vec<bool> {
        let mut interner = Interner::default();
        let decide = |query: &sharing::DistinctQuery<'_>| {
            let meaning = Meaning::of(query.query);
            let (never, always) = (meaning.is_never_true(), meaning.is_always_true());
            if never {
                self.never_true.extend(&query.ids);
            }
            if always {
                self.always_true.extend(&query.ids);
            }
            if is_unindexable(query.query, &mut interner) {
                self.unindexable.extend(&query.ids);
            }
            !never && !always
        };
        let can_cover = sharing.queries.iter().map(decide).collect();
        for ids in [&mut self.never_true, &mut self.always_true, &mut self.unindexable] {
            ids.sort_unstable();
        }
        can_cover
    }

    fn add_covered(&mut self, sharing: &Sharing<'_>, can_cover: &[bool]) {
        let queries: Vec<Option<&Query>> =
            sharing.queries.iter().zip(can_cover).map(|(query, can)| can.then_some(query.query)).collect();
        let covered = covered::find(&queries);
        self.candidates_left_out = covered.left_out;
        let mut last = None;
        for (narrow, wide) in covered.pairs {
            let ids = &sharing.queries[narrow].ids;
            if last.replace(narrow) != Some(narrow) {
                self.covered_subscriptions += ids.len();
            }
            let room = PAIRS_NAMED_MAX.saturating_sub(self.covered.len());
            self.covered.extend(ids.iter().take(room).map(|id| (*id, sharing.queries[wide].ids[0])));
        }
        self.covered.sort_unstable();
    }
}

/// The names of the properties that the queries of `subscriptions` ask for, sorted; those without regard to case are
/// left out.
#[must_use]
pub fn names(subscriptions: &[(SubscriptionId, Arc<Query>)]) -> Vec<&str> {
    let mut names = HashSet::new();
    for (_, query) in subscriptions {
        for predicate in query.expr().predicates() {
            for reference in predicate.references() {
                if let Reference::Property(PropertyName { text, any_case: false }) = reference {
                    names.insert(&**text);
                }
            }
        }
    }
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names
}

/// True when `query` has no access key.
fn is_unindexable(query: &Query, interner: &mut Interner) -> bool {
    let clauses = Clauses::of(query.expr(), false, interner);
    !clauses.is_never && clauses.access.is_none()
}

fn opaque_uses(sharing: &Sharing<'_>) -> Vec<OpaqueUse> {
    let opaques = sharing.predicates.iter().zip(&sharing.users).filter_map(|(predicate, users)| match predicate {
        Predicate::Opaque(opaque) => Some((opaque, *users)),
        _ => None,
    });
    let describe = |(opaque, subscriptions): (&Opaque, usize)| OpaqueUse {
        name: opaque.name().to_owned(),
        subscriptions,
        cost_ns: opaque.cost_ns(),
        counts: opaque.counts(),
    };
    let mut uses: Vec<OpaqueUse> = opaques.map(describe).collect();
    uses.sort_by(|a, b| a.name.cmp(&b.name));
    uses
}

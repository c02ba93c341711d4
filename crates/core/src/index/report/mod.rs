//! What can be said of all subscriptions together: which are the same, which do nothing, which are expensive.
//!
//! A report needs no message. It is made in one pass over the queries and, for coverage, one over candidates found by
//! keys (`covered.rs`), so that a million queries take seconds. `docs/report.md` says what each part means.

mod covered;
mod measure;
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
use crate::index::compile::clauses::Normal;
use crate::index::compile::interner::Interner;
use crate::index::{Engine, SubscriptionId};
use sharing::Shared;

/// How many predicates and queries are named where only the first ones are of interest.
const NAMED_MAX: usize = 20;
/// How many pairs of covered queries are named.
const PAIRS_NAMED_MAX: usize = 100_000;

/// What all subscriptions are like. Ids ascend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// How many there are.
    pub subscriptions: usize,
    /// How many different queries they have.
    pub distinct_queries: usize,
    /// How many predicates, each time it is written.
    pub predicates: usize,
    /// How many different ones.
    pub distinct_predicates: usize,
    /// The predicates that most subscriptions have, as text, with their number; at most 20.
    pub shared: Vec<(String, usize)>,
    /// Subscriptions whose queries are equal: groups of two or more.
    pub duplicates: Vec<Vec<SubscriptionId>>,
    /// `(a, b)`: whenever the query of `a` is true that of `b` is too. For each `a` at most 8, in all at most 100,000.
    /// Of queries that mean the same, the later is covered by the earlier.
    pub covered: Vec<(SubscriptionId, SubscriptionId)>,
    /// How many subscriptions are covered by another one, the equal ones aside.
    pub covered_subscriptions: usize,
    /// Candidates for coverage that were not looked at, to keep the time linear.
    pub candidates_left_out: usize,
    /// Those that no message satisfies.
    pub never_true: Vec<SubscriptionId>,
    /// Those that every message satisfies.
    pub always_true: Vec<SubscriptionId>,
    /// Those that no index can rule out, so that each message pays for their evaluation.
    pub unindexable: Vec<SubscriptionId>,
    /// The queries whose predicates cost most, the most expensive first; at most 20.
    pub most_expensive: Vec<ExpensiveQuery>,
    /// The expensive predicates in use, by name.
    pub opaque: Vec<OpaqueUse>,
    /// How many bytes the queries and their index take; 0 in a report of [`Report::of`].
    pub bytes: usize,
}

/// What evaluating a query costs.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpensiveQuery {
    /// The first subscription with this query.
    pub id: SubscriptionId,
    /// The query as text.
    pub text: String,
    /// What its predicates cost together, measured, in nanoseconds.
    pub cost_ns: f64,
}

/// An expensive predicate and what became of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueUse {
    /// Its name.
    pub name: String,
    /// How many subscriptions have it.
    pub subscriptions: usize,
    /// What it was declared to cost, in nanoseconds.
    pub cost_ns: f64,
    /// Calls, errors and what calls took, since it was made.
    pub counts: OpaqueCounts,
}

impl Engine {
    /// Every subscription with its query, ascending: what a [`Report`] is made of. Cost: linear.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn subscriptions(&self) -> Result<Vec<(SubscriptionId, Arc<Query>)>, EngineError> {
        let version = self.current();
        version.subscriptions()?.into_iter().map(|(id, place)| Ok((id, version.decode(&place)?))).collect()
    }

    /// The report on all subscriptions of this moment.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn report(&self) -> Result<Report, EngineError> {
        Ok(Report { bytes: self.bytes(), ..Report::of(&self.subscriptions()?) })
    }

    /// How many bytes the queries that no segment holds yet have as records.
    pub(super) fn tail_bytes(&self) -> usize {
        let (mut records, mut table) = (Vec::new(), OpaqueTable::default());
        self.current().live_tail().for_each(|(_, _, query)| encode(query, &mut records, &mut table));
        records.len()
    }
}

impl Report {
    /// The report on `subscriptions`, which ascend by id.
    ///
    /// Cost: about 20 µs a subscription, and about a kilobyte of memory while it is made.
    #[must_use]
    pub fn of(subscriptions: &[(SubscriptionId, Arc<Query>)]) -> Self {
        let shared = Shared::of(subscriptions);
        let mut report = Self {
            subscriptions: subscriptions.len(),
            distinct_queries: shared.queries.len(),
            predicates: shared.occurrences,
            distinct_predicates: shared.predicates.len(),
            shared: shared.most_shared(NAMED_MAX),
            duplicates: shared.queries.iter().filter(|q| q.ids.len() > 1).map(|q| q.ids.clone()).collect(),
            most_expensive: measure::most_expensive(&shared, NAMED_MAX),
            opaque: opaque_uses(&shared),
            ..Self::default()
        };
        let can_cover = report.add_verdicts(&shared);
        report.add_covered(&shared, &can_cover);
        report
    }

    /// Which queries are never true, always true or unindexable. Returns those that are neither of the first two:
    /// coverage is about them, since nothing else would be worth knowing of the others.
    fn add_verdicts(&mut self, shared: &Shared<'_>) -> Vec<bool> {
        let mut interner = Interner::default();
        let decide = |query: &sharing::Distinct<'_>| {
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
        let can_cover = shared.queries.iter().map(decide).collect();
        for ids in [&mut self.never_true, &mut self.always_true, &mut self.unindexable] {
            ids.sort_unstable();
        }
        can_cover
    }

    fn add_covered(&mut self, shared: &Shared<'_>, can_cover: &[bool]) {
        let queries: Vec<Option<&Query>> =
            shared.queries.iter().zip(can_cover).map(|(query, can)| can.then_some(query.query)).collect();
        let covered = covered::find(&queries);
        self.candidates_left_out = covered.left_out;
        let mut last = None;
        for (narrow, wide) in covered.pairs {
            let ids = &shared.queries[narrow].ids;
            if last.replace(narrow) != Some(narrow) {
                self.covered_subscriptions += ids.len();
            }
            let room = PAIRS_NAMED_MAX.saturating_sub(self.covered.len());
            self.covered.extend(ids.iter().take(room).map(|id| (*id, shared.queries[wide].ids[0])));
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

/// True when nothing that a message could be looked up by must hold for `query` to be true.
fn is_unindexable(query: &Query, interner: &mut Interner) -> bool {
    let normal = Normal::of(query.expr(), false, interner);
    !normal.is_never && normal.access.is_none()
}

fn opaque_uses(shared: &Shared<'_>) -> Vec<OpaqueUse> {
    let opaques = shared.predicates.iter().zip(&shared.users).filter_map(|(predicate, users)| match predicate {
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

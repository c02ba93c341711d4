//! Decides without a message whether a query is never true, always true, or covered by another query.
//!
//! The rules are sound, but not complete: what they state holds of every message, hierarchy and list; what they do not
//! state may hold too (`docs/report.md` lists them). A tree becomes claims under AND and OR (`claim.rs`), with NOT
//! pushed to the predicates, which three-valued logic allows. A query is true exactly when these claims hold.

mod budget;
mod claim;
mod form;
mod keys;
mod necessity;
mod patterns;
mod region;
#[cfg(test)]
mod tests;

use crate::query::Query;
use budget::{Budget, STEPS_MAX};
use form::Form;
pub(crate) use keys::FilingKey;
pub use necessity::{Necessity, Part, Sought};

/// The claims that a query consists of.
#[derive(Debug)]
pub(crate) struct Meaning<'q>(Form<'q>);

impl<'q> Meaning<'q> {
    pub(crate) fn of(query: &'q Query) -> Self {
        Self(Form::of(query.expr(), &mut Budget(STEPS_MAX)))
    }

    /// True when it is known to be true of no message.
    pub(crate) fn is_never_true(&self) -> bool {
        self.0.is_never(&mut Vec::new(), &mut Budget(STEPS_MAX))
    }

    /// True when it is known to be true of every message.
    pub(crate) fn is_always_true(&self) -> bool {
        matches!(self.0, Form::Always)
    }

    /// True when `other` is known to be true of every message of which this is.
    pub(crate) fn is_covered_by(&self, other: &Meaning<'_>) -> bool {
        self.0.implies(&other.0, &mut Budget(STEPS_MAX))
    }

    /// Keys of which any query that covers this one has at least one in its [`Self::filing`].
    pub(crate) fn lookups(&self) -> Vec<FilingKey> {
        let mut found = Vec::new();
        self.0.lookups(&mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The keys under which it is filed, so that queries that it covers find it; `count` returns how many look up a
    /// key.
    pub(crate) fn filing(&self, count: &impl Fn(FilingKey) -> usize) -> keys::Filing {
        self.0.filing(count)
    }
}

impl Query {
    /// True when it is known to be true of no message whatsoever. Sound, not complete; bounded time.
    #[must_use]
    pub fn is_never_true(&self) -> bool {
        Meaning::of(self).is_never_true()
    }

    /// True when it is known to be true of every message. Sound, not complete; bounded time.
    #[must_use]
    pub fn is_always_true(&self) -> bool {
        Meaning::of(self).is_always_true()
    }

    /// True when `other` is known to be true whenever this query is. Sound, not complete; bounded time.
    #[must_use]
    pub fn is_covered_by(&self, other: &Self) -> bool {
        Meaning::of(self).is_covered_by(&Meaning::of(other))
    }
}

//! The tail of an engine: the subscriptions that were added last and are not yet in a segment.

use std::sync::{Arc, OnceLock};

use crate::hierarchy::Hierarchies;
use crate::index::SubscriptionId;
use crate::message::Message;
use crate::query::Query;

use super::guard::{Guards, LookedUp};
use super::tombstones::Tombstones;

/// The maximum size of the tail, whose queries are evaluated one by one. A version has one bit for each of them.
pub const TAIL_MAX: usize = 32;

/// The subscriptions that were added last. Filled from the front; a version says how many of them it sees.
#[derive(Debug)]
pub struct Tail {
    subscriptions: [OnceLock<TailSubscription>; TAIL_MAX],
    /// The tombstones of its queries.
    pub tombstones: Tombstones,
}

/// A subscription of the tail.
#[derive(Debug)]
pub struct TailSubscription {
    /// Its id.
    pub id: SubscriptionId,
    /// Its query.
    pub query: Arc<Query>,
    /// The first position with an equal query. Subscribers often ask for the same, and it is evaluated once.
    pub first: usize,
    guards: Guards,
}

impl TailSubscription {
    /// Whether the query is true of `message`, of which `values` are looked up already.
    #[inline]
    pub fn is_true<'m>(&self, message: &Message<'m>, hierarchies: &Hierarchies, values: &mut LookedUp<'m>) -> bool {
        let decided = self.guards.decide(&self.query, message, values);
        decided.unwrap_or_else(|| self.query.is_true(message, Some(hierarchies)))
    }
}

impl Default for Tail {
    fn default() -> Self {
        Self { subscriptions: [const { OnceLock::new() }; TAIL_MAX], tombstones: Tombstones::new(TAIL_MAX) }
    }
}

impl Tail {
    /// Put a subscription at `position`, which is empty.
    pub fn fill(&self, position: usize, id: SubscriptionId, query: Arc<Query>) {
        let is_equal = |other: &TailSubscription| other.query == query;
        let filled = &self.subscriptions[..position];
        let first = filled.iter().position(|other| other.get().is_some_and(is_equal)).unwrap_or(position);
        let guards = Guards::of(&query, filled.iter().filter_map(|other| Some(&other.get()?.guards)));
        let subscription = TailSubscription { id, query, first, guards };
        self.subscriptions[position].set(subscription).expect("a position of the tail is filled once");
    }

    /// The subscription at `position`, if there is one.
    pub fn get(&self, position: usize) -> Option<&TailSubscription> {
        self.subscriptions[position].get()
    }

    /// The first `length` subscriptions, with their positions.
    pub fn first(&self, length: usize) -> impl Iterator<Item = (usize, &TailSubscription)> {
        let filled = self.subscriptions[..length].iter().enumerate();
        filled.filter_map(|(position, subscription)| Some((position, subscription.get()?)))
    }

    /// The subscriptions at `positions`, which has one bit per position.
    pub fn at(&self, mut positions: u32) -> impl Iterator<Item = &TailSubscription> {
        std::iter::from_fn(move || {
            let position = (positions != 0).then(|| positions.trailing_zeros() as usize)?;
            positions &= positions - 1;
            self.get(position)
        })
    }
}

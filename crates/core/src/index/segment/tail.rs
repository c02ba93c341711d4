//! The tail of an engine: the subscriptions that were added last and are not yet in a segment.

use std::sync::{Arc, OnceLock};

use crate::index::SubscriptionId;
use crate::query::Query;

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
        let subscription = TailSubscription { id, query, first };
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

//! Finds equal queries and equal predicates.

use std::fmt::Write;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::index::SubscriptionId;
use crate::query::Query;
use crate::query::expr::{Expr, Predicate};

/// The queries and predicates that subscriptions share.
#[derive(Debug)]
pub(super) struct Sharing<'q> {
    /// Every query once, ordered by its first subscription.
    pub(super) queries: Vec<DistinctQuery<'q>>,
    /// Every predicate once.
    pub(super) predicates: Vec<&'q Predicate>,
    /// The number of subscriptions that have each predicate.
    pub(super) users: Vec<usize>,
    /// The number of predicates that all subscriptions have together.
    pub(super) occurrences: usize,
}

/// A query and its subscriptions.
#[derive(Debug)]
pub(super) struct DistinctQuery<'q> {
    pub(super) query: &'q Query,
    /// Never empty, ascending.
    pub(super) ids: Vec<SubscriptionId>,
    /// Its predicates, by their index in [`Sharing::predicates`]: ascending, each once.
    pub(super) predicates: Box<[u32]>,
}

impl<'q> Sharing<'q> {
    pub(super) fn of(subscriptions: &'q [(SubscriptionId, Arc<Query>)]) -> Self {
        let mut predicates: Deduplicator<&'q Predicate> = Deduplicator::default();
        let mut shapes: Deduplicator<Box<[u32]>> = Deduplicator::default();
        let mut queries: Vec<DistinctQuery<'q>> = Vec::new();
        let (mut text, mut shape) = (String::new(), Vec::new());
        let mut occurrences = 0;
        for (id, query) in subscriptions {
            shape.clear();
            write_shape(query.expr(), &mut shape, &mut |predicate| predicates.index_of_predicate(predicate, &mut text));
            occurrences += shape.iter().filter(|token| **token < FIRST_MARK).count();
            let index = shapes.index_of(hash(&shape), |known| **known == shape[..], || shape.as_slice().into());
            if index < queries.len() {
                queries[index].ids.push(*id);
            } else {
                queries.push(DistinctQuery { query, ids: vec![*id], predicates: predicates_of(&shape) });
            }
        }
        let mut users = vec![0; predicates.items.len()];
        for query in &queries {
            query.predicates.iter().for_each(|predicate| users[*predicate as usize] += query.ids.len());
        }
        Self { queries, predicates: predicates.items, users, occurrences }
    }

    /// The predicates that most subscriptions have, at least two, with their number; the most shared first.
    pub(super) fn most_shared(&self, limit: usize) -> Vec<(String, usize)> {
        let mut indexes: Vec<usize> = (0..self.users.len()).filter(|index| self.users[*index] > 1).collect();
        let by_use = |index: &usize| (std::cmp::Reverse(self.users[*index]), *index);
        if indexes.len() > limit {
            indexes.select_nth_unstable_by_key(limit, by_use);
            indexes.truncate(limit);
        }
        indexes.sort_unstable_by_key(by_use);
        indexes.into_iter().map(|index| (self.predicates[index].to_string(), self.users[index])).collect()
    }
}

// The shape of a query is its tree in prefix order: indexes of predicates, and a mark for each AND, OR and NOT.
const NOT_MARK: u32 = u32::MAX;
const AND_MARK: u32 = u32::MAX - 1;
const OR_MARK: u32 = u32::MAX - 2;
const END_MARK: u32 = u32::MAX - 3;
const FIRST_MARK: u32 = END_MARK;

fn write_shape<'q>(expr: &'q Expr, shape: &mut Vec<u32>, index_of: &mut impl FnMut(&'q Predicate) -> u32) {
    match expr {
        Expr::Predicate(predicate) => shape.push(index_of(predicate)),
        Expr::Not(inner) => {
            shape.push(NOT_MARK);
            write_shape(inner, shape, index_of);
        }
        Expr::And(children) | Expr::Or(children) => {
            shape.push(if matches!(expr, Expr::And(_)) { AND_MARK } else { OR_MARK });
            children.iter().for_each(|child| write_shape(child, shape, index_of));
            shape.push(END_MARK);
        }
    }
}

fn predicates_of(shape: &[u32]) -> Box<[u32]> {
    let mut indexes: Vec<u32> = shape.iter().copied().filter(|token| *token < FIRST_MARK).collect();
    indexes.sort_unstable();
    indexes.dedup();
    indexes.into()
}

/// Gives equal items one index.
#[derive(Debug)]
struct Deduplicator<T> {
    items: Vec<T>,
    hashes: Vec<u64>,
    indexes: HashTable<usize>,
}

impl<T> Default for Deduplicator<T> {
    fn default() -> Self {
        Self { items: Vec::new(), hashes: Vec::new(), indexes: HashTable::new() }
    }
}

impl<T> Deduplicator<T> {
    fn index_of(&mut self, hash: u64, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
        let (items, hashes) = (&mut self.items, &mut self.hashes);
        match self.indexes.entry(hash, |i| hashes[*i] == hash && is_it(&items[*i]), |i| hashes[*i]) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let index = items.len();
                free.insert(index);
                items.push(make());
                hashes.push(hash);
                index
            }
        }
    }
}

impl<'q> Deduplicator<&'q Predicate> {
    /// The index of a predicate: by the hash of its text, which differs for most predicates, and then by comparing them.
    fn index_of_predicate(&mut self, predicate: &'q Predicate, text: &mut String) -> u32 {
        text.clear();
        let _ = write!(text, "{predicate}"); // a String takes any text
        let index = self.index_of(hash(text), |known| *known == predicate, || predicate);
        u32::try_from(index).expect("fewer predicates than marks")
    }
}

fn hash(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    FixedState::with_seed(0).hash_one(value)
}

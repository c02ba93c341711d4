//! Which queries and which predicates are the same.

use std::fmt::Write;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::index::SubscriptionId;
use crate::query::Query;
use crate::query::expr::{Expr, Predicate};

/// What subscriptions have in common.
#[derive(Debug)]
pub(super) struct Shared<'q> {
    /// Every query once, by its first subscription.
    pub(super) queries: Vec<Distinct<'q>>,
    /// Every predicate once.
    pub(super) predicates: Vec<&'q Predicate>,
    /// How many subscriptions have each predicate.
    pub(super) users: Vec<usize>,
    /// How many predicates all subscriptions have together.
    pub(super) occurrences: usize,
}

/// A query and whose it is.
#[derive(Debug)]
pub(super) struct Distinct<'q> {
    pub(super) query: &'q Query,
    /// Never empty, ascending.
    pub(super) ids: Vec<SubscriptionId>,
    /// Its predicates, by their place in [`Shared::predicates`]: ascending, each once.
    pub(super) predicates: Box<[u32]>,
}

impl<'q> Shared<'q> {
    pub(super) fn of(subscriptions: &'q [(SubscriptionId, Arc<Query>)]) -> Self {
        let mut units: Interner<&'q Predicate> = Interner::default();
        let mut shapes: Interner<Box<[u32]>> = Interner::default();
        let mut queries: Vec<Distinct<'q>> = Vec::new();
        let (mut text, mut shape) = (String::new(), Vec::new());
        let mut occurrences = 0;
        for (id, query) in subscriptions {
            shape.clear();
            write_shape(query.expr(), &mut shape, &mut |predicate| units.place_of_predicate(predicate, &mut text));
            occurrences += shape.iter().filter(|token| **token < FIRST_MARK).count();
            let place = shapes.place(hash(&shape), |known| **known == shape[..], || shape.as_slice().into());
            if place < queries.len() {
                queries[place].ids.push(*id);
            } else {
                queries.push(Distinct { query, ids: vec![*id], predicates: predicates_of(&shape) });
            }
        }
        let mut users = vec![0; units.items.len()];
        for query in &queries {
            query.predicates.iter().for_each(|predicate| users[*predicate as usize] += query.ids.len());
        }
        Self { queries, predicates: units.items, users, occurrences }
    }

    /// The predicates that most subscriptions have, at least two, with their number; the most shared first.
    pub(super) fn most_shared(&self, limit: usize) -> Vec<(String, usize)> {
        let mut places: Vec<usize> = (0..self.users.len()).filter(|place| self.users[*place] > 1).collect();
        let by_use = |place: &usize| (std::cmp::Reverse(self.users[*place]), *place);
        if places.len() > limit {
            places.select_nth_unstable_by_key(limit, by_use);
            places.truncate(limit);
        }
        places.sort_unstable_by_key(by_use);
        places.into_iter().map(|place| (self.predicates[place].to_string(), self.users[place])).collect()
    }
}

// A query's shape is its tree in prefix order: places of predicates, and for each AND, OR and NOT a mark.
const NOT_MARK: u32 = u32::MAX;
const AND_MARK: u32 = u32::MAX - 1;
const OR_MARK: u32 = u32::MAX - 2;
const END_MARK: u32 = u32::MAX - 3;
const FIRST_MARK: u32 = END_MARK;

fn write_shape<'q>(expr: &'q Expr, shape: &mut Vec<u32>, place: &mut impl FnMut(&'q Predicate) -> u32) {
    match expr {
        Expr::Predicate(predicate) => shape.push(place(predicate)),
        Expr::Not(inner) => {
            shape.push(NOT_MARK);
            write_shape(inner, shape, place);
        }
        Expr::And(children) | Expr::Or(children) => {
            shape.push(if matches!(expr, Expr::And(_)) { AND_MARK } else { OR_MARK });
            children.iter().for_each(|child| write_shape(child, shape, place));
            shape.push(END_MARK);
        }
    }
}

fn predicates_of(shape: &[u32]) -> Box<[u32]> {
    let mut places: Vec<u32> = shape.iter().copied().filter(|token| *token < FIRST_MARK).collect();
    places.sort_unstable();
    places.dedup();
    places.into()
}

/// Gives equal things one place.
#[derive(Debug)]
struct Interner<T> {
    items: Vec<T>,
    hashes: Vec<u64>,
    places: HashTable<usize>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), hashes: Vec::new(), places: HashTable::new() }
    }
}

impl<T> Interner<T> {
    fn place(&mut self, hash: u64, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
        let (items, hashes) = (&mut self.items, &mut self.hashes);
        match self.places.entry(hash, |place| hashes[*place] == hash && is_it(&items[*place]), |place| hashes[*place]) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(free) => {
                let place = items.len();
                free.insert(place);
                items.push(make());
                hashes.push(hash);
                place
            }
        }
    }
}

impl<'q> Interner<&'q Predicate> {
    /// By its text, which tells predicates apart but for a few, and then by comparing them.
    fn place_of_predicate(&mut self, predicate: &'q Predicate, text: &mut String) -> u32 {
        text.clear();
        let _ = write!(text, "{predicate}"); // a String takes any text
        let place = self.place(hash(text), |known| *known == predicate, || predicate);
        u32::try_from(place).expect("fewer predicates than marks")
    }
}

fn hash(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    FixedState::with_seed(0).hash_one(value)
}

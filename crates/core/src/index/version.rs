//! What a message sees: one version of an engine, which never changes.
//!
//! A change makes a new version and stores a pointer to it; whoever is matching goes on with the one that it has. A
//! version is a few immutable segments, the largest the oldest, and a short tail of what was added last.

use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::Query;

use super::SubscriptionId;
use super::removed::Removed;
use super::scratch::Scratch;
use super::segment::{Moment, Segment};
use super::sort::sort_and_dedup;

/// So many subscriptions are evaluated one by one before they become a segment.
pub const TAIL: usize = 16;

/// The subscriptions that were added last. Filled from the front; a version says how many it sees.
#[derive(Debug)]
pub struct Tail {
    entries: [OnceLock<(SubscriptionId, Arc<Query>)>; TAIL],
    /// Which of them have been removed.
    pub removed: Removed,
}

impl Default for Tail {
    fn default() -> Self {
        Self { entries: [const { OnceLock::new() }; TAIL], removed: Removed::new(TAIL) }
    }
}

impl Tail {
    /// Fill the entry at `place`, which is empty.
    pub fn fill(&self, place: usize, id: SubscriptionId, query: Arc<Query>) {
        self.entries[place].set((id, query)).expect("a place of the tail is filled once");
    }

    /// The first `length` entries, with their places.
    pub fn entries(&self, length: usize) -> impl Iterator<Item = (usize, SubscriptionId, &Arc<Query>)> {
        let filled = self.entries[..length].iter().enumerate();
        filled.filter_map(|(place, entry)| entry.get().map(|(id, query)| (place, *id, query)))
    }
}

/// One state of an engine.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Ascending from version to version; the first is 0.
    pub number: u64,
    /// How many subscriptions there are.
    pub live: usize,
    /// What is indexed.
    pub segments: Vec<Arc<Segment>>,
    /// What is not yet.
    pub tail: Arc<Tail>,
    /// How much of the tail belongs to this version.
    pub tail_length: usize,
    /// Hierarchies of attributes.
    pub hierarchies: Arc<Hierarchies>,
}

/// Where a subscription is.
#[derive(Clone, Debug)]
pub enum Place {
    /// At a place of a segment.
    Segment(Arc<Segment>, usize),
    /// At a place of the tail.
    Tail(usize),
}

impl Version {
    /// Append every subscription whose query is true of `message`, ascending, each once.
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
        let moment = Moment { hierarchies: &self.hierarchies, version: self.number };
        for segment in &self.segments {
            segment.match_into(message, moment, scratch, matched)?;
        }
        let tail = self.live_tail().filter(|(_, _, query)| query.is_true(message, Some(&self.hierarchies)));
        matched.extend(tail.map(|(_, id, _)| id));
        sort_and_dedup(matched, start, &mut scratch.spare);
        Ok(())
    }

    /// The subscriptions of the tail that are there.
    pub fn live_tail(&self) -> impl Iterator<Item = (usize, SubscriptionId, &Arc<Query>)> {
        let entries = self.tail.entries(self.tail_length);
        entries.filter(|(place, ..)| self.tail.removed.is_live(*place, self.number))
    }

    /// Where the subscription `id` is, if it is there.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn find(&self, id: SubscriptionId) -> Result<Option<Place>, EngineError> {
        if let Some((place, ..)) = self.live_tail().find(|(_, other, _)| *other == id) {
            return Ok(Some(Place::Tail(place)));
        }
        for segment in self.segments.iter().rev() {
            if let Some(place) = segment.find(id)?.filter(|place| segment.removed.is_live(*place, self.number)) {
                return Ok(Some(Place::Segment(Arc::clone(segment), place)));
            }
        }
        Ok(None)
    }

    /// The query of a subscription.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn query(&self, place: &Place) -> Result<Arc<Query>, EngineError> {
        match place {
            Place::Segment(segment, place) => Ok(Arc::clone(segment.query(segment.slot_of(*place)?)?)),
            Place::Tail(place) => {
                let (.., query) = self.tail.entries(*place + 1).last().expect("a place that was found");
                Ok(Arc::clone(query))
            }
        }
    }

    /// The query of a subscription, decoded anew rather than kept.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn decode(&self, place: &Place) -> Result<Arc<Query>, EngineError> {
        match place {
            Place::Segment(segment, place) => Ok(Arc::new(segment.decode(segment.slot_of(*place)?)?)),
            Place::Tail(_) => self.query(place),
        }
    }

    /// Every subscription, by ascending id. Cost: linear in them, and a sort where there are several segments.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn subscriptions(&self) -> Result<Vec<(SubscriptionId, Place)>, EngineError> {
        let mut all = Vec::with_capacity(self.live);
        for segment in &self.segments {
            for place in segment.places_by_id() {
                let place = place?;
                if segment.removed.is_live(place, self.number) {
                    all.push((segment.id(place)?, Place::Segment(Arc::clone(segment), place)));
                }
            }
        }
        all.extend(self.live_tail().map(|(place, id, _)| (id, Place::Tail(place))));
        all.sort_by_key(|(id, _)| *id); // runs that are ascending already
        Ok(all)
    }
}

//! What a message sees: one version of an engine, which never changes.
//!
//! A change makes a new version and stores a pointer to it; whoever is matching goes on with the one that it has. A
//! version is a few immutable segments, the largest the oldest, and a short tail of what was added last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::message::Message;
use crate::query::Query;
use crate::topic::TopicPattern;

use crate::index::SubscriptionId;
use crate::index::matching::hashed_message::SeenMessage;
use crate::index::matching::scratch::Scratch;
use crate::index::segment::tombstones::Removed;
use crate::index::segment::{Moment, Segment};
use crate::index::topics::combined_trie::Together;
use crate::index::topics::lookup::{Found, OnlyTrie};

/// So many subscriptions are evaluated one by one before they become a segment. No more than a version has bits for.
pub const TAIL: usize = 32;

/// The subscriptions that were added last. Filled from the front; a version says how many it sees.
#[derive(Debug)]
pub struct Tail {
    entries: [OnceLock<Entry>; TAIL],
    /// Which of them have been removed.
    pub removed: Removed,
}

#[derive(Debug)]
struct Entry {
    id: SubscriptionId,
    query: Arc<Query>,
    /// The first place with an equal query: subscribers often ask for the same, and it is evaluated once.
    first: usize,
}

impl Default for Tail {
    fn default() -> Self {
        Self { entries: [const { OnceLock::new() }; TAIL], removed: Removed::new(TAIL) }
    }
}

impl Tail {
    /// Fill the entry at `place`, which is empty.
    pub fn fill(&self, place: usize, id: SubscriptionId, query: Arc<Query>) {
        let is_equal = |entry: &Entry| entry.query == query;
        let first = self.entries[..place].iter().position(|entry| entry.get().is_some_and(is_equal)).unwrap_or(place);
        let entry = Entry { id, query, first };
        self.entries[place].set(entry).expect("a place of the tail is filled once");
    }

    /// The first `length` entries, with their places.
    pub fn entries(&self, length: usize) -> impl Iterator<Item = (usize, SubscriptionId, &Arc<Query>)> {
        let filled = self.entries[..length].iter().enumerate();
        filled.filter_map(|(place, entry)| entry.get().map(|entry| (place, entry.id, &entry.query)))
    }
}

/// One state of an engine.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Ascending from version to version; the first is 0.
    pub number: u64,
    /// Of all versions of all engines that this process has seen, this one's own; 0 of an empty engine.
    pub serial: u64,
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
    /// True when the topic alone may decide something,
    asks_about_topics: bool,
    /// or may have symbols.
    pub has_topic_symbols: bool,
    /// Of the tail those that are there: a bit each for pure topic queries, and for all others.
    tail_topics: u32,
    tail_others: u32,
    /// The topic patterns of small parts.
    pub together: Arc<Together>,
    /// How many segments have a trie, and the place of the last of them.
    tries: (usize, usize),
    /// True when topics are looked through for what stands in them.
    looks_into_topics: bool,
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
    /// Note what follows from the rest, before it is published. Cost: a few look-ups a segment.
    pub fn seal(&mut self) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        self.serial = SERIAL.fetch_add(1, Ordering::Relaxed) + 1;
        let (mut topics, mut others) = (0, 0);
        for (place, _, query) in self.live_tail() {
            *(if query.topic_pattern().is_some() { &mut topics } else { &mut others }) |= 1 << place;
        }
        (self.tail_topics, self.tail_others) = (topics, others);
        self.has_topic_symbols = self.segments.iter().any(|segment| segment.has_topic_symbols());
        self.asks_about_topics = topics != 0 || self.segments.iter().any(|segment| segment.asks_about_topics());
        let trie_bytes = self.segments.iter().map(|segment| segment.topic_bytes());
        self.together = Arc::new(Together::new(trie_bytes, topics.count_ones() as usize));
        let has_trie = |(place, segment): (usize, &Arc<Segment>)| (segment.topic_bytes() > 0).then_some(place);
        let places = self.segments.iter().enumerate().filter_map(has_trie);
        self.tries = places.fold((0, 0), |(count, _), place| (count + 1, place));
        self.looks_into_topics = self.segments.iter().any(|segment| segment.looks_into_topics());
    }

    /// Where all is that there is to know of any topic; None when it is in several parts, or has to be looked for.
    #[inline]
    pub fn only_trie(&self) -> Option<OnlyTrie<'_>> {
        match self.tries {
            _ if self.looks_into_topics => None,
            (1, place) if self.tail_topics == 0 => Some(OnlyTrie::Segment(place, &self.segments[place])),
            (count, _) => self.together.all_of(count).map(OnlyTrie::Together),
        }
    }

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
        if !self.asks_about_topics {
            return self.match_rest(message, &Found::NOTHING, scratch, matched);
        }
        let mut topics = scratch.topics.take().unwrap_or_default();
        let done = topics.with(self, message.topic, |found| self.match_rest(message, found, scratch, matched));
        scratch.topics = Some(topics);
        done
    }

    /// Append what was `found` for the topic, and all else.
    #[inline]
    fn match_rest(
        &self,
        message: &Message<'_>,
        found: &Found,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        let start = matched.len();
        matched.extend_from_slice(&found.ids);
        scratch.ids.clear();
        let moment = Moment { hierarchies: &self.hierarchies, version: self.number };
        let mut seen = SeenMessage::new(message);
        for (place, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.has_leaves()) {
            segment.match_into(&mut seen, found.symbols(place), moment, scratch)?;
        }
        self.match_tail(message, |id| scratch.ids.push(id));
        if !scratch.ids.is_empty() {
            matched.drain(start..).for_each(|id| scratch.ids.push(id));
            scratch.ids.drain_into(matched);
        }
        Ok(())
    }

    /// The pure topic queries of the tail.
    pub fn topics_in_tail(&self) -> impl Iterator<Item = (SubscriptionId, &TopicPattern)> {
        self.in_tail(self.tail_topics).filter_map(|entry| Some((entry.id, entry.query.topic_pattern()?)))
    }

    fn match_tail(&self, message: &Message<'_>, mut push: impl FnMut(SubscriptionId)) {
        let (mut asked, mut satisfied) = (0_u32, 0_u32);
        for entry in self.in_tail(self.tail_others) {
            let bit = 1 << entry.first;
            if asked & bit == 0 && entry.query.is_true(message, Some(&self.hierarchies)) {
                satisfied |= bit;
            }
            asked |= bit;
            if satisfied & bit != 0 {
                push(entry.id);
            }
        }
    }

    fn in_tail(&self, mut places: u32) -> impl Iterator<Item = &Entry> {
        std::iter::from_fn(move || {
            let place = (places != 0).then(|| places.trailing_zeros() as usize)?;
            places &= places - 1;
            self.tail.entries[place].get()
        })
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

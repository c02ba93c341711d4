//! What a version of an engine knows of a topic: found once, and kept for topics that come again.
//!
//! Queries that are one topic pattern and nothing else are in no leaf: the ids of those that a topic matches are all
//! there is to know of them. Patterns and needles that are a part of other queries become symbols of the message.
//!
//! A topic that comes again is one look-up and a copy. What was found belongs to one version: after a change each topic
//! is looked through anew when it comes next.

use crate::error::EngineError;
use crate::topic::cache::TopicCache;
use crate::topic::trie::TrieScratch;

use super::SubscriptionId;
use super::atoms::NeedleWork;
use super::sort::sort_and_dedup;
use super::symbols::{AttributeId, Known};
use super::version::Version;

/// So many topics are kept at most, those that were used last; a scratch has them, so each thread its own.
const TOPICS_MAX: usize = 1 << 16;
/// Their ids and symbols take at most this many times 8 bytes. A topic that has more than half of that is looked
/// through whenever it comes.
const WEIGHT_MAX: usize = 1 << 21;

/// TopicSymbols of one segment.
pub type TopicSymbols = Vec<(AttributeId, Known)>;

/// What one version knows of one topic.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The version's; 0 is that of an empty engine.
    serial: u64,
    /// The subscriptions that ask for such a topic and nothing else: ascending, each once.
    pub ids: Vec<SubscriptionId>,
    /// What the topic is to each segment; empty when it is nothing to all of them.
    pub(super) symbols: Vec<TopicSymbols>,
}

impl Found {
    /// Of an engine that asks nothing about topics.
    pub const NOTHING: Self = Self { serial: 0, ids: Vec::new(), symbols: Vec::new() };

    /// What the topic is to the segment at `place`.
    pub fn symbols(&self, place: usize) -> &[(AttributeId, Known)] {
        self.symbols.get(place).map_or(&[], Vec::as_slice)
    }

    fn weight(&self) -> usize {
        let symbols = |symbols: &TopicSymbols| (size_of_val(&**symbols) + size_of_val(symbols)) / 8;
        1 + self.ids.len() + self.symbols.iter().map(symbols).sum::<usize>()
    }
}

/// The topics that come again, and room for looking through others.
#[derive(Debug)]
pub struct Topics {
    cache: TopicCache<Found>,
    fresh: Found,
    pub(super) trie: TrieScratch,
    pub(super) patterns: Vec<u32>,
    pub(super) needles: NeedleWork,
    spare: Vec<SubscriptionId>,
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            cache: TopicCache::new(TOPICS_MAX, WEIGHT_MAX),
            fresh: Found::default(),
            trie: TrieScratch::default(),
            patterns: Vec::new(),
            needles: NeedleWork::default(),
            spare: Vec::new(),
        }
    }
}

impl Topics {
    /// What `version` knows of `topic`, handed to `work`.
    ///
    /// # Errors
    /// A damaged file, and what `work` gives.
    #[inline]
    pub fn with<R>(
        &mut self,
        version: &Version,
        topic: &str,
        work: impl FnOnce(&Found) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let hash = self.cache.hash(topic);
        let mut is_stale = false;
        if let Some(found) = self.cache.get_hashed(hash, topic) {
            if found.serial == version.serial {
                return work(found);
            }
            is_stale = true;
        }
        self.look_through(version, topic)?;
        self.cache.offer_hashed(hash, topic, is_stale, self.fresh.weight(), || self.fresh.clone());
        work(&self.fresh)
    }

    fn look_through(&mut self, version: &Version, topic: &str) -> Result<(), EngineError> {
        let mut found = std::mem::take(&mut self.fresh);
        found.serial = version.serial;
        found.ids.clear();
        found.symbols.iter_mut().for_each(Vec::clear);
        found.symbols.resize_with(if version.has_topic_symbols { version.segments.len() } else { 0 }, Vec::new);
        let done = version.together.find(version, topic, self, &mut found)?;
        let mut none = TopicSymbols::new();
        let is_left = |place: &usize| done.is_none_or(|segments| segments.binary_search(place).is_err());
        for (place, segment) in version.segments.iter().enumerate().filter(|(place, _)| is_left(place)) {
            let symbols = found.symbols.get_mut(place).unwrap_or(&mut none);
            segment.find_patterns(topic, version.number, self, &mut found.ids, symbols)?;
        }
        for (segment, symbols) in version.segments.iter().zip(&mut found.symbols) {
            segment.find_in_topic(topic, self, symbols)?;
        }
        if done.is_none() {
            let tail = version.topics_in_tail().filter(|(_, pattern)| pattern.is_match(topic));
            found.ids.extend(tail.map(|(id, _)| id));
        }
        sort_and_dedup(&mut found.ids, 0, &mut self.spare);
        self.fresh = found;
        Ok(())
    }
}

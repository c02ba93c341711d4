//! What a version of an engine knows of a topic: found once, and kept for topics that come again.
//!
//! Queries that are one topic pattern and nothing else are in no leaf: the ids of those that a topic matches are all
//! there is to know of them. Patterns and needles that are a part of other queries become symbols of the message.
//!
//! Where all patterns are in one trie, they are found by the state of its automaton that a topic leads to, whether it
//! came before or not (`automata.rs`). Where that is of no use, because topics lead to ever new states, a topic that comes
//! again is one look-up and a copy. What was found belongs to one version: after a change it is found anew when it is
//! needed next.

use crate::error::EngineError;
use crate::topic::cache::TopicCache;
use crate::topic::trie::TopicTrie;

use crate::index::SubscriptionId;
use crate::index::compile::interner::{AttributeId, Known};
use crate::index::matching::id_set::{Unordered, sort_and_dedup};
use crate::index::segment::Segment;
use crate::index::segment::text_search::NeedleWork;
use crate::index::topics::automata::{Automata, TrieId};
use crate::index::topics::combined_trie::Made;
use crate::index::versions::version::Version;

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
    pub(in crate::index) serial: u64,
    /// The subscriptions that ask for such a topic and nothing else: ascending, each once.
    pub ids: Vec<SubscriptionId>,
    /// What the topic is to each segment; empty when it is nothing to all of them.
    pub(in crate::index) symbols: Vec<TopicSymbols>,
}

impl Found {
    /// Of an engine that asks nothing about topics.
    pub const NOTHING: Self = Self { serial: 0, ids: Vec::new(), symbols: Vec::new() };

    /// What the topic is to the segment at `place`.
    pub fn symbols(&self, place: usize) -> &[(AttributeId, Known)] {
        self.symbols.get(place).map_or(&[], Vec::as_slice)
    }

    /// Nothing is known yet.
    fn begin(&mut self, version: &Version) {
        self.serial = version.serial;
        self.ids.clear();
        self.symbols.iter_mut().for_each(Vec::clear);
        self.symbols.resize_with(if version.has_topic_symbols { version.segments.len() } else { 0 }, Vec::new);
    }

    /// In units of 8 bytes.
    pub fn weight(&self) -> usize {
        let symbols = |symbols: &TopicSymbols| (size_of_val(&**symbols) + size_of_val(symbols)) / 8;
        1 + self.ids.len() + self.symbols.iter().map(symbols).sum::<usize>()
    }
}

/// Where all is that a version knows of any topic.
#[derive(Clone, Copy)]
pub enum OnlyTrie<'a> {
    /// In the segment at this place.
    Segment(usize, &'a Segment),
    /// In the trie of its small parts.
    Together(&'a Made),
}

impl OnlyTrie<'_> {
    #[inline]
    fn id(&self) -> TrieId {
        match self {
            Self::Segment(_, segment) => segment.trie_id,
            Self::Together(made) => made.id,
        }
    }

    #[inline]
    fn trie(&self) -> Result<TopicTrie<'_>, EngineError> {
        match self {
            Self::Segment(_, segment) => segment.trie(),
            Self::Together(made) => made.trie(),
        }
    }

    #[cold]
    fn damaged(&self, reason: String) -> EngineError {
        match self {
            Self::Segment(_, segment) => segment.store().damaged(&reason),
            Self::Together(_) => EngineError::Snapshot(reason),
        }
    }

    /// Add what `patterns` say to `found`.
    fn add_to(&self, found: &mut Found, patterns: &[u32], version: u64) -> Result<(), EngineError> {
        match self {
            Self::Together(made) => patterns.iter().for_each(|pattern| made.add_to(found, *pattern as usize)),
            Self::Segment(place, segment) => {
                let mut none = TopicSymbols::new();
                let Found { ids, symbols, .. } = found;
                let symbols = symbols.get_mut(*place).unwrap_or(&mut none);
                segment.patterns()?.meanings(patterns, version, ids, symbols)?;
            }
        }
        Ok(())
    }
}

/// The topics that come again, and room for looking through others.
#[derive(Debug)]
pub struct Topics {
    cache: TopicCache<Found>,
    fresh: Found,
    automata: Automata,
    /// What the last walk found.
    pub(in crate::index) patterns: Vec<u32>,
    pub(in crate::index) needles: NeedleWork,
    spare: Unordered,
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            cache: TopicCache::new(TOPICS_MAX, WEIGHT_MAX),
            fresh: Found::default(),
            automata: Automata::default(),
            patterns: Vec::new(),
            needles: NeedleWork::default(),
            spare: Unordered::default(),
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
        if let Some(found) = self.by_state(version, topic)? {
            return work(found);
        }
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

    /// Find the `patterns` of the trie called `id` that match `topic`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub(in crate::index) fn walk(&mut self, id: TrieId, trie: &TopicTrie<'_>, topic: &str) -> Result<(), String> {
        self.patterns.clear();
        self.automata.walk(id, trie, topic, &mut self.patterns)
    }

    /// What `version` knows of `topic` by the state that it leads to, where all that there is to know is in one trie.
    #[inline]
    fn by_state(&mut self, version: &Version, topic: &str) -> Result<Option<&Found>, EngineError> {
        let Some(only) = version.only_trie() else { return Ok(None) };
        let trie = only.trie()?;
        let state = self.automata.state(only.id(), &trie, topic).map_err(|reason| only.damaged(reason))?;
        let Some((automaton, state)) = state else { return Ok(None) };
        if automaton.found(state, version.serial).is_none() {
            self.patterns.clear();
            automaton.patterns_into(&trie, state, &mut self.patterns).map_err(|reason| only.damaged(reason))?;
            let mut found = Found::default();
            found.begin(version);
            only.add_to(&mut found, &self.patterns, version.number)?;
            sort_and_dedup(&mut found.ids, 0, &mut self.spare);
            automaton.keep(state, found);
        }
        Ok(automaton.found(state, version.serial))
    }

    fn look_through(&mut self, version: &Version, topic: &str) -> Result<(), EngineError> {
        let mut found = std::mem::take(&mut self.fresh);
        found.begin(version);
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

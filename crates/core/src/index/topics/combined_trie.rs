//! The topic patterns of small segments and of the tail in one trie, for as long as a version lasts.
//!
//! Walking one trie costs little more than walking one of several, so that an engine that grew query by query would pay for
//! each of its segments. Building takes time too: the trie is built when a version has been asked about roughly as many new
//! topics as there are patterns, by the thread that brought the last of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::EngineError;
use crate::index::SubscriptionId;
use crate::index::ids::{AttributeId, TrieId};
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::segment::patterns::TopicSymbols;
use crate::topic::trie::{self, TopicTrie};

use super::matches::TopicMatches;
use super::plan::TopicSources;

/// Segments are small while their tries have no more bytes than this together. Building the combined trie then takes a few
/// milliseconds and as much memory again.
const BYTES_MAX: usize = 256 << 10;
/// An estimate of the bytes that a pattern takes of a trie.
const BYTES_PER_PATTERN: usize = 64;

/// Decides when the trie is built, and holds it.
#[derive(Debug, Default)]
pub struct CombinedTrieCell {
    /// The indexes of the small segments, ascending.
    small: Vec<usize>,
    /// The number of topics after which the trie is built.
    topics_min: usize,
    topics: AtomicUsize,
    built: OnceLock<CombinedTrie>,
}

/// One trie for several parts of a version.
#[derive(Debug, Default)]
pub struct CombinedTrie {
    /// The identity of the trie.
    pub id: TrieId,
    trie: Vec<u8>,
    /// The ends of the ids and of the symbols of each pattern.
    ends: Vec<(usize, usize)>,
    ids: Vec<SubscriptionId>,
    /// With the indexes of their segments.
    symbols: Vec<(usize, AttributeId, SymbolInfo)>,
}

impl CombinedTrieCell {
    /// A cell for a version whose segments have tries of this total size, with `tail_count` patterns in its tail.
    #[must_use]
    pub fn new(trie_bytes: impl Iterator<Item = usize>, tail_count: usize) -> Self {
        let mut tries: Vec<_> = trie_bytes.enumerate().filter(|(_, bytes)| *bytes > 0).collect();
        tries.sort_by_key(|(_, bytes)| *bytes);
        let mut total = 0;
        let small = tries.into_iter().map_while(|(segment, bytes)| {
            total += bytes;
            (total <= BYTES_MAX).then_some((segment, total))
        });
        let small: Vec<_> = small.collect();
        let is_worth_it = small.len() + usize::from(tail_count > 0) > 1;
        let bytes = small.last().map_or(0, |(_, total)| *total);
        let topics_min = if is_worth_it { bytes / BYTES_PER_PATTERN + tail_count } else { usize::MAX };
        let mut small: Vec<_> = small.into_iter().map(|(segment, _)| segment).collect();
        small.sort_unstable();
        Self { small, topics_min, ..Self::default() }
    }

    /// The trie, if it has been built and holds the tail and all of `trie_count` tries.
    pub fn all_of(&self, trie_count: usize) -> Option<&CombinedTrie> {
        self.built.get().filter(|_| self.small.len() == trie_count)
    }

    /// The trie and its segments, if it has been built. Counts the topic otherwise, and builds the trie when it is time.
    pub fn get(&self, sources: TopicSources<'_>) -> Result<Option<(&CombinedTrie, &[usize])>, EngineError> {
        if let Some(built) = self.built.get() {
            return Ok(Some((built, &self.small)));
        }
        // One thread sees the number at which building pays; the others go on without the trie.
        if self.topics_min != usize::MAX && self.topics.fetch_add(1, Ordering::Relaxed) == self.topics_min {
            _ = self.built.set(CombinedTrie::new(sources, &self.small)?);
        }
        Ok(None)
    }
}

impl CombinedTrie {
    fn new(sources: TopicSources<'_>, small: &[usize]) -> Result<Self, EngineError> {
        let (mut combined, mut patterns) = (Self::default(), Vec::new());
        let mut symbols = TopicSymbols::new();
        for &index in small {
            let segment = sources.segments[index].patterns()?;
            for number in 0..segment.trie.pattern_count() {
                patterns.push(segment.pattern(number)?);
                symbols.clear();
                segment.meaning(number, sources.version, &mut combined.ids, &mut symbols)?;
                combined.symbols.extend(symbols.iter().map(|(attribute, symbol)| (index, *attribute, *symbol)));
                combined.ends.push((combined.ids.len(), combined.symbols.len()));
            }
        }
        for (id, pattern) in sources.tail_patterns() {
            patterns.push(pattern.clone());
            combined.ids.push(id);
            combined.ends.push((combined.ids.len(), combined.symbols.len()));
        }
        combined.trie = trie::build(&patterns.iter().collect::<Vec<_>>());
        Ok(combined)
    }

    /// All patterns.
    ///
    /// # Errors
    /// Never: the trie was built in memory.
    #[inline]
    pub fn trie(&self) -> Result<TopicTrie<'_>, EngineError> {
        TopicTrie::new(&self.trie).map_err(EngineError::Snapshot)
    }

    /// Add what a pattern stands for to `matches`.
    pub fn add_to(&self, matches: &mut TopicMatches, pattern: usize) {
        let (ids, symbols) = if pattern == 0 { (0, 0) } else { self.ends[pattern - 1] };
        let (ids_end, symbols_end) = self.ends[pattern];
        matches.ids.extend_from_slice(&self.ids[ids..ids_end]);
        for (segment, attribute, symbol) in &self.symbols[symbols..symbols_end] {
            matches.symbols[*segment].push((*attribute, *symbol));
        }
    }
}

//! The topic patterns of small segments and of the tail in one trie, for as long as a version lasts.
//!
//! Walking one trie costs little more than walking one of several, so that an engine that grew query by query would pay
//! for each of its segments. Building takes time too: it is done when a version has been asked about about as many new
//! topics as there are patterns, by the thread that brought the last of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::EngineError;
use crate::topic::trie::{self, TopicTrie};

use crate::index::SubscriptionId;
use crate::index::compile::interner::{AttributeId, Known};
use crate::index::topics::automata::TrieId;
use crate::index::topics::lookup::{Found, TopicSymbols, Topics};
use crate::index::versions::version::Version;

/// Segments are small while their tries have no more bytes than this together. Building one of them takes a few
/// milliseconds, and it takes as much memory again.
const BYTES_MAX: usize = 256 << 10;
/// What a pattern takes of a trie, roughly.
const BYTES_PER_PATTERN: usize = 64;

/// One trie for several parts of a version.
#[derive(Debug, Default)]
pub struct Together {
    /// Which segments are small, ascending.
    small: Vec<usize>,
    /// After so many topics it is made.
    topics_min: usize,
    topics: AtomicUsize,
    made: OnceLock<Made>,
}

/// What has been put together.
#[derive(Debug, Default)]
pub struct Made {
    /// Of its trie.
    pub id: TrieId,
    trie: Vec<u8>,
    /// Where the ids and the symbols of each pattern end.
    ends: Vec<(usize, usize)>,
    ids: Vec<SubscriptionId>,
    /// With the places of their segments.
    symbols: Vec<(usize, AttributeId, Known)>,
}

impl Together {
    /// For a version of segments whose tries have so many bytes, and with so many patterns in its tail.
    #[must_use]
    pub fn new(trie_bytes: impl Iterator<Item = usize>, tail_count: usize) -> Self {
        let mut tries: Vec<_> = trie_bytes.enumerate().filter(|(_, bytes)| *bytes > 0).collect();
        tries.sort_by_key(|(_, bytes)| *bytes);
        let mut total = 0;
        let small = tries.into_iter().map_while(|(place, bytes)| {
            total += bytes;
            (total <= BYTES_MAX).then_some((place, total))
        });
        let small: Vec<_> = small.collect();
        let is_worth_it = small.len() + usize::from(tail_count > 0) > 1;
        let bytes = small.last().map_or(0, |(_, total)| *total);
        let topics_min = if is_worth_it { bytes / BYTES_PER_PATTERN + tail_count } else { usize::MAX };
        let mut small: Vec<_> = small.into_iter().map(|(place, _)| place).collect();
        small.sort_unstable();
        Self { small, topics_min, ..Self::default() }
    }

    /// What has been put together, if it is all of so many tries, and the tail.
    pub fn all_of(&self, trie_count: usize) -> Option<&Made> {
        self.made.get().filter(|_| self.small.len() == trie_count)
    }

    /// Add what all patterns together say of `topic` to `found`, if it is made. Tells which segments that was; None when
    /// it was none of them, nor the tail.
    ///
    /// # Errors
    /// A damaged file.
    pub fn find(
        &self,
        version: &Version,
        topic: &str,
        work: &mut Topics,
        found: &mut Found,
    ) -> Result<Option<&[usize]>, EngineError> {
        let Some(made) = self.made.get() else {
            // One thread sees the number at which it is worth it; the others go on without.
            if self.topics_min != usize::MAX && self.topics.fetch_add(1, Ordering::Relaxed) == self.topics_min {
                _ = self.made.set(Made::new(version, &self.small)?);
            }
            return Ok(None);
        };
        work.walk(made.id, &made.trie()?, topic).map_err(EngineError::Snapshot)?;
        for pattern in &work.patterns {
            made.add_to(found, *pattern as usize);
        }
        Ok(Some(&self.small))
    }
}

impl Made {
    fn new(version: &Version, small: &[usize]) -> Result<Self, EngineError> {
        let (mut made, mut patterns) = (Self::default(), Vec::new());
        let mut symbols = TopicSymbols::new();
        for &place in small {
            let segment = &version.segments[place];
            let tries = segment.patterns()?;
            for number in 0..tries.count() {
                patterns.push(tries.pattern(number)?);
                symbols.clear();
                tries.meaning(number, version.number, &mut made.ids, &mut symbols)?;
                made.symbols.extend(symbols.iter().map(|(attribute, known)| (place, *attribute, *known)));
                made.ends.push((made.ids.len(), made.symbols.len()));
            }
        }
        for (id, pattern) in version.topics_in_tail() {
            patterns.push(pattern.clone());
            made.ids.push(id);
            made.ends.push((made.ids.len(), made.symbols.len()));
        }
        made.trie = trie::build(&patterns.iter().collect::<Vec<_>>());
        Ok(made)
    }

    /// All patterns.
    ///
    /// # Errors
    /// None, but that nobody has to trust that.
    #[inline]
    pub fn trie(&self) -> Result<TopicTrie<'_>, EngineError> {
        TopicTrie::new(&self.trie).map_err(EngineError::Snapshot)
    }

    /// Add what a pattern says to `found`.
    pub fn add_to(&self, found: &mut Found, pattern: usize) {
        let (ids, symbols) = if pattern == 0 { (0, 0) } else { self.ends[pattern - 1] };
        let (ids_end, symbols_end) = self.ends[pattern];
        found.ids.extend_from_slice(&self.ids[ids..ids_end]);
        for (place, attribute, known) in &self.symbols[symbols..symbols_end] {
            found.symbols[*place].push((*attribute, *known));
        }
    }
}

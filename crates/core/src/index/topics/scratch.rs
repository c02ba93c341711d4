//! The memory of a thread for topics: those that come again, and room for looking up others.

use crate::index::ids::TrieId;
use crate::index::matching::id_set::IdSet;
use crate::index::segment::text_search::NeedleWork;
use crate::topic::cache::TopicCache;
use crate::topic::trie::TopicTrie;

use super::automata::Automata;
use super::matches::TopicMatches;

/// Maximum number of topics that are kept, those that were used last. Each thread has its own.
const TOPICS_MAX: usize = 1 << 16;
/// Their ids and symbols take at most this many times 8 bytes. A topic with more than half of that is looked up whenever it
/// comes.
const WEIGHT_MAX: usize = 1 << 21;

/// The topics that come again, and memory for looking up others.
#[derive(Debug)]
pub struct TopicScratch {
    /// The results for the topics that were used last.
    pub cache: TopicCache<TopicMatches>,
    /// The result of the last look-up.
    pub fresh: TopicMatches,
    /// The automata of tries.
    pub automata: Automata,
    /// The patterns that matched in the last walk.
    pub patterns: Vec<u32>,
    /// Memory for searching topics.
    pub needles: NeedleWork,
    /// Memory for sorting ids.
    pub spare: IdSet,
}

impl Default for TopicScratch {
    fn default() -> Self {
        Self {
            cache: TopicCache::new(TOPICS_MAX, WEIGHT_MAX),
            fresh: TopicMatches::default(),
            automata: Automata::default(),
            patterns: Vec::new(),
            needles: NeedleWork::default(),
            spare: IdSet::default(),
        }
    }
}

impl TopicScratch {
    /// Write the patterns of the trie `id` that match `topic` to `patterns`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub fn walk(&mut self, id: TrieId, trie: &TopicTrie<'_>, topic: &str) -> Result<(), String> {
        self.patterns.clear();
        self.automata.walk(id, trie, topic, &mut self.patterns)
    }
}

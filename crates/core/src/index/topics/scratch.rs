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

/// So many topics in a row that did not come before show that topics are hardly ever the same.
const NEW_IN_A_ROW: u32 = 1 << 10;
/// That many topics are then not looked for among those that came, where an automaton has the answer.
const NOT_LOOKED_FOR: u32 = 1 << 16;

/// The topics that come again, and memory for looking up others.
#[derive(Debug)]
pub struct TopicScratch {
    /// The results for the topics that were used last.
    pub cache: TopicCache<TopicMatches>,
    /// Whether it is of use to ask for these.
    pub recurrence: Recurrence,
    /// Memory for looking up others.
    pub lookup: LookupScratch,
}

/// How often topics come again.
#[derive(Debug, Default)]
pub struct Recurrence {
    new_in_a_row: u32,
    not_looked_for: u32,
}

/// Memory for looking up topics.
#[derive(Debug, Default)]
pub struct LookupScratch {
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
            recurrence: Recurrence::default(),
            lookup: LookupScratch::default(),
        }
    }
}

impl Recurrence {
    /// Whether hardly any of the last topics came before, so that the next need not be looked for.
    #[inline]
    pub fn is_rare(&mut self) -> bool {
        let is_rare = self.not_looked_for > 0;
        self.not_looked_for -= u32::from(is_rare);
        is_rare
    }

    /// Count a topic that came before.
    #[inline]
    pub fn count_known(&mut self) {
        self.new_in_a_row = 0;
    }

    /// Count a topic that did not come before.
    #[inline]
    pub fn count_new(&mut self) {
        self.new_in_a_row += 1;
        if self.new_in_a_row == NEW_IN_A_ROW {
            (self.new_in_a_row, self.not_looked_for) = (0, NOT_LOOKED_FOR);
        }
    }
}

impl LookupScratch {
    /// Write the patterns of the trie `id` that match `topic` to `patterns`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub fn walk(&mut self, id: TrieId, trie: &TopicTrie<'_>, topic: &str) -> Result<(), String> {
        self.patterns.clear();
        self.automata.walk(id, trie, topic, &mut self.patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_are_always_new_are_not_looked_for_until_some_come_again() {
        let mut recurrence = Recurrence::default();
        for _ in 1..NEW_IN_A_ROW {
            assert!(!recurrence.is_rare());
            recurrence.count_new();
        }
        recurrence.count_known();
        recurrence.count_new();
        assert!(!recurrence.is_rare(), "one of them came before");
        (1..NEW_IN_A_ROW).for_each(|_| recurrence.count_new());
        (0..NOT_LOOKED_FOR).for_each(|_| assert!(recurrence.is_rare()));
        assert!(!recurrence.is_rare(), "after a time they are looked for again");
    }
}

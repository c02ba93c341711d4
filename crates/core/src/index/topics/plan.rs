//! Decides once per version how topics are looked up, so that a match need not ask its segments.

use std::sync::Arc;

use crate::index::SubscriptionId;
use crate::index::segment::Segment;
use crate::index::segment::tail::Tail;
use crate::topic::TopicPattern;

use super::combined_trie::CombinedTrieCell;

/// The topic patterns and texts that the segments and the tail of a version ask about.
#[derive(Clone, Debug, Default)]
pub struct TopicPlan {
    /// True when the topic alone may decide something.
    pub asks: bool,
    /// True when the topic may have symbols.
    pub has_symbols: bool,
    /// True when texts are looked for in topics.
    pub looks_into: bool,
    /// The pure topic queries of the tail, a bit each.
    pub in_tail: u32,
    /// The number of segments with a trie.
    pub trie_count: usize,
    /// The index of the last segment with a trie.
    pub last_trie: usize,
    /// The topic patterns of small parts.
    pub combined: Arc<CombinedTrieCell>,
}

impl TopicPlan {
    /// The plan for a version with these segments, and with pure topic queries at the positions `in_tail` of its tail.
    pub fn new(segments: &[Arc<Segment>], in_tail: u32) -> Self {
        let trie_bytes = || segments.iter().map(|segment| segment.topic_bytes());
        let tail_count = in_tail.count_ones() as usize;
        Self {
            asks: in_tail != 0 || segments.iter().any(|segment| segment.asks_about_topics()),
            has_symbols: segments.iter().any(|segment| segment.has_topic_symbols()),
            looks_into: segments.iter().any(|segment| segment.looks_into_topics()),
            in_tail,
            trie_count: trie_bytes().filter(|bytes| *bytes > 0).count(),
            last_trie: trie_bytes().rposition(|bytes| bytes > 0).unwrap_or_default(),
            combined: Arc::new(CombinedTrieCell::new(trie_bytes(), tail_count)),
        }
    }
}

/// The parts of a version that say something about topics.
#[derive(Clone, Copy)]
pub struct TopicSources<'v> {
    /// The number of the version.
    pub version: u64,
    /// The serial number of the version.
    pub serial: u64,
    /// Its segments.
    pub segments: &'v [Arc<Segment>],
    /// Its tail.
    pub tail: &'v Tail,
    /// The way in which it looks up topics.
    pub plan: &'v TopicPlan,
}

impl<'v> TopicSources<'v> {
    /// The pure topic queries of the tail.
    pub fn tail_patterns(self) -> impl Iterator<Item = (SubscriptionId, &'v TopicPattern)> {
        let subscriptions = self.tail.at(self.plan.in_tail);
        subscriptions.filter_map(|subscription| Some((subscription.id, subscription.query.topic_pattern()?)))
    }

    /// The number of segments for which symbols of topics are kept.
    pub fn symbol_segments(self) -> usize {
        if self.plan.has_symbols { self.segments.len() } else { 0 }
    }
}

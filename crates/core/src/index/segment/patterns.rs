//! The questions of a segment about topics: patterns in a trie, and texts that may stand in the topic.

use crate::allowance::Allowance;
use crate::error::EngineError;
use crate::index::SubscriptionId;
use crate::index::ids::{AttributeId, QueryId, SymbolPosition};
use crate::index::layout::bytes::NumberBytes;
use crate::index::layout::sections::SectionName;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::layout::symbol_table::symbol_at;
use crate::index::term::SymbolTerm;
use crate::text::Signature;
use crate::topic::TopicPattern;
use crate::topic::trie::TopicTrie;

use super::Segment;
use super::attributes::TextAttributes;
use super::index_view::IndexView;
use super::text_search::NeedleWork;

/// The symbols that a topic has in one segment.
pub type TopicSymbols = Vec<(AttributeId, SymbolInfo)>;

impl Segment {
    /// True when the topic alone may decide something.
    pub fn asks_about_topics(&self) -> bool {
        self.topic_bytes() > 0 || self.has_topic_symbols()
    }

    /// True when the topic may have symbols.
    pub fn has_topic_symbols(&self) -> bool {
        self.attributes.patterns.is_some() || self.looks_into_topics()
    }

    /// True when [`Self::find_in_topic`] may find something.
    pub fn looks_into_topics(&self) -> bool {
        !self.attributes.topic_texts.is_empty()
    }

    /// The number of bytes of its topic patterns.
    pub fn topic_bytes(&self) -> usize {
        self.store.length(SectionName::Topics)
    }

    /// Its topic patterns as a trie.
    #[inline]
    pub fn trie(&self) -> Result<TopicTrie<'_>, EngineError> {
        TopicTrie::new(self.store.whole(SectionName::Topics)?).map_err(|reason| self.store.damaged(&reason))
    }

    /// Its topic patterns, and what each of them stands for.
    pub fn patterns(&self) -> Result<SegmentPatterns<'_>, EngineError> {
        let trie = self.trie()?;
        let parts = self.store.numbers(SectionName::PatternSymbols)?;
        let pure = (trie.pattern_count() as usize).checked_sub(parts.len()).ok_or_else(|| self.contradiction())?;
        Ok(SegmentPatterns { segment: self, trie, index: IndexView::of(&self.store)?, parts, pure })
    }

    /// Append the needles and words that stand in a topic to `symbols`.
    pub fn find_in_topic(
        &self,
        topic: &str,
        work: &mut NeedleWork,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        let TextAttributes { needles, words } = self.attributes.topic_texts;
        if let Some(needles) = needles {
            let mut add = |symbol| symbols.push((needles, symbol));
            self.text_search.needles(&self.store, needles, topic, work, &mut add)?;
        }
        if let Some(words) = words {
            let mut add = |symbol| symbols.push((words.id, symbol));
            words.words(&self.store, &Signature::of(topic), &Allowance::unlimited(), &mut add)?;
        }
        Ok(())
    }
}

/// The topic patterns of a segment: first those of its pure topic queries, which have the first numbers, then those that
/// are part of a query, each a symbol.
pub struct SegmentPatterns<'a> {
    segment: &'a Segment,
    /// The trie of all patterns.
    pub trie: TopicTrie<'a>,
    index: IndexView<'a>,
    /// Positions in the table of symbols.
    parts: &'a [NumberBytes],
    pure: usize,
}

impl SegmentPatterns<'_> {
    fn symbol(&self, part: usize) -> Result<(Option<SymbolTerm<'_>>, SymbolInfo), EngineError> {
        symbol_at(&self.segment.store, SymbolPosition::from_le_bytes(self.parts[part]))
    }

    /// The pattern with this number, which is less than their count.
    pub fn pattern(&self, number: u32) -> Result<TopicPattern, EngineError> {
        let pattern = match (number as usize).checked_sub(self.pure) {
            None => match self.segment.kept(QueryId(number)) {
                Some(query) => query.topic_pattern().cloned(),
                None => self.segment.decode(QueryId(number))?.topic_pattern().cloned(),
            },
            Some(part) => match self.symbol(part)?.0 {
                Some(SymbolTerm::Pattern(dialect, text)) => Some(TopicPattern::new(text, dialect)),
                _ => None,
            },
        };
        pattern.ok_or_else(|| self.segment.contradiction())
    }

    /// Append what the patterns with these numbers stand for.
    pub fn meanings(
        &self,
        numbers: &[u32],
        version: u64,
        ids: &mut Vec<SubscriptionId>,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        let before = ids.len();
        for &number in numbers {
            self.meaning(number, version, ids, symbols)?;
            if ids.len() - before > self.segment.position_count() {
                return Err(self.segment.contradiction()); // subscriptions that belong to several queries
            }
        }
        Ok(())
    }

    /// Append what the pattern with this number stands for: ids, or a symbol.
    pub fn meaning(
        &self,
        number: u32,
        version: u64,
        ids: &mut Vec<SubscriptionId>,
        symbols: &mut TopicSymbols,
    ) -> Result<(), EngineError> {
        match (number as usize).checked_sub(self.pure) {
            None => self.segment.for_each_id(&self.index, QueryId(number), version, |id| ids.push(id)),
            Some(part) => {
                let (_, symbol) = self.symbol(part)?;
                symbols.extend(self.segment.attributes.patterns.map(|attribute| (attribute, symbol)));
                Ok(())
            }
        }
    }
}

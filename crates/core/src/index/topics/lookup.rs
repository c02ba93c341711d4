//! Looks up what a version of an engine knows of a topic.
//!
//! Queries that are one topic pattern and nothing else are in no leaf: the ids of those that a topic matches are all there
//! is to know of them. Patterns and needles that are part of other queries become symbols of the message.
//!
//! A topic that comes again is one look-up and a copy. Where all patterns are in one trie, what a new topic matches is known
//! by the state of the trie's automaton that it leads to (`automata.rs`); where hardly any topic comes again, the topics that
//! came are then not asked for a time. What is known belongs to one version: after a change it is computed again when it is
//! needed next.

use crate::error::EngineError;
use crate::index::matching::id_set::sort_and_dedup;
use crate::index::segment::patterns::TopicSymbols;

use super::matches::TopicMatches;
use super::only_trie::OnlyTrie;
use super::plan::TopicSources;
use super::scratch::{LookupScratch, TopicScratch};

impl TopicScratch {
    /// Call `work` with what a version knows of `topic`.
    ///
    /// # Errors
    /// A damaged file, and those of `work`.
    #[inline]
    pub fn with<R>(
        &mut self,
        sources: TopicSources<'_>,
        topic: &str,
        work: impl FnOnce(&TopicMatches) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let Self { cache, recurrence, lookup } = self;
        if recurrence.is_rare()
            && let Some(matches) = lookup.by_state(sources, topic)?
        {
            return work(matches);
        }
        let hash = cache.hash(topic);
        let mut is_stale = false;
        if let Some(matches) = cache.get_hashed(hash, topic) {
            recurrence.count_known();
            if matches.serial == sources.serial {
                return work(matches);
            }
            is_stale = true;
        } else {
            recurrence.count_new();
        }
        let matches = match lookup.by_state(sources, topic)? {
            Some(matches) => matches,
            None => lookup.look_up(sources, topic)?,
        };
        cache.offer_hashed(hash, topic, is_stale, matches.weight(), || matches.clone());
        work(matches)
    }
}

impl LookupScratch {
    /// The matches of `topic`, remembered for the state that it leads to, if all patterns are in one trie.
    #[inline]
    fn by_state(&mut self, sources: TopicSources<'_>, topic: &str) -> Result<Option<&TopicMatches>, EngineError> {
        let Some(only) = OnlyTrie::of(sources) else { return Ok(None) };
        let trie = only.trie()?;
        let state = self.automata.state(only.id(), &trie, topic).map_err(|reason| only.damaged(reason))?;
        let Some((automaton, state)) = state else { return Ok(None) };
        if automaton.matches(state, sources.serial).is_none() {
            self.patterns.clear();
            automaton.patterns_into(&trie, state, &mut self.patterns).map_err(|reason| only.damaged(reason))?;
            self.fresh.begin(sources.serial, sources.symbol_segments());
            only.add_to(&mut self.fresh, &self.patterns, sources.version)?;
            sort_and_dedup(&mut self.fresh.ids, 0, &mut self.spare);
            automaton.keep(state, &self.fresh);
        }
        Ok(Some(automaton.matches(state, sources.serial).unwrap_or(&self.fresh)))
    }

    /// What a version knows of `topic`, from all that it consists of.
    fn look_up(&mut self, sources: TopicSources<'_>, topic: &str) -> Result<&TopicMatches, EngineError> {
        let mut matches = std::mem::take(&mut self.fresh);
        matches.begin(sources.serial, sources.symbol_segments());
        let combined = sources.plan.combined.get(sources)?;
        if let Some((combined, _)) = combined {
            self.walk(combined.id, &combined.trie()?, topic).map_err(EngineError::Snapshot)?;
            self.patterns.iter().for_each(|pattern| combined.add_to(&mut matches, *pattern as usize));
        } else {
            let tail = sources.tail_patterns().filter(|(_, pattern)| pattern.is_match(topic));
            matches.ids.extend(tail.map(|(id, _)| id));
        }
        let is_done = |segment: &usize| combined.is_some_and(|(_, done)| done.binary_search(segment).is_ok());
        for segment in (0..sources.segments.len()).filter(|segment| !is_done(segment)) {
            self.look_up_in(sources, segment, topic, &mut matches)?;
        }
        for (segment, symbols) in sources.segments.iter().zip(&mut matches.symbols) {
            segment.find_in_topic(topic, &mut self.needles, symbols)?;
        }
        sort_and_dedup(&mut matches.ids, 0, &mut self.spare);
        self.fresh = matches;
        Ok(&self.fresh)
    }

    /// Add what the patterns of one segment that match `topic` stand for.
    fn look_up_in(
        &mut self,
        sources: TopicSources<'_>,
        index: usize,
        topic: &str,
        matches: &mut TopicMatches,
    ) -> Result<(), EngineError> {
        let segment = &sources.segments[index];
        if segment.topic_bytes() == 0 {
            return Ok(());
        }
        let patterns = segment.patterns()?;
        self.walk(segment.trie_id, &patterns.trie, topic).map_err(|reason| segment.store.damaged(&reason))?;
        let mut none = TopicSymbols::new();
        let symbols = matches.symbols.get_mut(index).unwrap_or(&mut none);
        patterns.meanings(&self.patterns, sources.version, &mut matches.ids, symbols)
    }
}

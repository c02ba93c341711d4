//! The automata of the tries that a thread walks, and what versions know of the topics that lead to their states.
//!
//! A trie lasts as long as its segment, so that its automaton outlives most changes. What a version knows of a state is
//! computed again for the first topic that leads there after a change.

use crate::index::ids::TrieId;
use crate::topic::trie::{LazyDfa, TopicTrie, TrieScratch};

use super::matches::TopicMatches;

/// Maximum number of tries with an automaton.
const AUTOMATA_MAX: usize = 4;
/// An automaton may be replaced when this many walks have come since its last.
const IDLE_WALKS: u64 = 64;
/// The maximum size of the remembered matches of one automaton, in words of 8 bytes; one state may exceed it.
const WEIGHT_MAX: usize = 1 << 19;

/// The automaton of one trie.
#[derive(Debug, Default)]
pub struct TrieAutomaton {
    trie_id: TrieId,
    last_walk: u64,
    dfa: LazyDfa,
    /// The era of the automaton's states to which `matches` belong.
    era: u64,
    /// By state.
    matches: Vec<StateMatches>,
    weight: usize,
}

/// What is remembered of a state.
#[derive(Debug, Default)]
enum StateMatches {
    /// No topic has led there.
    #[default]
    New,
    /// A topic has led there. Most states of topics that are all different are never met again.
    MetOnce,
    /// What the last version that asked knows of it.
    Known(TopicMatches),
}

/// The automata that were used last, and memory for walking.
#[derive(Debug, Default)]
pub struct Automata {
    all: Vec<TrieAutomaton>,
    walk_count: u64,
    scratch: TrieScratch,
}

impl Automata {
    /// Append the patterns of the trie `id` that match `topic`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub fn walk(
        &mut self,
        id: TrieId,
        trie: &TopicTrie<'_>,
        topic: &str,
        patterns: &mut Vec<u32>,
    ) -> Result<(), String> {
        match self.index_of(id) {
            Some(index) => self.all[index].dfa.match_into(trie, topic, &mut self.scratch, patterns),
            None => trie.match_into(topic, &mut self.scratch, patterns),
        }
    }

    /// The automaton of the trie `id`, and the state to which `topic` leads; None when the trie has to be walked.
    ///
    /// # Errors
    /// The trie is damaged.
    #[inline]
    pub fn state(
        &mut self,
        id: TrieId,
        trie: &TopicTrie<'_>,
        topic: &str,
    ) -> Result<Option<(&mut TrieAutomaton, usize)>, String> {
        let Some(index) = self.index_of(id) else { return Ok(None) };
        let automaton = &mut self.all[index];
        let Some(state) = automaton.dfa.state(trie, topic)? else { return Ok(None) };
        Ok(Some((automaton, state as usize)))
    }

    /// The index of the automaton of the trie `id`, which may be new.
    #[inline]
    fn index_of(&mut self, id: TrieId) -> Option<usize> {
        self.walk_count += 1;
        let index = match self.all.iter().position(|automaton| automaton.trie_id == id) {
            Some(index) => index,
            None => self.room()?,
        };
        let automaton = &mut self.all[index];
        (automaton.trie_id, automaton.last_walk) = (id, self.walk_count);
        Some(index)
    }

    /// The index of an empty automaton. None when all are in use: with more tries than automata, each would be thrown away
    /// before it is of use.
    #[cold]
    fn room(&mut self) -> Option<usize> {
        if self.all.len() < AUTOMATA_MAX {
            self.all.push(TrieAutomaton::default());
            return Some(self.all.len() - 1);
        }
        let (index, oldest) = self.all.iter_mut().enumerate().min_by_key(|(_, automaton)| automaton.last_walk)?;
        (self.walk_count - oldest.last_walk > IDLE_WALKS).then(|| {
            *oldest = TrieAutomaton::default();
            index
        })
    }
}

impl TrieAutomaton {
    /// The matches of `state` in version `serial`, if they are remembered.
    #[inline]
    pub fn matches(&self, state: usize, serial: u64) -> Option<&TopicMatches> {
        match self.matches.get(state) {
            Some(StateMatches::Known(matches)) if matches.serial == serial && self.era == self.dfa.era() => {
                Some(matches)
            }
            _ => None,
        }
    }

    /// Append the patterns that match a topic that leads to `state`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub fn patterns_into(&self, trie: &TopicTrie<'_>, state: usize, patterns: &mut Vec<u32>) -> Result<(), String> {
        self.dfa.patterns_into(trie, state as u32, patterns)
    }

    /// Keep a copy of what a version knows of `state`, unless this is the first topic that leads there.
    pub fn keep(&mut self, state: usize, matches: &TopicMatches) {
        if self.era != self.dfa.era() || self.weight + matches.weight() > WEIGHT_MAX {
            self.era = self.dfa.era();
            self.matches.clear();
            self.weight = 0;
        }
        if self.matches.len() <= state {
            self.weight += (state + 1 - self.matches.len()) * StateMatches::WEIGHT;
            self.matches.resize_with(state + 1, StateMatches::default);
        }
        let kept = &mut self.matches[state];
        match kept {
            StateMatches::New => *kept = StateMatches::MetOnce,
            StateMatches::MetOnce => {
                self.weight += matches.weight();
                *kept = StateMatches::Known(matches.clone());
            }
            StateMatches::Known(older) => {
                self.weight += matches.weight();
                self.weight -= older.weight();
                older.clone_from(matches);
            }
        }
    }
}

impl StateMatches {
    /// The size of a state's element in multiples of 8 bytes.
    const WEIGHT: usize = size_of::<Self>() / 8;
}

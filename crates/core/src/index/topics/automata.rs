//! The automata of the tries that a thread walks through, and what versions know of the topics that lead to their states.
//!
//! A trie lasts as long as its segment, so that its automaton outlives most changes; what a version knows of a state is
//! found anew when the first topic after a change leads there.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::topic::trie::{LazyDfa, TopicTrie, TrieScratch};

use crate::index::topics::lookup::Found;

/// So many tries have an automaton at most.
const AUTOMATA_MAX: usize = 4;
/// An automaton makes room for another when so many walks have come since its last.
const IDLE_WALKS: u64 = 64;
/// What is known of the states of one automaton takes at most this many times 8 bytes, or is known of one state.
const WEIGHT_MAX: usize = 1 << 19;

/// Tells tries apart for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrieId(u64);

impl Default for TrieId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The automaton of one trie.
#[derive(Debug, Default)]
pub struct Automaton {
    id: TrieId,
    last_walk: u64,
    dfa: LazyDfa,
    /// Of which states of the automaton the rest is.
    era: u64,
    /// By state; of version 0 where nothing is known.
    found: Vec<Found>,
    weight: usize,
}

/// Those that were used last, and room for walking.
#[derive(Debug, Default)]
pub struct Automata {
    all: Vec<Automaton>,
    walk_count: u64,
    scratch: TrieScratch,
}

impl Automata {
    /// Append the patterns of the trie called `id` that match `topic`.
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
        match self.place_of(id) {
            Some(place) => self.all[place].dfa.match_into(trie, topic, &mut self.scratch, patterns),
            None => trie.match_into(topic, &mut self.scratch, patterns),
        }
    }

    /// The automaton of the trie called `id`, and the state to which `topic` leads; None when it has to be walked.
    ///
    /// # Errors
    /// The trie is damaged.
    #[inline]
    pub fn state(
        &mut self,
        id: TrieId,
        trie: &TopicTrie<'_>,
        topic: &str,
    ) -> Result<Option<(&mut Automaton, usize)>, String> {
        let Some(place) = self.place_of(id) else { return Ok(None) };
        let automaton = &mut self.all[place];
        let Some(state) = automaton.dfa.state(trie, topic)? else { return Ok(None) };
        Ok(Some((automaton, state as usize)))
    }

    /// Where the automaton of the trie called `id` is, which may be new.
    #[inline]
    fn place_of(&mut self, id: TrieId) -> Option<usize> {
        self.walk_count += 1;
        let place = match self.all.iter().position(|automaton| automaton.id == id) {
            Some(place) => place,
            None => self.room()?,
        };
        let automaton = &mut self.all[place];
        (automaton.id, automaton.last_walk) = (id, self.walk_count);
        Some(place)
    }

    /// The place of an empty automaton. None when all are in use: with more tries than automata, each would be thrown
    /// away before it is of use.
    #[cold]
    fn room(&mut self) -> Option<usize> {
        if self.all.len() < AUTOMATA_MAX {
            self.all.push(Automaton::default());
            return Some(self.all.len() - 1);
        }
        let (place, oldest) = self.all.iter_mut().enumerate().min_by_key(|(_, automaton)| automaton.last_walk)?;
        (self.walk_count - oldest.last_walk > IDLE_WALKS).then(|| {
            *oldest = Automaton::default();
            place
        })
    }
}

impl Automaton {
    /// What version `serial` knows of `state`, if it has been kept.
    #[inline]
    pub fn found(&self, state: usize, serial: u64) -> Option<&Found> {
        self.found.get(state).filter(|found| found.serial == serial && self.era == self.dfa.era())
    }

    /// Append the patterns that match a topic that leads to `state`.
    ///
    /// # Errors
    /// The trie is damaged.
    pub fn patterns_into(&self, trie: &TopicTrie<'_>, state: usize, patterns: &mut Vec<u32>) -> Result<(), String> {
        self.dfa.patterns_into(trie, state as u32, patterns)
    }

    /// Keep what was found for `state`.
    pub fn keep(&mut self, state: usize, found: Found) {
        if self.era != self.dfa.era() || self.weight + found.weight() > WEIGHT_MAX {
            self.era = self.dfa.era();
            self.found.clear();
            self.weight = 0;
        }
        if self.found.len() <= state {
            self.weight += state + 1 - self.found.len(); // what is known of nothing weighs 1
            self.found.resize_with(state + 1, Found::default);
        }
        self.weight += found.weight();
        self.weight -= std::mem::replace(&mut self.found[state], found).weight();
    }
}

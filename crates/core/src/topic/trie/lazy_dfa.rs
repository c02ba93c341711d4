//! A deterministic automaton that remembers walks through a trie, built move by move while topics arrive.
//!
//! The nodes that are alive in a trie after some words form a *state*. Where a word leads from a state is computed once
//! and kept. A topic then takes one look-up per word, however many patterns are alive (the RabbitMQ paper, "The DFA").
//! Nothing can explode: beyond the bounds everything is discarded and begun anew, states of very many nodes are left to
//! the trie, and so are all topics for a time when few of them go where others went before.
//!
//! One automaton belongs to one trie. Damage in the trie's bytes gives an error or a wrong answer.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::layout::{
    EMPTY, ENDS_MANY, ENDS_ONE, ENDS_TWICE, FILTER, HAS_HASH, HAS_STAR, HASH, STAR, filter_bit, number,
};
use super::{TopicTrie, TrieNode, TrieScratch, split_word};

/// The maximum numbers of moves, of states, and of nodes of all states: 8 MB in total.
const MOVES_MAX: usize = 7 << 15; // what fits in a hash map's 2^18 buckets
const STATES_MAX: usize = 1 << 16;
const NODES_MAX: usize = 1 << 18;
/// The maximum number of nodes of a state: computing the moves of a larger one would take longer than walking through
/// the trie.
const NODES_OF_STATE_MAX: usize = 256;

/// The automaton is judged at this number of moves, and each time that they have doubled, by the steps since it was
/// last judged. Where fewer than 3 of them made 2 new moves, topics seldom go where others went.
const MOVES_JUDGED: usize = 1 << 10;
/// A full automaton is given up when there were fewer steps per move: computing a move costs as much as walking this
/// many steps through the trie.
const STEPS_PER_MOVE_MIN: usize = 5;
/// The number of topics that are then left to the trie, which makes the cost of computing the moves negligible for
/// each.
const LEFT_TO_TRIE: u32 = 1 << 16;

/// The key of a word that occurs in no pattern.
const UNKNOWN: u32 = EMPTY;
/// Set in the number of a state that no word leads away from.
const STAYS: u32 = 1 << 31;
/// The target of a move for which no state is made.
const NO_STATE: u32 = u32::MAX;

/// The automaton of one trie, as far as topics have needed it.
#[derive(Debug, Default)]
pub struct LazyDfa {
    states: Vec<DfaState>,
    /// The state in which every topic starts, once it exists.
    start: u32,
    /// The nodes of all states.
    nodes: Vec<u32>,
    by_nodes: HashTable<u32>,
    /// The moves, by state and key of a word.
    moves: HashMap<u64, u32>,
    hasher: DefaultHashBuilder,
    /// The number of words for which a move was looked up.
    step_count: usize,
    /// The number of these words when the automaton was last judged.
    judged_at: usize,
    left_to_trie: u32,
    is_full: bool,
    era: u64,
    next: Next,
}

/// The nodes that are alive after the words so far.
#[derive(Clone, Copy, Debug)]
struct DfaState {
    /// The start of the nodes that may be followed or at which a pattern ends: those that the last word led to, and the
    /// `#` nodes that were entered. Ascending.
    start: u32,
    /// The start of the `#` nodes that were entered, need not be followed, and at which a pattern ends. Ascending.
    done: u32,
    end: u32,
}

/// The nodes of the state that a move leads to.
#[derive(Debug, Default)]
struct Next {
    alive: Vec<u32>,
    done: Vec<u32>,
    /// The indices of the superseded `#` nodes.
    superseded: Vec<u32>,
}

impl LazyDfa {
    /// Appends the ids of all patterns of `trie` that match `topic` to `matched`, each once. `trie` must always be the
    /// same.
    ///
    /// # Errors
    /// The bytes are damaged; `matched` then holds some meaningless ids.
    pub fn match_into(
        &mut self,
        trie: &TopicTrie<'_>,
        topic: &str,
        scratch: &mut TrieScratch,
        matched: &mut Vec<u32>,
    ) -> Result<(), String> {
        match self.state(trie, topic)? {
            Some(state) => self.patterns_into(trie, state, matched),
            None => trie.match_into(topic, scratch, matched),
        }
    }

    /// The state of this era that `topic` leads to; None when the trie has to be walked through.
    ///
    /// # Errors
    /// The bytes are damaged.
    #[inline]
    pub fn state(&mut self, trie: &TopicTrie<'_>, topic: &str) -> Result<Option<u32>, String> {
        if self.left_to_trie > 0 {
            self.left_to_trie -= 1;
            return Ok(None);
        }
        let state = self.walk(trie, topic.as_bytes()).ok_or_else(damaged)?;
        Ok((state != NO_STATE).then_some(state & !STAYS))
    }

    /// The number of the era, which changes when states are forgotten.
    #[must_use]
    pub fn era(&self) -> u64 {
        self.era
    }

    fn forget(&mut self, left_to_trie: u32) {
        *self = Self { left_to_trie, era: self.era + 1, ..Self::default() };
    }

    /// The state that `topic` leads to.
    fn walk(&mut self, trie: &TopicTrie<'_>, topic: &[u8]) -> Option<u32> {
        if self.is_full {
            let is_worth_it = self.step_count >= STEPS_PER_MOVE_MIN * self.moves.len();
            self.forget(if is_worth_it { 0 } else { LEFT_TO_TRIE });
        }
        if self.states.is_empty() {
            self.next.begin(&[]);
            self.next.enter(trie, trie.root)?;
            self.start = self.state_of_next(trie)?;
        }
        let mut state = self.start;
        let mut remaining = (!topic.is_empty()).then_some(topic);
        while let Some(words) = remaining {
            if state & STAYS != 0 {
                break; // there is no state, too
            }
            let word;
            (word, remaining) = split_word(words);
            let key = trie.key(word).unwrap_or(UNKNOWN);
            self.step_count += 1;
            let from = u64::from(state) << 32 | u64::from(key);
            state = match self.moves.get(&from) {
                Some(to) => *to,
                None => self.add_move(trie, from)?,
            };
        }
        Some(state)
    }

    /// Computes where a move leads.
    #[cold]
    fn add_move(&mut self, trie: &TopicTrie<'_>, from: u64) -> Option<u32> {
        self.is_full |= self.moves.len() >= MOVES_MAX
            || self.states.len() >= STATES_MAX
            || self.nodes.len() + NODES_OF_STATE_MAX > NODES_MAX;
        if self.moves.len() >= MOVES_JUDGED && self.moves.len().is_power_of_two() {
            let step_count = self.step_count - std::mem::replace(&mut self.judged_at, self.step_count);
            let move_count = if self.moves.len() == MOVES_JUDGED { MOVES_JUDGED } else { self.moves.len() / 2 };
            if step_count * 2 < move_count * 3 {
                self.forget(LEFT_TO_TRIE);
                return Some(NO_STATE);
            }
        }
        if self.is_full {
            return Some(NO_STATE);
        }
        #[expect(clippy::cast_possible_truncation, reason = "two halves")]
        let (state, key) = (self.states[(from >> 32) as usize], from as u32);
        self.next.begin(&self.nodes[state.done as usize..state.end as usize]);
        for &slot in &self.nodes[state.start as usize..state.done as usize] {
            let (node, is_hash) = trie.node(slot)?;
            if is_hash {
                self.next.alive.push(slot);
            } else if node.info & HAS_STAR != 0 {
                self.next.enter(trie, trie.child(slot, STAR)?)?;
            }
            if key != UNKNOWN
                && node.info & filter_bit(key) != 0
                && let Some(child) = trie.child(slot, key)
            {
                self.next.enter(trie, child)?;
            }
        }
        let to = self.state_of_next(trie)?;
        self.moves.insert(from, to);
        Some(to)
    }

    /// The state of the nodes in `next`, new or known.
    fn state_of_next(&mut self, trie: &TopicTrie<'_>) -> Option<u32> {
        self.next.settle(trie)?;
        let Next { alive, done, .. } = &self.next;
        if alive.len() + done.len() > NODES_OF_STATE_MAX {
            return Some(NO_STATE);
        }
        let Self { states, nodes, by_nodes, hasher, .. } = self;
        let parts = |state: &DfaState| {
            let (start, middle, end) = (state.start as usize, state.done as usize, state.end as usize);
            (&nodes[start..middle], &nodes[middle..end])
        };
        let mark = if alive.is_empty() { STAYS } else { 0 };
        let wanted = (&**alive, &**done);
        let hash = hasher.hash_one(wanted);
        if let Some(known) = by_nodes.find(hash, |state| parts(&states[*state as usize]) == wanted) {
            return Some(*known | mark);
        }
        let state = states.len() as u32;
        by_nodes.insert_unique(hash, state, |state| hasher.hash_one(parts(&states[*state as usize])));
        let start = nodes.len();
        nodes.extend(alive.iter().chain(done));
        let [start, done, end] = [start, start + alive.len(), nodes.len()].map(|index| index as u32);
        states.push(DfaState { start, done, end });
        Some(state | mark)
    }

    /// Appends the ids of the patterns that match a topic which leads to `state`, each once.
    ///
    /// # Errors
    /// The bytes are damaged; `matched` then holds some meaningless ids.
    pub fn patterns_into(&self, trie: &TopicTrie<'_>, state: u32, matched: &mut Vec<u32>) -> Result<(), String> {
        self.report(trie, state, matched).ok_or_else(damaged)
    }

    fn report(&self, trie: &TopicTrie<'_>, state: u32, matched: &mut Vec<u32>) -> Option<()> {
        let DfaState { start, end, .. } = self.states[state as usize];
        let before = matched.len();
        let mut may_be_twice = false;
        for &slot in &self.nodes[start as usize..end as usize] {
            let (TrieNode { info, mut ends, .. }, is_hash) = trie.node(slot)?;
            if is_hash {
                ends = number(trie.hashes.get(ends as usize)?, 0);
            }
            may_be_twice |= info & ENDS_TWICE != 0;
            match info & (ENDS_ONE | ENDS_MANY) {
                0 => {}
                ENDS_ONE => matched.push(ends),
                _ => matched.extend(trie.list(ends)?),
            }
            // No pattern ends at more than two nodes; more matches occur only where lists overlap that should not.
            if matched.len() - before > 2 * trie.pattern_count as usize {
                return None;
            }
        }
        if may_be_twice {
            let mut new_matches = matched.split_off(before);
            new_matches.sort_unstable();
            new_matches.dedup();
            matched.append(&mut new_matches);
        }
        let new_matches = &matched[before..];
        let is_possible =
            new_matches.len() <= trie.pattern_count as usize && new_matches.iter().all(|id| *id < trie.pattern_count);
        is_possible.then_some(())
    }
}

fn damaged() -> String {
    "the topic trie is damaged".to_owned()
}

impl Next {
    fn begin(&mut self, done: &[u32]) {
        self.alive.clear();
        self.done.clear();
        self.done.extend_from_slice(done);
        self.superseded.clear();
    }

    /// Adds a node that was reached.
    fn enter(&mut self, trie: &TopicTrie<'_>, node: TrieNode) -> Option<()> {
        if node.info & HAS_HASH != 0 {
            let hash = trie.child(node.slot, HASH)?;
            if !self.done.contains(&hash.slot) {
                self.superseded.push(number(trie.hashes.get(hash.ends as usize)?, 1));
                self.alive.push(hash.slot);
            }
        }
        if node.info & (HAS_STAR | FILTER | ENDS_ONE | ENDS_MANY) != 0 {
            self.alive.push(node.slot);
        }
        Some(())
    }

    /// Sorts the nodes, each once, and sets apart the `#` nodes that need not be followed, if a pattern ends there.
    fn settle(&mut self, trie: &TopicTrie<'_>) -> Option<()> {
        let Self { alive, done, superseded } = self;
        alive.sort_unstable();
        alive.dedup();
        superseded.sort_unstable();
        let mut kept = 0;
        for index in 0..alive.len() {
            let slot = alive[index];
            let (node, is_hash) = trie.node(slot)?;
            let is_followed = !is_hash || node.info & FILTER != 0 && superseded.binary_search(&node.ends).is_err();
            if is_followed {
                alive[kept] = slot;
                kept += 1;
            } else if node.info & (ENDS_ONE | ENDS_MANY) != 0 {
                done.push(slot);
            }
        }
        alive.truncate(kept);
        done.sort_unstable();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{TopicDialect, TopicPattern};
    use super::super::build;
    use super::*;

    fn patterns(texts: impl Iterator<Item = String>) -> Vec<TopicPattern> {
        texts.map(|text| TopicPattern::new(&text, TopicDialect::Amqp)).collect()
    }

    /// Match `topic` by the automaton, compare with the definition, and look at the bounds.
    fn check(dfa: &mut LazyDfa, trie: &TopicTrie<'_>, patterns: &[TopicPattern], topic: &str) {
        let mut matched = Vec::new();
        dfa.match_into(trie, topic, &mut TrieScratch::default(), &mut matched).expect("whole");
        matched.sort_unstable();
        let fitting = (0..).zip(patterns).filter(|(_, pattern)| pattern.is_match(topic));
        assert_eq!(matched, fitting.map(|(id, _)| id).collect::<Vec<u32>>(), "{topic}");
        assert!(dfa.states.len() <= STATES_MAX && dfa.nodes.len() <= NODES_MAX && dfa.moves.len() <= MOVES_MAX);
    }

    /// Words of a few letters, by a linear congruential generator.
    fn topic(random: &mut u64, words: usize, letters: u64) -> String {
        let mut word = || {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("w{}", (*random >> 33) % letters)
        };
        (0..words).map(|_| word()).collect::<Vec<_>>().join(".")
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes thousands of topics to reach the automaton's bounds")]
    fn topics_that_go_where_others_went_need_no_more_than_the_states_that_there_are() {
        let patterns = patterns((0..100).map(|n| format!("w{}.*.#.w{}", n % 10, n / 10)));
        let all: Vec<_> = patterns.iter().collect();
        let bytes = build(&all);
        let trie = TopicTrie::new(&bytes).expect("whole");
        let (mut dfa, mut random) = (LazyDfa::default(), 1);
        (0..3_000).for_each(|_| check(&mut dfa, &trie, &patterns, &topic(&mut random, 4, 12)));
        let count = dfa.states.len();
        (0..1_000).for_each(|_| check(&mut dfa, &trie, &patterns, &topic(&mut random, 4, 12)));
        assert_eq!((dfa.states.len(), dfa.era, dfa.left_to_trie), (count, 0, 0));
        assert!(count > 100 && dfa.moves.len() <= count * 13, "{count} states, {} moves", dfa.moves.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes thousands of topics to reach the automaton's bounds")]
    fn more_states_than_there_may_be_are_forgotten_and_then_left_to_the_trie() {
        // Any set of 18 words is a state of its own.
        let patterns = patterns((0..18).map(|n| format!("#.w{n}.#.z")));
        let bytes = build(&patterns.iter().collect::<Vec<_>>());
        let trie = TopicTrie::new(&bytes).expect("whole");
        let (mut dfa, mut random, mut left_to_trie) = (LazyDfa::default(), 1, 0);
        for _ in 0..12_000 {
            check(&mut dfa, &trie, &patterns, &topic(&mut random, 12, 18));
            left_to_trie += usize::from(dfa.left_to_trie > 0);
        }
        assert!(dfa.era > 0 && left_to_trie > 0, "era {} {left_to_trie}", dfa.era);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes thousands of topics to reach the automaton's bounds")]
    fn topics_that_never_go_where_others_went_are_left_to_the_trie() {
        let patterns = patterns((0..2_000).map(|n| format!("first{n}.*.last")));
        let bytes = build(&patterns.iter().collect::<Vec<_>>());
        let trie = TopicTrie::new(&bytes).expect("whole");
        let mut dfa = LazyDfa::default();
        (0..1_000).for_each(|n| check(&mut dfa, &trie, &patterns, &format!("first{n}.any.last")));
        assert!(dfa.left_to_trie > 0 && dfa.states.is_empty() && dfa.moves.capacity() == 0);
        dfa.left_to_trie = 1;
        (0..3).for_each(|_| check(&mut dfa, &trie, &patterns, "first7.any.last"));
        assert!(!dfa.states.is_empty(), "after a time it tries again");
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn states_of_very_many_nodes_are_left_to_the_trie() {
        let count = NODES_OF_STATE_MAX + 50;
        let patterns = patterns((0..count).map(|n| format!("#.w{n}.#.z")));
        let bytes = build(&patterns.iter().collect::<Vec<_>>());
        let trie = TopicTrie::new(&bytes).expect("whole");
        let mut dfa = LazyDfa::default();
        let all: Vec<_> = (0..count).map(|n| format!("w{n}")).collect();
        (0..3).for_each(|_| check(&mut dfa, &trie, &patterns, &(all.join(".") + ".z")));
        assert!(dfa.states.len() <= NODES_OF_STATE_MAX + 1);
    }
}

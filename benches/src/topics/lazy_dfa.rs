//! The lazy DFA: a non-deterministic automaton of all patterns, made deterministic on the fly, state by state.
//!
//! The NFA is the trie, in which `#` is a node that is reached without a word and stays where it is with any word;
//! tails are not merged, for it matters which pattern matched. A DFA state is the set of nodes that a topic may be at.
//! Where a word leads is computed when it is first asked for, and kept: one look-up a word then, whatever `#` there is.
//!
//! "It occupies significantly more memory than the trie"; "there is a significant cost for adding new bindings, since
//! the entire DFA has to be dropped and rebuilt". The paper sets no bound; here it is also dropped at [`STATES_MAX`].
//!
//! Source: the RabbitMQ paper, "The DFA".

use std::sync::Arc;

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

use super::TopicMatcher;
use super::trie::WordTrieNodes;
use super::words::{Vocabulary, WordNumber};

/// How many states are kept at most.
pub const STATES_MAX: usize = 100_000;

/// The nodes of a state, ascending, each once.
type Members = Arc<[u32]>;

#[derive(Debug)]
struct WordDfaState {
    members: Members,
    numbers: Box<[u32]>,
    moves: HashMap<u32, u32>,
}

/// A trie, and the part of its DFA that topics have asked for.
#[derive(Debug, Default)]
pub struct WordDfa {
    vocabulary: Vocabulary,
    nodes: WordTrieNodes,
    /// By node: true where a `#` leads.
    is_hash: Vec<bool>,
    count: u32,
    states: Vec<WordDfaState>,
    by_members: HashMap<Members, u32>,
    topic: Vec<u32>,
}

impl TopicMatcher for WordDfa {
    const NAME: &'static str = "lazy DFA";
    const HASH: &'static str = "a state that stays where it is";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        self.drop_states();
        let words = self.vocabulary.read_pattern(pattern, dialect);
        let path = self.nodes.insert(&words, self.count);
        self.is_hash.resize(self.nodes.0.len(), false);
        for (word, node) in words.iter().zip(path) {
            self.is_hash[node as usize] = *word == WordNumber::Hash;
        }
        self.count += 1;
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        let mut words = std::mem::take(&mut self.topic);
        self.vocabulary.read_topic(topic, &mut words);
        if self.states.len() + words.len() >= STATES_MAX {
            self.drop_states();
        }
        let mut at = if self.states.is_empty() { self.state(vec![0]) } else { 0 };
        for word in &words {
            at = match self.states[at as usize].moves.get(word) {
                Some(next) => *next,
                None => self.build_move(at, *word),
            };
        }
        matched.extend_from_slice(&self.states[at as usize].numbers);
        self.topic = words;
    }
}

impl WordDfa {
    fn drop_states(&mut self) {
        self.states.clear();
        self.by_members.clear();
    }

    /// The state to which `word` leads; a `#` stays at its state.
    fn build_move(&mut self, from: u32, word: u32) -> u32 {
        let mut reached = Vec::new();
        for member in self.states[from as usize].members.iter() {
            let node = &self.nodes.0[*member as usize];
            reached.extend(node.children.get(&word));
            reached.extend(node.star);
            if self.is_hash.get(*member as usize) == Some(&true) {
                reached.push(*member);
            }
        }
        let to = self.state(reached);
        self.states[from as usize].moves.insert(word, to);
        to
    }

    /// The state of the nodes `reached`, with those that a `#` adds without a word.
    fn state(&mut self, mut reached: Vec<u32>) -> u32 {
        let mut index = 0;
        while let Some(node) = reached.get(index) {
            reached.extend(self.nodes.0[*node as usize].hash);
            index += 1;
        }
        reached.sort_unstable();
        reached.dedup();
        if let Some(known) = self.by_members.get(&reached[..]) {
            return *known;
        }
        let members: Members = reached.into();
        let numbers = members.iter().flat_map(|node| &self.nodes.0[*node as usize].numbers).copied().collect();
        let state = self.states.len() as u32;
        self.by_members.insert(members.clone(), state);
        self.states.push(WordDfaState { members, numbers, moves: HashMap::new() });
        state
    }
}

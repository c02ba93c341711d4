//! The trie: the words of all patterns in one tree, walked from the root by the words of the topic.
//!
//! At each node the walk goes deeper through the topic's word, through `*`, and through `#` with every tail of what is
//! left of the topic. "Good size complexity; adding a new binding is cheap; and it is the easiest to implement."
//!
//! `#` makes it backtrack: a pattern with many of them costs time exponential in their number, and is found many times
//! over, so that what has been found is remembered.
//!
//! Source: the RabbitMQ paper, "The trie".

use hashbrown::HashMap;
use tamis_core::topic::TopicDialect;

use super::TopicMatcher;
use super::words::{Vocabulary, WordNumber};
use crate::stamps::Stamps;

/// A place in the trie: where each word leads, and the subscriptions whose patterns end here.
#[derive(Debug, Default)]
pub(super) struct WordTrieNode {
    pub(super) children: HashMap<u32, u32>,
    pub(super) star: Option<u32>,
    pub(super) hash: Option<u32>,
    pub(super) numbers: Vec<u32>,
}

/// Nodes by number; the root is the first.
#[derive(Debug)]
pub(super) struct WordTrieNodes(pub(super) Vec<WordTrieNode>);

impl Default for WordTrieNodes {
    fn default() -> Self {
        Self(vec![WordTrieNode::default()])
    }
}

impl WordTrieNodes {
    /// Make the path of `pattern` and put `number` at its end. Returns the nodes on it, the root left out.
    pub(super) fn insert(&mut self, pattern: &[WordNumber], number: u32) -> Vec<u32> {
        let (mut at, mut path) = (0, Vec::with_capacity(pattern.len()));
        for word in pattern {
            let next = self.0.len() as u32;
            let node = &mut self.0[at as usize];
            at = match word {
                WordNumber::Literal(word) => *node.children.entry(*word).or_insert(next),
                WordNumber::Star => *node.star.get_or_insert(next),
                WordNumber::Hash => *node.hash.get_or_insert(next),
            };
            if at == next {
                self.0.push(WordTrieNode::default());
            }
            path.push(at);
        }
        self.0[at as usize].numbers.push(number);
        path
    }
}

/// A trie of patterns.
#[derive(Debug, Default)]
pub struct WordTrie {
    vocabulary: Vocabulary,
    nodes: WordTrieNodes,
    count: u32,
    topic: Vec<u32>,
    seen: Stamps,
}

impl TopicMatcher for WordTrie {
    const NAME: &'static str = "trie, backtracking";
    const HASH: &'static str = "every tail of the topic is tried";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        let words = self.vocabulary.read_pattern(pattern, dialect);
        self.nodes.insert(&words, self.count);
        self.count += 1;
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        self.vocabulary.read_topic(topic, &mut self.topic);
        self.seen.begin(self.count as usize);
        let Self { nodes, topic, seen, .. } = self;
        walk(&nodes.0, 0, topic, &mut |number| {
            if seen.insert(number) {
                matched.push(number);
            }
        });
    }
}

fn walk(nodes: &[WordTrieNode], at: u32, topic: &[u32], found: &mut impl FnMut(u32)) {
    let node = &nodes[at as usize];
    if let Some(hash) = node.hash {
        for taken in 0..=topic.len() {
            walk(nodes, hash, &topic[taken..], found);
        }
    }
    let Some((word, rest)) = topic.split_first() else {
        node.numbers.iter().for_each(|number| found(*number));
        return;
    };
    for child in [node.children.get(word).copied(), node.star].into_iter().flatten() {
        walk(nodes, child, rest, found);
    }
}

//! A trie of all topic patterns in one flat buffer, searched without backtracking.
//!
//! A set of nodes is alive after each word of a topic. The next word leads from each node to its child for that word
//! and its child for `*`. A `#` is a node that is entered without a word and then stays alive, until another one is
//! entered to which all its paths lead (in `#.a.#.b` the first `#` need not try again). Nothing is visited twice, so a
//! topic costs at most its words times the nodes alive, whatever the patterns (`#.a.#.a.#.z`); without `#` it is
//! 2^words nodes or all nodes, whichever is less. `build.rs` translates every dialect to AMQP's rules.
//!
//! The buffer (`layout.rs`) can be mapped from a file, at any address. Everything is checked when it is used: a damaged
//! buffer gives an error or a wrong answer, never a panic, and never takes more time than an intact one of its size.

mod build;
mod layout;
mod lazy_dfa;
#[cfg(test)]
mod tests;

pub use build::build;
use layout::{
    ENDS_MANY, ENDS_ONE, ENDS_TWICE, FILTER, HAS_HASH, HAS_STAR, HASH, HASH_BYTES, HEADER_BYTES, MAGIC, NODE_BYTES,
    NONE, ROOT, STAR, WORD_BYTES, edge_hash, filter_bit, find, number, word_hash,
};
pub use lazy_dfa::LazyDfa;

/// A view of the bytes that [`build`] made.
#[derive(Clone, Copy, Debug)]
pub struct TopicTrie<'a> {
    pattern_count: u32,
    seed: u64,
    root: TrieNode,
    word_probe_max: u32,
    node_probe_max: u32,
    nodes: &'a [[u8; NODE_BYTES]],
    words: &'a [[u8; WORD_BYTES]],
    hashes: &'a [[u8; HASH_BYTES]],
    lists: &'a [[u8; 4]],
    texts: &'a [u8],
}

/// The memory that a match needs besides the trie, reused so that a warm match allocates nothing.
///
/// It grows to the maximum number of nodes that were ever alive at once, and 4 bytes for each `#` node of the largest
/// trie. One scratch serves any number of tries, one after another.
#[derive(Debug, Default)]
pub struct TrieScratch {
    /// The nodes that are alive before the current word and have edges to follow.
    alive: Vec<Edges>,
    /// The nodes that are alive after the current word and have edges to follow.
    next: Vec<Edges>,
    /// The `#` nodes that were entered and have edges: alive for all later words.
    open: Vec<OpenNode>,
    /// For each `#` node, the number of the last match that entered it; one more where it was superseded since.
    entered: Vec<u32>,
    /// The number of this match, which is even.
    match_number: u32,
    /// The ids that may match more than once.
    twice: Vec<u32>,
}

/// A node's record.
#[derive(Clone, Copy, Debug)]
struct TrieNode {
    slot: u32,
    info: u32,
    ends: u32,
}

/// A node that is alive.
#[derive(Clone, Copy, Debug)]
struct Edges {
    slot: u32,
    info: u32,
}

/// A `#` node that is alive.
#[derive(Clone, Copy, Debug)]
struct OpenNode {
    edges: Edges,
    /// The index among the `#` nodes.
    hash: u32,
}

impl<'a> TopicTrie<'a> {
    /// Reads the header. Cost: constant; a match checks the other bytes where it uses them.
    ///
    /// # Errors
    /// The bytes are not those of a trie, or not all of them.
    pub fn new(bytes: &'a [u8]) -> Result<Self, String> {
        Self::read(bytes).ok_or_else(|| "the topic trie's header contradicts itself".to_owned())
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, mut remaining) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let trie = Self {
            pattern_count: number(header, 1),
            seed: u64::from_le_bytes(*header.last_chunk()?),
            root: TrieNode { slot: ROOT, info: number(header, 9), ends: number(header, 10) },
            word_probe_max: number(header, 7),
            node_probe_max: number(header, 8),
            nodes: section(&mut remaining, number(header, 3))?,
            words: section(&mut remaining, number(header, 2))?,
            hashes: section(&mut remaining, number(header, 4))?,
            lists: section(&mut remaining, number(header, 5))?,
            texts: remaining,
        };
        let is_whole = remaining.len() as u64 == u64::from(number(header, 6));
        let is_bounded =
            trie.word_probe_max as usize <= trie.words.len() && trie.node_probe_max as usize <= trie.nodes.len();
        (header.starts_with(&MAGIC) && is_whole && is_bounded).then_some(trie)
    }

    /// The number of patterns that it was built from.
    #[must_use]
    pub fn pattern_count(&self) -> u32 {
        self.pattern_count
    }

    /// Appends the ids of all patterns that match `topic` to `matched`, each once, in any order.
    ///
    /// # Errors
    /// The bytes are damaged; `matched` then holds some meaningless ids.
    pub fn match_into(&self, topic: &str, scratch: &mut TrieScratch, matched: &mut Vec<u32>) -> Result<(), String> {
        scratch.begin(self.hashes.len());
        let matched_before = matched.len();
        // No pattern ends at more than two nodes.
        let found_max = matched_before + 2 * self.pattern_count as usize;
        let mut walk = Walk { trie: self, scratch, matched, found_max };
        walk.run(topic.as_bytes()).ok_or_else(|| "the topic trie is damaged".to_owned())?;
        // Only a damaged trie yields more ids than there are patterns, or other ids.
        let new_matches = &matched[matched_before..];
        if new_matches.len() > self.pattern_count as usize || new_matches.iter().any(|id| *id >= self.pattern_count) {
            return Err("the topic trie is damaged: it names a pattern that it does not have".to_owned());
        }
        Ok(())
    }

    /// The key of `word`, if a pattern has it.
    #[inline]
    fn key(&self, word: &[u8]) -> Option<u32> {
        let hash = word_hash(self.seed, word);
        let is_it = |record: &[u8; WORD_BYTES]| number(record, 0) == hash as u32 && self.text(record) == Some(word);
        Some(find(self.words, (hash >> 32) as u32, self.word_probe_max, is_it)?.0)
    }

    #[inline]
    fn text(&self, record: &[u8; WORD_BYTES]) -> Option<&'a [u8]> {
        self.texts.get(number(record, 1) as usize..)?.get(..number(record, 2) as usize)
    }

    /// The node in `slot`, and whether it is a `#` node.
    #[inline]
    fn node(&self, slot: u32) -> Option<(TrieNode, bool)> {
        if slot == ROOT {
            return Some((self.root, false));
        }
        let record = self.nodes.get(slot as usize)?;
        Some((TrieNode { slot, info: number(record, 2), ends: number(record, 3) }, number(record, 1) == HASH))
    }

    /// The ids in the list at `start`.
    #[inline]
    fn list(&self, start: u32) -> Option<impl Iterator<Item = u32>> {
        let (count, ids) = self.lists.get(start as usize..)?.split_first()?;
        let ids = ids.get(..number(count, 0) as usize)?;
        Some(ids.iter().map(|id| u32::from_le_bytes(*id)))
    }

    #[inline]
    fn child(&self, parent: u32, key: u32) -> Option<TrieNode> {
        let is_it = |record: &[u8; NODE_BYTES]| number(record, 0) == parent && number(record, 1) == key;
        let (slot, record) = find(self.nodes, edge_hash(self.seed, parent, key), self.node_probe_max, is_it)?;
        Some(TrieNode { slot, info: number(record, 2), ends: number(record, 3) })
    }
}

/// Splits `words` into the first word, and the others if there are any.
#[inline]
fn split_word(words: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'.', words) {
        Some(dot) => (&words[..dot], Some(&words[dot + 1..])),
        None => (words, None),
    }
}

/// The next `count` records of `remaining`.
fn section<'a, const N: usize>(remaining: &mut &'a [u8], count: u32) -> Option<&'a [[u8; N]]> {
    let (section, after) = remaining.split_at_checked((count as usize).checked_mul(N)?)?;
    *remaining = after;
    Some(section.as_chunks().0)
}

impl TrieScratch {
    fn begin(&mut self, hash_count: usize) {
        self.alive.clear();
        self.next.clear();
        self.open.clear();
        self.twice.clear();
        if self.entered.len() < hash_count {
            self.entered.resize(hash_count, 0);
        }
        self.match_number = self.match_number.wrapping_add(2);
        if self.match_number == 0 {
            self.entered.fill(0);
            self.match_number = 2;
        }
    }
}

/// One match. Its functions return None when the trie is damaged.
struct Walk<'w, 'a> {
    trie: &'w TopicTrie<'a>,
    scratch: &'w mut TrieScratch,
    matched: &'w mut Vec<u32>,
    /// The maximum number of matches; more occur only where lists overlap that should not.
    found_max: usize,
}

impl Walk<'_, '_> {
    fn run(&mut self, topic: &[u8]) -> Option<()> {
        self.enter(self.trie.root, topic.is_empty())?;
        std::mem::swap(&mut self.scratch.alive, &mut self.scratch.next);
        let mut remaining = (!topic.is_empty()).then_some(topic);
        while let Some(words) = remaining {
            if self.scratch.alive.is_empty() && self.scratch.open.is_empty() {
                break;
            }
            let word;
            (word, remaining) = split_word(words);
            self.step(word, remaining.is_none())?;
        }
        let twice = &mut self.scratch.twice;
        twice.sort_unstable();
        twice.dedup();
        self.matched.append(twice);
        Some(())
    }

    /// Follows `word` from all nodes that are alive.
    ///
    /// A node has one parent, and a `#` node is entered once, so `next` has no node twice.
    fn step(&mut self, word: &[u8], is_last: bool) -> Option<()> {
        let key = self.trie.key(word);
        let bit = key.map_or(0, filter_bit);
        let open_count = self.scratch.open.len();
        for index in 0..self.scratch.alive.len() {
            let Edges { slot, info } = self.scratch.alive[index];
            if info & HAS_STAR != 0 {
                let child = self.trie.child(slot, STAR)?;
                self.enter(child, is_last)?;
            }
            self.follow(slot, info & bit, key, is_last)?;
        }
        let mut kept = 0;
        for index in 0..open_count {
            let open = self.scratch.open[index];
            if self.scratch.entered[open.hash as usize] == self.scratch.match_number {
                self.scratch.open[kept] = open;
                kept += 1;
                self.follow(open.edges.slot, open.edges.info & bit, key, is_last)?;
            }
        }
        self.scratch.open.drain(kept..open_count);
        self.scratch.alive.clear();
        std::mem::swap(&mut self.scratch.alive, &mut self.scratch.next);
        Some(())
    }

    /// Follows the edge for a word, unless the filter rules it out.
    #[inline]
    fn follow(&mut self, slot: u32, filtered: u32, key: Option<u32>, is_last: bool) -> Option<()> {
        if filtered != 0
            && let Some(key) = key
            && let Some(child) = self.trie.child(slot, key)
        {
            self.enter(child, is_last)?;
        }
        Some(())
    }

    /// Adds a node that was reached; with the last word, its patterns match.
    #[inline]
    fn enter(&mut self, node: TrieNode, is_last: bool) -> Option<()> {
        if node.info & HAS_HASH != 0 {
            self.enter_hash(node.slot, is_last)?;
        }
        if is_last {
            self.report(node.info, node.ends)
        } else {
            if node.info & (HAS_STAR | FILTER) != 0 {
                self.scratch.next.push(Edges { slot: node.slot, info: node.info });
            }
            Some(())
        }
    }

    /// Enters the `#` below a node. Its patterns match whatever follows, so they are reported at once and only once,
    /// and the node is kept for later words only where the pattern goes on.
    fn enter_hash(&mut self, parent: u32, is_last: bool) -> Option<()> {
        let hash = self.trie.child(parent, HASH)?;
        let record = self.trie.hashes.get(hash.ends as usize)?;
        let (ends, superseded) = (number(record, 0), number(record, 1));
        let TrieScratch { entered, match_number, open, .. } = &mut *self.scratch;
        if entered[hash.ends as usize] >= *match_number {
            return Some(());
        }
        entered[hash.ends as usize] = *match_number;
        if superseded != NONE {
            *entered.get_mut(superseded as usize)? = *match_number + 1;
        }
        if !is_last && hash.info & FILTER != 0 {
            open.push(OpenNode { edges: Edges { slot: hash.slot, info: hash.info }, hash: hash.ends });
        }
        self.report(hash.info, ends)
    }

    #[inline]
    fn report(&mut self, info: u32, ends: u32) -> Option<()> {
        if info & (ENDS_ONE | ENDS_MANY) == 0 {
            return Some(());
        }
        let matches = if info & ENDS_TWICE == 0 { &mut *self.matched } else { &mut self.scratch.twice };
        if info & ENDS_ONE != 0 {
            matches.push(ends);
            return Some(());
        }
        matches.extend(self.trie.list(ends)?);
        (matches.len() <= self.found_max).then_some(())
    }
}

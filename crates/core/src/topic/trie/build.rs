//! Builds the bytes of a topic trie from patterns: first a draft with hash maps, then the two tables.

use hashbrown::HashMap;

use super::super::{TopicDialect, TopicPattern, words};
use super::layout::{
    EMPTY, ENDS_MANY, ENDS_ONE, ENDS_TWICE, HAS_HASH, HAS_STAR, HASH, HEADER_BYTES, MAGIC, NODE_BYTES, NONE, ROOT,
    STAR, WORD_BYTES, edge_hash, filter_bit, number, scale, word_hash,
};

/// The denominator of the maximum load of a table.
const SLOTS_OF: usize = 10;
/// The numerator of the maximum load: with a higher load searches get long, with a lower one the memory grows.
const SLOTS_TAKEN: usize = 7;

/// Builds the trie of `patterns`, as bytes for [`super::TopicTrie`]. The id of a pattern is its index in the slice.
///
/// Makes a trie; equal patterns in the same order give the same bytes. Cost: linear in the words of all patterns.
///
/// # Panics
/// More than 2^32 - 4 patterns, nodes or words, or 4 GiB of different words.
#[must_use]
pub fn build(patterns: &[&TopicPattern]) -> Vec<u8> {
    let mut draft = Draft::default();
    let mut path = Vec::new();
    for (id, pattern) in patterns.iter().enumerate() {
        draft.insert(count(id), pattern, &mut path);
    }
    // The seed depends on all patterns, so that nobody can choose words that collide: each choice changes the position
    // of all words.
    let seed = patterns.iter().fold(0, |seed, pattern| word_hash(seed, pattern.text.as_bytes()));
    draft.encode(count(patterns.len()), seed)
}

/// A number of items, which must fit the layout.
fn count(number: usize) -> u32 {
    u32::try_from(number).ok().filter(|number| *number < EMPTY).expect("a topic trie holds less than 2^32 of anything")
}

#[derive(Default)]
struct Draft<'a> {
    keys: HashMap<&'a str, u32>,
    words: Vec<&'a str>,
    edges: HashMap<(u32, u32), u32>,
    /// The nodes in the order of creation, parents before children.
    nodes: Vec<(u32, u32)>,
    ends: Vec<End>,
}

/// A pattern ends at a node.
#[derive(Clone, Copy)]
struct End {
    /// An index into the draft's nodes; [`ROOT`] is the last of all.
    node: u32,
    id: u32,
    is_twice: bool,
}

impl<'a> Draft<'a> {
    /// Files one pattern of any dialect as one path, or as two if its final `*` is optional.
    fn insert(&mut self, id: u32, pattern: &'a TopicPattern, path: &mut Vec<u32>) {
        let has_more_words = pattern.dialect != TopicDialect::Amqp;
        self.normalise(words(&pattern.text), has_more_words, path);
        let node = self.node(path);
        let Some(shorter) = pattern.without_optional_star() else {
            self.ends.push(End { node, id, is_twice: false });
            return;
        };
        self.normalise(shorter, has_more_words, path);
        // Without a `#` the two paths match names of different lengths.
        let is_twice = path.contains(&HASH);
        let shorter = self.node(path);
        self.ends.extend([node, shorter].map(|node| End { node, id, is_twice }));
    }

    /// Writes the keys of `words` to `path`, each `*` as exactly one word and each `#` as zero or more.
    ///
    /// Of adjacent `*` and `#` only the number of `*` matters, and whether there is a `#`. The `#` moves to their end:
    /// then each `#` is followed by a word or by nothing, and the trie has the fewest nodes.
    fn normalise(&mut self, words: impl Iterator<Item = &'a str>, hash_has_a_word: bool, path: &mut Vec<u32>) {
        path.clear();
        let mut is_hash_due = false;
        for word in words {
            match word {
                "*" => path.push(STAR),
                "#" => {
                    path.extend(hash_has_a_word.then_some(STAR));
                    is_hash_due = true;
                }
                word => {
                    path.extend(std::mem::take(&mut is_hash_due).then_some(HASH));
                    path.push(self.key(word));
                }
            }
        }
        path.extend(is_hash_due.then_some(HASH));
    }

    fn key(&mut self, word: &'a str) -> u32 {
        *self.keys.entry(word).or_insert_with(|| {
            self.words.push(word);
            count(self.words.len() - 1)
        })
    }

    fn node(&mut self, path: &[u32]) -> u32 {
        path.iter().fold(ROOT, |parent, key| {
            *self.edges.entry((parent, *key)).or_insert_with(|| {
                self.nodes.push((parent, *key));
                count(self.nodes.len() - 1)
            })
        })
    }

    fn encode(mut self, pattern_count: u32, seed: u64) -> Vec<u8> {
        self.edges = HashMap::new();
        let (words, keys, texts) = place_words(&self.words, seed);
        let (mut nodes, slots, mut root) = place_nodes(&self.nodes, &keys, seed);
        self.ends.sort_by_key(|end| end.node);
        let mut hashes = place_hashes(&self.nodes, &self.ends, &slots, &mut nodes);
        let lists = place_ends(&self.ends, &slots, &mut nodes, &mut root, &mut hashes);

        let counts = [words.slots.len(), nodes.slots.len(), hashes.len(), lists.len(), texts.len()].map(count);
        let section_bytes = [
            nodes.slots.as_flattened().len(),
            words.slots.as_flattened().len(),
            8 * hashes.len(),
            4 * lists.len(),
            texts.len(),
        ];
        let mut bytes = Vec::with_capacity(HEADER_BYTES + section_bytes.iter().sum::<usize>());
        bytes.extend(MAGIC);
        let mut put = |numbers: &[u32]| bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        put(&[pattern_count]);
        put(&counts);
        put(&[words.probe_max, nodes.probe_max, root.0, root.1, 0]);
        bytes.extend(seed.to_le_bytes());
        bytes.extend(nodes.slots.as_flattened());
        bytes.extend(words.slots.as_flattened());
        bytes.extend(hashes.iter().flatten().chain(&lists).flat_map(|number| number.to_le_bytes()));
        bytes.extend(texts);
        bytes
    }
}

/// The table of words, the slot of each word, and their texts.
fn place_words(words: &[&str], seed: u64) -> (ProbeTable<WORD_BYTES>, Vec<u32>, Vec<u8>) {
    let mut table = ProbeTable::new(words.len());
    let mut texts = Vec::new();
    let slots = words.iter().map(|word| {
        let hash = word_hash(seed, word.as_bytes());
        let record = [hash as u32, count(texts.len()), count(word.len())];
        texts.extend(word.as_bytes());
        table.insert((hash >> 32) as u32, &record)
    });
    let slots = slots.collect();
    (table, slots, texts)
}

/// The table of nodes with their edges but without ends, the slot of each node, and the root's info and ends.
fn place_nodes(nodes: &[(u32, u32)], keys: &[u32], seed: u64) -> (ProbeTable<NODE_BYTES>, Vec<u32>, (u32, u32)) {
    let mut table = ProbeTable::new(nodes.len());
    let mut slots: Vec<u32> = Vec::with_capacity(nodes.len());
    let mut root_info = 0;
    for (parent, key) in nodes {
        let (key, mark) = match *key {
            STAR => (STAR, HAS_STAR),
            HASH => (HASH, HAS_HASH),
            word => (keys[word as usize], filter_bit(keys[word as usize])),
        };
        let parent = if *parent == ROOT { ROOT } else { slots[*parent as usize] };
        slots.push(table.insert(edge_hash(seed, parent, key), &[parent, key, 0, 0]));
        match parent {
            ROOT => root_info |= mark,
            slot => table.add(slot, 2, mark),
        }
    }
    (table, slots, (root_info, 0))
}

/// Gives each `#` node its index in the list that is returned: without ends so far, and with the index of the one it
/// supersedes.
fn place_hashes(
    nodes: &[(u32, u32)],
    ends: &[End],
    slots: &[u32],
    table: &mut ProbeTable<NODE_BYTES>,
) -> Vec<[u32; 2]> {
    // Nodes with one edge and without a pattern's end pass on all that comes from above.
    let mut edge_counts = vec![0_u32; nodes.len()];
    for (parent, _) in nodes.iter().filter(|(parent, _)| *parent != ROOT) {
        edge_counts[*parent as usize] += 1;
    }
    let has_one_edge = |node: u32| edge_counts[node as usize] == 1;
    let is_end = |node: u32| ends.binary_search_by_key(&node, |end| end.node).is_ok();

    let mut hashes: Vec<[u32; 2]> = Vec::new();
    for ((parent, key), slot) in nodes.iter().zip(slots) {
        if *key != HASH {
            continue;
        }
        let mut above = *parent;
        while above != ROOT && nodes[above as usize].1 != HASH && has_one_edge(above) && !is_end(above) {
            above = nodes[above as usize].0;
        }
        let is_superseded = above != ROOT && nodes[above as usize].1 == HASH && has_one_edge(above);
        let superseded = if is_superseded { table.number(slots[above as usize], 3) } else { NONE };
        table.add(*slot, 3, count(hashes.len()));
        hashes.push([0, superseded]);
    }
    hashes
}

/// Writes where patterns end into the nodes' records, `hashes` or the root, and returns the lists of two or more
/// patterns.
fn place_ends(
    ends: &[End],
    slots: &[u32],
    table: &mut ProbeTable<NODE_BYTES>,
    root: &mut (u32, u32),
    hashes: &mut [[u32; 2]],
) -> Vec<u32> {
    let mut lists = Vec::new();
    for here in ends.chunk_by(|one, other| one.node == other.node) {
        let (kind, position) = match here {
            [only] => (ENDS_ONE, only.id),
            many => {
                let position = count(lists.len());
                lists.push(count(many.len()));
                lists.extend(many.iter().map(|end| end.id));
                (ENDS_MANY, position)
            }
        };
        let info = kind | if here.iter().any(|end| end.is_twice) { ENDS_TWICE } else { 0 };
        if here[0].node == ROOT {
            *root = (root.0 | info, position);
            continue;
        }
        let slot = slots[here[0].node as usize];
        table.add(slot, 2, info);
        if table.number(slot, 1) == HASH {
            hashes[table.number(slot, 3) as usize][0] = position;
        } else {
            table.add(slot, 3, position);
        }
    }
    lists
}

/// A table with open addressing, whose size is known in advance.
struct ProbeTable<const N: usize> {
    slots: Vec<[u8; N]>,
    /// The maximum number of slots that a search for a record visits.
    probe_max: u32,
}

impl<const N: usize> ProbeTable<N> {
    fn new(records: usize) -> Self {
        let mut empty = [0; N];
        empty[4..8].copy_from_slice(&EMPTY.to_le_bytes());
        let slots = if records == 0 { 0 } else { records * SLOTS_OF / SLOTS_TAKEN + 1 };
        Self { slots: vec![empty; slots], probe_max: 0 }
    }

    /// The slot for the new `record`: the first free one from its hash on.
    fn insert(&mut self, hash: u32, record: &[u32]) -> u32 {
        let mut slot = scale(hash, self.slots.len());
        let mut probes = 1;
        while number(&self.slots[slot], 1) != EMPTY {
            slot = (slot + 1) % self.slots.len();
            probes += 1;
        }
        for (bytes, number) in self.slots[slot].as_chunks_mut::<4>().0.iter_mut().zip(record) {
            *bytes = number.to_le_bytes();
        }
        self.probe_max = self.probe_max.max(probes);
        count(slot)
    }

    fn number(&self, slot: u32, index: usize) -> u32 {
        number(&self.slots[slot as usize], index)
    }

    /// Sets the bits of `value` in the number at `index` of a record.
    fn add(&mut self, slot: u32, index: usize, value: u32) {
        let value = self.number(slot, index) | value;
        self.slots[slot as usize].as_chunks_mut::<4>().0[index] = value.to_le_bytes();
    }
}

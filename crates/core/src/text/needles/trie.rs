//! A trie in a few flat arrays: 9 bytes per state, at most one state for each byte of the needles.
//!
//! States are numbered breadth first. So the children of a state are neighbours, and a state needs only the number of
//! its first child: the next state's first child ends the list.

/// The value for no state and no needle.
pub const NONE: u32 = u32::MAX;

/// The state of the empty prefix.
pub const ROOT: u32 = 0;

/// States, and numbers counted in states, fit in 31 bits with room to spare.
const BYTES_MAX: usize = 256 << 20;

/// A trie over byte strings that are sorted and all different. A needle is known by its index in that order.
#[derive(Clone, Debug)]
pub struct NeedleTrie {
    /// The first child of each state, and one more element at the end.
    first_child: Vec<u32>,
    /// The byte that leads to each state; 0 for the root.
    labels: Vec<u8>,
    /// The needle that ends in each state.
    ends: Vec<u32>,
    /// The first state of each depth.
    levels: Vec<u32>,
}

impl NeedleTrie {
    /// Builds the trie of `needles`, ascending and all different. Linear in their total length.
    ///
    /// # Panics
    /// The needles have more than 256 MiB in total.
    pub fn new(needles: &[&[u8]]) -> Self {
        let bytes: usize = needles.iter().map(|needle| needle.len()).sum();
        assert!(bytes <= BYTES_MAX, "the needles of one set are limited to 256 MiB");
        let mut trie = Self { first_child: Vec::new(), labels: vec![0], ends: Vec::new(), levels: Vec::new() };
        // The needles that share the prefix of a state are neighbours too, so a state is a range of them.
        let mut level: Vec<_> = std::iter::once(0..needles.len()).collect();
        let mut depth = 0;
        while !level.is_empty() {
            trie.levels.push(trie.ends.len() as u32);
            let mut below = Vec::new();
            for mut range in level {
                trie.first_child.push(trie.labels.len() as u32);
                let ends_here = needles.get(range.start).is_some_and(|needle| needle.len() == depth);
                trie.ends.push(if ends_here { range.start as u32 } else { NONE });
                range.start += usize::from(ends_here);
                for group in needles[range.clone()].chunk_by(|a, b| a[depth] == b[depth]) {
                    trie.labels.push(group[0][depth]);
                    below.push(range.start..range.start + group.len());
                    range.start += group.len();
                }
            }
            level = below;
            depth += 1;
        }
        trie.first_child.push(trie.labels.len() as u32);
        trie.first_child.shrink_to_fit();
        trie.labels.shrink_to_fit();
        trie.ends.shrink_to_fit();
        trie
    }

    /// The number of states, including the root.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The states that are one byte below `state`.
    pub fn children(&self, state: u32) -> std::ops::Range<u32> {
        self.first_child[state as usize]..self.first_child[state as usize + 1]
    }

    /// The byte that leads to `state`.
    pub fn label(&self, state: u32) -> u8 {
        self.labels[state as usize]
    }

    /// The length of the prefix that `state` represents.
    pub fn depth(&self, state: u32) -> usize {
        self.levels.partition_point(|first| *first <= state) - 1
    }

    /// The child of `state` by `byte`.
    #[inline]
    pub fn child(&self, state: u32, byte: u8) -> Option<u32> {
        let children = self.children(state);
        let labels = &self.labels[children.start as usize..children.end as usize];
        let at = match labels {
            [] => None,
            [only] => (*only == byte).then_some(0), // by far the most states
            several => memchr::memchr(byte, several),
        };
        at.map(|at| children.start + at as u32)
    }

    /// The needle that ends in `state`, or NONE.
    #[inline]
    pub fn end(&self, state: u32) -> u32 {
        self.ends[state as usize]
    }

    /// Calls `visit` with every needle that `bytes` begin with, and the bytes that remain after it, shortest first.
    /// Stops where `bytes` leave the trie.
    pub fn walk(&self, bytes: impl ExactSizeIterator<Item = u8>, mut visit: impl FnMut(u32, usize)) {
        let mut state = ROOT;
        let mut left = bytes.len();
        let mut report = |state, left| {
            if self.end(state) != NONE {
                visit(self.end(state), left);
            }
        };
        report(state, left);
        for byte in bytes {
            let Some(child) = self.child(state, byte) else { return };
            state = child;
            left -= 1;
            report(state, left);
        }
    }

    /// The memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.labels.capacity() + (self.first_child.capacity() + self.ends.capacity() + self.levels.capacity()) * 4
    }
}

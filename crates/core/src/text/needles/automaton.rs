//! The automaton of Aho and Corasick, which finds all needles in one pass over a text.
//!
//! Source: "Efficient string matching", 1975.
//!
//! The `aho-corasick` crate copies into each state all needles that end there, which is superlinear for nested needles
//! (a, aa, aaa, ... and ba, bba, ...), and it reports them all at every position. Here a state knows the longest needle
//! that ends in it, and a needle knows the longest other needle that it ends with. A chain that has been followed once
//! is not followed again, so that a text costs its length and the number of needles found.
//!
//! The states nearest to the root, in which a text spends most of its time, have a table with the next state for every
//! class of bytes. The others have only their children and the state to fall back to.

use super::trie::{NONE, NeedleTrie, ROOT};

/// The memory for these tables: this base, more per state, and in total no more than a processor's cache, since tables
/// in main memory are no faster than the states without.
const ROW_BYTES_BASE: usize = 64 << 10;
const ROW_BYTES_PER_STATE: usize = 64;
const ROW_BYTES_MAX: usize = 8 << 20;

/// Set in the address of a state in which a needle ends.
const MATCH: u32 = 1 << 31;

/// A text is read at this many positions at once: while one waits for memory, the others continue.
const LANES: usize = 4;
/// The minimum length of a lane; a shorter one is not worth its start.
const LANE_BYTES_MIN: usize = 32;

/// The automaton of some needles, none of them empty.
#[derive(Clone, Debug)]
pub struct NeedleAutomaton {
    trie: NeedleTrie,
    /// Bytes that no needle distinguishes share a class; class 0 occurs in no needle.
    classes: Box<[u8; 256]>,
    /// For the first states: the address of the next state by class, and last the needle that ends here.
    rows: Vec<u32>,
    row_length: u32,
    /// The end of the tables: their number of elements, once all are there.
    rows_end: u32,
    /// The number of states that have a table.
    row_count: u32,
    /// The state to continue from when no child matches: that of the longest proper suffix, as an address.
    fallback: Vec<u32>,
    /// The longest needle that ends in each state.
    outputs: Vec<u32>,
    /// For each needle, the longest other needle that it ends with.
    suffixes: Vec<u32>,
}

impl NeedleAutomaton {
    /// Builds the automaton of `needles`: ascending, all different, none empty. Time and memory are linear in their
    /// length.
    pub fn new(needles: &[&[u8]]) -> Self {
        let trie = NeedleTrie::new(needles);
        let (classes, class_count) = classes(needles);
        let row_length = class_count + 1;
        let row_bytes_max = (ROW_BYTES_BASE + trie.len() * ROW_BYTES_PER_STATE).min(ROW_BYTES_MAX);
        let row_count = (row_bytes_max / (row_length * 4)).clamp(1, trie.len());
        let mut automaton = Self {
            classes,
            rows: Vec::with_capacity(row_count * row_length),
            row_length: row_length as u32,
            rows_end: (row_count * row_length) as u32,
            row_count: row_count as u32,
            fallback: vec![ROOT; trie.len()],
            outputs: vec![NONE; trie.len()],
            suffixes: vec![NONE; needles.len()],
            trie,
        };
        // Breadth first, so that a shorter prefix is complete before a longer one needs it.
        for state in 0..automaton.trie.len() as u32 {
            automaton.link_children(state);
            if state < automaton.row_count {
                automaton.add_row(state);
            }
        }
        automaton
    }

    /// Computes the fallback of the children of `state`, and which needles end in them.
    fn link_children(&mut self, state: u32) {
        for child in self.trie.children(state) {
            let fallback = match state {
                ROOT => self.address(ROOT),
                _ => self.next(self.fallback[state as usize], self.trie.label(child)) & !MATCH,
            };
            self.fallback[child as usize] = fallback;
            let suffix = self.outputs[self.state(fallback) as usize];
            let own = self.trie.end(child);
            if own != NONE {
                self.suffixes[own as usize] = suffix;
            }
            self.outputs[child as usize] = if own == NONE { suffix } else { own };
        }
    }

    fn add_row(&mut self, state: u32) {
        let length = self.row_length as usize;
        if state == ROOT {
            self.rows.resize(length, self.address(ROOT));
        } else {
            let from = self.fallback[state as usize] as usize; // nearer to the root, so it has a row
            self.rows.extend_from_within(from..from + length);
        }
        let from = self.rows.len() - length;
        for child in self.trie.children(state) {
            let class = self.classes[self.trie.label(child) as usize];
            self.rows[from + class as usize] = self.address(child);
        }
        self.rows[from + length - 1] = self.outputs[state as usize];
    }

    /// The address of a state: in `rows` when it has a table, else its number after their end. With the flag MATCH.
    fn address(&self, state: u32) -> u32 {
        let flag = if self.outputs[state as usize] == NONE { 0 } else { MATCH };
        let address = match state.checked_sub(self.row_count) {
            None => state * self.row_length,
            Some(beyond) => self.rows_end + beyond,
        };
        address | flag
    }

    /// The state at `address`.
    fn state(&self, address: u32) -> u32 {
        let has_row = address < self.rows_end;
        if has_row { address / self.row_length } else { self.state_beyond_rows(address) }
    }

    /// The state at `address`, which is behind the tables.
    #[inline]
    fn state_beyond_rows(&self, address: u32) -> u32 {
        address - self.rows_end + self.row_count
    }

    /// The longest needle that ends in the state at `address`.
    #[inline]
    fn output(&self, address: u32) -> u32 {
        if address < self.rows_end {
            return self.rows[(address + self.row_length - 1) as usize];
        }
        self.outputs[self.state_beyond_rows(address) as usize]
    }

    /// The address after `byte`, with the flag MATCH. `address` comes without the flag.
    #[inline]
    fn next(&self, address: u32, byte: u8) -> u32 {
        let class = u32::from(self.classes[byte as usize]);
        if address < self.rows_end {
            return self.rows[(address + class) as usize];
        }
        self.next_beyond_rows(address, byte)
    }

    #[inline(never)]
    fn next_beyond_rows(&self, mut address: u32, byte: u8) -> u32 {
        while address >= self.rows_end {
            let state = self.state_beyond_rows(address);
            if let Some(child) = self.trie.child(state, byte) {
                return self.address(child);
            }
            address = self.fallback[state as usize];
        }
        self.rows[(address + u32::from(self.classes[byte as usize])) as usize]
    }

    /// Calls `visit` with needles that occur in `text`. It returns whether a needle is new; if not, the needles that it
    /// ends with are not reported.
    pub fn find(&self, text: &[u8], mut visit: impl FnMut(u32) -> bool) {
        let lane_bytes = text.len() / LANES;
        if lane_bytes < LANE_BYTES_MIN {
            text.iter().fold(ROOT, |address, byte| self.step(address, *byte, &mut visit));
            return;
        }
        let lanes: [&[u8]; LANES] = std::array::from_fn(|lane| &text[lane * lane_bytes..][..lane_bytes]);
        let [mut a, mut b, mut c, mut d] = [ROOT; LANES];
        for (((w, x), y), z) in lanes[0].iter().zip(lanes[1]).zip(lanes[2]).zip(lanes[3]) {
            let next = [self.next(a, *w), self.next(b, *x), self.next(c, *y), self.next(d, *z)];
            [a, b, c, d] = next.map(|next| next & !MATCH);
            if (next[0] | next[1] | next[2] | next[3]) & MATCH != 0 {
                let matching = next.into_iter().filter(|next| next & MATCH != 0);
                matching.for_each(|next| self.report(next & !MATCH, &mut visit));
            }
        }
        for (address, lane) in [a, b, c].into_iter().zip(1..) {
            self.read_on(address, &text[lane * lane_bytes..], &mut visit);
        }
        text[LANES * lane_bytes..].iter().fold(d, |address, byte| self.step(address, *byte, &mut visit));
    }

    /// Reads on behind a lane until no prefix of a needle that began in the lane is left: the next lane has read
    /// everything later.
    fn read_on(&self, mut address: u32, after: &[u8], visit: &mut impl FnMut(u32) -> bool) {
        for (read, byte) in after.iter().enumerate() {
            if self.trie.depth(self.state(address)) <= read {
                return;
            }
            address = self.step(address, *byte, visit);
        }
    }

    /// The address after `byte`, after reporting the needles that end there.
    #[inline]
    fn step(&self, address: u32, byte: u8, visit: &mut impl FnMut(u32) -> bool) -> u32 {
        let next = self.next(address, byte);
        if next & MATCH != 0 {
            self.report(next & !MATCH, visit);
        }
        next & !MATCH
    }

    /// Reports all needles that end in the state at `address`, as far as they are new: if one is not new, neither are
    /// those that it ends with.
    #[inline]
    fn report(&self, address: u32, visit: &mut impl FnMut(u32) -> bool) {
        let mut needle = self.output(address);
        while needle != NONE && visit(needle) {
            needle = self.suffixes[needle as usize];
        }
    }

    /// The number of needles.
    pub fn needle_count(&self) -> usize {
        self.suffixes.len()
    }

    /// The memory, in bytes.
    pub fn bytes(&self) -> usize {
        let numbers = [&self.rows, &self.fallback, &self.outputs, &self.suffixes];
        self.trie.bytes() + 256 + numbers.map(|numbers| numbers.capacity() * 4).iter().sum::<usize>()
    }
}

/// The class of each byte, and the number of classes: class 0 for bytes in no needle, one for each other byte.
fn classes(needles: &[&[u8]]) -> (Box<[u8; 256]>, usize) {
    let mut is_used = [false; 256];
    needles.iter().flat_map(|needle| *needle).for_each(|byte| is_used[*byte as usize] = true);
    let mut classes = Box::new([0; 256]);
    let mut count: usize = 1;
    for (class, _) in classes.iter_mut().zip(is_used).filter(|(_, is_used)| *is_used) {
        *class = count as u8; // UTF-8 never has the bytes 0xC0, 0xC1 and 0xF5 to 0xFF, so that 255 are enough
        count += 1;
    }
    (classes, count)
}

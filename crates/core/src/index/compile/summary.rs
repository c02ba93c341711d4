//! Summary rows: for each value one bit a leaf, 0 where the value rules out the whole leaf.
//!
//! Most values are named in few leaves. The row of such a *rare* value is that of values which no query names, but for a
//! few leaves, and only those are kept: rows take no more than twice the memory of what they say.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use crate::index::compile::interner::{AttributeId, NONE, SymbolId};
use crate::index::leaf::Section;
use crate::index::segment::attributes::AttributeInfo;

/// So many attributes have rows: those that the most leaves ask about.
const ATTRIBUTES_MAX: usize = 64;

/// The number of a row, where it is not that of a whole one: [`RARE`] and where it begins among the rare ones.
pub const RARE: u32 = 1 << 31;

#[derive(Default)]
struct Attribute {
    leaves: usize,
    /// Leaves that are ruled out: absent, null, valueless, other.
    ruled_out: [Vec<u32>; 4],
    /// Leaves in which a value rules out all queries and other values do not, or the other way round.
    differing: HashMap<SymbolId, Vec<u32>>,
}

/// Collects the sections of leaves.
pub struct Summary {
    leaf_count: usize,
    attributes: HashMap<AttributeId, Attribute>,
}

impl Summary {
    /// For the first `leaf_count` leaves.
    pub fn new(leaf_count: usize) -> Self {
        Self { leaf_count, attributes: HashMap::new() }
    }

    /// Take note of the sections of `leaf`.
    pub fn add(&mut self, leaf: usize, sections: &[Section]) {
        if leaf >= self.leaf_count {
            return;
        }
        let leaf = u32::try_from(leaf).expect("fewer than 2^32 leaves fit in memory");
        for section in sections {
            let attribute = self.attributes.entry(section.attribute).or_default();
            attribute.leaves += 1;
            let [absent, null, valueless] = section.classes;
            for (ruled_out, mask) in attribute.ruled_out.iter_mut().zip([absent, null, valueless, section.other]) {
                if mask == 0 {
                    ruled_out.push(leaf);
                }
            }
            for &(symbol, mask) in &section.values {
                if (mask == 0) != (section.other == 0) {
                    attribute.differing.entry(symbol).or_default().push(leaf);
                }
            }
        }
    }

    /// All rows, and the attributes that have some. Numbers of rows go to `infos`, and for symbols that have their own to
    /// `set_row`.
    pub fn finish(
        self,
        infos: &mut [AttributeInfo],
        mut set_row: impl FnMut(AttributeId, SymbolId, u32),
    ) -> (Rows, HashSet<AttributeId>) {
        let mut rows = Rows { words: self.leaf_count.div_ceil(64), whole: Vec::new(), rare: Vec::new() };
        let mut attributes: Vec<_> = self.attributes.into_iter().collect();
        attributes.sort_unstable_by_key(|(id, attribute)| (Reverse(attribute.leaves), *id));
        attributes.truncate(ATTRIBUTES_MAX);
        let with_rows = attributes.iter().map(|(id, _)| *id).collect();
        for (id, attribute) in attributes {
            infos[id as usize].rows = attribute.finish(&mut rows, self.leaf_count, |code, row| set_row(id, code, row));
        }
        (rows, with_rows)
    }
}

impl Attribute {
    fn finish(self, rows: &mut Rows, leaf_count: usize, mut set_row: impl FnMut(SymbolId, u32)) -> [u32; 4] {
        let row_of = |ruled_out: &[u32]| {
            let mut row = vec![u64::MAX; leaf_count.div_ceil(64)];
            flip(&mut row, ruled_out);
            row
        };
        let other = row_of(&self.ruled_out[3]);
        let mut classes =
            self.ruled_out.each_ref().map(|leaves| if leaves.is_empty() { NONE } else { rows.push(&row_of(leaves)) });
        if classes[3] == NONE && !self.differing.is_empty() {
            classes[3] = rows.push(&other); // what rare rows differ from
        }
        let mut differing: Vec<_> = self.differing.into_iter().collect();
        differing.sort_unstable_by_key(|(symbol, _)| *symbol);
        for (symbol, leaves) in differing {
            let number = if leaves.len() > other.len() {
                let mut row = other.clone();
                flip(&mut row, &leaves);
                rows.push(&row)
            } else {
                rows.push_rare(&leaves)
            };
            set_row(symbol, number);
        }
        classes
    }
}

fn flip(row: &mut [u64], leaves: &[u32]) {
    leaves.iter().for_each(|leaf| row[*leaf as usize / 64] ^= 1 << (leaf % 64));
}

/// Summary rows, numbered.
pub struct Rows {
    words: usize,
    /// Whole rows, one after the other.
    pub whole: Vec<u64>,
    /// Of each rare value how many leaves set its row apart from that of values which no query names, and which.
    pub rare: Vec<u32>,
}

impl Rows {
    fn push(&mut self, row: &[u64]) -> u32 {
        let number = self.whole.len() / self.words.max(1);
        self.whole.extend_from_slice(row);
        u32::try_from(number).ok().filter(|number| *number < RARE).expect("fewer than 2^31 rows fit in memory")
    }

    fn push_rare(&mut self, leaves: &[u32]) -> u32 {
        let start = u32::try_from(self.rare.len()).ok().filter(|start| *start < RARE - 1);
        let start = start.expect("fewer than 2^31 leaves of rare values fit in memory");
        self.rare.push(leaves.len() as u32);
        self.rare.extend_from_slice(leaves);
        RARE | start
    }
}

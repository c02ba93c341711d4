//! Summary rows: for each value one bit a leaf, 0 where the value rules out all queries of the leaf.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use super::attributes::AttributeInfo;
use super::leaf::Section;
use super::symbols::{AttributeId, NONE, SymbolId};

/// Rows may take this many bytes for each leaf, beside the five that every attribute has; values beyond that share one.
const BYTES_PER_LEAF: usize = 512;

/// So many attributes have rows: those that the most leaves ask about.
const ATTRIBUTES_MAX: usize = 64;

#[derive(Default)]
struct Attribute {
    leaves: usize,
    /// Leaves that are ruled out: absent, null, valueless, other.
    ruled_out: [Vec<u32>; 4],
    /// Leaves in which a value is other than "other": let in, or ruled out.
    let_in: HashMap<SymbolId, Vec<u32>>,
    kept_out: HashMap<SymbolId, Vec<u32>>,
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
                match (mask != 0, section.other != 0) {
                    (true, false) => attribute.let_in.entry(symbol).or_default().push(leaf),
                    (false, true) => attribute.kept_out.entry(symbol).or_default().push(leaf),
                    _ => {}
                }
            }
        }
    }

    /// All rows, one after the other, and the attributes whose every value has a row that says all there is to say of a
    /// leaf that passes or fails as one. Numbers of rows go to `infos`, and for symbols that have their own to `set_row`.
    pub fn finish(
        self,
        infos: &mut [AttributeInfo],
        mut set_row: impl FnMut(SymbolId, u32),
    ) -> (Vec<u64>, HashSet<AttributeId>) {
        let mut rows = Rows { words: self.leaf_count.div_ceil(64), bits: Vec::new() };
        let mut attributes: Vec<_> = self.attributes.into_iter().collect();
        attributes.sort_unstable_by_key(|(id, attribute)| (Reverse(attribute.leaves), *id));
        attributes.truncate(ATTRIBUTES_MAX);
        let budget = self.leaf_count * BYTES_PER_LEAF / (8 * rows.words.max(1) * attributes.len().max(1));
        let mut exact = HashSet::new();
        for (id, attribute) in attributes {
            let (classes, unlisted) = attribute.finish(&mut rows, budget, self.leaf_count, &mut set_row);
            infos[id as usize].rows = classes;
            infos[id as usize].unlisted = unlisted;
            if unlisted == classes[3] {
                exact.insert(id);
            }
        }
        (rows.bits, exact)
    }
}

impl Attribute {
    fn finish(
        self,
        rows: &mut Rows,
        budget: usize,
        leaf_count: usize,
        set_row: &mut impl FnMut(SymbolId, u32),
    ) -> ([u32; 4], u32) {
        let full = |ruled_out: &[u32]| {
            let mut row = vec![u64::MAX; leaf_count.div_ceil(64)];
            ruled_out.iter().for_each(|leaf| row[*leaf as usize / 64] &= !(1 << (leaf % 64)));
            row
        };
        let other = full(&self.ruled_out[3]);
        let classes =
            self.ruled_out.each_ref().map(|leaves| if leaves.is_empty() { NONE } else { rows.push(&full(leaves)) });
        let mut symbols: Vec<_> = self.let_in.keys().chain(self.kept_out.keys()).copied().collect();
        symbols.sort_unstable();
        symbols.dedup();
        let let_in = |symbol: &SymbolId| self.let_in.get(symbol).map_or(&[][..], Vec::as_slice);
        let kept_out = |symbol: &SymbolId| self.kept_out.get(symbol).map_or(&[][..], Vec::as_slice);
        // Those that are named the most are met the most.
        symbols.sort_by_key(|symbol| Reverse(let_in(symbol).len() + kept_out(symbol).len()));
        let (listed, unlisted) = symbols.split_at(symbols.len().min(budget));
        for symbol in listed {
            let mut row = other.clone();
            let_in(symbol).iter().for_each(|leaf| row[*leaf as usize / 64] |= 1 << (leaf % 64));
            kept_out(symbol).iter().for_each(|leaf| row[*leaf as usize / 64] &= !(1 << (leaf % 64)));
            set_row(*symbol, rows.push(&row));
        }
        let unlisted = if unlisted.is_empty() {
            classes[3]
        } else {
            let mut row = other;
            unlisted.iter().flat_map(let_in).for_each(|leaf| row[*leaf as usize / 64] |= 1 << (leaf % 64));
            rows.push(&row)
        };
        (classes, unlisted)
    }
}

struct Rows {
    words: usize,
    bits: Vec<u64>,
}

impl Rows {
    fn push(&mut self, row: &[u64]) -> u32 {
        let number = self.bits.len() / self.words.max(1);
        self.bits.extend_from_slice(row);
        u32::try_from(number).expect("fewer than 2^32 rows fit in memory")
    }
}

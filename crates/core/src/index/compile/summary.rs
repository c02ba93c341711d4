//! Summaries: for each value one bit per leaf, 0 where the value rules out the whole leaf.
//!
//! Most values are named in few leaves. The summary of such a *rare* value is that of values which no query names, except
//! for a few leaves, and only these are stored: summaries take at most twice the memory of what they say.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use crate::index::ids::{AttributeId, LeafId, SummaryId, SymbolCode};
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::leaf::masks::AttributeMasks;
use crate::index::value_class::{ByClass, ValueClass};

/// Maximum number of attributes with summaries: those that the most leaves ask about. ANDing a summary takes less than a
/// hundredth of the time of reading the leaves that one attribute in 256 rules out.
pub const ATTRIBUTES_MAX: usize = 256;

/// The leaves that the values of one attribute rule out.
#[derive(Default)]
struct AttributeSummary {
    leaf_count: usize,
    ruled_out: ByClass<Vec<LeafId>>,
    /// Leaves with queries that do not simply hold of a list when they hold of some element.
    undecided: Vec<LeafId>,
    /// Leaves where a symbol rules out all queries and `Other` does not, or the other way round.
    differing: HashMap<SymbolCode, Vec<LeafId>>,
}

/// Collects the masks of leaves.
pub struct SummaryBuilder {
    leaf_count: usize,
    attributes: HashMap<AttributeId, AttributeSummary>,
}

impl SummaryBuilder {
    /// A builder for the first `leaf_count` leaves.
    pub fn new(leaf_count: usize) -> Self {
        Self { leaf_count, attributes: HashMap::new() }
    }

    /// Add the masks of `leaf`.
    pub fn add(&mut self, leaf: LeafId, masks: &[AttributeMasks]) {
        for masks in masks {
            let attribute = self.attributes.entry(masks.attribute).or_default();
            attribute.leaf_count += 1;
            for (ruled_out, mask) in attribute.ruled_out.0.iter_mut().zip(masks.by_class.0) {
                if mask == 0 {
                    ruled_out.push(leaf);
                }
            }
            if masks.lists.of_plain != 0 {
                attribute.undecided.push(leaf);
            }
            for &(code, mask) in &masks.values {
                if (mask == 0) != (masks.other() == 0) {
                    attribute.differing.entry(code).or_default().push(leaf);
                }
            }
        }
    }

    /// All summaries, and the attributes that have some. The summaries of classes go to `infos`, and those of symbols to
    /// `set_summary`.
    pub fn finish(
        self,
        infos: &mut [AttributeInfo],
        mut set_summary: impl FnMut(AttributeId, SymbolCode, SummaryId),
    ) -> (Summaries, HashSet<AttributeId>) {
        let words = self.leaf_count.div_ceil(64);
        let mut summaries = Summaries { words, whole: Vec::new(), rare: Vec::new() };
        let mut attributes: Vec<_> = self.attributes.into_iter().collect();
        attributes.sort_unstable_by_key(|(id, attribute)| (Reverse(attribute.leaf_count), *id));
        attributes.truncate(ATTRIBUTES_MAX);
        let with_summaries = attributes.iter().map(|(id, _)| *id).collect();
        for (id, attribute) in attributes {
            let set_own = |code, summary| set_summary(id, code, summary);
            let info = &mut infos[id.index()];
            info.undecided = summaries.push_only(&attribute.undecided);
            info.summaries = attribute.finish(&mut summaries, set_own);
        }
        (summaries, with_summaries)
    }
}

impl AttributeSummary {
    fn finish(self, summaries: &mut Summaries, mut set_own: impl FnMut(SymbolCode, SummaryId)) -> ByClass<SummaryId> {
        let other = summaries.without(&self.ruled_out.0[ValueClass::Other as usize]);
        let mut by_class = self.ruled_out.0.each_ref().map(|leaves| match leaves.as_slice() {
            [] => SummaryId::NONE,
            leaves => summaries.push(&summaries.without(leaves)),
        });
        let of_other = &mut by_class[ValueClass::Other as usize];
        if *of_other == SummaryId::NONE && !self.differing.is_empty() {
            *of_other = summaries.push(&other); // what rare summaries differ from
        }
        let mut differing: Vec<_> = self.differing.into_iter().collect();
        differing.sort_unstable_by_key(|(code, _)| *code);
        for (code, leaves) in differing {
            let own = if leaves.len() > other.len() {
                let mut summary = other.clone();
                flip(&mut summary, &leaves);
                summaries.push(&summary)
            } else {
                summaries.push_rare(&leaves)
            };
            set_own(code, own);
        }
        ByClass(by_class)
    }
}

fn flip(summary: &mut [u64], leaves: &[LeafId]) {
    leaves.iter().for_each(|leaf| summary[leaf.index() / 64] ^= 1 << (leaf.0 % 64));
}

/// Numbered summaries.
pub struct Summaries {
    /// The number of words of a summary.
    words: usize,
    /// The complete summaries, one after the other.
    pub whole: Vec<u64>,
    /// Rare ones: the number of leaves in which the summary differs from that of values which no query names, and these
    /// leaves.
    pub rare: Vec<u32>,
}

impl Summaries {
    /// A summary that rules out `leaves`.
    fn without(&self, leaves: &[LeafId]) -> Vec<u64> {
        let mut summary = vec![u64::MAX; self.words];
        flip(&mut summary, leaves);
        summary
    }

    fn push(&mut self, summary: &[u64]) -> SummaryId {
        let number = self.whole.len() / self.words.max(1);
        self.whole.extend_from_slice(summary);
        SummaryId::whole(number)
    }

    /// A summary that admits `leaves` only.
    fn push_only(&mut self, leaves: &[LeafId]) -> SummaryId {
        if leaves.is_empty() {
            return SummaryId::NONE;
        }
        let mut summary = vec![0; self.words];
        flip(&mut summary, leaves);
        self.push(&summary)
    }

    fn push_rare(&mut self, leaves: &[LeafId]) -> SummaryId {
        let summary = SummaryId::rare(self.rare.len());
        self.rare.push(leaves.len() as u32);
        self.rare.extend(leaves.iter().map(|leaf| leaf.0));
        summary
    }
}

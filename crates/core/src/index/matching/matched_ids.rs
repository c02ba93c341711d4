//! The answer to a match: the ids as a list, a bitmap or a number.

use super::id_bits::{IdBits, append_narrow};
use crate::bitmap::Bitmap;
use crate::index::SubscriptionId;
use crate::index::layout::cpu::{WideWork, at_full_width};

/// The subscriptions that a message satisfies, each once.
#[derive(Debug, Default)]
pub struct MatchedIds {
    /// Those that lie near each other.
    pub(super) bits: IdBits,
    /// Others, ascending, and those beyond 32 bits.
    pub(super) narrow: Vec<u32>,
    pub(super) wide: Vec<SubscriptionId>,
}

impl MatchedIds {
    /// The number of ids. Cost: a step for 64 of those that lie near each other.
    #[must_use]
    pub fn len(&self) -> usize {
        let of_bits: usize = self.bits.words.iter().map(|word| word.count_ones() as usize).sum();
        of_bits + self.narrow.len() + self.wide.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids, ascending. Cost: linear in them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<SubscriptionId> {
        let mut ids = Vec::with_capacity(self.len());
        at_full_width(NarrowAppend { matched: self, ids: &mut ids });
        ids.extend_from_slice(&self.wide);
        ids
    }

    /// The ids as the bits of a bitmap of `size` bits; what is not below the size is left out.
    #[must_use]
    pub fn to_bitmap(&self, size: u64) -> Bitmap {
        let bytes = self.bits.words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let others = self.narrow.iter().copied().map(u64::from).chain(self.wide.iter().map(|id| id.0));
        Bitmap::of_bits(size, 64 * self.bits.first_word as u64, &bytes, others)
    }
}

/// Appending the narrow ids of what was found.
struct NarrowAppend<'a> {
    matched: &'a MatchedIds,
    ids: &'a mut Vec<SubscriptionId>,
}

impl WideWork for NarrowAppend<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        append_narrow(&self.matched.narrow, &self.matched.bits, self.ids);
    }
}

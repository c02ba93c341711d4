//! Scans the selected leaves: collects the ids of queries that are decided, and the queries that have to be evaluated.

use crate::error::EngineError;
use crate::index::ids::QueryId;
use crate::index::layout::bytes::ones;
use crate::index::layout::cpu::prefetch;
use crate::index::leaf::candidates::{Candidates, prefetch_end};
use crate::index::segment::Segment;
use crate::index::segment::index_view::IndexView;

use super::id_set::IdSet;
use super::scratch::SegmentScratch;

/// The number of leaves by which prefetching is ahead of scanning.
const AHEAD: usize = 4;
/// The number of cache lines of a leaf that are prefetched; its end, which the head leads to, is prefetched one leaf before.
const LINES_AHEAD: usize = 4;

impl Segment {
    /// Scan the selected leaves: add the ids of queries that are decided to `ids`, and the others to `unsure`.
    #[inline(always)]
    pub fn scan_leaves(
        &self,
        index: &IndexView<'_>,
        version: u64,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let SegmentScratch { codes, leaves, unsure, ids, .. } = scratch;
        unsure.clear();
        let is_whole = self.tombstones.count() == 0;
        for (number, &leaf) in leaves.iter().enumerate() {
            if let Some(later) = leaves.get(number + AHEAD) {
                prefetch::<LINES_AHEAD>(index.leaf_ahead(*later).unwrap_or_default());
            }
            if let Some(next) = leaves.get(number + 1).and_then(|next| index.leaf_ahead(*next)) {
                prefetch_end(next);
            }
            let Some(words) = index.leaf(leaf) else { return Err(self.contradiction()) };
            let Some(mut candidates) = Candidates::of(words, codes) else { return Err(self.contradiction()) };
            let Some(()) = candidates.compare(codes) else { return Err(self.contradiction()) };
            if candidates.alive == 0 {
                continue;
            }
            let Some(()) = self.push_alive(index, &candidates, is_whole, version, unsure, ids) else {
                return Err(self.contradiction());
            };
        }
        Ok(())
    }

    /// Add the ids of a leaf's queries that are decided to `ids`, and the others to `unsure`.
    #[inline(always)]
    fn push_alive(
        &self,
        index: &IndexView<'_>,
        candidates: &Candidates<'_>,
        is_whole: bool,
        version: u64,
        unsure: &mut Vec<(QueryId, bool)>,
        ids: &mut IdSet,
    ) -> Option<()> {
        let (verify, subscribers) = (candidates.verify | candidates.undecided, candidates.subscribers()?);
        let sure = candidates.alive & !verify;
        for bit in ones(candidates.alive & verify) {
            unsure.push((subscribers.query(bit)?, candidates.undecided >> bit & 1 == 1));
        }
        if is_whole {
            ids.extend_narrow_of(subscribers.ids(), sure & !subscribers.several);
            for bit in ones(sure & subscribers.several) {
                match subscribers.list(bit)? {
                    Some(list) => ids.extend_narrow(list),
                    None => self.push_ids(index, subscribers.query(bit)?, version, |id| ids.push(id))?,
                }
            }
            return Some(());
        }
        for bit in ones(sure) {
            match subscribers.positioned(bit)? {
                (position, Some(list)) => {
                    let live = (position..).zip(list).filter(|(at, _)| self.tombstones.is_live(*at, version));
                    live.for_each(|(_, id)| ids.push_narrow(u32::from_le_bytes(*id)));
                }
                (_, None) => self.push_ids(index, subscribers.query(bit)?, version, |id| ids.push(id))?,
            }
        }
        Some(())
    }
}

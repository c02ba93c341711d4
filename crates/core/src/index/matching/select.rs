//! Selects the leaves in which something can be true: those of the message's groups that summaries do not rule out.

use crate::error::EngineError;
use crate::index::ids::{AttributeId, GroupId, LeafId, SummaryId};
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::leaf::message_codes::AttributeCode;
use crate::index::segment::Segment;
use crate::index::segment::index_view::IndexView;
use crate::index::value_class::ValueClass;

use super::scratch::SegmentScratch;

impl Segment {
    /// Write the leaves that have to be scanned to `scratch`.
    #[inline(always)]
    pub fn select_leaves(&self, index: &IndexView<'_>, scratch: &mut SegmentScratch) -> Result<(), EngineError> {
        scratch.leaves.clear();
        scratch.groups.push(GroupId(0));
        if scratch.groups.len() > 2 {
            scratch.groups.sort_unstable();
            scratch.groups.dedup();
        }
        self.collect_summaries(index, scratch)?;
        let SegmentScratch { codes, numbers, .. } = &mut *scratch;
        let number = |attribute, kind| codes.number(attribute, kind).map(|number| number.exact);
        let boxes = index.boxes();
        boxes.collect(number, numbers).ok_or_else(|| self.contradiction())?;
        for group in 0..scratch.groups.len() {
            let (first, end) = index.group(scratch.groups[group]).ok_or_else(|| self.contradiction())?;
            if end.index() <= self.wide_leaf_count {
                self.select_wide(index, first, end, scratch).ok_or_else(|| self.contradiction())?;
            } else {
                scratch.leaves.extend((first.0..end.0).map(LeafId));
            }
        }
        Ok(())
    }

    /// Collect the summaries of the message, one for each attribute that rules out leaves.
    fn collect_summaries(&self, index: &IndexView<'_>, scratch: &mut SegmentScratch) -> Result<(), EngineError> {
        scratch.summaries.clear();
        scratch.joined.clear();
        for &attribute in &self.attributes.with_summaries {
            let info = self.attributes.info(attribute);
            let summary = match scratch.codes.get(attribute) {
                None => SummaryId::NONE,
                Some(AttributeCode::Class(class)) => info.summaries.get(class),
                Some(AttributeCode::Symbol) => own_or_other(scratch.codes.summary(attribute), info),
                Some(AttributeCode::Several(_) | AttributeCode::List(..)) => {
                    self.join_summaries(index, attribute, info, scratch).ok_or_else(|| self.contradiction())?;
                    SummaryId::NONE
                }
            };
            if summary == SummaryId::NONE {
                continue;
            }
            if summary.is_rare() {
                self.build_summary(index, summary, info, &mut scratch.joined).ok_or_else(|| self.contradiction())?;
            } else {
                scratch.summaries.push(summary);
            }
        }
        Ok(())
    }

    /// Append the summary of a rare value to `joined`.
    fn build_summary(
        &self,
        index: &IndexView<'_>,
        summary: SummaryId,
        info: &AttributeInfo,
        joined: &mut Vec<u64>,
    ) -> Option<()> {
        let (start, words) = (joined.len(), self.summary_words());
        let other = index.summary(info.summaries.get(ValueClass::Other), words, 0, words)?;
        joined.extend(other.iter().copied().map(u64::from_le_bytes));
        for leaf in index.rare_summary(summary)? {
            let leaf = LeafId::from_le_bytes(*leaf).index();
            *joined[start..].get_mut(leaf / 64)? ^= 1 << (leaf % 64);
        }
        Some(())
    }

    /// Append one summary for several values of an attribute: they admit what any of them does.
    fn join_summaries(
        &self,
        index: &IndexView<'_>,
        attribute: AttributeId,
        info: &AttributeInfo,
        scratch: &mut SegmentScratch,
    ) -> Option<()> {
        let (start, words) = (scratch.joined.len(), self.summary_words());
        scratch.joined.resize(start + words, 0);
        if let Some(AttributeCode::List(..)) = scratch.codes.get(attribute)
            && info.undecided != SummaryId::NONE
        {
            let summary = index.summary(info.undecided, words, 0, words)?;
            let joined = scratch.joined[start..].iter_mut().zip(summary);
            joined.for_each(|(joined, word)| *joined |= u64::from_le_bytes(*word));
        }
        let own = scratch.codes.several(attribute).map(|symbol| own_or_other(symbol.summary, info));
        for summary in own.chain([info.summaries.get(ValueClass::Other)]) {
            if summary == SummaryId::NONE {
                scratch.joined.truncate(start); // one that rules out nothing
                return Some(());
            }
            let joined = &mut scratch.joined[start..];
            if summary.is_rare() {
                // A leaf that only this value rules out is admitted by the other values, which are joined too.
                for leaf in index.rare_summary(summary)? {
                    let leaf = LeafId::from_le_bytes(*leaf).index();
                    *joined.get_mut(leaf / 64)? |= 1 << (leaf % 64);
                }
            } else {
                let summary = index.summary(summary, words, 0, words)?;
                joined.iter_mut().zip(summary).for_each(|(joined, word)| *joined |= u64::from_le_bytes(*word));
            }
        }
        Some(())
    }

    /// Append the leaves of a wide group that no summary and no box rules out.
    #[inline(always)]
    fn select_wide(
        &self,
        index: &IndexView<'_>,
        first: LeafId,
        end: LeafId,
        scratch: &mut SegmentScratch,
    ) -> Option<()> {
        let (first, end) = (first.0, end.0);
        if first == end {
            return Some(());
        }
        let (from, to) = (first as usize / 64, (end as usize).div_ceil(64));
        let SegmentScratch { codes, summaries, joined, numbers, remaining, leaves, ids, .. } = scratch;
        remaining.clear();
        remaining.resize(to - from, u64::MAX);
        remaining[0] &= u64::MAX << (first % 64);
        if !end.is_multiple_of(64) {
            remaining[to - from - 1] &= u64::MAX >> (64 - end % 64);
        }
        let words = self.summary_words();
        for summary in &*summaries {
            let summary = index.summary(*summary, words, from, to - from)?;
            remaining.iter_mut().zip(summary).for_each(|(remaining, word)| *remaining &= u64::from_le_bytes(*word));
        }
        for summary in joined.chunks(words) {
            remaining.iter_mut().zip(&summary[from..to]).for_each(|(remaining, word)| *remaining &= word);
        }
        if self.tombstones.count() == 0 {
            let number = |attribute, kind| codes.number(attribute, kind).map(|number| number.exact);
            index.thresholds().holding((LeafId(first), LeafId(end)), number, |steps| {
                ids.extend_bits(steps.first_word, steps.bitmap);
                clear(remaining, steps.first.index().checked_sub(64 * from)?, steps.end.index() - 64 * from)
            })?;
        }
        index.boxes().rule_out(numbers, from, remaining)?;
        for (word, remaining) in (0_u32..).zip(remaining) {
            while *remaining != 0 {
                leaves.push(LeafId((from as u32 + word) * 64 + remaining.trailing_zeros()));
                *remaining &= *remaining - 1;
            }
        }
        Some(())
    }
}

/// Clear the bits from `first` to before `end`.
#[inline(always)]
fn clear(words: &mut [u64], first: usize, end: usize) -> Option<()> {
    if first < end {
        let (from, to) = (first / 64, (end - 1) / 64);
        let own = words.get_mut(from..to + 1)?;
        let (before, after) = ((1 << (first % 64)) - 1, (u64::MAX - 1) << ((end - 1) % 64));
        let last = own.len() - 1;
        let kept = (own[0] & before, own[last] & after);
        own.fill(0);
        own[0] |= kept.0;
        own[last] |= kept.1;
    }
    Some(())
}

/// The summary of a symbol; that of values which no query names when it has none of its own.
fn own_or_other(own: SummaryId, info: &AttributeInfo) -> SummaryId {
    if own == SummaryId::NONE { info.summaries.get(ValueClass::Other) } else { own }
}

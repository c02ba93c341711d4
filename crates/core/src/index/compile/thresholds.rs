//! Thresholds: the ids of many queries of one bound each, as cumulative bitmaps, by which a number finds them.
//!
//! Leaves of a wide group that follow each other form a *run* if each of their queries demands one bound of the same number, on
//! the same side, and nothing else. They are ordered by their bounds (`packing.rs`). A run is cut into *steps* of equally many
//! leaves. For each step there is the bound within which all queries up to there hold, and the bitmap of their ids. Where
//! the bounds are high ones, steps count from the end of the run.
//!
//! The section is words of eight bytes:
//! ```text
//! count     the number of runs
//! runs      of each: first leaf (32 bits), number of leaves (32); attribute (32), kind of number (32); leaves of a step (32),
//!           1 for high bounds (32); the word of the id of the first bit (32), words of a bitmap (32)
//! steps     of each run: the bounds of its steps, then their bitmaps
//! ```

use crate::index::SubscriptionId;
use crate::index::ids::LeafId;

use super::clauses::Clauses;
use super::packing::Dimension;

/// The minimum number of leaves of a run.
pub const LEAVES_MIN: usize = 64;
/// The minimum number of leaves of a step.
const STEP_MIN: usize = 16;
/// The maximum number of steps of a run.
const STEPS_MAX: usize = 128;
/// The maximum number of words of a run's bitmaps for each of its ids: the fewer of the ids between them are theirs, the
/// fewer steps there are.
const WORDS_PER_ID: usize = 4;
/// The minimum number of ids for each word of a bitmap.
const IDS_PER_WORD: usize = 4;

/// The one bound that a query demands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    dimension: Dimension,
    is_high: bool,
    bound: f64,
}

impl Threshold {
    /// The one bound of `clauses`; None when they demand anything else.
    pub fn of(clauses: &Clauses) -> Option<Self> {
        let ([range], [test]) = (&clauses.ranges[..], &clauses.tests[..]) else { return None };
        let has_choices = !clauses.choices.is_empty() || !clauses.mixed.is_empty();
        let is_decided = !clauses.is_verified() && !has_choices && !range.is_negated;
        if !is_decided || test.attribute != range.attribute || !test.is_known() {
            return None;
        }
        let of = |bound, is_high| Self { dimension: (range.attribute, range.kind), is_high, bound };
        match (range.low.is_finite(), range.high.is_finite()) {
            (true, false) if range.high > 0.0 => Some(of(range.low, false)),
            (false, true) if range.low < 0.0 => Some(of(range.high, true)),
            _ => None,
        }
    }
}

/// Leaves that follow each other.
struct Run {
    first: LeafId,
    dimension: Dimension,
    is_high: bool,
    /// The bound of each leaf within which all its queries hold, and where its ids end.
    leaves: Vec<(f64, usize)>,
    ids: Vec<SubscriptionId>,
}

impl Run {
    /// The range of the ids in words; None when the run is too short or the ids lie too far apart.
    fn words(&self) -> Option<(usize, usize)> {
        let (least, most) = (self.ids.iter().min()?.0, self.ids.iter().max()?.0);
        let (first, end) = (least / 64, most / 64 + 1);
        let is_dense = u32::try_from(most).is_ok() && (end - first) as usize * IDS_PER_WORD <= self.ids.len();
        (is_dense && self.leaves.len() >= LEAVES_MIN).then_some((first as usize, (end - first) as usize))
    }

    /// The number of leaves of a step, with bitmaps of so many words.
    fn step(&self, words: usize) -> usize {
        let steps = (WORDS_PER_ID * self.ids.len() / words).clamp(1, STEPS_MAX);
        self.leaves.len().div_ceil(steps).max(STEP_MIN)
    }

    /// The four words that describe the run.
    fn head(&self, (first_word, words): (usize, usize)) -> [u64; 4] {
        let pair = |low: usize, high: usize| low as u64 | (high as u64) << 32;
        let (attribute, kind) = self.dimension;
        [
            pair(self.first.index(), self.leaves.len()),
            pair(attribute.index(), kind as usize),
            pair(self.step(words), usize::from(self.is_high)),
            pair(first_word, words),
        ]
    }

    /// Append the bounds and the bitmaps of the whole steps.
    fn extend_steps(&self, (first_word, words): (usize, usize), out: &mut Vec<u64>) {
        let (count, step) = (self.leaves.len(), self.step(words));
        let of_leaf = |leaf: usize| {
            let start = leaf.checked_sub(1).map_or(0, |before| self.leaves[before].1);
            (self.leaves[leaf].0, &self.ids[start..self.leaves[leaf].1])
        };
        let mut bitmap = vec![0_u64; words];
        let (mut bounds, mut bitmaps) = (Vec::new(), Vec::new());
        let mut within = if self.is_high { f64::INFINITY } else { f64::NEG_INFINITY };
        for done in 0..count / step * step {
            let (bound, ids) = of_leaf(if self.is_high { count - 1 - done } else { done });
            within = if self.is_high { within.min(bound) } else { within.max(bound) };
            ids.iter().for_each(|id| bitmap[id.0 as usize / 64 - first_word] |= 1 << (id.0 % 64));
            if (done + 1).is_multiple_of(step) {
                bounds.push(within.to_bits());
                bitmaps.extend_from_slice(&bitmap);
            }
        }
        out.append(&mut bounds);
        out.append(&mut bitmaps);
    }
}

/// Collects the runs of a segment's leaves.
#[derive(Default)]
pub struct ThresholdBuilder {
    runs: Vec<Run>,
    is_open: bool,
}

impl ThresholdBuilder {
    /// End the run: the next leaf is that of another group.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_open) && self.runs.last().is_some_and(|run| run.words().is_none()) {
            self.runs.pop();
        }
    }

    /// Add a leaf, of queries with these `clauses` and `ids`.
    pub fn add<'q>(
        &mut self,
        leaf: LeafId,
        clauses: impl Iterator<Item = &'q Clauses>,
        ids: impl Iterator<Item = SubscriptionId>,
    ) {
        let join = |one: Threshold, other: Threshold| {
            let bound = if one.is_high { one.bound.min(other.bound) } else { one.bound.max(other.bound) };
            let is_alike = (one.dimension, one.is_high) == (other.dimension, other.is_high);
            is_alike.then_some(Threshold { bound, ..one })
        };
        let mut thresholds = clauses.map(Threshold::of);
        let first = thresholds.next().flatten();
        let all = first.and_then(|first| thresholds.try_fold(first, |all, one| join(all, one?)));
        let Some(Threshold { dimension, is_high, bound }) = all else { return self.end() };
        let is_next = |run: &Run| (run.dimension, run.is_high) == (dimension, is_high);
        if !self.is_open || !self.runs.last().is_some_and(is_next) {
            self.end();
            self.runs.push(Run { first: leaf, dimension, is_high, leaves: Vec::new(), ids: Vec::new() });
            self.is_open = true;
        }
        if let Some(run) = self.runs.last_mut() {
            run.ids.extend(ids);
            run.leaves.push((bound, run.ids.len()));
        }
    }

    /// The section.
    pub fn finish(mut self) -> Vec<u8> {
        self.end();
        let runs: Vec<_> = self.runs.iter().filter_map(|run| Some((run, run.words()?))).collect();
        let mut words = vec![runs.len() as u64];
        runs.iter().for_each(|(run, range)| words.extend(run.head(*range)));
        runs.iter().for_each(|(run, range)| run.extend_steps(*range, &mut words));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

//! Orders queries by their ranges: queries whose ranges one number lies in stand in the same leaf.
//!
//! A set of queries is cut by the attribute whose ranges part it best, and each piece again, until a piece fits into a leaf
//! (a bulk-loaded R-tree, as Leutenegger, Lopez, Edgington: "STR", 1997, with the attribute chosen by cost). The cost of a
//! piece is the number of its queries times the share of numbers that lie in the box of its ranges. Numbers are taken to be
//! distributed as bounds are.
//!
//! Where some intervals are far wider than others, the widest of a leaf spoils its box, wherever it lies. Such a piece is first
//! cut by width, when that saves much by an estimate of the boxes that cutting goes on to make.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::index::clause::{NumberKind, NumberRange};
use crate::index::ids::AttributeId;
use crate::index::leaf::query::LEAF_QUERIES;

use super::distribution::SortedBounds;
use super::sampling::sample_indices;

/// A piece is cut by the ranges of at most this many of its queries.
const SAMPLE: usize = 96;
/// The maximum number of bounds of an attribute that are looked at to see how bounds are distributed.
const BOUNDS_MAX: usize = 1_024;
/// A piece is cut only when that saves at least this share of its cost.
const GAIN_MIN: f64 = 1e-6;
/// A piece is cut by width only when its cost is estimated to fall to this share: with fewer queries of a width, leaves reach
/// further.
const WIDTH_GAIN: f64 = 0.75;
/// The shares of the narrower intervals by which a piece may be cut.
const NARROWER: [f64; 4] = [1.0 / 2.0, 3.0 / 4.0, 7.0 / 8.0, 15.0 / 16.0];
/// The minimum number of queries of a piece that is cut by width.
const WIDTH_MIN_QUERIES: usize = 16 * LEAF_QUERIES;
/// The width of a box of one number, as a share of all: no piece is free.
const WIDTH_MIN: f64 = 1e-9;
/// The queries of 64 leaves, whose boxes have a box around them.
const BLOCK: usize = 64 * LEAF_QUERIES;

/// An attribute with the kind of its numbers.
pub type Dimension = (AttributeId, NumberKind);

/// The range that one query demands of a number.
#[derive(Clone, Copy, Debug)]
struct PackedRange {
    dimension: Dimension,
    low: f64,
    high: f64,
}

/// Something with ranges, to be ordered.
#[derive(Debug)]
pub struct Packed<T> {
    /// The item.
    pub item: T,
    intervals: SmallVec<[PackedRange; 2]>,
}

impl<T> Packed<T> {
    /// `item`, which demands all of `ranges`.
    pub fn new(item: T, ranges: &[NumberRange]) -> Self {
        let mut intervals: SmallVec<[PackedRange; 2]> = SmallVec::new();
        for range in ranges.iter().filter(|range| !range.is_negated) {
            let dimension = (range.attribute, range.kind);
            match intervals.iter_mut().find(|interval| interval.dimension == dimension) {
                Some(known) => (known.low, known.high) = (known.low.max(range.low), known.high.min(range.high)),
                None => intervals.push(PackedRange { dimension, low: range.low, high: range.high }),
            }
        }
        Self { item, intervals }
    }

    /// The interval that it demands in `dimension`: its class, and its position among those of the class.
    fn key(&self, dimension: Dimension) -> (Class, f64) {
        let Some(PackedRange { low, high, .. }) = self.interval(dimension) else { return (Class::Unbounded, 0.0) };
        match (low.is_finite(), high.is_finite()) {
            (true, true) => (Class::Between, low / 2.0 + high / 2.0),
            (true, false) => (Class::Above, *low),
            (false, true) => (Class::Below, *high),
            (false, false) => (Class::Unbounded, 0.0),
        }
    }

    fn interval(&self, dimension: Dimension) -> Option<&PackedRange> {
        self.intervals.iter().find(|interval| interval.dimension == dimension)
    }
}

/// The sides on which an interval is bounded. Intervals of different classes share no box that is bounded on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Between,
    Above,
    Below,
    Unbounded,
}

fn by_key(a: (Class, f64), b: (Class, f64)) -> Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
}

/// How the numbers of one dimension are distributed.
struct Distribution {
    dimension: Dimension,
    bounds: SortedBounds,
}

impl Distribution {
    /// The share of numbers below `number`.
    fn below(&self, number: f64) -> f64 {
        self.bounds.below(number)
    }

    /// The share of numbers that `query` demands; 0 where it has no interval.
    fn share<T>(&self, query: &Packed<T>) -> f64 {
        query.interval(self.dimension).map_or(0.0, |interval| self.below(interval.high) - self.below(interval.low))
    }

    /// The share of numbers that lie in the box around `queries`.
    fn width<T>(&self, queries: &[&Packed<T>]) -> f64 {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for query in queries {
            let Some(interval) = query.interval(self.dimension) else { return 1.0 };
            (low, high) = (low.min(interval.low), high.max(interval.high));
        }
        (self.below(high) - self.below(low)).max(WIDTH_MIN)
    }
}

/// Order `queries` by their ranges.
///
/// Cost: linear in them, times the logarithm of the number of leaves.
pub fn pack<T>(queries: &mut [Packed<T>]) {
    if queries.len() <= LEAF_QUERIES {
        return;
    }
    let distributions = distributions(queries);
    pack_piece(queries, &distributions);
}

fn distributions<T>(queries: &[Packed<T>]) -> Vec<Distribution> {
    let mut all: Vec<(Dimension, Vec<f64>)> = Vec::new();
    let step = (queries.len() / BOUNDS_MAX).max(1);
    for interval in sample_indices(queries.len(), step).flat_map(|index| &queries[index].intervals) {
        let finite = [interval.low, interval.high].into_iter().filter(|bound| bound.is_finite());
        match all.iter_mut().find(|(dimension, _)| *dimension == interval.dimension) {
            Some((_, bounds)) => bounds.extend(finite),
            None => all.push((interval.dimension, finite.collect())),
        }
    }
    let known = all.into_iter().filter(|(_, bounds)| bounds.len() > 1);
    known.map(|(dimension, bounds)| Distribution { dimension, bounds: SortedBounds::new(bounds) }).collect()
}

fn pack_piece<T>(queries: &mut [Packed<T>], distributions: &[Distribution]) {
    if let Some((distribution, narrower)) = best_width_cut(queries, distributions) {
        let unit = if queries.len() > 2 * BLOCK { BLOCK } else { LEAF_QUERIES };
        let cut = (narrower * queries.len() as f64) as usize / unit * unit;
        queries.select_nth_unstable_by(cut, |a, b| distribution.share(a).total_cmp(&distribution.share(b)));
        let (narrow, wide) = queries.split_at_mut(cut);
        pack_piece(narrow, distributions);
        pack_piece(wide, distributions);
        return;
    }
    let Some(dimension) = best_dimension(queries, distributions) else { return };
    let key = |query: &Packed<T>| query.key(dimension);
    let mut counts = [0; 4];
    queries.iter().for_each(|query| counts[key(query).0 as usize] += 1);
    let (mut start, end) = (0, queries.len());
    for cut in cuts(counts, LEAF_QUERIES).into_iter().filter(|cut| *cut < end) {
        if cut > start {
            queries[start..].select_nth_unstable_by(cut - start, |a, b| by_key(key(a), key(b)));
            pack_piece(&mut queries[start..cut], distributions);
            start = cut;
        }
    }
    if start > 0 {
        pack_piece(&mut queries[start..], distributions);
    }
}

/// The positions at which queries are cut, from the number of each class: between classes, and in the middle of bounded ones.
/// Pieces are whole multiples of `unit`, and of blocks where they are large.
fn cuts(counts: [usize; 4], unit: usize) -> [usize; 7] {
    let mut cuts = [0; 7];
    let mut end = 0;
    for (class, count) in counts.into_iter().enumerate() {
        let unit = if count > 2 * BLOCK { BLOCK } else { unit };
        let round = |position: usize| (position + unit / 2) / unit * unit;
        if class < Class::Unbounded as usize {
            cuts[2 * class] = round(end + count / 2);
        }
        end += count;
        cuts[(2 * class + 1).min(6)] = round(end);
    }
    cuts
}

/// The dimension by which cutting saves the most; None when none saves anything.
fn best_dimension<T>(queries: &[Packed<T>], distributions: &[Distribution]) -> Option<Dimension> {
    if queries.len() <= LEAF_QUERIES {
        return None;
    }
    let step = (queries.len() / SAMPLE).max(1);
    let mut sample: Vec<_> = sample_indices(queries.len(), step).map(|index| &queries[index]).collect();
    let mut best: Option<(f64, f64, Dimension)> = None;
    for distribution in distributions {
        let Some((ratio, width)) = cost_of_cutting(&mut sample, distribution) else { continue };
        // Of equally good ones, the one that has been cut the least.
        if best.is_none_or(|(least, widest, _)| ratio < least - 1e-3 || ratio < least + 1e-3 && width > widest) {
            best = Some((ratio, width, distribution.dimension));
        }
    }
    best.filter(|(ratio, ..)| *ratio < 1.0 - GAIN_MIN).map(|(.., dimension)| dimension)
}

/// The cost of the pieces of `sample`, relative to that of the whole, and the width of the whole; None when nothing is cut.
fn cost_of_cutting<T>(sample: &mut [&Packed<T>], distribution: &Distribution) -> Option<(f64, f64)> {
    let mut counts = [0; 4];
    sample.iter().for_each(|query| counts[query.key(distribution.dimension).0 as usize] += 1);
    if counts[Class::Unbounded as usize] == sample.len() {
        return None;
    }
    sample.sort_by(|a, b| by_key(a.key(distribution.dimension), b.key(distribution.dimension)));
    let width = distribution.width(sample);
    let (mut start, mut cost) = (0, 0.0);
    for cut in cuts(counts, 1).into_iter().chain([sample.len()]) {
        if cut > start {
            cost += (cut - start) as f64 * distribution.width(&sample[start..cut]);
            start = cut;
        }
    }
    Some((cost / (sample.len() as f64 * width), width))
}

/// The attribute whose widths are best cut, and the share of the narrower ones; None when cutting by width saves too little.
fn best_width_cut<'d, T>(queries: &[Packed<T>], distributions: &'d [Distribution]) -> Option<(&'d Distribution, f64)> {
    if queries.len() < WIDTH_MIN_QUERIES {
        return None;
    }
    let step = (queries.len() / SAMPLE).max(1);
    let sample: Vec<_> = sample_indices(queries.len(), step).map(|index| &queries[index]).collect();
    let is_between = |known: &&Distribution| sample.iter().all(|query| query.key(known.dimension).0 == Class::Between);
    let bounded: Vec<_> = distributions.iter().filter(is_between).collect();
    let mut extents: Vec<Vec<Extent>> =
        sample.iter().map(|query| bounded.iter().map(|known| Extent::of(known, query)).collect()).collect();
    let count = queries.len() as f64;
    let mut best = (WIDTH_GAIN * cost_of_boxes(count, &extents), None);
    for (axis, distribution) in bounded.into_iter().enumerate() {
        extents.sort_by(|a, b| a[axis].width.total_cmp(&b[axis].width));
        for share in NARROWER {
            let (narrow, wide) = extents.split_at((share * extents.len() as f64) as usize);
            let cost = cost_of_boxes(share * count, narrow) + cost_of_boxes((1.0 - share) * count, wide);
            if cost < best.0 {
                best = (cost, Some((distribution, share)));
            }
        }
    }
    best.1
}

/// Where an interval lies, and how wide it is, both as shares of numbers.
#[derive(Clone, Copy)]
struct Extent {
    middle: f64,
    width: f64,
}

impl Extent {
    fn of<T>(distribution: &Distribution, query: &Packed<T>) -> Self {
        let middle = distribution.below(query.key(distribution.dimension).1);
        Self { middle, width: distribution.share(query) }
    }
}

/// An estimate of the number of leaves whose box holds a message, for `count` queries cut evenly by the middles of their
/// intervals, of which `sample` has those of each axis: a leaf is as wide as its part of the middles and its widest interval.
fn cost_of_boxes(count: f64, sample: &[Vec<Extent>]) -> f64 {
    let Some(axes) = sample.first().map(Vec::len) else { return 0.0 };
    let leaves = (count / LEAF_QUERIES as f64).max(1.0);
    let part = leaves.powf(-1.0 / axes as f64);
    let width = |axis: usize| {
        let (mut least, mut most, mut widest) = (f64::INFINITY, f64::NEG_INFINITY, 0.0_f64);
        for extent in sample.iter().map(|extents| extents[axis]) {
            (least, most, widest) = (least.min(extent.middle), most.max(extent.middle), widest.max(extent.width));
        }
        ((most - least) * part + widest).clamp(WIDTH_MIN, 1.0)
    };
    leaves * (0..axes).map(width).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn range(attribute: u32, low: f64, high: f64) -> NumberRange {
        let kind = NumberKind::Number;
        NumberRange { attribute: AttributeId(attribute), low, high, kind, is_negated: false }
    }

    /// The mean number of leaves whose box holds a point of the unit square.
    fn opened(queries: &[Packed<Vec<NumberRange>>], random: &mut Random) -> usize {
        let mut unit = || random.below(1_000_000) as f64 / 1e6;
        let points: Vec<_> = (0..100).map(|_| [unit(), unit()]).collect();
        let holds = |leaf: &[Packed<Vec<NumberRange>>], point: &[f64; 2]| {
            (0..2).all(|axis| {
                let ranges = || leaf.iter().map(|query| &query.item[axis]);
                ranges().any(|range| range.low <= point[axis]) && ranges().any(|range| range.high >= point[axis])
            })
        };
        let of = |point| queries.chunks(LEAF_QUERIES).filter(|leaf| holds(leaf, point)).count();
        points.iter().map(of).sum::<usize>() / points.len()
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn a_point_opens_few_leaves_of_rectangles() {
        let mut random = Random(5);
        let mut side = || random.below(1_000_000) as f64 / 1e6;
        let rectangles = (0..20_000).map(|_| {
            let (x, y) = (side(), side());
            vec![range(0, x, x + 0.01), range(1, y, y + 0.01)]
        });
        let mut queries: Vec<_> = rectangles.map(|ranges| Packed::new(ranges.clone(), &ranges)).collect();
        let before = opened(&queries, &mut Random(6));
        pack(&mut queries);
        let after = opened(&queries, &mut Random(6));
        assert!(before > 300 && after < 8, "{before} before, {after} after");
    }

    /// The mean number of leaves whose box holds a number.
    fn opened_by_number(queries: &[Packed<Vec<NumberRange>>], numbers: impl Iterator<Item = f64> + Clone) -> usize {
        let holds = |leaf: &[Packed<Vec<NumberRange>>], number: f64| {
            leaf.iter().any(|query| query.item[0].low <= number)
                && leaf.iter().any(|query| query.item[0].high >= number)
        };
        let of = |number| queries.chunks(LEAF_QUERIES).filter(|leaf| holds(leaf, number)).count();
        numbers.clone().map(of).sum::<usize>() / numbers.count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn a_number_opens_few_leaves_of_windows_of_very_different_widths() {
        let mut random = Random(8);
        let mut unit = || random.below(1_000_000) as f64 / 1e6;
        let mut windows = |count: usize, make: &dyn Fn(f64, f64) -> (f64, f64)| {
            let made = (0..count).map(|_| {
                let (low, high) = make(unit(), unit());
                vec![range(0, low, high)]
            });
            made.map(|ranges| Packed::new(ranges.clone(), &ranges)).collect::<Vec<_>>()
        };
        let numbers = (0..100).map(|number| f64::from(number) / 100.0 + 0.003);
        // Widths from a millionth of all numbers to all, each decade as often; windows in one another; one in a hundred wide.
        let log_uniform = windows(40_000, &|low, dice| (low, low + 10_f64.powf(-6.0 + 6.0 * dice)));
        let nested = windows(40_000, &|_, dice| (0.5 - dice / 2.0, 0.5 + dice / 2.0));
        let few_wide = windows(40_000, &|low, dice| (low, low + if dice < 0.01 { 0.5 } else { 1e-4 * dice }));
        for (name, mut queries, expected) in
            [("log-uniform", log_uniform, 90), ("nested", nested, 400), ("few wide", few_wide, 20)]
        {
            let matching = |number: f64| {
                queries.iter().filter(|query| query.item[0].low <= number && number <= query.item[0].high).count()
            };
            let matches = numbers.clone().map(matching).sum::<usize>() / 100;
            let before = opened_by_number(&queries, numbers.clone());
            pack(&mut queries);
            let after = opened_by_number(&queries, numbers.clone());
            println!("{name}: {matches} matches, {before} leaves before, {after} after");
            assert!(before > 600 && after < expected, "{name}: {matches} matches, {before} before, {after} after");
        }
    }

    #[test]
    fn queries_are_ordered_and_none_is_lost() {
        let mut random = Random(7);
        let mut queries: Vec<_> = (0..1_000)
            .map(|number| {
                let low = random.below(100) as f64;
                let bounds = [(low, low + 3.0), (low, f64::INFINITY), (f64::NEG_INFINITY, low), (low, low)];
                let (low, high) = bounds[random.below(4)];
                let ranges = [range(random.below(3) as u32, low, high), range(3, low, high)];
                Packed::new(number, &ranges[..random.below(3)])
            })
            .collect();
        pack(&mut queries);
        let mut numbers: Vec<i32> = queries.iter().map(|query| query.item).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1_000));
    }
}

//! The numbers of a leaf: what its queries' bounds say of a message's number, all of an attribute side by side.
//!
//! ```text
//! column  attribute (32 bits) and flags (32); who asks; with HULL: the lowest and the highest bound; the low bounds, then
//!         the high ones, of those who ask, or, with DENSE, of all queries
//! ```
//! Bounds are floats of eight bytes. Those of most queries are whole numbers; with WHOLE they are their *places* in four
//! bytes, two a word, of which twice as many are compared at once: the whole number n has place 2n, and all that lies
//! between n and n + 1 has place 2n + 1.

use crate::index::compile::clauses::Range;
use crate::index::compile::interner::AttributeId;
use crate::index::leaf::{LEAF, LeafQuery, Word, encode_pairs, flags_of, word};
use crate::index::matching::scratch::{Code, Codes};

/// 64 times as many columns still fit into their count.
pub const RANGES_MAX: usize = 3;

const TIME: u64 = 1;
const NEGATED: u64 = 2;
const DENSE: u64 = 4;
const HULL: u64 = 8;
const WHOLE: u64 = 16;
/// The bounds of so many queries are worth saying where all of them lie.
const HULL_MIN: usize = 8;

/// The largest whole number that has a place, and less its sign the smallest.
const WHOLE_MAX: f64 = ((1 << 30) - 1) as f64;
/// The place of what is below all of these,
const LOWEST: i32 = i32::MIN + 1;
/// of what is above all of them,
const HIGHEST: i32 = i32::MAX;
/// and of what is no number, which is not between any bounds.
const NOWHERE: i32 = i32::MIN;

/// A number of a message, or an instant.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    exact: f64,
    place: i32,
}

impl Number {
    /// No number: between no bounds.
    pub const NONE: Self = Self { exact: f64::NAN, place: NOWHERE };
}

impl From<f64> for Number {
    fn from(exact: f64) -> Self {
        let floor = exact.floor();
        let place = 2.0 * floor + f64::from(u8::from(floor != exact));
        #[expect(clippy::cast_possible_truncation, reason = "a whole number between two that fit")]
        let place = if exact.is_nan() { NOWHERE } else { place.clamp(LOWEST.into(), HIGHEST.into()) as i32 };
        Self { exact, place }
    }
}

/// The place of a whole number.
fn whole_place(number: f64) -> Option<i32> {
    let is_whole = number.abs() <= WHOLE_MAX && number.floor() == number;
    is_whole.then(|| Number::from(number).place)
}

/// The first place of the numbers from `low` on; None when such places hold lower ones too.
fn low_place(low: f64) -> Option<i32> {
    if low == f64::NEG_INFINITY {
        return Some(LOWEST);
    }
    whole_place(low).or_else(|| whole_place(low.next_down()).map(|place| place + 1))
}

/// The last place of the numbers up to `high`; None when such places hold higher ones too.
fn high_place(high: f64) -> Option<i32> {
    if high == f64::INFINITY {
        return Some(HIGHEST);
    }
    whole_place(high).or_else(|| whole_place(high.next_up()).map(|place| place - 1))
}

/// Ranges of one attribute and kind, at most one of a query, whose bit comes first.
pub struct Column<'q> {
    head: u64,
    ranges: Vec<(u64, &'q Range)>,
}

/// The columns of `queries`, each with its bit. Of several ranges that one has there, each has a column of its own.
pub fn columns<'a, 'q: 'a>(queries: impl Iterator<Item = (u64, &'a LeafQuery<'q>)>) -> Vec<Column<'q>> {
    let mut columns: Vec<Column<'q>> = Vec::new();
    for (bit, query) in queries {
        for range in query.ranges.iter().take(RANGES_MAX) {
            let flags = flags_of([(range.is_time, TIME), (range.is_negated, NEGATED)]);
            let head = u64::from(range.attribute) | flags << 32;
            let is_free = |column: &&mut Column<'_>| {
                column.head == head && column.ranges.last().is_none_or(|(last, _)| *last != bit)
            };
            match columns.iter_mut().find(is_free) {
                Some(column) => column.ranges.push((bit, range)),
                None => columns.push(Column { head, ranges: vec![(bit, range)] }),
            }
        }
    }
    columns
}

impl Column<'_> {
    /// Append it to `words`, in a leaf of `count` queries.
    pub fn encode(&self, count: usize, words: &mut Vec<u64>) {
        let who = self.ranges.iter().fold(0, |mask, (bit, _)| mask | bit);
        let is_dense = self.ranges.len() * 2 >= count;
        let has_hull = self.ranges.len() >= HULL_MIN;
        let places: Option<Vec<_>> =
            self.ranges.iter().map(|(_, range)| low_place(range.low).zip(high_place(range.high))).collect();
        let flags = flags_of([(is_dense, DENSE), (has_hull, HULL), (places.is_some(), WHOLE)]);
        words.extend([self.head | flags << 32, who]);
        let seat_count = if is_dense { count } else { self.ranges.len() };
        if let Some(places) = places {
            let append = |bounds: &[i32]| encode_pairs(bounds.iter().map(|bound| bound.cast_unsigned()), words);
            self.encode_bounds(&places, seat_count, has_hull, append);
        } else {
            let exact: Vec<_> = self.ranges.iter().map(|(_, range)| (range.low, range.high)).collect();
            let append = |bounds: &[f64]| words.extend(bounds.iter().map(|bound| bound.to_bits()));
            self.encode_bounds(&exact, seat_count, has_hull, append);
        }
    }

    /// Hand the hull, the low bounds and the high ones of `each` to `append`. With more seats than ranges they lie at the
    /// places of their queries, be some of no use: all are then compared at once.
    fn encode_bounds<B: Copy + Default + PartialOrd>(
        &self,
        each: &[(B, B)],
        seat_count: usize,
        has_hull: bool,
        mut append: impl FnMut(&[B]),
    ) {
        let wider = |all: (B, B), one: (B, B)| {
            (if one.0 < all.0 { one.0 } else { all.0 }, if one.1 > all.1 { one.1 } else { all.1 })
        };
        if let Some((low, high)) = each.iter().copied().reduce(wider).filter(|_| has_hull) {
            append(&[low, high]);
        }
        let (mut lows, mut highs) = ([B::default(); LEAF], [B::default(); LEAF]);
        for (place, ((bit, _), (low, high))) in self.ranges.iter().zip(each).enumerate() {
            let seat = if seat_count > each.len() { bit.trailing_zeros() as usize } else { place };
            (lows[seat], highs[seat]) = (*low, *high);
        }
        append(&lows[..seat_count]);
        append(&highs[..seat_count]);
    }
}

/// A column as it lies in memory.
pub struct ColumnView<'a> {
    words: &'a [Word],
    head: u64,
    who: u64,
    /// How many words the bounds of each kind have, where they begin, and where they end.
    size: usize,
    start: usize,
    /// Where the next column begins.
    pub end: usize,
}

impl<'a> ColumnView<'a> {
    /// The column at `at` in a leaf of `queries`.
    #[inline(always)]
    pub fn new(words: &'a [Word], at: usize, queries: usize) -> Option<Self> {
        let (head, who) = (word(words, at)?, word(words, at + 1)?);
        let flags = head >> 32;
        let count = if flags & DENSE != 0 { queries } else { who.count_ones() as usize };
        let is_whole = flags & WHOLE != 0;
        let size = if is_whole { count.div_ceil(2) } else { count };
        let hull = if flags & HULL == 0 { 0 } else { 2 - usize::from(is_whole) };
        let start = at + 2 + hull;
        Some(Self { words, head, who, size, start, end: start + 2 * size })
    }

    /// The queries whose range holds, or that have none. Of a list nothing is known: `verify`.
    #[inline(always)]
    pub fn within(&self, alive: u64, codes: &Codes, verify: &mut u64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "the low 32 bits")]
        let (attribute, flags) = (self.head as AttributeId, self.head >> 32);
        if matches!(codes.get(attribute)?, Code::List) {
            *verify |= self.who;
            return Some(u64::MAX);
        }
        let number = codes.number(attribute, flags & TIME != 0)?;
        let between = if flags & WHOLE != 0 {
            self.between(number.place, i32::from_le_bytes, alive)?
        } else {
            self.between(number.exact, f64::from_le_bytes, alive)?
        };
        Some(!self.who | if flags & NEGATED != 0 { !between } else { between })
    }

    /// Those of `alive` between whose bounds `number` is. Where like bounds lie together, most leaves are done with after
    /// one look at all of them together.
    #[inline(always)]
    fn between<T: PartialOrd + Copy, const BYTES: usize>(
        &self,
        number: T,
        read: impl Fn([u8; BYTES]) -> T,
        alive: u64,
    ) -> Option<u64> {
        let flags = self.head >> 32;
        let numbers = |from: usize, to: usize| Some(self.words.get(from..to)?.as_flattened().as_chunks::<BYTES>().0);
        let holds = |low: &[u8; BYTES], high: &[u8; BYTES]| (number >= read(*low)) & (number <= read(*high));
        if flags & HULL != 0 {
            // The last two before the bounds.
            let [.., low, high] = numbers(self.start - 2, self.start)? else { return None };
            if !holds(low, high) {
                return Some(0);
            }
        }
        let middle = self.start + self.size;
        let (low, high) = (numbers(self.start, middle)?, numbers(middle, self.end)?);
        let mut between = 0;
        if flags & DENSE != 0 {
            for (place, (low, high)) in low.iter().zip(high).enumerate() {
                between |= u64::from(holds(low, high)) << (place % LEAF);
            }
            return Some(between);
        }
        let mut asking = self.who & alive;
        while asking != 0 {
            let bit = asking & asking.wrapping_neg();
            asking ^= bit;
            let seat = (self.who & (bit - 1)).count_ones() as usize;
            between |= if holds(&low[seat], &high[seat]) { bit } else { 0 };
        }
        Some(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f64; 23] = [
        f64::NEG_INFINITY,
        -1e300,
        -1_073_741_825.0,
        -1_073_741_824.0,
        -1_073_741_823.5,
        -1_073_741_823.0,
        -7.0,
        -1.5,
        -1.0,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        0.5,
        1.0,
        41.999_999_999,
        42.0,
        1_073_741_822.5,
        1_073_741_823.0,
        1_073_741_823.5,
        1_073_741_824.0,
        9_007_199_254_740_992.0,
        f64::INFINITY,
    ];

    fn around() -> impl Iterator<Item = f64> + Clone {
        NUMBERS.iter().flat_map(|number| [number.next_down(), *number, number.next_up()])
    }

    #[test]
    fn places_compare_as_numbers_do() {
        let mut with_place = 0;
        for bound in around() {
            for number in around() {
                let Number { exact, place } = Number::from(number);
                if let Some(low) = low_place(bound) {
                    assert_eq!(place >= low, exact >= bound, "{number:?} >= {bound:?}");
                    with_place += 1;
                }
                if let Some(high) = high_place(bound) {
                    assert_eq!(place <= high, exact <= bound, "{number:?} <= {bound:?}");
                    with_place += 1;
                }
            }
        }
        assert!(with_place > 2_000, "{with_place}");
        for bound in around() {
            for nothing in [Number::NONE, Number::from(f64::NAN)] {
                assert!(low_place(bound).is_none_or(|low| nothing.place < low), "{bound:?}");
            }
        }
    }

    #[test]
    fn bounds_between_whole_numbers_and_very_large_ones_have_no_place() {
        for bound in [0.5, -1.25, 42.000_001, 1_073_741_824.0, -1e18, f64::NAN] {
            assert_eq!((low_place(bound), high_place(bound)), (None, None), "{bound}");
        }
        assert_eq!((low_place(42.0), high_place(42.0)), (Some(84), Some(84)));
        assert_eq!((low_place(42_f64.next_up()), high_place(42_f64.next_down())), (Some(85), Some(83)));
        assert_eq!((low_place(42_f64.next_down()), high_place(42_f64.next_up())), (None, None));
        assert_eq!((low_place(f64::NEG_INFINITY), high_place(f64::INFINITY)), (Some(LOWEST), Some(HIGHEST)));
        assert_eq!((low_place(f64::INFINITY), high_place(f64::NEG_INFINITY)), (None, None));
    }

    /// Dense and sparse, of few and of many, of whole numbers and of others.
    #[test]
    fn a_column_says_what_comparing_with_each_range_says() {
        let mut state = 11_u64;
        let mut dice = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for round in 0..crate::testing::or_few(400, 40) {
            let count = 1 + dice(LEAF);
            let (is_whole, is_negated, sparse) = (round % 3 != 0, round % 5 == 0, 1 + dice(4));
            let ranges: Vec<_> = (0..count)
                .map(|_| {
                    let mut bound = || dice(20) as f64 + if is_whole { 0.0 } else { 0.25 };
                    let (one, other) = (bound(), bound());
                    let low = [one.min(other), one.min(other).next_up(), f64::NEG_INFINITY][dice(3)];
                    let high = [one.max(other), one.max(other).next_down(), f64::INFINITY][dice(3)];
                    (dice(sparse) == 0).then_some([Range { attribute: 1, low, high, is_time: false, is_negated }])
                })
                .collect();
            let of = |range: &'_ Option<[Range; 1]>| range.as_ref().map_or(&[][..], |range| &range[..]).to_vec();
            let owned: Vec<Vec<Range>> = ranges.iter().map(of).collect();
            let queries: Vec<_> = owned.iter().map(|ranges| LeafQuery { ranges, ..LeafQuery::default() }).collect();
            let columns = columns((0..LEAF).map(|place| 1_u64 << place).zip(&queries));
            let mut words = vec![7];
            columns.iter().for_each(|column| column.encode(count, &mut words));
            let words: Vec<Word> = words.iter().map(|word| word.to_le_bytes()).collect();
            for number in (0..84).map(|quarters| f64::from(quarters) / 4.0).chain([f64::NAN]) {
                let mut codes = Codes::default();
                codes.begin(2);
                codes.set_number(1, false, number);
                let Some(column) = columns.first() else { continue };
                let view = ColumnView::new(&words, 1, count).expect("whole");
                assert_eq!(view.end, words.len(), "one column of {} ranges", column.ranges.len());
                let mut verify = 0;
                let within = view.within(u64::MAX, &codes, &mut verify).expect("whole");
                for (place, ranges) in owned.iter().enumerate() {
                    let holds =
                        ranges.iter().all(|range| (number >= range.low && number <= range.high) != range.is_negated);
                    assert_eq!(within >> place & 1 == 1, holds, "{number} of {ranges:?}");
                }
                assert_eq!(verify, 0);
            }
        }
    }
}

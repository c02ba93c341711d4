//! Scattered bounds: ranges of different attributes side by side, at most one of each query.
//!
//! A leaf of queries that ask about many attributes would have bounds of one or two ranges each, and reading a head takes
//! longer than comparing these. So each range has a head of its own:
//! ```text
//! heads   of each range, four bytes: the place of its number among the near numbers of a message
//! limits  of each range, four bytes: a number is above the low bound when its near number is above this, and not when it
//!         is below; where they are equal, the exact bound decides
//! exact   of each range, eight bytes: its low bound
//! ```
//! Limits and exact bounds of the other side follow those of the first. A *near number* is the upper half of a float, ordered
//! as the floats are. One-sided ranges with a high bound compare the negative number with the negative bound, so that they
//! lie beside those with a low bound; heads, limits and bounds of one side are enough then.

use crate::index::clause::{NumberKind, NumberRange};
use crate::index::ids::AttributeId;
use crate::index::layout::bytes::{NumberBytes, WordBytes, extend_pairs, ones};
use crate::index::layout::cpu::WideWork;

use super::message_codes::{AttributeCode, MessageCodes};
use super::query::LEAF_QUERIES;

/// The near numbers of an attribute: of each kind, that of the number and that of its negative.
pub const NEAR_NUMBERS: usize = 2 * NumberKind::COUNT;
/// What is near no number.
pub const NOT_NEAR: i32 = i32::MIN;
/// Where at most one in so many is asked about, they are found one by one.
const FEW: u32 = 3;

/// The near number of `number`, and that of its negative.
#[inline(always)]
pub fn near(number: f64) -> [i32; 2] {
    if number.is_nan() { [NOT_NEAR; 2] } else { [half(number), !half(number)] }
}

/// The upper half of `number`, ordered as the numbers are.
#[inline(always)]
fn half(number: f64) -> i32 {
    (ordered(number) >> 32) as i32
}

/// `number` as an integer, ordered as the numbers are.
#[inline(always)]
fn ordered(number: f64) -> i64 {
    let bits = (number + 0.0).to_bits().cast_signed(); // of the two zeros, the positive one
    bits ^ (bits >> 63 & i64::MAX)
}

/// True when `range` is open on one side.
pub fn is_one_sided(range: &NumberRange) -> bool {
    range.low == f64::NEG_INFINITY || range.high == f64::INFINITY
}

/// The number of words of `count` ranges that are all bounded on `sides` sides.
#[inline(always)]
pub fn word_count(count: usize, sides: usize) -> usize {
    count.div_ceil(2) * (1 + sides) + count * sides
}

/// Append `ranges`, which are all open on one side, or all on none.
pub fn encode<'r>(ranges: impl Iterator<Item = &'r NumberRange> + Clone, words: &mut Vec<u64>) {
    let is_one_sided = ranges.clone().all(is_one_sided);
    let is_negative = |range: &NumberRange| is_one_sided && range.high != f64::INFINITY;
    let heads = ranges.clone().map(|range| {
        let place = range.attribute.0 as usize * NEAR_NUMBERS + range.kind as usize * 2;
        (place + usize::from(is_negative(range))) as u32
    });
    extend_pairs(words, heads);
    let low_limits =
        ranges.clone().map(|range| if is_negative(range) { !high_limit(range.high) } else { low_limit(range.low) });
    extend_pairs(words, low_limits.map(i32::cast_unsigned));
    words.extend(ranges.clone().map(|range| if is_negative(range) { -range.high } else { range.low }.to_bits()));
    if !is_one_sided {
        extend_pairs(words, ranges.clone().map(|range| high_limit(range.high).cast_unsigned()));
        words.extend(ranges.map(|range| range.high.to_bits()));
    }
}

/// What is near a number from `low` on is above this, or equal to it.
fn low_limit(low: f64) -> i32 {
    // If `low` is the first number of its near number, then all others with it are above.
    half(low) - i32::from(ordered(low) & i64::from(u32::MAX) == 0)
}

/// What is near a number up to `high` is below this, or equal to it.
fn high_limit(high: f64) -> i32 {
    half(high) + i32::from(ordered(high) & i64::from(u32::MAX) == i64::from(u32::MAX))
}

/// The limits and the exact bounds of one side.
struct Side<'a> {
    limits: &'a [NumberBytes],
    exact: &'a [WordBytes],
}

impl Side<'_> {
    #[inline(always)]
    fn limit(&self, seat: usize) -> i32 {
        i32::from_le_bytes(self.limits[seat])
    }

    #[inline(always)]
    fn exact(&self, seat: usize) -> f64 {
        f64::from_le_bytes(self.exact[seat])
    }
}

/// Scattered bounds as they lie in memory, and a message.
pub struct ScatteredView<'a, 'm> {
    heads: &'a [NumberBytes],
    low: Side<'a>,
    high: Option<Side<'a>>,
    /// The queries that have a range.
    who: u64,
    /// The queries that are asked about.
    alive: u64,
    codes: &'m MessageCodes,
}

impl<'a, 'm> ScatteredView<'a, 'm> {
    /// The bounds in `words`, of the queries `who`, bounded on `sides` sides.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes], sides: usize, who: u64, alive: u64, codes: &'m MessageCodes) -> Option<Self> {
        let count = who.count_ones() as usize;
        let pairs = count.div_ceil(2);
        let numbers = |from: usize| words.get(from..from + pairs)?.as_flattened().as_chunks().0.get(..count);
        let side = |from: usize| {
            let exact = words.get(from + pairs..from + pairs + count)?;
            Some(Side { limits: numbers(from)?, exact })
        };
        let high = if sides == 2 { Some(side(2 * pairs + count)?) } else { None };
        Some(Self { heads: numbers(0)?, low: side(pairs)?, high, who, alive, codes })
    }

    /// The place of the number that the range in `seat` is about.
    #[inline(always)]
    fn place(&self, seat: usize) -> usize {
        u32::from_le_bytes(self.heads[seat]) as usize
    }

    /// The near number that the range in `seat` is about. What is none of the segment's attributes has no number: a leaf has
    /// passed its checksum, or is from a builder.
    #[inline(always)]
    fn near(&self, near: &[i32], seat: usize) -> i32 {
        near[self.place(seat).min(near.len() - 1)]
    }

    /// The attribute and the kind of the range in `seat`, and whether it is about the negative number.
    fn about(&self, seat: usize) -> Option<(AttributeId, NumberKind, bool)> {
        let place = self.place(seat);
        let kind = *NumberKind::ALL.get(place % NEAR_NUMBERS / 2)?;
        Some((AttributeId((place / NEAR_NUMBERS) as u32), kind, place % 2 == 1))
    }

    /// Whether the range in `seat` holds `number`, and not what is merely near.
    fn holds(&self, seat: usize, number: f64, is_negative: bool) -> bool {
        let number = if is_negative { -number } else { number };
        number >= self.low.exact(seat) && self.high.as_ref().is_none_or(|high| number <= high.exact(seat))
    }

    /// Whether the range in `seat` holds the number of its attribute.
    #[cold]
    fn holds_exactly(&self, seat: usize) -> Option<bool> {
        let (attribute, kind, is_negative) = self.about(seat)?;
        Some(self.holds(seat, self.codes.number(attribute, kind)?.exact, is_negative))
    }

    /// The queries whose range holds, of all that have one. `compare` says of a seat and a near number whether the range
    /// holds, and whether the exact bounds have to say so. To read all numbers first, and to compare them then, lets the
    /// processor compare eight at once.
    #[inline(always)]
    fn all(&self, near: &[i32], compare: impl Fn(usize, i32) -> (bool, bool)) -> Option<u64> {
        let count = self.heads.len().min(LEAF_QUERIES);
        let (mut own, mut holding, mut is_unsure) = ([NOT_NEAR; LEAF_QUERIES], [0; LEAF_QUERIES], 0);
        own.iter_mut().zip(0..count).for_each(|(own, seat)| *own = self.near(near, seat));
        for seat in 0..count {
            let (holds, unsure) = compare(seat, own[seat]);
            holding[seat] = u8::from(holds);
            is_unsure |= u8::from(unsure);
        }
        let mut holding = bits_of(&holding);
        if is_unsure != 0 {
            for (seat, own) in own.into_iter().enumerate().take(count) {
                if compare(seat, own).1 && self.holds_exactly(seat)? {
                    holding |= 1 << seat;
                }
            }
        }
        Some(spread(holding, self.who))
    }

    /// The same of those that are asked about, if these are few.
    #[inline(always)]
    fn some(&self, near: &[i32], compare: impl Fn(usize, i32) -> (bool, bool)) -> Option<u64> {
        let (mut holding, mut asking) = (0, self.who & self.alive);
        while asking != 0 {
            let bit = asking & asking.wrapping_neg();
            asking ^= bit;
            let seat = (self.who & (bit - 1)).count_ones() as usize;
            if seat >= self.heads.len() {
                return None;
            }
            let (holds, unsure) = compare(seat, self.near(near, seat));
            holding |= bit & u64::from(holds).wrapping_neg(); // a branch would be guessed wrong half of the time
            if unsure && self.holds_exactly(seat)? {
                holding |= bit;
            }
        }
        Some(holding)
    }

    /// The queries that are asked about and whose range holds, where some attributes are lists.
    #[cold]
    fn of_lists(&self) -> Option<u64> {
        let mut holding = 0;
        for (seat, bit) in ones(self.who).enumerate().filter(|(_, bit)| self.alive >> bit & 1 == 1) {
            let (attribute, kind, is_negative) = self.about(seat)?;
            let is_true = match self.codes.get(attribute)? {
                AttributeCode::List(..) => {
                    let mut numbers = self.codes.element_numbers(attribute, kind).iter();
                    numbers.any(|number| self.holds(seat, number.number.exact, is_negative))
                }
                _ => self.holds(seat, self.codes.number(attribute, kind)?.exact, is_negative),
            };
            holding |= u64::from(is_true) << bit;
        }
        Some(holding)
    }
}

impl WideWork for ScatteredView<'_, '_> {
    type Output = Option<u64>;

    /// The queries that are asked about and whose range holds; of the others, any.
    #[inline(always)]
    fn run(self) -> Option<u64> {
        if self.codes.has_lists() {
            return self.of_lists();
        }
        let near = self.codes.near();
        let is_few = (self.who & self.alive).count_ones() * FEW <= self.heads.len() as u32;
        match &self.high {
            None => {
                let compare = |seat: usize, near: i32| (near > self.low.limit(seat), near == self.low.limit(seat));
                if is_few { self.some(near, compare) } else { self.all(near, compare) }
            }
            Some(high) => {
                let compare = |seat: usize, near: i32| {
                    let (low, high) = (self.low.limit(seat), high.limit(seat));
                    ((near > low) & (near < high), (near == low) | (near == high))
                };
                if is_few { self.some(near, compare) } else { self.all(near, compare) }
            }
        }
    }
}

/// A bit for each of `bytes`, which are 0 or 1.
#[inline(always)]
fn bits_of(bytes: &[u8; LEAF_QUERIES]) -> u64 {
    let mut bits = 0;
    for (at, eight) in bytes.as_chunks().0.iter().enumerate() {
        // The product has the eight lowest bits side by side at its top.
        bits |= (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
    }
    bits
}

/// The lowest bits of `bits`, one at each bit of `mask`.
#[inline(always)]
fn spread(bits: u64, mask: u64) -> u64 {
    if mask & mask.wrapping_add(1) == 0 {
        return bits & mask; // already there
    }
    let (mut spread, mut bits) = (0, bits);
    for bit in ones(mask) {
        spread |= (bits & 1) << bit;
        bits >>= 1;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f64; 19] = [
        f64::NEG_INFINITY,
        f64::MIN,
        -1e9,
        -2.5,
        -1.0,
        -1e-300,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        0.1,
        1.0,
        4.0,
        4.000_000_001,
        1_048_575.5,
        9_007_199_254_740_992.0,
        1e300,
        f64::MAX,
        f64::INFINITY,
    ];

    fn around() -> impl Iterator<Item = f64> + Clone {
        NUMBERS.into_iter().flat_map(|number| [number.next_down(), number, number.next_up()])
    }

    #[test]
    fn bytes_become_bits() {
        let mut random = crate::testing::Random(3);
        for _ in 0..100 {
            let bytes = std::array::from_fn(|_| random.below(2) as u8);
            let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 1 | u64::from(*byte));
            assert_eq!(bits_of(&bytes), bits);
        }
    }

    /// What a limit says for sure is so, whatever the sign.
    #[test]
    fn limits_say_nothing_false() {
        let mut decided = 0;
        for bound in around() {
            for number in around() {
                let [positive, negative] = near(number);
                let says = |limit: i32, near: i32, is_so: bool| {
                    assert!(near == limit || (near > limit) == is_so, "{number:?} and {bound:?}");
                    usize::from(near != limit)
                };
                decided += says(low_limit(bound), positive, number >= bound);
                decided += says(!high_limit(bound), negative, -number >= -bound);
                assert!(positive == high_limit(bound) || (positive < high_limit(bound)) == (number <= bound));
            }
            for limit in [low_limit(bound), !high_limit(bound)] {
                assert!(near(f64::NAN).iter().all(|nothing| *nothing < limit), "{bound:?}");
            }
        }
        assert!(decided * 10 > around().count().pow(2) * 2 * 8, "{decided}");
    }
}

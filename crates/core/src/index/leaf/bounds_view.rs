//! The bounds of one attribute and kind as they lie in memory, and the queries that hold for a message's number.

use crate::index::clause::NumberKind;
use crate::index::ids::AttributeId;
use crate::index::layout::bytes::{WordBytes, halves, ones, word};
use crate::index::layout::cpu::at_full_width;

use super::bounds::{DAY, DENSE, HIGH_ONLY, HULL, LOW_ONLY, NEGATED, SCATTERED, TIME, WHOLE};
use super::message_codes::{AttributeCode, ElementNumber, ListKind, MessageCodes};
use super::number::MessageNumber;
use super::query::LEAF_QUERIES;
use super::scattered::{self, ScatteredView};

/// The bounds of one attribute and kind.
pub struct BoundsView<'a> {
    words: &'a [WordBytes],
    head: u64,
    /// The queries that have a range.
    pub who: u64,
    /// The number of words of the low bounds, and of the high ones.
    size: usize,
    /// The offset at which the bounds start, the low ones first.
    start: usize,
    /// The offset at which the bounds end, and the next ones start.
    pub end: usize,
}

impl<'a> BoundsView<'a> {
    /// The bounds at `at` in a leaf of `queries` queries.
    #[inline(always)]
    pub fn new(words: &'a [WordBytes], at: usize, queries: usize) -> Option<Self> {
        let (head, who) = (word(words, at)?, word(words, at + 1)?);
        let flags = head >> 32;
        let count = if flags & DENSE != 0 { queries } else { who.count_ones() as usize };
        let is_whole = flags & WHOLE != 0;
        let size = if is_whole { count.div_ceil(2) } else { count };
        let hull = if flags & HULL == 0 { 0 } else { 4 >> usize::from(is_whole) };
        let start = at + 2 + hull;
        let sides = if flags & (LOW_ONLY | HIGH_ONLY) == 0 { 2 } else { 1 };
        let own = if flags & SCATTERED == 0 { sides * size } else { scattered::word_count(count, sides) };
        Some(Self { words, head, who, size, start, end: start + own })
    }

    /// The queries whose range holds, or that have none. A range holds of a list when it holds of some element. Where that
    /// would have to hold of none and some may be unknown, the queries that ask are added to `undecided`.
    #[inline(always)]
    pub fn within(&self, alive: u64, codes: &MessageCodes, undecided: &mut u64) -> Option<u64> {
        let (attribute, flags) = halves(self.head);
        let (attribute, flags) = (AttributeId(attribute), u64::from(flags));
        if flags & SCATTERED != 0 {
            let words = self.words.get(self.start..self.end)?;
            let sides = if flags & LOW_ONLY == 0 { 2 } else { 1 };
            // Apart from the code that scans most leaves.
            return Some(!self.who | at_full_width(ScatteredView::new(words, sides, self.who, alive, codes)?)?);
        }
        if let AttributeCode::List(_, kind) = codes.get(attribute)? {
            if flags & NEGATED != 0 && kind == ListKind::Mixed {
                *undecided |= self.who;
                return Some(u64::MAX);
            }
            let numbers = codes.element_numbers(attribute, kind_of(flags));
            let between = self.between_some(numbers, flags & WHOLE != 0, alive)?;
            return Some(!self.who | if flags & NEGATED != 0 { !between } else { between });
        }
        let number = codes.number(attribute, kind_of(flags))?;
        let between = if flags & HIGH_ONLY != 0 && number.exact.is_nan() {
            0 // the rank of no number is below all others
        } else if flags & WHOLE != 0 {
            self.between(number.rank, i32::from_le_bytes, alive)?
        } else {
            self.between(number.exact, f64::from_le_bytes, alive)?
        };
        Some(!self.who | if flags & NEGATED != 0 { !between } else { between })
    }

    /// The queries of `alive` whose bounds hold one of `numbers`. Cost: for each, logarithmic in the numbers.
    #[cold]
    fn between_some(&self, numbers: &[ElementNumber], is_whole: bool, alive: u64) -> Option<u64> {
        if is_whole {
            self.hold_some(numbers, |number| number.rank, i32::from_le_bytes, alive)
        } else {
            self.hold_some(numbers, |number| number.exact, f64::from_le_bytes, alive)
        }
    }

    fn hold_some<T: PartialOrd + Copy, const BYTES: usize>(
        &self,
        numbers: &[ElementNumber],
        own: impl Fn(MessageNumber) -> T,
        read: impl Fn([u8; BYTES]) -> T,
        alive: u64,
    ) -> Option<u64> {
        let (low, high) = (self.column::<BYTES>(HIGH_ONLY)?, self.column::<BYTES>(LOW_ONLY)?);
        let mut holding = 0;
        for bit in ones(self.who & alive) {
            let before = if self.head >> 32 & DENSE != 0 { u64::MAX } else { self.who };
            let seat = (before & ((1 << bit) - 1)).count_ones() as usize;
            let bound = |column: Option<&[[u8; BYTES]]>| column.map(|bounds| bounds.get(seat).copied().map(&read));
            let (low, high) = (bound(low), bound(high));
            if low == Some(None) || high == Some(None) {
                return None;
            }
            let first = low.flatten().map_or(0, |low| numbers.partition_point(|number| own(number.number) < low));
            let is_below = |number: &ElementNumber| high.flatten().is_none_or(|high| own(number.number) <= high);
            let holds = numbers.get(first).is_some_and(is_below);
            holding |= u64::from(holds) << bit;
        }
        Some(holding)
    }

    /// The bounds of one side, None when all of them are open; `other_only` is the flag that says so.
    #[inline(always)]
    fn column<const BYTES: usize>(&self, other_only: u64) -> Option<Option<&'a [[u8; BYTES]]>> {
        let flags = self.head >> 32;
        if flags & other_only != 0 {
            return Some(None);
        }
        let from = self.start + if other_only == HIGH_ONLY || flags & HIGH_ONLY != 0 { 0 } else { self.size };
        Some(Some(self.words.get(from..from + self.size)?.as_flattened().as_chunks::<BYTES>().0))
    }

    /// The queries of `alive` whose bounds hold `number`. Where similar bounds lie together, the hull alone decides most
    /// leaves, and the bounds between which all hold decide most others.
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
            // The last four before the bounds.
            let [.., low, high, highest_low, lowest_high] = numbers(self.start - 4, self.start)? else { return None };
            if !holds(low, high) {
                return Some(0);
            }
            if holds(highest_low, lowest_high) {
                return Some(self.who);
            }
        }
        match (self.column::<BYTES>(HIGH_ONLY)?, self.column::<BYTES>(LOW_ONLY)?) {
            (Some(low), Some(high)) => {
                let seats = low.len().min(high.len());
                Some(self.seats_where(seats, alive, |seat| holds(&low[seat], &high[seat])))
            }
            (Some(low), None) => Some(self.seats_where(low.len(), alive, |seat| number >= read(low[seat]))),
            (None, high) => {
                let high = high?;
                Some(self.seats_where(high.len(), alive, |seat| number <= read(high[seat])))
            }
        }
    }

    /// The queries of `alive` whose seat, of `seats`, holds.
    #[inline(always)]
    fn seats_where(&self, seats: usize, alive: u64, holds: impl Fn(usize) -> bool) -> u64 {
        let mut between = 0;
        if self.head >> 32 & DENSE != 0 {
            for seat in 0..seats {
                between |= u64::from(holds(seat)) << (seat % LEAF_QUERIES);
            }
            return between;
        }
        let mut asking = self.who & alive;
        while asking != 0 {
            let bit = asking & asking.wrapping_neg();
            asking ^= bit;
            let seat = (self.who & (bit - 1)).count_ones() as usize;
            between |= bit & u64::from(holds(seat)).wrapping_neg(); // a branch would often be guessed wrong
        }
        between
    }
}

#[inline(always)]
fn kind_of(flags: u64) -> NumberKind {
    match flags & (TIME | DAY) {
        0 => NumberKind::Number,
        TIME => NumberKind::Time,
        _ => NumberKind::Day,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::clause::NumberRange;
    use crate::index::leaf::bounds::bounds_of;
    use crate::index::leaf::query::with_bits;
    use crate::testing::Random;

    /// Dense and sparse, of few and of many, of whole numbers and of others.
    #[test]
    fn bounds_say_what_comparing_with_each_range_says() {
        let mut random = Random(11);
        let mut dice = |below: usize| random.below(below);
        for round in 0..crate::testing::or_few(400, 40) {
            let count = 1 + dice(LEAF_QUERIES);
            let (is_whole, is_negated, sparse) = (round % 3 != 0, round % 5 == 0, 1 + dice(4));
            let sides = dice(4);
            let ranges: Vec<_> = (0..count)
                .map(|_| {
                    let mut bound = || dice(20) as f64 + if is_whole { 0.0 } else { 0.25 };
                    let (one, other) = (bound(), bound());
                    let low = [one.min(other), one.min(other).next_up(), f64::NEG_INFINITY];
                    let high = [one.max(other), one.max(other).next_down(), f64::INFINITY];
                    let low = low[if sides == 1 { 2 } else { dice(3) }];
                    let high = high[if sides == 2 { 2 } else { dice(3) }];
                    (dice(sparse) == 0).then_some([NumberRange {
                        attribute: AttributeId(1),
                        low,
                        high,
                        kind: NumberKind::Number,
                        is_negated,
                    }])
                })
                .collect();
            let of = |range: &'_ Option<[NumberRange; 1]>| range.as_ref().map_or(&[][..], |range| &range[..]).to_vec();
            let owned: Vec<Vec<NumberRange>> = ranges.iter().map(of).collect();
            let all = bounds_of(with_bits(owned.iter().map(Vec::as_slice)), count);
            let mut words = vec![7];
            all.iter().for_each(|bounds| bounds.encode(count, &mut words));
            let words: Vec<WordBytes> = words.iter().map(|word| word.to_le_bytes()).collect();
            for number in (0..84).map(|quarters| f64::from(quarters) / 4.0).chain([f64::NAN]) {
                let mut codes = MessageCodes::default();
                codes.begin(2);
                codes.set_number(AttributeId(1), NumberKind::Number, number);
                if all.is_empty() {
                    continue;
                }
                let view = BoundsView::new(&words, 1, count).expect("whole");
                assert_eq!(view.end, words.len(), "{count} queries");
                let mut verify = 0;
                let within = view.within(u64::MAX, &codes, &mut verify).expect("whole");
                for (index, ranges) in owned.iter().enumerate() {
                    let holds =
                        ranges.iter().all(|range| (number >= range.low && number <= range.high) != range.is_negated);
                    assert_eq!(within >> index & 1 == 1, holds, "{number} of {ranges:?}");
                }
                assert_eq!(verify, 0);
            }
        }
    }

    /// A number from -3 to 8.5, or the one just below or above it.
    fn around(dice: &mut impl FnMut(usize) -> usize) -> f64 {
        let number = dice(24) as f64 / 2.0 - 3.0;
        [number, number, number.next_up(), number.next_down(), -number][dice(5)]
    }

    /// Ranges of many attributes, of which some are absent and some are lists.
    #[test]
    fn scattered_bounds_say_what_comparing_with_each_range_says() {
        let mut random = Random(12);
        let mut dice = |below: usize| random.below(below);
        for round in 0..crate::testing::or_few(200, 20) {
            let count = 8 + dice(LEAF_QUERIES - 7);
            let sides = dice(4);
            let ranges: Vec<Vec<NumberRange>> = (0..count)
                .map(|_| {
                    let range = |attribute: usize, (one, other): (f64, f64)| {
                        let (low, high) = (one.min(other), one.max(other));
                        let low = if sides == 1 || low < -2.0 { f64::NEG_INFINITY } else { low };
                        let high = if sides == 2 || high > 7.0 { f64::INFINITY } else { high };
                        let attribute = AttributeId(attribute as u32);
                        NumberRange { attribute, low, high, kind: NumberKind::Number, is_negated: false }
                    };
                    (0..dice(4)).map(|_| range(dice(30), (around(&mut dice), around(&mut dice)))).collect()
                })
                .collect();
            let all = bounds_of(with_bits(ranges.iter().map(Vec::as_slice)), count);
            let mut words = Vec::new();
            all.iter().for_each(|bounds| bounds.encode(count, &mut words));
            let words: Vec<WordBytes> = words.iter().map(|word| word.to_le_bytes()).collect();
            let mut codes = MessageCodes::default();
            codes.begin(30);
            let mut numbers = vec![Vec::new(); 30];
            for (attribute, own) in (0..).map(AttributeId).zip(&mut numbers) {
                let elements = if round % 2 == 0 { 1 } else { dice(4) };
                own.extend((0..elements).map(|_| around(&mut dice)));
                if own.len() > 1 {
                    codes.set_list(attribute, ListKind::Named);
                    own.iter().for_each(|number| codes.add_element_number(attribute, NumberKind::Number, *number));
                } else if let Some(number) = own.first() {
                    codes.set_number(attribute, NumberKind::Number, *number);
                }
            }
            codes.sort_several();
            let (mut at, mut within, alive) =
                (0, u64::MAX, if dice(2) == 0 { u64::MAX } else { 0x8421_1842_0f00_1111 });
            while at < words.len() {
                let view = BoundsView::new(&words, at, count).expect("whole");
                within &= view.within(alive, &codes, &mut 0).expect("whole");
                at = view.end;
            }
            for (index, ranges) in ranges.iter().enumerate().filter(|(index, _)| alive >> index & 1 == 1) {
                let holds = |range: &NumberRange| {
                    let own = &numbers[range.attribute.index()];
                    own.iter().any(|number| *number >= range.low && *number <= range.high)
                };
                assert_eq!(within >> index & 1 == 1, ranges.iter().all(holds), "{ranges:?} of {numbers:?}");
            }
        }
    }
}

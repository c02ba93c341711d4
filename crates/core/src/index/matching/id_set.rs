//! Collects the ids of matches and orders them, in time linear in their number: a message may match thousands.

use super::id_bits::{IdBits, append_narrow};
use super::matched_ids::MatchedIds;
use crate::index::SubscriptionId;
use crate::index::layout::bytes::{NumberBytes, WordBytes, ones};
use crate::index::layout::cpu::{WideWork, at_full_width};

/// The minimum number of ids for a radix sort; fewer are sorted by comparing.
const RADIX_MIN: usize = 256;
/// Maximum number of bits of a digit: the counters of a pass stay in the first cache, and four million ids have two digits.
const DIGIT_MAX: u32 = 11;
const DIGITS: usize = 1 << DIGIT_MAX;
/// The maximum number of words of a bitmap per id: ids so dense are sorted by setting their bits, two steps for each instead
/// of one or two per digit.
const WORDS_PER_ID: usize = 1;

/// The number of words of a bitmap that are free, whatever the number of ids.
const WORDS_FREE: usize = 16;
/// Ids in no particular order, some perhaps twice. Nearly all fit in 32 bits, and the cache holds twice as many of these.
#[derive(Debug, Default)]
pub struct IdSet {
    narrow: Vec<u32>,
    wide: Vec<SubscriptionId>,
    spare: Vec<u32>,
    counts: Vec<DigitCounts>,
    /// The ids of bitmaps, and all narrow ids near them while these are sorted.
    bits: IdBits,
}

impl IdSet {
    /// Add an id.
    #[inline(always)]
    pub fn push(&mut self, id: SubscriptionId) {
        match u32::try_from(id.0) {
            Ok(id) => self.narrow.push(id),
            Err(_) => self.wide.push(id),
        }
    }

    /// Add an id that is known to fit in 32 bits.
    #[inline(always)]
    pub fn push_narrow(&mut self, id: u32) {
        self.narrow.push(id);
    }

    /// Add ids that are known to fit in 32 bits, as they lie in memory.
    #[inline(always)]
    pub fn extend_narrow(&mut self, ids: &[NumberBytes]) {
        self.narrow.extend(ids.iter().map(|id| u32::from_le_bytes(*id)));
    }

    /// Add those of up to 64 `ids`, which are known to fit in 32 bits, whose bit in `mask` is set. A bit without an id adds none.
    #[inline(always)]
    pub fn extend_narrow_of(&mut self, ids: &[NumberBytes], mask: u64) {
        /// With more ids, writing each and keeping it or not costs less than looking for the next.
        const FEW: u32 = 16;
        let count = mask.count_ones();
        if count as usize == ids.len() {
            return self.extend_narrow(ids);
        }
        if count <= FEW {
            self.narrow.extend(ones(mask).filter_map(|bit| ids.get(bit as usize)).map(|id| u32::from_le_bytes(*id)));
            return;
        }
        let start = self.narrow.len();
        self.narrow.resize(start + 64, 0);
        let room = &mut self.narrow[start..];
        let mut kept = 0;
        for (bit, id) in ids.iter().enumerate().take(64) {
            room[kept % 64] = u32::from_le_bytes(*id);
            kept += (mask >> bit & 1) as usize;
        }
        self.narrow.truncate(start + kept);
    }

    /// Add the ids of the bits of a bitmap that begins with the word `first_word`.
    #[inline(always)]
    pub fn extend_bits(&mut self, first_word: usize, bitmap: &[WordBytes]) {
        let Self { narrow, bits, .. } = self;
        if !bits.reach(first_word, bitmap.len()) {
            bits.words().for_each(|(base, word)| narrow.extend(ones(word).map(|bit| base.wrapping_add(bit))));
            bits.words.clear();
            bits.reach(first_word, bitmap.len());
        }
        let own = &mut bits.words[first_word - bits.first_word..];
        own.iter_mut().zip(bitmap).for_each(|(own, word)| *own |= u64::from_le_bytes(*word));
    }

    /// True when there are no ids.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty() && self.bits.words.is_empty()
    }

    /// Forget all ids.
    pub fn clear(&mut self) {
        self.narrow.clear();
        self.wide.clear();
        self.bits.words.clear();
    }

    /// Move all ids to `ids`, ascending, each once. Cost: linear per digit in which they differ; a sort for ids beyond
    /// 32 bits.
    pub fn drain_into(&mut self, ids: &mut Vec<SubscriptionId>) {
        at_full_width(NarrowDrain { set: self, ids });
        self.wide.sort_unstable();
        self.wide.dedup();
        ids.append(&mut self.wide);
    }

    /// Move all ids out, each once. Cost: as [`Self::drain_into`], without what a list of the ids of a bitmap takes.
    pub fn take(&mut self) -> MatchedIds {
        at_full_width(NarrowGather { set: self });
        self.narrow.dedup();
        self.wide.sort_unstable();
        self.wide.dedup();
        let matched = MatchedIds { bits: self.bits.clone(), narrow: self.narrow.clone(), wide: self.wide.clone() };
        self.clear(); // whose memory is used again
        matched
    }

    /// Move the narrow ids to `ids`, ascending, each once.
    #[inline(always)]
    fn drain_narrow(&mut self, ids: &mut Vec<SubscriptionId>) {
        self.gather_narrow();
        let Self { narrow, bits, .. } = self;
        append_narrow(narrow, bits, ids);
        narrow.clear();
        bits.words.clear();
    }

    /// Move the narrow ids that lie near each other to the bitmap. The others then ascend, some perhaps twice.
    #[inline(always)]
    fn gather_narrow(&mut self) {
        let Self { narrow, bits, .. } = self;
        if bits.words.is_empty() {
            let order = Order::of(narrow);
            if order.is_ascending || !order.is_dense(narrow.len()) {
                self.sort_narrow(order.is_ascending);
                return;
            }
            bits.reach(order.words.0, order.words.1 - order.words.0 + 1);
        }
        let mut far = 0; // the ids beyond the bitmap are moved to the front
        for at in 0..narrow.len() {
            let id = narrow[at];
            match bits.words.get_mut((id as usize / 64).wrapping_sub(bits.first_word)) {
                Some(word) => *word |= 1 << (id % 64),
                None => {
                    narrow[far] = id;
                    far += 1;
                }
            }
        }
        narrow.truncate(far);
        narrow.sort_unstable(); // nearly always there are none
    }

    /// Sort the narrow ids, unless they are ascending.
    fn sort_narrow(&mut self, is_ascending: bool) {
        let Self { narrow, spare, counts, .. } = self;
        match is_ascending {
            true => {}
            false if narrow.len() < RADIX_MIN => narrow.sort_unstable(),
            false => radix_sort(narrow, spare, counts),
        }
    }
}

/// Moving the narrow ids.
struct NarrowDrain<'a> {
    set: &'a mut IdSet,
    ids: &'a mut Vec<SubscriptionId>,
}

impl WideWork for NarrowDrain<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.set.drain_narrow(self.ids);
    }
}

/// Gathering the narrow ids.
struct NarrowGather<'a> {
    set: &'a mut IdSet,
}

impl WideWork for NarrowGather<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.set.gather_narrow();
    }
}

/// How ids lie.
struct Order {
    is_ascending: bool,
    /// The words of the first and of the last id in a bitmap.
    words: (usize, usize),
}

impl Order {
    #[inline(always)]
    fn of(ids: &[u32]) -> Self {
        let pairs = ids.iter().zip(ids.get(1..).unwrap_or_default());
        let is_ascending = pairs.fold(true, |so_far, (id, next)| so_far & (id <= next));
        let (least, most) = ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
        Self { is_ascending, words: (least as usize / 64, most as usize / 64) }
    }

    /// True when a bitmap has few words for `count` ids.
    #[inline(always)]
    fn is_dense(&self, count: usize) -> bool {
        self.words.1 - self.words.0 < WORDS_FREE.max(count * WORDS_PER_ID)
    }
}

/// Sort the ids from `start` on, each once. `room` is empty before and after.
pub fn sort_and_dedup(ids: &mut Vec<SubscriptionId>, start: usize, room: &mut IdSet) {
    if !ids[start..].is_sorted_by(|a, b| a < b) {
        ids.drain(start..).for_each(|id| room.push(id));
        room.drain_into(ids);
    }
}

/// The number of ids with each digit; later the index where the next id with that digit goes.
type DigitCounts = [u32; DIGITS];

/// Sort by the least significant digit first; each pass keeps the order of the one before.
fn radix_sort(ids: &mut Vec<u32>, spare: &mut Vec<u32>, counts: &mut Vec<DigitCounts>) {
    let (or, and) = ids.iter().fold((0, u32::MAX), |(or, and), id| (or | id, and & id));
    let bits = u32::BITS - (or ^ and).leading_zeros();
    let passes = bits.div_ceil(DIGIT_MAX).max(1) as usize;
    let digit = Digit { bits: bits.div_ceil(passes as u32) };
    counts.resize(passes.max(counts.len()), [0; DIGITS]);
    let counts = &mut counts[..passes];
    match counts {
        [one] => count(ids, [one], digit),
        [one, two] => count(ids, [one, two], digit),
        [one, two, three] => count(ids, [one, two, three], digit),
        _ => unreachable!("three digits of 11 bits are 32 bits"),
    }
    spare.resize(ids.len(), 0);
    for (pass, counts) in (0..).zip(counts) {
        scatter(ids, spare, counts, digit.of(pass));
        std::mem::swap(ids, spare);
    }
}

/// The digits that ids are sorted by.
#[derive(Clone, Copy)]
struct Digit {
    bits: u32,
}

impl Digit {
    /// The digit of a pass.
    #[inline(always)]
    fn of(self, pass: u32) -> impl Fn(u32) -> usize {
        let (shift, mask) = (pass * self.bits, (1 << self.bits) - 1);
        move |id| (id >> shift & mask) as usize & (DIGITS - 1)
    }
}

/// Count the ids with each digit, for all passes at once, since the order of ids does not matter here.
fn count<const PASSES: usize>(ids: &[u32], mut counts: [&mut DigitCounts; PASSES], digit: Digit) {
    counts.iter_mut().for_each(|counts| counts[..1 << digit.bits].fill(0));
    for id in ids {
        for (pass, counts) in (0..).zip(&mut counts) {
            counts[digit.of(pass)(*id)] += 1;
        }
    }
    for counts in counts {
        let mut next = 0;
        for count in &mut counts[..1 << digit.bits] {
            next += std::mem::replace(count, next);
        }
    }
}

/// Put the ids of `from` in the order of a digit.
fn scatter(from: &[u32], to: &mut [u32], counts: &mut DigitCounts, digit: impl Fn(u32) -> usize) {
    for id in from {
        // The count is read once, and written before the id: a processor that does not know yet where the id goes would
        // wait before reading the count again.
        let count = &mut counts[digit(*id)];
        let target = *count;
        *count += 1;
        to[target as usize] = *id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Bitmap;
    use crate::testing::{Random, or_few};

    #[test]
    fn ids_come_ascending_each_once() {
        let (mut random, mut room) = (Random(7), IdSet::default());
        let many = or_few(3_000, 500);
        for (count, mask) in
            [(0, 0xff), (1, 0xff), (40, 0xff), (500, 0xff), (many, 0xfffff), (many, 0xffff_ffff), (many, u64::MAX)]
        {
            let mut ids: Vec<_> = (0..count).map(|_| SubscriptionId(random.bits() >> 11 & mask)).collect();
            let mut expected = ids.clone();
            let tail = expected.split_off(count / 3);
            expected.extend(std::collections::BTreeSet::from_iter(tail));
            sort_and_dedup(&mut ids, count / 3, &mut room);
            assert_eq!(ids, expected);
        }
    }

    #[test]
    fn bitmaps_and_single_ids_come_ascending_each_once() {
        let (mut random, mut set) = (Random(9), IdSet::default());
        for round in 0..or_few(300, 40) {
            let mut expected = std::collections::BTreeSet::new();
            // Near each other and far apart, of few bits and of nearly all.
            for _ in 0..1 + random.below(3) {
                let first_word = random.pick(&[0, 3, 40, 900, 60_000]) + random.below(20);
                let density = 1 + random.below(8);
                let word = |random: &mut Random| (0..density).fold(0, |word, _| word | random.bits());
                let sparse = |random: &mut Random| (0..density).fold(u64::MAX, |word, _| word & random.bits());
                let bitmap: Vec<u64> = (0..1 + random.below(60))
                    .map(|_| if round % 2 == 0 { word(&mut random) } else { sparse(&mut random) })
                    .collect();
                let bytes: Vec<_> = bitmap.iter().map(|word| word.to_le_bytes()).collect();
                set.extend_bits(first_word, &bytes);
                for (base, word) in (first_word as u64..).zip(bitmap) {
                    expected.extend(ones(word).map(|bit| SubscriptionId(64 * base + u64::from(bit))));
                }
            }
            for _ in 0..random.below(100) {
                let near = 64 * random.pick(&[0, 41, 70, 905, 60_010]);
                let id = SubscriptionId(near + random.bits() % random.pick(&[300, 3_000, 1 << 40]));
                set.push(id);
                expected.insert(id);
            }
            assert!(!set.is_empty());
            if round % 3 == 0 {
                let matched = set.take();
                assert!(set.is_empty() && matched.to_vec().into_iter().eq(expected.iter().copied()), "round {round}");
                assert_eq!((matched.len(), matched.is_empty()), (expected.len(), false), "round {round}");
                let size = expected.iter().nth(expected.len() / 2).map_or(0, |id| id.0).min(1 << 32);
                let (own, below) = (matched.to_bitmap(size), expected.iter().map(|id| id.0).filter(|id| *id < size));
                assert_eq!(own, Bitmap::of_bits(size, 0, &[], below), "round {round}");
                continue;
            }
            let mut ids = Vec::new();
            set.drain_into(&mut ids);
            assert!(set.is_empty() && ids.iter().copied().eq(expected), "round {round}");
        }
    }

    #[test]
    fn those_of_a_mask_are_added() {
        let mut random = Random(10);
        for count in 0..=64 {
            let ids: Vec<u32> = (0..count).map(|_| random.below(1 << 20) as u32).collect();
            let bytes: Vec<_> = ids.iter().map(|id| id.to_le_bytes()).collect();
            for mask in [u64::MAX, random.bits(), random.bits() | random.bits(), random.bits() & random.bits(), 0] {
                let mask = mask & u64::MAX.checked_shr(64 - count).unwrap_or(0);
                let mut set = IdSet::default();
                set.push_narrow(7);
                set.extend_narrow_of(&bytes, mask);
                let own = ones(mask).map(|bit| ids[bit as usize]);
                assert!(set.narrow.iter().copied().eq([7].into_iter().chain(own)), "{count} of {mask:b}");
            }
        }
    }
}

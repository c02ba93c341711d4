//! Collects the ids of matches and orders them, in time linear in their number: a message may match thousands.

use crate::index::SubscriptionId;
use crate::index::layout::bytes::ones;

/// The minimum number of ids for a radix sort; fewer are sorted by comparing.
const RADIX_MIN: usize = 256;
/// Maximum number of bits of a digit: the counters of a pass stay in the first cache, and four million ids have two digits.
const DIGIT_MAX: u32 = 11;
const DIGITS: usize = 1 << DIGIT_MAX;
/// The maximum number of words of a bitmap per id: ids so dense are sorted by setting their bits, two steps for each instead
/// of one or two per digit.
const WORDS_PER_ID: usize = 1;

/// Ids in no particular order, some perhaps twice. Nearly all fit in 32 bits, and the cache holds twice as many of these.
#[derive(Debug, Default)]
pub struct IdSet {
    narrow: Vec<u32>,
    wide: Vec<SubscriptionId>,
    spare: Vec<u32>,
    counts: Vec<DigitCounts>,
    /// A bit for each id while ids are sorted; no bit is set before and after.
    bits: Vec<u64>,
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
    pub fn extend_narrow(&mut self, ids: &[[u8; 4]]) {
        self.narrow.extend(ids.iter().map(|id| u32::from_le_bytes(*id)));
    }

    /// True when there are no ids.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty()
    }

    /// Forget all ids.
    pub fn clear(&mut self) {
        self.narrow.clear();
        self.wide.clear();
    }

    /// Move all ids to `ids`, ascending, each once. Cost: linear per digit in which they differ; a sort for ids beyond
    /// 32 bits.
    pub fn drain_into(&mut self, ids: &mut Vec<SubscriptionId>) {
        let Self { narrow, wide, spare, counts, bits } = self;
        if narrow.is_sorted() {
            append_each_once(narrow, ids);
        } else if let Some(first_word) = dense_from(narrow) {
            append_by_bits(narrow, first_word, bits, ids);
        } else {
            if narrow.len() < RADIX_MIN {
                narrow.sort_unstable()
            } else {
                radix_sort(narrow, spare, counts)
            }
            append_each_once(narrow, ids);
        }
        narrow.clear();
        wide.sort_unstable();
        wide.dedup();
        ids.append(wide);
    }
}

/// The first word of a bitmap of `ids`; None when they are too few for the words that it takes.
fn dense_from(ids: &[u32]) -> Option<usize> {
    const WORDS_FREE: usize = 16;
    let (least, most) = ids.iter().fold((u32::MAX, 0), |(least, most), id| (least.min(*id), most.max(*id)));
    let (first, last) = (least as usize / 64, most as usize / 64);
    (last - first < WORDS_FREE.max(ids.len() * WORDS_PER_ID)).then_some(first)
}

/// Append `ids`, ascending, each once, by a bitmap that begins with the word `first_word`.
fn append_by_bits(from: &[u32], first_word: usize, bits: &mut Vec<u64>, ids: &mut Vec<SubscriptionId>) {
    let mut words = 0;
    for id in from {
        let word = *id as usize / 64 - first_word;
        if word >= bits.len() {
            bits.resize((word + 1).next_power_of_two(), 0);
        }
        bits[word] |= 1 << (id % 64);
        words = words.max(word + 1);
    }
    ids.reserve(from.len());
    for (word, bits) in (first_word as u64..).zip(&mut bits[..words]) {
        let own = std::mem::take(bits);
        ids.extend(ones(own).map(|bit| SubscriptionId(word * 64 + u64::from(bit))));
    }
}

/// Append ascending ids, each once.
fn append_each_once(ascending: &[u32], ids: &mut Vec<SubscriptionId>) {
    let wide = |id: u32| SubscriptionId(u64::from(id));
    let is_once =
        ascending.iter().zip(ascending.get(1..).unwrap_or_default()).fold(true, |so_far, (a, b)| so_far & (a != b));
    if is_once {
        ids.extend(ascending.iter().map(|id| wide(*id)));
        return;
    }
    let start = ids.len();
    ids.resize(start + ascending.len(), SubscriptionId(0));
    let room = &mut ids[start..];
    let mut count = 0;
    let mut last = None;
    for &id in ascending {
        // Always written, and overwritten if it was there already: no branch that could be mispredicted.
        count -= usize::from(last == Some(id));
        last = Some(id);
        room[count] = wide(id);
        count += 1;
    }
    ids.truncate(start + count);
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
}

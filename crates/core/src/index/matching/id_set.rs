//! Putting ids in order: in time linear in them, since a message may match thousands.

use crate::index::SubscriptionId;

/// Fewer are sorted by comparing.
const RADIX_MIN: usize = 256;
/// Most bits of a digit: the counters of a pass stay in the first cache, and four million ids have two digits.
const DIGIT_MAX: u32 = 11;
const DIGITS: usize = 1 << DIGIT_MAX;

/// Ids in no particular order, some perhaps twice. Nearly all fit in 32 bits, and twice as many of those lie in the first
/// cache.
#[derive(Debug, Default)]
pub struct Unordered {
    narrow: Vec<u32>,
    wide: Vec<SubscriptionId>,
    spare: Vec<u32>,
    places: Vec<Places>,
}

impl Unordered {
    /// Add an id.
    #[inline(always)]
    pub fn push(&mut self, id: SubscriptionId) {
        match u32::try_from(id.0) {
            Ok(id) => self.narrow.push(id),
            Err(_) => self.wide.push(id),
        }
    }

    /// Add an id that is known to fit.
    #[inline(always)]
    pub fn push_narrow(&mut self, id: u32) {
        self.narrow.push(id);
    }

    /// Add those of up to 64 ids that `chosen` has a bit for. None when there are too few.
    ///
    /// Most of a match's ids go through here: so many at once, be the last of them of no use, that how many there are is
    /// guessed wrong only once a leaf.
    #[inline(always)]
    pub fn push_chosen(&mut self, chosen: u64, ids: &[[u8; 4]]) -> Option<()> {
        const AT_ONCE: usize = 8;
        let Some(last) = chosen.checked_ilog2() else { return Some(()) };
        let ids = ids.get(..=last as usize)?;
        let start = self.narrow.len();
        let count = chosen.count_ones() as usize;
        self.narrow.resize(start + count.next_multiple_of(AT_ONCE), 0);
        let mut left = chosen;
        for room in self.narrow[start..].as_chunks_mut::<AT_ONCE>().0 {
            for id in room {
                *id = u32::from_le_bytes(ids[left.trailing_zeros().min(last) as usize]);
                left &= left.wrapping_sub(1);
            }
        }
        self.narrow.truncate(start + count);
        Some(())
    }

    /// Add ids as they lie in memory.
    #[inline(always)]
    pub fn extend_narrow(&mut self, ids: &[[u8; 4]]) {
        self.narrow.extend(ids.iter().map(|id| u32::from_le_bytes(*id)));
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty()
    }

    /// Forget all of them.
    pub fn clear(&mut self) {
        self.narrow.clear();
        self.wide.clear();
    }

    /// Append them to `ids`, ascending, each once, and forget them. Cost: linear, for each digit in which they differ; of
    /// those beyond 32 bits a sort.
    pub fn drain_into(&mut self, ids: &mut Vec<SubscriptionId>) {
        let Self { narrow, wide, spare, places } = self;
        if !narrow.is_sorted() {
            if narrow.len() < RADIX_MIN { narrow.sort_unstable() } else { radix_sort(narrow, spare, places) }
        }
        append_each_once(narrow, ids);
        narrow.clear();
        wide.sort_unstable();
        wide.dedup();
        ids.append(wide);
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
        // Written in any case, and over again if it was there: no branch that could be guessed wrong.
        count -= usize::from(last == Some(id));
        last = Some(id);
        room[count] = wide(id);
        count += 1;
    }
    ids.truncate(start + count);
}

/// Sort the ids from `start` on, and drop those that are there twice. `room` is empty, and stays so.
pub fn sort_and_dedup(ids: &mut Vec<SubscriptionId>, start: usize, room: &mut Unordered) {
    if !ids[start..].is_sorted_by(|a, b| a < b) {
        ids.drain(start..).for_each(|id| room.push(id));
        room.drain_into(ids);
    }
}

/// Where the next id with each digit goes, or how many there are.
type Places = [u32; DIGITS];

/// Least significant digit first; each pass keeps the order of the one before.
fn radix_sort(ids: &mut Vec<u32>, spare: &mut Vec<u32>, places: &mut Vec<Places>) {
    let (or, and) = ids.iter().fold((0, u32::MAX), |(or, and), id| (or | id, and & id));
    let bits = u32::BITS - (or ^ and).leading_zeros();
    let passes = bits.div_ceil(DIGIT_MAX).max(1) as usize;
    let digit = Digit { bits: bits.div_ceil(passes as u32) };
    places.resize(passes.max(places.len()), [0; DIGITS]);
    let places = &mut places[..passes];
    match places {
        [one] => count(ids, [one], digit),
        [one, two] => count(ids, [one, two], digit),
        [one, two, three] => count(ids, [one, two, three], digit),
        _ => unreachable!("three digits of 11 bits are 32 bits"),
    }
    spare.resize(ids.len(), 0);
    for (pass, places) in (0..).zip(places) {
        scatter(ids, spare, places, digit.of(pass));
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

/// How many ids have each digit: of all passes in one, as the order of ids does not matter here.
fn count<const PASSES: usize>(ids: &[u32], mut places: [&mut Places; PASSES], digit: Digit) {
    places.iter_mut().for_each(|places| places[..1 << digit.bits].fill(0));
    for id in ids {
        for (pass, places) in (0..).zip(&mut places) {
            places[digit.of(pass)(*id)] += 1;
        }
    }
    for places in places {
        let mut next = 0;
        for place in &mut places[..1 << digit.bits] {
            next += std::mem::replace(place, next);
        }
    }
}

/// Put the ids of `from` in the order of a digit.
fn scatter(from: &[u32], to: &mut [u32], places: &mut Places, digit: impl Fn(u32) -> usize) {
    for id in from {
        // The place is read once, and written before the id is: a processor that does not know yet where the id goes
        // would wait with reading it again.
        let place = &mut places[digit(*id)];
        let target = *place;
        *place += 1;
        to[target as usize] = *id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::or_few;

    #[test]
    fn ids_come_ascending_each_once() {
        let (mut state, mut room) = (7_u64, Unordered::default());
        let many = or_few(3_000, 500);
        for (count, mask) in
            [(0, 0xff), (1, 0xff), (40, 0xff), (500, 0xff), (many, 0xfffff), (many, 0xffff_ffff), (many, u64::MAX)]
        {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                SubscriptionId((state >> 11) & mask)
            };
            let mut ids: Vec<_> = (0..count).map(|_| next()).collect();
            let mut expected = ids.clone();
            let tail = expected.split_off(count / 3);
            expected.extend(std::collections::BTreeSet::from_iter(tail));
            sort_and_dedup(&mut ids, count / 3, &mut room);
            assert_eq!(ids, expected);
        }
    }
}

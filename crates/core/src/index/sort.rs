//! Putting ids in order: in time linear in them, since a message may match thousands.

use super::SubscriptionId;

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
        let Self { narrow, wide, spare } = self;
        if !narrow.is_sorted() {
            if narrow.len() < RADIX_MIN { narrow.sort_unstable() } else { radix_sort(narrow, spare) }
        }
        narrow.dedup();
        wide.sort_unstable();
        wide.dedup();
        ids.extend(narrow.iter().map(|id| SubscriptionId(u64::from(*id))));
        ids.append(wide);
        narrow.clear();
    }
}

/// Sort the ids from `start` on, and drop those that are there twice. `room` is empty, and stays so.
pub fn sort_and_dedup(ids: &mut Vec<SubscriptionId>, start: usize, room: &mut Unordered) {
    if !ids[start..].is_sorted_by(|a, b| a < b) {
        ids.drain(start..).for_each(|id| room.push(id));
        room.drain_into(ids);
    }
}

/// Least significant digit first; each pass keeps the order of the one before.
fn radix_sort(ids: &mut Vec<u32>, spare: &mut Vec<u32>) {
    let (or, and) = ids.iter().fold((0, u32::MAX), |(or, and), id| (or | id, and & id));
    let bits = u32::BITS - (or ^ and).leading_zeros();
    let passes = bits.div_ceil(DIGIT_MAX).max(1);
    let digit = bits.div_ceil(passes);
    spare.resize(ids.len(), 0);
    for pass in 0..passes {
        scatter(ids, spare, pass * digit, digit);
        std::mem::swap(ids, spare);
    }
}

/// Put the ids of `from` in the order of the digit of `bits` bits that begins at bit `shift`.
fn scatter(from: &[u32], to: &mut [u32], shift: u32, bits: u32) {
    let mask = (1 << bits) - 1;
    let digit = |id: u32| (id >> shift & mask) as usize & (DIGITS - 1);
    let mut places = [0_u32; DIGITS];
    from.iter().for_each(|id| places[digit(*id)] += 1);
    let mut next = 0;
    for place in &mut places[..1 << bits] {
        next += std::mem::replace(place, next);
    }
    for id in from {
        let place = &mut places[digit(*id)];
        to[*place as usize] = *id;
        *place += 1;
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

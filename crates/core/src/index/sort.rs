//! Putting ids in order: in time linear in them, since a message may match thousands.

use super::SubscriptionId;

/// Fewer are sorted by comparing.
const RADIX_MIN: usize = 48;
/// Bits of a digit: the counters of one pass stay in the first cache.
const DIGIT: u32 = 8;

/// Sort the ids from `start` on, and drop those that are there twice. Cost: linear, for each byte in which they differ.
pub fn sort_and_dedup(ids: &mut Vec<SubscriptionId>, start: usize, spare: &mut Vec<SubscriptionId>) {
    let found = &mut ids[start..];
    if found.len() < RADIX_MIN {
        found.sort_unstable()
    } else {
        radix_sort(found, spare)
    }
    let mut last = start;
    for index in start + 1..ids.len() {
        if ids[index] != ids[last] {
            last += 1;
            ids[last] = ids[index];
        }
    }
    if start < ids.len() {
        ids.truncate(last + 1);
    }
}

/// Least significant digit first; each pass keeps the order of the one before.
fn radix_sort(ids: &mut [SubscriptionId], spare: &mut Vec<SubscriptionId>) {
    let all = ids.iter().fold((0, u64::MAX), |(or, and), id| (or | id.0, and & id.0));
    let differing = all.0 ^ all.1;
    spare.clear();
    spare.resize(ids.len(), SubscriptionId(0));
    for shift in (0..u64::BITS).step_by(DIGIT as usize).filter(|shift| differing >> shift & 0xff != 0) {
        let digit = |id: &SubscriptionId| (id.0 >> shift & 0xff) as usize;
        let mut places = [0_u32; 1 << DIGIT];
        ids.iter().for_each(|id| places[digit(id)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for id in &*ids {
            let place = &mut places[digit(id)];
            spare[*place as usize] = *id;
            *place += 1;
        }
        ids.copy_from_slice(spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_ascending_each_once() {
        let mut state = 7_u64;
        for (count, mask) in [(0, 0xff), (1, 0xff), (40, 0xff), (500, 0xff), (3_000, 0xfffff), (3_000, u64::MAX)] {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                SubscriptionId((state >> 11) & mask)
            };
            let mut ids: Vec<_> = (0..count).map(|_| next()).collect();
            let mut expected = ids.clone();
            expected[count / 3..].sort();
            let tail = expected.split_off(count / 3);
            expected.extend(std::collections::BTreeSet::from_iter(tail));
            sort_and_dedup(&mut ids, count / 3, &mut Vec::new());
            assert_eq!(ids, expected);
        }
    }
}

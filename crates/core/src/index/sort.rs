//! Putting ids in order: in time linear in them, since a message may match thousands.

use super::SubscriptionId;

/// Fewer are sorted by comparing.
const RADIX_MIN: usize = 256;
/// Bits of a digit: the counters of a pass stay in the first cache, and half a million ids have two digits.
const DIGIT: u32 = 10;
const DIGITS: usize = 1 << DIGIT;

/// Sort the ids from `start` on, and drop those that are there twice. Cost: linear, for each digit in which they differ.
pub fn sort_and_dedup(ids: &mut Vec<SubscriptionId>, start: usize, spare: &mut Vec<SubscriptionId>) {
    let found = &mut ids[start..];
    if found.is_sorted_by(|a, b| a < b) {
        return;
    }
    if found.len() < RADIX_MIN {
        found.sort_unstable()
    } else {
        radix_sort(found, spare)
    }
    let (mut last, mut previous) = (0, found[0]);
    for index in 1..found.len() {
        let id = found[index];
        last += usize::from(id != previous);
        found[last] = id;
        previous = id;
    }
    ids.truncate(start + last + 1);
}

/// Least significant digit first, two digits at a time; each pass keeps the order of the one before.
fn radix_sort(ids: &mut [SubscriptionId], spare: &mut Vec<SubscriptionId>) {
    let (or, and) = ids.iter().fold((0, u64::MAX), |(or, and), id| (or | id.0, and & id.0));
    if spare.len() < ids.len() {
        spare.resize(ids.len(), SubscriptionId(0));
    }
    let spare = &mut spare[..ids.len()];
    for shift in (0..u64::BITS).step_by(2 * DIGIT as usize).filter(|shift| (or ^ and) >> shift != 0) {
        let (low, high) = (|id: &SubscriptionId| digit(*id, shift), |id: &SubscriptionId| digit(*id, shift + DIGIT));
        let mut places = [[0_u32; DIGITS]; 2];
        for id in &*ids {
            places[0][low(id)] += 1;
            places[1][high(id)] += 1;
        }
        let [low_places, high_places] = &mut places;
        scatter(ids, spare, low_places, low);
        scatter(spare, ids, high_places, high);
    }
}

fn digit(id: SubscriptionId, shift: u32) -> usize {
    id.0.checked_shr(shift).unwrap_or_default() as usize & (DIGITS - 1)
}

/// Put the ids of `from` in the order of their digits, of which `places` says how many there are of each.
#[inline]
fn scatter(
    from: &[SubscriptionId],
    to: &mut [SubscriptionId],
    places: &mut [u32; DIGITS],
    digit: impl Fn(&SubscriptionId) -> usize,
) {
    let mut next = 0;
    for place in &mut *places {
        next += std::mem::replace(place, next);
    }
    for id in from {
        let place = &mut places[digit(id)];
        to[*place as usize] = *id;
        *place += 1;
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
            let tail = expected.split_off(count / 3);
            expected.extend(std::collections::BTreeSet::from_iter(tail));
            sort_and_dedup(&mut ids, count / 3, &mut Vec::new());
            assert_eq!(ids, expected);
        }
    }
}

//! Ids that lie near each other, as bits, and how they become a list.

use crate::index::SubscriptionId;

/// Two bitmaps become one when it has at most this many words for each of theirs.
const GAP_MAX: usize = 4;

/// Ids as the bits of words.
#[derive(Clone, Debug, Default)]
pub struct IdBits {
    /// The number of the first word; its first bit is the id of 64 times that.
    pub first_word: usize,
    /// Never with a gap: words between two bitmaps are zero.
    pub words: Vec<u64>,
}

impl IdBits {
    /// Make room for `count` words from `first_word` on. Returns false, and does nothing, when they are too far from the others.
    #[inline(always)]
    pub fn reach(&mut self, first_word: usize, count: usize) -> bool {
        if self.words.is_empty() {
            self.first_word = first_word;
            self.words.resize(count, 0);
            return true;
        }
        let first = first_word.min(self.first_word);
        let end = (first_word + count).max(self.first_word + self.words.len());
        if end - first > GAP_MAX * (count + self.words.len()) {
            return false;
        }
        self.words.splice(..0, std::iter::repeat_n(0, self.first_word - first));
        self.words.resize(end - first, 0);
        self.first_word = first;
        true
    }

    /// Each word with the id of its first bit.
    #[inline(always)]
    pub fn words(&self) -> impl Iterator<Item = (u32, u64)> {
        (self.first_word as u64..).map(|word| (64 * word) as u32).zip(self.words.iter().copied())
    }
}

/// Append the ids of `narrow`, which ascend, and of `bits`, ascending, each once. No id is in both.
#[inline(always)]
pub fn append_narrow(narrow: &[u32], bits: &IdBits, ids: &mut Vec<SubscriptionId>) {
    if bits.words.is_empty() {
        return append_each_once(narrow, ids);
    }
    let (before, after) = narrow.split_at(narrow.partition_point(|id| (*id as usize) < 64 * bits.first_word));
    append_each_once(before, ids);
    append_bits(bits, ids);
    append_each_once(after, ids);
}

/// The bits that are set in each byte, lowest first, then zeros.
const BYTE_ONES: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                all[byte][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// The most that one word adds: 64 ids, and as many more are overwritten by the next.
const WORD_ROOM: usize = 72;

/// Append the ids of all bits. They are written to a small array first, eight or four at a time, whether so many are there or
/// not (as Langdale and Lemire: "Parsing Gigabytes of JSON per Second", 2019, flatten bits). The array is of 32 bits: eight ids
/// are one store, and are widened when they are copied. With 64 bits, 125,000 of 500,000 ids took 88 µs, now 69.
#[inline(always)]
fn append_bits(bits: &IdBits, ids: &mut Vec<SubscriptionId>) {
    const ROOM: usize = 1_024;
    let mut room = [0; ROOM + WORD_ROOM];
    let mut filled = 0;
    for (base, word) in bits.words() {
        if word == 0 {
            continue;
        }
        if filled >= ROOM {
            ids.extend(room[..filled].iter().map(|id| wide(*id)));
            filled = 0;
        }
        let Some(target) = room[filled..].first_chunk_mut() else { unreachable!("as much room as for one word") };
        write_word(base, word, target);
        filled += word.count_ones() as usize;
    }
    ids.extend(room[..filled].iter().map(|id| wide(*id)));
}

/// Write the ids of the bits of `word`, the first of which has the id `base`, and others after them. Plain loops over arrays:
/// iterators would be compiled for plain processors.
#[inline(always)]
fn write_word(base: u32, word: u64, target: &mut [u32; WORD_ROOM]) {
    /// With more bits, a look-up for each byte costs less than a step for each bit.
    const FEW: u32 = 6;
    if word.count_ones() <= FEW {
        let mut left = word;
        for four in target.as_chunks_mut::<4>().0 {
            if left == 0 {
                break;
            }
            for id in four {
                *id = base.wrapping_add(left.trailing_zeros());
                left &= left.wrapping_sub(1);
            }
        }
    } else {
        let (mut written, mut base) = (0, base);
        for byte in word.to_le_bytes() {
            let Some(eight) = target[written..].first_chunk_mut::<8>() else {
                unreachable!("at most 64 are before them")
            };
            let bits = &BYTE_ONES[byte as usize];
            let mut own = [0; 8];
            let mut bit = 0;
            while bit < 8 {
                own[bit] = base.wrapping_add(bits[bit] as u32);
                bit += 1;
            }
            *eight = own;
            written += byte.count_ones() as usize;
            base = base.wrapping_add(8);
        }
    }
}

#[inline(always)]
fn wide(id: u32) -> SubscriptionId {
    SubscriptionId(u64::from(id))
}

/// Append ascending ids, each once.
#[inline(always)]
fn append_each_once(ascending: &[u32], ids: &mut Vec<SubscriptionId>) {
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

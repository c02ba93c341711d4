//! The layout of a topic trie in bytes, and the hashes by which its two tables are searched.
//!
//! ```text
//! header   MAGIC (4), patterns, words, nodes, hashes, lists, texts (4 each: records, in texts bytes), longest probe
//!          among words and among nodes (4 each), the root's info and ends (4 each), 0 (4), seed (8)
//! nodes    16 bytes each: parent, key, info, ends.  A table: a node's number is its slot.
//! words    12 bytes each: tag, start in texts, length.  A table: a word's key is its slot.
//! hashes   8 bytes each, one for each `#` node, whose index here stands in the `ends` of its record: its ends, and the
//!          index of the `#` node that it supersedes, or NONE
//! lists    4 bytes each: a count, then that many ids
//! texts    the words one after another
//! ```
//! All numbers are little-endian and 32 bits, but the seed. A table uses open addressing with linear probing; in an
//! empty slot the second number is [`EMPTY`]. `info` tells whether `ends` is nothing, one id, or the index of a list.

/// The first bytes; another layout has other ones.
pub const MAGIC: [u8; 4] = *b"TTR1";
/// The size of the header, in bytes.
pub const HEADER_BYTES: usize = 56;
/// The size of a node's record, in bytes.
pub const NODE_BYTES: usize = 16;
/// The size of a word's record, in bytes.
pub const WORD_BYTES: usize = 12;
/// The size of the additional record of a `#` node, in bytes.
pub const HASH_BYTES: usize = 8;

/// The parent of the first nodes. The root is in the header, not in a slot.
pub const ROOT: u32 = u32::MAX;
/// The key of the edge that any one word follows.
pub const STAR: u32 = u32::MAX - 1;
/// The key of the edge that is followed without a word, to a node that stays alive for all later words.
pub const HASH: u32 = u32::MAX;
/// The second number of an empty slot.
pub const EMPTY: u32 = u32::MAX - 2;

/// The mark of a `#` node that supersedes none.
pub const NONE: u32 = u32::MAX;

/// The flag in a node's info for a [`STAR`] edge.
pub const HAS_STAR: u32 = 1;
/// The flag in a node's info for a [`HASH`] edge.
pub const HAS_HASH: u32 = 2;
/// The flag for a node whose `ends` is the id of the one pattern that ends there.
pub const ENDS_ONE: u32 = 4;
/// The flag for a node whose `ends` is the index of a list of patterns.
pub const ENDS_MANY: u32 = 8;
/// The flag for a node whose patterns also end elsewhere, so that one topic may reach both.
pub const ENDS_TWICE: u32 = 16;
/// The other bits are a Bloom filter of the words on edges, which avoids most look-ups that would fail.
pub const FILTER: u32 = !31;
const FILTER_BITS: u32 = FILTER.count_ones();

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio, odd

/// The bit that a word on an edge sets in the filter of its node.
#[must_use]
#[inline]
pub fn filter_bit(key: u32) -> u32 {
    1 << (32 - FILTER_BITS + scale(key.wrapping_mul(MULTIPLIER as u32), FILTER_BITS as usize) as u32)
}

/// The hash of an edge, from its parent and key.
#[must_use]
#[inline]
pub fn edge_hash(seed: u64, parent: u32, key: u32) -> u32 {
    (fold(seed ^ (u64::from(parent) << 32 | u64::from(key))) >> 32) as u32
}

/// The hash of a word: one half finds the slot, the other half is the tag.
///
/// Words are short, and copying a few bytes costs more than multiplying, so the ends are read with overlap.
#[must_use]
#[inline]
pub fn word_hash(seed: u64, word: &[u8]) -> u64 {
    let mut state = seed ^ (word.len() as u64).wrapping_mul(MULTIPLIER);
    let tail = if let Some(last) = word.last_chunk::<8>() {
        for chunk in word.as_chunks::<8>().0 {
            state = fold(state ^ u64::from_le_bytes(*chunk));
        }
        u64::from_le_bytes(*last)
    } else if let (Some(first), Some(last)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else if let [first, .., last] = word {
        u64::from(*first) << 16 | u64::from(word[word.len() / 2]) << 8 | u64::from(*last)
    } else {
        word.first().map_or(0, |only| u64::from(*only))
    };
    fold(state ^ tail)
}

fn fold(number: u64) -> u64 {
    let product = u128::from(number ^ MULTIPLIER.rotate_left(32)) * u128::from(MULTIPLIER);
    (product as u64) ^ (product >> 64) as u64
}

/// The slot in a table of `slots` at which the search for `hash` starts. Any number of slots is as good as a power of
/// two.
#[must_use]
#[inline]
pub fn scale(hash: u32, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

/// The number at `index` of a record, counted in numbers.
#[must_use]
#[inline]
pub fn number<const N: usize>(record: &[u8; N], index: usize) -> u32 {
    let bytes = &record[4 * index..];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The slot of the record for which `is_it` holds, if there is one among the first `probe_max`.
#[inline]
pub fn find<const N: usize>(
    table: &[[u8; N]],
    hash: u32,
    probe_max: u32,
    is_it: impl Fn(&[u8; N]) -> bool,
) -> Option<(u32, &[u8; N])> {
    let mut slot = scale(hash, table.len());
    for _ in 0..probe_max {
        let record = table.get(slot)?;
        if is_it(record) {
            return Some((slot as u32, record));
        }
        if number(record, 1) == EMPTY {
            return None;
        }
        slot += 1;
        if slot == table.len() {
            slot = 0;
        }
    }
    None
}

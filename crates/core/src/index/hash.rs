//! Hashes of symbols and records, which are part of the snapshot's format.
//!
//! They never change between versions, machines or byte orders. Hashes need to spread well,
//! not to be unique: items with equal hashes are told apart by comparing them.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio, odd
const LENGTH: u64 = 0xd6e8_feb8_6659_fd93;

/// The hash of `bytes`: folded multiplication, eight bytes per step.
#[must_use]
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = fold(seed ^ MULTIPLIER, LENGTH) ^ (bytes.len() as u64).wrapping_mul(LENGTH);
    let (words, remaining) = bytes.as_chunks();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), MULTIPLIER);
    }
    if !remaining.is_empty() {
        state = fold(state ^ last_word(bytes, remaining), MULTIPLIER);
    }
    fold(state ^ LENGTH, MULTIPLIER)
}

/// The one to seven `remaining` bytes at the end of `bytes`, followed by zeros.
///
/// Most texts of queries are short: reading some bytes a second time is faster than copying the exact number of them.
#[inline]
fn last_word(bytes: &[u8], remaining: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last) >> (64 - 8 * remaining.len());
    }
    if let (Some(first), Some(last)) = (remaining.first_chunk(), remaining.last_chunk()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        return first | last << (8 * remaining.len() - 32);
    }
    remaining.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The hash of a hash together with a number.
#[inline]
#[must_use]
pub fn mix(hash: u64, number: u32) -> u64 {
    fold(hash ^ u64::from(number).wrapping_mul(LENGTH), MULTIPLIER)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_what_is_left_and_zeros() {
        let bytes: Vec<u8> = (1..40_u8).map(|byte| byte.wrapping_mul(37)).collect();
        for length in (0..bytes.len()).filter(|length| length % 8 != 0) {
            let (_, remaining) = bytes[..length].as_chunks::<8>();
            let mut word = [0; 8];
            word[..remaining.len()].copy_from_slice(remaining);
            assert_eq!(last_word(&bytes[..length], remaining), u64::from_le_bytes(word), "{length}");
        }
    }

    #[test]
    fn the_hash_is_part_of_the_file_format() {
        assert_eq!(hash_bytes(1, b"IBM Corporation"), 2_010_759_739_833_050_947);
        assert_ne!(hash_bytes(0, b"a"), hash_bytes(0, b"a\0"));
        assert_eq!(mix(2_010_759_739_833_050_947, 7), 8_853_821_002_235_019_236);
    }
}

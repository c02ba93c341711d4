//! The hash of symbols and records. Part of the snapshot's format, so it never changes between versions, machines or byte
//! orders. Hashes need to spread well, not to be unique: whoever finds one compares.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio, odd
const LENGTH: u64 = 0xd6e8_feb8_6659_fd93;

/// Folded multiplication, eight bytes a step.
#[must_use]
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = fold(seed ^ MULTIPLIER, LENGTH) ^ (bytes.len() as u64).wrapping_mul(LENGTH);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), MULTIPLIER);
    }
    fold(state ^ LENGTH, MULTIPLIER)
}

/// The hash of something that has been hashed, together with a number.
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
    fn the_hash_is_part_of_the_file_format() {
        assert_eq!(hash_bytes(1, b"IBM Corporation"), 2_010_759_739_833_050_947);
        assert_ne!(hash_bytes(0, b"a"), hash_bytes(0, b"a\0"));
        assert_eq!(mix(2_010_759_739_833_050_947, 7), 8_853_821_002_235_019_236);
    }
}

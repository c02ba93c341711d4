//! Words and numbers as they lie in memory and in files: little-endian, at any alignment.

/// A word of eight bytes.
pub type WordBytes = [u8; 8];
/// A number of four bytes.
pub type NumberBytes = [u8; 4];

/// The word at `index`, if there is one.
#[inline(always)]
pub fn word(words: &[WordBytes], index: usize) -> Option<u64> {
    words.get(index).map(|word| u64::from_le_bytes(*word))
}

/// The number at `index`, if there is one.
#[inline(always)]
pub fn number(numbers: &[NumberBytes], index: usize) -> Option<u32> {
    numbers.get(index).map(|number| u32::from_le_bytes(*number))
}

/// The two numbers of a word, the lower half first.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "two halves")]
pub const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Up to eight bytes as a number.
#[must_use]
pub fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The bits of a mask, lowest first.
#[inline(always)]
pub fn ones(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(bit)
    })
}

/// The flags that are set, in one word.
pub fn flags_of<const COUNT: usize>(flags: [(bool, u64); COUNT]) -> u64 {
    flags.into_iter().fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags })
}

/// Append `numbers`, two per word.
pub fn extend_pairs(words: &mut Vec<u64>, numbers: impl IntoIterator<Item = u32>) {
    let mut is_second = false;
    for number in numbers {
        match words.last_mut().filter(|_| is_second) {
            Some(last) => *last |= u64::from(number) << 32,
            None => words.push(u64::from(number)),
        }
        is_second = !is_second;
    }
}

/// Append numbers of four bytes.
pub fn extend_numbers(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

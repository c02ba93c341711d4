//! Looks for the end of a text in JSON, 8 bytes at a time: most texts of a message are short.

/// The index of the first quote, backslash or control character from `at` on, or else the length.
#[inline]
pub fn special_from(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    rest.iter().position(is_special).map_or(bytes.len(), |index| at + index)
}

/// The highest bit of each byte of `word` that is special. Above the lowest of these, bits may be set for other bytes.
const fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGHEST: u64 = ONES * 0x80;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    // Subtracting borrows from the highest bit of a byte that is less than what is subtracted.
    let is_zero = quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash;
    (is_zero | word.wrapping_sub(ONES * 0x20) & !word) & HIGHEST
}

//! Short strings of AMQP: at most 255 bytes of UTF-8, cut between characters.

/// The maximum size of a short string: its length is one octet.
pub(crate) const SHORT_SIZE_BYTES_MAX: usize = 255;

/// Cuts `text` between characters to the maximum size of a short string.
#[inline]
pub(crate) fn clamp_short(text: &str) -> &str {
    if text.len() <= SHORT_SIZE_BYTES_MAX {
        return text;
    }
    // A character has at most four bytes, so one of the last four positions is between two.
    let end = (0..=SHORT_SIZE_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// Appends `text` as a short string, cut to 255 bytes.
#[inline]
pub(crate) fn put_short(out: &mut Vec<u8>, text: &str) {
    let text = clamp_short(text);
    out.push(text.len() as u8); // at most 255, by the cut
    out.extend_from_slice(text.as_bytes());
}

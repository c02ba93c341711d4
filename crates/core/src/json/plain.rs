//! Finds the end of a value that nobody asks for, where its text is plain.
//!
//! Most values of a message are only skipped. This looks at nothing else and keeps its place in a register. Where it finds
//! something that is wrong or rare, the reader goes over the value again, step by step, and says what it is.

use super::text_end::special_from;

/// A bit per open bracket, the innermost lowest: 1 for an object. The highest bit that is set marks the outermost end.
const NONE_OPEN: u64 = 1;
const ALL_OPEN: u64 = 1 << 63;

/// The index after the value that begins at `at`, or after white space there. None where it is no JSON, or nests deeper than
/// 63, or has an escape by number.
#[inline]
pub fn plain_value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open = NONE_OPEN;
    loop {
        at = token_from(bytes, at);
        match *bytes.get(at)? {
            b'"' => at = text_end(bytes, at)?,
            b'-' | b'0'..=b'9' => at = number_end(bytes, at)?,
            b't' => at = literal_end(bytes, at, b"true")?,
            b'f' => at = literal_end(bytes, at, b"false")?,
            b'n' => at = literal_end(bytes, at, b"null")?,
            bracket @ (b'{' | b'[') if open < ALL_OPEN => {
                at = token_from(bytes, at + 1);
                // The closing brackets of ASCII are two above the opening ones.
                if *bytes.get(at)? == bracket + 2 {
                    at += 1;
                } else {
                    let is_object = bracket == b'{';
                    open = open << 1 | u64::from(is_object);
                    at = if is_object { name_end(bytes, at)? } else { at };
                    continue;
                }
            }
            _ => return None,
        }
        while open != NONE_OPEN {
            at = token_from(bytes, at);
            let is_object = open & 1 == 1;
            match *bytes.get(at)? {
                b',' => {
                    at = if is_object { name_end(bytes, token_from(bytes, at + 1))? } else { at + 1 };
                    break;
                }
                b'}' if is_object => {}
                b']' if !is_object => {}
                _ => return None,
            }
            at += 1;
            open >>= 1;
        }
        if open == NONE_OPEN {
            return Some(at);
        }
    }
}

/// The index of the first byte from `at` on that is no white space, or else the length.
#[inline]
fn token_from(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// The index after the name at `at` and its colon.
#[inline]
fn name_end(bytes: &[u8], at: usize) -> Option<usize> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let at = token_from(bytes, text_end(bytes, at)?);
    (*bytes.get(at)? == b':').then_some(at + 1)
}

/// The index after the text whose opening quote is at `at`.
#[inline]
fn text_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = special_from(bytes, at + 1);
    loop {
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' if matches!(bytes.get(at + 1)?, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                at = special_from(bytes, at + 2);
            }
            _ => return None,
        }
    }
}

/// The index after the number at `at`.
#[inline]
fn number_end(bytes: &[u8], at: usize) -> Option<usize> {
    let start = at + usize::from(bytes[at] == b'-');
    let mut at = digits_end(bytes, start)?;
    if bytes[start] == b'0' && at > start + 1 {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits_end(bytes, at)?;
    }
    Some(at)
}

/// The index after the digits at `at`; None where there is none.
#[inline]
fn digits_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    (at > start).then_some(at)
}

#[inline]
fn literal_end(bytes: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    let end = at + literal.len();
    (bytes.get(at..end)? == literal).then_some(end)
}

//! The reasons why a JSON text cannot be read, and their position in the text.

use std::ops::Range;

use crate::message::NESTING_MAX;

/// What is read of a text, or the reason why it cannot be.
pub type JsonResult<T> = Result<T, JsonError>;

/// The reason why a text cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonError {
    /// At this byte stands, or at the end is missing, what the text says.
    Broken(usize, &'static str),
    /// The value at this byte is nested too deep.
    TooDeep(usize),
    /// These bytes are an integer beyond 64 bits.
    LongInteger(Range<usize>),
    /// There are more values than there may be.
    TooMany,
}

impl JsonError {
    /// The reason, with the line and the column of `text`.
    pub fn describe(&self, text: &str) -> String {
        match self {
            Self::Broken(at, reason) => format!("{reason} at {}", position(text, *at)),
            Self::TooDeep(at) => format!("expected nesting of at most {NESTING_MAX} at {}", position(text, *at)),
            Self::LongInteger(range) => {
                let (integer, at) = (&text[range.clone()], position(text, range.start));
                format!("{integer} is beyond a signed integer of 64 bits at {at}")
            }
            Self::TooMany => "expected fewer values".to_owned(),
        }
    }
}

/// The line and the column, in bytes, of the byte `at`; at the end of the text, those of its last byte.
fn position(text: &str, at: usize) -> String {
    let last = text.len().saturating_sub(1);
    let before = &text.as_bytes()[..at.min(last)];
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + before.len() - memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    format!("line {line} column {column}")
}

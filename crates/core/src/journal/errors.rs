//! Why a log cannot be opened, appended to or read.

use std::{fmt, io};

use crate::journal::format::segment::Location;

/// Why a log cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file system reported an error.
    Io(io::Error),
    /// A later version of tamis wrote the log.
    Version(String),
    /// There is no log, or nothing in it tells which log it is.
    NoLog(String),
    /// Files of the log are missing, or belong to another log. Nothing was changed.
    Incomplete(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Version(text) | Self::NoLog(text) | Self::Incomplete(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a record was not appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The record is larger than a log with segments of this size accepts.
    TooLarge {
        /// The size of the record.
        size_bytes: usize,
        /// The maximum size of a record.
        max_bytes: usize,
    },
    /// `LogOptions::pending_bytes_max` already wait to be written: the disk is full, or slower than the publishers.
    Busy,
    /// Writing or syncing failed for this reason, and nothing is written any more.
    Failed(String),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size_bytes, max_bytes } => {
                write!(f, "a record of {size_bytes} bytes, where at most {max_bytes} fit")
            }
            Self::Busy => f.write_str("too much waits to be written"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for AppendError {}

/// Why records cannot be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file system reported an error.
    Io(io::Error),
    /// The record differs from what was written.
    Damaged(Location),
    /// The segment of the record has been removed.
    Gone(Location),
    /// There is no mark that tells how far the log is synced.
    NoMark,
}

impl ReadError {
    /// Whether a piece of a large record was read, and the next is to be asked for, without a wait. Such an error is
    /// [`Self::would_wait`], too.
    #[must_use]
    pub fn is_partly_read(&self) -> bool {
        matches!(self, Self::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<PartlyReadError>()))
    }

    /// Whether the reader would have had to wait for the disk and did not want to ([`Wait::Never`](super::Wait::Never)).
    #[must_use]
    pub fn would_wait(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A piece of a large record was read.
#[derive(Debug)]
struct PartlyReadError;

impl fmt::Display for PartlyReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of the record was read; ask again for the next")
    }
}

impl std::error::Error for PartlyReadError {}

/// The error of a reader that must not wait, after a piece of a large record.
pub(crate) fn partly_read() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, PartlyReadError)
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Damaged(Location { segment, offset }) => {
                write!(f, "the record at {offset} of segment {segment} is damaged")
            }
            Self::Gone(Location { segment, .. }) => write!(f, "segment {segment} has been removed"),
            Self::NoMark => f.write_str("the mark, which says how far the log is synced, cannot be read"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

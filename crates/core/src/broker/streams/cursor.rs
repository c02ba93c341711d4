//! The position of a reader in its stream: in the log, or a number where there is no history to read.

use std::fmt;

use crate::journal::{LogReader, Sequence};

/// The position of a reader.
pub(crate) enum Cursor {
    /// In the log.
    Log(Box<LogReader>),
    /// The number of the message that it waits for, of a stream without history.
    Number(Sequence),
}

impl Cursor {
    /// The number of the message that it gets next, or a later one that satisfies its query.
    pub fn position(&self) -> Sequence {
        match self {
            Self::Log(reader) => reader.position(),
            Self::Number(position) => *position,
        }
    }

    /// Move to this number.
    pub fn seek(&mut self, sequence: Sequence) {
        match self {
            Self::Log(reader) => reader.seek(sequence),
            Self::Number(position) => *position = sequence,
        }
    }

    /// Whether it has read a part of a large message.
    pub fn has_part(&self) -> bool {
        matches!(self, Self::Log(reader) if reader.has_part())
    }

    /// Let go of a large message of which it has read a part.
    pub fn drop_part(&mut self) {
        if let Self::Log(reader) = self {
            reader.drop_part();
        }
    }

    /// Let go of the open file and of what was read ahead.
    pub fn rest(&mut self) {
        if let Self::Log(reader) = self {
            reader.rest();
        }
    }

    /// Whether it looks for the first message of a time.
    pub fn awaits_time(&self) -> bool {
        matches!(self, Self::Log(reader) if reader.awaits_time())
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reader at {}", self.position())
    }
}

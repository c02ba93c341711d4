//! The errors of the core, as values that each binding translates at one boundary.

use std::fmt;

/// A query that cannot be parsed: its text, the position of the error, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// The whole text that was being parsed.
    pub text: String,
    /// The position: a count of characters (not bytes) from 0; equal to the length at the end of the text.
    pub position: usize,
    /// The expected text, as the object of "expected ...": "a number", "`)`".
    pub expected: String,
    /// A hint what to try instead, when there is a good guess: "did you mean `=`?".
    pub hint: Option<String>,
}

impl QueryError {
    /// An error at byte offset `byte` of `text`; the offset is converted into characters.
    #[must_use]
    pub fn at_byte(text: &str, byte: usize, expected: impl Into<String>) -> Self {
        let position = text.char_indices().take_while(|(index, _)| *index < byte).count();
        Self { text: text.to_owned(), position, expected: expected.into(), hint: None }
    }

    /// The same error with a guess of what was meant.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}: expected {}", self.position, self.expected)
    }
}

impl std::error::Error for QueryError {}

/// The errors of an engine.
#[derive(Debug)]
pub enum EngineError {
    /// A file that is no snapshot, has another version, or is damaged.
    Snapshot(String),
    /// The file system reported an error.
    Io(std::io::Error),
    /// A table given to `match_batch` has a column of a type that cannot be read.
    Batch(String),
    /// A row of the table holds a value that no property can have, or the rows match more queries than one result
    /// holds.
    Row(String),
    /// A hierarchy has a cycle, or a parent that is not declared.
    Hierarchy(String),
    /// An expensive predicate, named here, where only predicates that can be saved as bytes are allowed.
    Opaque(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(reason)
            | Self::Batch(reason)
            | Self::Row(reason)
            | Self::Hierarchy(reason)
            | Self::Opaque(reason) => f.write_str(reason),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<std::io::Error> for EngineError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

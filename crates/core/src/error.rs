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

    /// The error on one line, with the text around its position: for logs and replies of protocols.
    #[must_use]
    pub fn summary(&self) -> String {
        let hint = self.hint_in_parentheses();
        if self.text.is_empty() {
            return format!("expected {}{hint}", self.expected);
        }
        let before = self.position.min(SHOWN_BEFORE);
        let shown = self.text.chars().skip(self.position - before).take(before + SHOWN_AFTER);
        let near: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let place = if near.trim().is_empty() { String::new() } else { format!(" near '{}'", near.trim()) };
        format!("position {}: expected {}{place}{hint}", self.position, self.expected)
    }

    fn hint_in_parentheses(&self) -> String {
        self.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"))
    }

    /// Add a guess of what was meant.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The error as people see it: what was expected, and a caret under the position.
impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)?;
        if self.text.is_empty() {
            return f.write_str(&self.hint_in_parentheses());
        }
        write!(f, "\n{}", line_with_caret(&self.text, self.position, self.hint.as_deref()))
    }
}

/// The number of characters that a summary shows before the position of the error, and from there on.
const SHOWN_BEFORE: usize = 8;
const SHOWN_AFTER: usize = 24;
/// The maximum number of characters of a line that is shown with a caret.
const WINDOW_CHARACTERS: usize = 100;

/// The line of `text` with the character at `position`, and under it a caret there and `hint`. Of a long line only a window
/// around the position is shown.
#[must_use]
pub fn line_with_caret(text: &str, position: usize, hint: Option<&str>) -> String {
    let characters: Vec<char> = text.chars().collect();
    let position = position.min(characters.len());
    let start = characters[..position].iter().rposition(|c| *c == '\n').map_or(0, |end| end + 1);
    let end = characters[position..].iter().position(|c| *c == '\n').map_or(characters.len(), |end| position + end);
    let (line, mut column) = (&characters[start..end], position - start);
    let left = column.saturating_sub(WINDOW_CHARACTERS / 2).min(line.len().saturating_sub(WINDOW_CHARACTERS));
    column -= left;
    let shown = line.iter().skip(left).take(WINDOW_CHARACTERS).map(|c| if *c == '\t' { ' ' } else { *c });
    let hint = hint.map_or_else(String::new, |hint| format!(" {hint}"));
    format!("  {}\n  {}^{hint}", shown.collect::<String>(), " ".repeat(column))
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

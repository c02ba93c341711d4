//! LIKE patterns: `%` any run of characters, `_` one character, over the whole text, in linear time.

use std::fmt::{self, Display, Formatter};

/// A compiled LIKE pattern. Equal when pattern and escape character are.
#[derive(Clone, Debug, PartialEq)]
pub struct LikePattern {
    pattern: Box<str>,
    escape: Option<char>,
}

impl LikePattern {
    /// Compile `pattern`. `escape` acts only before `%`, `_` or itself; elsewhere it is an ordinary character.
    #[must_use]
    pub fn new(pattern: &str, escape: Option<char>) -> Self {
        Self { pattern: pattern.into(), escape }
    }

    /// True when the whole of `text` fits the pattern.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        todo!("{text}")
    }

    /// The literal runs of the pattern, in order, for marking what matched.
    #[must_use]
    pub fn literals(&self) -> Vec<&str> {
        todo!()
    }
}

impl Display for LikePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.pattern.replace('\'', "''"))?;
        match self.escape {
            Some('\'') => write!(f, " ESCAPE ''''"),
            Some(escape) => write!(f, " ESCAPE '{escape}'"),
            None => Ok(()),
        }
    }
}

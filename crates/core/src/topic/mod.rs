//! Topic patterns: dotted words with `*` and `#`, in three dialects.

/// Which rules `*` and `#` follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// AMQP 0-9-1: `*` one word, `#` zero or more.
    Amqp,
    /// Paper 000's table: one final `*` may also match nothing; `#` one or more.
    OpenAmq,
    /// Paper 000's program: `*` exactly one word, `#` one or more.
    OpenAmqProgram,
}

impl Dialect {
    /// The name that selectors and the library use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::OpenAmq => "openamq",
            Self::OpenAmqProgram => "openamq-program",
        }
    }

    /// The dialect called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Amqp, Self::OpenAmq, Self::OpenAmqProgram].into_iter().find(|dialect| dialect.name() == name)
    }
}

/// A pattern of topic names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
    dialect: Dialect,
}

impl TopicPattern {
    /// Compile `text`; every text is a pattern.
    #[must_use]
    pub fn new(text: &str, dialect: Dialect) -> Self {
        Self { text: text.into(), dialect }
    }

    /// The pattern as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its dialect.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// True when `topic` is one of the names that the pattern stands for.
    #[must_use]
    pub fn is_match(&self, topic: &str) -> bool {
        todo!("{topic}")
    }
}

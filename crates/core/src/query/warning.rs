//! Warnings: what is legal in a query and can hardly be meant.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::message::Value;
use crate::query::expr::{Comparison, Operand};
use crate::query::language::lexer::{TokenKind, whole_number};
use crate::{error::line_with_caret, instant};

/// Maximum number of warnings of a query.
const WARNINGS_MAX: usize = 10;

/// A warning: the query is read as written, but probably means something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryWarning {
    /// The whole text of the query.
    pub text: Arc<str>,
    /// The position: a count of characters (not bytes) from 0.
    pub position: usize,
    /// The mistake at this position.
    pub message: String,
    /// The text to write instead.
    pub hint: Option<String>,
}

impl QueryWarning {
    /// The warning on one line: for logs.
    #[must_use]
    pub fn summary(&self) -> String {
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        format!("position {}: {}{hint}", self.position, self.message)
    }
}

impl Display for QueryWarning {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let caret = line_with_caret(&self.text, self.position, self.hint.as_deref());
        write!(f, "{}\n{caret}", self.message)
    }
}

/// The warnings that a parser has found so far, each with the byte of the text that it is about.
#[derive(Debug, Default)]
pub(super) struct WarningList {
    found: Vec<(usize, String, Option<String>)>,
}

impl WarningList {
    pub fn add(&mut self, byte: usize, message: impl Into<String>, hint: impl Into<String>) {
        if self.found.len() < WARNINGS_MAX {
            self.found.push((byte, message.into(), Some(hint.into())));
        }
    }

    /// Look at `name op literal`, whose literal begins at `byte`.
    pub fn look_at_comparison(&mut self, name: &Operand, op: Option<Comparison>, literal: &Value, byte: usize) {
        let Value::Text(text) = literal else { return };
        if !matches!(name, Operand::Reference(_)) {
            return;
        }
        let is_order = !matches!(op, Some(Comparison::Equal | Comparison::NotEqual));
        if let Some(time) = time_literal(text) {
            let message = format!("'{text}' in quotes is a text, and is compared as one");
            self.add(byte, message, format!("a time is written {time}"));
        } else if is_order && matches!(whole_number(text), Some(TokenKind::Integer(_) | TokenKind::Float(_))) {
            let message = format!("'{text}' in quotes is a text, which is neither above nor below a number");
            self.add(byte, message, format!("without quotes it is a number: {text}"));
        }
    }

    /// Look at the pattern of a LIKE, which begins at `byte`.
    pub fn look_at_pattern(&mut self, pattern: &str, byte: usize) {
        if pattern.contains('*') {
            let meant = pattern.replace('*', "%");
            self.add(byte, "`*` is an ordinary character in a LIKE pattern", format!("`%` is any text: '{meant}'"));
        }
    }

    /// The warnings about `text`, in the order of their positions.
    pub fn finish(mut self, text: &str) -> Box<[QueryWarning]> {
        self.found.sort_by_key(|(byte, ..)| *byte);
        let whole: Arc<str> = if self.found.is_empty() { Arc::default() } else { text.into() };
        let warning = |(byte, message, hint): (usize, String, Option<String>)| QueryWarning {
            text: Arc::clone(&whole),
            position: text.char_indices().take_while(|(index, _)| *index < byte).count(),
            message,
            hint,
        };
        self.found.into_iter().map(warning).collect()
    }
}

/// The literal that means the time which `text` looks like.
fn time_literal(text: &str) -> Option<String> {
    let keyword = if instant::day(text).is_some() { "DATE" } else { "TIMESTAMP" };
    let is_time = keyword == "DATE" || instant::instant_or_utc(text).is_some();
    is_time.then(|| format!("{keyword} '{text}'"))
}

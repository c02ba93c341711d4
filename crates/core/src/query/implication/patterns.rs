//! Decides when every text that passes one text test passes another, and when no text passes both.

use super::budget::Budget;
use crate::query::expr::Predicate;
use crate::text::Phrase;
use crate::topic::{TopicDialect, TopicPattern};

/// True when every text that passes `a` passes `b`; sound, not complete.
pub(super) fn is_within(a: &Predicate, b: &Predicate, budget: &mut Budget) -> bool {
    match (a, b) {
        (Predicate::Prefix(_, long), Predicate::Prefix(_, short)) => long.starts_with(&**short),
        (Predicate::Contains(_, long), Predicate::Contains(_, short)) => has_in_a_row(long, short),
        (Predicate::Near(_, x, y, _), Predicate::Contains(_, word)) => has_in_a_row(x, word) || has_in_a_row(y, word),
        (Predicate::Near(_, x, y, close), Predicate::Near(_, v, w, far)) => {
            let same = |p: &Phrase, q: &Phrase| p.words() == q.words();
            close <= far && ((same(x, v) && same(y, w)) || (same(x, w) && same(y, v)))
        }
        (Predicate::Topic(narrow), Predicate::Topic(wide)) => narrow == wide || covers(wide, narrow, budget),
        _ => a == b,
    }
}

/// True when no text passes both; sound, not complete.
pub(super) fn are_apart(a: &Predicate, b: &Predicate) -> bool {
    match (a, b) {
        (Predicate::Prefix(_, a), Predicate::Prefix(_, b)) => !a.starts_with(&**b) && !b.starts_with(&**a),
        (Predicate::Topic(a), Predicate::Topic(b)) => literal_words(a).zip(literal_words(b)).any(|pair| {
            let (Some(a), Some(b)) = pair else { return false };
            a != b
        }),
        _ => false,
    }
}

fn has_in_a_row(long: &Phrase, short: &Phrase) -> bool {
    long.words().windows(short.words().len()).any(|row| row == short.words())
}

/// The words of a pattern before its first `#`, None for `*`: they begin every topic that it matches.
fn literal_words(pattern: &TopicPattern) -> impl Iterator<Item = Option<&str>> {
    words(pattern).take_while(|word| *word != "#").map(|word| (word != "*").then_some(word))
}

/// The words before the first wildcard: every topic that `pattern` matches begins with them.
pub(super) fn literal_beginning(pattern: &TopicPattern) -> impl Iterator<Item = &str> {
    words(pattern).take_while(|word| !matches!(*word, "*" | "#"))
}

/// True when it has no wildcard.
pub(super) fn is_literal(pattern: &TopicPattern) -> bool {
    !words(pattern).any(|word| matches!(word, "*" | "#"))
}

/// True when it matches every topic.
pub(super) fn is_everything(pattern: &TopicPattern) -> bool {
    pattern.dialect() == TopicDialect::Amqp && !pattern.text().is_empty() && words(pattern).all(|word| word == "#")
}

fn words(pattern: &TopicPattern) -> impl Iterator<Item = &str> {
    pattern.text().split('.').filter(|_| !pattern.text().is_empty())
}

/// True when `wide` matches every topic that `narrow` matches: its words match those of `narrow`, including wildcards.
/// Cost: words times words.
fn covers(wide: &TopicPattern, narrow: &TopicPattern, budget: &mut Budget) -> bool {
    // A final `*` of `openamq` may match nothing, so its words do not correspond one to one.
    if wide.dialect() != narrow.dialect() || wide.dialect() == TopicDialect::OpenAmq {
        return false;
    }
    let hash_takes_none = wide.dialect() == TopicDialect::Amqp;
    let (wide, narrow): (Vec<_>, Vec<_>) = (words(wide).collect(), words(narrow).collect());
    budget.spend(wide.len().saturating_mul(narrow.len()));
    if budget.is_spent() {
        return false;
    }
    // `tail_matches[j]`: the words of `wide` from some index on match those of `narrow` from j on.
    let mut tail_matches: Vec<bool> = (0..=narrow.len()).map(|j| j == narrow.len()).collect();
    for word in wide.iter().rev() {
        let mut now = vec![false; narrow.len() + 1];
        for j in (0..=narrow.len()).rev() {
            let next = narrow.get(j);
            now[j] = match (*word, next) {
                ("#", None) => hash_takes_none && tail_matches[j],
                ("#", Some(_)) => now[j + 1] || tail_matches[j + 1] || (hash_takes_none && tail_matches[j]),
                (_, None) => false,
                ("*", Some(word)) => *word != "#" && tail_matches[j + 1],
                (literal, Some(word)) => literal == *word && tail_matches[j + 1],
            };
        }
        tail_matches = now;
    }
    tail_matches[0]
}

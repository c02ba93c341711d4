//! Finds the parts of a body that a query's text predicates matched, to highlight them.

use std::ops::{Range, RangeInclusive};

use crate::message::{Body, Message};
use crate::query::Query;
use crate::query::expr::{Expr, Operand, Predicate, Reference};
use crate::text::words;

/// The maximum number of ranges that are marked for one predicate.
const RANGES_MAX: usize = 100;

impl Query {
    /// The byte ranges of the body, ascending and disjoint, that made predicates on it true. Negated predicates mark
    /// nothing.
    #[must_use]
    pub fn highlight(&self, message: &Message<'_>) -> Vec<Range<usize>> {
        let Body::Text(body) = message.body else { return Vec::new() };
        let mut ranges = Vec::new();
        mark(self.expr(), message, body, &mut ranges);
        merge(ranges)
    }

    /// The ranges to highlight, counted in characters, for languages that count these.
    #[must_use]
    pub fn highlight_characters(&self, message: &Message<'_>) -> Vec<(usize, usize)> {
        let Body::Text(body) = message.body else { return Vec::new() };
        let (mut at, mut characters) = (0, 0);
        let mut count_to = |byte: usize| {
            characters += body[at..byte].chars().count();
            at = byte;
            characters
        };
        self.highlight(message).into_iter().map(|range| (count_to(range.start), count_to(range.end))).collect()
    }
}

fn mark(expr: &Expr, message: &Message<'_>, body: &str, ranges: &mut Vec<Range<usize>>) {
    match expr {
        Expr::And(children) | Expr::Or(children) => children.iter().for_each(|c| mark(c, message, body, ranges)),
        // An expensive predicate has nothing to mark, so it is not called.
        Expr::Not(_) | Expr::Predicate(Predicate::Opaque(_)) => {}
        Expr::Predicate(predicate) => {
            if predicate.evaluate(message, None) == Some(true) {
                mark_predicate(predicate, message, body, ranges);
            }
        }
    }
}

fn mark_predicate(predicate: &Predicate, message: &Message<'_>, body: &str, ranges: &mut Vec<Range<usize>>) {
    match predicate {
        Predicate::Contains(Reference::Body, phrase) => {
            let signature = message.full_signature(body);
            let steps = u32::try_from(phrase.words().len()).unwrap_or(u32::MAX) - 1;
            let spans = signature.starts_of(phrase).take(RANGES_MAX).map(|start| start..=start + steps);
            mark_words(body, &spans.collect::<Vec<_>>(), ranges);
        }
        Predicate::Near(Reference::Body, a, b, distance) => {
            if let Some((left, right)) = message.full_signature(body).near(a, b, *distance) {
                mark_words(body, &[left..=left, right..=right], ranges);
            }
        }
        Predicate::Regex(Reference::Body, pattern) => ranges.extend(pattern.find_all(body, RANGES_MAX)),
        Predicate::Like(Operand::Reference(Reference::Body), pattern) => {
            let mut from = 0;
            for literal in pattern.literals() {
                if let Some(at) = body[from..].find(literal) {
                    ranges.push(from + at..from + at + literal.len());
                    from += at + literal.len();
                }
            }
        }
        _ => {}
    }
}

fn mark_words(body: &str, spans: &[RangeInclusive<u32>], ranges: &mut Vec<Range<usize>>) {
    for (position, (range, _)) in (0u32..).zip(words(body)) {
        if spans.iter().any(|span| span.contains(&position)) {
            ranges.push(range);
        }
    }
}

fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

//! Writes a leaf.

use crate::index::clause::NumberRange;
use crate::index::ids::SymbolCode;
use crate::index::layout::bytes::flags_of;

use super::bounds::{SCATTERED_MAX, bounds_of};
use super::masks::{AttributeMasks, masks_of};
use super::query::{CHOICES_MAX, LeafQuery, MIXED, RANGES_MAX, VERIFY, everyone, with_bits};
use super::{choices, subscribers};

/// Append the leaf of `queries` to `words`, with those `masks` that are not decided elsewhere. `codes` are those of the
/// symbols.
pub fn encode_leaf(queries: &[LeafQuery<'_>], masks: &[AttributeMasks], codes: &[SymbolCode], words: &mut Vec<u64>) {
    let start = words.len();
    let masks: Vec<_> = masks.iter().filter(|masks| !is_said_by_ranges(masks, queries)).collect();
    let unsure = with_bits(queries).filter(|(_, query)| query.needs_evaluation);
    let verify = unsure.fold(0, |mask, (bit, _)| mask | bit);
    let choice_count = queries.iter().map(|query| query.choices.len()).max().unwrap_or(0).min(CHOICES_MAX);
    let stored = |ranges: &'_ [NumberRange]| ranges.len().min(RANGES_MAX);
    let bounds =
        bounds_of(with_bits(queries).map(|(bit, query)| (bit, &query.ranges[..stored(query.ranges)])), queries.len());
    let is_mixed = queries.iter().any(|query| !query.mixed.is_empty());
    let flags = flags_of([(verify != 0, VERIFY), (is_mixed, MIXED)]) | subscribers::flags(queries) << 8;
    let counts = (masks.len() as u64) << 8 | (choice_count as u64) << 24 | (bounds.len() as u64) << 32;
    words.push(queries.len() as u64 | counts | flags << 48);
    words.extend([u64::from(queries[0].id.0), u64::from(queries[0].position)]);
    words.extend((verify != 0).then_some(verify));
    let plain: Vec<_> = (0..choice_count).map(|choice| choice_of(queries, choice, codes)).collect();
    let heads = plain.iter().map(|(_, masks)| 2 + 2 * masks.len()).sum::<usize>() + 2 * masks.len();
    let (bodies_start, mut bodies) = (words.len() - start + heads, Vec::new());
    masks.iter().for_each(|masks| masks.encode(words, bodies_start, &mut bodies));
    for (free, masks) in plain {
        words.extend([masks.len() as u64, free]);
        masks.iter().for_each(|masks| masks.encode(words, bodies_start, &mut bodies));
    }
    words.append(&mut bodies);
    words[start + 1] |= ((words.len() - start) as u64) << 32;
    bounds.iter().for_each(|bounds| bounds.encode(queries.len(), words));
    if is_mixed {
        let mixed: Vec<_> = with_bits(queries).map(|(bit, query)| (bit, &query.mixed[..])).collect();
        choices::encode(&mixed, queries.len(), codes, start, words);
    }
    words[start + 2] |= ((words.len() - start) as u64) << 32;
    subscribers::encode(queries, words);
}

/// True when ranges of few queries say all that `masks` does: that a number is there. Then comparing takes no longer.
fn is_said_by_ranges(masks: &AttributeMasks, queries: &[LeafQuery<'_>]) -> bool {
    let asking = || with_bits(queries).filter(|(bit, _)| masks.free & bit == 0);
    let says = |range: &NumberRange| range.attribute == masks.attribute && !range.is_negated;
    let has_range = |query: &LeafQuery<'_>| query.ranges.iter().take(RANGES_MAX).any(says);
    masks.is_of_presence(everyone(queries.len()))
        && asking().count() <= SCATTERED_MAX
        && asking().all(|(_, query)| has_range(query))
}

/// The queries that do not have the choice with this number, and the masks of the choice.
fn choice_of(queries: &[LeafQuery<'_>], choice: usize, codes: &[SymbolCode]) -> (u64, Vec<AttributeMasks>) {
    let choices = || with_bits(queries).filter_map(|(bit, query)| query.choices.get(choice).map(|tests| (bit, *tests)));
    let asking = choices().fold(0, |mask, (bit, _)| mask | bit);
    let tests = choices().flat_map(|(bit, tests)| tests.iter().map(move |test| (bit, test)));
    (everyone(queries.len()) & !asking, masks_of(tests, 0, codes))
}

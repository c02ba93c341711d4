//! Merges segments, so that there are few of them: of each size at most a few, each several times the one before.
//!
//! Small merges are done by the thread that adds subscriptions. Larger ones are done by a thread of their own, one at a time
//! per engine, while subscriptions are added. So is the first segment of large queries, where changes must be quick.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::EngineError;
use crate::index::SubscriptionId;
use crate::index::compile::builder::{Builder, BuiltSegment, NewSubscription, sampled_queries};
use crate::index::segment::Segment;
use crate::index::segment::tail::TAIL_MAX;
use crate::query::Query;

use super::version::Version;

/// This many segments of one size become one of the next size, which is this many times as large.
const FANOUT: usize = 4;
/// Merges of more weight than this number of subscriptions have a thread of their own; a large query weighs more. An engine
/// whose changes must be quick has a lower limit.
pub const INLINE_MAX: usize = 1_024;
/// The number of predicates and of values in their lists that weigh as much as a subscription.
const PREDICATES_PER_WEIGHT: usize = 3;
/// The bytes of an index that weigh as much as a subscription: more than an ordinary query has.
const BYTES_PER_WEIGHT: usize = 192;
/// Segments of at most this many subscriptions are built without counting what their queries have in common.
const SAMPLED_MIN: usize = FANOUT * TAIL_MAX;
/// A segment is built again when this many of its subscriptions were removed, and more than half.
const REMOVED_MIN: usize = 1_024;

/// Maximum number of segments that stay when an engine is compacted.
const COMPACT_MAX: usize = 3;
/// All segments become one when more than this part of the subscriptions is outside the largest, or was removed from it.
const WORN_PART: usize = 20;

/// The segments that should become one when nobody changes the engine, if any.
pub fn compactable(version: &Version) -> Option<Vec<Arc<Segment>>> {
    let (largest, is_worn) = largest(version)?;
    if is_worn {
        return Some(version.segments.clone());
    }
    let rest = version.segments.iter().filter(|segment| !Arc::ptr_eq(segment, largest));
    (version.segments.len() > COMPACT_MAX).then(|| rest.cloned().collect())
}

/// True when the segments of `version` need not be merged before it changes again.
pub fn is_compact(version: &Version) -> bool {
    largest(version).is_none_or(|(_, is_worn)| !is_worn && version.segments.len() <= COMPACT_MAX)
}

/// The largest segment, and whether too many subscriptions are outside it or were removed from it.
fn largest(version: &Version) -> Option<(&Arc<Segment>, bool)> {
    let segments = &version.segments;
    let largest = segments.iter().max_by_key(|segment| segment.position_count())?;
    let worn = size(segments) - largest.position_count() + largest.tombstones.count();
    Some((largest, worn * WORN_PART > version.live))
}

/// The segments that should become one now, if any: none of those in `busy`, and of at most `size_max` weight.
pub fn due(version: &Version, busy: &[Arc<Segment>], size_max: usize) -> Option<Vec<Arc<Segment>>> {
    let idle = || idle(version, busy);
    let worn = idle().find(|segment| {
        let removed = segment.tombstones.count();
        removed > REMOVED_MIN && removed * 2 > segment.position_count() && weight_of(segment) <= size_max
    });
    if let Some(worn) = worn {
        return Some(vec![Arc::clone(worn)]);
    }
    let mut counts = [0; u32::BITS as usize];
    idle().for_each(|segment| counts[tier(segment.position_count()) as usize] += 1);
    if counts.iter().all(|count| *count < FANOUT) {
        return None; // as after most changes
    }
    let due = cascade(idle(), (0, 0), size_max);
    (!due.is_empty()).then_some(due)
}

/// The segments that would be merged at once with a new one, of which the number of subscriptions and the weight are
/// `arriving`. The new one is built together with them instead. All of them together have a weight of at most `size_max`.
pub fn joining(
    version: &Version,
    busy: &[Arc<Segment>],
    arriving: (usize, usize),
    size_max: usize,
) -> Vec<Arc<Segment>> {
    let no_smaller = |segment: &&Arc<Segment>| tier(segment.position_count()) >= tier(arriving.0);
    cascade(idle(version, busy).filter(no_smaller), arriving, size_max.min(INLINE_MAX))
}

fn idle<'a>(version: &'a Version, busy: &[Arc<Segment>]) -> impl Iterator<Item = &'a Arc<Segment>> {
    version.segments.iter().filter(|segment| !busy.iter().any(|other| Arc::ptr_eq(other, segment)))
}

/// The `segments` that become one, from the smallest on, when some subscriptions are added, of which the number and the
/// weight are `arriving`.
fn cascade<'a>(
    segments: impl Iterator<Item = &'a Arc<Segment>>,
    (arriving, mut weight): (usize, usize),
    size_max: usize,
) -> Vec<Arc<Segment>> {
    let mut by_tier: BTreeMap<u32, Vec<Arc<Segment>>> = BTreeMap::new();
    segments.for_each(|segment| by_tier.entry(tier(segment.position_count())).or_default().push(Arc::clone(segment)));
    let (mut due, mut positions) = (Vec::new(), arriving);
    for (of, segments) in by_tier {
        // The segments that are due already would become one more of this size. If that completes the size, all of them
        // become one segment, and nothing is merged twice.
        let one_more = usize::from(positions > 0 && tier(positions) == of);
        if segments.len() + one_more >= FANOUT && weight + self::weight(&segments) <= size_max {
            positions += size(&segments);
            weight += self::weight(&segments);
            due.extend(segments);
        } else if positions > 0 {
            break;
        }
    }
    due
}

/// The number of merges of [`FANOUT`] segments that lead to a segment of `positions` subscriptions.
fn tier(positions: usize) -> u32 {
    (positions / TAIL_MAX).max(1).ilog2() / FANOUT.ilog2()
}

/// The work of building one segment from `segments`.
pub fn weight(segments: &[Arc<Segment>]) -> usize {
    segments.iter().map(|segment| weight_of(segment)).sum()
}

fn weight_of(segment: &Segment) -> usize {
    let predicates = segment.kept_size() / PREDICATES_PER_WEIGHT;
    segment.position_count().max(predicates).max(segment.store.bytes() / BYTES_PER_WEIGHT)
}

/// The work of indexing `query`, relative to a subscription that has a small one.
pub fn weight_of_query(query: &Query) -> usize {
    1.max(query.expr().size() / PREDICATES_PER_WEIGHT)
}

/// The number of subscriptions of `segments`, removed ones included.
fn size(segments: &[Arc<Segment>]) -> usize {
    segments.iter().map(|segment| segment.position_count()).sum()
}

#[cfg(test)]
thread_local! {
    /// The weight of the heaviest segment that this thread has built.
    pub static HEAVIEST: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A segment of `subscriptions`. A small segment keeps its queries decoded, since it will be merged again soon.
///
/// # Panics
/// Never: a builder's sections are whole.
pub fn build(subscriptions: &[(SubscriptionId, Arc<Query>)]) -> Segment {
    #[cfg(test)]
    HEAVIEST.set(HEAVIEST.get().max(subscriptions.iter().map(|(_, query)| weight_of_query(query)).sum()));
    // A handful of queries say little about what others are like, and are soon merged.
    let sampled = if subscriptions.len() > SAMPLED_MIN { subscriptions } else { &[] };
    let sample = sampled_queries(sampled.len()).map(|index| &*sampled[index].1);
    let mut builder = Builder::new(subscriptions.len(), sample);
    let add = |(id, query): &(SubscriptionId, Arc<Query>)| {
        builder.add(query, [NewSubscription { id: *id, key: None }].into_iter())
    };
    let added: Vec<_> = subscriptions.iter().map(add).collect();
    let BuiltSegment { sections, opaques, query_ids, shared_predicates } = builder.finish();
    let segment = Segment::of(sections, opaques.as_slice().to_vec());
    segment.keep_shared_predicates(shared_predicates);
    let is_small = subscriptions.len() <= INLINE_MAX;
    let queries = subscriptions.iter().map(|(_, query)| query);
    let all = added.into_iter().map(|query| query_ids[query.index()]).zip(queries);
    segment.keep(all.filter(|(_, query)| is_small || query.is_expensive_to_compile()));
    if !is_small {
        segment.build_text_search().expect("a builder's sections are whole");
    }
    segment
}

/// The live subscriptions of `segments` at `version`; None unless all their queries are kept and none has a saved key.
pub fn kept(segments: &[Arc<Segment>], version: u64) -> Option<Vec<(SubscriptionId, Arc<Query>)>> {
    let mut all = Vec::with_capacity(size(segments));
    for segment in segments {
        for query in segment.query_ids() {
            for position in segment.positions(query).ok()? {
                if segment.tombstones.is_live(position, version) {
                    if segment.key(position).ok()?.is_some() {
                        return None;
                    }
                    all.push((segment.id(position).ok()?, Arc::clone(segment.kept(query)?)));
                }
            }
        }
    }
    Some(all)
}

/// One segment of the live subscriptions of `segments` at `version`. Cost: a few microseconds per query.
pub fn merge(segments: &[Arc<Segment>], version: u64) -> Result<Segment, EngineError> {
    if let Some(all) = kept(segments, version) {
        return Ok(build(&all));
    }
    let queries = || segments.iter().flat_map(|segment| segment.query_ids().map(move |query| (segment, query)));
    let count = segments.iter().map(|segment| segment.query_count()).sum();
    let (mut damage, mut sampled) = (None, sampled_queries(count).peekable());
    let sample = (0..)
        .zip(queries())
        .filter(|(index, _)| sampled.next_if_eq(index).is_some())
        .map_while(|(_, (segment, query))| segment.decode(query).map_err(|error| damage = Some(error)).ok());
    let mut builder = Builder::new(count, sample);
    if let Some(error) = damage {
        return Err(error);
    }
    let mut expensive = Vec::new();
    for (segment, query) in queries() {
        let mut live = Vec::new();
        for position in segment.positions(query)? {
            if segment.tombstones.is_live(position, version) {
                live.push(NewSubscription { id: segment.id(position)?, key: segment.key(position)? });
            }
        }
        if live.is_empty() {
            continue;
        }
        let compiled = match segment.kept(query) {
            Some(kept) => Arc::clone(kept),
            None => Arc::new(segment.decode(query)?),
        };
        let added = builder.add(&compiled, live.into_iter());
        if compiled.is_expensive_to_compile() {
            expensive.push((added, compiled));
        }
    }
    let BuiltSegment { sections, opaques, query_ids, shared_predicates } = builder.finish();
    let merged = Segment::of(sections, opaques.as_slice().to_vec());
    merged.keep_shared_predicates(shared_predicates);
    merged.keep(expensive.iter().map(|(added, query)| (query_ids[added.index()], query)));
    merged.build_text_search()?;
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::expr::Predicate;
    use crate::query::selector::{SelectorDialect, parse};

    fn segment(first: u64, count: u64) -> Arc<Segment> {
        let query = Arc::new(Query::new(Predicate::Constant(true).into()).expect("a query"));
        let ids = (first..first + count).map(SubscriptionId);
        Arc::new(build(&ids.map(|id| (id, Arc::clone(&query))).collect::<Vec<_>>()))
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn what_would_be_merged_again_at_once_is_merged_together() {
        let mut version = Version::default();
        let sizes = [40, 40, 40, 40, 160, 160, 160, 640, 640];
        version.segments = (0..).zip(sizes).map(|(i, count)| segment(1_000 * i, count)).collect();
        let due_sizes = |size_max| {
            let merging = due(&version, &[], size_max).unwrap_or_default();
            merging.iter().map(|segment| segment.position_count()).collect::<Vec<_>>()
        };
        assert_eq!(due_sizes(usize::MAX), [40, 40, 40, 40, 160, 160, 160]);
        assert_eq!(due_sizes(200), [40, 40, 40, 40]);
        version.segments.push(segment(9_000, 640));
        let merging = due(&version, &[], usize::MAX).unwrap_or_default();
        assert_eq!(merging.len(), version.segments.len());
        version.segments.remove(0);
        assert!(due(&version, &[], usize::MAX).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn a_new_segment_is_built_with_those_that_it_would_be_merged_with() {
        let mut version = Version::default();
        let sizes = [40, 40, 40, 160, 160, 640, 640, 640];
        version.segments = (0..).zip(sizes).map(|(i, count)| segment(1_000 * i, count)).collect();
        let joining_sizes = |version: &Version, busy: &[Arc<Segment>], count| {
            joining(version, busy, (count, count), INLINE_MAX)
                .iter()
                .map(|segment| segment.position_count())
                .collect::<Vec<_>>()
        };
        assert_eq!(joining_sizes(&version, &[], 33), [40, 40, 40]);
        assert_eq!(joining_sizes(&version, &version.segments[1..2], 33), [0; 0], "one of them is busy");
        assert_eq!(joining_sizes(&version, &[], 140), [0; 0], "there are two of its size");
        version.segments.push(segment(9_000, 160));
        assert_eq!(
            joining_sizes(&version, &[], 33),
            [40, 40, 40, 160, 160, 160],
            "and no more than a thread is asked for"
        );
        assert_eq!(joining_sizes(&version, &[], 140), [160, 160, 160], "smaller ones wait for more of their size");
        assert_eq!(joining_sizes(&version, &[], 5_000), [0; 0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn segments_of_large_queries_are_merged_in_a_thread_and_others_are_not() {
        let of_texts = |texts: &mut dyn Iterator<Item = String>| {
            let parsed = texts.map(|text| Arc::new(parse(&text, SelectorDialect::Jms).expect(&text)));
            let all: Vec<_> = parsed.zip(0..).map(|(query, id)| (SubscriptionId(id), query)).collect();
            weight_of(&build(&all))
        };
        let large = |one: &dyn Fn(u32) -> String| {
            let any = |query: u32| (0..900).map(|i| one(1_000 * query + i)).collect::<Vec<_>>().join(" OR ");
            of_texts(&mut (0..4).map(any))
        };
        for (kind, weight) in [
            ("NEAR", large(&|i| format!("NEAR(body, 'a', 'b', {})", i + 1))),
            ("LIKE", large(&|i| format!("body LIKE '%a_b%c{i}%'"))),
            ("CONTAINS", large(&|i| format!("CONTAINS(body, 'a a a b{i}')"))),
            ("=", large(&|i| format!("body.a.x{i} = {i}"))),
        ] {
            assert!(weight > INLINE_MAX, "{kind}: {weight}");
        }
        let ordinary = |i: u32| {
            let (price, city, kind) = (i % 997, i % 331, i % 7);
            format!("price < {price} AND city = 'c{city}' AND kind IN ('a{kind}', 'b') AND body LIKE '%foo{i}%'")
        };
        let ordinary = of_texts(&mut (0..400).map(ordinary));
        assert!(ordinary <= INLINE_MAX, "{ordinary}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
    fn small_segments_are_merged_also_while_a_large_one_waits() {
        let worn = segment(0, 5_000);
        (0..3_000).for_each(|position| worn.tombstones.remove(position, 1));
        let small: Vec<_> = (0..4).map(|i| segment(5_000 + 40 * i, 40)).collect();
        let mut version = Version::default();
        version.number = 1;
        version.segments = [vec![Arc::clone(&worn)], small.clone()].concat();
        let is_due = |busy: &[Arc<Segment>], size_max, expected: &[Arc<Segment>]| {
            let merging = due(&version, busy, size_max).unwrap_or_default();
            merging.len() == expected.len() && merging.iter().zip(expected).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        assert!(is_due(&[], usize::MAX, std::slice::from_ref(&worn)));
        assert!(is_due(&[], INLINE_MAX, &small));
        assert!(is_due(std::slice::from_ref(&worn), usize::MAX, &small));
        assert!(is_due(&small[..1], INLINE_MAX, &[]));
    }
}

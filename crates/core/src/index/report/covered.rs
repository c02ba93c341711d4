//! Finds queries that are covered by another: whenever the one is true, the other is too.
//!
//! Comparing every two queries would be quadratic. A query is filed under the key that the fewest queries look up, and in
//! long lists under a second key too. Each query looks up its own keys, and is only compared with the queries filed there:
//! first by a mask of the keys that every covered query must look up, then claim by claim. Both kinds of comparison have a
//! bound that grows with the number of queries; comparisons beyond it are counted and left out.

use std::ops::Range;

use hashbrown::HashMap;

use crate::query::Query;
use crate::query::implication::{FilingKey, Meaning};

/// Maximum number of queries that cover one.
const COVERS_MAX: usize = 8;
/// The budget for comparisons of masks, a nanosecond each.
const MASKS: ComparisonBudget = ComparisonBudget { start: 10_000_000, each: 1_000 };
/// The budget for comparisons of claims, a few hundred nanoseconds each.
const CLAIMS: ComparisonBudget = ComparisonBudget { start: 1_000_000, each: 4 };

/// The maximum length of a list under one key; a longer list is looked up by a second key too.
const SCANNED_MAX: usize = 32;

/// Maximum number of meanings that are kept, about a kilobyte each.
const MEANINGS_MAX: usize = 50_000;

/// The covered queries.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Indexes of a query and of one that covers it, ordered by the first.
    pub(super) pairs: Vec<(usize, usize)>,
    /// The number of candidates that were not compared.
    pub(super) left_out: usize,
}

/// The number of comparisons allowed. Comparisons that one query does not use are left to the next.
struct ComparisonBudget {
    /// The number for all queries together.
    start: usize,
    /// The number added per query.
    each: usize,
}

/// A query under one of its keys.
#[derive(Clone, Copy)]
struct FiledQuery {
    key: FilingKey,
    /// Another key that a covered query must look up; [`NO_SECOND`] when there is none.
    second: FilingKey,
    /// A bit for each key that a covered query must look up.
    needed: u64,
    /// Two sets of keys, a bit for each: a covered query must look up one key of each set.
    either: [u64; 2],
    query: usize,
}

/// No second key.
const NO_SECOND: FilingKey = 0;

impl FiledQuery {
    /// False when the keys that a query has looked up, of which this is the mask, exclude it.
    fn may_cover(&self, looked_up: u64) -> bool {
        self.needed & !looked_up == 0 && self.either.iter().all(|keys| keys & looked_up != 0)
    }
}

/// Every query that is covered by another, with at most [`COVERS_MAX`] of those. Of two that cover each other, the later is
/// covered by the earlier. Queries that are None are left out.
pub(super) fn find(queries: &[Option<&Query>]) -> Covered {
    let lookups = KeyLookups::of(queries);
    let files = QueryFiles::of(queries, &lookups);
    let mut search = CoverSearch {
        files: &files,
        meanings: Meanings { queries, known: HashMap::new() },
        masks_left: MASKS.start,
        claims_left: CLAIMS.start,
        compared_with: vec![usize::MAX; queries.len()],
        covered: Covered::default(),
    };
    for narrow in files.order(queries.len()) {
        search.visit(narrow, lookups.of_query(narrow));
    }
    search.covered.pairs.sort_unstable();
    search.covered
}

/// Searches the queries that cover each query, one after another.
struct CoverSearch<'s, 'q> {
    files: &'s QueryFiles,
    meanings: Meanings<'s, 'q>,
    masks_left: usize,
    claims_left: usize,
    /// The last query that each query was compared with.
    compared_with: Vec<usize>,
    covered: Covered,
}

impl CoverSearch<'_, '_> {
    fn visit(&mut self, narrow: usize, keys: &[FilingKey]) {
        self.masks_left += MASKS.each;
        self.claims_left += CLAIMS.each;
        let looked_up = mask(keys);
        let mut covers = 0;
        for candidates in self.files.under(keys) {
            let compared = candidates.len().min(self.masks_left);
            self.masks_left -= compared;
            self.covered.left_out += candidates.len() - compared;
            for candidate in candidates[..compared].iter().filter(|candidate| candidate.may_cover(looked_up)) {
                let wide = candidate.query;
                if wide == narrow || std::mem::replace(&mut self.compared_with[wide], narrow) == narrow {
                    continue;
                }
                if self.covers(wide, narrow) {
                    self.covered.pairs.push((narrow, wide));
                    covers += 1;
                    if covers == COVERS_MAX {
                        return;
                    }
                }
            }
        }
    }

    /// Compare claim by claim, within the budget.
    fn covers(&mut self, wide: usize, narrow: usize) -> bool {
        if self.claims_left == 0 {
            self.covered.left_out += 1;
            return false;
        }
        self.claims_left -= 1;
        self.meanings.know(narrow, wide);
        let (Some(narrower), Some(wider)) = (self.meanings.known.get(&narrow), self.meanings.known.get(&wide)) else {
            return false;
        };
        narrower.is_covered_by(wider) && (wide < narrow || !wider.is_covered_by(narrower))
    }
}

/// The meanings of queries that were compared recently.
struct Meanings<'s, 'q> {
    queries: &'s [Option<&'q Query>],
    known: HashMap<usize, Meaning<'q>>,
}

impl Meanings<'_, '_> {
    /// Make both meanings known. At the bound all are forgotten. That is rare: queries with the same candidates are visited
    /// one after another.
    fn know(&mut self, narrow: usize, wide: usize) {
        if self.known.len() + 2 > MEANINGS_MAX {
            self.known.clear();
        }
        for query in [narrow, wide] {
            if let (false, Some(text)) = (self.known.contains_key(&query), self.queries[query]) {
                self.known.insert(query, Meaning::of(text));
            }
        }
    }
}

/// The keys that each query looks up.
struct KeyLookups {
    keys: Vec<FilingKey>,
    /// The end of the keys of each query.
    ends: Vec<usize>,
}

impl KeyLookups {
    fn of(queries: &[Option<&Query>]) -> Self {
        let mut lookups = Self { keys: Vec::new(), ends: Vec::with_capacity(queries.len()) };
        for query in queries {
            lookups.keys.extend(query.map(|query| Meaning::of(query).lookups()).unwrap_or_default());
            lookups.ends.push(lookups.keys.len());
        }
        lookups
    }

    fn of_query(&self, query: usize) -> &[FilingKey] {
        let start = if query == 0 { 0 } else { self.ends[query - 1] };
        &self.keys[start..self.ends[query]]
    }

    fn counts(&self) -> HashMap<FilingKey, usize> {
        let mut counts = HashMap::new();
        self.keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
        counts
    }
}

/// Queries by the keys that they are filed under.
struct QueryFiles {
    filed: Vec<FiledQuery>,
    ranges: HashMap<FilingKey, Range<usize>>,
    /// The parts of long lists, by both keys.
    parts: HashMap<(FilingKey, FilingKey), Range<usize>>,
}

impl QueryFiles {
    fn of(queries: &[Option<&Query>], lookups: &KeyLookups) -> Self {
        let counts = lookups.counts();
        let count = |key| counts.get(&key).copied().unwrap_or(0);
        let mut filed = Vec::new();
        for (query, meaning) in queries.iter().enumerate().filter_map(|(i, q)| q.map(|q| (i, Meaning::of(q)))) {
            let filing = meaning.filing(&count);
            let needed = mask(&filing.needed);
            let either = [0, 1].map(|index| filing.alternatives.get(index).map_or(u64::MAX, |keys| mask(keys)));
            for key in filing.keys.into_iter().filter(|key| count(*key) > 0) {
                let second = filing.needed.iter().copied().find(|other| *other != key).unwrap_or(NO_SECOND);
                filed.push(FiledQuery { key, second, needed, either, query });
            }
        }
        filed.sort_unstable_by_key(|query: &FiledQuery| (query.key, query.second, query.query));
        let ranges = runs(&filed, 0..filed.len(), |query| query.key).collect::<HashMap<_, _>>();
        let long = ranges.values().filter(|range| range.len() > SCANNED_MAX);
        let parts = long.flat_map(|range| runs(&filed, range.clone(), |query| (query.key, query.second))).collect();
        Self { filed, ranges, parts }
    }

    /// All queries; those that are filed under the same keys follow each other.
    fn order(&self, query_count: usize) -> Vec<usize> {
        let mut is_placed = vec![false; query_count];
        let filed = self.filed.iter().map(|filed| filed.query).chain(0..query_count);
        filed.filter(|query| !std::mem::replace(&mut is_placed[*query], true)).collect()
    }

    /// The lists that a query finds under `keys`.
    fn under<'f>(&'f self, keys: &'f [FilingKey]) -> impl Iterator<Item = &'f [FiledQuery]> {
        keys.iter().filter_map(|key| self.ranges.get(key).map(|range| (*key, range))).flat_map(move |(key, range)| {
            let is_short = range.len() <= SCANNED_MAX;
            let whole = is_short.then(|| range.clone());
            let seconds = if is_short { &[] } else { keys };
            let parts = seconds.iter().chain((!is_short).then_some(&NO_SECOND));
            let parts = parts.filter_map(move |second| self.parts.get(&(key, *second)).cloned());
            whole.into_iter().chain(parts).map(|range| &self.filed[range])
        })
    }
}

/// The ranges of equal keys within a part of `filed`.
fn runs<'f, K: PartialEq + 'f>(
    filed: &'f [FiledQuery],
    part: Range<usize>,
    key: fn(&FiledQuery) -> K,
) -> impl Iterator<Item = (K, Range<usize>)> + 'f {
    let mut start = part.start;
    filed[part].chunk_by(move |a, b| key(a) == key(b)).map(move |run| {
        let range = start..start + run.len();
        start = range.end;
        (key(&run[0]), range)
    })
}

/// One bit of 64 for each key.
fn mask(keys: &[FilingKey]) -> u64 {
    keys.iter().fold(0, |mask, key| mask | 1 << (key >> 58))
}

//! Which queries are covered by another: whenever the one is true, the other is.
//!
//! Comparing every two would be quadratic. A query is filed under the key that fewest look up, among many there under
//! a second one; each query looks up its own, and only what it finds is compared: first by a mask of the keys that
//! every covered query must look up, then claim by claim. Both kinds of comparison have a bound that grows with the
//! number of queries; what is beyond it is counted and left out.

use std::ops::Range;

use hashbrown::HashMap;

use crate::query::Query;
use crate::query::implication::{FilingKey, Meaning};

/// How many of the queries that cover it are looked for.
const COVERS_MAX: usize = 8;
/// Comparisons of masks, a nanosecond each: so many at once, and so many more a query.
const MASKS: Allowance = Allowance { start: 10_000_000, each: 1_000 };
/// Comparisons of claims, a few hundred nanoseconds each.
const CLAIMS: Allowance = Allowance { start: 1_000_000, each: 4 };

/// A list under one key that is longer than this is looked up by a second key too.
const SCANNED_MAX: usize = 32;

/// So many meanings are kept, about a kilobyte each.
const MEANINGS_MAX: usize = 50_000;

/// What [`find`] found.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// Places of a query and of one that covers it, by the first.
    pub(super) pairs: Vec<(usize, usize)>,
    /// How many candidates were not compared.
    pub(super) left_out: usize,
}

/// Work that may be done: what one query does not use is left to the next.
struct Allowance {
    start: usize,
    each: usize,
}

#[derive(Clone, Copy)]
struct Filed {
    key: FilingKey,
    /// Another one that a covered query must look up; [`NO_SECOND`] where there is none.
    second: FilingKey,
    /// A bit for each key that a covered query must look up.
    needed: u64,
    /// A bit for each key of which it must look up one; twice.
    either: [u64; 2],
    query: usize,
}

const NO_SECOND: FilingKey = 0;

impl Filed {
    /// False when something that it asks for is not among the keys looked up, of which this is the mask.
    fn may_cover(&self, looked_up: u64) -> bool {
        self.needed & !looked_up == 0 && self.either.iter().all(|keys| keys & looked_up != 0)
    }
}

/// Every query that is covered by another, with at most [`COVERS_MAX`] of those. Of two that cover each other, the
/// later is covered by the earlier. None stands for a query that is left out.
pub(super) fn find(queries: &[Option<&Query>]) -> Covered {
    let lookups = Lookups::of(queries);
    let files = Files::of(queries, &lookups);
    let mut search = Search {
        files: &files,
        meanings: Meanings { queries, known: HashMap::new() },
        masks_left: MASKS.start,
        claims_left: CLAIMS.start,
        seen_by: vec![usize::MAX; queries.len()],
        found: Covered::default(),
    };
    for narrow in files.order(queries.len()) {
        search.visit(narrow, lookups.of_query(narrow));
    }
    search.found.pairs.sort_unstable();
    search.found
}

/// A search for what covers each query, one after another.
struct Search<'s, 'q> {
    files: &'s Files,
    meanings: Meanings<'s, 'q>,
    masks_left: usize,
    claims_left: usize,
    /// The last query that each was compared with.
    seen_by: Vec<usize>,
    found: Covered,
}

impl Search<'_, '_> {
    fn visit(&mut self, narrow: usize, keys: &[FilingKey]) {
        self.masks_left += MASKS.each;
        self.claims_left += CLAIMS.each;
        let looked_up = mask(keys);
        let mut covers = 0;
        for candidates in self.files.under(keys) {
            let compared = candidates.len().min(self.masks_left);
            self.masks_left -= compared;
            self.found.left_out += candidates.len() - compared;
            for candidate in candidates[..compared].iter().filter(|candidate| candidate.may_cover(looked_up)) {
                let wide = candidate.query;
                if wide == narrow || std::mem::replace(&mut self.seen_by[wide], narrow) == narrow {
                    continue;
                }
                if self.covers(wide, narrow) {
                    self.found.pairs.push((narrow, wide));
                    covers += 1;
                    if covers == COVERS_MAX {
                        return;
                    }
                }
            }
        }
    }

    /// Compare claim by claim, as long as that is allowed.
    fn covers(&mut self, wide: usize, narrow: usize) -> bool {
        if self.claims_left == 0 {
            self.found.left_out += 1;
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

/// The meanings of queries that were compared lately.
struct Meanings<'s, 'q> {
    queries: &'s [Option<&'q Query>],
    known: HashMap<usize, Meaning<'q>>,
}

impl Meanings<'_, '_> {
    /// See to it that both are known. At the bound all are forgotten: queries are visited in an order in which those
    /// that find the same candidates follow each other, so that this is rare.
    fn know(&mut self, narrow: usize, wide: usize) {
        if self.known.len() + 2 > MEANINGS_MAX {
            self.known.clear();
        }
        for place in [narrow, wide] {
            if let (false, Some(query)) = (self.known.contains_key(&place), self.queries[place]) {
                self.known.insert(place, Meaning::of(query));
            }
        }
    }
}

/// The keys that each query looks up.
struct Lookups {
    keys: Vec<FilingKey>,
    /// Where those of each query end.
    ends: Vec<usize>,
}

impl Lookups {
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
struct Files {
    filed: Vec<Filed>,
    places: HashMap<FilingKey, Range<usize>>,
    /// The parts of long lists, by both keys.
    parts: HashMap<(FilingKey, FilingKey), Range<usize>>,
}

impl Files {
    fn of(queries: &[Option<&Query>], lookups: &Lookups) -> Self {
        let counts = lookups.counts();
        let count = |key| counts.get(&key).copied().unwrap_or(0);
        let mut filed = Vec::new();
        for (query, meaning) in queries.iter().enumerate().filter_map(|(i, q)| q.map(|q| (i, Meaning::of(q)))) {
            let filing = meaning.filing(&count);
            let needed = mask(&filing.needed);
            let either = [0, 1].map(|place| filing.alternatives.get(place).map_or(u64::MAX, |keys| mask(keys)));
            for key in filing.keys.into_iter().filter(|key| count(*key) > 0) {
                let second = filing.needed.iter().copied().find(|other| *other != key).unwrap_or(NO_SECOND);
                filed.push(Filed { key, second, needed, either, query });
            }
        }
        filed.sort_unstable_by_key(|entry: &Filed| (entry.key, entry.second, entry.query));
        let places = runs(&filed, 0..filed.len(), |entry| entry.key).collect::<HashMap<_, _>>();
        let long = places.values().filter(|place| place.len() > SCANNED_MAX);
        let parts = long.flat_map(|place| runs(&filed, place.clone(), |entry| (entry.key, entry.second))).collect();
        Self { filed, places, parts }
    }

    /// All queries, those that are filed under the same keys next to each other.
    fn order(&self, query_count: usize) -> Vec<usize> {
        let mut is_placed = vec![false; query_count];
        let filed = self.filed.iter().map(|entry| entry.query).chain(0..query_count);
        filed.filter(|query| !std::mem::replace(&mut is_placed[*query], true)).collect()
    }

    /// What a query that looks up `keys` finds, list by list.
    fn under<'f>(&'f self, keys: &'f [FilingKey]) -> impl Iterator<Item = &'f [Filed]> {
        keys.iter().filter_map(|key| self.places.get(key).map(|place| (*key, place))).flat_map(move |(key, place)| {
            let is_short = place.len() <= SCANNED_MAX;
            let whole = is_short.then(|| place.clone());
            let seconds = if is_short { &[] } else { keys };
            let parts = seconds.iter().chain((!is_short).then_some(&NO_SECOND));
            let parts = parts.filter_map(move |second| self.parts.get(&(key, *second)).cloned());
            whole.into_iter().chain(parts).map(|place| &self.filed[place])
        })
    }
}

/// The runs of equal keys within a part of `filed`, and where they stand.
fn runs<'f, K: PartialEq + 'f>(
    filed: &'f [Filed],
    part: Range<usize>,
    key: fn(&Filed) -> K,
) -> impl Iterator<Item = (K, Range<usize>)> + 'f {
    let mut start = part.start;
    filed[part].chunk_by(move |a, b| key(a) == key(b)).map(move |run| {
        let place = start..start + run.len();
        start = place.end;
        (key(&run[0]), place)
    })
}

/// A bit of 64 for each key.
fn mask(keys: &[FilingKey]) -> u64 {
    keys.iter().fold(0, |mask, key| mask | 1 << (key >> 58))
}

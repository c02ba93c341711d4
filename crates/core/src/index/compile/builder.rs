//! Builds a segment: collects queries, then lays them out as sections.
//!
//! Identical queries are stored once. Each is filed under its rarest access keys, or in the common group when nothing that
//! it demands is rare. The queries of a group are ordered by similar demands and cut into leaves. Groups of several leaves
//! get *summaries*: one bit per leaf, 0 where a value rules out the whole leaf.

use std::borrow::Borrow;

use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::expensive::OpaqueTable;
use crate::index::SubscriptionId;
use crate::index::asked::AskedParts;
use crate::index::codec::encode;
use crate::index::hash::hash_bytes;
use crate::index::ids::QueryId;
use crate::index::layout::sections::Sections;
use crate::query::Query;
use crate::topic::TopicPattern;

use super::branches::branches_of;
use super::clauses::Clauses;
use super::interner::Interner;
use super::sampling::sample_indices;

/// The maximum size of the sample in which demands are counted. The sample is spread over all queries.
const SAMPLE_MAX: usize = 8_192;
/// The index of a subscription's key when it has none.
pub const NO_KEY: u32 = u32::MAX;

/// One subscription on its way into a segment.
#[derive(Clone, Copy, Debug)]
pub struct NewSubscription<'a> {
    /// Its id.
    pub id: SubscriptionId,
    /// Its saved key, if it came from a snapshot or goes into one.
    pub key: Option<&'a [u8]>,
}

/// The result of a builder.
pub struct BuiltSegment {
    /// The sections of the segment.
    pub sections: Sections,
    /// The expensive predicates that its records refer to.
    pub opaques: OpaqueTable,
    /// The final number of each query, in the order in which the queries were first added.
    pub query_ids: Vec<QueryId>,
    /// The shared predicates, by number.
    pub shared_predicates: Vec<Query>,
}

/// Byte strings, one after the other.
#[derive(Default)]
pub struct ByteList {
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
    /// The end of each string.
    pub ends: Vec<usize>,
}

impl ByteList {
    /// The bytes at `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }
}

/// Collects queries and their subscriptions.
pub struct Builder {
    pub(super) interner: Interner,
    pub(super) records: ByteList,
    by_record: HashTable<QueryId>,
    /// The clauses of each branch.
    pub(super) clauses: Vec<Clauses>,
    /// The query of each branch, ascending.
    pub(super) branches: Vec<QueryId>,
    /// The pure topic queries, ascending: they are in no group.
    pub(super) topics: Vec<(QueryId, TopicPattern)>,
    pub(super) is_fields: Vec<bool>,
    /// Query, id and index of the key, or [`NO_KEY`].
    pub(super) subscriptions: Vec<(QueryId, SubscriptionId, u32)>,
    pub(super) keys: ByteList,
    pub(super) opaques: OpaqueTable,
    pub(super) asked: AskedParts,
}

impl Builder {
    /// A builder of about `count` queries, which `sample` represents; see [`sampled_queries`].
    pub fn new<Q: Borrow<Query>>(count: usize, sample: impl Iterator<Item = Q>) -> Self {
        let mut interner = Interner::default();
        sample.for_each(|query| count_demands(query.borrow(), &mut interner));
        interner.end_sample();
        Self {
            interner,
            records: ByteList { bytes: Vec::new(), ends: Vec::with_capacity(count) },
            by_record: HashTable::with_capacity(count),
            clauses: Vec::with_capacity(count),
            branches: Vec::with_capacity(count),
            topics: Vec::new(),
            is_fields: Vec::with_capacity(count),
            subscriptions: Vec::with_capacity(count),
            keys: ByteList::default(),
            opaques: OpaqueTable::default(),
            asked: AskedParts::default(),
        }
    }

    /// Add a query with its subscriptions. Returns its index in [`BuiltSegment::query_ids`].
    pub fn add<'k>(&mut self, query: &Query, subscriptions: impl Iterator<Item = NewSubscription<'k>>) -> QueryId {
        let id = self.add_query(query);
        for NewSubscription { id: subscription, key } in subscriptions {
            let key = key.map_or(NO_KEY, |key| self.add_key(key));
            self.subscriptions.push((id, subscription, key));
        }
        id
    }

    /// The number of `query`, new or known.
    fn add_query(&mut self, query: &Query) -> QueryId {
        let Self { records, by_record, .. } = self;
        let start = records.bytes.len();
        encode(query, &mut records.bytes, &mut self.opaques);
        let hash = hash_bytes(0, &records.bytes[start..]);
        if let Some(known) = by_record.find(hash, |known| records.get(known.index()) == &records.bytes[start..]) {
            let known = *known;
            records.bytes.truncate(start);
            return known;
        }
        let id = QueryId::of(records.ends.len());
        by_record.insert_unique(hash, id, |known| hash_bytes(0, records.get(known.index())));
        records.ends.push(records.bytes.len());
        match query.topic_pattern() {
            Some(pattern) => self.topics.push((id, pattern.clone())),
            None => self.clauses.extend(branches_of(query.expr(), &mut self.interner)),
        }
        self.branches.resize(self.clauses.len(), id);
        self.is_fields.push(query.is_fields());
        self.asked.add(query);
        id
    }

    fn add_key(&mut self, key: &[u8]) -> u32 {
        self.keys.bytes.extend_from_slice(key);
        self.keys.ends.push(self.keys.bytes.len());
        u32::try_from(self.keys.ends.len() - 1).expect("fewer than 2^32 subscriptions fit in memory")
    }
}

/// The indices of a sample of this number of queries, ascending. It is large enough to represent them.
pub fn sampled_queries(queries: usize) -> impl Iterator<Item = usize> {
    sample_indices(queries, queries.div_ceil(SAMPLE_MAX))
}

/// Count what a query of the sample demands. Its clauses are compiled again when it is added: only then are the counts
/// complete by which access keys are chosen.
fn count_demands(query: &Query, interner: &mut Interner) {
    if query.topic_pattern().is_some() {
        return;
    }
    let clauses = Clauses::of(query.expr(), false, interner);
    let (tests, ranges) = (clauses.all_tests(), clauses.all_ranges());
    let asked = tests.iter().map(|test| test.attribute).chain(ranges.iter().map(|range| range.attribute));
    let mut asked: SmallVec<[_; 16]> = asked.collect();
    asked.sort_unstable();
    asked.dedup();
    let demanded = tests.iter().filter(|test| !test.is_open()).flat_map(|test| test.symbols.iter().copied());
    let mut demanded: SmallVec<[_; 16]> = demanded.collect();
    demanded.sort_unstable();
    demanded.dedup();
    interner.sample(asked, demanded);
    ranges.into_iter().for_each(|range| interner.sample_range(range));
}

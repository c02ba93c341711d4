//! Divides queries into groups by their access keys, and groups into leaves.

use hashbrown::HashSet;

use crate::index::clause::{AccessKey, AccessKeys, ValueTest};
use crate::index::ids::{AttributeId, BranchId, QueryId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::builder::Builder;
use super::clauses::Clauses;
use super::cluster::cluster;
use super::interner::Interner;
use super::summary::ATTRIBUTES_MAX;

/// The maximum share of messages that have an access key. A more frequent key is no better than the common group, whose
/// summaries use all values at once.
const SHARE_MAX: f64 = 1.0 / 40.0;
/// [`SHARE_MAX`] for queries that have to be evaluated when they are candidates.
const SHARE_MAX_VERIFIED: f64 = 1.0 / 4.0;
/// A key is worth it, whatever share of messages has it, if at most this share of the queries shares it: few are looked at in
/// vain. So it is with attributes that few queries ask about, and that most messages lack.
const GROUP_SHARE_MAX: f64 = 1.0 / 1_000.0;
/// Groups of more queries than this have summaries; the leaves of others are all scanned.
const WIDE: usize = 4 * LEAF_QUERIES;

/// The queries that share an access key, in the order of their leaves.
pub struct QueryGroup {
    /// The key; None for the common group.
    pub key: Option<AccessKey>,
    queries: Vec<BranchId>,
    /// The end of each leaf, as an index into the queries.
    ends: Vec<usize>,
}

impl QueryGroup {
    fn new(key: Option<AccessKey>, queries: Vec<BranchId>) -> Self {
        let ends = Vec::new();
        Self { key, queries, ends }
    }

    /// Order the queries and cut them into leaves.
    fn cut(&mut self, clauses: &[Clauses], interner: &Interner) {
        if self.queries.len() <= LEAF_QUERIES {
            self.ends.extend((!self.queries.is_empty()).then_some(self.queries.len()));
            return;
        }
        (self.queries, self.ends) = cluster(&self.queries, clauses, interner);
    }

    /// The number of leaves.
    pub fn leaf_count(&self) -> usize {
        self.ends.len()
    }

    /// The queries of each leaf.
    pub fn leaves(&self) -> impl Iterator<Item = &[BranchId]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.queries[start..*end])
    }
}

/// The groups of a segment, and the final numbers of its queries.
pub struct Grouping {
    /// Wide groups first; the common group before all others, even if it is empty.
    pub groups: Vec<QueryGroup>,
    /// The number of leaves of wide groups.
    pub wide_leaf_count: usize,
    /// The final number of each query.
    pub query_ids: Vec<QueryId>,
    /// Attributes of the body that no query is filed under: queries that ask about them are evaluated, so that bodies are
    /// only searched for access keys.
    unread: Vec<AttributeId>,
}

impl Grouping {
    /// Group the queries of `builder`. Its pure topic queries are in no group.
    pub fn new(builder: &Builder) -> Self {
        let Builder { clauses, interner, .. } = builder;
        let mut common = Vec::new();
        let mut filed: Vec<(AccessKey, BranchId)> = Vec::new();
        let often = interner.most_asked(ATTRIBUTES_MAX);
        for (id, query) in (0..).map(BranchId).zip(clauses).filter(|(_, query)| !query.is_never) {
            match query.access.as_ref().filter(|access| is_worth_a_key(access, query, &often, interner)) {
                None => common.push(id),
                Some(access) => filed.extend(access.keys.iter().map(|key| (*key, id))),
            }
        }
        // In the order of keys, so that equal queries give equal files, byte for byte.
        filed.sort_unstable();
        let of_key = |filed: &[(AccessKey, BranchId)]| {
            QueryGroup::new(Some(filed[0].0), filed.iter().map(|(_, id)| *id).collect())
        };
        let filed: Vec<_> = filed.chunk_by(|a, b| a.0 == b.0).map(of_key).collect();
        let unread = unread(&filed, interner);
        let (mut wide, small): (Vec<_>, Vec<_>) = filed.into_iter().partition(|group| group.queries.len() > WIDE);
        wide.insert(0, QueryGroup::new(None, common));
        let wide_count = wide.len();
        let mut groups: Vec<_> = wide.into_iter().chain(small).collect();
        groups.iter_mut().for_each(|group| group.cut(clauses, interner));
        let wide_leaf_count = groups[..wide_count].iter().map(QueryGroup::leaf_count).sum();
        let query_ids = renumber(builder, &groups);
        Self { groups, wide_leaf_count, query_ids, unread }
    }

    /// Every leaf with its group.
    pub fn leaves(&self) -> impl Iterator<Item = (&QueryGroup, &[BranchId])> {
        self.groups.iter().flat_map(|group| group.leaves().map(move |leaf| (group, leaf)))
    }

    /// The final number of a query.
    pub fn query_id(&self, query: QueryId) -> QueryId {
        self.query_ids[query.index()]
    }

    /// True when messages are not searched for the values of `attribute`.
    pub fn is_unread(&self, attribute: AttributeId) -> bool {
        self.unread.contains(&attribute)
    }
}

/// The attributes of the body that no group has as its key.
fn unread(filed: &[QueryGroup], interner: &Interner) -> Vec<AttributeId> {
    let is_filed = |id: AttributeId| {
        let is_key = |symbol| interner.attribute_of(symbol) == id;
        filed.iter().any(|group| matches!(group.key, Some(AccessKey::Symbol(symbol)) if is_key(symbol)))
    };
    let bodies = interner.origins().filter(|(_, origin)| origin.is_of_body());
    bodies.map(|(id, _)| id).filter(|id| !is_filed(*id)).collect()
}

/// True when filing a query under its keys is better than the summaries of the common group. These rule out little by
/// attributes of which messages have several values, and nothing by those that are not asked about `often`.
fn is_worth_a_key(access: &AccessKeys, query: &Clauses, often: &HashSet<AttributeId>, interner: &Interner) -> bool {
    let is_single = |test: &ValueTest| often.contains(&test.attribute) && !interner.origin(test.attribute).is_several();
    let is_pruned = query.tests.iter().any(|test| !test.is_open() && is_single(test))
        || query.choices.iter().any(|tests| tests.iter().all(is_single));
    let share_max = if query.is_verified() || !is_pruned { SHARE_MAX_VERIFIED } else { SHARE_MAX };
    access.share <= share_max || group_share(access, interner) <= GROUP_SHARE_MAX
}

/// An estimate of the share of queries that have one of these keys, too.
fn group_share(access: &AccessKeys, interner: &Interner) -> f64 {
    let of_key = |key: &AccessKey| match *key {
        AccessKey::Symbol(symbol) => interner.share(symbol) * interner.presence_share(interner.attribute_of(symbol)),
        AccessKey::Presence(attribute) => interner.presence_share(attribute),
    };
    access.keys.iter().map(of_key).sum()
}

/// New numbers for queries: pure topic queries first, then in the order of the leaves, so that what lies together matches
/// together.
fn renumber(builder: &Builder, groups: &[QueryGroup]) -> Vec<QueryId> {
    let count = builder.records.ends.len();
    let mut numbers = vec![QueryId::NONE; count];
    let mut next = 0;
    let unfiled = (0..).take(count).map(QueryId);
    let filed = groups.iter().flat_map(|group| &group.queries).map(|branch| builder.branches[branch.index()]);
    for query in builder.topics.iter().map(|(query, _)| *query).chain(filed).chain(unfiled) {
        let number = &mut numbers[query.index()];
        if *number == QueryId::NONE {
            *number = QueryId(next);
            next += 1;
        }
    }
    numbers
}

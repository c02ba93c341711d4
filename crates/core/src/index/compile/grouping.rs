//! Divides queries into groups by their access keys, and groups into leaves.

use hashbrown::HashSet;

use crate::index::clause::{AccessKey, AccessKeys};
use crate::index::ids::{AttributeId, BranchId, QueryId};
use crate::index::leaf::query::LEAF_QUERIES;

use super::builder::Builder;
use super::clauses::Clauses;
use super::cluster::cluster;
use super::interner::Interner;
use super::placing::Placing;

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
        let Placed { common, mut filed } = place(clauses, interner);
        // In the order of keys, so that equal queries give equal files, byte for byte.
        filed.sort_unstable();
        let of_key = |filed: &[(AccessKey, BranchId)]| {
            QueryGroup::new(Some(filed[0].0), filed.iter().map(|(_, id)| *id).collect())
        };
        let filed: Vec<_> = filed.chunk_by(|a, b| a.0 == b.0).map(of_key).collect();
        let unread = unread(&filed, interner);
        let (mut wide, small): (Vec<_>, Vec<_>) = filed.into_iter().partition(|group| group.queries.len() > WIDE);
        wide.iter_mut().for_each(|group| group.cut(clauses, interner));
        wide.insert(0, common);
        let wide_count = wide.len();
        let mut groups: Vec<_> = wide.into_iter().chain(small).collect();
        groups[wide_count..].iter_mut().for_each(|group| group.cut(clauses, interner));
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

/// Where each query is found.
struct Placed {
    /// The common group, cut into leaves.
    common: QueryGroup,
    /// The queries that are filed, with each of their keys.
    filed: Vec<(AccessKey, BranchId)>,
}

/// Place the queries by cost. Those that are not rare are cut into leaves of the common group first, which shows what
/// summaries make of them; the common group is cut again without those that cost less under their keys.
fn place(clauses: &[Clauses], interner: &Interner) -> Placed {
    let placing = Placing::new(clauses, interner);
    let (mut common, mut filed) = (Vec::new(), Vec::new());
    let mut file = |id: BranchId, access: &AccessKeys| filed.extend(access.keys.iter().map(|key| (*key, id)));
    for (id, query) in (0..).map(BranchId).zip(clauses).filter(|(_, query)| !query.is_never) {
        match query.access.as_ref().filter(|access| placing.is_rare(access)) {
            None => common.push(id),
            Some(access) => file(id, access),
        }
    }
    let mut common = QueryGroup::new(None, common);
    common.cut(clauses, interner);
    let moved: HashSet<_> = common.leaves().flat_map(|leaf| placing.cheaper_by_key(leaf)).collect();
    if !moved.is_empty() {
        moved
            .iter()
            .filter_map(|id| Some((*id, clauses[id.index()].access.as_ref()?)))
            .for_each(|(id, access)| file(id, access));
        let mut rest: Vec<_> = common.queries.into_iter().filter(|id| !moved.contains(id)).collect();
        rest.sort_unstable();
        common = QueryGroup::new(None, rest);
        common.cut(clauses, interner);
    }
    Placed { common, filed }
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

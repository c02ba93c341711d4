//! Hit counts of fields queries (the OpenAMQ paper): how many criteria of each query a message meets.
//!
//! A message collects the lists of queries of its fields and values. A query is in these lists once per criterion that is
//! met, so that no query has to be evaluated. The lists are built when hits are first counted, and kept.

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::SubscriptionId;
use crate::index::segment::Segment;
use crate::index::segment::field_index::FieldIndex;
use crate::index::segment::index_view::IndexView;
use crate::message::Message;
use crate::query::Query;

/// A count of the criteria of a fields query that a message meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The subscription with the query.
    pub id: SubscriptionId,
    /// The number of criteria that are true; at least one.
    pub hits: usize,
    /// The number of criteria of the query.
    pub criteria: usize,
}

impl Segment {
    fn field_index(&self) -> Result<&FieldIndex, EngineError> {
        if let Some(index) = self.field_index.get() {
            return Ok(index);
        }
        // By their first subscriptions, so that hits come in the order of ids where each query has one.
        let mut queries = Vec::new();
        for query in self.fields_queries()? {
            queries.push((self.id(self.positions(query)?.start)?, query));
        }
        queries.sort_unstable();
        let mut index = FieldIndex::default();
        for (_, query) in queries {
            index.add(query, &self.decode(query)?);
        }
        Ok(self.field_index.get_or_init(|| index))
    }

    /// Append the fields queries of which `message` meets at least one criterion, in no particular order.
    ///
    /// Cost: a look-up per field that is asked for, and a step per criterion that is met.
    pub fn hits_into(
        &self,
        message: &Message<'_>,
        hierarchies: &Hierarchies,
        version: u64,
        hits: &mut Vec<Hit>,
    ) -> Result<(), EngineError> {
        let (fields, index) = (self.field_index()?, IndexView::of(&self.store)?);
        let mut push = |query, count, criteria| {
            self.for_each_id(&index, query, version, |id| hits.push(Hit { id, hits: count, criteria }))
        };
        let mut met = fields.met(message);
        met.sort_unstable();
        for run in met.chunk_by(|a, b| a == b) {
            let (query, criteria) = fields.queries[run[0] as usize];
            push(query, run.len(), criteria)?;
        }
        for &id in &fields.others {
            if let Some((count, criteria)) = count_hits(self.query(id)?, message, hierarchies) {
                push(id, count, criteria)?;
            }
        }
        Ok(())
    }
}

/// The number of criteria of `query` that are true of `message`, and of all its criteria; None when none is true.
pub fn count_hits(query: &Query, message: &Message<'_>, hierarchies: &Hierarchies) -> Option<(usize, usize)> {
    let criteria = query.criteria();
    let hits = criteria.iter().filter(|expr| expr.evaluate(message, Some(hierarchies)) == Some(true)).count();
    (hits > 0).then_some((hits, criteria.len()))
}

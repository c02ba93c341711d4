//! The part of the index that finds the candidates for a query: the table of values, boxes, summaries, or none.

use crate::index::clause::AccessKey;

use super::builder::Builder;
use super::clauses::Clauses;
use super::grouping::{Grouping, QueryGroup};
use super::interner::Interner;

/// The part of the index that finds the candidates for a query, the most selective first. An OR counts under the last of its
/// branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexKind {
    /// The automaton of topic patterns.
    Topics,
    /// A table of values: the query is filed under its rarest ones.
    Values,
    /// The search for needles and words in a text.
    Texts,
    /// The boxes of ranges: bounds of numbers and times rule out whole leaves and blocks.
    Ranges,
    /// The table of values, by the mere presence of a property.
    Presence,
    /// The summaries of values, which rule out whole leaves.
    Summaries,
    /// Nothing: the query is a candidate of every message.
    Nothing,
}

impl IndexKind {
    /// All kinds, in order.
    pub const ALL: [Self; 7] =
        [Self::Topics, Self::Values, Self::Texts, Self::Ranges, Self::Presence, Self::Summaries, Self::Nothing];

    /// Its name in a report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Values => "values",
            Self::Texts => "texts",
            Self::Ranges => "ranges",
            Self::Presence => "presence",
            Self::Summaries => "summaries",
            Self::Nothing => "nothing",
        }
    }

    /// The part of the index that finds the `clauses` of a branch in `group`.
    fn of(group: &QueryGroup, clauses: &Clauses, interner: &Interner) -> Self {
        match group.key {
            Some(AccessKey::Symbol(symbol)) if interner.origin(interner.attribute_of(symbol)).is_of_text() => {
                Self::Texts
            }
            Some(AccessKey::Symbol(_)) => Self::Values,
            _ if !clauses.ranges.is_empty() => Self::Ranges,
            Some(AccessKey::Presence(_)) => Self::Presence,
            None if clauses.tests.is_empty() && clauses.choices.is_empty() => Self::Nothing,
            None => Self::Summaries,
        }
    }
}

/// What finds the candidates for each query of `builder`, in the order in which they were added; None where the clauses show
/// that the query is never true. Cost: that of dividing all queries into groups.
#[must_use]
pub fn index_kinds(builder: &Builder) -> Vec<Option<IndexKind>> {
    let mut kinds = vec![None; builder.records.ends.len()];
    for (query, _) in &builder.topics {
        kinds[query.index()] = Some(IndexKind::Topics);
    }
    let grouping = Grouping::new(builder);
    for (group, leaf) in grouping.leaves() {
        for branch in leaf {
            let kind = IndexKind::of(group, &builder.clauses[branch.index()], &builder.interner);
            let known = &mut kinds[builder.branches[branch.index()].index()];
            *known = (*known).max(Some(kind));
        }
    }
    kinds
}

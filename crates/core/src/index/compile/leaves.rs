//! Lays out groups, leaves and summaries.

use std::ops::Range;

use hashbrown::HashSet;

use crate::index::SubscriptionId;
use crate::index::clause::{AccessKey, ListRule, ValueTest};
use crate::index::ids::{AttributeId, BranchId, GroupId, LeafId, QueryId, SymbolCode, SymbolPosition};
use crate::index::layout::attribute_info::AttributeInfo;
use crate::index::layout::bytes::extend_numbers;
use crate::index::layout::sections::{SectionName, Sections};
use crate::index::layout::symbol_table::SymbolTableBuilder;
use crate::index::leaf::encode::encode_leaf;
use crate::index::leaf::masks::{AttributeMasks, masks_of};
use crate::index::leaf::query::{LeafQuery, TESTS_MAX, everyone, is_cut, with_bits};

use super::boxes::BoxBuilder;
use super::builder::Builder;
use super::clauses::prefetch_clauses;
use super::grouping::{Grouping, QueryGroup};
use super::summary::SummaryBuilder;
use super::thresholds::ThresholdBuilder;

/// The subscriptions of each query.
pub struct QuerySubscriptions {
    /// The ids, by position.
    pub ids: Vec<SubscriptionId>,
    /// The end of the positions of each query.
    pub ends: Vec<u32>,
}

impl QuerySubscriptions {
    fn positions(&self, query: QueryId) -> Range<usize> {
        let start = query.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[query.index()] as usize
    }
}

/// Lays out the leaves of a builder's queries.
pub struct LeafLayout<'b> {
    /// The builder.
    pub builder: &'b Builder,
    /// The groups of its queries.
    pub grouping: &'b Grouping,
    /// Their subscriptions.
    pub subscriptions: &'b QuerySubscriptions,
    /// The codes of all symbols.
    pub codes: Vec<SymbolCode>,
}

impl<'b> LeafLayout<'b> {
    /// Lay out leaves and summaries; what attributes and symbols rule out goes to `attributes` and `table`.
    pub fn lay_out_leaves(
        &self,
        positions: &[SymbolPosition],
        attributes: &mut [AttributeInfo],
        table: &mut SymbolTableBuilder,
        sections: &mut Sections,
    ) {
        let wide_leaf_count = self.grouping.wide_leaf_count;
        let mut summary = SummaryBuilder::new(wide_leaf_count);
        let mut boxes = BoxBuilder::new(wide_leaf_count);
        let mut thresholds = ThresholdBuilder::default();
        let mut wide_masks = Vec::with_capacity(wide_leaf_count);
        let mut last_key = None;
        for (number, (group, leaf)) in self.grouping.leaves().take(wide_leaf_count).enumerate() {
            if std::mem::replace(&mut last_key, group.key) != group.key {
                thresholds.end();
            }
            let clauses = leaf.iter().map(|query| &self.builder.clauses[query.index()]);
            thresholds.add(LeafId::of(number), clauses, leaf.iter().flat_map(|query| self.ids(*query)).copied());
            let masks = self.masks(group, leaf);
            summary.add(LeafId::of(number), &masks);
            boxes.add(LeafId::of(number), leaf.iter().map(|query| &self.builder.clauses[query.index()].ranges[..]));
            wide_masks.push(masks);
        }
        let symbols = self.builder.interner.symbols_by_code();
        let (summaries, with_summaries) = summary.finish(attributes, |attribute, code, summary| {
            let symbol = symbols[attribute.index()][code.index()];
            table.set_summary(positions[symbol.index()], summary);
        });
        sections[SectionName::Boxes] = boxes.finish();
        sections[SectionName::Thresholds] = thresholds.finish();
        self.encode_leaves(wide_masks, &with_summaries, sections);
        let whole = [wide_leaf_count as u64].into_iter().chain(summaries.whole);
        sections[SectionName::Summaries] = whole.flat_map(u64::to_le_bytes).collect();
        extend_numbers(&mut sections[SectionName::RareSummaries], summaries.rare);
    }

    /// Encode all leaves, those of wide groups without masks that summaries decide.
    fn encode_leaves(
        &self,
        wide_masks: Vec<Vec<AttributeMasks>>,
        with_summaries: &HashSet<AttributeId>,
        sections: &mut Sections,
    ) {
        let (mut words, mut starts) = (Vec::new(), vec![0_u32]);
        let mut wide_masks = wide_masks.into_iter();
        for (group, leaf) in self.grouping.leaves() {
            let masks = match wide_masks.next() {
                Some(mut masks) => {
                    let all = everyone(leaf.len());
                    masks.retain(|masks| !(with_summaries.contains(&masks.attribute) && masks.is_uniform(all)));
                    masks
                }
                None => self.masks(group, leaf),
            };
            prefetch_clauses(&self.builder.clauses, leaf);
            let queries: Vec<_> = leaf.iter().map(|query| self.leaf_query(*query, group)).collect();
            encode_leaf(&queries, &masks, &self.codes, &mut words);
            starts.push(u32::try_from(words.len()).expect("leaves of fewer than 32 GiB fit in a segment"));
        }
        sections[SectionName::Leaves] = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        extend_numbers(&mut sections[SectionName::LeafStarts], starts);
    }

    /// The ids of the subscriptions to the query of a branch.
    fn ids(&self, branch: BranchId) -> &'b [SubscriptionId] {
        let query = self.grouping.query_id(self.builder.branches[branch.index()]);
        &self.subscriptions.ids[self.subscriptions.positions(query)]
    }

    /// The masks of a leaf.
    fn masks(&self, group: &QueryGroup, leaf: &[BranchId]) -> Vec<AttributeMasks> {
        prefetch_clauses(&self.builder.clauses, leaf);
        let tests = with_bits(leaf)
            .flat_map(|(bit, query)| self.tests(*query, group).take(TESTS_MAX).map(move |test| (bit, test)));
        masks_of(tests, everyone(leaf.len()), &self.codes)
    }

    /// The tests of a query that a leaf stores: without those that the group's key decides, and those of attributes that no
    /// message is searched for.
    fn tests(&self, query: BranchId, group: &'b QueryGroup) -> impl Iterator<Item = &'b ValueTest> {
        let tests = self.builder.clauses[query.index()].tests.iter();
        tests.filter(move |test| !self.is_decided(test, group) && !self.grouping.is_unread(test.attribute))
    }

    /// True when every message of `group` passes `test`.
    fn is_decided(&self, test: &ValueTest, group: &QueryGroup) -> bool {
        let Some(AccessKey::Symbol(symbol)) = group.key else { return false };
        test.list_rule == ListRule::Some
            && !test.is_open()
            && test.attribute == self.builder.interner.attribute_of(symbol)
            && test.admits(symbol)
    }

    /// A query as the leaves of `group` store it.
    fn leaf_query(&self, query: BranchId, group: &'b QueryGroup) -> LeafQuery<'b> {
        let clauses = &self.builder.clauses[query.index()];
        let is_unread = |test: &ValueTest| self.grouping.is_unread(test.attribute);
        let id = self.grouping.query_id(self.builder.branches[query.index()]);
        let positions = self.subscriptions.positions(id);
        let mut leaf_query = LeafQuery {
            id,
            ranges: &clauses.ranges,
            needs_evaluation: clauses.is_verified(),
            position: u32::try_from(positions.start).expect("fewer than 2^32 subscriptions fit in memory"),
            subscriptions: &self.subscriptions.ids[positions],
            ..LeafQuery::default()
        };
        leaf_query.needs_evaluation |=
            clauses.tests.iter().any(|test| is_unread(test) && !self.is_decided(test, group));
        for tests in clauses.choices.iter().filter(|tests| !tests.iter().any(|test| self.is_decided(test, group))) {
            if tests.iter().any(is_unread) {
                leaf_query.needs_evaluation = true
            } else {
                leaf_query.choices.push(tests)
            }
        }
        for choice in &clauses.mixed {
            let mut is_searched = true;
            choice.for_each_test(&mut |test| is_searched &= !is_unread(test));
            if is_searched {
                leaf_query.mixed.push(choice);
            } else {
                leaf_query.needs_evaluation = true;
            }
        }
        let test_count = self.tests(query, group).count();
        leaf_query.needs_evaluation |= is_cut(test_count, leaf_query.choices.len(), clauses.ranges.len());
        leaf_query
    }

    /// Lay out the groups; which queries are filed under attributes and symbols goes to `attributes` and `table`.
    pub fn lay_out_groups(
        &self,
        positions: &[SymbolPosition],
        attributes: &mut [AttributeInfo],
        table: &mut SymbolTableBuilder,
        sections: &mut Sections,
    ) {
        let mut first = 0;
        for (number, group) in (0..).map(GroupId).zip(&self.grouping.groups) {
            let count = group.leaf_count() as u32;
            extend_numbers(&mut sections[SectionName::Groups], [first, count]);
            first += count;
            match group.key {
                None => {}
                Some(AccessKey::Symbol(symbol)) => {
                    table.set_group(positions[symbol.index()], number);
                    attributes[self.builder.interner.attribute_of(symbol).index()].has_keys = true;
                }
                Some(AccessKey::Presence(attribute)) => attributes[attribute.index()].group = number,
            }
        }
    }
}

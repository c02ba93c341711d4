//! The BE-tree: a tree that grows where conjunctions are many, by attributes and then by their values.
//!
//! A leaf that overflows gives the attribute that most of its conjunctions test a p-node, which takes these (space
//! partitioning). A p-node is a tree of intervals of that attribute's values, each with a c-node of its own: a leaf,
//! and p-nodes for further attributes. An interval that overflows is cut in two; what lies across the cut stays (space
//! clustering). A message walks the p-nodes of the attributes that it has, and in them the intervals with its values.
//!
//! Cost: the conjunctions on that walk, each until one of its literals is not true. What is neither an equality nor a
//! range cannot be indexed ("BE-tree relies on predicates that can be indexed"), and filters must be conjunctions.
//!
//! Source: the ITMO paper, section "BE-tree, k-index, BDD"; Sadoghi and Jacobsen, "BE-Tree", SIGMOD 2011, sections 4 and 5.
//! That one halves known ranges and refines its scores while it runs. Here the tree is built at once, the cut is the
//! median of what is there, and the score is the count.

use super::BooleanMatcher;
use super::filter::{ABSENT, BooleanFilter, FilterAttribute, FilterLiteral, FilterMessage, FilterTest, Schema, Tree};
use super::normal_form::NormalForm;
use crate::stamps::Stamps;

/// How many conjunctions a leaf holds before it is divided. Of 4, 8, 16, 32 and 64, the quickest at 10,000 filters.
const LEAF_MAX: usize = 16;

/// The tree.
#[derive(Debug)]
pub struct BeTree {
    conjunctions: Vec<Box<[FilterLiteral]>>,
    owners: Vec<u32>,
    root: CNode,
    aside: Vec<(u32, Tree)>,
    filter_count: usize,
}

/// A leaf, and p-nodes by attribute.
#[derive(Debug, Default)]
struct CNode {
    leaf: Box<[u32]>,
    p_nodes: Vec<(FilterAttribute, Interval)>,
}

/// A p-node, or a part of one: conjunctions whose values of one attribute lie between `low` and `high`.
#[derive(Debug)]
struct Interval {
    low: i64,
    high: i64,
    node: CNode,
    halves: Option<Box<[Interval; 2]>>,
}

impl BooleanMatcher for BeTree {
    const NAME: &'static str = "BE-tree";
    type Scratch = Stamps;

    fn build(filters: &[BooleanFilter], _: &Schema) -> Self {
        let all = NormalForm::of(filters);
        let conjunctions: Vec<Box<[FilterLiteral]>> = all.conjunctions.into_iter().map(Into::into).collect();
        let root = CNode::grow(&conjunctions, (0..conjunctions.len() as u32).collect(), 0);
        Self { conjunctions, owners: all.owners, root, aside: all.aside, filter_count: filters.len() }
    }

    fn match_into(&self, message: &FilterMessage, seen: &mut Stamps, matched: &mut Vec<u32>) {
        seen.begin(self.filter_count);
        self.root.visit(&message.values, &mut |conjunction| {
            let literals = &self.conjunctions[conjunction as usize];
            let owner = self.owners[conjunction as usize];
            if literals.iter().all(|literal| literal.is_true(&message.values)) && seen.insert(owner) {
                matched.push(owner);
            }
        });
        let is_true = |(_, tree): &&(u32, Tree)| tree.is_true(&message.values);
        matched.extend(self.aside.iter().filter(is_true).map(|(owner, _)| owner));
    }
}

impl CNode {
    /// A node of the conjunctions `members`; `path` has a bit for each attribute above.
    fn grow(all: &[Box<[FilterLiteral]>], mut members: Vec<u32>, path: u64) -> Self {
        let mut p_nodes = Vec::new();
        while members.len() > LEAF_MAX {
            let Some(attribute) = commonest(all, &members, path) else { break };
            let tests = |member: &u32| bounds(&all[*member as usize], attribute).is_some();
            let (moved, left) = members.into_iter().partition(tests);
            p_nodes.push((attribute, Interval::grow(all, moved, attribute, path | 1 << attribute)));
            members = left;
        }
        Self { leaf: members.into(), p_nodes }
    }

    fn visit(&self, values: &[i64], found: &mut impl FnMut(u32)) {
        self.leaf.iter().for_each(|conjunction| found(*conjunction));
        for (attribute, interval) in &self.p_nodes {
            let value = values[usize::from(*attribute)];
            if value != ABSENT {
                interval.visit(value, values, found);
            }
        }
    }
}

impl Interval {
    fn grow(all: &[Box<[FilterLiteral]>], members: Vec<u32>, attribute: FilterAttribute, path: u64) -> Self {
        let bounds_of = |member: &u32| bounds(&all[*member as usize], attribute).expect("a member tests the attribute");
        let low = members.iter().map(|member| bounds_of(member).0).min().unwrap_or(i64::MAX);
        let high = members.iter().map(|member| bounds_of(member).1).max().unwrap_or(i64::MIN);
        if members.len() <= LEAF_MAX {
            return Self { low, high, node: CNode { leaf: members.into(), p_nodes: Vec::new() }, halves: None };
        }
        let mut lows: Vec<i64> = members.iter().map(|member| bounds_of(member).0).collect();
        lows.sort_unstable();
        // The first value above the median's run of equals, or the run itself when nothing is above it.
        let median = lows[lows.len() / 2];
        let cut = if median > lows[0] {
            median
        } else {
            lows[lows.partition_point(|l| *l <= median)..].first().copied().unwrap_or(median)
        };
        let (below, rest): (Vec<u32>, Vec<u32>) = members.into_iter().partition(|member| bounds_of(member).1 < cut);
        let (above, across): (Vec<u32>, Vec<u32>) = rest.into_iter().partition(|member| bounds_of(member).0 >= cut);
        if below.is_empty() {
            let stay = [above, across].concat(); // all of one value, or all across: nothing to cut
            return Self { low, high, node: CNode::grow(all, stay, path), halves: None };
        }
        let node = CNode::grow(all, across, path);
        let halves = [below, above].map(|half| Self::grow(all, half, attribute, path));
        Self { low, high, node, halves: Some(Box::new(halves)) }
    }

    fn visit(&self, value: i64, values: &[i64], found: &mut impl FnMut(u32)) {
        if !(self.low..=self.high).contains(&value) {
            return;
        }
        self.node.visit(values, found);
        for half in self.halves.iter().flat_map(|halves| halves.iter()) {
            half.visit(value, values, found);
        }
    }
}

/// The attribute that most of `members` test with something that has bounds, those of `path` left out.
fn commonest(all: &[Box<[FilterLiteral]>], members: &[u32], path: u64) -> Option<FilterAttribute> {
    let mut counts = [0_usize; 64];
    for member in members {
        let mut tested = 0_u64;
        for literal in &all[*member as usize] {
            if bounds_of(literal).is_some() {
                tested |= 1 << literal.attribute;
            }
        }
        for (attribute, count) in counts.iter_mut().enumerate() {
            *count += usize::from((tested & !path) >> attribute & 1 == 1);
        }
    }
    let (count, attribute) = counts.iter().zip(0..).max_by_key(|(count, _)| **count)?;
    (*count >= 2).then_some(attribute)
}

/// Between which values of `attribute` a conjunction may be true.
fn bounds(literals: &[FilterLiteral], attribute: FilterAttribute) -> Option<(i64, i64)> {
    literals.iter().filter(|literal| literal.attribute == attribute).find_map(bounds_of)
}

fn bounds_of(literal: &FilterLiteral) -> Option<(i64, i64)> {
    match &literal.test {
        FilterTest::OneOf(values) => Some((*values.first()?, *values.last()?)),
        FilterTest::Within(low, high) => Some((*low, *high)),
        FilterTest::NoneOf(_) | FilterTest::Outside(..) => None,
    }
}

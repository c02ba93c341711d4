//! ITMO's own algorithm: filters that name an identifier are hashed, the others grouped by a starting predicate.
//!
//! A filter that demands an equality of an attribute of many values lies in that attribute's hash table. Most others
//! are, as written, "predicate && filter", and are grouped by that predicate: when it is not true the group is passed
//! over whole. The filters of the other groups are evaluated from left to right, as their authors ordered them,
//! stopping early. Filters without a starting predicate are one group that is always checked.
//!
//! Cost: one evaluation for each group ("there are no more than 100"), then all filters of the groups that are left,
//! which is a share of all filters. The paper also remembers predicates that cost over 100 ns; this workload has none.
//!
//! Source: the ITMO paper, section "Algorithm".

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hashbrown::HashMap;

use super::BooleanMatcher;
use super::filter::{BooleanFilter, FilterAttribute, FilterLiteral, FilterMessage, Schema, Tree};
use crate::stamps::Stamps;

/// The number of values from which an attribute is an identifier; the paper's authors knew theirs.
const IDENTIFIER_VALUES_MIN: u64 = 1_000;

/// The number of a filter, and what is left of it: trees that must all be true.
type FurtherConditions = (u32, Box<[Tree]>);

/// Filters by identifier and by starting predicate.
#[derive(Debug, Default)]
pub struct Grouped {
    tables: HashMap<FilterAttribute, HashMap<i64, Vec<FurtherConditions>>>,
    groups: Vec<(Option<FilterLiteral>, Vec<FurtherConditions>)>,
}

impl BooleanMatcher for Grouped {
    const NAME: &'static str = "grouped (ITMO)";
    type Scratch = Stamps;

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        let mut built = Self::default();
        let mut places = HashMap::new();
        for (number, filter) in (0..).zip(filters) {
            let mut conditions = match &filter.tree {
                Tree::And(operands) => operands.clone(),
                other => vec![other.clone()],
            };
            if let Some(place) = conditions.iter().position(|condition| identifier(condition, schema).is_some()) {
                built.file_by_identifier(number, conditions, place);
                continue;
            }
            let start = match conditions.first() {
                Some(Tree::Literal(literal)) => Some(literal.clone()),
                _ => None,
            };
            conditions.drain(..usize::from(start.is_some()));
            let place = *places.entry(start.clone()).or_insert_with(|| {
                built.groups.push((start, Vec::new()));
                built.groups.len() - 1
            });
            built.groups[place].1.push((number, conditions.into()));
        }
        built
    }

    fn match_into(&self, message: &FilterMessage, _: &mut Stamps, matched: &mut Vec<u32>) {
        for group in self.found(message).chain(self.admitted(message)) {
            check(group, message, matched);
        }
    }
}

impl Grouped {
    fn file_by_identifier(&mut self, number: u32, mut conditions: Vec<Tree>, place: usize) {
        let Tree::Literal(literal) = conditions.remove(place) else { return };
        let table = self.tables.entry(literal.attribute).or_default();
        for value in literal.equality().into_iter().flatten() {
            table.entry(*value).or_default().push((number, conditions.clone().into()));
        }
    }

    /// What the hash tables have for the message's identifiers.
    fn found<'a>(&'a self, message: &'a FilterMessage) -> impl Iterator<Item = &'a [FurtherConditions]> {
        let look_up = |(attribute, table): (&FilterAttribute, &'a HashMap<i64, Vec<FurtherConditions>>)| {
            table.get(&message.values[usize::from(*attribute)])
        };
        self.tables.iter().filter_map(look_up).map(Vec::as_slice)
    }

    /// The groups whose starting predicate is true.
    fn admitted<'a>(&'a self, message: &'a FilterMessage) -> impl Iterator<Item = &'a [FurtherConditions]> {
        let is_admitted = |start: &Option<FilterLiteral>| start.as_ref().is_none_or(|one| one.is_true(&message.values));
        self.groups.iter().filter(move |(start, _)| is_admitted(start)).map(|(_, group)| group.as_slice())
    }
}

fn identifier<'a>(condition: &'a Tree, schema: &Schema) -> Option<&'a FilterLiteral> {
    let Tree::Literal(literal) = condition else { return None };
    let cardinality = schema.columns[usize::from(literal.attribute)].cardinality.unwrap_or(0);
    (cardinality >= IDENTIFIER_VALUES_MIN && literal.equality().is_some()).then_some(literal)
}

fn check(group: &[FurtherConditions], message: &FilterMessage, matched: &mut Vec<u32>) {
    let is_true =
        |(_, conditions): &&FurtherConditions| conditions.iter().all(|condition| condition.is_true(&message.values));
    matched.extend(group.iter().filter(is_true).map(|(number, _)| number));
}

/// The same with threads: "checking groups is independent, and needs no synchronisation; a thread for each group is
/// enough". Here as many threads as there are cores take groups in turn, for a thread costs more than most groups;
/// starting them is part of the time, about 30 µs each.
#[derive(Debug)]
pub struct GroupedInThreads(Grouped);

impl BooleanMatcher for GroupedInThreads {
    const NAME: &'static str = "grouped (ITMO) on all cores";
    const USES_ALL_CORES: bool = true;
    type Scratch = Stamps;

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        Self(Grouped::build(filters, schema))
    }

    fn match_into(&self, message: &FilterMessage, _: &mut Stamps, matched: &mut Vec<u32>) {
        let groups: Vec<&[FurtherConditions]> = self.0.found(message).chain(self.0.admitted(message)).collect();
        // The paper's largest group has half of all filters: cut, so that it does not keep one thread longest.
        let pieces: Vec<&[FurtherConditions]> = groups.iter().flat_map(|group| group.chunks(PIECE)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                check(piece, message, &mut found);
            }
            found
        };
        let others = thread::available_parallelism().map_or(1, usize::from) - 1;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
            matched.extend(work());
            workers.into_iter().for_each(|worker| matched.extend(worker.join().expect("checking does not panic")));
        });
    }
}

/// How many filters a thread takes at a time.
const PIECE: usize = 4_096;

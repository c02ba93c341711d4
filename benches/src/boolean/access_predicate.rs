//! One access predicate: each conjunction is filed in a hash table under its most selective equality.
//!
//! The conjunctions that a message's values find there are evaluated. It is the simplest index worth having.
//!
//! Cost: a look-up for each attribute of the message, and every conjunction under its values; conjunctions without an
//! equality are evaluated for every message. It still grows with the number of filters: a filter without a rare
//! equality lies under a common value.
//!
//! Source: the access predicates of Fabret et al., "Filtering algorithms and implementation for very fast
//! publish/subscribe systems", SIGMOD 2001, section 3 ("Propagation" in the ITMO paper), with one predicate a conjunction.

use hashbrown::HashMap;

use super::BooleanMatcher;
use super::filter::{ABSENT, BooleanFilter, ColumnKind, FilterAttribute, FilterLiteral, FilterMessage, Schema, Tree};
use super::normal_form::NormalForm;
use crate::stamps::Stamps;

/// Whose conjunction it is, and its literals but the access predicate.
type FiledFilter = (u32, Box<[FilterLiteral]>);

/// A hash table of conjunctions.
#[derive(Debug)]
pub struct AccessPredicate {
    table: HashMap<(FilterAttribute, i64), Vec<FiledFilter>>,
    without: Vec<FiledFilter>,
    aside: Vec<(u32, Tree)>,
    filter_count: usize,
}

impl BooleanMatcher for AccessPredicate {
    const NAME: &'static str = "one access predicate";
    type Scratch = Stamps;

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        let all = NormalForm::of(filters);
        let popularity = Popularity::of(&all, schema);
        let mut built =
            Self { table: HashMap::new(), without: Vec::new(), aside: all.aside, filter_count: filters.len() };
        for (owner, mut literals) in all.owners.into_iter().zip(all.conjunctions) {
            let Some(place) = popularity.rarest(&literals) else {
                built.without.push((owner, literals.into()));
                continue;
            };
            let access = literals.remove(place);
            for value in access.equality().expect("only equalities are rare") {
                let entries = built.table.entry((access.attribute, *value)).or_default();
                entries.push((owner, literals.clone().into()));
            }
        }
        built
    }

    fn match_into(&self, message: &FilterMessage, seen: &mut Stamps, matched: &mut Vec<u32>) {
        self.match_values(&message.values, seen, matched);
    }
}

impl AccessPredicate {
    /// [`BooleanMatcher::match_into`] of a message's values, by attribute.
    pub fn match_values(&self, values: &[i64], seen: &mut Stamps, matched: &mut Vec<u32>) {
        seen.begin(self.filter_count);
        let mut visit = |(owner, literals): &FiledFilter| {
            if literals.iter().all(|literal| literal.is_true(values)) && seen.insert(*owner) {
                matched.push(*owner);
            }
        };
        for (attribute, value) in (0..).zip(values).filter(|(_, value)| **value != ABSENT) {
            self.table.get(&(attribute, *value)).into_iter().flatten().for_each(&mut visit);
        }
        self.without.iter().for_each(visit);
        let is_true = |(_, tree): &&(u32, Tree)| tree.is_true(values);
        matched.extend(self.aside.iter().filter(is_true).map(|(owner, _)| owner));
    }
}

/// How often the filters ask for each value: what is asked for rarely is taken to be rare in messages too.
struct Popularity<'a> {
    by_value: HashMap<(FilterAttribute, i64), f64>,
    by_attribute: HashMap<FilterAttribute, f64>,
    schema: &'a Schema,
}

impl<'a> Popularity<'a> {
    fn of(all: &NormalForm, schema: &'a Schema) -> Self {
        let (mut by_value, mut by_attribute) = (HashMap::new(), HashMap::new());
        for literal in all.conjunctions.iter().flatten() {
            for value in literal.equality().into_iter().flatten() {
                *by_value.entry((literal.attribute, *value)).or_insert(0.0) += 1.0;
                *by_attribute.entry(literal.attribute).or_insert(0.0) += 1.0;
            }
        }
        Self { by_value, by_attribute, schema }
    }

    /// The place of the equality that the fewest messages are expected to satisfy.
    fn rarest(&self, literals: &[FilterLiteral]) -> Option<usize> {
        let shares = literals.iter().enumerate().filter_map(|(place, literal)| Some((place, self.share(literal)?)));
        shares.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
    }

    fn share(&self, literal: &FilterLiteral) -> Option<f64> {
        let values = literal.equality()?;
        if self.schema.columns[usize::from(literal.attribute)].kind == ColumnKind::Bool {
            return Some(1.0); // filters ask for one of two values; messages have both
        }
        let asked: f64 = values.iter().map(|value| self.by_value[&(literal.attribute, *value)]).sum();
        Some(asked / self.by_attribute[&literal.attribute])
    }
}

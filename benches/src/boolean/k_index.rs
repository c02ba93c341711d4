//! The k-index: counting, for each conjunction, how many of its literals a message makes true.
//!
//! The inverted index leads from a literal to the conjunctions that have it. A message collects its true literals and
//! walks their lists; a conjunction whose count reaches its size k is true. Conjunctions are numbered by ascending k,
//! so that a message with few true literals stops in each list where larger ones begin.
//!
//! Cost: the lists of all true literals, however short the others of a conjunction are. It cannot stop early:
//! "deleted = false && smart condition" has its smart condition looked at for deleted instruments too (the ITMO paper).
//!
//! Source: the ITMO paper, section "BE-tree, k-index, BDD"; Whang et al., "Indexing Boolean expressions", VLDB 2009,
//! section 3.

use hashbrown::HashMap;

use super::BooleanMatcher;
use super::filter::{ABSENT, BooleanFilter, FilterAttribute, FilterLiteral, FilterMessage, Schema, Tree};
use super::normal_form::NormalForm;
use crate::stamps::Stamps;

/// The inverted index.
#[derive(Debug)]
pub struct KIndex {
    /// By literal: the conjunctions that have it, ascending.
    lists: Vec<Vec<u32>>,
    /// Literals that a value makes true.
    equalities: HashMap<(FilterAttribute, i64), Vec<u32>>,
    /// By attribute: the literals that are no equalities, each evaluated once a message that has the attribute.
    tested: Vec<Vec<(FilterLiteral, u32)>>,
    /// By conjunction: how many literals it has, and whose it is.
    sizes: Vec<u8>,
    owners: Vec<u32>,
    /// By k: the first conjunction with more than k literals.
    ends: Vec<u32>,
    aside: Vec<(u32, Tree)>,
    filter_count: usize,
}

/// Counts by conjunction, the message's true literals, and filters found.
#[derive(Debug, Default)]
pub struct CountScratch {
    counts: Vec<u8>,
    literals: Vec<u32>,
    seen: Stamps,
}

impl BooleanMatcher for KIndex {
    const NAME: &'static str = "k-index (counting)";
    type Scratch = CountScratch;

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        let all = NormalForm::of(filters);
        let mut pairs: Vec<_> = all.owners.into_iter().zip(all.conjunctions).collect();
        pairs.iter_mut().for_each(|(_, literals)| remove_duplicates(literals));
        pairs.sort_by_key(|(_, literals)| literals.len());
        let mut built = Self {
            lists: Vec::new(),
            equalities: HashMap::new(),
            tested: vec![Vec::new(); schema.columns.len()],
            sizes: Vec::with_capacity(pairs.len()),
            owners: Vec::with_capacity(pairs.len()),
            ends: Vec::new(),
            aside: all.aside,
            filter_count: filters.len(),
        };
        let mut known = HashMap::new();
        for (conjunction, (owner, literals)) in (0..).zip(pairs) {
            built.sizes.push(u8::try_from(literals.len()).expect("a filter of the workload has few predicates"));
            built.owners.push(owner);
            built.ends.resize(literals.len(), conjunction);
            for literal in literals {
                let number = *known.entry(literal).or_insert_with_key(|literal| built.add_literal(literal));
                built.lists[number as usize].push(conjunction);
            }
        }
        built.ends.push(built.owners.len() as u32);
        built
    }

    fn match_into(&self, message: &FilterMessage, scratch: &mut CountScratch, matched: &mut Vec<u32>) {
        let CountScratch { counts, literals, seen } = scratch;
        self.true_literals(&message.values, literals);
        let end = self.ends[literals.len().min(self.ends.len() - 1)];
        counts.clear();
        counts.resize(end as usize, 0);
        seen.begin(self.filter_count);
        for literal in literals {
            for conjunction in self.lists[*literal as usize].iter().take_while(|number| **number < end) {
                let place = *conjunction as usize;
                counts[place] += 1;
                if counts[place] == self.sizes[place] && seen.insert(self.owners[place]) {
                    matched.push(self.owners[place]);
                }
            }
        }
        let is_true = |(_, tree): &&(u32, Tree)| tree.is_true(&message.values);
        matched.extend(self.aside.iter().filter(is_true).map(|(owner, _)| owner));
    }
}

impl KIndex {
    fn add_literal(&mut self, literal: &FilterLiteral) -> u32 {
        let number = self.lists.len() as u32;
        self.lists.push(Vec::new());
        match literal.equality() {
            Some(values) => {
                for value in values {
                    self.equalities.entry((literal.attribute, *value)).or_default().push(number);
                }
            }
            None => self.tested[usize::from(literal.attribute)].push((literal.clone(), number)),
        }
        number
    }

    fn true_literals(&self, values: &[i64], found: &mut Vec<u32>) {
        found.clear();
        for (attribute, value) in (0..).zip(values).filter(|(_, value)| **value != ABSENT) {
            found.extend(self.equalities.get(&(attribute, *value)).into_iter().flatten());
            let tested = &self.tested[usize::from(attribute)];
            found.extend(tested.iter().filter(|(literal, _)| literal.is_true(values)).map(|(_, number)| number));
        }
    }
}

/// A literal counts once, however often it is written.
fn remove_duplicates(literals: &mut Vec<FilterLiteral>) {
    let mut kept: Vec<FilterLiteral> = Vec::with_capacity(literals.len());
    for literal in literals.drain(..) {
        if !kept.contains(&literal) {
            kept.push(literal);
        }
    }
    *literals = kept;
}

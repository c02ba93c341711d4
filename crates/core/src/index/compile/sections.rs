//! Lays out the sections of a segment from the queries and subscriptions that a builder has collected.

use crate::index::codec::{encode, encode_opaques};
use crate::index::ids::{AttributeId, QueryId, SharedPredicateId, SymbolPosition};
use crate::index::layout::attribute_info::encode_attributes;
use crate::index::layout::bytes::extend_numbers;
use crate::index::layout::cpu::prefetch_all;
use crate::index::layout::sections::{SectionName, Sections};
use crate::index::leaf::query::is_cut;
use crate::index::origin::AttributeOrigin;
use crate::index::term::SymbolTerm;
use crate::topic::TopicPattern;
use crate::topic::trie;

use super::builder::{Builder, BuiltSegment, NO_KEY};
use super::clauses::Clauses;
use super::grouping::Grouping;
use super::leaves::{LeafLayout, QuerySubscriptions};

/// Up to this many words of queries are each looked up in the signature of a body that has more words.
const LISTED_WORDS_MAX: usize = 256;
/// A record is prefetched while this many records before it are copied: they are read in another order than they lie in
/// memory.
const AHEAD: usize = 16;

impl Builder {
    /// Everything as the sections of a segment.
    pub fn finish(mut self) -> BuiltSegment {
        let (mut table, positions) = self.interner.lay_out();
        let mut attributes = self.interner.attribute_infos();
        let grouping = Grouping::new(&self);
        let mut sections = Sections::default();
        self.lay_out_topics(&positions, &mut sections);
        self.lay_out_text_terms(&grouping, &positions, &mut sections);
        let subscriptions = self.order_subscriptions(&grouping.query_ids);
        let codes = self.interner.codes();
        let leaves = LeafLayout { builder: &self, grouping: &grouping, subscriptions: &subscriptions, codes };
        leaves.lay_out_leaves(&positions, &mut attributes, &mut table, &mut sections);
        leaves.lay_out_groups(&positions, &mut attributes, &mut table, &mut sections);
        sections[SectionName::AskedParts] = self.asked.encode();
        sections[SectionName::Attributes] = encode_attributes(&attributes);
        sections[SectionName::Symbols] = table.rows;
        sections[SectionName::LongTexts] = table.long_texts;
        self.lay_out_shared_predicates(&grouping, &mut sections);
        encode_opaques(self.opaques.as_slice(), &mut sections[SectionName::Opaques]);
        self.lay_out_records(&grouping.query_ids, &mut sections);
        self.lay_out_subscriptions(subscriptions, &mut sections);
        let shared_predicates = self.interner.take_shared_predicates();
        BuiltSegment { sections, opaques: self.opaques, query_ids: grouping.query_ids, shared_predicates }
    }

    /// The trie of all patterns: first the pure queries, which have the first numbers, then those that are symbols.
    fn lay_out_topics(&self, positions: &[SymbolPosition], sections: &mut Sections) {
        let mut patterns: Vec<_> = self.topics.iter().map(|(_, pattern)| pattern.clone()).collect();
        for (symbol, _, term) in self.interner.text_terms() {
            if let SymbolTerm::Pattern(dialect, text) = term {
                patterns.push(TopicPattern::new(text, dialect));
                extend_numbers(&mut sections[SectionName::PatternSymbols], [positions[symbol.index()].0]);
            }
        }
        if !patterns.is_empty() {
            sections[SectionName::Topics] = trie::build(&patterns.iter().collect::<Vec<_>>());
        }
    }

    /// The needles and words that texts are searched for: all needles, and the words of bodies while these are few.
    fn lay_out_text_terms(&self, grouping: &Grouping, positions: &[SymbolPosition], sections: &mut Sections) {
        let is_word = |origin, term: &SymbolTerm<'_>| {
            origin == AttributeOrigin::BodyWords && matches!(term, SymbolTerm::Value(_))
        };
        let word_count = self.interner.text_terms().filter(|(_, origin, term)| is_word(*origin, term)).count();
        let mut listed: Vec<(AttributeId, SymbolPosition)> = Vec::new();
        for (symbol, origin, term) in self.interner.text_terms() {
            let attribute = self.interner.attribute_of(symbol);
            let is_listed =
                matches!(term, SymbolTerm::Needle(..)) || is_word(origin, &term) && word_count <= LISTED_WORDS_MAX;
            if is_listed && !grouping.is_unread(attribute) {
                listed.push((attribute, positions[symbol.index()]));
            }
        }
        listed.sort_unstable();
        let numbers = listed.into_iter().flat_map(|(attribute, position)| [attribute.0, position.0]);
        extend_numbers(&mut sections[SectionName::TextTerms], numbers);
    }

    /// Order the subscriptions by position: by the final number of their query, then by id.
    fn order_subscriptions(&mut self, query_ids: &[QueryId]) -> QuerySubscriptions {
        self.subscriptions.iter_mut().for_each(|(query, ..)| *query = query_ids[query.index()]);
        self.subscriptions.sort_unstable();
        let mut ends = vec![0_u32; query_ids.len()];
        self.subscriptions.iter().for_each(|(query, ..)| ends[query.index()] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end;
        }
        QuerySubscriptions { ids: self.subscriptions.iter().map(|(_, id, _)| *id).collect(), ends }
    }

    /// The shared predicates, and those of each query.
    fn lay_out_shared_predicates(&mut self, grouping: &Grouping, sections: &mut Sections) {
        let predicates = self.interner.shared_predicates();
        if predicates.is_empty() {
            return;
        }
        for predicate in predicates {
            encode(predicate, &mut sections[SectionName::SharedPredicates], &mut self.opaques);
            let end = sections[SectionName::SharedPredicates].len() as u64;
            sections[SectionName::SharedPredicateEnds].extend(end.to_le_bytes());
        }
        let mut verifications = vec![Vec::new(); grouping.query_ids.len()];
        for (branch, query) in self.branches.iter().enumerate() {
            let is_same = |other: Option<&QueryId>| other == Some(query);
            let is_one_of_several =
                is_same(self.branches.get(branch + 1)) || branch > 0 && is_same(self.branches.get(branch - 1));
            let own = &mut verifications[grouping.query_id(*query).index()];
            // What remains to be evaluated differs from branch to branch.
            *own = if is_one_of_several { Vec::new() } else { self.verification(&self.clauses[branch], grouping) };
        }
        let mut end = 0;
        for verification in verifications {
            end += u32::try_from(verification.len()).expect("a query has few predicates");
            extend_numbers(&mut sections[SectionName::VerificationEnds], [end]);
            let numbers = verification.into_iter().map(|predicate| predicate.0);
            extend_numbers(&mut sections[SectionName::Verifications], numbers);
        }
    }

    /// The shared predicates of a query, the cheapest first; [`SharedPredicateId::NONE`] where the whole query has to be
    /// evaluated.
    fn verification(&self, clauses: &Clauses, grouping: &Grouping) -> Vec<SharedPredicateId> {
        let is_whole = clauses.needs_evaluation
            || is_cut(clauses.tests.len(), clauses.choices.len(), clauses.ranges.len())
            || clauses.all_tests().iter().any(|test| grouping.is_unread(test.attribute));
        if is_whole {
            return vec![SharedPredicateId::NONE];
        }
        let mut predicates = clauses.shared_predicates.to_vec();
        let cost = |id: &SharedPredicateId| self.interner.shared_predicates()[id.index()].expr().cost_ns();
        predicates.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then(a.cmp(b)));
        predicates
    }

    fn lay_out_records(&self, query_ids: &[QueryId], sections: &mut Sections) {
        let mut order: Vec<usize> = vec![0; query_ids.len()];
        query_ids.iter().enumerate().for_each(|(old, new)| order[new.index()] = old);
        sections[SectionName::Records].reserve_exact(self.records.bytes.len());
        for (query, &old) in (0_u32..).zip(&order) {
            if let Some(later) = order.get(query as usize + AHEAD) {
                prefetch_all(self.records.get(*later));
            }
            sections[SectionName::Records].extend_from_slice(self.records.get(old));
            let end = sections[SectionName::Records].len() as u64;
            sections[SectionName::RecordEnds].extend(end.to_le_bytes());
            if self.is_fields[old] {
                extend_numbers(&mut sections[SectionName::FieldsQueries], [query]);
            }
        }
    }

    /// The subscriptions by position, and in the order of their ids.
    fn lay_out_subscriptions(&self, subscriptions: QuerySubscriptions, sections: &mut Sections) {
        let has_keys = !self.keys.ends.is_empty();
        for (_, id, key) in &self.subscriptions {
            sections[SectionName::Ids].extend(id.0.to_le_bytes());
            if has_keys {
                let key = if *key == NO_KEY { &[] } else { self.keys.get(*key as usize) };
                sections[SectionName::Keys].extend_from_slice(key);
                let end = sections[SectionName::Keys].len() as u64;
                sections[SectionName::KeyEnds].extend(end.to_le_bytes());
            }
        }
        if self.subscriptions.len() != subscriptions.ends.len() {
            extend_numbers(&mut sections[SectionName::QueryEnds], subscriptions.ends);
        }
        let mut by_id: Vec<_> =
            (0_u32..).zip(&self.subscriptions).map(|(position, (_, id, _))| (*id, position)).collect();
        by_id.sort_unstable();
        extend_numbers(&mut sections[SectionName::ById], by_id.into_iter().map(|(_, position)| position));
    }
}

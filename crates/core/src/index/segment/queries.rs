//! The queries of a segment, decoded when they are first needed and kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::index::codec::{decode, is_regex};
use crate::index::ids::{QueryId, SharedPredicateId};
use crate::index::layout::bytes::NumberBytes;
use crate::index::layout::sections::SectionName;
use crate::query::Query;

use super::Segment;
use super::field_index::FieldIndex;
use super::regex_sets::{RegexSets, SET_MIN};

/// The number of decoded queries in a chunk. Chunks are allocated when needed, so that opening allocates next to nothing.
const CHUNK: usize = 64;

type QueryChunk = Box<[OnceLock<Arc<Query>>]>;

/// The queries that have been decoded so far.
#[derive(Debug, Default)]
pub struct KeptQueries {
    chunks: Vec<OnceLock<QueryChunk>>,
    /// The bytes that they take.
    bytes: AtomicUsize,
    /// Their predicates and the values in the lists of these.
    size: AtomicUsize,
}

impl KeptQueries {
    /// Storage for `count` queries, none of them decoded.
    pub fn new(count: usize) -> Self {
        Self { chunks: (0..count.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(), ..Self::default() }
    }

    /// Keep `query`, unless an equal one is there already.
    fn put(&self, cell: &OnceLock<Arc<Query>>, query: Arc<Query>) {
        let (bytes, size) = (bytes_of(&query), query.expr().size());
        if cell.set(query).is_ok() {
            // Relaxed: counts that nothing else is read by.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.size.fetch_add(size, Ordering::Relaxed);
        }
    }

    fn cell(&self, query: QueryId) -> Option<&OnceLock<Arc<Query>>> {
        let chunk = self.chunks.get(query.index() / CHUNK)?;
        Some(&chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect())[query.index() % CHUNK])
    }

    fn get(&self, query: QueryId) -> Option<&Arc<Query>> {
        self.chunks.get(query.index() / CHUNK)?.get()?[query.index() % CHUNK].get()
    }
}

/// The memory of a decoded query.
fn bytes_of(query: &Query) -> usize {
    size_of::<Query>() + usize::try_from(query.price().bytes).unwrap_or(usize::MAX)
}

impl Segment {
    /// The number of distinct queries.
    pub fn query_count(&self) -> usize {
        self.query_count
    }

    /// Every query.
    pub fn query_ids(&self) -> impl Iterator<Item = QueryId> + use<> {
        (0..self.query_count as u32).map(QueryId)
    }

    /// A query, decoded the first time and kept.
    pub fn query(&self, query: QueryId) -> Result<&Arc<Query>, EngineError> {
        let cell = self.queries.cell(query).ok_or_else(|| self.store.damaged("a query is beyond their count"))?;
        if let Some(query) = cell.get() {
            return Ok(query);
        }
        self.queries.put(cell, Arc::new(self.decode(query)?));
        cell.get().ok_or_else(|| self.contradiction())
    }

    /// The bytes of what is kept besides the sections, which grow as messages are matched: decoded queries and shared
    /// predicates, automata that search texts, sets of expressions, and the criteria of fields queries.
    pub fn kept_bytes(&self) -> usize {
        let shared_predicates: usize = self.shared_predicates.iter().filter_map(OnceLock::get).map(bytes_of).sum();
        let fields = self.field_index.get().map_or(0, FieldIndex::bytes);
        let regex_sets = self.regex_sets.get().map_or(0, RegexSets::bytes);
        self.queries.bytes.load(Ordering::Relaxed) + shared_predicates + self.text_search.bytes() + regex_sets + fields
    }

    /// The number of predicates, and of the values in their lists, of the queries that have been kept.
    pub fn kept_size(&self) -> usize {
        self.queries.size.load(Ordering::Relaxed)
    }

    /// A query, if it has been kept.
    pub fn kept(&self, query: QueryId) -> Option<&Arc<Query>> {
        self.queries.get(query)
    }

    /// Keep the queries that the segment was built from, so that they need not be decoded when it is merged. This pays for
    /// small segments.
    pub fn keep<'q>(&self, queries: impl Iterator<Item = (QueryId, &'q Arc<Query>)>) {
        for (id, query) in queries {
            if let Some(cell) = self.queries.cell(id) {
                self.queries.put(cell, Arc::clone(query));
            }
        }
    }

    /// A query, decoded and not kept.
    pub fn decode(&self, query: QueryId) -> Result<Query, EngineError> {
        let record = self.store.item(SectionName::RecordEnds, SectionName::Records, query.index())?;
        decode(record, &self.opaques)
            .map_err(|reason| self.store.damaged(&format!("the query {} cannot be read: {reason}", query.0)))
    }

    /// The number of shared predicates.
    pub fn shared_predicate_count(&self) -> usize {
        self.shared_predicates.len()
    }

    /// A shared predicate as a query, decoded the first time and kept.
    pub fn shared_predicate(&self, predicate: SharedPredicateId) -> Result<&Query, EngineError> {
        let cell = self.shared_predicates.get(predicate.index()).ok_or_else(|| self.contradiction())?;
        if let Some(query) = cell.get() {
            return Ok(query);
        }
        let (ends, predicates) = (SectionName::SharedPredicateEnds, SectionName::SharedPredicates);
        let query = decode(self.store.item(ends, predicates, predicate.index())?, &self.opaques)
            .map_err(|reason| self.store.damaged(&format!("the predicate {} cannot be read: {reason}", predicate.0)))?;
        Ok(cell.get_or_init(|| query))
    }

    /// The regular expressions that are searched for together, built on first use; None when there are too few.
    ///
    /// # Errors
    /// Damage in the shared predicates.
    pub fn regex_sets(&self) -> Result<Option<&RegexSets>, EngineError> {
        if self.shared_predicate_count() < SET_MIN {
            return Ok(None);
        }
        if let Some(sets) = self.regex_sets.get() {
            return Ok(Some(sets));
        }
        let sets = RegexSets::of(self)?;
        Ok(Some(self.regex_sets.get_or_init(|| sets)))
    }

    /// The regular expressions that are searched for together, if they have been built.
    pub fn built_regex_sets(&self) -> Option<&RegexSets> {
        self.regex_sets.get()
    }

    /// True when a shared predicate is a regular expression, or its negation. It is not decoded.
    ///
    /// # Errors
    /// Damage in the shared predicates.
    pub fn is_shared_regex(&self, predicate: SharedPredicateId) -> Result<bool, EngineError> {
        let (ends, predicates) = (SectionName::SharedPredicateEnds, SectionName::SharedPredicates);
        Ok(is_regex(self.store.item(ends, predicates, predicate.index())?))
    }

    /// Keep the shared predicates that take long to compile, so that no match waits for it.
    pub fn keep_shared_predicates(&self, predicates: Vec<Query>) {
        for (cell, predicate) in self.shared_predicates.iter().zip(predicates) {
            if predicate.is_expensive_to_compile() {
                _ = cell.set(predicate); // an equal one may be there
            }
        }
    }

    /// Build what finds needles, words and regular expressions in texts now, rather than for the first text.
    ///
    /// # Errors
    /// Damage in the section of needles and words, or in the shared predicates.
    pub fn build_text_search(&self) -> Result<(), EngineError> {
        self.text_search.build(&self.store)?;
        self.regex_sets().map(drop)
    }

    /// The shared predicates that decide a query whose clauses hold; None when the whole query has to be evaluated.
    pub fn verification(&self, query: QueryId) -> Result<Option<&[NumberBytes]>, EngineError> {
        let ends = self.store.numbers(SectionName::VerificationEnds)?;
        let all = self.store.numbers(SectionName::Verifications)?;
        if ends.is_empty() {
            return Ok(None);
        }
        let end = |query: usize| ends.get(query).map(|end| u32::from_le_bytes(*end) as usize);
        let start = if query.index() == 0 { Some(0) } else { end(query.index() - 1) };
        let predicates = start.zip(end(query.index())).and_then(|(start, end)| all.get(start..end));
        let predicates = predicates.ok_or_else(|| self.contradiction())?;
        let is_whole = predicates.is_empty() || *predicates == [SharedPredicateId::NONE.0.to_le_bytes()];
        Ok((!is_whole).then_some(predicates))
    }

    /// The fields queries, ascending.
    pub fn fields_queries(&self) -> Result<impl Iterator<Item = QueryId>, EngineError> {
        Ok(self.store.numbers(SectionName::FieldsQueries)?.iter().map(|query| QueryId::from_le_bytes(*query)))
    }
}

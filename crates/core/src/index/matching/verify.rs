//! Evaluates the candidates that clauses cannot decide, each shared predicate at most once per message.

use crate::allowance::EVALUATION_NS;
use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::ids::SharedPredicateId;
use crate::index::layout::bytes::NumberBytes;
use crate::index::segment::Segment;
use crate::index::segment::index_view::IndexView;
use crate::message::Message;

use super::MatchState;
use super::scratch::SegmentScratch;

impl Segment {
    /// Evaluate the queries in `unsure`, and add the ids of those that are true.
    pub fn verify(
        &self,
        index: &IndexView<'_>,
        message: &Message<'_>,
        state: MatchState<'_>,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        let SegmentScratch { unsure, predicates, ids, .. } = scratch;
        predicates.begin(self.shared_predicate_count());
        // A query may be a candidate by several of its keys or branches.
        unsure.sort_unstable();
        unsure.dedup_by_key(|(query, _)| *query);
        for &(query, is_whole) in &*unsure {
            if !message.allowance().spend(1, EVALUATION_NS) {
                return Ok(());
            }
            let is_true = match self.verification(query)? {
                Some(shared) if !is_whole => self.are_true(shared, message, state.hierarchies, predicates)?,
                _ => self.query(query)?.is_true(message, Some(state.hierarchies)),
            };
            if is_true {
                let pushed = self.push_ids(index, query, state.version, |id| ids.push(id));
                pushed.ok_or_else(|| self.contradiction())?;
            }
        }
        Ok(())
    }

    /// True when all of `predicates` are true.
    fn are_true(
        &self,
        predicates: &[NumberBytes],
        message: &Message<'_>,
        hierarchies: &Hierarchies,
        memo: &mut PredicateMemo,
    ) -> Result<bool, EngineError> {
        for predicate in predicates {
            let predicate = SharedPredicateId::from_le_bytes(*predicate);
            let evaluate =
                || Ok::<_, EngineError>(self.shared_predicate(predicate)?.is_true(message, Some(hierarchies)));
            if !memo.is_true(predicate, evaluate)?.ok_or_else(|| self.contradiction())? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The results of the shared predicates of a segment for one message.
#[derive(Debug, Default)]
pub struct PredicateMemo {
    /// When each predicate was last evaluated, and whether it was true.
    stamps: Vec<(u32, bool)>,
    now: u32,
}

impl PredicateMemo {
    /// Forget everything, for a segment of `count` shared predicates.
    fn begin(&mut self, count: usize) {
        if self.stamps.len() < count {
            self.stamps.resize(count, (0, false));
        }
        self.now = self.now.checked_add(1).unwrap_or_else(|| {
            self.stamps.fill((0, false));
            1
        });
    }

    /// Whether `predicate` is true: the known result, or that of `evaluate`. None when there is no such predicate.
    fn is_true<E>(
        &mut self,
        predicate: SharedPredicateId,
        evaluate: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Option<bool>, E> {
        let Some(stamp) = self.stamps.get_mut(predicate.index()) else { return Ok(None) };
        if stamp.0 != self.now {
            *stamp = (self.now, evaluate()?);
        }
        Ok(Some(stamp.1))
    }
}

//! Evaluates the candidates that clauses cannot decide, each shared predicate at most once per message.

use crate::allowance::EVALUATION_NS;
use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::ids::SharedPredicateId;
use crate::index::layout::bytes::NumberBytes;
use crate::index::segment::Segment;
use crate::index::segment::index_view::IndexView;
use crate::index::segment::regex_sets::{RegexSets, SET_MIN};
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
        // Few expressions are searched for faster one by one. What an allowance cannot pay for is not built.
        let sets = if unsure.len() < SET_MIN {
            None
        } else if message.allowance().is_unlimited() {
            self.regex_sets()?
        } else {
            self.built_regex_sets()
        };
        // A query may be a candidate by several of its keys or branches.
        unsure.sort_unstable();
        unsure.dedup_by_key(|(query, _)| *query);
        for &(query, is_whole) in &*unsure {
            if !message.allowance().spend(1, EVALUATION_NS) {
                return Ok(());
            }
            let is_true = match self.verification(query)? {
                Some(shared) if !is_whole => self.are_true(shared, message, (state.hierarchies, sets), predicates)?,
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
        (hierarchies, sets): (&Hierarchies, Option<&RegexSets>),
        memo: &mut PredicateMemo,
    ) -> Result<bool, EngineError> {
        for predicate in predicates {
            let predicate = SharedPredicateId::from_le_bytes(*predicate);
            if memo.get(predicate).is_none()
                && !sets.is_some_and(|sets| sets.search(predicate, message, |other, is_true| memo.set(other, is_true)))
            {
                memo.set(predicate, self.shared_predicate(predicate)?.is_true(message, Some(hierarchies)));
            }
            if !memo.get(predicate).ok_or_else(|| self.contradiction())? {
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

    /// Whether `predicate` is true; None when it is not known yet.
    fn get(&self, predicate: SharedPredicateId) -> Option<bool> {
        self.stamps.get(predicate.index()).filter(|stamp| stamp.0 == self.now).map(|stamp| stamp.1)
    }

    /// Note whether `predicate` is true, if there is such a predicate.
    fn set(&mut self, predicate: SharedPredicateId, is_true: bool) {
        if let Some(stamp) = self.stamps.get_mut(predicate.index()) {
            *stamp = (self.now, is_true);
        }
    }
}

//! Changes to an engine: adding, replacing and removing subscriptions, and publishing the version that results.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::query::Query;

use super::segment::Segment;
use super::segment::tail::{TAIL_MAX, Tail};
use super::versions::compactor::{self, QUIET};
use super::versions::merge;
use super::versions::version::{SubscriptionPosition, Version};
use super::{Engine, SubscriptionId};

/// Maximum number of segments while a merge goes on; a thread that adds more waits for the merge.
const SEGMENTS_MAX: usize = 256;
/// The maximum weight of the tail: large queries become a segment sooner than others. Building one of so much takes about
/// 10 ms where each predicate is a pattern.
const TAIL_WEIGHT_MAX: usize = 384;

/// The state that all clones of an engine share.
#[derive(Debug, Default)]
pub struct EngineState {
    /// The version that matches read.
    pub current: ArcSwap<Version>,
    /// The right to change the engine.
    pub writer: Mutex<EngineWriter>,
    merged: Condvar,
}

/// The state that only changes need.
#[derive(Debug, Default)]
pub struct EngineWriter {
    /// The id of the next new subscription.
    pub next_id: u64,
    /// The segments that a thread is merging; empty when there is none.
    merging: Vec<Arc<Segment>>,
    /// The process that has the merging thread: a fork of it does not.
    merging_process: u32,
    /// The subscriptions removed from these segments meanwhile, each with the version that removed it.
    removed_meanwhile: Vec<(SubscriptionId, u64)>,
    /// The time of the last change that left the engine worn.
    worn_at: Option<Instant>,
    /// The process whose compactor watches the engine.
    watching_process: Option<u32>,
}

impl EngineState {
    /// The state of an engine that starts with `version`.
    pub fn new(version: Version, next_id: u64) -> Self {
        let writer = Mutex::new(EngineWriter { next_id, ..EngineWriter::default() });
        Self { current: ArcSwap::from_pointee(version), writer, merged: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, EngineWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compact the engine if it has not changed for a while. False if it has, or is being merged.
    pub fn compact_if_quiet(self: Arc<Self>) -> bool {
        let mut writer = self.lock();
        let is_quiet = writer.worn_at.is_none_or(|worn_at| worn_at.elapsed() >= QUIET);
        if !is_quiet || writer.is_merging() {
            return false;
        }
        writer.watching_process = None;
        drop(writer);
        Engine { state: self }.compact();
        true
    }

    fn wait<'w>(&self, writer: MutexGuard<'w, EngineWriter>) -> MutexGuard<'w, EngineWriter> {
        self.merged.wait(writer).unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineWriter {
    fn is_merging(&self) -> bool {
        !self.merging.is_empty() && self.merging_process == std::process::id()
    }

    fn begin_merge(&mut self, segments: &[Arc<Segment>]) {
        self.merging = segments.to_vec();
        self.merging_process = std::process::id();
        self.removed_meanwhile.clear();
    }

    /// Remove the subscription at `position` from version `next`.
    fn remove(&mut self, next: &mut Version, id: SubscriptionId, position: &SubscriptionPosition) {
        match position {
            SubscriptionPosition::Tail(position) => next.tail.tombstones.remove(*position, next.number),
            SubscriptionPosition::Segment(segment, position) => {
                segment.tombstones.remove(*position, next.number);
                if self.merging.iter().any(|other| Arc::ptr_eq(other, segment)) {
                    self.removed_meanwhile.push((id, next.number));
                }
            }
        }
        next.live -= 1;
    }
}

impl Engine {
    /// Add a subscription; its id is higher than any before. Cost: a few microseconds, amortised.
    pub fn add(&self, query: Arc<Query>) -> SubscriptionId {
        let ids = self.change(vec![query], &[]).expect("nothing is looked up in a snapshot");
        ids[0]
    }

    /// Add subscriptions, and replace the queries of others, in one version or not at all.
    ///
    /// Subscriptions in `replaced` keep their ids and so their positions in the order; ids without a subscription are
    /// ignored. Returns the ids of the new subscriptions, ascending.
    ///
    /// Cost: a few microseconds per query; many queries become a new segment at once.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn change(
        &self,
        added: Vec<Arc<Query>>,
        replaced: &[(SubscriptionId, Arc<Query>)],
    ) -> Result<Vec<SubscriptionId>, EngineError> {
        let mut writer = self.writer();
        let mut next = self.next_version();
        let mut positions = Vec::with_capacity(replaced.len());
        for (id, query) in replaced {
            positions.extend(next.find(*id)?.map(|position| (*id, position, Arc::clone(query))));
        }
        let ids: Vec<_> = (writer.next_id..).take(added.len()).map(SubscriptionId).collect();
        writer.next_id += added.len() as u64;
        let mut new: Vec<_> = ids.iter().copied().zip(added).collect();
        for (id, position, query) in positions {
            writer.remove(&mut next, id, &position);
            new.push((id, query));
        }
        next.live += new.len();
        append(&mut next, &writer.merging, new);
        self.publish(writer, next);
        Ok(ids)
    }

    /// Replace the query of the subscription `id`, which keeps its id and so its position in the order. False when there is
    /// no such subscription.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn replace(&self, id: SubscriptionId, query: Arc<Query>) -> Result<bool, EngineError> {
        let is_known = self.contains(id)?;
        self.change(Vec::new(), &[(id, query)])?;
        Ok(is_known)
    }

    /// Remove the subscription `id`. False when there is none. Cost: a binary search per segment.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn remove(&self, id: SubscriptionId) -> Result<bool, EngineError> {
        let mut writer = self.writer();
        let mut next = self.next_version();
        let Some(position) = next.find(id)? else { return Ok(false) };
        writer.remove(&mut next, id, &position);
        self.publish(writer, next);
        Ok(true)
    }

    /// Replace the hierarchy of `attribute`; `UNDER` follows it from the next match on.
    pub fn set_hierarchy(&self, attribute: &str, hierarchy: Hierarchy) {
        let writer = self.writer();
        let mut next = self.next_version();
        let mut hierarchies = Hierarchies::clone(&next.hierarchies);
        hierarchies.insert(attribute.to_owned(), hierarchy);
        next.hierarchies = Arc::new(hierarchies);
        self.publish(writer, next);
    }

    /// Replace the hierarchies of all attributes, which may be those of other engines too.
    pub fn set_hierarchies(&self, hierarchies: Arc<Hierarchies>) {
        let writer = self.writer();
        let mut next = self.next_version();
        next.hierarchies = hierarchies;
        self.publish(writer, next);
    }

    /// Wait until no merge is going on or due, and compact the segments as is done when nobody changes the engine for half a
    /// second. For measuring; nothing else has to.
    pub fn settle(&self) {
        let mut writer = self.state.lock();
        while writer.is_merging() {
            writer = self.state.wait(writer);
        }
        drop(writer);
        self.compact();
    }

    /// Merge the segments that changes have left, so that they are few, unless a merge goes on.
    fn compact(&self) {
        let mut writer = self.state.lock();
        let version = self.current();
        if !writer.is_merging()
            && let Some(segments) = merge::compactable(&version)
        {
            writer.begin_merge(&segments);
            let number = version.number;
            drop((version, writer));
            self.merge_and_publish(&segments, number);
        }
    }

    /// The id that the next new subscription gets, unless another thread adds one first.
    #[must_use]
    pub fn next_id(&self) -> SubscriptionId {
        SubscriptionId(self.state.lock().next_id)
    }

    /// The current version, and the id of the next new subscription after it.
    pub(super) fn current_with_next_id(&self) -> (Arc<Version>, u64) {
        let writer = self.writer();
        (self.current(), writer.next_id)
    }

    /// The right to change the engine, once there are not too many segments.
    fn writer(&self) -> MutexGuard<'_, EngineWriter> {
        let mut writer = self.state.lock();
        while writer.is_merging() && self.current().segments.len() > SEGMENTS_MAX {
            writer = self.state.wait(writer);
        }
        writer
    }

    /// A copy of the current version with the next number.
    fn next_version(&self) -> Version {
        let mut next = Version::clone(&self.current());
        next.number += 1;
        next
    }

    /// Make `next` the current version, after all merges that are quickly done; a long one is left to a thread.
    fn publish(&self, mut writer: MutexGuard<'_, EngineWriter>, mut next: Version) {
        if !writer.is_merging() {
            writer.merging.clear();
        }
        loop {
            // One thread at a time; small segments are merged here meanwhile.
            let size_max = if writer.merging.is_empty() { usize::MAX } else { merge::INLINE_MAX };
            let Some(segments) = merge::due(&next, &writer.merging, size_max) else { break };
            if merge::weight(&segments) > merge::INLINE_MAX {
                match self.merge_in_thread(&mut writer, segments, next.number) {
                    Ok(()) => continue,
                    // Without a thread the segments stay as they are, and the next change tries again.
                    Err(_) => break,
                }
            }
            // A match reports a damaged snapshot; its segment stays as it is.
            let Ok(merged) = merge::merge(&segments, next.number) else { break };
            exchange(&mut next, &segments, merged);
        }
        next.seal();
        self.watch_if_worn(&mut writer, &next);
        self.state.current.store(Arc::new(next));
    }

    /// Have the engine compacted after its last change if `next`, the version after this one, is worn.
    fn watch_if_worn(&self, writer: &mut EngineWriter, next: &Version) {
        if merge::is_compact(next) || cfg!(miri) {
            return; // miri takes a thread that is left at the end for a leak
        }
        writer.worn_at = Some(Instant::now());
        let here = Some(std::process::id());
        // Without a thread the next change tries again.
        if writer.watching_process != here && compactor::watch(Arc::downgrade(&self.state)).is_ok() {
            writer.watching_process = here;
        }
    }

    fn merge_in_thread(&self, writer: &mut EngineWriter, segments: Vec<Arc<Segment>>, version: u64) -> io::Result<()> {
        writer.begin_merge(&segments);
        let engine = self.clone();
        let work = move || engine.merge_and_publish(&segments, version);
        let started = std::thread::Builder::new().name("tamis-merge".to_owned()).spawn(work);
        started.map(drop).inspect_err(|_| writer.merging.clear())
    }

    fn merge_and_publish(&self, segments: &[Arc<Segment>], version: u64) {
        // A panic is a bug here; threads that wait for the merge must still go on.
        let merged = catch_unwind(AssertUnwindSafe(|| merge::merge(segments, version)));
        let mut writer = self.state.lock();
        writer.merging.clear();
        if let Ok(Ok(merged)) = merged {
            for (id, version) in std::mem::take(&mut writer.removed_meanwhile) {
                if let Ok(Some(position)) = merged.find(id) {
                    merged.tombstones.remove(position, version);
                }
            }
            let mut next = Version::clone(&self.current());
            exchange(&mut next, segments, merged);
            self.publish(writer, next);
        }
        self.state.merged.notify_all();
    }
}

/// Put new subscriptions into the tail. Where they do not fit, build a segment of them and the tail. A large one waits in the
/// tail for the next: whoever adds it pays for one of its size at most.
fn append(next: &mut Version, busy: &[Arc<Segment>], new: Vec<(SubscriptionId, Arc<Query>)>) {
    let new_weight: usize = new.iter().map(|(_, query)| merge::weight_of_query(query)).sum();
    let fits = next.tail_length + new.len() <= TAIL_MAX && next.tail_weight + new_weight <= TAIL_WEIGHT_MAX;
    let waits = new.len() == 1 && (next.tail_length == 0 || new_weight > TAIL_WEIGHT_MAX / 2);
    if !fits && !waits {
        return build_segment(next, busy, new);
    }
    if !fits && next.tail_length > 0 {
        build_segment(next, busy, Vec::new());
    }
    next.tail_weight += new_weight;
    let asked = Arc::make_mut(&mut next.tail_asked);
    for (id, query) in new {
        asked.add(&query);
        next.tail.fill(next.tail_length, id, query);
        next.tail_length += 1;
    }
}

/// Build a segment of the tail, of new subscriptions, and of the segments that would be merged with it at once, none of them
/// `busy`.
fn build_segment(next: &mut Version, busy: &[Arc<Segment>], new: Vec<(SubscriptionId, Arc<Query>)>) {
    let tail_weight = next.tail_weight + new.iter().map(|(_, query)| merge::weight_of_query(query)).sum::<usize>();
    let tail = next.live_tail().map(|(_, tail)| (tail.id, Arc::clone(&tail.query)));
    let mut all: Vec<_> = tail.chain(new).collect();
    let mut joining = merge::joining(next, busy, all.len(), tail_weight);
    match merge::kept(&joining, next.number) {
        Some(kept) => all.extend(kept),
        None => joining.clear(),
    }
    exchange(next, &joining, merge::build(&all));
    (next.tail, next.tail_length, next.tail_weight) = (Arc::new(Tail::default()), 0, 0);
    next.tail_asked = Arc::default();
}

/// Replace `segments` by the segment that they were merged into.
fn exchange(next: &mut Version, segments: &[Arc<Segment>], merged: Segment) {
    next.segments.retain(|segment| !segments.iter().any(|other| Arc::ptr_eq(other, segment)));
    if merged.position_count() > 0 {
        next.segments.push(Arc::new(merged));
    }
}

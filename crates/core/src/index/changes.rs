//! Changes to an engine: adding, replacing and removing subscriptions, and publishing the version that results.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::error::EngineError;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::mutex::lock;
use crate::query::Query;

use super::segment::Segment;
use super::segment::tail::TAIL_MAX;
use super::versions::compactor::{self, QUIET};
use super::versions::merge;
use super::versions::threads;
use super::versions::version::{SubscriptionPosition, Subscriptions, Version};
use super::{Engine, SubscriptionId};

/// Maximum number of segments while a merge goes on; a thread that adds more waits for the merge.
const SEGMENTS_MAX: usize = 256;
/// The maximum weight of the tail: large queries become a segment sooner than others. Building one of so much takes about
/// 10 ms where each predicate is a pattern.
const TAIL_WEIGHT_MAX: usize = 384;
/// The weight of the segments that a quick change builds itself, at most: what a full tail of ordinary queries has, and more.
const QUICK_MAX: usize = TAIL_MAX * 3 / 2;
/// The time that a segment waits for a quick change, which puts it into place on its way. The thread that built it would hold
/// the right to change meanwhile, also while it has no core.
const LEFT_TO_CHANGES: Duration = Duration::from_millis(10);

/// The state that all clones of an engine share.
#[derive(Debug)]
pub struct EngineState {
    /// The version that matches read.
    pub current: ArcSwap<Version>,
    /// The right to change the engine.
    pub writer: Mutex<EngineWriter>,
    built: Condvar,
    /// The weight of the segments that a change builds itself, at most; a thread builds larger ones.
    inline_max: usize,
    /// The time that a segment of a thread waits for a change to put it into place.
    left_to_changes: Duration,
}

impl Default for EngineState {
    fn default() -> Self {
        Self::new(Version::default(), 0)
    }
}

/// The state that only changes need.
#[derive(Debug, Default)]
pub struct EngineWriter {
    /// The id of the next new subscription.
    pub next_id: u64,
    /// What a thread is making a segment of.
    building: Building,
    /// The time of the last change that left the engine worn.
    worn_at: Option<Instant>,
    /// The process whose compactor watches the engine.
    watching_process: Option<u32>,
}

/// Subscriptions of which a thread makes a segment; none when there is no thread.
#[derive(Debug, Default)]
struct Building {
    /// The segments that become one.
    segments: Vec<Arc<Segment>>,
    /// The number of positions of the tail, the first ones, whose subscriptions join them.
    tail_length: usize,
    /// The process that has the thread: a fork of it does not. None without a thread.
    process: Option<u32>,
    /// The subscriptions that were removed from these meanwhile, each with the version that removed it.
    removed: Vec<(SubscriptionId, u64)>,
    built: Arc<SegmentSlot>,
}

/// What the thread has made, until it is put into place; an inner None if it could make nothing.
type SegmentSlot = Mutex<Option<Option<Segment>>>;

impl EngineState {
    /// The state of an engine that starts with `version`.
    pub fn new(version: Version, next_id: u64) -> Self {
        let writer = Mutex::new(EngineWriter { next_id, ..EngineWriter::default() });
        let (current, built) = (ArcSwap::from_pointee(version), Condvar::new());
        Self { current, writer, built, inline_max: merge::INLINE_MAX, left_to_changes: Duration::ZERO }
    }

    /// The state of an empty engine whose changes are quick.
    pub fn quick_to_change() -> Self {
        Self { inline_max: QUICK_MAX, left_to_changes: LEFT_TO_CHANGES, ..Self::default() }
    }

    /// The maximum weight of the tail. In an engine that is quick to change, it is heavier while it waits for a thread.
    fn tail_weight_max(&self) -> usize {
        TAIL_WEIGHT_MAX.min(self.inline_max)
    }

    /// Take the younger ones out of the tail's `subscriptions`: those beyond the maximum weight, but never the first.
    fn younger(&self, subscriptions: &mut Subscriptions) -> Subscriptions {
        let mut left = self.tail_weight_max();
        let is_within = |(index, query): &(usize, &Arc<Query>)| {
            let rest = left.checked_sub(merge::weight_of_query(query));
            left = rest.unwrap_or(0);
            rest.is_some() || *index == 0
        };
        let queries = subscriptions.iter().map(|(_, query)| query).enumerate();
        let oldest = queries.take_while(is_within).count();
        subscriptions.split_off(oldest)
    }

    fn lock(&self) -> MutexGuard<'_, EngineWriter> {
        lock(&self.writer)
    }

    /// Compact the engine if it has not changed for a while. False if it has, or is being merged.
    pub fn compact_if_quiet(self: Arc<Self>) -> bool {
        let mut writer = self.lock();
        let is_quiet = writer.worn_at.is_none_or(|worn_at| worn_at.elapsed() >= QUIET);
        if !is_quiet || writer.is_building() {
            return false;
        }
        writer.watching_process = None;
        drop(writer);
        Engine { state: self }.compact();
        true
    }

    fn wait<'w>(&self, writer: MutexGuard<'w, EngineWriter>) -> MutexGuard<'w, EngineWriter> {
        self.built.wait(writer).unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineWriter {
    fn is_building(&self) -> bool {
        self.building.process == Some(std::process::id())
    }

    /// Returns where the thread leaves what it makes.
    fn begin_building(&mut self, segments: &[Arc<Segment>], tail_length: usize) -> Arc<SegmentSlot> {
        let (segments, process) = (segments.to_vec(), Some(std::process::id()));
        self.building = Building { segments, tail_length, process, ..Building::default() };
        Arc::clone(&self.building.built)
    }

    /// Remove the subscription at `position` from version `next`.
    fn remove(&mut self, next: &mut Version, id: SubscriptionId, position: &SubscriptionPosition) {
        let is_being_built = match position {
            SubscriptionPosition::Tail(position) => {
                next.tail.tombstones.remove(*position, next.number);
                *position < self.building.tail_length
            }
            SubscriptionPosition::Segment(segment, position) => {
                segment.tombstones.remove(*position, next.number);
                self.building.segments.iter().any(|other| Arc::ptr_eq(other, segment))
            }
        };
        if is_being_built {
            self.building.removed.push((id, next.number));
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
        self.append(&mut writer, &mut next, new);
        self.publish(&mut writer, next);
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
        Ok(self.remove_all(&mut [id])? > 0)
    }

    /// Remove subscriptions in one version or not at all; ids without a subscription are ignored. Returns how many there were.
    /// Cost: a microsecond or two, and a binary search per subscription and segment.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn remove_all(&self, ids: &mut [SubscriptionId]) -> Result<usize, EngineError> {
        ids.sort_unstable();
        let mut writer = self.writer();
        let mut next = self.next_version();
        let mut positions = Vec::with_capacity(ids.len());
        for id in ids.chunk_by(PartialEq::eq).map(|same| same[0]) {
            positions.extend(next.find(id)?.map(|position| (id, position)));
        }
        if positions.is_empty() {
            return Ok(0);
        }
        for (id, position) in &positions {
            writer.remove(&mut next, *id, position);
        }
        self.publish(&mut writer, next);
        Ok(positions.len())
    }

    /// Replace the hierarchy of `attribute`; `UNDER` follows it from the next match on.
    pub fn set_hierarchy(&self, attribute: &str, hierarchy: Hierarchy) {
        let mut writer = self.writer();
        let mut next = self.next_version();
        let mut hierarchies = Hierarchies::clone(&next.hierarchies);
        hierarchies.insert(attribute.to_owned(), hierarchy);
        next.hierarchies = Arc::new(hierarchies);
        self.publish(&mut writer, next);
    }

    /// Replace the hierarchies of all attributes, which may be those of other engines too.
    pub fn set_hierarchies(&self, hierarchies: Arc<Hierarchies>) {
        let mut writer = self.writer();
        let mut next = self.next_version();
        next.hierarchies = hierarchies;
        self.publish(&mut writer, next);
    }

    /// Wait until no segment is being built or due, and compact the segments as is done when nobody changes the engine for half a
    /// second. For measuring; nothing else has to.
    pub fn settle(&self) {
        let mut writer = self.state.lock();
        while writer.is_building() {
            writer = self.await_built(writer);
        }
        drop(writer);
        self.compact();
    }

    /// Merge the segments that changes have left, so that they are few, unless a segment is being built.
    fn compact(&self) {
        let mut writer = self.state.lock();
        let version = self.current();
        if !writer.is_building()
            && let Some(segments) = merge::compactable(&version)
        {
            let place = writer.begin_building(&segments, 0);
            let number = version.number;
            drop((version, writer));
            self.build(&place, || merge::merge(&segments, number));
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
        if writer.is_building() {
            self.put_into_place(&mut writer);
        }
        while writer.is_building() && self.current().segments.len() > SEGMENTS_MAX {
            writer = self.await_built(writer);
        }
        if !writer.is_building() {
            writer.building = Building::default();
        }
        writer
    }

    /// Put the segment that is being built into place, or wait until that may be possible.
    fn await_built<'w>(&'w self, mut writer: MutexGuard<'w, EngineWriter>) -> MutexGuard<'w, EngineWriter> {
        if self.put_into_place(&mut writer) { writer } else { self.state.wait(writer) }
    }

    /// A copy of the current version with the next number.
    fn next_version(&self) -> Version {
        let mut next = Version::clone(&self.current());
        next.number += 1;
        next
    }

    /// Put new subscriptions into the tail. Where they do not fit, make a segment of them and the tail. A large one waits in
    /// the tail for the next: whoever adds it pays for one of its size at most.
    fn append(&self, writer: &mut EngineWriter, next: &mut Version, new: Subscriptions) {
        let new_weight = weight(&new);
        let fits = |tail: &Version, weight_max| {
            tail.tail_length + new.len() <= TAIL_MAX && tail.tail_weight + new_weight <= weight_max
        };
        let mut weight_max = self.state.tail_weight_max();
        if !fits(next, weight_max) && next.tail_weight > self.state.inline_max {
            if !writer.is_building() {
                // Without a thread it is built here.
                _ = self.build_tail_in_thread(writer, next);
            }
            if writer.is_building() {
                weight_max = TAIL_WEIGHT_MAX;
            }
        }
        if fits(next, weight_max) {
            return fill(next, new);
        }
        let has_room = writer.building.tail_length < TAIL_MAX;
        let is_large = new_weight > self.state.tail_weight_max() / 2;
        if new.len() > 1 || !has_room || !(is_large || next.tail_length == 0) {
            return self.build_segment(writer, next, new);
        }
        if next.tail_length > writer.building.tail_length {
            self.build_segment(writer, next, Vec::new());
        }
        fill(next, new);
    }

    /// Make a segment of the tail, of new subscriptions, and of the segments that would be merged with it at once; of nothing
    /// of which a thread is making one. Where the tail has grown meanwhile, only its oldest subscriptions leave it.
    fn build_segment(&self, writer: &mut EngineWriter, next: &mut Version, new: Subscriptions) {
        let building = &mut writer.building;
        let (mut staying, mut all) = next.split_tail(building.tail_length);
        building.tail_length = staying.len();
        let mut younger = if new.len() > 1 { Vec::new() } else { self.state.younger(&mut all) };
        (if younger.is_empty() { &mut all } else { &mut younger }).extend(new);
        staying.extend(younger);
        let joining = join(next, &building.segments, &mut all, self.state.inline_max);
        exchange(next, &joining, merge::build(&all));
        next.clear_tail();
        fill(next, staying);
    }

    /// Have a thread make a segment of the tail, and of the segments that would be merged with it at once.
    fn build_tail_in_thread(&self, writer: &mut EngineWriter, next: &Version) -> io::Result<()> {
        let (mut all, _) = next.split_tail(next.tail_length);
        let joining = join(next, &[], &mut all, merge::INLINE_MAX);
        self.build_in_thread(writer, joining, next.tail_length, move |_| Ok(merge::build(&all)))
    }

    /// Make `next` the current version, after all merges that are quickly done; a long one is left to a thread.
    fn publish(&self, writer: &mut EngineWriter, mut next: Version) {
        let inline_max = self.state.inline_max;
        loop {
            // One thread at a time; small segments are merged here meanwhile.
            let size_max = if writer.is_building() { inline_max } else { usize::MAX };
            let Some(segments) = merge::due(&next, &writer.building.segments, size_max) else { break };
            if merge::weight(&segments) > inline_max {
                let number = next.number;
                match self.build_in_thread(writer, segments, 0, move |segments| merge::merge(segments, number)) {
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
        self.watch_if_worn(writer, &next);
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

    /// Have a thread make a segment of others, and of the first positions of the tail.
    fn build_in_thread(
        &self,
        writer: &mut EngineWriter,
        segments: Vec<Arc<Segment>>,
        tail_length: usize,
        build: impl FnOnce(&[Arc<Segment>]) -> Result<Segment, EngineError> + Send + 'static,
    ) -> io::Result<()> {
        let place = writer.begin_building(&segments, tail_length);
        let engine = self.clone();
        let started = threads::run(move || engine.build(&place, || build(&segments)));
        started.inspect_err(|_| writer.building = Building::default())
    }

    /// Build the segment that is noted as being built, and see that it is put into its place.
    fn build(&self, place: &Arc<SegmentSlot>, build: impl FnOnce() -> Result<Segment, EngineError>) {
        // A panic is a bug here; threads that wait for the segment must still go on.
        let built = catch_unwind(AssertUnwindSafe(build)).ok().and_then(Result::ok);
        *lock(place) = Some(built);
        self.state.built.notify_all();
        std::thread::sleep(self.state.left_to_changes);
        if lock(place).is_none() {
            return;
        }
        let mut writer = self.state.lock();
        if Arc::ptr_eq(&writer.building.built, place) {
            self.put_into_place(&mut writer);
        }
    }

    /// Publish a version with the segment that is noted as being built, if it has been built. False if it has not.
    fn put_into_place(&self, writer: &mut EngineWriter) -> bool {
        let Some(built) = lock(&writer.building.built).take() else { return false };
        let Building { segments, tail_length, removed, .. } = std::mem::take(&mut writer.building);
        if let Some(built) = built {
            for (id, version) in removed {
                if let Ok(Some(position)) = built.find(id) {
                    built.tombstones.remove(position, version);
                }
            }
            let mut next = Version::clone(&self.current());
            exchange(&mut next, &segments, built);
            if tail_length > 0 {
                let (_, rest) = next.split_tail(tail_length);
                next.clear_tail();
                fill(&mut next, rest);
            }
            self.publish(writer, next);
        }
        self.state.built.notify_all();
        if merge::weight(&segments) > self.state.inline_max {
            drop_elsewhere(segments);
        }
        true
    }

    /// Drop the engine, in a thread if that takes long.
    pub fn discard(self) {
        if merge::weight(&self.current().segments) > self.state.inline_max {
            drop_elsewhere(self);
        }
    }
}

/// Drop what takes long to drop, in a thread if there is one.
fn drop_elsewhere(it: impl Send + 'static) {
    // Without a thread it is dropped here.
    _ = threads::run(move || drop(it));
}

/// Add to new subscriptions those of the segments that a segment of them would be merged with at once, none of them `busy`
/// and all of at most `size_max` weight. Returns these segments.
fn join(next: &Version, busy: &[Arc<Segment>], new: &mut Subscriptions, size_max: usize) -> Vec<Arc<Segment>> {
    let mut joining = merge::joining(next, busy, (new.len(), weight(new)), size_max);
    match merge::kept(&joining, next.number) {
        Some(kept) => new.extend(kept),
        None => joining.clear(),
    }
    joining
}

fn weight(subscriptions: &[(SubscriptionId, Arc<Query>)]) -> usize {
    subscriptions.iter().map(|(_, query)| merge::weight_of_query(query)).sum()
}

/// Put subscriptions into the tail, which has room for them.
fn fill(next: &mut Version, new: Subscriptions) {
    if new.is_empty() {
        return;
    }
    let asked = Arc::make_mut(&mut next.tail_asked);
    for (id, query) in new {
        next.tail_weight += merge::weight_of_query(&query);
        asked.add(&query);
        next.tail.fill(next.tail_length, id, query);
        next.tail_length += 1;
    }
}

/// Replace `segments` by the segment that they were merged into.
fn exchange(next: &mut Version, segments: &[Arc<Segment>], merged: Segment) {
    next.segments.retain(|segment| !segments.iter().any(|other| Arc::ptr_eq(other, segment)));
    if merged.position_count() > 0 {
        next.segments.push(Arc::new(merged));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::selector::{SelectorDialect, parse};

    /// A query with this number of predicates.
    fn query(number: usize, predicates: usize) -> Arc<Query> {
        let any: Vec<_> = (0..predicates).map(|i| format!("a{i} = {number}")).collect();
        Arc::new(parse(&any.join(" OR "), SelectorDialect::Jms).expect("a query"))
    }

    /// The weight of the heaviest segment that this thread builds while it adds queries of so many predicates.
    fn heaviest(engine: &Engine, predicates: usize) -> usize {
        merge::HEAVIEST.set(0);
        for number in 0..300 {
            engine.add(query(number, predicates));
        }
        merge::HEAVIEST.get()
    }

    #[test]
    #[cfg_attr(miri, ignore = "adds more than miri has time for")]
    fn who_adds_to_an_engine_that_is_quick_to_change_builds_small_segments_only() {
        for (predicates, heaviest_max) in [(1, QUICK_MAX), (20, QUICK_MAX + 6), (300, 100)] {
            let engine = Engine::quick_to_change();
            let heaviest = heaviest(&engine, predicates);
            assert!(heaviest <= heaviest_max, "{predicates}: {heaviest}");
            engine.settle();
            assert_eq!((engine.len(), engine.current().tail_length < TAIL_MAX), (300, true));
        }
        assert!(heaviest(&Engine::new(), 300) > 2 * QUICK_MAX, "the control");
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaves a thread, which miri takes for a leak")]
    fn what_a_thread_has_built_the_next_change_puts_into_place() {
        const LONG: Duration = Duration::from_secs(3600);
        let state = EngineState { left_to_changes: LONG, ..EngineState::quick_to_change() };
        let engine = Engine { state: Arc::new(state) };
        let mut number = 0;
        while !engine.state.lock().is_building() {
            engine.add(query(number, 20));
            number += 1;
        }
        let writer = engine.state.lock();
        let Building { segments, tail_length, built: place, .. } = &writer.building;
        let (segments, tail_length, place) = (segments.clone(), *tail_length, Arc::clone(place));
        drop(writer);
        let waited = Instant::now();
        while lock(&place).is_none() {
            assert!(waited.elapsed() < LONG, "the thread has ended without a segment");
            std::thread::yield_now();
        }
        let tail_before = engine.current().tail_length;
        engine.add(query(number, 1));
        let after = engine.current();
        let is_left = |segment: &Arc<Segment>| segments.iter().any(|old| Arc::ptr_eq(old, segment));
        assert!(segments.len() + tail_length > 0 && !after.segments.iter().any(is_left));
        assert_eq!((after.tail_length, after.live), (tail_before - tail_length + 1, number + 1));
        assert!(lock(&place).is_none());
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaves a thread, which miri takes for a leak")]
    fn many_are_removed_in_one_version() {
        let engine = Engine::quick_to_change();
        let ids: Vec<_> = (0..300).map(|number| engine.add(query(number, 1))).collect();
        let before = engine.current();
        let mut removed: Vec<_> = ids.iter().copied().filter(|id| id.0 % 3 > 0).rev().collect();
        removed.extend([removed[0], SubscriptionId(1_000)]);
        assert_eq!(engine.remove_all(&mut removed).expect("no snapshot"), 200);
        let after = engine.current();
        assert_eq!((after.live, after.number), (100, before.number + 1));
        assert!(ids.iter().all(|id| engine.contains(*id).expect("no snapshot") == (id.0 % 3 == 0)));
        assert_eq!(engine.remove_all(&mut removed).expect("no snapshot"), 0);
        assert_eq!(engine.current().number, after.number, "nothing has changed");
    }

    #[test]
    fn the_oldest_of_a_tail_that_has_grown_leave_it_first() {
        let state = EngineState::quick_to_change();
        let mut tail =
            [60, 60, 90, 30].map(|predicates| (SubscriptionId(predicates), query(0, predicates as usize))).to_vec();
        let ids = |subscriptions: &[(SubscriptionId, Arc<Query>)]| {
            subscriptions.iter().map(|(id, _)| id.0).collect::<Vec<_>>()
        };
        let younger = state.younger(&mut tail);
        assert_eq!((ids(&tail), ids(&younger)), (vec![60, 60], vec![90, 30]));
        let mut one = vec![(SubscriptionId(1), query(0, 300))];
        assert_eq!((state.younger(&mut one).len(), one.len()), (0, 1), "the first leaves, however large");
    }
}

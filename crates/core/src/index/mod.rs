//! The engine: which of many standing queries are true of a message, without evaluating them all.
//!
//! The naive loop evaluates every query. Here a query becomes clauses (`normal.rs`) and is filed under its rarest
//! necessary keys; the queries of a key stand side by side, one bit each (`leaf.rs`), and what a message's values do not
//! rule out is all that is looked at (`segment.rs`). An engine is a few immutable segments and a short tail
//! (`version.rs`); a change makes a new version, so nobody who matches ever waits.
//!
//! Sources: the OpenAMQ and Malamute papers, inverted bitmaps; the ITMO paper, access predicates.

pub(crate) mod batch;
mod codec;
mod compile;
mod hash;
mod layout;
mod leaf;
mod matching;
pub mod report;
mod segment;
#[cfg(test)]
mod tests;
pub mod timing;
mod topics;
mod versions;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::error::EngineError;
use crate::expensive::Opaque;
use crate::hierarchy::{Hierarchies, Hierarchy};
use crate::message::Message;
use crate::query::Query;

use compile::builder::{Builder, Built, Subscription, sample_step};
use matching::field_hits;
pub use matching::scratch::Scratch;
use segment::Segment;
use versions::version::{Place, TAIL, Tail, Version};
use versions::{merge, snapshot};

/// While a merge goes on, an engine may have this many segments; whoever adds more waits for it.
const SEGMENTS_MAX: usize = 64;

/// A subscription's number: given in ascending order, never used again. 64 bits: nobody counts that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub u64);

/// How many of the criteria of a fields query a message meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Whose query it is.
    pub id: SubscriptionId,
    /// How many criteria are true; at least one.
    pub hits: usize,
    /// How many there are.
    pub criteria: usize,
}

/// Standing queries. Matching and changing take `&self` and may go on in many threads at once: a match sees the version
/// that was there when it began, and a change is seen by the next match.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    current: ArcSwap<Version>,
    writer: Mutex<Writer>,
    merged: Condvar,
}

/// What only those who change an engine need.
#[derive(Debug, Default)]
struct Writer {
    next_id: u64,
    /// The segments that a thread is merging; empty when there is none.
    merging: Vec<Arc<Segment>>,
    /// The process that has the thread: a fork of it has not.
    merging_process: u32,
    /// What has been removed from them meanwhile, and by which version.
    removed_meanwhile: Vec<(SubscriptionId, u64)>,
}

impl Engine {
    /// An engine without subscriptions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn current(&self) -> Arc<Version> {
        self.shared.current.load_full()
    }

    /// Add a subscription; its id is higher than any before. Cost: a few microseconds, amortised.
    pub fn add(&self, query: Arc<Query>) -> SubscriptionId {
        let ids = self.change(vec![query], &[]).expect("nothing is looked for in a snapshot");
        ids[0]
    }

    /// Add subscriptions, and give those of `replaced` other queries, which leaves their ids and so their places in the
    /// order: all in one version, or nothing at all. Returns the ids of the new ones, ascending.
    ///
    /// Cost: a few microseconds a query; a new segment at once where there are many.
    ///
    /// # Errors
    /// A damaged snapshot. Ids that are not there are left out.
    pub fn change(
        &self,
        added: Vec<Arc<Query>>,
        replaced: &[(SubscriptionId, Arc<Query>)],
    ) -> Result<Vec<SubscriptionId>, EngineError> {
        let mut writer = self.writer();
        let mut next = Version::clone(&self.current());
        next.number += 1;
        let mut places = Vec::with_capacity(replaced.len());
        for (id, query) in replaced {
            places.extend(next.find(*id)?.map(|place| (*id, place, Arc::clone(query))));
        }
        let ids: Vec<_> = (writer.next_id..).take(added.len()).map(SubscriptionId).collect();
        writer.next_id += added.len() as u64;
        let mut new: Vec<_> = ids.iter().copied().zip(added).collect();
        for (id, place, query) in places {
            writer.remove(&mut next, id, &place);
            new.push((id, query));
        }
        next.live += new.len();
        append(&mut next, &writer.merging, new);
        self.publish(writer, next);
        Ok(ids)
    }

    /// Give the subscription `id` another query; it keeps its id and so its place in the order. False when there is
    /// no such subscription.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn replace(&self, id: SubscriptionId, query: Arc<Query>) -> Result<bool, EngineError> {
        let found = self.contains(id)?;
        self.change(Vec::new(), &[(id, query)])?;
        Ok(found)
    }

    /// Remove the subscription `id`. False when there is none. Cost: a binary search in each segment.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn remove(&self, id: SubscriptionId) -> Result<bool, EngineError> {
        let mut writer = self.writer();
        let mut next = Version::clone(&self.current());
        next.number += 1;
        let Some(place) = next.find(id)? else { return Ok(false) };
        writer.remove(&mut next, id, &place);
        self.publish(writer, next);
        Ok(true)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        while writer.is_merging() && self.current().segments.len() > SEGMENTS_MAX {
            writer = self.shared.merged.wait(writer).unwrap_or_else(PoisonError::into_inner);
        }
        writer
    }

    /// Make `next` what is seen, after such merges as are quickly done; a long one is left to a thread.
    fn publish(&self, mut writer: MutexGuard<'_, Writer>, mut next: Version) {
        if !writer.is_merging() {
            writer.merging.clear();
        }
        loop {
            // One thread at a time; meanwhile what is small goes on being merged.
            let size_max = if writer.merging.is_empty() { usize::MAX } else { merge::INLINE_MAX };
            let Some(segments) = merge::due(&next, &writer.merging, size_max) else { break };
            if merge::size(&segments) > merge::INLINE_MAX {
                match self.merge_in_thread(&mut writer, segments, next.number) {
                    Ok(()) => continue,
                    // Without a thread the segments stay as they are, and the next change tries again.
                    Err(_) => break,
                }
            }
            // A damaged snapshot is told to whoever matches; its segment stays as it is.
            let Ok(merged) = merge::merge(&segments, next.number) else { break };
            exchange(&mut next, &segments, merged);
        }
        next.seal();
        self.shared.current.store(Arc::new(next));
    }

    fn merge_in_thread(&self, writer: &mut Writer, segments: Vec<Arc<Segment>>, version: u64) -> io::Result<()> {
        writer.merging.clone_from(&segments);
        writer.merging_process = std::process::id();
        writer.removed_meanwhile.clear();
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // A panic is a mistake here, which whoever waits for the merge must not pay for.
            let merged = catch_unwind(AssertUnwindSafe(|| merge::merge(&segments, version)));
            let engine = Self { shared };
            let mut writer = engine.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.merging.clear();
            if let Ok(Ok(merged)) = merged {
                for (id, version) in std::mem::take(&mut writer.removed_meanwhile) {
                    if let Ok(Some(place)) = merged.find(id) {
                        merged.removed.remove(place, version);
                    }
                }
                let mut next = Version::clone(&engine.current());
                exchange(&mut next, &segments, merged);
                engine.publish(writer, next);
            }
            engine.shared.merged.notify_all();
        };
        let started = std::thread::Builder::new().name("tamis-merge".to_owned()).spawn(work);
        started.map(drop).inspect_err(|_| writer.merging.clear())
    }

    /// Wait until no merge is going on or due. For measuring; nothing else has to.
    pub fn settle(&self) {
        let mut writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        while writer.is_merging() {
            writer = self.shared.merged.wait(writer).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many segments its subscriptions lie in now: few, however it has been changed. For measuring.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.shared.current.load().segments.len()
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.current.load().live
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id that the next new subscription gets, unless another thread adds one first.
    #[must_use]
    pub fn next_id(&self) -> SubscriptionId {
        SubscriptionId(self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner).next_id)
    }

    /// How many bytes the queries and their index take, keys and file cache apart.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let segments: usize = self.current().segments.iter().map(|segment| segment.store().bytes()).sum();
        segments + self.tail_bytes()
    }

    /// How many of those bytes are the queries themselves in coded form, each once, which is kept in place of their
    /// texts; without the few queries that were added last.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.current().segments.iter().map(|segment| segment.store().record_bytes()).sum()
    }

    /// True when there is a subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn contains(&self, id: SubscriptionId) -> Result<bool, EngineError> {
        Ok(self.current().find(id)?.is_some())
    }

    /// The query of the subscription `id`.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn query(&self, id: SubscriptionId) -> Result<Option<Arc<Query>>, EngineError> {
        let version = self.current();
        version.find(id)?.map(|place| version.query(&place)).transpose()
    }

    /// Every subscription, ascending. Cost: linear in them.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn ids(&self) -> Result<Vec<SubscriptionId>, EngineError> {
        Ok(self.current().subscriptions()?.into_iter().map(|(id, _)| id).collect())
    }

    /// Append every subscription whose query is true of `message`, ascending, each once.
    ///
    /// Cost: a look-up for each of the message's properties, a few words for each group of 64 queries of which some are
    /// not ruled out by its values, and an evaluation of each query that is left and has more to it than equalities,
    /// numbers and presence.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        self.shared.current.load().match_into(message, scratch, matched)
    }

    /// The fields queries of which at least one criterion is true of `message`, by ascending id (the OpenAMQ paper: hit
    /// counts). Cost: a look-up for each field that queries name, and a step for each criterion that is met.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn hits(&self, message: &Message<'_>) -> Result<Vec<Hit>, EngineError> {
        let version = self.current();
        let mut found = Vec::new();
        for segment in &version.segments {
            segment.hits_into(message, &version.hierarchies, version.number, &mut found)?;
        }
        for (_, id, query) in version.live_tail().filter(|(_, _, query)| query.is_fields()) {
            let counted = field_hits::count_hits(query, message, &version.hierarchies);
            found.extend(counted.map(|(hits, criteria)| Hit { id, hits, criteria }));
        }
        if !found.is_sorted_by_key(|hit| hit.id) {
            // They come as a few runs, one for each query that was met: a stable sort only has to merge those.
            found.sort_by_key(|hit| hit.id);
        }
        Ok(found)
    }

    /// The first `limit` subscriptions that `message` fails by exactly `off_by` predicates, ascending.
    ///
    /// # Errors
    /// A damaged snapshot.
    ///
    /// Cost: every query, all of its predicates.
    pub fn near_misses(
        &self,
        message: &Message<'_>,
        off_by: usize,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, EngineError> {
        let version = self.current();
        let mut found = Vec::new();
        for (id, place) in version.subscriptions()? {
            if found.len() == limit {
                break;
            }
            if version.query(&place)?.distance(message, Some(&version.hierarchies)) == off_by {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Replace the hierarchy of `attribute`; `UNDER` follows it from the next match on.
    pub fn set_hierarchy(&self, attribute: &str, hierarchy: Hierarchy) {
        let writer = self.writer();
        let mut next = Version::clone(&self.current());
        next.number += 1;
        let mut hierarchies = Hierarchies::clone(&next.hierarchies);
        hierarchies.insert(attribute.to_owned(), hierarchy);
        next.hierarchies = Arc::new(hierarchies);
        self.publish(writer, next);
    }

    /// Every hierarchy, by attribute, as it is now.
    #[must_use]
    pub fn hierarchies(&self) -> Arc<Hierarchies> {
        Arc::clone(&self.shared.current.load().hierarchies)
    }

    /// Write everything to a snapshot at `path`, with `keys(id)` as bytes of the caller's for each subscription.
    ///
    /// The file is written under a temporary name, synced and renamed: `path` is always a whole file, the old one or
    /// the new one. Never write into a snapshot or truncate it, since engines have it mapped; replace or delete it.
    /// Expensive predicates are saved by their names when `with_opaques`. Equal engines give equal files, byte for byte.
    /// Cost: a few microseconds a query, and as much memory as the file has bytes.
    ///
    /// # Errors
    /// An expensive predicate when not `with_opaques`, or two of one name; what the file system says (a full disk leaves
    /// nothing behind); damage in the snapshot that this engine was opened from.
    pub fn save(
        &self,
        path: &Path,
        with_opaques: bool,
        keys: &dyn Fn(SubscriptionId) -> Vec<u8>,
    ) -> Result<(), EngineError> {
        let writer = self.writer();
        let (version, next_id) = (self.current(), writer.next_id);
        drop(writer);
        let subscriptions = version.subscriptions()?;
        let mut sample = Vec::new();
        for (_, place) in subscriptions.iter().step_by(sample_step(subscriptions.len())) {
            sample.push(version.decode(place)?);
        }
        let mut builder = Builder::new(subscriptions.len(), sample.into_iter());
        for (id, place) in &subscriptions {
            let key = keys(*id);
            builder.add(&*version.decode(place)?, [Subscription { id: *id, key: Some(&key) }].into_iter());
        }
        let Built { mut sections, opaques, .. } = builder.finish();
        snapshot::check_opaques(opaques.as_slice(), with_opaques)?;
        snapshot::encode_hierarchies(&version.hierarchies, &mut sections);
        snapshot::write(path, &sections, next_id)
    }

    /// An engine over the snapshot at `path`, which is mapped, not loaded: a query is decoded when a message first
    /// needs it, and each page is checked against its checksum when it is first read. Magic, version, length and the
    /// header's checksum are checked now; with `verify`, everything. `resolve` gives the expensive predicates that were
    /// saved, by name and cost in nanoseconds.
    ///
    /// Changes stay in memory; the file never changes. All processes that open it share its memory. Cost: independent
    /// of the number of subscriptions without `verify`, linear in attributes and hierarchies.
    ///
    /// # Errors
    /// A file that is no snapshot, is of another version or is damaged: what was found and what was expected. An expensive
    /// predicate that `resolve` does not give.
    pub fn open(path: &Path, verify: bool, resolve: &dyn Fn(&str, f64) -> Option<Opaque>) -> Result<Self, EngineError> {
        let (segment, hierarchies, next_id) = snapshot::open(path, verify, resolve)?;
        let live = segment.place_count();
        let mut version = Version::default();
        version.live = live;
        version.segments = vec![Arc::new(segment)];
        version.hierarchies = Arc::new(hierarchies);
        version.seal();
        let writer = Mutex::new(Writer { next_id, ..Writer::default() });
        Ok(Self {
            shared: Arc::new(Shared { current: ArcSwap::from_pointee(version), writer, merged: Condvar::new() }),
        })
    }

    /// The bytes that were saved as the key of `id`; None when it did not come from a snapshot or has been removed or
    /// replaced.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn key_bytes(&self, id: SubscriptionId) -> Result<Option<Vec<u8>>, EngineError> {
        match self.current().find(id)? {
            Some(Place::Segment(segment, place)) => Ok(segment.key(place)?.map(<[u8]>::to_vec)),
            _ => Ok(None),
        }
    }
}

impl Writer {
    fn is_merging(&self) -> bool {
        !self.merging.is_empty() && self.merging_process == std::process::id()
    }

    /// Remove what is at `place` from `next` on.
    fn remove(&mut self, next: &mut Version, id: SubscriptionId, place: &Place) {
        match place {
            Place::Tail(place) => next.tail.removed.remove(*place, next.number),
            Place::Segment(segment, place) => {
                segment.removed.remove(*place, next.number);
                if self.merging.iter().any(|other| Arc::ptr_eq(other, segment)) {
                    self.removed_meanwhile.push((id, next.number));
                }
            }
        }
        next.live -= 1;
    }
}

/// Put new subscriptions into the tail, or, where they do not fit, into a segment together with it and with such segments
/// as would be merged with that one, none of them `busy`.
fn append(next: &mut Version, busy: &[Arc<Segment>], new: Vec<(SubscriptionId, Arc<Query>)>) {
    if next.tail_length + new.len() <= TAIL {
        for (id, query) in new {
            next.tail.fill(next.tail_length, id, query);
            next.tail_length += 1;
        }
        return;
    }
    let tail = next.live_tail().map(|(_, id, query)| (id, Arc::clone(query)));
    let mut all: Vec<_> = tail.chain(new).collect();
    let mut joining = merge::joining(next, busy, all.len());
    match merge::kept(&joining, next.number) {
        Some(kept) => all.extend(kept),
        None => joining.clear(),
    }
    exchange(next, &joining, merge::build(&all));
    (next.tail, next.tail_length) = (Arc::new(Tail::default()), 0);
}

/// Put `merged` in the place of the segments that it was made of.
fn exchange(next: &mut Version, segments: &[Arc<Segment>], merged: Segment) {
    next.segments.retain(|segment| !segments.iter().any(|other| Arc::ptr_eq(other, segment)));
    if merged.place_count() > 0 {
        next.segments.push(Arc::new(merged));
    }
}

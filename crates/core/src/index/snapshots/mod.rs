//! Snapshots: an engine saved to a file, and opened from it without loading it.

mod files;
mod reading;
mod writing;

use std::path::Path;
use std::sync::Arc;

use crate::error::EngineError;
use crate::expensive::Opaque;

use crate::index::changes::EngineState;
use crate::index::compile::builder::{Builder, BuiltSegment, NewSubscription, sampled_queries};
use crate::index::versions::version::{SubscriptionPosition, Version};
use crate::index::{Engine, SubscriptionId};

impl Engine {
    /// Write everything to a snapshot at `path`, with `keys(id)` as bytes of the caller's for each subscription.
    ///
    /// The file is written under a temporary name, synced and renamed: `path` is always a whole file, the old one or the
    /// new one. Never write into a snapshot or truncate it, since engines have it mapped; replace or delete it. Expensive
    /// predicates are saved by their names when `with_opaques`. Equal engines give equal files, byte for byte.
    ///
    /// Cost: a few microseconds per query, and as much memory as the file has bytes.
    ///
    /// # Errors
    /// An expensive predicate when not `with_opaques`, or two with one name; an error of the file system (a full disk leaves
    /// nothing behind); damage in the snapshot that this engine was opened from.
    pub fn save(
        &self,
        path: &Path,
        with_opaques: bool,
        keys: &dyn Fn(SubscriptionId) -> Vec<u8>,
    ) -> Result<(), EngineError> {
        let (version, next_id) = self.current_with_next_id();
        let subscriptions = version.subscriptions()?;
        let mut sample = Vec::new();
        for index in sampled_queries(subscriptions.len()) {
            sample.push(version.decode(&subscriptions[index].1)?);
        }
        let mut builder = Builder::new(subscriptions.len(), sample.into_iter());
        for (id, position) in &subscriptions {
            let key = keys(*id);
            let subscription = NewSubscription { id: *id, key: Some(&key) };
            builder.add(&*version.decode(position)?, [subscription].into_iter());
        }
        let BuiltSegment { mut sections, opaques, .. } = builder.finish();
        writing::check_opaques(opaques.as_slice(), with_opaques)?;
        writing::encode_hierarchies(&version.hierarchies, &mut sections);
        writing::write(path, &sections, next_id)
    }

    /// An engine over the snapshot at `path`, which is mapped, not loaded.
    ///
    /// A query is decoded when a message first needs it, and each page is checked against its checksum when it is first
    /// read. Magic, version, length and the header's checksum are checked now; with `verify`, everything. `resolve` gives the
    /// expensive predicates that were saved, by name and cost in nanoseconds.
    ///
    /// Changes stay in memory; the file never changes. All processes that open it share its memory. Cost: without `verify`
    /// independent of the number of subscriptions, linear in attributes and hierarchies.
    ///
    /// # Errors
    /// A file that is no snapshot, has another version or is damaged; an expensive predicate that `resolve` does not give.
    pub fn open(path: &Path, verify: bool, resolve: &dyn Fn(&str, f64) -> Option<Opaque>) -> Result<Self, EngineError> {
        let (segment, hierarchies, next_id) = reading::open(path, verify, resolve)?;
        let version = Version::of(segment, hierarchies);
        Ok(Self { state: Arc::new(EngineState::new(version, next_id)) })
    }

    /// The bytes that were saved as the key of `id`; None when it did not come from a snapshot or has been removed or
    /// replaced.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn key_bytes(&self, id: SubscriptionId) -> Result<Option<Vec<u8>>, EngineError> {
        match self.current().find(id)? {
            Some(SubscriptionPosition::Segment(segment, position)) => Ok(segment.key(position)?.map(<[u8]>::to_vec)),
            _ => Ok(None),
        }
    }
}

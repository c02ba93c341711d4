//! Definitions: bytes under a key, recorded until they are removed, each with those that depend on it.

use crate::journal::{AppendError, Sequence};

use super::Durable;
use super::ids::{DefinitionId, RecordId};
use super::live_records::RecordHolders;
use super::records::{self, DefinitionRecord, RECORD_BYTES, kind};

/// Maximum depth of dependencies: a binding depends on a queue, and a queue on a vhost.
const PARENTS_DEPTH_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Defined {
    pub(super) slot: RecordId,
    pub(super) parents: Box<[DefinitionId]>,
}

impl Durable {
    /// Record a definition under `key`. It replaces an earlier one and keeps its id; a new one gets the id that was taken for
    /// it, or else its own number. It is removed with each of the definitions under `parents` that exist.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed.
    pub fn define(
        &mut self,
        key: &[u8],
        value: &[u8],
        parents: &[&[u8]],
        taken: Option<DefinitionId>,
        time_us: i64,
    ) -> Result<(DefinitionId, Sequence), AppendError> {
        let parents: Box<[DefinitionId]> = parents.iter().filter_map(|parent| self.definition(parent)).collect();
        let known = self.definition(key).or(taken);
        let record = DefinitionRecord { id: known.unwrap_or_default(), parents: parents.to_vec(), key, value };
        let mut head = std::mem::take(&mut self.head);
        let body = record.encode(&mut head);
        let appended = self.append_to(kind::DEFINE, time_us, &head, &body);
        let size = RECORD_BYTES + head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        self.head = head;
        let appended = appended?;
        let id = known.unwrap_or(DefinitionId(appended.sequence.0));
        // Under the same key there may be one whose parents are gone.
        if let Some(old) = self.keys.insert(key.into(), id) {
            self.drop_definition(old);
        }
        let slot = self.slots.insert(id.0, appended.location, size as u32, RecordHolders::DefinitionRecord);
        self.definitions.insert(id, Defined { slot, parents });
        Ok((id, appended.sequence))
    }

    /// Take an id for a definition that is recorded later, so that something can be named by it before. The number of a
    /// record: nothing else ever gets it. The record says that there is no such definition yet.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed.
    pub fn take_id(&mut self, time_us: i64) -> Result<DefinitionId, AppendError> {
        let id = DefinitionId(self.log.next_sequence().0);
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        records::put_varint(&mut head, id.0);
        let appended = self.append(kind::FORGET, time_us, &head);
        self.head = head;
        appended.map(|_| id)
    }

    /// Record that the definition under `key` is removed, with everything that depends on it. A queue's messages are removed
    /// too; what [`Durable::settled`] says of them afterwards is not recorded. None when there is no such definition.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed.
    pub fn forget(&mut self, key: &[u8], time_us: i64) -> Result<Option<Sequence>, AppendError> {
        let Some(id) = self.definition(key) else { return Ok(None) };
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        records::put_varint(&mut head, id.0);
        let appended = self.append(kind::FORGET, time_us, &head);
        self.head = head;
        let appended = appended?;
        self.keys.remove(key);
        self.drop_definition(id);
        Ok(Some(appended.sequence))
    }

    /// The id of the definition under `key`.
    #[must_use]
    pub fn definition(&self, key: &[u8]) -> Option<DefinitionId> {
        self.keys.get(key).copied().filter(|id| self.is_alive(*id))
    }

    /// Whether a definition exists, and those that it depends on.
    pub(super) fn is_alive(&self, id: DefinitionId) -> bool {
        self.is_alive_within(id, PARENTS_DEPTH_MAX)
    }

    fn is_alive_within(&self, id: DefinitionId, depth: usize) -> bool {
        let Some(defined) = self.definitions.get(&id) else { return false };
        depth > 0 && defined.parents.iter().all(|parent| self.is_alive_within(*parent, depth - 1))
    }

    pub(super) fn drop_definition(&mut self, id: DefinitionId) {
        self.alive = None;
        if let Some(defined) = self.definitions.remove(&id) {
            self.slots.free(defined.slot, self.last);
        }
    }
}

//! Deleted queues of which something is left: deliveries that are not acknowledged, or dead letters not on disk.

use hashbrown::HashMap;

use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::{AppendError, Sequence};

use crate::broker::durable::{DefinitionId, Durable};
use crate::broker::errors::error;
use crate::broker::ids::Handle;
use crate::broker::topology::{DefinitionKey, QueueId};

/// Deleted durable queues whose entries are still on disk.
#[derive(Default)]
pub(super) struct DeletedQueues {
    /// The definition whose entries unacknowledged deliveries settle, and their number.
    unacknowledged: HashMap<Handle<QueueId>, (DefinitionId, u32)>,
    /// Queues whose definitions are forgotten later, or not on disk yet.
    retired: Vec<Retired>,
}

/// The definition of a deleted queue whose dead letters have to be on disk before it is forgotten.
struct Retired {
    id: DefinitionId,
    key: Box<[u8]>,
    /// The sequence of the record that says that it is removed.
    forgotten: Option<Sequence>,
}

impl Retired {
    fn is_on_disk(&self, synced: Sequence) -> bool {
        self.forgotten.is_some_and(|sequence| sequence <= synced)
    }
}

impl DeletedQueues {
    /// Note that a queue is deleted while this number of deliveries from it are unacknowledged.
    pub fn insert(&mut self, queue: Handle<QueueId>, definition: DefinitionId, unacknowledged: u32) {
        self.unacknowledged.insert(queue, (definition, unacknowledged));
    }

    /// Settle a delivery of a deleted queue. Returns the queue's definition, when it was durable.
    pub fn settle(&mut self, queue: Handle<QueueId>) -> Option<DefinitionId> {
        let (definition, count) = self.unacknowledged.get_mut(&queue)?;
        let definition = *definition;
        *count -= 1;
        if *count == 0 {
            self.unacknowledged.remove(&queue);
        }
        Some(definition)
    }

    /// Record that a definition is removed. One that `is_needed` is only retired: it is forgotten later.
    pub fn remove(
        &mut self,
        key: &[u8],
        durable: &mut Durable,
        wall_us: i64,
        is_needed: impl Fn(DefinitionId) -> bool,
    ) -> Result<Option<Sequence>, AppendError> {
        match durable.definition(key).filter(|id| is_needed(*id)) {
            Some(id) => {
                self.retired.push(Retired { id, key: key.into(), forgotten: None });
                Ok(None)
            }
            None => durable.forget(key, wall_us),
        }
    }

    /// Record that retired definitions are removed which nothing needs any more.
    pub fn forget(&mut self, durable: &mut Durable, wall_us: i64, is_needed: impl Fn(DefinitionId) -> bool) {
        let synced = durable.synced();
        self.retired.retain(|retired| !retired.is_on_disk(synced));
        for retired in &mut self.retired {
            if retired.forgotten.is_none() && !is_needed(retired.id) {
                // Without room it is tried again the next time.
                let forgotten = durable.forget(&retired.key, wall_us).ok();
                retired.forgotten = forgotten.map(|sequence| sequence.unwrap_or(synced));
            }
        }
    }

    /// Whether a definition is not retired, or its removal is on disk.
    pub fn is_forgotten(&self, id: DefinitionId, synced: Sequence) -> bool {
        self.retired.iter().all(|retired| retired.id != id || retired.is_on_disk(synced))
    }

    /// Refuse a new definition under the key of one that is retired: it would be taken for the old one.
    pub fn check(&self, key: &DefinitionKey, name: &str) -> Result<(), AmqpError> {
        let mut retired = self.retired.iter().filter(|retired| retired.forgotten.is_none());
        if retired.any(|retired| *retired.key == *key.as_bytes()) {
            let reason = format!("queue '{name}' is being deleted: its dead letters are not on disk yet");
            return Err(error(ReplyCode::ResourceLocked, &reason));
        }
        Ok(())
    }
}

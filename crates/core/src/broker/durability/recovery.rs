//! From the journal back to a broker: definitions, then queues with what they held.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::journal::{Committer, Damage, Disk, OpenError};

use crate::amqp::RawTable;

use crate::broker::Broker;
use crate::broker::access::Control;
use crate::broker::durability::journaling::Journal;
use crate::broker::durable::{DefinitionId, Durable, DurableOptions, RecoveredJournal};
use crate::broker::options::BrokerOptions;
use crate::broker::queues::message_store::{Kept, Micros, NEVER};
use crate::broker::queues::policy::{Policy, QueueKind};
use crate::broker::queues::queue::Queue;
use crate::broker::topology::{Definition, QueueId};

/// Where a broker keeps what must not be lost.
pub struct Storage {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// A directory of this broker's own: `journal` and `streams` are made in it.
    pub dir: PathBuf,
    /// Who writes, and wakes the caller of [`Broker::committed`].
    pub committer: Committer,
    /// How the journal is kept.
    pub journal: DurableOptions,
}

/// What was found in the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Exchanges, queues and bindings.
    pub definitions: usize,
    /// Messages.
    pub messages: usize,
    /// What is damaged, and lost.
    pub damage: Vec<Damage>,
    /// Definitions that cannot be made again, and why: what they belong to is lost.
    pub skipped: Vec<String>,
    /// The broker had been stopped and did not crash: what is flagged as redelivered was delivered.
    pub is_clean: bool,
}

/// Why a broker cannot be opened.
#[derive(Debug)]
pub enum StorageError {
    /// The journal cannot be read or written.
    Journal(OpenError),
    /// A definition is of a later version, or none at all.
    Definition(String),
    /// The log of this stream cannot be opened, for this reason.
    Stream(String, String),
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "the journal cannot be opened: {error}"),
            Self::Definition(reason) => write!(f, "the journal has {reason}"),
            Self::Stream(name, reason) => write!(f, "the stream '{name}' cannot be opened: {reason}"),
        }
    }
}

impl std::error::Error for StorageError {}

impl From<OpenError> for StorageError {
    fn from(error: OpenError) -> Self {
        Self::Journal(error)
    }
}

impl Broker {
    /// A broker with all that the storage holds: durable exchanges, queues and bindings, and persistent messages. Reads
    /// no bodies, so it takes a second or two for millions of messages.
    ///
    /// # Errors
    /// [`StorageError`]; damaged records are none: [`RecoveryReport`] lists them.
    pub fn open(
        options: BrokerOptions,
        control: Box<dyn Control + Send>,
        storage: Storage,
        now: Micros,
        wall_us: i64,
    ) -> Result<(Self, RecoveryReport), StorageError> {
        let mut broker = Self::new(options, control, now, wall_us);
        let Storage { disk, dir, committer, journal } = storage;
        let (durable, recovered) = Durable::open(Arc::clone(&disk), &dir.join("journal"), journal, &committer)?;
        broker.journal = Some(Box::new(Journal::new(durable, committer, disk, dir, journal.segment_bytes)));
        let found = broker.recover_all(recovered)?;
        // The vhost that every broker has, when it is new here.
        broker.changed();
        broker.flush();
        Ok((broker, found))
    }

    fn recover_all(&mut self, recovered: RecoveredJournal) -> Result<RecoveryReport, StorageError> {
        let RecoveredJournal { definitions, messages, queues, damage, is_clean } = recovered;
        // A journal that was begun just now knows of nothing that may be here.
        let had_records = !definitions.is_empty();
        let mut found = RecoveryReport { damage, is_clean, messages: messages.len(), ..RecoveryReport::default() };
        let mut numbers = hashbrown::HashMap::new();
        for definition in definitions {
            let read =
                Definition::decode(&definition.value).map_err(|error| StorageError::Definition(error.to_string()))?;
            match self.topology.recover(&read) {
                Ok(queue) => {
                    found.definitions += 1;
                    if let (Some(queue), Definition::Queue { arguments, auto_delete, .. }) = (queue, &read) {
                        self.recover_queue(queue, arguments, *auto_delete);
                        let number = queue;
                        self.queues[number].durable_id = Some(definition.id);
                        numbers.insert(definition.id, number);
                        if self.queues[number].policy.kind == QueueKind::Stream {
                            self.recover_stream(number, definition.id, &read)?;
                        }
                    }
                }
                Err(error) => found.skipped.push(format!("{read:?}: {error}")),
            }
        }
        let mut names = Vec::with_capacity(messages.len());
        for message in &messages {
            let sizes = [message.route_bytes, message.properties_bytes, message.body_bytes].map(|size| size as usize);
            let id = self.messages.insert_absent(sizes, message.time_us);
            self.messages.get_mut(id).kept = Kept::Saved { record: message.record, queues: 0 };
            names.push(id);
        }
        for recovered in queues {
            let Some(number) = numbers.get(&recovered.queue).copied() else { continue };
            for entry in recovered.entries {
                let message = names[entry.message as usize];
                if let Kept::Saved { queues, .. } = &mut self.messages.get_mut(message).kept {
                    *queues += 1;
                }
                self.messages.retain(message);
                let (size, time_us) = (self.messages.get(message).size(), self.messages.get(message).time_us);
                let expires = self.recovered_expiry(number, time_us);
                let queue = &mut self.queues[number];
                let mut placed = queue.place(message, expires);
                placed.redelivered = entry.redelivered;
                queue.push(placed, size);
                if expires != NEVER {
                    self.watch(number);
                }
            }
        }
        names.into_iter().for_each(|message| self.messages.release(message));
        if let Some(journal) = &mut self.journal {
            found.damage.append(&mut journal.damage);
            if had_records && found.damage.is_empty() && found.skipped.is_empty() && journal.durable.lost_count() == 0 {
                self.doom_orphans();
            }
        }
        Ok(found)
    }

    fn recover_stream(
        &mut self,
        queue: QueueId,
        id: DefinitionId,
        definition: &Definition,
    ) -> Result<(), StorageError> {
        let Definition::Queue { name, .. } = definition else { return Ok(()) };
        self.open_stream(queue, id, name).map_err(|reason| StorageError::Stream(name.clone(), reason))?;
        self.stream_queues.push(queue);
        Ok(())
    }

    fn recover_queue(&mut self, id: QueueId, arguments: &[u8], auto_delete: bool) {
        // They were read when the queue was declared; what a later version cannot read it leaves out.
        let policy = Policy::parse(RawTable::new(arguments)).unwrap_or_default();
        let serial = self.next_serial();
        let mut queue = Queue::new(id, policy, serial, self.now);
        queue.auto_delete = auto_delete;
        let number = id;
        let expires = queue.policy.expires_ms.is_some();
        self.queues.insert(number, queue);
        if expires {
            self.watch(number);
        }
    }

    /// A queue's time to live goes on while the broker is away.
    fn recovered_expiry(&self, queue: QueueId, time_us: i64) -> Micros {
        let Some(ttl) = self.queues[queue].policy.message_ttl_ms else { return NEVER };
        let age = self.wall_us().saturating_sub(time_us).max(0) as u64;
        self.now + (ttl * 1000).saturating_sub(age)
    }
}

//! Opens a broker with everything that its journal holds: definitions, then queues with their entries.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use hashbrown::HashMap;

use crate::journal::{Committer, Damage, Disk, OpenError, Wait};

use crate::amqp::{BasicProperties, RawTable};

use crate::broker::Broker;
use crate::broker::access::control::Control;
use crate::broker::clock::Micros;
use crate::broker::durability::stream_files::{STREAMS, StreamFiles};
use crate::broker::durable::{
    DefinitionId, Durable, DurableOptions, RecoveredDefinition, RecoveredEntry, RecoveredJournal, RecoveredMessage,
    RecoveredQueue, TimeToLive,
};
use crate::broker::ids::MessageId;
use crate::broker::options::BrokerOptions;
use crate::broker::publishing::publish::expiration;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::message_store::Kept;
use crate::broker::queues::policy::{Policy, QueueKind};
use crate::broker::queues::queue::Queue;
use crate::broker::streams::reading::{dir_name, is_dir_name};
use crate::broker::topology::{AddressKind, Definition, QueueId};

/// The directory of the journal in the data directory.
const JOURNAL_DIRECTORY: &str = "journal";
/// The size of the smallest properties with an `expiration`: flags, delivery mode, and a short string of one digit.
const EXPIRING_BYTES_MIN: u32 = 5;

/// A recovered message that is stored again.
struct StoredAgain {
    message: MessageId,
    /// The time at which it was recorded, and its own time to live from then on.
    time_us: i64,
    time_to_live: TimeToLive,
}

/// The storage of everything that must survive a restart.
pub struct Storage {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// A directory of this broker alone: `journal` and `streams` are made in it.
    pub dir: PathBuf,
    /// Writes the journal, and wakes the caller of [`Broker::committed`].
    pub committer: Committer,
    /// Settings of the journal.
    pub journal: DurableOptions,
}

/// A report of what was recovered from the storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The number of exchanges, queues and bindings.
    pub definitions: usize,
    /// The number of messages.
    pub messages: usize,
    /// The damage, and what is lost with it.
    pub damage: Vec<Damage>,
    /// Definitions that cannot be made again, and why: what they belong to is lost.
    pub skipped: Vec<String>,
    /// Whether the broker had been stopped and had not crashed: only delivered messages are flagged as redelivered.
    pub is_clean: bool,
}

/// Why a broker cannot be opened.
#[derive(Debug)]
pub enum StorageError {
    /// The journal cannot be read or written.
    Journal(OpenError),
    /// A definition is of a later version, or none at all.
    Definition(String),
    /// Entries that an earlier process moved to disk cannot be removed, for this reason.
    Spill(String),
    /// The log of this stream cannot be opened, for this reason.
    Stream(String, OpenError),
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "the journal cannot be opened: {error}"),
            Self::Definition(reason) => write!(f, "the journal has {reason}"),
            Self::Spill(reason) => write!(f, "the directory 'spill' cannot be emptied: {reason}"),
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
    /// A broker with everything that the storage holds: durable exchanges, queues and bindings, and persistent messages.
    /// Bodies are not read, so it takes a second or two for millions of messages.
    ///
    /// # Errors
    /// [`StorageError`]. Damaged records are not errors: [`RecoveryReport`] lists them.
    pub fn open(
        options: BrokerOptions,
        control: Box<dyn Control + Send>,
        storage: Storage,
        now: Micros,
        wall_us: i64,
    ) -> Result<(Self, RecoveryReport), StorageError> {
        let mut broker = Self::new(options, control, now, wall_us);
        let Storage { disk, dir, committer, journal } = storage;
        make_folders(disk.as_ref(), &dir).map_err(OpenError::from)?;
        check_journal(disk.as_ref(), &dir)?;
        let (durable, recovered) = Durable::open(Arc::clone(&disk), &dir.join(JOURNAL_DIRECTORY), journal, &committer)?;
        let spilled = dir.join("spill");
        let opened = broker.queues.chunks_mut().open(Arc::clone(&disk), spilled, journal.segment_bytes as usize);
        opened.map_err(|error| StorageError::Spill(error.to_string()))?;
        broker.streams.summarizer.has_thread = committer.has_thread();
        broker.durability.begin(durable, committer, StreamFiles::new(disk, &dir, journal.segment_bytes));
        let report = broker.recover_all(recovered)?;
        broker.drop_overflow();
        // The vhost that every broker has, when it is new here.
        broker.changed();
        broker.record_settled();
        Ok((broker, report))
    }

    fn recover_all(&mut self, recovered: RecoveredJournal) -> Result<RecoveryReport, StorageError> {
        let RecoveredJournal { definitions, messages, queues, damage, is_clean } = recovered;
        // A journal that was begun just now does not know what may be here.
        let had_records = !definitions.is_empty();
        let mut report = RecoveryReport { damage, is_clean, messages: messages.len(), ..RecoveryReport::default() };
        let queue_ids = self.recover_definitions(definitions, &mut report)?;
        self.recover_messages(messages, queues, &queue_ids);
        // What was dropped may be back, because its dead letter was not on disk yet.
        for queue in queue_ids.values() {
            self.drop_head(*queue);
        }
        report.damage.append(&mut self.durability.take_damage());
        let is_whole = report.damage.is_empty() && report.skipped.is_empty();
        if had_records && is_whole && self.durability.durable().is_some_and(|durable| durable.lost_count() == 0) {
            // A log whose queue is lost is all that is left of it, so orphans are removed only where nothing is.
            let streams = self.queues.iter().filter_map(|(_, queue)| Some(&*queue.stream.as_ref()?.dir));
            self.durability.remove_orphans_later(&streams.collect(), is_dir_name);
        }
        Ok(report)
    }

    /// Make exchanges, queues and bindings again. Returns queues by their definitions.
    fn recover_definitions(
        &mut self,
        definitions: Vec<RecoveredDefinition>,
        report: &mut RecoveryReport,
    ) -> Result<HashMap<DefinitionId, QueueId>, StorageError> {
        let mut queue_ids = HashMap::new();
        for definition in definitions {
            let mut read =
                Definition::decode(&definition.value).map_err(|error| StorageError::Definition(error.to_string()))?;
            if let Definition::Queue { creator: Some(user), .. } = &mut read {
                *user = self.permissions.recover_queue(user);
            }
            match self.topology.recover(&read) {
                Ok(queue) => {
                    report.definitions += 1;
                    if let (Definition::Reader { name, next, delivered, .. }, Some(stream)) = (&read, queue) {
                        self.recover_offset(stream, name, *next, *delivered);
                    } else if let Some(queue) = queue {
                        self.recover_queue(queue, definition.id, &read)?;
                        queue_ids.insert(definition.id, queue);
                    }
                }
                Err(error) => {
                    report.skipped.push(format!("{read:?}: {error}"));
                    self.uncount_skipped(&read);
                }
            }
        }
        Ok(queue_ids)
    }

    /// Count a queue less that could not be made again.
    fn uncount_skipped(&mut self, definition: &Definition) {
        if let Definition::Queue { creator: Some(user), .. } = definition {
            self.permissions.remove_queue(user);
        }
    }

    fn recover_queue(&mut self, id: QueueId, definition: DefinitionId, it: &Definition) -> Result<(), StorageError> {
        let Definition::Queue { name, arguments, creator, .. } = it else { return Ok(()) };
        // The arguments were read when the queue was declared; those that a later version cannot read are left out. What has
        // an address is as the settings say now.
        let policy = match AddressKind::of_queue(name) {
            Some((kind, _)) => self.options.addresses.of(kind).policy(kind),
            None => Policy::parse(RawTable::new(arguments)).unwrap_or_default(),
        };
        let kind = policy.kind;
        let mut queue = Queue::new(policy, self.unique.next_serial(), self.clock.now());
        queue.durable_id = Some(definition);
        queue.creator = creator.clone();
        self.queues.insert(id, queue);
        self.queues.set_timer(id);
        if kind == QueueKind::Stream {
            let opened = self.durability.check_log(&dir_name(name, definition));
            let opened = opened.and_then(|()| self.open_stream(id, definition, name));
            opened.map_err(|reason| StorageError::Stream(name.clone(), reason))?;
        }
        Ok(())
    }

    /// Drop what bounded queues have too much of, because deliveries that were not acknowledged came back to them.
    fn drop_overflow(&mut self) {
        let over: Vec<QueueId> = self.queues.iter().filter(|(_, queue)| queue.is_over()).map(|(id, _)| id).collect();
        for queue in over {
            self.drop_head(queue);
        }
    }

    /// Put messages back into their queues. Their bytes stay in the journal.
    fn recover_messages(
        &mut self,
        messages: Vec<RecoveredMessage>,
        queues: Vec<RecoveredQueue>,
        queue_ids: &HashMap<DefinitionId, QueueId>,
    ) {
        // In the memory of `messages`.
        let stored: Vec<StoredAgain> = messages.into_iter().map(|message| self.recover_message(&message)).collect();
        for recovered in queues {
            let Some(queue) = queue_ids.get(&recovered.queue).copied() else { continue };
            for entry in recovered.entries {
                let StoredAgain { message, time_us, time_to_live } = stored[entry.message as usize];
                let expires = self.queues[queue].recovered_expiry(self.clock, time_us, time_to_live.ms());
                self.recover_entry(queue, message, expires, entry);
            }
            self.queues.set_timer(queue);
        }
        for StoredAgain { message, .. } in stored {
            self.messages.drop_reference(message);
        }
    }

    /// Keep a message whose bytes stay in the journal.
    fn recover_message(&mut self, it: &RecoveredMessage) -> StoredAgain {
        let sizes = [it.route_bytes, it.properties_bytes, it.body_bytes].map(|size| size as usize);
        let message = self.messages.insert_absent(sizes);
        self.messages.get_mut(message).kept = Kept::Saved { record: it.record, queues: 0 };
        let time_to_live = match it.time_to_live {
            TimeToLive::IN_PROPERTIES if it.properties_bytes >= EXPIRING_BYTES_MIN => self.read_expiration(message),
            recorded => recorded,
        };
        StoredAgain { message, time_us: it.time_us, time_to_live }
    }

    /// Read the `expiration` of a message that an earlier version recorded. One that cannot be read is reported when
    /// somebody is to get it.
    fn read_expiration(&mut self, message: MessageId) -> TimeToLive {
        if self.messages.load(message, Wait::ForDisk, &self.durability).is_err() {
            return TimeToLive::FOREVER;
        }
        let properties = BasicProperties::from_checked(self.messages.parts(message).properties);
        TimeToLive::from_ms(expiration(&properties).unwrap_or_default())
    }

    fn recover_entry(&mut self, id: QueueId, message: MessageId, expires: Micros, recovered: RecoveredEntry) {
        self.messages.retain(message);
        let stored = self.messages.get_mut(message);
        if let Kept::Saved { queues, .. } = &mut stored.kept {
            *queues += 1;
        }
        let size = stored.size();
        let queue = &mut self.queues[id];
        let entry = QueueEntry { redelivered: recovered.redelivered, ..queue.next_entry(message, expires) };
        self.queues.push(id, entry, size);
    }
}

/// Make the directory of streams, durably: the log of a stream syncs its own name in it only.
fn make_folders(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.create_dir(&dir.join(STREAMS))?;
    disk.sync_dir(dir)
}

/// Check that there is a journal where there are streams: it is made before them, and says what they are.
fn check_journal(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let (journal, streams) = (dir.join(JOURNAL_DIRECTORY), dir.join(STREAMS));
    let is_begun = |path: &Path| match disk.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        names => names.map(|names| !names.is_empty()),
    };
    if is_begun(&journal)? || !disk.list(&streams)?.iter().any(|name| is_dir_name(name)) {
        return Ok(());
    }
    Err(OpenError::Incomplete(format!(
        "{} has nothing in it, and {} has streams: put back what was there",
        journal.display(),
        streams.display()
    )))
}

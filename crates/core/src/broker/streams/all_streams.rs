//! All streams: their logs, and the readers that can go on.

use hashbrown::HashMap;

use crate::journal::{self, AppendError, Log};

use crate::broker::ids::{ConsumerSlot, Handle, LogId};
use crate::broker::publishing::confirms::DiskMark;
use crate::broker::queues::all_queues::Queues;
use crate::broker::topology::{QueueId, ViewScratch};

/// The maximum of bytes of a stream that wait to be written before its publishers wait, as in the journal.
const CONGESTED_BYTES: usize = 16 << 20;

/// The logs of streams and their readers.
#[derive(Default)]
pub(crate) struct Streams {
    logs: HashMap<LogId, Log>,
    log_count: u32,
    /// Queues that are streams.
    queues: Vec<QueueId>,
    /// Logs that have more to write than the disk takes.
    pressed: Vec<LogId>,
    /// Readers that can go on.
    readers: Vec<Handle<ConsumerSlot>>,
    /// Room to evaluate readers' queries.
    pub(super) view: ViewScratch,
}

impl Streams {
    /// Whether no queue is a stream.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Every queue that is a stream.
    pub fn queues(&self) -> &[QueueId] {
        &self.queues
    }

    /// Add a queue that is a stream.
    pub fn add_queue(&mut self, queue: QueueId) {
        self.queues.push(queue);
    }

    /// Remove a stream and its log.
    pub fn remove_queue(&mut self, queue: QueueId, log: LogId) {
        self.logs.remove(&log);
        self.queues.retain(|other| *other != queue);
    }

    /// Keep a log. Its id is never given to another one.
    pub(super) fn add_log(&mut self, log: Log) -> LogId {
        self.log_count += 1;
        let id = LogId(self.log_count);
        self.logs.insert(id, log);
        id
    }

    /// A log, unless it is gone.
    pub(super) fn log(&self, id: LogId) -> Option<&Log> {
        self.logs.get(&id)
    }

    /// The number of messages in a log.
    pub fn length(&self, id: LogId) -> u64 {
        self.log(id).map_or(0, |log| log.next_sequence().0.saturating_sub(log.first_sequence().0))
    }

    /// Let retention by age remove old messages.
    pub fn expire(&self, queues: &Queues, wall_us: i64) {
        for queue in self.queues.iter().filter_map(|id| queues.get(*id)) {
            if queue.policy.age_max_s.is_some()
                && let Some(log) = queue.stream.as_ref().and_then(|stream| self.log(stream.log))
            {
                log.expire(wall_us);
            }
        }
    }

    /// The bytes that all logs take on disk.
    pub fn file_bytes(&self) -> u64 {
        self.logs.values().map(Log::file_bytes).sum()
    }

    /// Whether a log is synced up to `mark`; true for a log that is gone.
    pub fn is_reached(&self, mark: DiskMark) -> bool {
        self.log(mark.log).is_none_or(|log| log.synced().0 >= mark.sequence)
    }

    /// Check that a log can hold a message of this size.
    ///
    /// # Errors
    /// It never can.
    pub fn check_size(&self, id: LogId, size_bytes: usize) -> Result<(), AppendError> {
        let max_bytes = self.log(id).map_or(usize::MAX, Log::record_bytes_max);
        let size_bytes = size_bytes + journal::HEADER_BYTES;
        if size_bytes > max_bytes { Err(AppendError::TooLarge { size_bytes, max_bytes }) } else { Ok(()) }
    }

    /// Note that a message was appended to a log. Returns whether its publishers have to wait from now on.
    pub(super) fn note_pressure(&mut self, id: LogId) -> bool {
        let is_pressed = self.log(id).is_some_and(|log| log.pending_bytes() > CONGESTED_BYTES);
        let is_new = is_pressed && !self.pressed.contains(&id);
        if is_new {
            self.pressed.push(id);
        }
        is_new
    }

    /// Forget the logs that have caught up with their publishers, since logs may have been synced further.
    pub(super) fn relieve(&mut self) {
        let logs = &self.logs;
        self.pressed.retain(|id| logs.get(id).is_some_and(|log| log.pending_bytes() > CONGESTED_BYTES / 2));
    }

    /// Whether publishers have to wait for a log.
    pub fn is_congested(&self) -> bool {
        !self.pressed.is_empty()
    }

    /// Whether a log that publishers wait for has no room on its disk.
    pub fn is_full(&self) -> bool {
        self.pressed.iter().any(|id| self.log(*id).is_some_and(Log::is_full))
    }

    /// Let a reader go on when it is its turn.
    pub(super) fn push_reader(&mut self, reader: Handle<ConsumerSlot>) {
        self.readers.push(reader);
    }

    /// The readers that can go on.
    pub(super) fn take_readers(&mut self) -> Vec<Handle<ConsumerSlot>> {
        std::mem::take(&mut self.readers)
    }

    /// Whether a reader can go on.
    pub fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }
}

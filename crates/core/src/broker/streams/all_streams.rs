//! All streams: their logs, and the readers that can go on.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::journal::{self, AppendError, Log, RecordBody, Sequence};

use crate::broker::ids::{ConsumerSlot, Handle, LogId};
use crate::broker::publishing::confirms::DiskMark;
use crate::broker::queues::all_queues::Queues;
use crate::broker::streams::numbers::Numbers;
use crate::broker::streams::reader_offset::LeftId;
use crate::broker::streams::reader_table::TableScratch;
use crate::broker::streams::stream_record;
use crate::broker::streams::summarizer::Summarizer;
use crate::broker::topology::{QueueId, ViewScratch};

/// The maximum of bytes of streams that wait to be written before publishers wait, as in the journal.
pub(crate) const CONGESTED_BYTES: usize = 16 << 20;

/// The maximum of bytes that wait in memory for live readers of all streams. Readers of a stream with more read its log.
pub(crate) const TAIL_BYTES: usize = 16 << 20;

/// The number of a message, and whether no crash can take it back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbered {
    pub sequence: Sequence,
    pub is_safe: bool,
}

/// The logs of streams and their readers.
#[derive(Default)]
pub(crate) struct Streams {
    logs: HashMap<LogId, StreamLog>,
    log_count: u32,
    /// Queues that are streams.
    queues: Vec<QueueId>,
    /// Logs that have something to write.
    pending: Vec<LogId>,
    /// The bytes that `pending` have to write, or more: they are counted again when the disk has taken some.
    pending_bytes: usize,
    /// Their memory.
    pending_memory_bytes: usize,
    /// Whether more waits than the disk takes.
    is_congested: bool,
    /// Whether one of `pending` has no room on its disk.
    is_full: bool,
    /// Streams that have something for their live readers.
    live: VecDeque<QueueId>,
    /// The bytes that live readers have yet to get, of all streams.
    tail_bytes: usize,
    /// Readers that can go on.
    readers: VecDeque<Handle<ConsumerSlot>>,
    /// Readers that wait until there is memory for a large message.
    awaiting_memory: Vec<Handle<ConsumerSlot>>,
    /// Room to evaluate readers' queries.
    pub(super) view: ViewScratch,
    /// Room to match messages with the tables of live readers.
    pub(super) table: TableScratch,
    /// Named readers that have acknowledged something since their offsets were recorded.
    acknowledged: VecDeque<LeftId>,
    /// Summarizes segments that are sealed.
    pub(crate) summarizer: Summarizer,
    /// Room for the live readers that ask for a message.
    pub(super) askers: Vec<ConsumerSlot>,
}

struct StreamLog {
    log: Log,
    /// The numbers that are given, of a stream whose messages the log does not have.
    numbers: Option<Numbers>,
    /// Whether it is among those that have something to write.
    is_pending: bool,
}

impl StreamLog {
    fn next_sequence(&self) -> Sequence {
        self.numbers.as_ref().map_or_else(|| self.log.next_sequence(), Numbers::next)
    }

    fn synced(&self) -> Sequence {
        self.numbers.as_ref().map_or_else(|| self.log.synced(), |numbers| numbers.safe(&self.log))
    }
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
        if let Some(stream) = self.logs.remove(&log) {
            stream.log.abandon();
        }
        self.queues.retain(|other| *other != queue);
    }

    /// Keep a log. Its id is never given to another one.
    pub(super) fn add_log(&mut self, log: Log, keeps_history: bool) -> LogId {
        self.log_count += 1;
        let id = LogId(self.log_count);
        let numbers = (!keeps_history).then(|| Numbers::after(&log));
        self.logs.insert(id, StreamLog { log, numbers, is_pending: false });
        id
    }

    /// A log, unless it is gone.
    pub(super) fn log(&self, id: LogId) -> Option<&Log> {
        self.logs.get(&id).map(|stream| &stream.log)
    }

    /// The numbers of a stream without history.
    pub(crate) fn numbers(&self, id: LogId) -> Option<&Numbers> {
        self.logs.get(&id)?.numbers.as_ref()
    }

    /// The number that the next message of a stream gets; None when the stream is gone.
    pub(super) fn next_sequence(&self, id: LogId) -> Option<Sequence> {
        self.logs.get(&id).map(StreamLog::next_sequence)
    }

    /// The last number of a stream that no crash can take back; None when the stream is gone.
    pub(crate) fn synced(&self, id: LogId) -> Option<Sequence> {
        self.logs.get(&id).map(StreamLog::synced)
    }

    /// The bytes that the records of a stream take on disk; 0 without history.
    pub fn size_bytes(&self, id: LogId) -> u64 {
        self.log(id).map_or(0, Log::size_bytes)
    }

    /// The number of messages that a stream has.
    pub fn length(&self, id: LogId) -> u64 {
        self.logs
            .get(&id)
            .filter(|stream| stream.numbers.is_none())
            .map_or(0, |stream| stream.log.next_sequence().0.saturating_sub(stream.log.first_sequence().0))
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

    /// The number of logs.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// The bytes that all logs take on disk.
    pub fn file_bytes(&self) -> u64 {
        self.logs.values().map(|stream| stream.log.file_bytes()).sum()
    }

    /// Whether a log is synced up to `mark`; true for a log that is gone.
    pub fn is_reached(&self, mark: DiskMark) -> bool {
        self.synced(mark.log).is_none_or(|synced| synced.0 >= mark.sequence)
    }

    /// Check that a stream can keep a message of this size.
    ///
    /// # Errors
    /// It never can.
    pub fn check_size(&self, id: LogId, size_bytes: usize) -> Result<(), AppendError> {
        let log = self.log(id).filter(|_| self.numbers(id).is_none());
        let max_bytes = log.map_or(usize::MAX, Log::record_bytes_max);
        let size_bytes = size_bytes + journal::HEADER_BYTES;
        if size_bytes > max_bytes { Err(AppendError::TooLarge { size_bytes, max_bytes }) } else { Ok(()) }
    }

    /// Append a message to a stream, unless it is gone.
    ///
    /// # Errors
    /// There is no room, or nothing is written any more.
    pub(super) fn append(
        &mut self,
        id: LogId,
        wall_us: i64,
        record: RecordBody<'_>,
    ) -> Result<Option<Numbered>, AppendError> {
        let Some(stream) = self.logs.get_mut(&id) else { return Ok(None) };
        let numbered = match &mut stream.numbers {
            None => {
                let appended = stream.log.append_record((stream_record::MESSAGE, wall_us, &[]), record)?;
                self.pending_bytes += record.size_bytes();
                self.pending_memory_bytes += record.size_bytes() - record.elsewhere_bytes();
                Numbered { sequence: appended.sequence, is_safe: false }
            }
            Some(numbers) => {
                let sequence = numbers.give(&stream.log, wall_us)?;
                Numbered { sequence, is_safe: sequence <= numbers.safe(&stream.log) }
            }
        };
        if !numbered.is_safe && !std::mem::replace(&mut stream.is_pending, true) {
            self.pending.push(id);
        }
        self.is_congested |= self.pending_bytes > CONGESTED_BYTES;
        Ok(Some(numbered))
    }

    /// Look again at all logs that had something to write, since the disk may have taken it, or may have no room.
    pub(super) fn review_pending(&mut self) {
        let Self { logs, pending, pending_bytes, pending_memory_bytes, is_full, .. } = self;
        (*pending_bytes, *pending_memory_bytes, *is_full) = (0, 0, false);
        pending.retain(|id| {
            let Some(stream) = logs.get_mut(id) else { return false };
            let bytes = stream.log.pending_bytes();
            *pending_bytes += bytes;
            *pending_memory_bytes += stream.log.pending_memory_bytes();
            *is_full |= bytes > 0 && stream.log.is_full();
            stream.is_pending = bytes > 0;
            stream.is_pending
        });
        self.is_congested &= self.pending_bytes > CONGESTED_BYTES / 2;
    }

    /// The memory of the records that wait to be written.
    pub fn pending_memory_bytes(&self) -> usize {
        self.pending_memory_bytes
    }

    /// Whether publishers have to wait for a log.
    pub fn is_congested(&self) -> bool {
        self.is_congested
    }

    /// Whether a log that has something to write has no room on its disk.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Note that what a stream keeps for live readers has changed its size. False when all streams keep too much.
    pub(super) fn count_tail(&mut self, before: usize, after: usize) -> bool {
        self.tail_bytes = self.tail_bytes + after - before;
        self.tail_bytes <= TAIL_BYTES
    }

    /// The bytes that live readers have yet to get.
    pub fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// Let live readers of a stream have their turn.
    pub(super) fn push_live(&mut self, queue: QueueId) {
        self.live.push_back(queue);
    }

    /// The stream whose live readers have their turn.
    pub(super) fn next_live(&mut self) -> Option<QueueId> {
        self.live.pop_front()
    }

    /// Whether live readers have something to get.
    pub fn has_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// Let the offset of a named reader be recorded.
    pub(super) fn push_acknowledged(&mut self, reader: LeftId) {
        self.acknowledged.push_back(reader);
    }

    /// A named reader whose offset is to be recorded.
    pub(super) fn next_acknowledged(&mut self) -> Option<LeftId> {
        self.acknowledged.pop_front()
    }

    /// Let a reader go on when it is its turn.
    pub fn push_reader(&mut self, reader: Handle<ConsumerSlot>) {
        self.readers.push_back(reader);
    }

    /// Let a reader wait for memory.
    pub(super) fn await_memory(&mut self, reader: Handle<ConsumerSlot>) {
        self.awaiting_memory.push(reader);
    }

    /// Let the readers that wait for memory try again.
    pub fn try_awaiting_memory(&mut self) {
        self.readers.extend(self.awaiting_memory.drain(..));
    }

    /// The reader whose turn it is.
    pub(super) fn next_reader(&mut self) -> Option<Handle<ConsumerSlot>> {
        self.readers.pop_front()
    }

    /// Whether a reader can go on.
    pub fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }
}

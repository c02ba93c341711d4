//! The broker's journal: definitions, and messages with the queues that hold them, are recovered from it after a crash.
//!
//! It is one [`Log`]. A message is recorded once, however many queues it goes to. When a queue is done with it, this is
//! recorded later, together with others ([`Durable::flush`]). Definitions are bytes under a key. A queue is known by
//! the id of its definition ([`DefinitionId`]), which is never given twice, so that messages of a deleted queue cannot come
//! back in another of the same name; and what depends on a definition (a binding on its queue) goes with it.
//!
//! **Compaction** keeps the log in proportion to what is alive in it: beyond `2 × live + 2` segments the oldest segment's
//! live records are copied to its end, a few at a time, and when the copies are synced the segment is removed. Nothing is
//! ever removed before what replaces it is synced. `records.rs` has the records, `recovery.rs` reads them back,
//! `live_records.rs` knows what is alive and where.

mod compaction;
mod definitions;
mod ids;
mod live_records;
mod records;
mod recovery;
mod status;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::journal::{
    AppendError, Appended, Committer, Disk, HEAD_BYTES_MAX, Log, LogOptions, OpenError, ReadError, RecordBody,
    SegmentNumber, Sequence, Wait,
};

use compaction::PendingMove;
use definitions::Defined;
pub use ids::{Content, DefinitionId, RecordId, Saved, TimeToLive};
use live_records::{LiveRecords, RecordHolders};
pub use records::kind_name;
use records::{MessageHead, RECORD_BYTES, kind};
pub use recovery::{RecoveredDefinition, RecoveredEntry, RecoveredJournal, RecoveredMessage, RecoveredQueue};

/// The maximum size of a message's record without its content and queues.
const MESSAGE_BYTES_MAX: usize = RECORD_BYTES + 40;
/// The maximum size of a queue's number in the record of a message.
const QUEUE_BYTES_MAX: usize = 10;

/// Settings of a [`Durable`].
#[derive(Clone, Copy, Debug)]
pub struct DurableOptions {
    /// The size of a segment of the journal. A message may be nearly half as large.
    pub segment_bytes: u32,
    /// Maximum number of bytes that wait to be written. Messages are refused beyond half of it, everything else beyond all.
    pub pending_bytes_max: usize,
}

impl Default for DurableOptions {
    fn default() -> Self {
        let LogOptions { segment_bytes, pending_bytes_max, .. } = LogOptions::default();
        Self { segment_bytes, pending_bytes_max }
    }
}

/// The broker's journal. A process has one, and uses it from one thread. Only [`Durable::open`], [`Durable::load`] and
/// [`Durable::compact`] wait for the disk, because they read.
#[derive(Debug)]
pub struct Durable {
    log: Log,
    options: DurableOptions,
    slots: LiveRecords,
    /// Definitions by key.
    keys: HashMap<Box<[u8]>, DefinitionId>,
    definitions: HashMap<DefinitionId, Defined>,
    /// The room that is kept for the transaction that is being committed.
    reserved: usize,
    /// Settled entries that are not recorded yet: queue and position.
    settled: Vec<(DefinitionId, Sequence)>,
    /// The queue of the last of them; None when a definition has gone since.
    alive: Option<DefinitionId>,
    /// Copies that are not synced yet.
    moves: VecDeque<PendingMove>,
    /// The sequence of the last record.
    last: Sequence,
    /// Whether the last record is the end of a stop, behind which nothing more is recorded.
    has_ended: bool,
    /// Whether compaction has passed over records that it could not copy then.
    skipped: bool,
    /// The number of bytes that were copied since the disk became full.
    copied_while_full: u64,
    /// The last segment that was removed.
    removed: SegmentNumber,
    /// The number of live records that could not be copied because they are damaged.
    lost_count: u64,
    buffer: Vec<u8>,
    head: Vec<u8>,
}

impl Durable {
    /// Open the journal in `dir`, or begin one, and recover what is alive in it. Bodies are not read, so that the time is
    /// proportional to the number of records, not to their size.
    ///
    /// # Errors
    /// [`OpenError`]. Damaged records are not errors; [`RecoveredJournal::damage`] lists them.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        options: DurableOptions,
        committer: &Committer,
    ) -> Result<(Self, RecoveredJournal), OpenError> {
        let DurableOptions { segment_bytes, pending_bytes_max } = options;
        let log_options = LogOptions {
            segment_bytes,
            pending_bytes_max,
            index_heads: true,
            has_reserve: true,
            ..LogOptions::default()
        };
        let (log, recovered_log) = Log::open(disk, dir, log_options, committer)?;
        let mut durable = Self {
            last: log.synced(),
            log,
            options,
            slots: LiveRecords::default(),
            keys: HashMap::new(),
            definitions: HashMap::new(),
            reserved: 0,
            settled: Vec::new(),
            alive: None,
            moves: VecDeque::new(),
            has_ended: false,
            skipped: false,
            copied_while_full: 0,
            removed: SegmentNumber::default(),
            lost_count: 0,
            buffer: Vec::new(),
            head: Vec::new(),
        };
        let recovered = durable.recover(recovered_log.damage)?;
        if recovered.is_clean {
            // From now on the list of what was delivered is old. If the next crash comes before this is synced, nothing
            // has been delivered yet either.
            durable.append(kind::STARTED, 0, &[]).map_err(|error| OpenError::NoLog(error.to_string()))?;
            committer.commit_once();
        }
        Ok((durable, recovered))
    }

    /// Record a message that goes to `queues`, which are defined, each named once. Its time to live begins at `time_us`.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed. Busy means that its publisher has to wait.
    #[inline(always)]
    pub fn message(
        &mut self,
        content: Content<'_>,
        queues: &[DefinitionId],
        time_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        self.admit(&content, 0)?;
        self.admitted(content, queues, time_us, time_to_live)
    }

    /// Record a message for which [`Durable::reserve`] has made room.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed.
    pub fn message_in_reservation(
        &mut self,
        content: Content<'_>,
        queues: &[DefinitionId],
        time_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        self.admit(&content, self.reserved)?;
        self.admitted(content, queues, time_us, time_to_live)
    }

    /// Record a message for which there is room.
    #[inline(always)]
    fn admitted(
        &mut self,
        content: Content<'_>,
        queues: &[DefinitionId],
        time_us: i64,
        time_to_live: TimeToLive,
    ) -> Result<Saved, AppendError> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        MessageHead::of(&content, time_to_live).put(kind::MESSAGE, &mut head);
        let done = records::put_queues(&mut head, queues);
        let saved = self.save(kind::MESSAGE, time_us, &head, &content, |appended| {
            RecordHolders::of(&queues[..done], appended.sequence)
        });
        self.head = head;
        let mut saved = saved?;
        // More queues than one head can name.
        if done < queues.len() {
            let enqueued = self.enqueued(saved.record, &queues[done..], time_us);
            saved.sequence = enqueued.inspect_err(|_| self.take_back(saved.record))?;
        }
        Ok(saved)
    }

    /// Settle a message for all queues that have it, since not all that should have it could be recorded.
    fn take_back(&mut self, record: RecordId) {
        for (queue, _) in self.slots.queues(record) {
            self.settled(record, queue);
        }
    }

    /// Record that a message, which a queue has, goes to further `queues`, none of which has it.
    ///
    /// # Errors
    /// [`AppendError`]; then, where not all of the queues fit into one record, the first of them may have it.
    fn enqueued(&mut self, record: RecordId, queues: &[DefinitionId], time_us: i64) -> Result<Sequence, AppendError> {
        let mut head = std::mem::take(&mut self.head);
        let mut done = 0;
        let mut result = Ok(self.last);
        while done < queues.len() && result.is_ok() {
            head.clear();
            records::put_varint(&mut head, self.slots.id(record));
            let count = records::put_queues(&mut head, &queues[done..]);
            result = self.append(kind::ENQUEUED, time_us, &head).map(|appended| {
                self.slots.add_positions(record, &queues[done..done + count], appended.sequence);
                appended.sequence
            });
            done += count;
        }
        self.head = head;
        result
    }

    /// Put a message that need not survive a restart into the journal, so that it need not stay in memory.
    /// It is kept until it is [`Durable::release`]d.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing has changed.
    pub fn spill(&mut self, content: Content<'_>, time_us: i64) -> Result<Saved, AppendError> {
        self.admit(&content, 0)?;
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        MessageHead::of(&content, TimeToLive::FOREVER).put(kind::SPILLED, &mut head);
        let saved = self.save(kind::SPILLED, time_us, &head, &content, |_| RecordHolders::Spilled);
        self.head = head;
        saved
    }

    /// Drop a spilled message; `record` is not valid any more.
    pub fn release(&mut self, record: RecordId) {
        if self.slots.is_spilled(record) {
            self.slots.free(record, self.last);
        }
    }

    /// Note that the last durable queue is done with a message, which others still have: its record is kept as that of a
    /// spilled message until it is [`Durable::release`]d.
    pub fn settled_but_kept(&mut self, record: RecordId, queue: DefinitionId) {
        let Some((position, is_last)) = self.slots.settle(record, queue) else { return };
        debug_assert!(is_last, "a durable queue holds the record");
        self.slots.keep_spilled(record);
        self.note_settled(queue, position);
    }

    /// Note that a queue is done with a message: it was acknowledged, expired, dropped or purged. This is recorded with the
    /// next [`Durable::flush`]. When it was the last queue, `record` is not valid any more.
    pub fn settled(&mut self, record: RecordId, queue: DefinitionId) {
        let Some((position, is_last)) = self.slots.settle(record, queue) else { return };
        if is_last {
            self.slots.free(record, self.last);
        }
        self.note_settled(queue, position);
    }

    /// Note that an entry of a queue is settled, unless the queue is gone.
    fn note_settled(&mut self, queue: DefinitionId, position: Sequence) {
        if self.alive == Some(queue) || self.is_alive(queue) {
            self.alive = Some(queue);
            self.settled.push((queue, position));
        }
    }

    /// Record what was settled. Call it after each round of work; it is cheap when there is nothing. Returns the sequence
    /// that has to be synced for it to last.
    ///
    /// # Errors
    /// [`AppendError`]; what was not recorded is kept, for the next time.
    pub fn flush(&mut self, time_us: i64) -> Result<Sequence, AppendError> {
        if self.settled.is_empty() {
            return Ok(self.last);
        }
        let mut head = std::mem::take(&mut self.head);
        self.settled.sort_unstable();
        let mut done = 0;
        let mut result = Ok(self.last);
        while done < self.settled.len() && result.is_ok() {
            head.clear();
            let count = records::put_settled(&mut head, &self.settled[done..]);
            result = self.append(kind::SETTLED, time_us, &head).map(|appended| appended.sequence);
            if result.is_ok() {
                done += count;
            }
        }
        self.settled.drain(..done);
        self.head = head;
        result
    }

    /// Read a message back into `buffer`, whose end is its route, its properties and its body. It has to be synced
    /// ([`Saved::sequence`]).
    ///
    /// # Errors
    /// The record is damaged, or the system cannot read it; [`ReadError::would_wait`].
    pub fn load<'a>(&self, record: RecordId, wait: Wait, buffer: &'a mut Vec<u8>) -> Result<Content<'a>, ReadError> {
        let location = self.slots.location(record);
        let stored = self.log.read(location, wait, buffer)?;
        records::content_of(stored.kind, stored.head, stored.body).ok_or(ReadError::Damaged(location))
    }

    /// End a clean stop: record what was settled, and which messages were delivered and not settled, so that only these are
    /// flagged as redelivered next time. Returns the sequence that has to be synced.
    ///
    /// # Errors
    /// [`AppendError`].
    pub fn stop(&mut self, delivered: &[(RecordId, DefinitionId)], time_us: i64) -> Result<Sequence, AppendError> {
        self.flush(time_us)?;
        let entry = |&(record, queue): &(RecordId, DefinitionId)| Some((queue, self.slots.position(record, queue)?));
        let mut entries: Vec<_> = delivered.iter().filter_map(entry).collect();
        entries.sort_unstable();
        // More than one record holds: then all of them are flagged, as after a crash.
        let bytes = records::settled_bytes(&entries);
        if RECORD_BYTES + bytes.len() > self.log.record_bytes_max() {
            return Ok(self.last);
        }
        let appended = self.append_to(kind::STOPPED, time_us, &[], &[&bytes])?;
        self.has_ended = true;
        Ok(appended.sequence)
    }

    /// Whether a stop is over: nothing more is recorded, so that its end stays the last record.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The maximum of bytes that a message for a number of queues takes.
    ///
    /// # Errors
    /// It can never be recorded.
    pub fn record_bytes(&self, content: &Content<'_>, queues: usize) -> Result<usize, AppendError> {
        let record_bytes = MESSAGE_BYTES_MAX + content.size_bytes();
        let (size_bytes, max_bytes) =
            (record_bytes + (QUEUE_BYTES_MAX * queues).min(HEAD_BYTES_MAX), self.log.record_bytes_max());
        if size_bytes > max_bytes {
            return Err(AppendError::TooLarge { size_bytes, max_bytes });
        }
        Ok(record_bytes + QUEUE_BYTES_MAX * queues)
    }

    /// Keep room for further messages, beyond the point at which others are refused. False when there is not enough.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= self.options.pending_bytes_max / 2 && !self.is_congested();
        self.reserved = if has_room { bytes } else { 0 };
        has_room
    }

    /// End what [`Durable::reserve`] began.
    pub fn end_reservation(&mut self) {
        self.reserved = 0;
    }

    /// Refuse a message when the remaining room is for what must not be refused.
    fn admit(&self, content: &Content<'_>, reserved: usize) -> Result<(), AppendError> {
        let waiting = self.log.pending_bytes();
        if waiting > 0 && waiting + content.size_bytes() > self.options.pending_bytes_max / 2 + reserved {
            return Err(AppendError::Busy);
        }
        Ok(())
    }

    #[inline(always)]
    fn save(
        &mut self,
        kind: u8,
        time_us: i64,
        head: &[u8],
        content: &Content<'_>,
        holders: impl FnOnce(Appended) -> RecordHolders,
    ) -> Result<Saved, AppendError> {
        let parts = [content.route, content.properties, content.body];
        let body = content.shared.map_or(RecordBody::Parts(&parts), |bytes| RecordBody::Shared(bytes, 1));
        debug_assert_eq!(body.size_bytes(), content.size_bytes());
        let appended = self.append_body(kind, time_us, head, body)?;
        let size = RECORD_BYTES + head.len() + content.size_bytes();
        let record = self.slots.insert(appended.sequence.0, appended.location, size as u32, holders(appended));
        Ok(Saved { record, sequence: appended.sequence })
    }

    fn append(&mut self, kind: u8, time_us: i64, head: &[u8]) -> Result<Appended, AppendError> {
        self.append_to(kind, time_us, head, &[])
    }

    fn append_to(&mut self, kind: u8, time_us: i64, head: &[u8], body: &[&[u8]]) -> Result<Appended, AppendError> {
        self.append_body(kind, time_us, head, RecordBody::Parts(body))
    }

    #[inline(always)]
    fn append_body(
        &mut self,
        kind: u8,
        time_us: i64,
        head: &[u8],
        body: RecordBody<'_>,
    ) -> Result<Appended, AppendError> {
        debug_assert!(head.len() <= HEAD_BYTES_MAX);
        if self.has_ended {
            return Err(AppendError::Busy);
        }
        let appended = self.log.append_record((kind, time_us, head), body)?;
        self.last = appended.sequence;
        Ok(appended)
    }
}

//! Streams are queues that are logs: a message stays until retention takes it, however many consumers have read it.
//!
//! A message's number is its offset for ever, because nobody sees a message before it is on disk. Readers are consumers
//! with an offset of their own: `x-stream-offset` (first, last, next, a number, a time) says where they begin, `x-query`
//! which messages they want. A reader has credit like any consumer, and what it acknowledges only gives that back; one that
//! is slow reads from disk when it can, and nobody else notices. A reader that retention has passed finds in the next
//! message, as `x-stream-missed`, how many messages it missed. A reader without acknowledgement has the credit of its socket:
//! it gets what the client reads, and reads on in the log when the client has caught up.
//!
//! Readers at the end of a stream are live (`deliver_live.rs`): what comes is matched once for all of them, and delivered from memory.
//! The others read the log, each for itself, and pass over what cannot satisfy their queries (`skipping.rs`). That is done in slices ([`Broker::work`]), so that a filter that finds nothing among millions stops nobody.

use std::path::PathBuf;
use std::sync::Arc;

use crate::amqp::{AmqpError, BasicProperties, FieldValue, ReplyCode};
use crate::journal::{self, Log, LogItem, OpenError, PIECE_BYTES, RecordBody, Retention, SegmentNumber, Sequence};

use crate::broker::Broker;
use crate::broker::clock::NEVER;
use crate::broker::connections::turn::STEP_NS;
use crate::broker::consumers::unacknowledged::CoarseTime;
use crate::broker::durable::DefinitionId;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConsumerSlot, MessageId};
use crate::broker::parts::{Arrived, Parts};
use crate::broker::publishing::confirms::{DiskMark, DiskMarks};
use crate::broker::publishing::further_keys::without_blind_copies;
use crate::broker::queues::entries::QueueEntry;
use crate::broker::queues::message_bytes::{SHARED_BYTES_MIN, SharedBody};
use crate::broker::queues::policy::Policy;
use crate::broker::streams::all_streams::Numbered;
use crate::broker::streams::cursor::Cursor;
use crate::broker::streams::reader_offset::{NamedReader, ReaderOffsets};
use crate::broker::streams::skipping::Step;
use crate::broker::streams::stream::{Stream, StreamReader};
use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::topology::errors::too_many;
use crate::broker::topology::{ConsumerFilter, DefinitionKey, QueueId, View};

/// The number of steps that are made for one reader before others have their turn.
const SLICE_STEPS: u32 = 256;

/// The steps that it takes to look at a summary.
const SUMMARY_STEPS: u32 = 16;

/// The bytes of a record that take a step to read and deliver, besides the one that every record takes.
const BYTES_PER_STEP: usize = 128;

/// The number of files that readers have open beyond which each closes its own after its turn.
pub(crate) const READER_FILES_MAX: u64 = 128;

/// The header of a delivery with the message's number, and the argument that says where a reader begins.
pub(in crate::broker) const OFFSET: &str = "x-stream-offset";
/// The header of a delivery that says how many messages its reader has missed before.
pub(super) const MISSED: &str = "x-stream-missed";

/// The log of a new stream, its directory, and the id that its definition will have.
pub(crate) type NewLog = (Log, PathBuf, DefinitionId);

impl Broker {
    /// Open the log of a recovered queue of type stream.
    pub(crate) fn open_stream(&mut self, id: QueueId, definition: DefinitionId, name: &str) -> Result<(), OpenError> {
        let policy = &self.queues[id].policy;
        let (log, dir) =
            self.durability.open_log(&dir_name(name, definition), retention(policy), policy.segment_bytes)?;
        self.give_log(id, log, dir);
        Ok(())
    }

    /// Take the log of a new stream with its directory and the id that its definition will have. None when the declaration
    /// has to wait because the committer is opening it.
    ///
    /// # Errors
    /// 506: it cannot be opened.
    pub(crate) fn take_opened(
        &mut self,
        channel: ChannelSlot,
        key: &DefinitionKey,
        (name, is_generated): (&str, bool),
        policy: &Policy,
    ) -> Result<Option<NewLog>, AmqpError> {
        let streams_max = self.options.streams_max;
        if self.durability.opening_count_beside(key).is_some_and(|count| count + self.streams.len() >= streams_max) {
            return Err(too_many("streams", streams_max));
        }
        let options = (retention(policy), policy.segment_bytes);
        let opened = self.durability.take_opened(key, options, self.clock.wall_us(), |id| dir_name(name, id));
        let opened = opened.map_err(|reason| cannot_be_opened(name, &reason))?;
        if opened.is_none() {
            let it = &self.clients[channel];
            let generated = is_generated.then(|| (it.handle(channel), name.into()));
            let connection = it.connection;
            self.durability.await_opening(key, self.clients.id(connection), generated);
            self.hold(connection);
            self.turn.repeat_frame();
        }
        Ok(opened)
    }

    /// Give a queue of type stream its log.
    pub(crate) fn give_log(&mut self, id: QueueId, log: Log, dir: PathBuf) {
        let policy = &self.queues[id].policy;
        let woken = log.synced();
        let log = self.streams.add_log(log, policy.keeps_history());
        let summarized = SegmentNumber::default();
        self.queues[id].stream = Some(Box::new(Stream {
            log,
            dir,
            waiting: Vec::new(),
            woken,
            live: None,
            summarized,
            offsets: ReaderOffsets::new(),
        }));
        self.streams.add_queue(id);
        self.summarize(id);
    }

    /// Drop the log of a stream that is deleted. Its files go one by one, later.
    pub(crate) fn drop_stream(&mut self, id: QueueId, stream: &Stream) {
        self.drop_live(stream);
        self.streams.remove_queue(id, stream.log);
        self.durability.remove_when_forgotten(&stream.dir);
    }

    /// Append a message to the streams among the queues that it goes to.
    ///
    /// # Errors
    /// One of them has no room.
    pub(crate) fn append_to_streams(
        &mut self,
        message: &Arrived<'_>,
        may_have_copies: bool,
        queues: &[QueueId],
        marks: &mut DiskMarks,
    ) -> Result<(), journal::AppendError> {
        let streams = queues.iter().filter(|queue| self.queues[**queue].stream.is_some()).count();
        if streams == 0 {
            return Ok(());
        }
        let wall_us = self.clock.wall_us();
        let mut room = Vec::new();
        let parts = message.parts();
        let visible = if may_have_copies { without_blind_copies(parts, &mut room) } else { parts };
        let pieces = [visible.route, visible.properties, visible.body];
        // A large message is not copied, or once, however many streams take it, and whoever reads them now.
        let shared = message.shared().filter(|_| std::ptr::eq(visible.properties, parts.properties));
        let is_copied = shared.is_none() && visible.size() >= SHARED_BYTES_MIN;
        let copied = is_copied.then(|| Arc::new(visible.joined().bytes));
        let record = match shared.or(copied.as_ref()) {
            None => RecordBody::Parts(&pieces),
            Some(bytes) => RecordBody::Shared(bytes, streams),
        };
        for &queue in queues {
            let Some(stream) = &self.queues[queue].stream else { continue };
            let log = stream.log;
            let Some(Numbered { sequence, is_safe }) = self.streams.append(log, wall_us, record)? else { continue };
            self.keep_for_live(queue, record);
            if is_safe {
                self.wake_live(queue, sequence);
            } else {
                marks.push(DiskMark { log, sequence: sequence.0 });
            }
            if self.streams.is_congested() {
                self.backpressure.await_journal();
            }
            self.metrics.enqueued += 1;
            self.queues[queue].published += 1;
        }
        Ok(())
    }

    /// Let a reader go on, if it can take messages.
    pub(crate) fn wake_reader(&mut self, slot: ConsumerSlot) {
        let is_live = self.clients[slot].reader.as_ref().is_some_and(|reader| reader.is_live);
        if !is_live && !self.clients[slot].is_waiting && self.can_take(slot) {
            self.clients[slot].is_waiting = true;
            self.streams.push_reader(self.clients[slot].handle(slot));
        }
    }

    /// Wake the readers that wait for a sync of their log, and let publishers go on.
    pub(crate) fn wake_streams(&mut self) {
        let mut woken = Vec::new();
        for index in 0..self.streams.queues().len() {
            let queue = self.streams.queues()[index];
            let Some(stream) = self.queues.get_mut(queue).and_then(|queue| queue.stream.as_mut()) else { continue };
            let Some(synced) = self.streams.synced(stream.log) else { continue };
            if synced > stream.woken {
                stream.woken = synced;
                woken.append(&mut stream.waiting);
                self.wake_live(queue, synced);
                self.summarize(queue);
            }
        }
        for slot in woken {
            if self.clients.consumer_in(slot).is_some_and(|consumer| consumer.reader.is_some()) {
                self.wake_reader(slot);
            }
        }
        self.streams.review_pending();
    }

    /// Let readers that can go on read in turns, as far as the budget of this round goes for all of them together.
    pub(crate) fn read_streams(&mut self) {
        if !self.streams.has_readers() {
            return;
        }
        self.turn.begin_readers();
        while !self.turn.is_over()
            && let Some(handle) = self.streams.next_reader()
        {
            if let Some(consumer) = self.clients.consumer_of(handle) {
                consumer.is_waiting = false;
                self.read_slice(handle.id);
                self.turn.look_at_readers();
            }
        }
        self.turn.end_readers();
    }

    /// Deliver to one reader until its slice or the budget is used up, it has read everything, or it has no credit left.
    fn read_slice(&mut self, slot: ConsumerSlot) {
        let Some(mut reader) = self.clients[slot].reader.take() else { return };
        let end = self.turn.spent().saturating_add(SLICE_STEPS);
        let mut awaits_memory = !self.has_memory_for(self.clients[slot].connection, reader.awaited_bytes);
        let (mut has_more, mut awaits_disk) = (true, false);
        if let Cursor::Log(cursor) = &mut reader.cursor {
            cursor.set_wait(reader.disk_wait.wait(self.clock.now()));
        }
        while has_more
            && !awaits_memory
            && !awaits_disk
            && self.turn.spent() < end
            && !self.turn.is_over()
            && self.can_take(slot)
        {
            let queue = self.clients[slot].queue;
            if self.skip(queue, &mut reader) {
                continue;
            }
            let StreamReader { cursor, filter, missed, named, awaited_bytes, .. } = &mut *reader;
            let Cursor::Log(cursor) = cursor else {
                self.pass_missed(queue, &mut reader);
                has_more = false;
                continue;
            };
            match cursor.next() {
                Ok(Some(LogItem::Record(record))) => {
                    self.turn.spend(1 + (record.body.len() / BYTES_PER_STEP) as u32);
                    let (sequence, bytes) = (record.sequence, record.body.len());
                    let reading = (&mut *missed, named.as_deref_mut());
                    awaits_memory = !if bytes < SHARED_BYTES_MIN {
                        self.read_record(slot, filter.as_ref(), reading, sequence, (record.body, None))
                    } else {
                        let (bytes, range) = cursor.last_body(bytes).unwrap_or_default();
                        let shared = SharedBody { bytes, start: range.start, end: range.end };
                        self.read_record(slot, filter.as_ref(), reading, sequence, (shared.body(), Some(&shared)))
                    };
                    *awaited_bytes = if awaits_memory { bytes } else { 0 };
                    if awaits_memory {
                        cursor.seek(sequence);
                    }
                }
                Ok(Some(LogItem::Missed(first, last))) => *missed += last.0 - first.0 + 1,
                Ok(Some(LogItem::Damaged(damage))) => {
                    *missed += damage.last.0 - damage.first.0 + 1;
                    self.report_lost(queue, format!("numbers {} to {} are damaged", damage.first, damage.last));
                }
                Ok(None) => has_more = false,
                Err(error) if error.is_partly_read() => self.turn.spend((PIECE_BYTES / BYTES_PER_STEP) as u32),
                Err(error) if error.would_wait() => awaits_disk = true,
                Err(error) => {
                    self.report_lost(queue, error.to_string());
                    has_more = false;
                }
            }
        }
        reader.disk_wait.note(!awaits_disk, self.clock.now());
        // One that asks for the next piece of a large record soon keeps the others.
        if !awaits_disk && (awaits_memory || !has_more || !self.can_take(slot)) {
            reader.cursor.drop_part();
        }
        let has_many_files = self.durability.reader_files() > READER_FILES_MAX;
        if !reader.cursor.has_part() && (has_many_files || self.are_crowded(self.durability.block_bytes())) {
            reader.rest(has_many_files);
        }
        self.clients[slot].reader = Some(reader);
        if awaits_memory {
            self.let_reader_await_memory(slot);
        } else if awaits_disk {
            self.let_reader_await_disk(slot);
        } else if has_more {
            self.wake_reader(slot);
        } else if !self.go_live(slot) {
            let queue = self.clients[slot].queue;
            if let Some(stream) = &mut self.queues[queue].stream
                && !stream.waiting.contains(&slot)
            {
                stream.waiting.push(slot);
            }
        }
    }

    /// Let a reader try again at the next tick.
    pub(super) fn let_reader_await_memory(&mut self, slot: ConsumerSlot) {
        self.clients[slot].is_waiting = true;
        self.streams.await_memory(self.clients[slot].handle(slot));
    }

    /// Move a reader of a stream without history to the first message that it can still get.
    fn pass_missed(&self, queue: QueueId, reader: &mut StreamReader) {
        let Some(stream) = &self.queues[queue].stream else { return };
        let Some(numbers) = self.streams.numbers(stream.log) else { return };
        let next = stream.live.as_ref().and_then(|live| live.tail.next()).unwrap_or(numbers.next());
        let position = reader.cursor.position();
        if position < next {
            reader.missed += next.0 - position.max(numbers.begin()).0;
            reader.cursor.seek(next);
        }
    }

    /// Move a reader over messages that cannot satisfy its query. Returns whether it has moved.
    fn skip(&mut self, queue: QueueId, reader: &mut StreamReader) -> bool {
        let Some(skipping) = &mut reader.skipping else { return false };
        let log = self.queues[queue].stream.as_ref().map(|stream| stream.log);
        let Some(log) = log.and_then(|log| self.streams.log(log)) else { return false };
        let Cursor::Log(cursor) = &mut reader.cursor else { return false };
        match skipping.step(log, cursor) {
            Step::Read => false,
            Step::Moved => {
                #[cfg(test)]
                if self.faults.skips_too_far {
                    cursor.seek(cursor.position().next());
                }
                self.turn.spend(SUMMARY_STEPS);
                true
            }
            Step::Lacks(after) => {
                let log = log.clone();
                self.streams.summarizer.add(&log, after);
                false
            }
        }
    }

    /// Let the segments of a stream that have been sealed be summarized.
    fn summarize(&mut self, queue: QueueId) {
        let Some(stream) = &mut self.queues[queue].stream else { return };
        let Some(log) = self.streams.log(stream.log).filter(|_| self.streams.numbers(stream.log).is_none()) else {
            return;
        };
        let sealed = log.last_sealed();
        if sealed > stream.summarized {
            let (log, after) = (log.clone(), std::mem::replace(&mut stream.summarized, sealed));
            self.streams.summarizer.add(&log, after);
        }
    }

    /// Deliver one record, if the reader wants it. Returns false if it has to wait for memory.
    fn read_record(
        &mut self,
        slot: ConsumerSlot,
        filter: Option<&ConsumerFilter>,
        (missed, named): (&mut u64, Option<&mut NamedReader>),
        sequence: Sequence,
        (bytes, shared): (&[u8], Option<&SharedBody>),
    ) -> bool {
        let Ok(record) = StreamRecord::decode(bytes) else {
            *missed += 1;
            self.report_lost(self.clients[slot].queue, format!("record {sequence} is no message"));
            return true;
        };
        if let Some(filter) = filter {
            let view = View::new(&mut self.streams.view, record.properties, record.body);
            let mut view = view.within(self.topology.limits());
            let is_match = filter.is_match(record.routing_key, &mut view, self.topology.hierarchies());
            let reading = view.reading();
            self.metrics.count_reading(reading);
            self.turn.spend((reading.spent_ns / STEP_NS) as u32);
            if !is_match {
                return true;
            }
        }
        if !self.has_memory_for(self.clients[slot].connection, bytes.len()) {
            return false;
        }
        let redelivered = named.is_some_and(|named| named.deliver(sequence));
        let properties = annotated(record.properties, sequence, std::mem::take(missed));
        let parts = Parts { properties: &properties, ..record.parts(bytes) };
        let shared = shared.map(|it| SharedBody { start: it.end - parts.body.len(), ..it.clone() });
        self.write_record(slot, sequence, (&parts, shared.as_ref()), redelivered);
        true
    }

    /// Deliver the record with this number to a reader that can take it.
    pub(super) fn write_record(
        &mut self,
        slot: ConsumerSlot,
        sequence: Sequence,
        (parts, shared): (&Parts<'_>, Option<&SharedBody>),
        redelivered: bool,
    ) {
        let output_bytes_max = self.output_bytes_max();
        let mut outlet = self.clients.outlet(slot);
        let tag = outlet.write(redelivered, parts, shared.cloned(), output_bytes_max);
        self.metrics.delivered += 1;
        self.metrics.redelivered += u64::from(redelivered);
        if outlet.consumer.no_ack {
            return;
        }
        let id = outlet.consumer.queue;
        let queue = &mut self.queues[id];
        queue.unacknowledged += 1;
        let entry = QueueEntry::new(sequence.0, MessageId::NONE, NEVER);
        let delivered = CoarseTime::at(self.clock.now());
        outlet.await_acknowledgement(slot, tag, entry, (queue.handle(id), delivered));
    }
}

/// The properties of a delivery: those of the message, its offset, and how many messages its reader has missed before. What
/// the publisher has written under these names is left out.
pub(super) fn annotated(properties: BasicProperties<'_>, sequence: Sequence, missed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(properties.as_bytes().len() + 64);
    let number = FieldValue::I64(sequence.0 as i64);
    let missed = (missed > 0).then(|| FieldValue::I64(i64::try_from(missed).unwrap_or(i64::MAX)));
    properties.encode_with_headers(&[(OFFSET, Some(&number)), (MISSED, missed.as_ref())], &mut bytes);
    bytes
}

/// The refusal of a stream that has no log, for this reason.
pub(crate) fn cannot_be_opened(name: &str, reason: &str) -> AmqpError {
    error(ReplyCode::ResourceError, &format!("the stream '{name}' cannot be opened: {reason}"))
}

/// The name of a log's directory: the characters of the queue's name that every file system accepts, and the number of
/// its definition, which no other queue ever has, not even one of the same name.
pub(crate) fn dir_name(name: &str, id: DefinitionId) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let plain: String = name.chars().filter(is_plain).take(64).collect();
    format!("{plain}.{}", id.0)
}

/// Whether this is the name of a log's directory.
pub(crate) fn is_dir_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, id)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

fn retention(policy: &Policy) -> Retention {
    let age_us_max = policy.age_max_s.map(|age| i64::try_from(age).unwrap_or(i64::MAX).saturating_mul(1_000_000));
    Retention { bytes_max: policy.bytes_max, age_us_max }
}

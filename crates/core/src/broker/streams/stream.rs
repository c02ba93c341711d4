//! Streams: queues that are logs. A message stays until retention takes it, however many have read it; its number is its
//! offset for ever, because it is shown to nobody before it is on disk.
//!
//! Readers are consumers with a place of their own: `x-stream-offset` (first, last, next, a number, a time) says where
//! they begin, `x-query` which messages they want. A reader has credit like any consumer and what it acknowledges only
//! gives that back; one that is slow reads from disk when it can, and nobody else notices. A reader that retention has
//! passed finds in the next message, as `x-stream-missed`, how many it missed.
//!
//! Reading is done in slices ([`Broker::work`]), so that a filter that finds nothing among millions stops nobody.

use std::fmt;
use std::path::{Path, PathBuf};

use hashbrown::HashSet;

use crate::amqp::method::BasicConsume;
use crate::amqp::{AmqpError, BasicProperties, FieldValue, RawTable, RawValue, ReplyCode};
use crate::journal::{self, Log, LogItem, Retention, Sequence, Start};

use crate::broker::Broker;
use crate::broker::connections::dispatch::error;
use crate::broker::consumers::deliver::put_delivery;
use crate::broker::consumers::unacknowledged::Delivery;
use crate::broker::durability::journaling::{Doomed, Journal};
use crate::broker::durable::DefinitionId;
use crate::broker::ids::{ChannelSlot, ConsumerSlot, Handle, LogId};
use crate::broker::management::event::Event;
use crate::broker::publishing::confirms::{SyncMark, SyncMarks};
use crate::broker::queues::message_store::{MessageId, Micros, NEVER, Parts};
use crate::broker::queues::policy::Policy;
use crate::broker::queues::queue::QueueEntry;
use crate::broker::streams::stream_record;
use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::topology::{ConsumerFilter, QueueId, View, check_query_arguments};

/// What is read for one reader before others have their turn.
const SLICE_BYTES: usize = 128 * 1024;
/// What may wait to be written of a stream before its publishers wait, as in the journal.
const CONGESTED_BYTES: usize = 16 << 20;
/// The smallest and largest segments that `x-stream-max-segment-size-bytes` may ask for.
const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 64 * 1024..=1 << 30;

/// The log of a queue of type stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its number among the broker's logs.
    pub number: LogId,
    pub dir: PathBuf,
    /// Readers that have read everything, and wait for more.
    waiting: Vec<ConsumerSlot>,
    /// How far it was synced when those were last woken.
    woken: Sequence,
}

/// A consumer's place in a stream.
pub(crate) struct StreamReader {
    reader: journal::LogReader,
    filter: Option<ConsumerFilter>,
    missed: u64,
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reader at {}", self.reader.position())
    }
}

impl Journal {
    /// Let the files of a log go, one by one, and then its directory.
    fn doom(&mut self, dir: &Path) {
        self.doomed.push(Doomed::Directory(dir.to_owned()));
        let names = self.disk.list(dir).unwrap_or_default();
        self.doomed.extend(names.into_iter().map(|name| Doomed::File(dir.join(name))));
    }
}

impl Broker {
    /// Open the log of a queue of type stream; a new one is empty.
    pub(crate) fn open_stream(&mut self, queue: QueueId, id: DefinitionId, name: &str) -> Result<(), String> {
        let Some(journal) = &mut self.journal else { return Err("there is no data directory".to_owned()) };
        let dir = journal.dir.join("streams").join(dir_name(name, id));
        let policy = &self.queues[queue].policy;
        let segment_bytes = policy.segment_bytes.unwrap_or(journal.segment_bytes.into());
        let options = journal::LogOptions {
            segment_bytes: segment_bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end()) as u32,
            retention: retention(policy),
            ..journal::LogOptions::default()
        };
        let opened = Log::open(std::sync::Arc::clone(&journal.disk), &dir, options, &journal.committer);
        let (log, recovery) = opened.map_err(|error| error.to_string())?;
        journal.damage.extend(recovery.damage);
        self.log_count += 1;
        let number = LogId(self.log_count);
        let woken = log.synced();
        self.logs.insert(number, log);
        self.queues[queue].stream = Some(Box::new(Stream { number, dir, waiting: Vec::new(), woken }));
        Ok(())
    }

    /// Drop the log of a stream that is deleted. Its files go one by one, later.
    pub(crate) fn drop_stream(&mut self, stream: &Stream) {
        self.logs.remove(&stream.number);
        let Some(journal) = &mut self.journal else { return };
        journal.doom(&stream.dir);
    }

    /// Remove one file of a stream that was deleted: some milliseconds. One that cannot be removed stays until the next
    /// start.
    pub(crate) fn remove_doomed(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        _ = match journal.doomed.pop() {
            Some(Doomed::File(path)) => journal.disk.remove(&path),
            Some(Doomed::Directory(path)) => journal.disk.remove_dir(&path),
            None => Ok(()),
        };
    }

    /// Doom the logs that no stream has, at the start: their queues were deleted, or never kept, and then the broker
    /// crashed. Only where all definitions could be read: a log whose queue is lost is the last that is left of it.
    pub(crate) fn doom_orphans(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let used: HashSet<&Path> =
            self.queues.iter().filter_map(|(_, queue)| Some(&*queue.stream.as_ref()?.dir)).collect();
        let streams = journal.dir.join("streams");
        // Where there has never been a stream there is no such directory.
        for name in journal.disk.list(&streams).unwrap_or_default() {
            let dir = streams.join(&name);
            if is_dir_name(&name) && !used.contains(&*dir) {
                journal.doom(&dir);
            }
        }
    }

    /// Append a message to the streams among the queues that it goes to.
    ///
    /// # Errors
    /// One of them has no room.
    pub(crate) fn append_to_streams(
        &mut self,
        parts: &Parts<'_>,
        queues: impl Iterator<Item = QueueId>,
        marks: &mut SyncMarks,
    ) -> Result<(), journal::AppendError> {
        let wall_us = self.wall_us();
        for queue in queues {
            let Some(stream) = &self.queues[queue].stream else { continue };
            let number = stream.number;
            let Some(log) = self.logs.get(&number) else { continue };
            let body = [parts.route, parts.properties, parts.body];
            let appended = log.append(stream_record::MESSAGE, wall_us, &[], &body)?;
            marks.push(SyncMark { log: number, sequence: appended.sequence.0 });
            if log.pending_bytes() > CONGESTED_BYTES && !self.pressed.contains(&number) {
                self.pressed.push(number);
                self.blocked.get_or_insert(crate::broker::publishing::backpressure::Shortage::Journal);
            }
            self.metrics.enqueued += 1;
            self.queues[queue].published += 1;
        }
        Ok(())
    }

    /// Consume from a stream: a reader with a place and a query of its own.
    pub(crate) fn read_stream(
        &mut self,
        channel: ChannelSlot,
        queue: QueueId,
        consume: &BasicConsume<'_>,
    ) -> Result<Option<Box<StreamReader>>, AmqpError> {
        let Some(stream) = &self.queues[queue].stream else { return Ok(None) };
        let refused = |reason: &str| error(ReplyCode::PreconditionFailed, reason);
        if consume.no_ack {
            return Err(error(ReplyCode::NotImplemented, "a stream has no consumers without acknowledgement"));
        }
        let it = &self.channels[channel];
        if it.prefetch == 0 && it.credit.limit() == 0 {
            let reason = format!("consumer prefetch count is not set for stream '{}'", consume.queue);
            return Err(refused(&reason));
        }
        check_query_arguments(consume.arguments)?;
        let control = &mut self.control;
        let filter = ConsumerFilter::parse(consume.arguments, &mut |key| control.stored_query(key))?;
        let log = self.logs.get(&stream.number).ok_or_else(|| refused("the stream is gone"))?;
        let start = start(consume.arguments, log, self.now, self.wall_offset)
            .map_err(|reason| refused(&format!("invalid arg 'x-stream-offset' of a consumer: {reason}")))?;
        let reader = log.reader(start).map_err(|error| refused(&error.to_string()))?;
        Ok(Some(Box::new(StreamReader { reader, filter, missed: 0 })))
    }

    /// A reader may be able to go on.
    pub(crate) fn wake_reader(&mut self, number: ConsumerSlot) {
        if !self.consumers[number].is_waiting && self.can_take(number) {
            self.consumers[number].is_waiting = true;
            self.readers.push(Handle { id: number, serial: self.consumers[number].serial });
        }
    }

    /// Logs may have been synced further: wake those who wait for that, and see which have caught up with their
    /// publishers.
    pub(crate) fn wake_streams(&mut self) {
        let mut woken = Vec::new();
        for number in &self.stream_queues {
            let Some(stream) = self.queues.get_mut(*number).and_then(|queue| queue.stream.as_mut()) else { continue };
            let Some(log) = self.logs.get(&stream.number) else { continue };
            let synced = log.synced();
            if synced > stream.woken {
                stream.woken = synced;
                woken.append(&mut stream.waiting);
            }
        }
        for number in woken {
            if self.consumers.get(number).is_some_and(|consumer| consumer.reader.is_some()) {
                self.wake_reader(number);
            }
        }
        let logs = &self.logs;
        self.pressed.retain(|number| logs.get(number).is_some_and(|log| log.pending_bytes() > CONGESTED_BYTES / 2));
    }

    /// Whether something was put off, frames or reading: call [`Broker::work`] when nothing else is waiting.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.resting.is_empty() || !self.readers.is_empty() || !self.rubbish.is_empty()
    }

    /// Go on with what was put off, for a millisecond or two.
    pub fn work(&mut self, now: Micros) {
        self.advance(now);
        self.next_turn();
        self.finish();
    }

    /// Give each reader that can go on its turn, once.
    pub(crate) fn read_streams(&mut self) {
        for Handle { id: number, serial } in std::mem::take(&mut self.readers) {
            if self.consumers.get(number).is_some_and(|consumer| consumer.serial == serial) {
                self.consumers[number].is_waiting = false;
                self.read_slice(number);
            }
        }
    }

    /// Deliver to one reader until it has read its slice, or everything, or has no credit.
    fn read_slice(&mut self, number: ConsumerSlot) {
        let Some(mut reader) = self.consumers[number].reader.take() else { return };
        let mut left = SLICE_BYTES;
        let mut has_more = true;
        while has_more && left > 0 && self.can_take(number) {
            let queue = self.consumers[number].queue;
            match reader.reader.next() {
                Ok(Some(LogItem::Record(record))) => {
                    left = left.saturating_sub(record.body.len() + 32);
                    self.read_record(number, &reader.filter, &mut reader.missed, record.sequence, record.body);
                }
                Ok(Some(LogItem::Missed(first, last))) => reader.missed += last.0 - first.0 + 1,
                Ok(Some(LogItem::Damaged(damage))) => {
                    reader.missed += damage.last.0 - damage.first.0 + 1;
                    self.report_lost(queue, format!("numbers {} to {} are damaged", damage.first, damage.last));
                }
                Ok(None) => has_more = false,
                Err(error) => {
                    self.report_lost(queue, error.to_string());
                    has_more = false;
                }
            }
        }
        self.consumers[number].reader = Some(reader);
        if has_more {
            self.wake_reader(number);
        } else {
            let queue = self.consumers[number].queue;
            if let Some(stream) = &mut self.queues[queue].stream
                && !stream.waiting.contains(&number)
            {
                stream.waiting.push(number);
            }
        }
    }

    fn report_lost(&mut self, queue: QueueId, reason: String) {
        self.metrics.lost += 1;
        let name = self.topology.queue_info(self.queues[queue].id).map_or("", |info| info.name).to_owned();
        self.events.push(Event::MessageLost { queue: name, reason });
    }

    /// Deliver one record, if the reader wants it.
    fn read_record(
        &mut self,
        number: ConsumerSlot,
        filter: &Option<ConsumerFilter>,
        missed: &mut u64,
        sequence: Sequence,
        bytes: &[u8],
    ) {
        let Ok(record) = StreamRecord::decode(bytes) else {
            *missed += 1;
            return self.report_lost(self.consumers[number].queue, format!("record {sequence} is no message"));
        };
        if let Some(filter) = filter {
            let mut view = View::new(&mut self.view, record.properties, record.body);
            if !filter.is_match(record.routing_key, &mut view) {
                return;
            }
        }
        let Self { connections, channels, consumers, queues, dirty, metrics, .. } = self;
        let consumer = &mut consumers[number];
        let channel = &mut channels[consumer.channel];
        let connection = &mut connections[consumer.connection];
        let properties = annotated(record.properties, sequence, std::mem::take(missed));
        let route = &bytes[..2 + record.exchange.len() + record.routing_key.len()];
        let parts = Parts { route, properties: &properties, body: record.body };
        channel.delivery_tag += 1;
        let tag = channel.delivery_tag;
        let frame_max = connection.frame_max as usize;
        put_delivery(&mut connection.out, channel.number, &consumer.tag, tag, false, &parts, frame_max);
        metrics.delivered += 1;
        connection.is_congested |= connection.out.len() >= self.options.output_bytes_max;
        if !connection.is_dirty {
            connection.is_dirty = true;
            dirty.push(consumer.connection);
        }
        consumer.credit.take();
        channel.credit.take();
        let queue = &mut queues[consumer.queue];
        queue.unacknowledged += 1;
        let entry = QueueEntry::new(sequence.0, MessageId::NONE, NEVER);
        let queue = Handle { id: consumer.queue, serial: queue.serial };
        channel.unacknowledged.push(Delivery { tag, entry, queue, consumer: Some(consumer.handle(number)) });
    }

    /// How many messages a stream has.
    pub(crate) fn stream_length(&self, stream: &Stream) -> u64 {
        let log = self.logs.get(&stream.number);
        log.map_or(0, |log| log.next_sequence().0.saturating_sub(log.first_sequence().0))
    }

    /// Retention by age.
    pub(crate) fn expire_streams(&mut self) {
        let wall_us = self.wall_us();
        for number in &self.stream_queues {
            if let Some(queue) = self.queues.get(*number)
                && queue.policy.age_max_s.is_some()
                && let Some(stream) = &queue.stream
                && let Some(log) = self.logs.get(&stream.number)
            {
                log.expire(wall_us);
            }
        }
    }
}

/// The properties of a delivery: those of the message, and where it stands.
fn annotated(properties: BasicProperties<'_>, sequence: Sequence, missed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(properties.as_bytes().len() + 64);
    properties.encode_with_header("x-stream-offset", &FieldValue::I64(sequence.0 as i64), &mut bytes);
    if missed == 0 {
        return bytes;
    }
    let mut with_missed = Vec::with_capacity(bytes.len() + 32);
    let missed = FieldValue::I64(i64::try_from(missed).unwrap_or(i64::MAX));
    BasicProperties::from_checked(&bytes).encode_with_header("x-stream-missed", &missed, &mut with_missed);
    with_missed
}

/// A directory's name: what of the queue's name a file system takes, and the number of its definition, which no other
/// queue ever has, not even one of the same name.
fn dir_name(name: &str, id: DefinitionId) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    let plain: String = name.chars().filter(is_plain).take(64).collect();
    format!("{plain}.{}", id.0)
}

/// Whether this is the name of a log's directory, and not of something else that somebody put there.
fn is_dir_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, id)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
}

fn retention(policy: &Policy) -> Retention {
    let age_us_max = policy.age_max_s.map(|age| i64::try_from(age).unwrap_or(i64::MAX).saturating_mul(1_000_000));
    Retention { bytes_max: policy.bytes_max, age_us_max }
}

/// Where `x-stream-offset` says that a reader begins; without it, behind the last message.
fn start(arguments: RawTable<'_>, log: &Log, now: Micros, wall_offset: i64) -> Result<Start, String> {
    const EXPECTED: &str = "expected first, last, next, a number, a timestamp, or an age as in '1h'";
    let number = |number: i64| u64::try_from(number).map(|number| Start::Sequence(Sequence(number)));
    match arguments.get("x-stream-offset") {
        None => Ok(Start::Next),
        Some(RawValue::Timestamp(seconds)) => {
            Ok(Start::Time(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000)))
        }
        Some(value) => match (value.as_str(), value.as_i64()) {
            (Some("first"), _) => Ok(Start::First),
            (Some("last"), _) => Ok(Start::Sequence(log.synced())),
            (Some("next"), _) => Ok(Start::Next),
            (_, Some(value)) => number(value).map_err(|_| EXPECTED.to_owned()),
            _ => {
                let age_s = crate::broker::queues::policy::age_s(value).map_err(|_| EXPECTED.to_owned())?;
                let wall_us = (now as i64).wrapping_add(wall_offset);
                let age_us = i64::try_from(age_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
                Ok(Start::Time(wall_us.saturating_sub(age_us)))
            }
        },
    }
}

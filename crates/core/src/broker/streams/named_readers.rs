//! Named readers: the broker keeps the offset of each, and it resumes there, whoever it is then and after every restart.
//!
//! An offset is the number of the first message that was not acknowledged, and is recorded as a definition that goes with its
//! stream: before the first delivery, at most a tick after an acknowledgement, and at once when the reader goes. After a crash
//! a reader may get again what it acknowledged within that time, and never misses anything. What may have been delivered
//! before is marked as redelivered: up to the last number that was delivered, or after a crash up to the end of the stream.

use hashbrown::HashMap;

use crate::amqp::method::BasicConsume;
use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::Sequence;

use crate::broker::Broker;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConsumerSlot, Handle};
use crate::broker::streams::cursor::Cursor;
use crate::broker::streams::reader_offset::{NamedReader, ReaderOffset, ReaderOverview, RecordedOffset};
use crate::broker::topology::{Definition, DefinitionKey, NOBODY, QueueId, QueueInfo, TopologyChange};

/// The argument of a consumer that names a reader.
pub(crate) const READER: &str = "x-stream-reader";
/// The maximum number of named readers of a stream.
pub(crate) const READERS_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 255;
/// The maximum number of offsets that are recorded in one tick.
const RECORDED_AT_ONCE: usize = 100;

impl Broker {
    /// The name of the reader that a consumer wants to be; None where it wants none.
    ///
    /// # Errors
    /// 405 while another consumer reads under this name; 406 for a name that cannot be, or too many of them.
    pub(super) fn reader_name(
        &self,
        queue: QueueId,
        consume: &BasicConsume<'_>,
    ) -> Result<Option<Box<str>>, AmqpError> {
        let Some(value) = consume.arguments.get(READER) else { return Ok(None) };
        let refused = |reason: &str| {
            error(ReplyCode::PreconditionFailed, &format!("invalid arg '{READER}' of a consumer: {reason}"))
        };
        let name = value.as_str().filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
        let name = name.ok_or_else(|| refused("expected a name of 1 to 255 bytes"))?;
        let Some(stream) = &self.queues[queue].stream else { return Ok(None) };
        if self.streams.numbers(stream.log).is_some() {
            return Err(refused("the stream keeps no history to go on in"));
        }
        match stream.offsets.get(name) {
            Some(offset) if offset.is_read => {
                let reason = format!("reader '{name}' of stream '{}' is read by another consumer", consume.queue);
                Err(error(ReplyCode::ResourceLocked, &reason))
            }
            None if stream.offsets.len() >= READERS_MAX => {
                Err(refused(&format!("the stream has {READERS_MAX} named readers already: forget some")))
            }
            _ => Ok(Some(name.into())),
        }
    }

    /// The offset at which a named reader resumes, after all that was acknowledged under its name; None for a new one.
    pub(super) fn offset_of(&mut self, queue: QueueId, name: &str) -> Option<Sequence> {
        let left_by = self.queues[queue].stream.as_mut()?.offsets.get_mut(name)?.left_by;
        if left_by.is_some_and(|id| self.record_left(id)) {
            self.record_changes();
        }
        Some(self.queues[queue].stream.as_ref()?.offsets.get(name)?.recorded?.next)
    }

    /// Begin to read under a name. The answer to the client, and with it all deliveries, waits until the offset is recorded.
    pub(super) fn begin_named(&mut self, queue: QueueId, name: Box<str>, cursor: &Cursor) -> Option<Box<NamedReader>> {
        let offset = self.queues[queue].stream.as_mut()?.offsets.entry(name.clone()).or_default();
        (offset.is_read, offset.left_by) = (true, None);
        #[cfg(test)]
        if self.faults.forgets_delivered {
            offset.delivered = Sequence(0);
        }
        let named = NamedReader::new(name, offset.delivered);
        // One that looks for a time begins there again after a crash.
        if !cursor.awaits_time() {
            let recorded = RecordedOffset { next: cursor.position(), delivered: None };
            if self.record_offset(queue, &named.name, recorded) {
                self.record_changes();
            }
        }
        Some(Box::new(named))
    }

    /// Note that a delivery to a consumer was acknowledged on its channel.
    pub(crate) fn settle_for_reader(&mut self, channel: ChannelSlot, consumer: Handle<ConsumerSlot>, sequence: u64) {
        let Some(it) = self.clients.consumer_of(consumer) else {
            return self.settle_for_left(channel, consumer, sequence);
        };
        let Some(named) = it.reader.as_mut().and_then(|reader| reader.named.as_mut()) else { return };
        named.settle(Sequence(sequence));
        if !std::mem::replace(&mut named.is_listed, true) {
            self.streams.push_acknowledged((self.clients[channel].handle(channel), consumer));
        }
    }

    /// Record the offsets of named readers that have acknowledged something.
    pub(crate) fn record_offsets(&mut self) {
        let mut is_any = false;
        for _ in 0..RECORDED_AT_ONCE {
            let Some(id @ (_, handle)) = self.streams.next_acknowledged() else { break };
            let Some(consumer) = self.clients.consumer_of(handle) else {
                is_any |= self.record_left(id);
                continue;
            };
            if let Some(named) = consumer.reader.as_mut().and_then(|reader| reader.named.as_mut()) {
                named.is_listed = false;
                let consumer = &self.clients[handle.id];
                let (queue, next) = (consumer.queue, self.next_of(consumer));
                is_any |= next.is_some_and(|(name, next)| {
                    self.record_offset(queue, &name, RecordedOffset { next, delivered: None })
                });
            }
        }
        if is_any {
            self.record_changes();
        }
    }

    /// Record the offset of a consumer that goes, which was in this slot.
    pub(crate) fn record_last_offset(&mut self, consumer: &mut Consumer, slot: ConsumerSlot) {
        let Some(named) = consumer.reader.as_ref().and_then(|reader| reader.named.as_ref()) else { return };
        let offset =
            self.queues.get_mut(consumer.queue).and_then(|queue| queue.stream.as_mut()?.offsets.get_mut(&named.name));
        let Some(offset) = offset else { return };
        (offset.is_read, offset.delivered) = (false, named.delivered());
        let Some((name, next)) = self.next_of(consumer) else { return };
        let recorded = RecordedOffset { next, delivered: Some(named.delivered()) };
        if self.record_offset(consumer.queue, &name, recorded) {
            self.record_changes();
        }
        let has_unsettled =
            consumer.reader.as_ref().and_then(|reader| reader.named.as_ref()?.first_unsettled()).is_some();
        if has_unsettled && let Some(position) = self.resumed_at(consumer) {
            self.keep_left(consumer, slot, position);
        }
    }

    /// The offset of a consumer that is a named reader; None while it looks for the time that it begins at.
    fn next_of(&self, consumer: &Consumer) -> Option<(Box<str>, Sequence)> {
        let reader = consumer.reader.as_ref()?;
        let named = reader.named.as_ref()?;
        let next = match named.first_unsettled() {
            #[cfg(test)]
            Some(_) if self.faults.forgets_unacknowledged => reader.cursor.position(),
            Some(first) => first,
            None => self.resumed_at(consumer)?,
        };
        Some((named.name.clone(), next))
    }

    /// The offset of a consumer that has acknowledged everything; None while it looks for the time that it begins at.
    fn resumed_at(&self, consumer: &Consumer) -> Option<Sequence> {
        let reader = consumer.reader.as_ref()?;
        let position = reader.cursor.position();
        let tail = || self.queues.get(consumer.queue)?.stream.as_ref()?.live.as_ref()?.tail.next();
        match reader.is_live {
            _ if reader.cursor.awaits_time() => None,
            true => Some(tail().map_or(position, |next| next.max(position))),
            false => Some(position),
        }
    }

    /// Record an offset, if it has changed. Returns whether it has.
    pub(super) fn record_offset(&mut self, queue: QueueId, name: &str, recorded: RecordedOffset) -> bool {
        let Some(info) = self.topology.queue_info(queue) else { return false };
        let QueueInfo { vhost, name: stream, .. } = info;
        let definition = Definition::Reader {
            vhost: self.name_of(vhost),
            stream: stream.to_owned(),
            name: name.to_owned(),
            next: recorded.next.0,
            delivered: recorded.delivered.map(|delivered| delivered.0),
        };
        let Some(offset) = self.queues[queue].stream.as_mut().and_then(|stream| stream.offsets.get_mut(name)) else {
            return false;
        };
        if offset.recorded.replace(recorded) == Some(recorded) {
            return false;
        }
        // Without room, a crash takes the reader back to the offset that was recorded last.
        self.durability.add_change(TopologyChange::Added(definition))
    }

    /// Take the offset of a named reader that was recovered. If it was reading, everything may have been delivered to it.
    pub(crate) fn recover_offset(&mut self, queue: QueueId, name: &str, next: u64, delivered: Option<u64>) {
        let Some(stream) = &mut self.queues[queue].stream else { return };
        let recorded = RecordedOffset { next: Sequence(next), delivered: delivered.map(Sequence) };
        let end = self.streams.synced(stream.log).unwrap_or_default();
        let delivered = recorded.delivered.unwrap_or(end);
        stream
            .offsets
            .insert(name.into(), ReaderOffset { recorded: Some(recorded), delivered, is_read: false, left_by: None });
    }

    /// Forget the offset of a named reader. Returns whether there was one.
    ///
    /// # Errors
    /// A consumer reads under this name.
    pub fn forget_reader(&mut self, vhost: &str, stream: &str, name: &str) -> Result<bool, String> {
        let queue = self.topology.vhost(vhost).and_then(|vhost| self.topology.queue(vhost, stream, NOBODY).ok());
        let Some(it) = queue.and_then(|queue| self.queues[queue].stream.as_mut()) else { return Ok(false) };
        match it.offsets.get(name) {
            None => Ok(false),
            Some(offset) if offset.is_read => Err(format!("a consumer reads stream '{stream}' as '{name}'")),
            Some(_) => {
                let key = DefinitionKey::reader(vhost, stream, name);
                if !self.durability.add_change(TopologyChange::Removed(key)) {
                    return Err("low on disk: nothing can be forgotten now".to_owned());
                }
                it.offsets.remove(name);
                self.record_changes();
                Ok(true)
            }
        }
    }

    /// The named readers of a stream, by name.
    pub(crate) fn readers_of(&self, queue: QueueId) -> Vec<ReaderOverview> {
        let Some(stream) = &self.queues[queue].stream else { return Vec::new() };
        let Some(log) = self.streams.log(stream.log) else { return Vec::new() };
        let end = log.synced().next();
        let of = |name: &str, next: Sequence, is_reading| ReaderOverview {
            name: name.to_owned(),
            next: next.0,
            lag: end.0.saturating_sub(next.0),
            is_reading,
        };
        let consumers = self.queues[queue].consumers.iter().filter_map(|slot| self.clients.consumer_in(*slot));
        let reading: HashMap<_, _> = consumers.filter_map(|consumer| self.next_of(consumer)).collect();
        let recorded = stream.offsets.iter().filter(|(name, _)| !reading.contains_key(*name));
        let recorded = recorded.filter_map(|(name, offset)| Some(of(name, offset.recorded?.next, offset.is_read)));
        let mut readers: Vec<_> = recorded.chain(reading.iter().map(|(name, next)| of(name, *next, true))).collect();
        readers.sort_by(|a, b| a.name.cmp(&b.name));
        readers
    }
}

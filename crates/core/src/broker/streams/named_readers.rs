//! Named readers: the broker keeps the offset of each, and it resumes there, whoever it is then and after every restart.
//!
//! An offset is the number of the first message that was not acknowledged, and is recorded as a definition that goes with its
//! stream: at most a tick after an acknowledgement, and at once when the reader goes. After a crash a reader may get again
//! what it acknowledged within that time, and never misses anything.

use crate::amqp::method::BasicConsume;
use crate::amqp::{AmqpError, ReplyCode};
use crate::journal::Sequence;

use crate::broker::Broker;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::errors::error;
use crate::broker::ids::{ConsumerSlot, Handle};
use crate::broker::streams::reader_offset::{ReaderOffset, ReaderOverview};
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

    /// The offset at which a named reader resumes; None for a new one.
    pub(super) fn offset_of(&self, queue: QueueId, name: &str) -> Option<Sequence> {
        self.queues[queue].stream.as_ref()?.offsets.get(name)?.next
    }

    /// Note that a delivery to a consumer was acknowledged.
    pub(crate) fn settle_for_reader(&mut self, consumer: Handle<ConsumerSlot>, sequence: u64) {
        let reader = self.clients.consumer_of(consumer).and_then(|it| it.reader.as_mut());
        let Some(named) = reader.and_then(|reader| reader.named.as_mut()) else { return };
        named.settle(Sequence(sequence));
        if !std::mem::replace(&mut named.is_listed, true) {
            self.streams.push_acknowledged(consumer);
        }
    }

    /// Record the offsets of named readers that have acknowledged something.
    pub(crate) fn record_offsets(&mut self) {
        let mut is_any = false;
        for _ in 0..RECORDED_AT_ONCE {
            let Some(handle) = self.streams.next_acknowledged() else { break };
            let Some(consumer) = self.clients.consumer_of(handle) else { continue };
            if let Some(named) = consumer.reader.as_mut().and_then(|reader| reader.named.as_mut()) {
                named.is_listed = false;
                let consumer = &self.clients[handle.id];
                is_any |= self.record_offset(consumer.queue, self.next_of(consumer));
            }
        }
        if is_any {
            self.record_changes();
        }
    }

    /// Record the offset of a consumer that goes.
    pub(crate) fn record_last_offset(&mut self, consumer: &Consumer) {
        let Some(named) = consumer.reader.as_ref().and_then(|reader| reader.named.as_ref()) else { return };
        let offset =
            self.queues.get_mut(consumer.queue).and_then(|queue| queue.stream.as_mut()?.offsets.get_mut(&named.name));
        let Some(offset) = offset else { return };
        offset.is_read = false;
        if self.record_offset(consumer.queue, self.next_of(consumer)) {
            self.record_changes();
        }
    }

    /// The offset of a consumer that is a named reader; None while it looks for the time that it begins at.
    fn next_of(&self, consumer: &Consumer) -> Option<(Box<str>, Sequence)> {
        let reader = consumer.reader.as_ref()?;
        let named = reader.named.as_ref()?;
        let position = reader.cursor.position();
        let tail = || self.queues.get(consumer.queue)?.stream.as_ref()?.live.as_ref()?.tail.next();
        let next = match named.first_unsettled() {
            #[cfg(test)]
            Some(_) if self.faults.forgets_unacknowledged => position,
            Some(first) => first,
            None if reader.cursor.awaits_time() => return None,
            None if reader.is_live => tail().map_or(position, |next| next.max(position)),
            None => position,
        };
        Some((named.name.clone(), next))
    }

    /// Record an offset, if it has changed. Returns whether it has.
    fn record_offset(&mut self, queue: QueueId, offset: Option<(Box<str>, Sequence)>) -> bool {
        let Some((name, next)) = offset else { return false };
        let Some(info) = self.topology.queue_info(queue) else { return false };
        let QueueInfo { vhost, name: stream, .. } = info;
        let definition = Definition::Reader {
            vhost: self.name_of(vhost),
            stream: stream.to_owned(),
            name: name.to_string(),
            next: next.0,
        };
        let Some(offset) = self.queues[queue].stream.as_mut().and_then(|stream| stream.offsets.get_mut(&name)) else {
            return false;
        };
        if offset.next.replace(next) == Some(next) {
            return false;
        }
        // Without room, a crash takes the reader back to the offset that was recorded last.
        self.durability.add_change(TopologyChange::Added(definition))
    }

    /// Take the offset of a named reader that was recovered.
    pub(crate) fn recover_offset(&mut self, queue: QueueId, name: &str, next: u64) {
        if let Some(stream) = &mut self.queues[queue].stream {
            stream.offsets.insert(name.into(), ReaderOffset { next: Some(Sequence(next)), is_read: false });
        }
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
        let mut readers: Vec<_> =
            stream.offsets.iter().filter_map(|(name, offset)| Some(of(name, offset.next?, offset.is_read))).collect();
        for consumer in self.queues[queue].consumers.iter().filter_map(|slot| self.clients.consumer_in(*slot)) {
            if let Some((name, next)) = self.next_of(consumer) {
                readers.retain(|reader| *reader.name != *name);
                readers.push(of(&name, next, true));
            }
        }
        readers.sort_by(|a, b| a.name.cmp(&b.name));
        readers
    }
}

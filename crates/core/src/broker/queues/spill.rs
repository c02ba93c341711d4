//! What does not fit into memory waits on disk.
//!
//! Above half of the watermark, messages that come leave memory as soon as the journal has them: those that are
//! recorded anyway need nothing for it, others are written there first. Above three quarters, older ones go too. A
//! message that is delivered from disk is read for that, and not kept. Above the watermark itself publishers are
//! blocked (`blocking.rs`): places in queues take memory too.

use crate::amqp::BasicProperties;
use crate::broker::Rubbish;

use crate::broker::Broker;
use crate::broker::durable::Content;
use crate::broker::management::event::Event;
use crate::broker::queues::message_store::{Kept, MessageId};
use crate::broker::topology::QueueId;

/// How many older messages leave memory with each that comes: more than one, so that they are soon gone.
const OLDER_EACH: usize = 2;

/// Among how many, for each of them, so that the work for one message has a bound.
const OLDER_LOOKED_AT: u32 = 16;

/// Why a message cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undeliverable {
    /// Its record cannot be read.
    Lost,
    /// It came back from the journal after a restart, and its own time has run out.
    Expired,
}

impl Broker {
    /// More is in memory than should stay there.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.memory_bytes() > self.options.memory_bytes_max / 2
    }

    /// A message was put into queues: when memory is crowded, see to it that it can leave, and older ones with it.
    #[inline]
    pub(crate) fn page_out(&mut self, message: MessageId) {
        if self.journal.is_none() || !self.is_crowded() {
            return;
        }
        if self.messages.find(message).is_some() {
            self.make_evictable(message);
        }
        if self.messages.resident_bytes() > self.options.memory_bytes_max / 4 * 3 {
            for _ in 0..OLDER_EACH {
                if let Some(older) = self.messages.next_resident(&mut self.paged_to, OLDER_LOOKED_AT) {
                    self.make_evictable(older);
                }
            }
        }
    }

    /// See to it that a message can leave memory.
    fn make_evictable(&mut self, message: MessageId) {
        let wall_us = self.wall_us();
        let Some(journal) = &mut self.journal else { return };
        let references = self.messages.references(message);
        let it = self.messages.get(message);
        let Some(parts) = it.parts() else { return };
        if it.kept == Kept::Nowhere {
            let content = Content { route: parts.route, properties: parts.properties, body: parts.body };
            // Without room it stays in memory, and counts there.
            let Ok(saved) = journal.durable.spill(content, references, wall_us) else { return };
            let it = self.messages.get_mut(message);
            it.kept = Kept::Spilled(saved.record);
            it.sequence = saved.sequence.0;
        }
        let sequence = self.messages.get(message).sequence;
        if let Some(journal) = &mut self.journal {
            journal.evictable.push_back((message, sequence));
        }
    }

    /// Let messages leave memory that are on disk by now, while it is crowded.
    pub(crate) fn evict(&mut self) {
        while let Some(journal) = &mut self.journal
            && let Some((message, sequence)) = journal.evictable.front().copied()
            && journal.durable.synced().0 >= sequence
        {
            journal.evictable.pop_front();
            if self.is_crowded()
                && let Some(it) = self.messages.find(message)
                // The number may be another message's by now, which has another record.
                && it.sequence == sequence
                && it.kept != Kept::Nowhere
            {
                self.messages.evict(message);
            }
        }
    }

    /// See to it that a message can be delivered: its bytes are in memory, or, when this is false, in `loaded`.
    #[inline]
    pub(crate) fn prepare(&mut self, queue: QueueId, message: MessageId) -> Result<bool, Undeliverable> {
        if self.messages.get(message).is_resident() { Ok(true) } else { self.load(queue, message).map(|()| false) }
    }

    fn load(&mut self, queue: QueueId, message: MessageId) -> Result<(), Undeliverable> {
        let mut buffer = std::mem::take(&mut self.load_buffer);
        let result = self.load_into(message, &mut buffer);
        self.load_buffer = buffer;
        result.map_err(|reason| {
            self.metrics.lost += 1;
            let name = self.topology.queue_info(self.queues[queue].id).map_or("", |info| info.name).to_owned();
            self.events.push(Event::MessageLost { queue: name, reason });
            Undeliverable::Lost
        })?;
        let it = self.messages.get(message);
        if it.is_recovered && self.is_out_of_time(it.parts_of(&self.loaded).properties, it.time_us) {
            self.metrics.expired += 1;
            return Err(Undeliverable::Expired);
        }
        Ok(())
    }

    fn load_into(&mut self, message: MessageId, buffer: &mut Vec<u8>) -> Result<(), String> {
        let it = self.messages.get(message);
        let (Kept::Saved { record, .. } | Kept::Spilled(record)) = it.kept else {
            return Err("it is nowhere".to_owned());
        };
        let Some(journal) = &self.journal else { return Err("there is no journal".to_owned()) };
        let content = journal.durable.load(record, buffer).map_err(|error| error.to_string())?;
        self.loaded.clear();
        for part in [content.route, content.properties, content.body] {
            self.loaded.extend_from_slice(part);
        }
        if self.loaded.len() == it.size() { Ok(()) } else { Err("its record has another size".to_owned()) }
    }

    /// Only the properties, which only the journal had, tell when the time of a recovered message runs out.
    fn is_out_of_time(&self, properties: &[u8], time_us: i64) -> bool {
        let expiration =
            BasicProperties::from_checked(properties).expiration().and_then(|text| text.parse::<u32>().ok());
        expiration.is_some_and(|milliseconds| time_us + i64::from(milliseconds) * 1000 <= self.wall_us())
    }

    /// Bring a message back into memory. One that cannot be read stays away, and is lost for whoever has it.
    pub(crate) fn restore(&mut self, message: MessageId) {
        let mut buffer = std::mem::take(&mut self.load_buffer);
        if self.load_into(message, &mut buffer).is_ok() {
            let bytes = self.loaded.clone();
            self.messages.restore(message, bytes);
        }
        self.load_buffer = buffer;
    }

    /// Let go some of the entries that nobody can reach.
    pub(crate) fn sweep(&mut self) {
        for _ in 0..crate::broker::RUBBISH_AT_ONCE {
            let Some(Rubbish { entries, durable_id }) = self.rubbish.front_mut() else { return };
            let durable_id = *durable_id;
            match entries.pop_front() {
                Some(entry) => {
                    if let Some(queue) = durable_id {
                        self.settle_record(queue, entry.message);
                    }
                    self.release(entry.message);
                }
                None => drop(self.rubbish.pop_front()),
            }
        }
    }
}

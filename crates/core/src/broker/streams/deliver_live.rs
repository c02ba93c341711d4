//! Live readers: they are at the end of their stream, and get each message from memory as soon as its number is safe.
//!
//! A reader that has read everything becomes live when the [`Tail`] has all that comes after its offset. All live readers of
//! a stream are one [`ReaderTable`]. One that cannot take what it asks for falls back to the log, at that message, and
//! returns when it has read everything again; nobody else notices. All of them fall back when they are too slow together for
//! the memory, or when a message takes too long to be matched: then each reads it alone.

use std::sync::Arc;

use crate::journal::{RecordBody, Sequence};

use crate::broker::Broker;
use crate::broker::connections::turn::STEP_NS;
use crate::broker::consumers::consumer::Consumer;
use crate::broker::ids::ConsumerSlot;
use crate::broker::parts::Parts;
use crate::broker::queues::message_bytes::SharedBody;
use crate::broker::streams::live_readers::LiveReaders;
use crate::broker::streams::reading::annotated;
use crate::broker::streams::stream::Stream;
use crate::broker::streams::stream_record::StreamRecord;
use crate::broker::streams::tail::{Front, Tail};
use crate::broker::topology::{QueueId, View};

impl Broker {
    /// Let a reader that has read everything get what comes from memory. False when there is something between its offset
    /// and the tail.
    pub(super) fn go_live(&mut self, slot: ConsumerSlot) -> bool {
        let queue = self.clients[slot].queue;
        let Some(stream) = &mut self.queues[queue].stream else { return false };
        let Some(next) = self.streams.next_sequence(stream.log) else { return false };
        let live = stream.live.get_or_insert_default();
        if live.tail.next().is_none() {
            live.tail.begin(next);
        }
        let Some(reader) = &mut self.clients[slot].reader else { return false };
        let position = reader.cursor.position();
        let is_behind = live.tail.next().is_none_or(|next| position < next);
        #[cfg(test)]
        let is_behind = is_behind && !self.faults.goes_live_early;
        if is_behind || reader.cursor.awaits_time() {
            return false;
        }
        reader.cursor.seek(position); // it has no file open while it is live
        reader.is_live = true;
        live.count += 1;
        if !std::mem::replace(&mut reader.is_listed, true) {
            live.table.set_hierarchies(self.topology.shared_hierarchies());
            live.table.add(slot, reader.filter());
        }
        true
    }

    /// Take a consumer that goes out of the readers of its stream.
    pub(crate) fn leave_stream(&mut self, slot: ConsumerSlot, consumer: &Consumer) {
        let Some(reader) = &consumer.reader else { return };
        let stream = self.queues.get_mut(consumer.queue).and_then(|queue| queue.stream.as_mut());
        let Some(live) = stream.and_then(|stream| stream.live.as_mut()) else { return };
        live.count -= usize::from(reader.is_live);
        if reader.is_listed {
            live.table.remove(slot, reader.filter());
        }
    }

    /// Forget what a stream that is deleted has for its live readers.
    pub(super) fn drop_live(&mut self, stream: &Stream) {
        let size_bytes = stream.live.as_ref().map_or(0, |live| live.tail.size_bytes());
        self.streams.count_tail(size_bytes, 0);
    }

    /// Let all live readers follow the hierarchies of the topology.
    pub(crate) fn set_hierarchies_of_readers(&self) {
        for queue in self.streams.queues().iter().filter_map(|id| self.queues.get(*id)) {
            if let Some(live) = queue.stream.as_ref().and_then(|stream| stream.live.as_ref()) {
                live.table.set_hierarchies(self.topology.shared_hierarchies());
            }
        }
    }

    /// Keep a record for the live readers of a stream. They fall back to the log when too much waits for them.
    pub(super) fn keep_for_live(&mut self, queue: QueueId, record: RecordBody<'_>) {
        let Some(stream) = &mut self.queues[queue].stream else { return };
        let Some(live) = stream.live.as_mut().filter(|live| live.tail.next().is_some()) else { return };
        let before = live.tail.size_bytes();
        match record {
            RecordBody::Parts(parts) => live.tail.push(parts),
            RecordBody::Shared(bytes, _) => live.tail.push_shared(bytes),
        }
        if !self.streams.count_tail(before, live.tail.size_bytes()) {
            self.fall_back_largest();
        }
    }

    /// Let the live readers of the stream that keeps the most for them read on in its log: it is not the others' fault.
    /// Cost: some nanoseconds per stream.
    #[cold]
    fn fall_back_largest(&mut self) {
        let live_of = |queue: &QueueId| self.queues.get(*queue)?.stream.as_ref()?.live.as_ref();
        let size_bytes = |queue: &QueueId| live_of(queue).map_or(0, |live| live.tail.size_bytes());
        let Some(queue) = self.streams.queues().iter().copied().max_by_key(size_bytes) else { return };
        let stream = self.queues.get_mut(queue).and_then(|queue| queue.stream.as_mut());
        if let Some(mut live) = stream.and_then(|stream| stream.live.take()) {
            self.fall_back(queue, &mut live);
            self.put_live(queue, live);
        }
    }

    /// Note that more of a stream is synced: live readers get it in their turn, and nothing is kept for nobody.
    pub(super) fn wake_live(&mut self, queue: QueueId, synced: Sequence) {
        let Some(it) = self.queues.get_mut(queue) else { return };
        let is_read = !it.consumers.is_empty();
        let Some(live) = it.stream.as_mut().and_then(|stream| stream.live.as_mut()) else { return };
        if live.count > 0 {
            if live.tail.front().is_some() && !std::mem::replace(&mut live.is_ready, true) {
                self.streams.push_live(queue);
            }
            return;
        }
        let before = live.tail.size_bytes();
        live.tail.pop_through(synced);
        if !is_read {
            live.tail = Tail::default();
        }
        self.streams.count_tail(before, live.tail.size_bytes());
    }

    /// The number of live readers of all streams.
    #[cfg(test)]
    pub(crate) fn live_reader_count(&self) -> usize {
        let queues = self.streams.queues().iter().filter_map(|id| self.queues.get(*id));
        queues.filter_map(|queue| queue.stream.as_ref()?.live.as_ref()).map(|live| live.count).sum()
    }

    /// Deliver to live readers what is synced, one stream after the other, as far as the turn goes.
    pub(crate) fn deliver_live(&mut self) {
        while !self.turn.is_over()
            && let Some(queue) = self.streams.next_live()
        {
            let Some(stream) = self.queues.get_mut(queue).and_then(|queue| queue.stream.as_mut()) else { continue };
            let Some(synced) = self.streams.synced(stream.log) else { continue };
            #[cfg(test)]
            let synced = if self.faults.delivers_unsynced { Sequence(u64::MAX) } else { synced };
            let Some(mut live) = stream.live.take() else { continue };
            live.is_ready = self.deliver_tail(queue, &mut live, synced);
            if live.is_ready {
                self.streams.push_live(queue);
            }
            self.put_live(queue, live);
        }
    }

    /// Deliver what is synced of one stream. Returns whether there is more than the turn allows.
    fn deliver_tail(&mut self, queue: QueueId, live: &mut LiveReaders, synced: Sequence) -> bool {
        while live.tail.front().is_some_and(|(sequence, _)| sequence <= synced) {
            if self.turn.is_over() {
                return true;
            }
            if live.count > 0 && !self.deliver_front(live) {
                self.fall_back(queue, live);
            }
            let before = live.tail.size_bytes();
            live.tail.pop();
            self.streams.count_tail(before, live.tail.size_bytes());
        }
        false
    }

    /// Let all live readers read on in the log.
    #[cold]
    fn fall_back(&mut self, queue: QueueId, live: &mut LiveReaders) {
        let next = live.tail.next();
        for slot in self.queues[queue].consumers.clone() {
            if let Some(reader) = self.clients[slot].reader.as_mut().filter(|reader| reader.is_live) {
                let position = reader.cursor.position();
                reader.return_to_log(next.map_or(position, |next| next.max(position)));
                live.count -= 1;
                self.wake_reader(slot);
            }
        }
        self.streams.count_tail(live.tail.size_bytes(), 0);
        live.tail = Tail::default();
    }

    fn put_live(&mut self, queue: QueueId, live: Box<LiveReaders>) {
        if let Some(stream) = &mut self.queues[queue].stream {
            stream.live = Some(live);
        }
    }

    /// Deliver the first record of the tail to the live readers that ask for it. False when it takes too long to be matched.
    fn deliver_front(&mut self, live: &mut LiveReaders) -> bool {
        let LiveReaders { tail, table, count, .. } = live;
        let Some((sequence, front)) = tail.front() else { return true };
        let bytes = front.bytes();
        let Ok(record) = StreamRecord::decode(bytes) else { return false }; // who reads it from the log reports it
        let mut askers = std::mem::take(&mut self.streams.askers);
        askers.clear();
        let view = View::new(&mut self.streams.view, record.properties, record.body);
        let mut view = view.within(self.topology.limits());
        let matched = table.match_into(record.routing_key, &mut view, &mut self.streams.table, &mut askers);
        let reading = view.reading();
        let steps = 1 + askers.len() as u32 + (reading.spent_ns / STEP_NS) as u32;
        self.turn.spend(steps);
        let is_matched = matched.is_ok() && !reading.is_over;
        if is_matched {
            self.metrics.count_reading(reading);
            let properties = annotated(record.properties, sequence, 0);
            let parts = Parts { properties: &properties, ..record.parts(bytes) };
            let shared = match front {
                Front::Own(_) => None,
                Front::Shared(bytes) => Some(SharedBody::rest(Arc::clone(bytes), bytes.len() - record.body.len())),
            };
            for slot in &askers {
                *count -= usize::from(self.deliver_to_live(*slot, sequence, &record, (&parts, shared.as_ref())));
            }
        }
        self.streams.askers = askers;
        is_matched
    }

    /// Whether a message of a stream without history may wait for the reader's socket: it comes now, or never.
    fn can_buffer(&self, slot: ConsumerSlot) -> bool {
        let queue = &self.queues[self.clients[slot].queue];
        let is_kept = queue.stream.as_ref().is_none_or(|stream| self.streams.numbers(stream.log).is_none());
        !is_kept && self.clients.can_buffer(slot, self.output_bytes_max())
    }

    /// Deliver a record to a live reader that asks for it. Returns whether it has fallen back, because it cannot take it.
    fn deliver_to_live(
        &mut self,
        slot: ConsumerSlot,
        sequence: Sequence,
        record: &StreamRecord<'_>,
        (parts, shared): (&Parts<'_>, Option<&SharedBody>),
    ) -> bool {
        let has_memory = self.has_memory_for(self.clients[slot].connection, parts.size());
        let can_take = has_memory && (self.can_take(slot) || self.can_buffer(slot));
        let reader = self.clients[slot].reader.as_mut();
        let Some(reader) = reader.filter(|reader| reader.is_live && reader.cursor.position() <= sequence) else {
            return false;
        };
        if !can_take {
            #[cfg(test)]
            let sequence = if self.faults.forgets_place { reader.cursor.position() } else { sequence };
            reader.return_to_log(sequence);
            if !has_memory {
                self.let_reader_await_memory(slot);
            }
            return true;
        }
        let redelivered = reader.named.as_mut().is_some_and(|named| named.deliver(sequence));
        match std::mem::take(&mut reader.missed) {
            0 => self.write_record(slot, sequence, (parts, shared), redelivered),
            missed => {
                let properties = annotated(record.properties, sequence, missed);
                let parts = Parts { properties: &properties, ..*parts };
                self.write_record(slot, sequence, (&parts, shared), redelivered);
            }
        }
        false
    }
}

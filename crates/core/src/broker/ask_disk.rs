//! Asking the disk: for the first message of a queue, and for the message of a dead letter; and asking again.

use std::mem::{replace, take};

use crate::broker::Broker;
use crate::broker::ids::{ConnectionSlot, ConsumerSlot, MessageId};
use crate::broker::topology::QueueId;

impl Broker {
    /// Make the first message of a queue ready to be delivered, and the entry behind it ready to be the first. Returns false
    /// where something has to come from the disk: the queue is scheduled again soon.
    ///
    /// # Errors
    /// The reason in words: it cannot be read.
    #[inline]
    pub(crate) fn prepare_front(&mut self, queue: QueueId) -> Result<bool, String> {
        let it = &self.queues[queue];
        match it.front() {
            Some(front) if it.is_next_on_disk() || !self.messages.get(front.message).is_resident() => {
                self.load_front(queue)
            }
            _ => Ok(true),
        }
    }

    #[cold]
    fn load_front(&mut self, queue: QueueId) -> Result<bool, String> {
        let now = self.clock.now();
        let mut loaded = Ok(self.queues.fetch_next(queue, now));
        let it = &mut self.queues[queue];
        if loaded == Ok(true)
            && let Some(front) = it.front()
            && !self.messages.get(front.message).is_resident()
        {
            loaded = self.messages.load(front.message, it.disk_wait.wait(now), &self.durability);
            it.disk_wait.note(loaded != Ok(false), now);
        }
        if loaded == Ok(false) {
            if !replace(&mut it.awaits_disk, true) {
                self.disk_waits.queues.push(it.handle(queue));
            }
            self.disk_waits.set_retry(now);
        }
        loaded
    }

    /// Make the message of a dead letter ready to be published. Returns false where its bytes have to come from the disk: it is
    /// tried again soon.
    ///
    /// # Errors
    /// The reason in words: it cannot be read.
    pub(crate) fn prepare_letter(&mut self, message: MessageId) -> Result<bool, String> {
        if self.messages.get(message).is_resident() {
            return Ok(true);
        }
        let now = self.clock.now();
        let loaded = self.messages.load(message, self.disk_waits.letter.wait(now), &self.durability);
        self.disk_waits.letter.note(loaded != Ok(false), now);
        if loaded == Ok(false) {
            self.disk_waits.set_retry(now);
        }
        loaded
    }

    /// Carry out the current frame of a connection again, soon.
    pub(crate) fn let_connection_await_disk(&mut self, slot: ConnectionSlot) {
        self.hold(slot);
        let now = self.clock.now();
        self.disk_waits.connections.push(self.clients[slot].handle(slot));
        self.disk_waits.set_retry(now);
        self.turn.repeat_frame();
    }

    /// Let a reader of a stream read on soon.
    pub(crate) fn let_reader_await_disk(&mut self, slot: ConsumerSlot) {
        self.clients[slot].is_waiting = true;
        self.disk_waits.readers.push(self.clients[slot].handle(slot));
        self.disk_waits.set_retry(self.clock.now());
    }

    /// Let those go on that have waited for the disk, if it is time.
    pub(crate) fn try_disk_again(&mut self) {
        if !self.disk_waits.are_due(self.clock.now()) {
            return;
        }
        self.disk_waits.forget_retry();
        for handle in take(&mut self.disk_waits.queues) {
            if let Some(queue) = self.queues.queue_of(handle) {
                queue.awaits_disk = false;
                self.queues.schedule(handle.id);
            }
        }
        for reader in take(&mut self.disk_waits.readers) {
            self.streams.push_reader(reader);
        }
        for handle in take(&mut self.disk_waits.connections) {
            if self.clients.connection_of(handle).is_some() {
                self.release(handle.id);
            }
        }
    }
}

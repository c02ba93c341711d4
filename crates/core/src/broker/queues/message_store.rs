//! Stores each message once, until no queue refers to it.
//!
//! There is one allocation per message: the exchange's name and the routing key as they stood in basic.publish (they are
//! copied into basic.deliver as they are), then the properties, then the body. Counting references by hand, in a slab,
//! costs less than an `Arc` and tells exactly what is resident. Only the bytes of large messages are in an `Arc`, because
//! outputs write them from where they are.

use std::sync::Arc;

use crate::broker::durability::journal_access::Durability;
use crate::broker::durable::{Content, DefinitionId, RecordId, Saved};
use crate::broker::ids::MessageId;
use crate::broker::parts::{Arrived, Parts, parts_of};
use crate::broker::publishing::further_keys::without_blind_copies;
use crate::broker::queues::message_bytes::{MessageBytes, SharedBody};
use crate::broker::queues::spare_bytes::SpareBytes;
use crate::broker::slab::{Slab, SlotId};
use crate::journal::Wait;

/// The memory that a message takes besides its bytes: its slot here, and what the allocator adds to its bytes.
const OVERHEAD: u64 = size_of::<StoredMessage>() as u64 + 24;

/// The cost of reading a message back from the journal, in steps of a turn.
const READ_BACK_STEPS: u32 = 16;
/// The bytes of a message that are copied in a step.
const BYTES_PER_STEP: u32 = 2048;

/// The work of writing a message of this size from memory to an output, in steps of a turn.
#[inline]
pub(crate) fn copy_steps(size: usize) -> u32 {
    size as u32 / BYTES_PER_STEP + 1
}

/// The place of a message on disk, if it has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In the journal, for durable queues: it survives a restart.
    Saved {
        /// The record of the message.
        record: RecordId,
        /// The number of queues that have the message, at least one.
        queues: u32,
    },
    /// In the journal, for lack of memory.
    Spilled(RecordId),
}

#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    /// `None` while it is only in the journal.
    bytes: Option<MessageBytes>,
    references: u32,
    size: u32,
    body: u32,
    /// The offset of the properties, at most 512: two short strings precede them.
    properties: u16,
    /// Whether its properties may have keys that receivers must not see.
    pub may_have_blind_copies: bool,
    pub kept: Kept,
    /// The sequence number of its record in the journal, if there is one.
    pub sequence: u64,
}

impl StoredMessage {
    /// A message that has arrived, with the number of its entries in queues. `saved` is its record, with the number of durable
    /// queues that have it there.
    #[inline(always)]
    pub fn new(
        message: &mut Arrived<'_>,
        references: usize,
        may_have_blind_copies: bool,
        saved: Option<(Saved, u32)>,
    ) -> Self {
        let (kept, sequence) = match saved {
            Some((saved, queues @ 1..)) => (Kept::Saved { record: saved.record, queues }, saved.sequence.0),
            _ => (Kept::Nowhere, 0),
        };
        let parts = message.parts();
        let (route, before_body, size) = (parts.route.len(), parts.route.len() + parts.properties.len(), parts.size());
        Self {
            references: references as u32,
            size: size as u32,
            body: before_body as u32,
            properties: route as u16,
            bytes: Some(message.take_bytes()),
            may_have_blind_copies,
            kept,
            sequence,
        }
    }

    /// The bytes, when they are in memory.
    #[inline]
    pub fn parts(&self) -> Option<Parts<'_>> {
        self.bytes.as_deref().map(|bytes| self.parts_of(bytes))
    }

    /// The message as the journal takes it, when its bytes are in memory.
    pub fn content(&self) -> Option<Content<'_>> {
        let shared = match &self.bytes {
            Some(MessageBytes::Shared(bytes)) => Some(bytes),
            _ => None,
        };
        self.parts().map(|parts| parts.content(shared))
    }

    /// The parts of bytes that were read back from the journal.
    #[inline]
    pub fn parts_of<'a>(&self, bytes: &'a [u8]) -> Parts<'a> {
        let route = usize::from(self.properties);
        parts_of(bytes, route, self.body as usize - route)
    }

    #[inline]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    #[inline]
    pub fn is_resident(&self) -> bool {
        self.bytes.is_some()
    }

    /// The work of a delivery, in steps of a turn.
    #[inline]
    pub fn read_steps(&self) -> u32 {
        if self.is_resident() { copy_steps(self.size()) } else { copy_steps(self.size()) + READ_BACK_STEPS - 1 }
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        OVERHEAD + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }
}

/// All messages that queues have, and the one that was read back from the journal last.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageStore {
    messages: Slab<MessageId, StoredMessage>,
    resident_bytes: u64,
    /// The record of the message that was read back last, which ends with the bytes of the message.
    record: Vec<u8>,
    /// The slot at which the search for older messages to spill goes on.
    spill_cursor: u32,
    spare: SpareBytes,
}

impl MessageStore {
    /// Keep a message until each of its references is [`MessageStore::release`]d.
    #[inline(always)]
    pub fn insert(&mut self, message: StoredMessage) -> MessageId {
        debug_assert!(message.references > 0, "nobody would release it");
        self.resident_bytes += message.memory_bytes();
        self.messages.insert(message)
    }

    /// Keep a message whose bytes stay in the journal until somebody needs them. The caller has the one reference to it.
    pub fn insert_absent(&mut self, sizes: [usize; 3]) -> MessageId {
        let [route, properties, body] = sizes;
        self.insert(StoredMessage {
            bytes: None,
            references: 1,
            size: (route + properties + body) as u32,
            body: (route + properties) as u32,
            properties: route as u16,
            may_have_blind_copies: true,
            kept: Kept::Nowhere,
            sequence: 0,
        })
    }

    #[inline]
    pub fn retain(&mut self, id: MessageId) {
        self.messages[id].references += 1;
    }

    /// Drop the reference of a queue that is done with a message, and the message with the last one. `queue` is its
    /// definition, where it is durable.
    #[inline]
    pub fn release(&mut self, id: MessageId, queue: Option<DefinitionId>, durability: &mut Durability) {
        let message = &self.messages[id];
        match (message.kept, queue) {
            (Kept::Saved { .. }, Some(queue)) if message.references > 1 => self.settle(id, queue, durability),
            (Kept::Saved { record, .. }, Some(queue)) => durability.settle(record, queue),
            (Kept::Spilled(record), _) if message.references == 1 => durability.release(record),
            _ => {}
        }
        self.drop_reference(id);
    }

    /// Drop one reference to a message, and the message with the last one. Where it was kept is the caller's to settle.
    #[inline]
    pub fn drop_reference(&mut self, id: MessageId) {
        let message = &mut self.messages[id];
        if message.references > 1 {
            message.references -= 1;
            return;
        }
        self.resident_bytes -= message.memory_bytes();
        if let Some(MessageBytes::Shared(_)) = message.bytes {
            self.offer_bytes(id);
        }
        self.messages.discard(id);
    }

    /// Keep the memory of a large message that goes, if nobody else has its bytes.
    #[cold]
    fn offer_bytes(&mut self, id: MessageId) {
        if let Some(MessageBytes::Shared(bytes)) = self.messages[id].bytes.take() {
            self.offer_spare(bytes);
        }
    }

    /// Record that a durable queue is done with a message that others have, if the journal has it.
    fn settle(&mut self, id: MessageId, queue: DefinitionId, durability: &mut Durability) {
        let message = &mut self.messages[id];
        let Kept::Saved { record, queues } = message.kept else { return };
        if !durability.is_on() {
            return;
        }
        // Others have the message, and its bytes are nowhere else: it stays where it is.
        if queues == 1 && !message.is_resident() {
            durability.settle_but_keep(record, queue);
            message.kept = Kept::Spilled(record);
            return;
        }
        durability.settle(record, queue);
        message.kept = match queues {
            1 => Kept::Nowhere,
            _ => Kept::Saved { record, queues: queues - 1 },
        };
    }

    #[inline]
    pub fn get(&self, id: MessageId) -> &StoredMessage {
        &self.messages[id]
    }

    /// The message with this id, if there is one.
    pub fn find(&self, id: MessageId) -> Option<&StoredMessage> {
        self.messages.get(id)
    }

    pub fn get_mut(&mut self, id: MessageId) -> &mut StoredMessage {
        &mut self.messages[id]
    }

    /// The next message whose bytes are in memory, round and round, among the next `count_max` slots.
    pub fn next_resident(&mut self, count_max: u32) -> Option<MessageId> {
        for _ in 0..count_max.min(self.messages.end()) {
            let index = if self.spill_cursor < self.messages.end() { self.spill_cursor } else { 0 };
            self.spill_cursor = index + 1;
            if self.messages.get(MessageId::from_index(index)).is_some_and(StoredMessage::is_resident) {
                return Some(MessageId::from_index(index));
            }
        }
        None
    }

    /// Drop the bytes of a message that can be read back. Returns how many bytes that were.
    pub fn evict(&mut self, id: MessageId) -> usize {
        let message = &mut self.messages[id];
        debug_assert_ne!(message.kept, Kept::Nowhere, "evicted and nowhere else");
        let freed = message.bytes.take().map_or(0, |bytes| bytes.len());
        self.resident_bytes -= freed as u64;
        freed
    }

    /// Read the bytes of an evicted message back from the journal, for [`MessageStore::parts`]. Returns false where that would
    /// have to wait for the disk.
    ///
    /// # Errors
    /// The reason in words: its record cannot be read.
    #[cold]
    pub fn load(&mut self, id: MessageId, wait: Wait, durability: &Durability) -> Result<bool, String> {
        let message = &self.messages[id];
        let (Kept::Saved { record, .. } | Kept::Spilled(record)) = message.kept else {
            return Err("it is nowhere".to_owned());
        };
        let Some(durable) = durability.durable() else { return Err("there is no journal".to_owned()) };
        let content = match durable.load(record, wait, &mut self.record) {
            Err(error) if error.would_wait() => return Ok(false),
            content => content.map_err(|error| error.to_string())?,
        };
        if content.size_bytes() == message.size() { Ok(true) } else { Err("its record has another size".to_owned()) }
    }

    /// The bytes of a message that is in memory or was loaded last.
    #[inline]
    fn bytes_of<'a>(&'a self, message: &'a StoredMessage) -> &'a [u8] {
        message.bytes.as_deref().unwrap_or_else(|| &self.record[self.record.len() - message.size()..])
    }

    /// The parts of a message that is in memory or was loaded last.
    #[inline]
    pub fn parts(&self, id: MessageId) -> Parts<'_> {
        let message = &self.messages[id];
        message.parts_of(self.bytes_of(message))
    }

    /// The same, as receivers see them; `room` is for properties without what receivers must not see.
    #[inline]
    pub fn visible_parts<'a>(&'a self, id: MessageId, room: &'a mut Vec<u8>) -> Parts<'a> {
        let message = &self.messages[id];
        let parts = message.parts_of(self.bytes_of(message));
        if message.may_have_blind_copies { without_blind_copies(parts, room) } else { parts }
    }

    /// The body of a large message that is in memory, to be written from where it is.
    #[inline]
    pub fn shared_body(&self, id: MessageId) -> Option<SharedBody> {
        let message = &self.messages[id];
        match &message.bytes {
            Some(MessageBytes::Shared(bytes)) => Some(SharedBody::rest(Arc::clone(bytes), message.body as usize)),
            _ => None,
        }
    }

    /// Take back the bytes of a message that an output has written. Their memory is kept for the next large message, if
    /// nobody else has them.
    pub fn offer_spare(&mut self, bytes: Arc<Vec<u8>>) {
        self.spare.offer(Arc::into_inner(bytes));
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Memory for a message of this size that arrives, if some is left of one that is gone.
    pub fn take_spare(&mut self, size: usize) -> Option<Vec<u8>> {
        self.spare.take(size)
    }

    /// Free the memory that is left of a message and that nobody has taken since the last call.
    pub fn free_spare(&mut self) {
        self.spare.age();
    }

    /// The memory that all messages take, without their entries, and what is left of one that is gone.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes + self.spare.size_bytes()
    }

    /// The slot of a removed message.
    #[cfg(test)]
    pub fn spare_bytes(&self) -> u64 {
        self.spare.size_bytes()
    }

    /// Every message with the number of references to it and the memory that it takes.
    #[cfg(test)]
    pub fn audit(&self) -> impl Iterator<Item = (MessageId, u32, u64)> {
        self.messages.iter().map(|(id, message)| (id, message.references, message.memory_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts { route: b"\x04logs\x03a.b", properties: &[0, 0], body: b"hello" };

    #[test]
    fn parts_come_back_as_they_went_in() {
        let mut store = MessageStore::default();
        let id = store.insert(StoredMessage::new(&mut Arrived::Borrowed(PARTS), 1, false, None));
        let parts = store.get(id).parts().expect("resident");
        assert_eq!((parts, parts.exchange(), parts.routing_key()), (PARTS, &b"logs"[..], &b"a.b"[..]));
        assert_eq!(store.get(id).size(), 16);
    }

    #[test]
    fn memory_goes_with_the_last_reference() {
        let mut store = MessageStore::default();
        let id = store.insert(StoredMessage::new(&mut Arrived::Borrowed(PARTS), 1, false, None));
        store.retain(id);
        assert_eq!(store.resident_bytes(), 16 + OVERHEAD);
        store.drop_reference(id);
        assert_eq!((store.len(), store.resident_bytes()), (1, 16 + OVERHEAD));
        store.get_mut(id).kept = Kept::Spilled(RecordId(1));
        assert_eq!((store.evict(id), store.evict(id)), (16, 0));
        assert_eq!((store.resident_bytes(), store.get(id).is_resident()), (OVERHEAD, false));
        assert_eq!(store.get(id).parts_of(&PARTS.joined().bytes), PARTS);
        store.drop_reference(id);
        assert_eq!((store.len(), store.resident_bytes()), (0, 0));
    }
}

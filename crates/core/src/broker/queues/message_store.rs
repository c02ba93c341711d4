//! Messages at rest: each is kept once, however many queues hold it, and goes when the last of them lets go.
//!
//! One allocation a message: the exchange's name and the routing key as they stood in basic.publish (they are copied
//! into basic.deliver as they are), then the properties, then the body. CountingControl references by hand, in a slab, costs
//! less than an `Arc` and tells exactly what is resident.

use std::ops::Range;

use crate::broker::durable::RecordId;
use crate::broker::slab::{Slab, SlotId};

/// A message's number in the [`MessageStore`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageId(u32);

impl MessageId {
    /// No message of the store: one of a stream, which is only in its log.
    pub const NONE: Self = Self(u32::MAX);
}

impl SlotId for MessageId {
    #[inline]
    fn from_index(index: u32) -> Self {
        Self(index)
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Time in microseconds of the caller's monotonic clock.
pub type Micros = u64;

/// A moment that never comes.
pub(crate) const NEVER: Micros = Micros::MAX;

/// What a message takes beside its bytes, for the memory counters: its slot here, its places in queues, and what the
/// journal remembers of it.
const OVERHEAD: u64 = 160;

/// Where a message is beside memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In the journal, for so many durable queues: it survives a restart.
    Saved {
        /// Its record.
        record: RecordId,
        /// Queues that have it, at least one.
        queues: u32,
    },
    /// In the journal, for lack of memory.
    Spilled(RecordId),
}

#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    /// `None` while it is only in the journal.
    bytes: Option<Box<[u8]>>,
    references: u32,
    size: u32,
    body: u32,
    /// At most 512: two short strings.
    properties: u16,
    /// It was there before the broker was opened.
    pub is_recovered: bool,
    /// When it was published, on the wall clock.
    pub time_us: i64,
    pub kept: Kept,
    /// The number of its record in the journal, when it has one.
    pub sequence: u64,
}

impl StoredMessage {
    /// The bytes, when they are in memory.
    pub fn parts(&self) -> Option<Parts<'_>> {
        self.bytes.as_deref().map(|bytes| self.parts_of(bytes))
    }

    /// The same parts of bytes that were read back from the journal.
    pub fn parts_of<'a>(&self, bytes: &'a [u8]) -> Parts<'a> {
        let (route, rest) = bytes.split_at(usize::from(self.properties));
        let (properties, body) = rest.split_at(self.body as usize - usize::from(self.properties));
        Parts { route, properties, body }
    }

    pub fn size(&self) -> usize {
        self.size as usize
    }

    pub fn is_resident(&self) -> bool {
        self.bytes.is_some()
    }
}

/// The parts of a message, as they go over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Exchange and routing key, two short strings one behind the other.
    pub route: &'a [u8],
    /// Flags and values, as in the content header.
    pub properties: &'a [u8],
    pub body: &'a [u8],
}

impl<'a> Parts<'a> {
    pub fn size(&self) -> usize {
        self.route.len() + self.properties.len() + self.body.len()
    }

    pub fn exchange(&self) -> &'a [u8] {
        short(self.route, 0)
    }

    pub fn routing_key(&self) -> &'a [u8] {
        short(self.route, 1 + self.exchange().len())
    }

    /// All of it in one piece, as the store and the journal keep it.
    pub fn joined(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size());
        bytes.extend_from_slice(self.route);
        bytes.extend_from_slice(self.properties);
        bytes.extend_from_slice(self.body);
        bytes
    }
}

fn short(route: &[u8], at: usize) -> &[u8] {
    let range: Range<usize> = at + 1..at + 1 + usize::from(route[at]);
    &route[range]
}

/// All messages at rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageStore {
    messages: Slab<MessageId, StoredMessage>,
    resident_bytes: u64,
}

impl MessageStore {
    /// Keep a message. It has one reference, the caller's, until [`MessageStore::release`]d.
    pub fn insert(&mut self, parts: &Parts<'_>, time_us: i64) -> MessageId {
        self.resident_bytes += parts.size() as u64 + OVERHEAD;
        self.messages.insert(StoredMessage {
            size: parts.size() as u32,
            body: (parts.route.len() + parts.properties.len()) as u32,
            properties: parts.route.len() as u16,
            bytes: Some(parts.joined().into_boxed_slice()),
            references: 1,
            is_recovered: false,
            time_us,
            kept: Kept::Nowhere,
            sequence: 0,
        })
    }

    /// Keep the place of a message whose bytes stay in the journal until somebody needs them.
    pub fn insert_absent(&mut self, sizes: [usize; 3], time_us: i64) -> MessageId {
        let [route, properties, body] = sizes;
        self.resident_bytes += OVERHEAD;
        self.messages.insert(StoredMessage {
            bytes: None,
            references: 1,
            size: (route + properties + body) as u32,
            body: (route + properties) as u32,
            properties: route as u16,
            is_recovered: true,
            time_us,
            kept: Kept::Nowhere,
            sequence: 0,
        })
    }

    #[inline]
    pub fn retain(&mut self, id: MessageId) {
        self.messages[id].references += 1;
    }

    /// One reference less; the message itself when that was the last.
    #[inline]
    pub fn release(&mut self, id: MessageId) {
        let message = &mut self.messages[id];
        message.references -= 1;
        if message.references == 0 {
            let message = self.messages.remove(id);
            self.resident_bytes -= OVERHEAD + message.bytes.map_or(0, |bytes| bytes.len() as u64);
        }
    }

    #[inline]
    pub fn get(&self, id: MessageId) -> &StoredMessage {
        &self.messages[id]
    }

    /// The message of that number, if there is one.
    pub fn find(&self, id: MessageId) -> Option<&StoredMessage> {
        self.messages.get(id)
    }

    pub fn references(&self, id: MessageId) -> u32 {
        self.messages[id].references
    }

    pub fn get_mut(&mut self, id: MessageId) -> &mut StoredMessage {
        &mut self.messages[id]
    }

    /// The next message whose bytes are in memory, round and round from slot `from`, among the next `most` slots.
    pub fn next_resident(&self, from: &mut u32, most: u32) -> Option<MessageId> {
        for _ in 0..most.min(self.messages.end()) {
            let number = if *from < self.messages.end() { *from } else { 0 };
            *from = number + 1;
            if self.messages.get(MessageId(number)).is_some_and(StoredMessage::is_resident) {
                return Some(MessageId(number));
            }
        }
        None
    }

    /// Drop the bytes of a message that can be read back; how many that were.
    pub fn evict(&mut self, id: MessageId) -> usize {
        let message = &mut self.messages[id];
        debug_assert_ne!(message.kept, Kept::Nowhere, "evicted and nowhere else");
        let freed = message.bytes.take().map_or(0, |bytes| bytes.len());
        self.resident_bytes -= freed as u64;
        freed
    }

    /// Keep the bytes again of a message that was evicted.
    pub fn restore(&mut self, id: MessageId, bytes: Vec<u8>) {
        let message = &mut self.messages[id];
        debug_assert_eq!(bytes.len(), message.size());
        if message.bytes.is_none() {
            self.resident_bytes += bytes.len() as u64;
            message.bytes = Some(bytes.into_boxed_slice());
        }
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// What all messages take in memory, their entries included.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// Every message with how often it is referred to and what it takes: for the invariants of the simulation.
    #[cfg(test)]
    pub fn audit(&self) -> impl Iterator<Item = (MessageId, u32, u64)> {
        self.messages.iter().map(|(id, message)| {
            (id, message.references, OVERHEAD + message.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts { route: b"\x04logs\x03a.b", properties: &[0, 0], body: b"hello" };

    #[test]
    fn parts_come_back_as_they_went_in() {
        let mut store = MessageStore::default();
        let id = store.insert(&PARTS, 7);
        let parts = store.get(id).parts().expect("resident");
        assert_eq!((parts, parts.exchange(), parts.routing_key()), (PARTS, &b"logs"[..], &b"a.b"[..]));
        assert_eq!(store.get(id).size(), 16);
    }

    #[test]
    fn memory_goes_with_the_last_reference() {
        let mut store = MessageStore::default();
        let id = store.insert(&PARTS, 0);
        store.retain(id);
        assert_eq!(store.resident_bytes(), 16 + OVERHEAD);
        store.release(id);
        assert_eq!((store.len(), store.resident_bytes()), (1, 16 + OVERHEAD));
        store.get_mut(id).kept = Kept::Spilled(RecordId(1));
        assert_eq!((store.evict(id), store.evict(id)), (16, 0));
        assert_eq!((store.resident_bytes(), store.get(id).is_resident()), (OVERHEAD, false));
        assert_eq!(store.get(id).parts_of(&PARTS.joined()), PARTS);
        store.restore(id, PARTS.joined());
        assert_eq!((store.resident_bytes(), store.get(id).parts()), (16 + OVERHEAD, Some(PARTS)));
        store.release(id);
        assert_eq!((store.len(), store.resident_bytes()), (0, 0));
    }
}

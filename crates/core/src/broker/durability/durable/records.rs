//! The records of the broker's journal: the layout of their heads, which recovery reads, and of their bodies.
//!
//! Numbers are LEB128. A *position* is the number of the record that put a message into a queue: it orders the queue.
//!
//! | kind | head | body |
//! |---|---|---|
//! | MESSAGE | length of route, of properties; time to live; queues ... | route, properties, body |
//! | MOVED | number of the message; lengths; time to live; (queue, position) ... | the same |
//! | POSITIONS | number of the message; (queue, position) ..., which the MOVED behind it has no room for | |
//! | SPILLED | length of route, of properties | the same; not recovered |
//! | ENQUEUED | number of the message; queues ... | |
//! | SETTLED | (queue, count, first position, differences ...) ... | |
//! | DEFINE | number or 0; count of parents, parents; length of key; key, value | what did not fit into the head: key and value |
//! | FORGET | number of the definition | |
//! | STOPPED | | what was delivered, as in SETTLED |
//! | STARTED | | |
//! | MESSAGE_1, MOVED_1 | as earlier versions wrote them: without a time to live | |
//!
//! A time to live is 0 for none, or one more than its milliseconds. In a copy of a MESSAGE_1 it is 2^64 - 1: only the
//! properties say.

use super::ids::{Content, DefinitionId, TimeToLive};
use crate::journal::{HEAD_BYTES_MAX, Sequence};

/// The kinds of records.
pub(super) mod kind {
    pub const MESSAGE_1: u8 = 1;
    pub const MOVED_1: u8 = 2;
    pub const POSITIONS: u8 = 3;
    pub const SPILLED: u8 = 4;
    pub const ENQUEUED: u8 = 5;
    pub const SETTLED: u8 = 6;
    pub const DEFINE: u8 = 7;
    pub const FORGET: u8 = 8;
    pub const STOPPED: u8 = 9;
    pub const STARTED: u8 = 10;
    pub const MESSAGE: u8 = 11;
    pub const MOVED: u8 = 12;
}

/// The names of the kinds.
const KIND_NAMES: [(u8, &str); 12] = [
    (kind::MESSAGE_1, "message"),
    (kind::MOVED_1, "moved"),
    (kind::POSITIONS, "positions"),
    (kind::SPILLED, "spilled"),
    (kind::ENQUEUED, "enqueued"),
    (kind::SETTLED, "settled"),
    (kind::DEFINE, "define"),
    (kind::FORGET, "forget"),
    (kind::STOPPED, "stopped"),
    (kind::STARTED, "started"),
    (kind::MESSAGE, "message"),
    (kind::MOVED, "moved"),
];

/// The name of a kind of record of the broker's journal; none for a kind that this version does not write.
#[must_use]
pub fn kind_name(kind: u8) -> Option<&'static str> {
    KIND_NAMES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// The size of a record without its head and body.
pub(super) const RECORD_BYTES: usize = 28;

/// Nothing more is put into a head of this size: there is still room for two numbers.
const FULL_BYTES: usize = HEAD_BYTES_MAX - 40;

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, remaining) = bytes.split_first()?;
        *bytes = remaining;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The numbers of a head.
fn varints(mut bytes: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || take_varint(&mut bytes))
}

/// Put as many queues as fit. Returns how many.
pub(super) fn put_queues(head: &mut Vec<u8>, queues: &[DefinitionId]) -> usize {
    let mut count = 0;
    for queue in queues {
        if head.len() >= FULL_BYTES {
            break;
        }
        put_varint(head, queue.0);
        count += 1;
    }
    count
}

pub(super) fn queues_of(bytes: &[u8]) -> impl Iterator<Item = DefinitionId> {
    varints(bytes).map(DefinitionId)
}

/// Put as many queues with positions as fit. Returns how many.
pub(super) fn put_positions(head: &mut Vec<u8>, positions: &[(DefinitionId, Sequence)]) -> usize {
    let mut count = 0;
    for (queue, position) in positions {
        if head.len() >= FULL_BYTES {
            break;
        }
        put_varint(head, queue.0);
        put_varint(head, position.0);
        count += 1;
    }
    count
}

pub(super) fn positions_of(mut bytes: &[u8]) -> impl Iterator<Item = (DefinitionId, Sequence)> {
    std::iter::from_fn(move || Some((DefinitionId(take_varint(&mut bytes)?), Sequence(take_varint(&mut bytes)?))))
}

/// The sizes of a message's parts, and its time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageHead {
    pub route: u32,
    pub properties: u32,
    pub time_to_live: TimeToLive,
}

impl MessageHead {
    pub fn of(content: &Content<'_>, time_to_live: TimeToLive) -> Self {
        Self { route: content.route.len() as u32, properties: content.properties.len() as u32, time_to_live }
    }

    /// Put it into the head of a record of this kind.
    pub fn put(self, kind: u8, head: &mut Vec<u8>) {
        put_varint(head, u64::from(self.route));
        put_varint(head, u64::from(self.properties));
        if has_time_to_live(kind) {
            put_varint(head, self.time_to_live.to_bits());
        }
    }

    /// Take it from the whole head of a record of this kind.
    pub fn of_record(kind: u8, mut head: &[u8]) -> Option<Self> {
        if is_copy(kind) {
            take_varint(&mut head)?;
        }
        Self::take(kind, &mut head)
    }

    /// Take it from the head of a record of this kind; the number that begins a copy's head has been taken.
    pub fn take(kind: u8, bytes: &mut &[u8]) -> Option<Self> {
        let route = u32::try_from(take_varint(bytes)?).ok()?;
        let properties = u32::try_from(take_varint(bytes)?).ok()?;
        let time_to_live = match has_time_to_live(kind) {
            true => TimeToLive::from_bits(take_varint(bytes)?),
            false => TimeToLive::IN_PROPERTIES,
        };
        Some(Self { route, properties, time_to_live })
    }
}

/// Whether the heads of records of this kind have a time to live.
fn has_time_to_live(kind: u8) -> bool {
    matches!(kind, kind::MESSAGE | kind::MOVED)
}

/// Whether a record of this kind is a copy, whose head begins with the number of the message.
pub(super) fn is_copy(kind: u8) -> bool {
    matches!(kind, kind::MOVED | kind::MOVED_1)
}

/// The parts of a message's record.
pub(super) fn content_of<'a>(kind: u8, head: &[u8], body: &'a [u8]) -> Option<Content<'a>> {
    if !matches!(kind, kind::MESSAGE | kind::MESSAGE_1 | kind::SPILLED) && !is_copy(kind) {
        return None;
    }
    let sizes = MessageHead::of_record(kind, head)?;
    let (route, remaining) = body.split_at_checked(sizes.route as usize)?;
    let (properties, body) = remaining.split_at_checked(sizes.properties as usize)?;
    Some(Content { route, properties, body, shared: None })
}

/// Put as many settled positions, which are sorted, as fit. Returns how many.
pub(super) fn put_settled(head: &mut Vec<u8>, settled: &[(DefinitionId, Sequence)]) -> usize {
    let mut done = 0;
    while done < settled.len() && head.len() < FULL_BYTES {
        done += put_group(head, &settled[done..], (HEAD_BYTES_MAX - head.len()) / 10 - 3);
    }
    done
}

/// All settled positions, for a body.
pub(super) fn settled_bytes(settled: &[(DefinitionId, Sequence)]) -> Vec<u8> {
    let (mut bytes, mut done) = (Vec::new(), 0);
    while done < settled.len() {
        done += put_group(&mut bytes, &settled[done..], usize::MAX);
    }
    bytes
}

/// Put the positions of the first queue: at most `count_max`, and at least one.
fn put_group(out: &mut Vec<u8>, settled: &[(DefinitionId, Sequence)], count_max: usize) -> usize {
    let (queue, first) = settled[0];
    let count = settled.iter().take_while(|entry| entry.0 == queue).take(count_max.max(1)).count();
    put_varint(out, queue.0);
    put_varint(out, count as u64);
    put_varint(out, first.0);
    for pair in settled[..count].windows(2) {
        put_varint(out, pair[1].1.0 - pair[0].1.0);
    }
    count
}

/// Call `visit` with every settled position.
pub(super) fn for_each_settled(mut bytes: &[u8], mut visit: impl FnMut(DefinitionId, Sequence)) {
    while let Some(queue) = take_varint(&mut bytes) {
        let count = take_varint(&mut bytes).unwrap_or(0);
        let mut position = 0;
        for _ in 0..count {
            let Some(difference) = take_varint(&mut bytes) else { return };
            position += difference;
            visit(DefinitionId(queue), Sequence(position));
        }
    }
}

/// A definition's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DefinitionRecord<'a> {
    /// 0 for the sequence of the record itself.
    pub id: DefinitionId,
    pub parents: Vec<DefinitionId>,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> DefinitionRecord<'a> {
    /// Put it into `head`. Returns what does not fit, for the body.
    pub fn encode(&self, head: &mut Vec<u8>) -> Vec<&'a [u8]> {
        head.clear();
        put_varint(head, self.id.0);
        put_varint(head, self.parents.len() as u64);
        self.parents.iter().for_each(|parent| put_varint(head, parent.0));
        put_varint(head, self.key.len() as u64);
        if head.len() + self.key.len() + self.value.len() > FULL_BYTES {
            return vec![self.key, self.value];
        }
        head.extend_from_slice(self.key);
        head.extend_from_slice(self.value);
        Vec::new()
    }

    /// Decode a definition from its record, or from the head alone when all of it is there.
    pub fn decode(mut head: &'a [u8], body: &'a [u8]) -> Option<Self> {
        let id = DefinitionId(take_varint(&mut head)?);
        let count = take_varint(&mut head)?;
        let parents = (0..count).map_while(|_| take_varint(&mut head).map(DefinitionId)).collect();
        let key_length = usize::try_from(take_varint(&mut head)?).ok()?;
        let remaining = if body.is_empty() { head } else { body };
        let (key, value) = remaining.split_at_checked(key_length)?;
        Some(Self { id, parents, key, value })
    }
}

//! The ids of definitions and recorded messages, the parts of a message, and its time to live.

use std::sync::Arc;

use crate::broker::slab::slot_ids;
use crate::journal::Sequence;

/// A definition: the sequence of its first record, so that it is never given twice and keeps the order of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionId(pub u64);

slot_ids! {
    /// A recorded message, until all queues have [`super::Durable::settled`] it; then the id is given again. 32 bits: four
    /// billion at a time.
    pub struct RecordId(pub u32);
}

/// The result of [`super::Durable::message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The record of the message.
    pub record: RecordId,
    /// The message may be confirmed when [`super::Durable::synced`] has reached this.
    pub sequence: Sequence,
}

/// The time to live of a message, as its record has it: 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeToLive(u64);

impl TimeToLive {
    /// It lives until it is settled.
    pub const FOREVER: Self = Self(0);
    /// An earlier version recorded it: only its properties say.
    pub const IN_PROPERTIES: Self = Self(u64::MAX);

    /// Milliseconds from the time at which it is recorded, or for ever.
    #[must_use]
    pub fn from_ms(milliseconds: Option<u64>) -> Self {
        milliseconds.map_or(Self::FOREVER, |milliseconds| Self(milliseconds.saturating_add(1).min(u64::MAX - 1)))
    }

    /// The milliseconds; None for ever, or when they are in its properties.
    #[must_use]
    pub fn ms(self) -> Option<u64> {
        if self == Self::IN_PROPERTIES { None } else { self.0.checked_sub(1) }
    }

    /// As it stands in a record.
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// A message's parts, as they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content<'a> {
    /// Exchange and routing key.
    pub route: &'a [u8],
    /// Properties.
    pub properties: &'a [u8],
    /// Body.
    pub body: &'a [u8],
    /// All of them in one piece, if others have it too: then the journal keeps it instead of a copy until it is written.
    pub shared: Option<&'a Arc<Vec<u8>>>,
}

impl Content<'_> {
    /// The size of all parts.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.route.len() + self.properties.len() + self.body.len()
    }
}

//! The ids of definitions and recorded messages, and the parts of a message.

use crate::journal::Sequence;

/// A definition: the sequence of its first record, so that it is never given twice and keeps the order of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionId(pub u64);

/// A recorded message, until all queues have [`super::Durable::settled`] it; then the id is given again. 32 bits: four billion at a
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u32);

/// The result of [`super::Durable::message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The record of the message.
    pub record: RecordId,
    /// The message may be confirmed when [`super::Durable::synced`] has reached this.
    pub sequence: Sequence,
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
}

impl Content<'_> {
    /// The size of all parts.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.route.len() + self.properties.len() + self.body.len()
    }
}

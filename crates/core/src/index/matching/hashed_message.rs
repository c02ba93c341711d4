//! A message as every segment reads it: names and values are hashed once per message, not once per segment.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::index::layout::cpu::prefetch_first;
use crate::index::term::Scalar;
use crate::message::{Message, Value};
use crate::name_hash::hash_name;

/// The hash of a scalar once a segment has needed it.
#[derive(Debug, Default)]
pub struct LazyHash(Cell<Option<u64>>);

impl LazyHash {
    /// The hash of `scalar`, always the same one, for any attribute. Cost: linear in a text, the first time.
    #[inline]
    pub fn of(&self, scalar: Scalar<'_>) -> u64 {
        self.0.get().unwrap_or_else(|| {
            let hash = scalar.hash();
            self.0.set(Some(hash));
            hash
        })
    }
}

/// A property of a message.
#[derive(Debug)]
pub struct HashedProperty<'m> {
    /// The name.
    pub name: &'m str,
    /// The hash of the name, see [`hash_name`].
    pub name_hash: u64,
    /// The value. An empty list counts as absent.
    pub value: &'m Value,
    /// The hash of the value.
    pub value_hash: LazyHash,
}

/// The number of properties that need no allocation.
const PROPERTIES: usize = 24;

/// A message on its way through the segments.
#[derive(Debug)]
pub struct HashedMessage<'m, 'p> {
    /// The message itself.
    pub message: &'m Message<'p>,
    /// The hash of its topic.
    pub topic_hash: LazyHash,
    properties: SmallVec<[HashedProperty<'m>; PROPERTIES]>,
    are_properties_hashed: bool,
}

impl<'m, 'p> HashedMessage<'m, 'p> {
    /// A message that has not been hashed.
    pub fn new(message: &'m Message<'p>) -> Self {
        Self { message, topic_hash: LazyHash::default(), properties: SmallVec::new(), are_properties_hashed: false }
    }

    /// The properties. Cost: linear in them, the first time.
    ///
    /// Names and texts lie all over the memory, so all are prefetched before the first is read.
    pub fn properties(&mut self) -> &[HashedProperty<'m>] {
        if !self.are_properties_hashed {
            self.are_properties_hashed = true;
            self.properties.extend(self.message.properties.iter().map(|(name, value)| {
                prefetch_first(name.as_bytes());
                if let Value::Text(text) = value {
                    prefetch_first(text.as_bytes());
                }
                HashedProperty { name, name_hash: 0, value, value_hash: LazyHash::default() }
            }));
            self.properties.iter_mut().for_each(|property| property.name_hash = hash_name(property.name));
        }
        &self.properties
    }
}

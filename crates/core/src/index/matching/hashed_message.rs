//! A message as every segment reads it: names and values are hashed once per message, not once per segment.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::index::hash::hash_name;
use crate::index::term::Scalar;
use crate::message::{Message, Resolved};

/// A scalar, and its hash once a segment has needed it.
#[derive(Debug)]
pub struct HashedScalar<'m> {
    /// The value.
    pub scalar: Scalar<'m>,
    hash: Cell<Option<u64>>,
}

impl<'m> HashedScalar<'m> {
    /// A value that has not been hashed.
    #[inline]
    pub fn new(scalar: Scalar<'m>) -> Self {
        Self { scalar, hash: Cell::new(None) }
    }

    /// The hash of the scalar, for any attribute. Cost: linear in a text, the first time.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash.get().unwrap_or_else(|| {
            let hash = self.scalar.hash();
            self.hash.set(Some(hash));
            hash
        })
    }
}

/// The value that a name leads to in a message.
#[derive(Debug)]
pub struct HashedValue<'m> {
    /// One value or several.
    pub values: Resolved<'m>,
    /// The value, if it is one that can be equal to something.
    pub scalar: Option<HashedScalar<'m>>,
}

impl<'m> From<Resolved<'m>> for HashedValue<'m> {
    #[inline]
    fn from(values: Resolved<'m>) -> Self {
        let scalar = match values {
            Resolved::One(value) => Scalar::of(value).map(HashedScalar::new),
            Resolved::Many(_) => None,
        };
        Self { values, scalar }
    }
}

/// A property of a message.
#[derive(Debug)]
pub struct HashedProperty<'m> {
    /// The name.
    pub name: &'m str,
    /// The hash of the name, see [`hash_name`].
    pub name_hash: u64,
    /// The value of the property.
    pub value: HashedValue<'m>,
}

/// The number of properties that need no allocation.
const PROPERTIES: usize = 24;

/// A message on its way through the segments.
#[derive(Debug)]
pub struct HashedMessage<'m, 'p> {
    /// The message itself.
    pub message: &'m Message<'p>,
    /// The topic of the message.
    pub topic: HashedScalar<'m>,
    properties: SmallVec<[HashedProperty<'m>; PROPERTIES]>,
    are_properties_hashed: bool,
}

impl<'m, 'p> HashedMessage<'m, 'p> {
    /// A message that has not been hashed.
    pub fn new(message: &'m Message<'p>) -> Self {
        let topic = HashedScalar::new(Scalar::Text(message.topic));
        Self { message, topic, properties: SmallVec::new(), are_properties_hashed: false }
    }

    /// The properties, apart from empty lists, which count as absent. Cost: linear in them, the first time.
    pub fn properties(&mut self) -> &[HashedProperty<'m>] {
        if !self.are_properties_hashed {
            self.are_properties_hashed = true;
            self.properties.extend(self.message.properties.iter().filter_map(|(name, value)| {
                let value = Resolved::of(value)?.into();
                Some(HashedProperty { name, name_hash: hash_name(name), value })
            }));
        }
        &self.properties
    }

    /// The value that `name` leads to, also through mappings.
    pub fn look_up(&self, name: &str) -> Option<HashedValue<'m>> {
        self.message.look_up(name, false).map(HashedValue::from)
    }
}

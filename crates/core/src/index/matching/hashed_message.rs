//! A message as every segment takes it: what has to be hashed is hashed once a message, not once a segment.

use std::cell::Cell;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::hash::BuildHasher;

use crate::message::{Message, Resolved, lookup};

use crate::index::compile::interner::Scalar;

/// The hash of an attribute's name. Of this process alone, so that nobody can choose names that collide.
#[inline]
pub fn hash_name(name: &str) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    STATE.hash_one(name)
}

/// A scalar, and its hash once a segment has needed it.
#[derive(Debug)]
pub struct SeenScalar<'m> {
    /// The value.
    pub scalar: Scalar<'m>,
    hash: Cell<Option<u64>>,
}

impl<'m> SeenScalar<'m> {
    /// A value that has not been hashed.
    #[inline]
    pub fn new(scalar: Scalar<'m>) -> Self {
        Self { scalar, hash: Cell::new(None) }
    }

    /// Its hash, whatever attribute it is a value of. Cost: linear in a text, the first time.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash.get().unwrap_or_else(|| {
            let hash = self.scalar.hash();
            self.hash.set(Some(hash));
            hash
        })
    }
}

/// What a name reaches in a message.
#[derive(Debug)]
pub struct Seen<'m> {
    /// One value or several.
    pub found: Resolved<'m>,
    /// The value, where it is one that can be equal to something.
    pub scalar: Option<SeenScalar<'m>>,
}

impl<'m> From<Resolved<'m>> for Seen<'m> {
    #[inline]
    fn from(found: Resolved<'m>) -> Self {
        let scalar = match found {
            Resolved::One(value) => Scalar::of(value).map(SeenScalar::new),
            Resolved::Many(_) => None,
        };
        Self { found, scalar }
    }
}

/// A property of a message.
#[derive(Debug)]
pub struct SeenProperty<'m> {
    /// Its name,
    pub name: &'m str,
    /// and the hash of that: see [`hash_name`].
    pub name_hash: u64,
    /// Its value.
    pub seen: Seen<'m>,
}

/// More properties than this take memory of their own.
const PROPERTIES: usize = 24;

/// A message on its way through the segments.
#[derive(Debug)]
pub struct SeenMessage<'m, 'p> {
    /// The message itself.
    pub message: &'m Message<'p>,
    /// Its topic.
    pub topic: SeenScalar<'m>,
    properties: SmallVec<[SeenProperty<'m>; PROPERTIES]>,
    are_properties_seen: bool,
}

impl<'m, 'p> SeenMessage<'m, 'p> {
    /// A message of which nothing is known yet.
    pub fn new(message: &'m Message<'p>) -> Self {
        let topic = SeenScalar::new(Scalar::Text(message.topic));
        Self { message, topic, properties: SmallVec::new(), are_properties_seen: false }
    }

    /// Its properties, apart from lists without elements, which are absent. Cost: linear in them, the first time.
    pub fn properties(&mut self) -> &[SeenProperty<'m>] {
        if !self.are_properties_seen {
            self.are_properties_seen = true;
            self.properties.extend(self.message.properties.iter().filter_map(|(name, value)| {
                let seen = Resolved::of(value)?.into();
                Some(SeenProperty { name, name_hash: hash_name(name), seen })
            }));
        }
        &self.properties
    }

    /// What `name` reaches, through mappings too.
    pub fn look_up(&self, name: &str) -> Option<Seen<'m>> {
        lookup(self.message.properties, name).map(Seen::from)
    }
}

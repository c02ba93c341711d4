//! The parts of a message as bytes: route, properties and body.

use std::ops::Range;
use std::sync::Arc;

use crate::broker::durable::Content;
use crate::broker::queues::message_bytes::{MessageBytes, SHARED_BYTES_MIN, SharedBody};

/// The parts of a message, as they go over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Exchange and routing key: two short strings.
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

    /// The parts as the journal takes them. `shared` is all of them in one piece, if they lie so that the journal can have it.
    #[inline]
    pub fn content(&self, shared: Option<&'a Arc<Vec<u8>>>) -> Content<'a> {
        Content { route: self.route, properties: self.properties, body: self.body, shared }
    }

    /// All parts in one piece, as the store and the journal keep them.
    #[inline]
    pub fn joined(&self) -> JoinedParts {
        let mut bytes = Vec::with_capacity(self.size());
        bytes.extend_from_slice(self.route);
        bytes.extend_from_slice(self.properties);
        bytes.extend_from_slice(self.body);
        JoinedParts { bytes, route: self.route.len(), properties: self.properties.len() }
    }
}

/// The parts of a message in one piece: route, properties and body.
#[derive(Debug, Clone, Default)]
pub(crate) struct JoinedParts {
    pub bytes: Vec<u8>,
    /// The sizes of the first two.
    pub route: usize,
    pub properties: usize,
}

impl JoinedParts {
    pub fn parts(&self) -> Parts<'_> {
        parts_of(&self.bytes, self.route, self.properties)
    }
}

/// The parts of a large message in one piece, which queues, logs and outputs have together.
pub(crate) struct SharedParts {
    bytes: Arc<Vec<u8>>,
    /// The sizes of the first two.
    route: usize,
    properties: usize,
}

/// A message that has arrived: it lies in somebody's buffer, or is in one piece already and need not be copied. Whoever
/// keeps it takes it out.
pub(crate) enum Arrived<'a> {
    Borrowed(Parts<'a>),
    Joined(JoinedParts),
    Shared(SharedParts),
}

impl Arrived<'_> {
    #[inline]
    pub fn parts(&self) -> Parts<'_> {
        match self {
            Self::Borrowed(parts) => *parts,
            Self::Joined(joined) => joined.parts(),
            Self::Shared(shared) => parts_of(&shared.bytes, shared.route, shared.properties),
        }
    }

    /// Let those who keep the message have its bytes together, if it is large.
    #[inline]
    pub fn share_large(&mut self) {
        if self.parts().size() >= SHARED_BYTES_MIN && self.shared().is_none() {
            self.share();
        }
    }

    #[cold]
    fn share(&mut self) {
        let JoinedParts { mut bytes, route, properties } = self.take();
        bytes.shrink_to_fit();
        *self = Self::Shared(SharedParts { bytes: Arc::new(bytes), route, properties });
    }

    /// The bytes that others may have, too.
    #[inline]
    pub fn shared(&self) -> Option<&Arc<Vec<u8>>> {
        match self {
            Self::Shared(shared) => Some(&shared.bytes),
            _ => None,
        }
    }

    /// The message as the journal takes it.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        self.parts().content(self.shared())
    }

    /// Take the message out, in one piece.
    #[inline]
    pub fn take(&mut self) -> JoinedParts {
        match self {
            Self::Borrowed(parts) => parts.joined(),
            Self::Joined(joined) => std::mem::take(joined),
            Self::Shared(SharedParts { bytes, route, properties }) => {
                let bytes = Arc::unwrap_or_clone(std::mem::take(bytes));
                JoinedParts { bytes, route: *route, properties: *properties }
            }
        }
    }

    /// Take the bytes out, as the store keeps them.
    #[inline]
    pub fn take_bytes(&mut self) -> MessageBytes {
        self.share_large();
        match self {
            Self::Shared(shared) => MessageBytes::Shared(Arc::clone(&shared.bytes)),
            _ => MessageBytes::Own(self.take().bytes.into_boxed_slice()),
        }
    }

    /// Take the body out, for an output that writes it from where it is.
    pub fn take_body(&mut self) -> SharedBody {
        let joined = self.take();
        SharedBody::rest(Arc::new(joined.bytes), joined.route + joined.properties)
    }
}

/// The parts in one piece, with the sizes of the first two.
#[inline]
pub(crate) fn parts_of(bytes: &[u8], route: usize, properties: usize) -> Parts<'_> {
    let (route, remaining) = bytes.split_at(route);
    let (properties, body) = remaining.split_at(properties);
    Parts { route, properties, body }
}

fn short(route: &[u8], at: usize) -> &[u8] {
    let range: Range<usize> = at + 1..at + 1 + usize::from(route[at]);
    &route[range]
}

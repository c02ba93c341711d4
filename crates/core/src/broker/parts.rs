//! The parts of a message as bytes: route, properties and body.

use std::ops::Range;
use std::sync::Arc;

use crate::broker::durable::Content;
use crate::broker::queues::message_bytes::SharedBody;

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

    /// The parts as the journal takes them.
    pub fn content(&self) -> Content<'a> {
        Content { route: self.route, properties: self.properties, body: self.body }
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
        let (route, remaining) = self.bytes.split_at(self.route);
        let (properties, body) = remaining.split_at(self.properties);
        Parts { route, properties, body }
    }
}

/// A message that has arrived: it lies in somebody's buffer, or is in one piece already and need not be copied. Whoever
/// keeps it takes it out.
pub(crate) enum Arrived<'a> {
    Borrowed(Parts<'a>),
    Joined(JoinedParts),
}

impl Arrived<'_> {
    #[inline]
    pub fn parts(&self) -> Parts<'_> {
        match self {
            Self::Borrowed(parts) => *parts,
            Self::Joined(joined) => joined.parts(),
        }
    }

    /// Take the message out, in one piece.
    #[inline]
    pub fn take(&mut self) -> JoinedParts {
        match self {
            Self::Borrowed(parts) => parts.joined(),
            Self::Joined(joined) => std::mem::take(joined),
        }
    }

    /// Take the body out, for an output that writes it from where it is.
    pub fn take_body(&mut self) -> SharedBody {
        let joined = self.take();
        SharedBody::rest(Arc::new(joined.bytes), joined.route + joined.properties)
    }
}

fn short(route: &[u8], at: usize) -> &[u8] {
    let range: Range<usize> = at + 1..at + 1 + usize::from(route[at]);
    &route[range]
}

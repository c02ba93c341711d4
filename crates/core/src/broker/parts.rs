//! The parts of a message as bytes: route, properties and body.

use std::ops::Range;

use crate::broker::durable::Content;

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

    /// The same parts, for the journal.
    pub fn content(&self) -> Content<'a> {
        Content { route: self.route, properties: self.properties, body: self.body }
    }

    /// All parts in one piece, as the store and the journal keep them.
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

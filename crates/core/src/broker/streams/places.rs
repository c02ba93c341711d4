//! The places of a stream's named readers, and what each has not acknowledged.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::journal::Sequence;

/// The place of a named reader, as its stream keeps it.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The number that it reads next; None before it is known.
    pub(super) next: Option<Sequence>,
    /// Whether a consumer reads under this name.
    pub(super) is_read: bool,
}

/// What a consumer that is a named reader has not acknowledged.
#[derive(Debug)]
pub(crate) struct NamedReader {
    pub(super) name: Box<str>,
    /// The numbers of its deliveries from the first that was not acknowledged, and whether each was.
    pub(super) delivered: VecDeque<(Sequence, bool)>,
    /// Whether it is among those whose places are recorded in the next tick.
    pub(super) is_listed: bool,
}

/// A named reader, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderOverview {
    /// Its name.
    pub name: String,
    /// The number that it reads next.
    pub next: u64,
    /// How many messages are from there to the end of the stream.
    pub lag: u64,
    /// Whether a consumer reads under this name now.
    pub is_reading: bool,
}

/// The named readers of a stream.
pub(crate) type Places = HashMap<Box<str>, Place>;

impl NamedReader {
    pub fn new(name: Box<str>) -> Self {
        Self { name, delivered: VecDeque::new(), is_listed: false }
    }

    /// Note a delivery.
    pub fn deliver(&mut self, sequence: Sequence) {
        self.delivered.push_back((sequence, false));
    }

    /// Note that a delivery was acknowledged.
    pub(super) fn settle(&mut self, sequence: Sequence) {
        if let Ok(index) = self.delivered.binary_search_by_key(&sequence, |(number, _)| *number) {
            self.delivered[index].1 = true;
        }
        while self.delivered.front().is_some_and(|(_, is_settled)| *is_settled) {
            self.delivered.pop_front();
        }
    }
}

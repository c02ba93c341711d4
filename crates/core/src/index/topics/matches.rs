//! The ids and symbols that one version of an engine has for one topic.

use crate::index::SubscriptionId;
use crate::index::ids::AttributeId;
use crate::index::layout::symbol_row::SymbolInfo;
use crate::index::segment::patterns::TopicSymbols;

/// The matches of one topic in one version.
#[derive(Clone, Debug, Default)]
pub struct TopicMatches {
    /// The serial number of the version; 0 for an empty engine.
    pub serial: u64,
    /// The subscriptions that ask for such a topic and nothing else: ascending, each once.
    pub ids: Vec<SubscriptionId>,
    /// The symbols of the topic in each segment; empty when it has none in any.
    pub symbols: Vec<TopicSymbols>,
}

impl TopicMatches {
    /// The matches in an engine that asks nothing about topics.
    pub const NONE: Self = Self { serial: 0, ids: Vec::new(), symbols: Vec::new() };

    /// The symbols of the topic in the segment with this index.
    pub fn symbols(&self, segment: usize) -> &[(AttributeId, SymbolInfo)] {
        self.symbols.get(segment).map_or(&[], Vec::as_slice)
    }

    /// Forget everything, for the version `serial` and symbols of `segment_count` segments.
    pub fn begin(&mut self, serial: u64, segment_count: usize) {
        self.serial = serial;
        self.ids.clear();
        self.symbols.iter_mut().for_each(Vec::clear);
        self.symbols.resize_with(segment_count, Vec::new);
    }

    /// The size in multiples of 8 bytes.
    pub fn weight(&self) -> usize {
        let symbols = |symbols: &TopicSymbols| (size_of_val(&**symbols) + size_of_val(symbols)) / 8;
        1 + self.ids.len() + self.symbols.iter().map(symbols).sum::<usize>()
    }
}

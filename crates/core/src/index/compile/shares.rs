//! Estimates what share of the messages has a value, from what a sample of the queries asks for.

use std::cmp::Reverse;

use hashbrown::HashSet;

use crate::index::clause::ValueTest;
use crate::index::ids::AttributeId;
use crate::index::origin::AttributeOrigin;
use crate::index::term::SymbolTerm;

use super::interner::Interner;

/// The size of the sample.
#[derive(Default)]
pub struct SampleCounts {
    /// The number of sampled queries.
    pub queries: u32,
}

/// The number of sampled queries that ask about an attribute.
#[derive(Debug, Default)]
pub struct AttributeSample {
    /// Queries that ask about it at all.
    pub queries: u32,
    /// Values that queries demand of it.
    pub demands: u32,
}

/// The number of sampled queries that demand a symbol, and its share if that is known.
pub struct SymbolSample {
    /// Queries that demand it.
    pub demands: u32,
    is_bool: bool,
    least_share: f32,
}

impl SampleCounts {
    /// An estimate of the share of messages that have the attribute at all: the share of queries that ask about it.
    pub fn presence_share(&self, attribute: &AttributeSample) -> f64 {
        (f64::from(attribute.queries) + 1.0) / (f64::from(self.queries) + 2.0)
    }
}

impl SymbolSample {
    /// A symbol that no query has demanded yet.
    pub fn new(is_bool: bool, least_share: f32) -> Self {
        Self { demands: 0, is_bool, least_share }
    }

    /// An estimate of the share of messages that have the symbol: its share of the demands on its attribute.
    ///
    /// While demands are few, the share is drawn towards a prior: one in two for a Boolean, one in 64 for anything else.
    /// If a message may have several symbols, the share is at least what the length of the text suggests.
    pub fn share(&self, attribute: &AttributeSample) -> f64 {
        let prior = if self.is_bool { 2.0 } else { 64.0 };
        let share = (f64::from(self.demands) + 1.0) / (f64::from(attribute.demands) + prior);
        share.max(f64::from(self.least_share))
    }
}

impl Interner {
    /// The `count` attributes that most queries of the sample ask about.
    #[must_use]
    pub fn most_asked(&self, count: usize) -> HashSet<AttributeId> {
        let mut all: Vec<_> = self.samples().collect();
        all.sort_unstable_by_key(|(id, sample)| (Reverse(sample.queries), *id));
        all.into_iter().take(count).map(|(id, _)| id).collect()
    }

    /// An estimate of the share of messages that pass `test`.
    #[must_use]
    pub fn test_share(&self, test: &ValueTest) -> f64 {
        let named: f64 = test.symbols.iter().map(|symbol| self.share(*symbol)).sum();
        if test.is_open() { (1.0 - named).max(0.5) } else { named }
    }
}

/// The least estimate of the share of messages that have `term`, where messages have several: longer terms are rarer.
///
/// Any of them is rarer than a Boolean, and commoner than the rare ones of many values. A whole body has to be searched
/// for anything in it, which pays only where no other part of the query is selective.
pub fn least_share(term: SymbolTerm<'_>, origin: AttributeOrigin) -> f32 {
    const RAREST: f64 = 1.0 / 512.0;
    let length = term.with_bytes(<[u8]>::len) as f64;
    let share = match term {
        _ if !origin.is_several() || origin == AttributeOrigin::Ancestors => 0.0,
        _ if origin.is_of_body() => (1.0 + 1.0 / length.max(1.0)) / 8.0,
        SymbolTerm::Pattern(_, text) => {
            let literals = text.split('.').filter(|word| !matches!(*word, "*" | "#")).count();
            0.25_f64.powi(literals.min(8) as i32).max(RAREST)
        }
        // Every needle may be in a text, but only whole words.
        SymbolTerm::Needle(..) => 0.25_f64.powf(length.min(8.0)).max(RAREST),
        SymbolTerm::Value(_) | SymbolTerm::WordPair(_) => 0.5_f64.powf(2.0 + length.min(8.0)).max(RAREST),
    };
    share as f32
}

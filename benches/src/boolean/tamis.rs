//! The engine of tamis behind the trait of the Boolean algorithms.
//!
//! It reads each filter's text and each message's properties.

use std::sync::Arc;

use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{self, Body};
use tamis_core::query::selector::{self, SelectorDialect};

use super::BooleanMatcher;
use super::filter::{BooleanFilter, FilterMessage, Schema};

/// An engine whose subscriptions are numbered as the filters are.
#[derive(Debug)]
pub struct FilterTamis(Engine);

impl FilterTamis {
    /// The engine.
    #[must_use]
    pub fn into_engine(self) -> Engine {
        self.0
    }
}

impl BooleanMatcher for FilterTamis {
    const NAME: &'static str = "tamis";
    type Scratch = (Scratch, Vec<SubscriptionId>);

    fn build(filters: &[BooleanFilter], _: &Schema) -> Self {
        let parse = |filter: &BooleanFilter| {
            selector::parse(&filter.selector, SelectorDialect::Jms).expect("a selector that we wrote")
        };
        let engine = Engine::new();
        engine.change(filters.iter().map(|filter| Arc::new(parse(filter))).collect(), &[]).expect("in memory");
        engine.settle();
        Self(engine)
    }

    fn text_bytes(&self) -> usize {
        self.0.text_bytes()
    }

    fn match_into(&self, message: &FilterMessage, (scratch, found): &mut Self::Scratch, matched: &mut Vec<u32>) {
        found.clear();
        let message = message::Message::new("", &message.properties, Body::Absent);
        self.0.match_into(&message, scratch, found).expect("an engine in memory is never damaged");
        matched.extend(found.iter().map(|id| id.0 as u32)); // a new engine counts from 0
    }
}

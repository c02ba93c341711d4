//! The engine of tamis behind the trait of the topic approaches.

use std::sync::Arc;

use tamis_core::index::{Engine, Scratch, SubscriptionId};
use tamis_core::message::{Body, Message, Properties};
use tamis_core::query::Query;
use tamis_core::query::expr::Predicate;
use tamis_core::topic::{TopicDialect, TopicPattern};

use super::TopicMatcher;

/// An engine of topic patterns alone.
#[derive(Debug, Default)]
pub struct TopicTamis {
    engine: Engine,
    scratch: Scratch,
    found: Vec<SubscriptionId>,
    properties: Properties,
}

impl TopicMatcher for TopicTamis {
    const NAME: &'static str = "tamis";
    const HASH: &'static str = "a state that stays where it is";

    fn add(&mut self, pattern: &str, dialect: TopicDialect) {
        let predicate = Predicate::Topic(TopicPattern::new(pattern, dialect));
        self.engine.add(Arc::new(Query::new(predicate.into()).expect("one short predicate")));
    }

    fn settle(&mut self) {
        self.engine.settle();
    }

    fn match_into(&mut self, topic: &str, matched: &mut Vec<u32>) {
        self.found.clear();
        let message = Message::new(topic, &self.properties, Body::Absent);
        self.engine.match_into(&message, &mut self.scratch, &mut self.found).expect("in memory");
        matched.extend(self.found.iter().map(|id| id.0 as u32)); // a new engine counts from 0
    }
}

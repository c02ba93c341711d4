//! A version: the state of an engine that a match reads, which never changes.
//!
//! A change makes a new version and stores a pointer to it; matches that have started continue with theirs. A version is a
//! few immutable segments, the largest the oldest, and a short tail of the subscriptions that were added last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::SubscriptionId;
use crate::index::asked::AskedParts;
use crate::index::matching::MatchState;
use crate::index::matching::hashed_message::HashedMessage;
use crate::index::matching::matched_ids::MatchedIds;
use crate::index::matching::scratch::SegmentScratch;
use crate::index::name_filter::NameFilter;
use crate::index::scratch::Scratch;
use crate::index::segment::Segment;
use crate::index::segment::guard::LookedUp;
use crate::index::segment::tail::{Tail, TailSubscription};
use crate::index::topics::matches::TopicMatches;
use crate::index::topics::plan::{TopicPlan, TopicSources};
use crate::message::Message;
use crate::query::Query;

/// Subscriptions with their queries, which are not indexed.
pub type Subscriptions = Vec<(SubscriptionId, Arc<Query>)>;

/// One state of an engine.
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// Ascending from version to version; the first is 0.
    pub number: u64,
    /// Unique among all versions of all engines of this process; 0 for an empty engine.
    serial: u64,
    /// The number of subscriptions.
    pub live: usize,
    /// The indexed subscriptions.
    pub segments: Vec<Arc<Segment>>,
    /// The subscriptions that are not indexed yet.
    pub tail: Arc<Tail>,
    /// The number of subscriptions of the tail that belong to this version.
    pub tail_length: usize,
    /// The work of indexing these.
    pub tail_weight: usize,
    /// The parts of a message that these ask for, removed ones included.
    pub tail_asked: Arc<AskedParts>,
    /// The hierarchies of attributes.
    pub hierarchies: Arc<Hierarchies>,
    /// The way in which topics are looked up.
    topics: TopicPlan,
    /// The names for which segments and tail ask, and perhaps others.
    asked_filter: NameFilter,
    /// The live subscriptions of the tail apart from pure topic queries, a bit each.
    tail_others: u32,
    asked: OnceLock<Arc<AskedParts>>,
}

/// The position of a subscription: in a segment or in the tail.
#[derive(Clone, Debug)]
pub enum SubscriptionPosition {
    /// At a position of a segment.
    Segment(Arc<Segment>, usize),
    /// At a position of the tail.
    Tail(usize),
}

impl Version {
    /// The first version of an engine with one segment.
    pub fn of(segment: Segment, hierarchies: Hierarchies) -> Self {
        let live = segment.position_count();
        let (segments, hierarchies) = (vec![Arc::new(segment)], Arc::new(hierarchies));
        let mut version = Self { live, segments, hierarchies, ..Self::default() };
        version.seal();
        version
    }

    /// Compute what depends on segments and tail, before the version is published. Cost: a few look-ups per segment.
    pub fn seal(&mut self) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        self.serial = SERIAL.fetch_add(1, Ordering::Relaxed) + 1;
        self.asked = OnceLock::new();
        let (mut topics, mut others) = (0, 0);
        for (position, subscription) in self.live_tail() {
            let is_topic = subscription.query.topic_pattern().is_some();
            *(if is_topic { &mut topics } else { &mut others }) |= 1 << position;
        }
        self.tail_others = others;
        self.asked_filter = self.tail_asked.filter().clone();
        self.segments.iter().for_each(|segment| self.asked_filter.extend(segment.asked.filter()));
        self.topics = TopicPlan::new(&self.segments, topics);
    }

    /// Whether queries ask for a property called `name`; also true of some for which only removed queries asked.
    #[inline]
    pub fn may_ask(&self, name: &str) -> bool {
        self.asked_filter.may_have(name)
            && (self.tail_asked.has(name) || self.segments.iter().any(|segment| segment.asked.has(name)))
    }

    /// The names of which [`Self::may_ask`] is true, and perhaps others.
    pub fn names_asked(&self) -> &NameFilter {
        &self.asked_filter
    }

    /// Exactly what the queries ask for. Cost: the first time, linear in the queries; 3 µs each.
    pub fn asked(&self) -> Result<&AskedParts, EngineError> {
        if self.asked.get().is_none() {
            let mut asked = AskedParts::default();
            for (_, position) in self.subscriptions()? {
                asked.add(&*self.decode(&position)?);
            }
            _ = self.asked.set(Arc::new(asked)); // an equal one may be there
        }
        Ok(self.asked.get().expect("set above"))
    }

    /// Append every subscription whose query is true of `message`, ascending, each once.
    pub fn match_into(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        matched: &mut Vec<SubscriptionId>,
    ) -> Result<(), EngineError> {
        self.with_topic(message, scratch, |topic, scratch| {
            let start = matched.len();
            matched.extend_from_slice(&topic.ids);
            self.match_queries(message, topic, scratch)?;
            if !scratch.ids.is_empty() {
                matched.drain(start..).for_each(|id| scratch.ids.push(id));
                scratch.ids.drain_into(matched);
            }
            Ok(())
        })
    }

    /// Every subscription whose query is true of `message`, without a list of them.
    pub fn matched_ids(&self, message: &Message<'_>, scratch: &mut Scratch) -> Result<MatchedIds, EngineError> {
        self.with_topic(message, scratch, |topic, scratch| {
            self.match_queries(message, topic, scratch)?;
            topic.ids.iter().for_each(|id| scratch.ids.push(*id));
            Ok(scratch.ids.take())
        })
    }

    /// Do `work` with what is known of the topic of `message`.
    #[inline]
    fn with_topic<R>(
        &self,
        message: &Message<'_>,
        scratch: &mut Scratch,
        work: impl FnOnce(&TopicMatches, &mut SegmentScratch) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let Scratch { matching, topics } = scratch;
        if !self.topics.asks {
            return work(&TopicMatches::NONE, matching);
        }
        let (version, serial) = (self.number, self.serial);
        let sources = TopicSources { version, serial, segments: &self.segments, tail: &self.tail, plan: &self.topics };
        topics.get_or_insert_default().with(sources, message.topic, |topic| work(topic, matching))
    }

    /// Collect the ids of all matches in the scratch, but those that the topic alone decides.
    #[inline]
    fn match_queries(
        &self,
        message: &Message<'_>,
        topic: &TopicMatches,
        scratch: &mut SegmentScratch,
    ) -> Result<(), EngineError> {
        scratch.ids.clear();
        let state = MatchState { hierarchies: &self.hierarchies, version: self.number };
        let mut hashed = HashedMessage::new(message);
        for (index, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.has_leaves()) {
            segment.match_into(&mut hashed, topic.symbols(index), state, scratch)?;
        }
        self.match_tail(message, |id| scratch.ids.push(id));
        Ok(())
    }

    fn match_tail(&self, message: &Message<'_>, mut push: impl FnMut(SubscriptionId)) {
        let (mut asked, mut satisfied, mut values) = (0_u32, 0_u32, LookedUp::default());
        for subscription in self.tail.at(self.tail_others) {
            let bit = 1 << subscription.first;
            if asked & bit == 0 && subscription.is_true(message, &self.hierarchies, &mut values) {
                satisfied |= bit;
            }
            asked |= bit;
            if satisfied & bit != 0 {
                push(subscription.id);
            }
        }
    }

    /// The live subscriptions of the tail, with their positions.
    pub fn live_tail(&self) -> impl Iterator<Item = (usize, &TailSubscription)> {
        let subscriptions = self.tail.first(self.tail_length);
        subscriptions.filter(|(position, _)| self.tail.tombstones.is_live(*position, self.number))
    }

    /// The live subscriptions of the tail: those of the first `length` positions, and the others.
    pub fn split_tail(&self, length: usize) -> (Subscriptions, Subscriptions) {
        let (first, others): (Vec<_>, Vec<_>) = self.live_tail().partition(|(position, _)| *position < length);
        let of = |(_, subscription): (usize, &TailSubscription)| (subscription.id, Arc::clone(&subscription.query));
        (first.into_iter().map(of).collect(), others.into_iter().map(of).collect())
    }

    /// Take all subscriptions out of the tail.
    pub fn clear_tail(&mut self) {
        (self.tail, self.tail_length, self.tail_weight) = (Arc::new(Tail::default()), 0, 0);
        self.tail_asked = Arc::default();
    }

    /// The position of the subscription `id`, if there is one.
    pub fn find(&self, id: SubscriptionId) -> Result<Option<SubscriptionPosition>, EngineError> {
        if let Some((position, _)) = self.live_tail().find(|(_, subscription)| subscription.id == id) {
            return Ok(Some(SubscriptionPosition::Tail(position)));
        }
        for segment in self.segments.iter().rev() {
            let is_live = |position: &usize| segment.tombstones.is_live(*position, self.number);
            if let Some(position) = segment.find(id)?.filter(is_live) {
                return Ok(Some(SubscriptionPosition::Segment(Arc::clone(segment), position)));
            }
        }
        Ok(None)
    }

    /// The query of a subscription.
    pub fn query(&self, position: &SubscriptionPosition) -> Result<Arc<Query>, EngineError> {
        match position {
            SubscriptionPosition::Segment(segment, position) => {
                Ok(Arc::clone(segment.query(segment.query_of(*position)?)?))
            }
            SubscriptionPosition::Tail(position) => {
                Ok(Arc::clone(&self.tail.get(*position).expect("a position of a subscription").query))
            }
        }
    }

    /// The query of a subscription, decoded again rather than kept.
    pub fn decode(&self, position: &SubscriptionPosition) -> Result<Arc<Query>, EngineError> {
        match position {
            SubscriptionPosition::Segment(segment, position) => {
                Ok(Arc::new(segment.decode(segment.query_of(*position)?)?))
            }
            SubscriptionPosition::Tail(_) => self.query(position),
        }
    }

    /// Every subscription, by ascending id. Cost: linear in them, and a sort where there are several segments.
    pub fn subscriptions(&self) -> Result<Vec<(SubscriptionId, SubscriptionPosition)>, EngineError> {
        let mut all = Vec::with_capacity(self.live);
        for segment in &self.segments {
            for position in segment.positions_by_id() {
                let position = position?;
                if segment.tombstones.is_live(position, self.number) {
                    let id = segment.id(position)?;
                    all.push((id, SubscriptionPosition::Segment(Arc::clone(segment), position)));
                }
            }
        }
        let tail = self.live_tail().map(|(position, tail)| (tail.id, SubscriptionPosition::Tail(position)));
        all.extend(tail);
        all.sort_by_key(|(id, _)| *id); // sequences that already ascend
        Ok(all)
    }
}

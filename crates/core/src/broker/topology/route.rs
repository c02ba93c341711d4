//! The way of a message: from an exchange over its bindings to queues, each once.

use crate::amqp::{AmqpError, BasicProperties, MethodId, ReplyCode};
use crate::index::{Scratch, SubscriptionId};

use super::exchange::Exchange;
use super::view::{View, ViewScratch};
use super::{DeclaredQueue, Destination, ExchangeId, QueueId, Topology, VhostId, errors};
use crate::broker::slab::{Slab, SlotId};

/// Engines take turns in so many rooms. Each remembers at most 16 MiB of topics that come again.
const ROOMS: usize = 4;

/// A message as it was published.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// The exchange's name; empty is the default exchange.
    pub exchange: &'a str,
    /// Its routing key.
    pub routing_key: &'a str,
    /// Its properties, with the headers.
    pub properties: BasicProperties<'a>,
    /// All of its body.
    pub body: &'a [u8],
}

/// What routing needs between messages, kept by the caller so that nothing is allocated a message.
#[derive(Debug, Default)]
pub struct RouteScratch {
    rooms: [Scratch; ROOMS],
    matched: Vec<SubscriptionId>,
    queues: VisitedSet,
    exchanges: VisitedSet,
    pending: Vec<ExchangeId>,
    view: ViewScratch,
    saw_content: bool,
}

impl RouteScratch {
    /// Whether the exchange and the key alone decided where the last message went, so that another one with both goes
    /// the same way until the topology changes.
    #[must_use]
    pub fn key_decided(&self) -> bool {
        !self.saw_content
    }
}

/// Which of many small numbers have been seen: a stamp each, so that forgetting all costs nothing.
#[derive(Debug, Default)]
struct VisitedSet {
    stamps: Vec<u32>,
    now: u32,
}

impl VisitedSet {
    /// Nothing among `0..end` has been seen.
    fn begin(&mut self, end: u32) {
        if self.stamps.len() < end as usize {
            self.stamps.resize(end as usize, 0);
        }
        self.now = self.now.wrapping_add(1);
        if self.now == 0 {
            self.stamps.fill(0);
            self.now = 1;
        }
    }

    /// True the first time.
    #[inline]
    fn is_new(&mut self, id: impl SlotId) -> bool {
        let stamp = &mut self.stamps[id.index()];
        let is_new = *stamp != self.now;
        *stamp = self.now;
        is_new
    }
}

impl Topology {
    /// Append every queue that a message goes to, each once, in the order in which the way leads to them. Returns how
    /// many those are.
    ///
    /// Exchanges are passed once each, so that cycles of them end. Where no binding of an exchange takes the message it
    /// goes to the alternate exchange, if there is one. CC and BCC would be further keys here, over the same `scratch`.
    ///
    /// Cost: two look-ups for the default exchange and for what a key decides; one match for each exchange on the way
    /// that has queries; a step for each queue.
    ///
    /// # Errors
    /// 404 for the exchange; 403 where it is internal.
    pub fn route(
        &self,
        vhost: VhostId,
        message: &Published<'_>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        let there = self.get_vhost(vhost)?;
        let start = queues.len();
        scratch.saw_content = false;
        if message.exchange.is_empty() {
            queues.extend(there.queues.get(message.routing_key));
            return Ok(queues.len() - start);
        }
        let first =
            *there.exchanges.get(message.exchange).ok_or_else(|| errors::no_exchange(message.exchange, &there.name))?;
        if self.exchanges[first].internal {
            return Err(errors::internal_exchange(message.exchange, &there.name));
        }
        let RouteScratch { rooms, matched, queues: seen, exchanges, pending, view, saw_content } = scratch;
        seen.begin(self.queues.end());
        exchanges.begin(self.exchanges.end());
        exchanges.is_new(first);
        pending.clear();
        pending.push(first);
        let view = View::new(view, message.properties, message.body);
        let all_queues = (!self.gone.is_empty()).then_some(&self.queues);
        let mut way = RouteWalk {
            all_queues,
            rooms,
            matched,
            queues: seen,
            exchanges,
            pending,
            view,
            saw_content,
            found: queues,
        };
        while let Some(id) = way.pending.pop() {
            let exchange = &self.exchanges[id];
            if way.pass(exchange, message.routing_key)? {
                continue;
            }
            match exchange.alternate.as_deref() {
                None => {}
                Some("") => {
                    if let Some(id) = there.queues.get(message.routing_key) {
                        way.go(&[Destination::Queue(*id)]);
                    }
                }
                Some(name) => {
                    if let Some(id) = there.exchanges.get(name) {
                        way.go(&[Destination::Exchange(*id)]);
                    }
                }
            }
        }
        Ok(queues.len() - start)
    }
}

/// Where a message has been, and where it has still to go.
struct RouteWalk<'a, 'm> {
    /// Only while some of them are gone, and bindings still lead to them.
    all_queues: Option<&'a Slab<QueueId, DeclaredQueue>>,
    rooms: &'a mut [Scratch; ROOMS],
    matched: &'a mut Vec<SubscriptionId>,
    queues: &'a mut VisitedSet,
    exchanges: &'a mut VisitedSet,
    pending: &'a mut Vec<ExchangeId>,
    view: View<'m>,
    saw_content: &'a mut bool,
    found: &'a mut Vec<QueueId>,
}

impl RouteWalk<'_, '_> {
    /// Go to all destinations of one exchange. False when there are none.
    fn pass(&mut self, exchange: &Exchange, routing_key: &str) -> Result<bool, AmqpError> {
        let mut any = false;
        if let Some(condition) = exchange.find_key(routing_key) {
            any |= self.go(&condition.destinations);
        }
        for number in &exchange.always {
            any |= self.go(&exchange.conditions[*number].destinations);
        }
        if let Some(queries) = &exchange.queries {
            self.matched.clear();
            *self.saw_content |= queries.needs().any();
            let (room, matched) = (&mut self.rooms[queries.room % ROOMS], &mut *self.matched);
            let done = self
                .view
                .with(routing_key, queries.needs(), |message| queries.engine.match_into(message, room, matched));
            done.map_err(|error| AmqpError::new(ReplyCode::InternalError, &error.to_string(), MethodId::NONE))?;
            for place in 0..self.matched.len() {
                let number = queries.conditions[&self.matched[place]];
                any |= self.go(&exchange.conditions[number].destinations);
            }
        }
        Ok(any)
    }

    /// Go to those of `destinations` where the message has not been. False when none of them is there.
    #[inline]
    fn go(&mut self, destinations: &[Destination]) -> bool {
        let mut any = self.all_queues.is_none();
        for destination in destinations {
            match *destination {
                Destination::Queue(id) if self.all_queues.is_some_and(|queues| queues[id].is_gone) => continue,
                Destination::Queue(id) if self.queues.is_new(id) => self.found.push(id),
                Destination::Exchange(id) if self.exchanges.is_new(id) => self.pending.push(id),
                _ => {}
            }
            any = true;
        }
        any
    }
}

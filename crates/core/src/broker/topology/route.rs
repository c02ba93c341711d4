//! Routing: a message goes from an exchange over its bindings to queues, to each once.

use crate::amqp::{AmqpError, BasicProperties, MethodId, ReplyCode};
use crate::index::{Scratch, SubscriptionId};

use super::address_kind::AddressKind;
use super::conditions::view::{Reading, View, ViewScratch};
use super::exchange::Exchange;
use super::{DeclaredQueue, Destination, ExchangeId, QueueId, Topology, Vhost, VhostId, errors};
use crate::broker::slab::{Slab, SlotId};

/// The number of scratch buffers that engines share. Each caches at most 16 MiB of topics.
const ROOMS: usize = 4;

/// A message as it was published.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// The exchange's name; empty is the default exchange.
    pub exchange: &'a str,
    /// Its routing key.
    pub routing_key: &'a str,
    /// Keys by which it is routed as well, each to the queues that do not have it yet.
    pub further_keys: &'a [&'a str],
    /// Its properties, with the headers.
    pub properties: BasicProperties<'a>,
    /// All of its body.
    pub body: &'a [u8],
}

/// Buffers for routing, kept by the caller so that nothing is allocated per message.
#[derive(Debug, Default)]
pub struct RouteScratch {
    rooms: [Scratch; ROOMS],
    matched: Vec<SubscriptionId>,
    queues: VisitedSet,
    exchanges: VisitedSet,
    pending: Vec<ExchangeId>,
    view: ViewScratch,
    saw_content: bool,
    reading: Reading,
}

impl RouteScratch {
    /// The cost of matching the last message, and the limits that it met.
    #[must_use]
    pub fn reading(&self) -> Reading {
        self.reading
    }

    /// Whether the exchange and the key alone decided the route of the last message, so that another one with both takes the
    /// same route until the topology changes.
    #[must_use]
    pub fn key_decided(&self) -> bool {
        !self.saw_content
    }
}

/// The set of ids that were visited for a message: one stamp per id, so that clearing it takes no time.
#[derive(Debug, Default)]
struct VisitedSet {
    stamps: Vec<u32>,
    now: u32,
}

impl VisitedSet {
    /// Clear the set, for ids whose index is less than `end`.
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

    /// Add an id. True the first time.
    #[inline]
    fn is_new(&mut self, id: impl SlotId) -> bool {
        let stamp = &mut self.stamps[id.index()];
        let is_new = *stamp != self.now;
        *stamp = self.now;
        is_new
    }
}

impl Topology {
    /// Check that clients may publish to an exchange.
    ///
    /// # Errors
    /// 404; 403 if it is internal.
    pub fn check_publish(&self, vhost: VhostId, exchange: &str) -> Result<(), AmqpError> {
        if exchange.is_empty() { Ok(()) } else { self.public_exchange(vhost, exchange).map(drop) }
    }

    fn public_exchange(&self, vhost: VhostId, name: &str) -> Result<ExchangeId, AmqpError> {
        let id = self.exchange(vhost, name)?;
        if self.exchanges[id].internal {
            return Err(errors::internal_exchange(name, self.vhost_name(vhost)));
        }
        Ok(id)
    }

    /// Append every queue that a client's message goes to, each once, in the order of the route. Returns their number.
    ///
    /// Each exchange is passed once, so that cycles end. When no binding of an exchange takes the message, it goes to the
    /// alternate exchange, if there is one.
    ///
    /// Cost: two look-ups for the default exchange and for what a key decides; one match for each exchange on the route that
    /// has queries; a step for each queue. All of this for each key.
    ///
    /// # Errors
    /// 404 for the exchange; 403 if it is internal.
    pub fn route(
        &self,
        vhost: VhostId,
        message: &Published<'_>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        self.route_to(vhost, message, Self::public_exchange, scratch, queues)
    }

    /// Route a message of the broker itself, which may go to an internal exchange.
    ///
    /// # Errors
    /// 404 for the exchange.
    pub fn route_letter(
        &self,
        vhost: VhostId,
        message: &Published<'_>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        self.route_to(vhost, message, Self::exchange, scratch, queues)
    }

    /// Follow the default exchange, or the one that `find` gives.
    fn route_to(
        &self,
        vhost: VhostId,
        message: &Published<'_>,
        find: impl Fn(&Self, VhostId, &str) -> Result<ExchangeId, AmqpError>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        if message.exchange.is_empty() {
            return self.route_by_name(vhost, message, scratch, queues);
        }
        let first = find(self, vhost, message.exchange)?;
        self.route_from(first, message, scratch, queues)
    }

    /// Follow the default exchange: each key is the name of a queue.
    fn route_by_name(
        &self,
        vhost: VhostId,
        message: &Published<'_>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        let there = self.get_vhost(vhost)?;
        let start = queues.len();
        scratch.saw_content = false;
        scratch.reading = Reading::default();
        queues.extend(there.named(message.routing_key));
        for key in message.further_keys {
            let further = there.named(key).filter(|id| !queues[start..].contains(id));
            queues.extend(further);
        }
        Ok(queues.len() - start)
    }

    fn route_from(
        &self,
        first: ExchangeId,
        message: &Published<'_>,
        scratch: &mut RouteScratch,
        queues: &mut Vec<QueueId>,
    ) -> Result<usize, AmqpError> {
        let start = queues.len();
        let RouteScratch { rooms, matched, queues: visited, exchanges, pending, view, saw_content, reading } = scratch;
        *saw_content = false;
        visited.begin(self.queues.end());
        exchanges.begin(self.exchanges.end());
        exchanges.is_new(first);
        pending.clear();
        pending.push(first);
        let view = View::new(view, message.properties, message.body).within(self.limits());
        let all_queues = (!self.gone.is_empty()).then_some(&self.queues);
        let mut walk = RouteWalk {
            all_queues,
            rooms,
            matched,
            queues: visited,
            exchanges,
            pending,
            view,
            saw_content,
            routed: queues,
        };
        while let Some(id) = walk.pending.pop() {
            let exchange = &self.exchanges[id];
            if walk.pass(exchange, message)? {
                continue;
            }
            if let Some(alternate) = exchange.alternate.as_deref() {
                walk.pass_alternate(self.get_vhost(exchange.vhost)?, alternate, message);
            }
        }
        *reading = walk.view.reading();
        Ok(queues.len() - start)
    }
}

impl Vhost {
    /// The queue to which the default exchange leads with this key. The queue of an address is not among them: it takes
    /// only what a client has published to it, since then the broker knows who sent it.
    #[inline]
    fn named(&self, key: &str) -> Option<QueueId> {
        self.queues.get(key).copied().filter(|_| AddressKind::of_queue(key).is_none())
    }
}

/// The exchanges that a message has passed, and those that remain.
struct RouteWalk<'a, 'm> {
    /// All queues, only while bindings lead to some that were removed.
    all_queues: Option<&'a Slab<QueueId, DeclaredQueue>>,
    rooms: &'a mut [Scratch; ROOMS],
    matched: &'a mut Vec<SubscriptionId>,
    queues: &'a mut VisitedSet,
    exchanges: &'a mut VisitedSet,
    pending: &'a mut Vec<ExchangeId>,
    view: View<'m>,
    saw_content: &'a mut bool,
    routed: &'a mut Vec<QueueId>,
}

impl RouteWalk<'_, '_> {
    /// Follow all bindings of one exchange that take the message. False when none does.
    fn pass(&mut self, exchange: &Exchange, message: &Published<'_>) -> Result<bool, AmqpError> {
        let mut any = self.pass_key(exchange, message.routing_key)?;
        for number in &exchange.always {
            any |= self.go(&exchange.conditions[*number].destinations);
        }
        for key in message.further_keys {
            any |= self.pass_key(exchange, key)?;
        }
        Ok(any)
    }

    /// Follow the alternate exchange `name`, if it exists.
    fn pass_alternate(&mut self, there: &Vhost, name: &str, message: &Published<'_>) {
        if !name.is_empty() {
            if let Some(id) = there.exchanges.get(name) {
                self.go(&[Destination::Exchange(*id)]);
            }
            return;
        }
        for key in std::iter::once(&message.routing_key).chain(message.further_keys) {
            if let Some(id) = there.named(key) {
                self.go(&[Destination::Queue(id)]);
            }
        }
    }

    /// Follow the bindings that take the message because of this key, or look at it.
    #[inline]
    fn pass_key(&mut self, exchange: &Exchange, routing_key: &str) -> Result<bool, AmqpError> {
        let mut any = false;
        if let Some(condition) = exchange.find_key(routing_key) {
            any |= self.go(&condition.destinations);
        }
        if let Some(queries) = &exchange.queries {
            self.matched.clear();
            *self.saw_content |= queries.needs().any();
            let (room, matched) = (&mut self.rooms[queries.room % ROOMS], &mut *self.matched);
            let done = self.view.with(routing_key, queries.needs(), Some(&queries.names), |message| {
                queries.engine.match_into(message, room, matched)
            });
            done.map_err(|error| AmqpError::new(ReplyCode::InternalError, &error.to_string(), MethodId::NONE))?;
            for index in 0..self.matched.len() {
                let number = queries.condition(self.matched[index]);
                any |= self.go(&exchange.conditions[number].destinations);
            }
        }
        Ok(any)
    }

    /// Follow `destinations` that were not visited. False when none of them exists.
    #[inline]
    fn go(&mut self, destinations: &[Destination]) -> bool {
        let mut any = self.all_queues.is_none();
        for destination in destinations {
            match *destination {
                Destination::Queue(id) if self.all_queues.is_some_and(|queues| queues[id].is_gone) => continue,
                Destination::Queue(id) if self.queues.is_new(id) => self.routed.push(id),
                Destination::Exchange(id) if self.exchanges.is_new(id) => self.pending.push(id),
                _ => {}
            }
            any = true;
        }
        any
    }
}

//! Queues and exchanges are removed at once, and their bindings a few at a time.
//!
//! Removed parts disappear at once from names, counts, lists and routes. Their bindings are taken away later, some with every
//! change and as many as the caller asks for ([`Topology::sweep`]): a hundred thousand of them take a tenth of a second,
//! which nobody should have to wait for. Until then they stay linked, so that ids are not used again too early.

use crate::broker::slab::SlotId;

use super::{ConditionId, DefinitionKey, ExchangeId, QueueId, Topology};

/// The number of bindings that are taken away with each change: more than a change can make, so that they do not pile up.
pub(super) const STEP: usize = 4;

impl Topology {
    /// Remove a queue and its bindings: it was deleted, has expired, or its owner is gone. Auto-delete exchanges that lose
    /// their last binding are removed too.
    ///
    /// Cost: some nanoseconds for each of its bindings now, and a microsecond or two later ([`Topology::sweep`]).
    ///
    /// # Panics
    /// The queue does not exist.
    pub fn remove_queue(&mut self, id: QueueId) {
        let queue = self.queues.get(id).filter(|queue| !queue.is_gone).expect("a queue that is there");
        let (vhost, name) = (queue.vhost, queue.name.clone());
        if queue.survives() {
            self.record_removed(|topology| DefinitionKey::queue(topology.vhost_name(vhost), &name));
        }
        self.get_vhost_mut(vhost).queues.remove(&name);
        let queue = &mut self.queues[id];
        queue.is_gone = true;
        let incoming = std::mem::take(&mut queue.incoming);
        let mut unused = Vec::new();
        self.discount(&incoming, &mut unused);
        self.queues[id].incoming = incoming;
        self.gone.queues.push(id);
        self.remove_exchanges(unused);
        self.sweep(STEP);
    }

    /// Remove exchanges with all their bindings, and auto-delete exchanges that lose their last binding.
    pub(super) fn remove_exchanges(&mut self, mut unused: Vec<ExchangeId>) {
        while let Some(id) = unused.pop() {
            let exchange = &mut self.exchanges[id];
            if exchange.is_gone {
                continue;
            }
            exchange.is_gone = true;
            self.binding_count -= std::mem::take(&mut exchange.binding_count);
            let end = exchange.conditions.end();
            let incoming = std::mem::take(&mut exchange.incoming);
            let (vhost, name, durable) = (exchange.vhost, exchange.name.clone(), exchange.durable);
            self.discount(&incoming, &mut unused);
            incoming.into_iter().for_each(|number| self.unlink_source(number));
            self.get_vhost_mut(vhost).exchanges.remove(&name);
            if durable {
                self.record_removed(|topology| DefinitionKey::exchange(topology.vhost_name(vhost), &name));
            }
            self.gone.exchanges.push((id, end));
        }
        self.sweep(STEP);
    }

    /// Whether bindings of what was removed remain: then call [`Topology::sweep`] when there is time.
    pub fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Take away about `count_max` bindings of what was removed. True while there are more. It has no visible effect. Cost: a
    /// microsecond or two each.
    pub fn sweep(&mut self, count_max: usize) -> bool {
        for _ in 0..count_max {
            if let Some(&(id, end)) = self.gone.exchanges.last() {
                self.sweep_exchange(id, end);
            } else if let Some(&id) = self.gone.queues.last() {
                self.sweep_queue(id);
            } else {
                break;
            }
        }
        self.sweep_queries();
        !self.gone.is_empty()
    }

    /// Take the queries of removed conditions out of their engines.
    fn sweep_queries(&mut self) {
        while let Some(id) = self.gone.queries.pop() {
            if let Some(exchange) = self.exchanges.get_mut(id) {
                exchange.remove_queries();
            }
        }
    }

    /// One step: take away the last binding of the condition before `end`, or go on with the condition before, or remove the
    /// exchange itself.
    fn sweep_exchange(&mut self, id: ExchangeId, end: u32) {
        let Some(last) = end.checked_sub(1) else {
            self.gone.exchanges.pop();
            self.exchanges.remove(id).discard_queries();
            return;
        };
        let number = ConditionId::from_index(last);
        let condition = self.exchanges[id].conditions.get(number);
        match condition.and_then(|condition| condition.destinations.last().copied()) {
            Some(destination) => {
                let binding = self.find_binding(id, number, destination).expect("a destination has a binding");
                self.unlink_destination(binding);
                self.unlink_source(binding);
            }
            None => self.gone.exchanges.last_mut().expect("the one that is swept").1 = last,
        }
    }

    /// One step: take away the last binding that leads to it, or remove the queue itself.
    fn sweep_queue(&mut self, id: QueueId) {
        match self.queues[id].incoming.pop() {
            Some(number) => self.unlink_source(number),
            None => {
                self.gone.queues.pop();
                self.queues.remove(id);
            }
        }
    }
}

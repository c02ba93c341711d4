//! Lists of the exchanges, queues and bindings of a vhost, in a stable order.

use crate::amqp::{AmqpError, RawTable};

use super::binding::{Binding, Target};
use super::exchange::Exchange;
use super::settings::{ExchangeSettings, QueueSettings};
use super::{BindingId, Destination, ExchangeId, Owner, QueueId, Topology, VhostId};

/// An exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// The settings with which it was declared.
    pub settings: ExchangeSettings<'a>,
    /// The number of bindings that lead from it.
    pub bindings_from: usize,
    /// The number of bindings that lead to it.
    pub bindings_to: usize,
}

/// A queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueInfo<'a> {
    /// Its number.
    pub id: QueueId,
    /// Its vhost.
    pub vhost: VhostId,
    /// Its name.
    pub name: &'a str,
    /// The settings with which it was declared.
    pub settings: QueueSettings<'a>,
    /// The connection that has it exclusively.
    pub owner: Option<Owner>,
    /// The number of bindings that lead to it.
    pub bindings_to: usize,
}

/// A binding.
#[derive(Clone, Copy, Debug)]
pub struct BindingInfo<'a> {
    /// The exchange from which it leads.
    pub source: &'a str,
    /// The destination.
    pub target: Target<'a>,
    /// Its routing key.
    pub key: &'a str,
    /// Its arguments, sorted by name.
    pub arguments: RawTable<'a>,
}

impl Topology {
    /// The exchange called `name`; None for the default exchange.
    #[must_use]
    pub fn exchange_info(&self, vhost: VhostId, name: &str) -> Option<ExchangeInfo<'_>> {
        self.exchange(vhost, name).ok().map(|id| info(&self.exchanges[id]))
    }

    /// A queue.
    #[must_use]
    pub fn queue_info(&self, id: QueueId) -> Option<QueueInfo<'_>> {
        let queue = self.queues.get(id).filter(|queue| !queue.is_gone)?;
        Some(QueueInfo {
            id,
            vhost: queue.vhost,
            name: &queue.name,
            settings: queue.settings(),
            owner: queue.owner,
            bindings_to: queue.incoming.len(),
        })
    }

    /// Whether a queue is deleted with its last consumer.
    #[must_use]
    pub fn is_auto_delete(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some_and(|queue| queue.auto_delete)
    }

    /// The queues of a vhost. Cost: linear in those of all vhosts.
    pub fn queues(&self, vhost: VhostId) -> impl Iterator<Item = QueueInfo<'_>> {
        self.queue_ids(vhost).filter_map(|id| self.queue_info(id))
    }

    /// All exchanges without the default ones, each with the name of its vhost.
    pub fn exchanges(&self) -> impl Iterator<Item = (&str, ExchangeInfo<'_>)> {
        let live = self.exchanges.iter().filter(|(_, exchange)| !exchange.is_gone);
        live.map(|(_, exchange)| (self.vhost_name(exchange.vhost), info(exchange)))
    }

    /// All bindings, each with the name of its vhost, without those of the default exchanges, which have one for each queue,
    /// under its name.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, BindingInfo<'_>)> {
        let live = self.bindings.iter().filter(|(number, _)| self.is_live(*number));
        let vhost_of = |binding: &Binding| self.vhost_name(self.exchanges[binding.source].vhost);
        live.map(move |(number, binding)| (vhost_of(binding), self.binding_info(number)))
    }

    /// The bindings that lead to a queue.
    ///
    /// # Errors
    /// 404 or 405, as [`Topology::queue`].
    pub fn bindings_to(
        &self,
        vhost: VhostId,
        queue: &str,
        connection: Owner,
    ) -> Result<impl Iterator<Item = BindingInfo<'_>>, AmqpError> {
        let id = self.queue(vhost, queue, connection)?;
        let live = self.queues[id].incoming.iter().filter(|number| self.is_live(**number));
        Ok(live.map(|number| self.binding_info(*number)))
    }

    /// The numbers of exchanges, queues and bindings in all vhosts.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let (exchanges, queues) = self.gone.counts();
        (self.exchanges.len() - exchanges, self.queues.len() - queues, self.binding_count)
    }

    pub(super) fn binding_info(&self, number: BindingId) -> BindingInfo<'_> {
        let binding = &self.bindings[number];
        let exchange = &self.exchanges[binding.source];
        let condition = &exchange.conditions[binding.condition];
        let target = match binding.destination {
            Destination::Queue(id) => Target::Queue(&self.queues[id].name),
            Destination::Exchange(id) => Target::Exchange(&self.exchanges[id].name),
        };
        let arguments = RawTable::new(&condition.arguments);
        BindingInfo { source: &exchange.name, target, key: &condition.key, arguments }
    }

    pub(super) fn exchange_ids(&self, vhost: VhostId) -> impl Iterator<Item = ExchangeId> {
        let here = self.exchanges.iter().filter(move |(_, exchange)| exchange.vhost == vhost && !exchange.is_gone);
        here.map(|(id, _)| id)
    }

    pub(super) fn queue_ids(&self, vhost: VhostId) -> impl Iterator<Item = QueueId> {
        let here = self.queues.iter().filter(move |(_, queue)| queue.vhost == vhost && !queue.is_gone);
        here.map(|(id, _)| id)
    }
}

fn info(exchange: &Exchange) -> ExchangeInfo<'_> {
    ExchangeInfo {
        name: &exchange.name,
        settings: exchange.settings(),
        bindings_from: exchange.binding_count,
        bindings_to: exchange.incoming.len(),
    }
}

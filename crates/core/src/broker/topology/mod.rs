//! Who gets a message: vhosts, exchanges, the names of queues, bindings, and the way through them.
//!
//! Structure only: what is in a queue, who consumes from it and who may do what is not known here. A queue is its
//! [`QueueId`], under which the caller keeps the rest. Nothing here does I/O, reads a clock or has a thread of its own
//! (an engine merges its segments in one, which changes no answer).
//!
//! All bindings of an exchange are one engine (`exchange.rs`): a message is matched once an exchange, however many
//! bindings have queries. What a routing key alone decides is a look-up. `bindings.rs` links and unlinks, `sweep.rs`
//! takes away what had many bindings without stopping anybody, `route.rs` follows a message, `filter.rs`, `headers.rs`,
//! `names.rs` and `view.rs` say what queries are asked of, `definition.rs` writes and reads what survives a restart,
//! `stored.rs` follows queries of the store.
//!
//! Bounds: [`EXCHANGES_MAX`], [`QUEUES_MAX`] and [`BINDINGS_MAX`] of all vhosts together; one more is refused with 506.

mod bindings;
mod definition;
mod errors;
mod exchange;
mod filter;
mod headers;
mod ids;
mod list;
mod names;
mod route;
mod settings;
mod stored;
mod sweep;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use hashbrown::{HashMap, HashTable};

use crate::amqp::{AmqpError, RawTable};

use super::slab::{Slab, SlotId};
pub use bindings::{Bind, Target};
pub use definition::{Definition, DefinitionError, DefinitionKey, TopologyChange};
use exchange::Exchange;
pub use filter::{ConsumerFilter, FindStored, StoredQuery, check_query_arguments, stored_key};
use ids::{BindingId, ConditionId, Destination, ExchangeId};
pub use ids::{Owner, QueueId, VhostId};
pub use list::{BindingInfo, ExchangeInfo, QueueInfo};
pub use names::{BodyMode, Needs};
pub use route::{Published, RouteScratch};
pub use settings::{ExchangeKind, ExchangeSettings, QueueSettings};
pub use stored::Replaced;
pub use view::{View, ViewScratch, properties_seen};

/// So many exchanges there may be.
pub const EXCHANGES_MAX: usize = 1 << 20;
/// So many queues there may be.
pub const QUEUES_MAX: usize = 1 << 22;
/// So many bindings there may be.
pub const BINDINGS_MAX: usize = 1 << 24;

/// Whether a declaration made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It is new.
    Created,
    /// It was there already, declared alike.
    Existed,
}

#[derive(Debug)]
struct Vhost {
    name: Arc<str>,
    exchanges: HashMap<Arc<str>, ExchangeId>,
    queues: HashMap<Arc<str>, QueueId>,
}

#[derive(Debug)]
struct DeclaredQueue {
    vhost: VhostId,
    name: Arc<str>,
    durable: bool,
    owner: Option<Owner>,
    auto_delete: bool,
    arguments: Box<[u8]>,
    /// The bindings that lead here, by their numbers.
    incoming: Vec<BindingId>,
    /// Nobody finds it any more, and its bindings are being taken away.
    is_gone: bool,
}

impl DeclaredQueue {
    fn settings(&self) -> QueueSettings<'_> {
        QueueSettings {
            durable: self.durable,
            exclusive: self.owner.is_some(),
            auto_delete: self.auto_delete,
            arguments: RawTable::new(&self.arguments),
        }
    }

    /// An exclusive queue ends with its connection, so with the broker.
    fn survives(&self) -> bool {
        self.durable && self.owner.is_none() && !self.is_gone
    }
}

/// All vhosts of a broker.
#[derive(Debug, Default)]
pub struct Topology {
    vhosts: Vec<Option<Vhost>>,
    exchanges: Slab<ExchangeId, Exchange>,
    queues: Slab<QueueId, DeclaredQueue>,
    bindings: Slab<BindingId, bindings::Binding>,
    /// Bindings by both their ends.
    by_ends: HashTable<BindingId>,
    /// How many bindings there are, without those that are being taken away.
    binding_count: usize,
    gone: sweep::RemovedParts,
    changes: Vec<TopologyChange>,
    /// True while what was written is read back: nothing is written again, and no exchange goes by itself.
    is_recovering: bool,
    /// How many engines there have been: they take turns in the rooms for matching.
    engine_count: usize,
    version: u64,
}

/// What every vhost has from the beginning.
const PREDECLARED: [(&str, ExchangeKind); 5] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
];

impl Topology {
    /// One without any vhost.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another number after every change of where messages go: what was remembered of routes is old then.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The vhost called `name`, a new one with the predeclared exchanges where there is none.
    pub fn add_vhost(&mut self, name: &str) -> VhostId {
        if let Some(id) = self.vhost(name) {
            return id;
        }
        let id = VhostId::from_index(self.vhosts.len() as u32);
        let mut vhost = Vhost { name: name.into(), exchanges: HashMap::new(), queues: HashMap::new() };
        for (name, kind) in PREDECLARED {
            let arguments = RawTable::default();
            let settings = ExchangeSettings { kind, durable: true, auto_delete: false, internal: false, arguments };
            let exchange = Exchange::new(id, name.into(), &settings).expect("settings without arguments");
            vhost.exchanges.insert(name.into(), self.exchanges.insert(exchange));
        }
        self.vhosts.push(Some(vhost));
        self.version += 1;
        self.record(|_| Definition::Vhost { vhost: name.to_owned() });
        id
    }

    /// The vhost called `name`.
    #[must_use]
    pub fn vhost(&self, name: &str) -> Option<VhostId> {
        let is_it = |vhost: &Option<Vhost>| vhost.as_ref().is_some_and(|vhost| *vhost.name == *name);
        self.vhosts.iter().position(is_it).map(|index| VhostId::from_index(index as u32))
    }

    /// Every vhost with its name, in the order in which they were added.
    pub fn vhosts(&self) -> impl Iterator<Item = (VhostId, &str)> {
        (0..).map(VhostId::from_index).zip(&self.vhosts).filter_map(|(id, vhost)| Some((id, &*vhost.as_ref()?.name)))
    }

    /// Remove a vhost and all that is in it. Returns its queues, ascending, for whoever keeps what is in them. Nothing
    /// when it is gone already. Cost: linear in its exchanges, queues and bindings, and in all queues there are.
    pub fn remove_vhost(&mut self, id: VhostId) -> Vec<QueueId> {
        let Ok(vhost) = self.get_vhost(id) else { return Vec::new() };
        let name = vhost.name.to_string();
        let queues: Vec<QueueId> = self.queue_ids(id).collect();
        let exchanges: Vec<ExchangeId> = self.exchange_ids(id).collect();
        let changes = std::mem::take(&mut self.changes);
        queues.iter().for_each(|queue| self.remove_queue(*queue));
        self.remove_exchanges(exchanges);
        self.vhosts[id.index()] = None;
        self.version += 1;
        self.changes = changes; // the one below says it all
        self.record_removed(|_| Definition::Vhost { vhost: name }.key());
        queues
    }

    fn get_vhost(&self, id: VhostId) -> Result<&Vhost, AmqpError> {
        self.vhosts.get(id.index()).and_then(Option::as_ref).ok_or_else(errors::no_vhost)
    }

    fn get_vhost_mut(&mut self, id: VhostId) -> &mut Vhost {
        self.vhosts[id.index()].as_mut().expect("the vhost of an exchange or queue that is there")
    }

    fn vhost_name(&self, id: VhostId) -> &str {
        self.get_vhost(id).map_or("", |vhost| &vhost.name)
    }

    /// Declare an exchange.
    ///
    /// # Errors
    /// 403 for the default exchange and for reserved names; 406 where it is there and declared otherwise, or its
    /// arguments make no sense; 506 where there are [`EXCHANGES_MAX`].
    pub fn declare_exchange(
        &mut self,
        vhost: VhostId,
        name: &str,
        settings: &ExchangeSettings<'_>,
    ) -> Result<Declared, AmqpError> {
        if name.is_empty() {
            return Err(errors::default_exchange());
        }
        check_table(settings.arguments)?;
        let there = self.get_vhost(vhost)?;
        if let Some(id) = there.exchanges.get(name) {
            let resource = format!("exchange '{name}' in vhost '{}'", there.name);
            settings::same_exchange(&self.exchanges[*id].settings(), settings, &resource)?;
            return Ok(Declared::Existed);
        }
        if name.starts_with("amq.") {
            return Err(errors::reserved_name("exchange", name));
        }
        if self.exchanges.len() >= EXCHANGES_MAX {
            return Err(errors::too_many("exchanges", EXCHANGES_MAX));
        }
        self.sweep(sweep::STEP);
        let name: Arc<str> = name.into();
        let id = self.exchanges.insert(Exchange::new(vhost, Arc::clone(&name), settings)?);
        self.get_vhost_mut(vhost).exchanges.insert(name, id);
        self.version += 1;
        if settings.durable {
            self.record(|topology| topology.exchange_definition(id));
        }
        Ok(Declared::Created)
    }

    /// Check that there is an exchange, as a passive declaration does.
    ///
    /// # Errors
    /// 404.
    pub fn check_exchange(&self, vhost: VhostId, name: &str) -> Result<(), AmqpError> {
        let there = self.get_vhost(vhost)?;
        if name.is_empty() || there.exchanges.contains_key(name) {
            return Ok(());
        }
        Err(errors::no_exchange(name, &there.name))
    }

    /// Delete an exchange and all its bindings; exchanges that go by themselves when they lose their last go too. No
    /// error when there is none.
    ///
    /// # Errors
    /// 403 for the default and predeclared exchanges; 406 when it has bindings and is to go only `if_unused`.
    pub fn delete_exchange(&mut self, vhost: VhostId, name: &str, if_unused: bool) -> Result<(), AmqpError> {
        if name.is_empty() {
            return Err(errors::default_exchange());
        }
        let there = self.get_vhost(vhost)?;
        if name.starts_with("amq.") {
            return Err(errors::system_exchange(name, &there.name));
        }
        let Some(id) = there.exchanges.get(name).copied() else { return Ok(()) };
        if if_unused && self.exchanges[id].binding_count > 0 {
            return Err(errors::in_use("exchange", name, &there.name));
        }
        self.remove_exchanges(vec![id]);
        Ok(())
    }

    /// Declare a queue, for `connection` alone where it is exclusive. Names that begin with `amq.` are for queues that
    /// the broker names: `is_generated`.
    ///
    /// # Errors
    /// 403 for reserved names; 405 where it is there and of another connection, or exclusive and is not to be, or the
    /// other way round; 406 where it is there and declared otherwise; 506 where there are [`QUEUES_MAX`].
    pub fn declare_queue(
        &mut self,
        vhost: VhostId,
        name: &str,
        settings: &QueueSettings<'_>,
        connection: Owner,
        is_generated: bool,
    ) -> Result<(QueueId, Declared), AmqpError> {
        check_table(settings.arguments)?;
        let there = self.get_vhost(vhost)?;
        let owner = settings.exclusive.then_some(connection);
        if let Some(id) = there.queues.get(name).copied() {
            let queue = &self.queues[id];
            if queue.owner != owner {
                return Err(errors::locked(name, &there.name));
            }
            let resource = format!("queue '{name}' in vhost '{}'", there.name);
            settings::same_queue(&queue.settings(), settings, &resource)?;
            return Ok((id, Declared::Existed));
        }
        if !is_generated && name.starts_with("amq.") {
            return Err(errors::reserved_name("queue", name));
        }
        if self.queues.len() >= QUEUES_MAX {
            return Err(errors::too_many("queues", QUEUES_MAX));
        }
        self.sweep(sweep::STEP);
        let name: Arc<str> = name.into();
        let id = self.queues.insert(DeclaredQueue {
            vhost,
            name: Arc::clone(&name),
            durable: settings.durable,
            owner,
            auto_delete: settings.auto_delete,
            arguments: settings.arguments.as_bytes().into(),
            incoming: Vec::new(),
            is_gone: false,
        });
        self.get_vhost_mut(vhost).queues.insert(name, id);
        self.version += 1;
        if self.queues[id].survives() {
            self.record(|topology| topology.queue_definition(id));
        }
        Ok((id, Declared::Created))
    }

    /// The queue called `name`, if `connection` may use it; a passive declaration is no more than this.
    ///
    /// # Errors
    /// 404; 405 where it is exclusive to another connection.
    pub fn queue(&self, vhost: VhostId, name: &str, connection: Owner) -> Result<QueueId, AmqpError> {
        let there = self.get_vhost(vhost)?;
        let id = *there.queues.get(name).ok_or_else(|| errors::no_queue(name, &there.name))?;
        match self.queues[id].owner {
            Some(owner) if owner != connection => Err(errors::locked(name, &there.name)),
            _ => Ok(id),
        }
    }

    /// Delete a queue that `check` lets go, and its bindings. None when there is none.
    ///
    /// `contents` tells of the queue how many consumers and how many messages it has, when `if_unused` or `if_empty`.
    ///
    /// # Errors
    /// 405 where it is exclusive to another connection; 406 when it has consumers and is to go only `if_unused`, or
    /// messages and is to go only `if_empty`.
    pub fn delete_queue(
        &mut self,
        vhost: VhostId,
        name: &str,
        connection: Owner,
        (if_unused, if_empty): (bool, bool),
        contents: impl FnOnce(QueueId) -> (usize, usize),
    ) -> Result<Option<QueueId>, AmqpError> {
        if !self.get_vhost(vhost)?.queues.contains_key(name) {
            return Ok(None);
        }
        let id = self.queue(vhost, name, connection)?;
        if if_unused || if_empty {
            let (consumers, messages) = contents(id);
            if if_unused && consumers > 0 {
                return Err(errors::in_use("queue", name, self.vhost_name(vhost)));
            }
            if if_empty && messages > 0 {
                return Err(errors::not_empty(name, self.vhost_name(vhost)));
            }
        }
        self.remove_queue(id);
        Ok(Some(id))
    }
}

/// Read the whole of what a client sent, so that reading it again gives no error.
fn check_table(table: RawTable<'_>) -> Result<(), AmqpError> {
    table.check().map_err(|error| error.at(crate::amqp::MethodId::NONE))
}

//! The topology: vhosts, exchanges, declared queues and bindings, and the routes of messages through them.
//!
//! The contents of queues, their consumers and permissions are not known here: the caller keeps the contents of a queue
//! under its [`QueueId`]. Nothing here does I/O, reads a clock or has a thread of its own (an engine merges its segments in
//! one, which changes no result).
//!
//! All bindings of an exchange share one engine (`exchange.rs`): a message is matched once per exchange, however many
//! bindings have queries. A condition that the routing key alone decides is a look-up. `bindings.rs` links and unlinks,
//! `sweep.rs` removes many bindings without stopping anybody, `route.rs` follows a message, `filter.rs`, `headers.rs`,
//! `names.rs` and `view.rs` say what queries are asked of, `definition.rs` writes and reads what survives a restart,
//! `stored.rs` follows queries of the store.
//!
//! `limits.rs` adds up what queries take.
//!
//! Bounds: [`QueryLimits`]; [`EXCHANGES_MAX`], [`QUEUES_MAX`] and [`BINDINGS_MAX`] of all vhosts together; one more is
//! refused with 506.

mod address_kind;
mod binding;
mod bindings;
mod conditions;
mod definition;
mod definitions;
pub(crate) mod errors;
mod exchange;
mod hierarchies;
mod ids;
mod list;
mod memory;
mod name_table;
mod query_limits;
mod query_prices;
mod removed_parts;
mod route;
mod settings;
mod stored_queries;
mod sweep;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::hierarchy::Hierarchies;

use crate::amqp::{AmqpError, RawTable};

use super::sharded_table::ShardedTable;
use super::slab::{Slab, SlotId};
pub use address_kind::AddressKind;
pub use binding::{Bind, Target};
pub use conditions::filter::{ConsumerFilter, FindStored, StoredQuery, check_query_arguments, stored_key};
pub use conditions::names::{BodyMode, Needs};
pub use conditions::view::{Reading, View, ViewScratch, properties_seen, value as value_seen};
pub use definition::{Definition, DefinitionError, DefinitionKey, TopologyChange};
use exchange::Exchange;
use ids::{BindingId, ConditionId, Destination, ExchangeId};
pub use ids::{NOBODY, Owner, QueueId, VhostId};
pub use list::{BindingInfo, ExchangeInfo, QueueInfo};
use name_table::NameTable;
pub use query_limits::QueryLimits;
use query_prices::QueryPrices;
pub use route::{Published, RouteScratch};
pub use settings::{ExchangeKind, ExchangeSettings, QueueSettings};
pub use stored_queries::Replaced;

/// Maximum number of exchanges.
pub const EXCHANGES_MAX: usize = 1 << 20;
/// Maximum number of queues.
pub const QUEUES_MAX: usize = 1 << 22;
/// Maximum number of bindings.
pub const BINDINGS_MAX: usize = 1 << 24;

/// The result of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// The exchange or queue was made.
    Created,
    /// The exchange or queue existed already, declared in the same way.
    Existed,
}

#[derive(Debug)]
struct Vhost {
    name: Arc<str>,
    exchanges: NameTable<ExchangeId>,
    queues: NameTable<QueueId>,
}

/// A queue as it was declared. The broker keeps its contents.
#[derive(Debug)]
struct DeclaredQueue {
    vhost: VhostId,
    name: Arc<str>,
    durable: bool,
    owner: Option<Owner>,
    auto_delete: bool,
    arguments: Box<[u8]>,
    creator: Option<Arc<str>>,
    /// The bindings that lead here.
    incoming: Vec<BindingId>,
    /// Whether the queue was removed, and its bindings are being taken away.
    is_gone: bool,
}

impl DeclaredQueue {
    fn settings(&self) -> QueueSettings<'_> {
        QueueSettings {
            durable: self.durable,
            exclusive: self.owner.is_some(),
            auto_delete: self.auto_delete,
            arguments: RawTable::new(&self.arguments),
            creator: self.creator.as_ref(),
        }
    }

    /// Whether it survives a restart. An exclusive queue ends with its connection, so with the broker.
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
    bindings: Slab<BindingId, binding::Binding>,
    /// Bindings by source, condition and destination.
    by_ends: ShardedTable<BindingId>,
    /// The number of bindings, without those that are being taken away.
    binding_count: usize,
    gone: removed_parts::RemovedParts,
    /// The prices of all queries of bindings and consumers.
    prices: QueryPrices,
    /// The hierarchies that `UNDER` follows.
    hierarchies: Arc<Hierarchies>,
    /// The memory of all conditions, without their queries.
    condition_bytes: usize,
    changes: Vec<TopologyChange>,
    /// The warnings about the query that was bound last, until the caller takes them.
    warnings: Vec<String>,
    /// True during recovery: nothing is recorded again, and no exchange is deleted automatically.
    is_recovering: bool,
    /// The number of engines that were made: they take turns in the scratch buffers for matching.
    engine_count: usize,
    version: u64,
}

/// The exchanges that every vhost has from the beginning.
const PREDECLARED: [(&str, ExchangeKind); 7] = [
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.topic", ExchangeKind::Topic),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
    ("mailbox", ExchangeKind::Address(AddressKind::Mailbox)),
    ("service", ExchangeKind::Address(AddressKind::Service)),
];

impl Topology {
    /// A topology without any vhost.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A topology without any vhost, whose queries are within `limits`.
    #[must_use]
    pub fn with_limits(limits: QueryLimits) -> Self {
        Self { prices: QueryPrices::new(limits), ..Self::default() }
    }

    /// The limits of queries, and of matching a message.
    #[must_use]
    pub fn limits(&self) -> &QueryLimits {
        self.prices.limits()
    }

    /// A number that changes whenever messages may take other routes: a remembered route is stale then.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The vhost called `name`, or a new one with the predeclared exchanges.
    pub fn add_vhost(&mut self, name: &str) -> VhostId {
        if let Some(id) = self.vhost(name) {
            return id;
        }
        let id = VhostId::from_index(self.vhosts.len() as u32);
        let mut vhost = Vhost { name: name.into(), exchanges: NameTable::default(), queues: NameTable::default() };
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

    /// Remove a vhost and all that is in it. Returns its queues, ascending, for the caller that keeps their contents.
    /// Nothing when it is removed already. Cost: linear in its exchanges, queues and bindings, and in all queues there are.
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
    /// 403 for the default exchange and for reserved names; 406 if it exists and was declared otherwise, or its arguments
    /// are invalid; 506 when there are [`EXCHANGES_MAX`].
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
        if let Some(kind) = settings.kind.address() {
            return Err(errors::only_predeclared(kind.name()));
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

    /// Check that an exchange exists, as a passive declaration does.
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

    /// Delete an exchange and all its bindings; auto-delete exchanges that lose their last binding are deleted too. No
    /// error when it does not exist.
    ///
    /// # Errors
    /// 403 for the default and predeclared exchanges; 406 when it has bindings and is to be deleted only `if_unused`.
    pub fn delete_exchange(&mut self, vhost: VhostId, name: &str, if_unused: bool) -> Result<(), AmqpError> {
        if name.is_empty() {
            return Err(errors::default_exchange());
        }
        let there = self.get_vhost(vhost)?;
        if name.starts_with("amq.") {
            return Err(errors::system_exchange(name, &there.name));
        }
        let Some(id) = there.exchanges.get(name).copied() else { return Ok(()) };
        if self.exchanges[id].kind.address().is_some() {
            return Err(errors::system_exchange(name, &there.name));
        }
        if if_unused && self.exchanges[id].binding_count > 0 {
            return Err(errors::in_use("exchange", name, &there.name));
        }
        self.remove_exchanges(vec![id]);
        Ok(())
    }

    /// Declare a queue, for `connection` alone if it is exclusive. Names that begin with `amq.` are for queues that the
    /// broker names (`is_generated`).
    ///
    /// # Errors
    /// 403 for reserved names; 405 if it exists and is exclusive to another connection, or was declared exclusive and now is
    /// not, or the other way round; 406 if it exists and was declared otherwise; 506 when there are [`QUEUES_MAX`].
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
        self.check_new_queue(name, is_generated)?;
        self.sweep(sweep::STEP);
        let name: Arc<str> = name.into();
        let id = self.queues.insert(DeclaredQueue {
            vhost,
            name: Arc::clone(&name),
            durable: settings.durable,
            owner,
            auto_delete: settings.auto_delete,
            arguments: settings.arguments.as_bytes().into(),
            creator: settings.creator.cloned(),
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

    /// Check that there may be one more queue, of this name.
    ///
    /// # Errors
    /// 403: the name is reserved. 506: there are too many.
    pub fn check_new_queue(&self, name: &str, is_generated: bool) -> Result<(), AmqpError> {
        if !is_generated && name.starts_with("amq.") {
            return Err(errors::reserved_name("queue", name));
        }
        if self.queues.len() >= QUEUES_MAX {
            return Err(errors::too_many("queues", QUEUES_MAX));
        }
        Ok(())
    }

    /// The queue called `name`, if `connection` may use it. A passive declaration does only this.
    ///
    /// # Errors
    /// 404; 405 if it is exclusive to another connection.
    pub fn queue(&self, vhost: VhostId, name: &str, connection: Owner) -> Result<QueueId, AmqpError> {
        let there = self.get_vhost(vhost)?;
        let id = *there.queues.get(name).ok_or_else(|| errors::no_queue(name, &there.name))?;
        match self.queues[id].owner {
            Some(owner) if owner != connection => Err(errors::locked(name, &there.name)),
            _ => Ok(id),
        }
    }

    /// Delete a queue and its bindings. None when it does not exist.
    ///
    /// `contents` returns the numbers of the queue's consumers and messages; it is called when `if_unused` or `if_empty`.
    ///
    /// # Errors
    /// 405 if it is exclusive to another connection; 406 when it has consumers and is to be deleted only `if_unused`, or
    /// messages and is to be deleted only `if_empty`.
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

/// Check a whole table that a client sent, so that reading it again gives no error.
fn check_table(table: RawTable<'_>) -> Result<(), AmqpError> {
    table.check().map_err(|error| error.at(crate::amqp::MethodId::NONE))
}

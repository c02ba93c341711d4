//! Makes, looks up and removes bindings in constant time, however many an exchange or a queue has.
//!
//! A binding knows its index among the destinations of its condition and among the bindings of its destination, so that
//! neither list is ever searched.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::amqp::{AmqpError, MethodId, RawTable, Table};
use crate::query::Query;
use crate::query::price::Price;

use super::binding::{Bind, Binding, Target};
use super::conditions::filter::{self, FindStored};
use super::exchange::Condition;
use super::sweep::STEP;
use super::{BINDINGS_MAX, BindingId, ConditionId, Destination, ExchangeId, Owner, Topology, VhostId, errors};

/// The hash of a binding's ends. They are small numbers that clients do not choose, so that a fast hash is safe.
fn hash(source: ExchangeId, condition: ConditionId, destination: Destination) -> u64 {
    FixedState::default().hash_one((source, condition, destination))
}

impl Topology {
    /// Make a binding, unless it exists. Returns whether it is new.
    ///
    /// `find` looks up queries of the store, when `x-query-key` names one; a binding keeps the text that the query has now.
    ///
    /// # Errors
    /// 403 for the default exchange; 404 if its source or destination does not exist; 405 for a queue of another connection;
    /// 406 for invalid arguments, with the position in a query; 506 when there are [`BINDINGS_MAX`].
    pub fn bind(
        &mut self,
        vhost: VhostId,
        bind: &Bind<'_>,
        connection: Owner,
        find: FindStored<'_>,
    ) -> Result<bool, AmqpError> {
        self.sweep(STEP);
        let source = self.source(vhost, bind)?;
        let destination = self.destination(vhost, bind.target, connection)?;
        let arguments = sorted(bind.arguments)?;
        let condition = match self.exchanges[source].find(bind.key, &arguments) {
            Some(condition) if self.find_binding(source, condition, destination).is_some() => return Ok(false),
            _ if self.bindings.len() >= BINDINGS_MAX => return Err(errors::too_many("bindings", BINDINGS_MAX)),
            Some(condition) => condition,
            None => {
                let stored = filter::find_stored(RawTable::new(&arguments), find)?;
                self.add_condition(source, bind.key, &arguments, stored, connection)?
            }
        };
        let number = self.link(source, condition, destination);
        if self.survives(number) {
            self.record(|topology| topology.binding_definition(number));
        }
        Ok(true)
    }

    /// Whether [`Topology::bind`] would make a binding that survives a restart.
    ///
    /// # Errors
    /// The errors of [`Topology::bind`] for its source and destination.
    pub fn is_new_and_survives(&self, vhost: VhostId, bind: &Bind<'_>, connection: Owner) -> Result<bool, AmqpError> {
        let source = self.source(vhost, bind)?;
        let destination = self.destination(vhost, bind.target, connection)?;
        Ok(self.ends_survive(source, destination) && self.is_new(vhost, bind, connection)?)
    }

    /// Whether [`Topology::bind`] would make a binding.
    ///
    /// # Errors
    /// The errors of [`Topology::bind`] for its source and destination.
    pub fn is_new(&self, vhost: VhostId, bind: &Bind<'_>, connection: Owner) -> Result<bool, AmqpError> {
        let source = self.source(vhost, bind)?;
        let destination = self.destination(vhost, bind.target, connection)?;
        let arguments = sorted(bind.arguments)?;
        let condition = self.exchanges[source].find(bind.key, &arguments);
        Ok(condition.and_then(|condition| self.find_binding(source, condition, destination)).is_none())
    }

    pub(super) fn add_condition(
        &mut self,
        source: ExchangeId,
        key: &str,
        arguments: &[u8],
        stored: Option<super::StoredQuery>,
        connection: Owner,
    ) -> Result<ConditionId, AmqpError> {
        let exchange = &self.exchanges[source];
        let (vhost, had_queries) = (exchange.vhost, exchange.queries.is_some());
        let (hierarchies, bytes_max) = (self.checked_hierarchies(), self.compiled_bytes_max());
        let (compiled, warnings) = exchange.compile(key, arguments, stored.as_ref(), hierarchies, bytes_max)?;
        let price = self.admit(vhost, connection, compiled.query(), Price::default())?;
        let condition = Condition::new(key, arguments, stored, price, connection);
        self.prices.add(vhost, connection, price);
        if !self.is_recovering {
            self.warnings = warnings;
        }
        self.condition_bytes += condition.bytes();
        let origin = self.engine_origin();
        let exchange = &mut self.exchanges[source];
        let condition = exchange.add(condition, compiled, &origin);
        self.engine_count += usize::from(!had_queries && exchange.queries.is_some());
        Ok(condition)
    }

    /// The warnings about the query that was bound last, one per line; a condition that is bound again has none.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The price of a compiled query, if it is within all limits instead of one with the price `before`; what survived a
    /// restart always is.
    pub(super) fn admit(
        &mut self,
        vhost: VhostId,
        connection: Owner,
        query: Option<&Query>,
        before: Price,
    ) -> Result<Price, AmqpError> {
        let Some(query) = query else { return Ok(Price::default()) };
        let price = query.price();
        self.prices.note_compiled(price);
        if !self.is_recovering {
            self.prices.check(vhost, connection, query.expr(), (price, before))?;
        }
        query.expr().prepare();
        Ok(price)
    }

    /// Remove a binding. Returns whether it existed; no error when its source or destination does not exist. An auto-delete
    /// exchange is deleted with its last binding.
    ///
    /// # Errors
    /// 403 for the default exchange; 405 for a queue of another connection; 502 for arguments that are not a table.
    pub fn unbind(&mut self, vhost: VhostId, bind: &Bind<'_>, connection: Owner) -> Result<bool, AmqpError> {
        if bind.source.is_empty() {
            return Err(errors::default_exchange());
        }
        let destination = match self.destination(vhost, bind.target, connection) {
            Err(error) if error.code == crate::amqp::ReplyCode::NotFound => return Ok(false),
            found => found?,
        };
        let Some(source) = self.get_vhost(vhost)?.exchanges.get(bind.source).copied() else { return Ok(false) };
        let arguments = sorted(bind.arguments)?;
        let condition = self.exchanges[source].find(bind.key, &arguments);
        let Some(number) = condition.and_then(|condition| self.find_binding(source, condition, destination)) else {
            return Ok(false);
        };
        if self.survives(number) {
            self.record_removed(|topology| topology.binding_definition(number).key());
        }
        self.unlink(number);
        Ok(true)
    }

    fn source(&self, vhost: VhostId, bind: &Bind<'_>) -> Result<ExchangeId, AmqpError> {
        if bind.source.is_empty() || bind.target == Target::Exchange("") {
            return Err(errors::default_exchange());
        }
        self.exchange(vhost, bind.source)
    }

    pub(super) fn exchange(&self, vhost: VhostId, name: &str) -> Result<ExchangeId, AmqpError> {
        let there = self.get_vhost(vhost)?;
        there.exchanges.get(name).copied().ok_or_else(|| errors::no_exchange(name, &there.name))
    }

    fn destination(&self, vhost: VhostId, target: Target<'_>, connection: Owner) -> Result<Destination, AmqpError> {
        Ok(match target {
            Target::Queue(name) => Destination::Queue(self.queue(vhost, name, connection)?),
            Target::Exchange("") => return Err(errors::default_exchange()),
            Target::Exchange(name) => Destination::Exchange(self.exchange(vhost, name)?),
        })
    }

    pub(super) fn find_binding(
        &self,
        source: ExchangeId,
        condition: ConditionId,
        destination: Destination,
    ) -> Option<BindingId> {
        let is_it = |number: &BindingId| {
            let binding = &self.bindings[*number];
            (binding.source, binding.condition, binding.destination) == (source, condition, destination)
        };
        self.by_ends.find(hash(source, condition, destination), is_it).copied()
    }

    /// Add a binding between parts that exist. Returns its id.
    pub(super) fn link(&mut self, source: ExchangeId, condition: ConditionId, destination: Destination) -> BindingId {
        self.version += 1;
        self.binding_count += 1;
        let exchange = &mut self.exchanges[source];
        exchange.binding_count += 1;
        let destinations = &mut exchange.conditions[condition].destinations;
        destinations.push(destination);
        let index = (destinations.len() - 1) as u32;
        let incoming_index = self.incoming(destination).len() as u32;
        let number = self.bindings.insert(Binding { source, condition, destination, index, incoming_index });
        self.incoming(destination).push(number);
        let bindings = &self.bindings;
        self.by_ends.insert_unique(hash(source, condition, destination), number, |other| {
            let binding = &bindings[*other];
            hash(binding.source, binding.condition, binding.destination)
        });
        number
    }

    /// The bindings that lead to `destination`.
    fn incoming(&mut self, destination: Destination) -> &mut Vec<BindingId> {
        match destination {
            Destination::Queue(id) => &mut self.queues[id].incoming,
            Destination::Exchange(id) => &mut self.exchanges[id].incoming,
        }
    }

    /// Remove one binding.
    fn unlink(&mut self, number: BindingId) {
        self.unlink_destination(number);
        let mut unused = Vec::new();
        self.discount(&[number], &mut unused);
        self.unlink_source(number);
        self.remove_exchanges(unused); // which sweeps
    }

    /// Subtract removed bindings from the counts of their sources; auto-delete exchanges that have lost their last binding
    /// are added to `unused`. Bindings of a removed exchange were subtracted with it.
    pub(super) fn discount(&mut self, numbers: &[BindingId], unused: &mut Vec<ExchangeId>) {
        self.version += 1;
        for number in numbers {
            let source = self.bindings[*number].source;
            let exchange = &mut self.exchanges[source];
            if exchange.is_gone {
                continue;
            }
            exchange.binding_count -= 1;
            self.binding_count -= 1;
            if exchange.binding_count == 0 && exchange.auto_delete && !self.is_recovering {
                unused.push(source);
            }
        }
    }

    /// Take a binding, which its destination does not list any more, from its source. [`Self::sweep`] has to follow.
    pub(super) fn unlink_source(&mut self, number: BindingId) {
        let binding = self.forget(number);
        let exchange = &mut self.exchanges[binding.source];
        let index = binding.index as usize;
        let destinations = &mut exchange.conditions[binding.condition].destinations;
        destinations.swap_remove(index);
        let moved = destinations.get(index).copied();
        if destinations.is_empty() {
            let condition = exchange.remove(binding.condition);
            if self.gone.queries.last() != Some(&binding.source) {
                self.gone.queries.push(binding.source);
            }
            self.prices.subtract(exchange.vhost, condition.connection, condition.price);
            self.condition_bytes -= condition.bytes();
        }
        let moved = moved.and_then(|moved| self.find_binding(binding.source, binding.condition, moved));
        if let Some(moved) = moved.and_then(|number| self.bindings.get_mut(number)) {
            moved.index = binding.index;
        }
    }

    /// Take a binding from the list of its destination.
    pub(super) fn unlink_destination(&mut self, number: BindingId) {
        let Binding { destination, incoming_index: index, .. } = self.bindings[number];
        let incoming = self.incoming(destination);
        incoming.swap_remove(index as usize);
        if let Some(moved) = incoming.get(index as usize).copied() {
            self.bindings[moved].incoming_index = index;
        }
    }

    /// Take a binding out of the indices by id and by ends.
    pub(super) fn forget(&mut self, number: BindingId) -> Binding {
        let binding = self.bindings.remove(number);
        let hash = hash(binding.source, binding.condition, binding.destination);
        self.by_ends.remove(hash, |other| *other == number);
        binding
    }

    /// Whether both ends of a binding exist.
    pub(super) fn is_live(&self, number: BindingId) -> bool {
        let binding = &self.bindings[number];
        let destination_is_gone = match binding.destination {
            Destination::Queue(id) => self.queues[id].is_gone,
            Destination::Exchange(id) => self.exchanges[id].is_gone,
        };
        !destination_is_gone && !self.exchanges[binding.source].is_gone
    }

    /// Whether a binding survives a restart: its source and destination do.
    pub(super) fn survives(&self, number: BindingId) -> bool {
        let binding = &self.bindings[number];
        self.ends_survive(binding.source, binding.destination) && self.is_live(number)
    }

    fn ends_survive(&self, source: ExchangeId, destination: Destination) -> bool {
        let destination = match destination {
            Destination::Queue(id) => self.queues[id].survives(),
            Destination::Exchange(id) => self.exchanges[id].durable,
        };
        destination && self.exchanges[source].durable
    }
}

/// The fields of `arguments`, sorted by name.
fn sorted(arguments: RawTable<'_>) -> Result<Cow<'_, [u8]>, AmqpError> {
    if arguments.is_empty() {
        return Ok(Cow::Borrowed(&[]));
    }
    let table = arguments.parse().map_err(|error| error.at(MethodId::NONE))?;
    if table.iter().is_sorted_by_key(|(name, _)| name) {
        return Ok(Cow::Borrowed(arguments.as_bytes()));
    }
    let mut fields: Vec<_> = table.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    let sorted: Table = fields.into_iter().map(|(name, value)| (name, value.clone())).collect();
    Ok(Cow::Owned(sorted.to_bytes()))
}

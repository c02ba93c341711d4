//! The part of a topology that survives a restart: its definitions, their changes, and their recovery.

use crate::amqp::{AmqpError, RawTable};

use super::binding::{Bind, Target};
use super::definition::{
    BINDING, Definition, DefinitionError, DefinitionFields, DefinitionKey, EXCHANGE, QUEUE, TO_EXCHANGE,
    TopologyChange, VHOST,
};
use super::ids::{BindingId, ExchangeId, NOBODY, QueueId, VhostId};
use super::list::BindingInfo;
use super::settings::{ExchangeKind, ExchangeSettings, QueueSettings};
use super::{Topology, errors};

impl Topology {
    /// Move the changes of what survives a restart to `changes`, in the order in which they happened.
    pub fn take_changes(&mut self, changes: &mut Vec<TopologyChange>) {
        changes.append(&mut self.changes);
    }

    pub(super) fn record(&mut self, make: impl FnOnce(&Self) -> Definition) {
        if !self.is_recovering {
            let definition = make(self);
            self.changes.push(TopologyChange::Added(definition));
        }
    }

    pub(super) fn record_removed(&mut self, make: impl FnOnce(&Self) -> DefinitionKey) {
        if !self.is_recovering {
            let key = make(self);
            self.changes.push(TopologyChange::Removed(key));
        }
    }

    /// Everything that survives a restart, in an order in which it can be recovered.
    pub fn definitions(&self) -> impl Iterator<Item = Definition> {
        let vhosts = self.vhosts().map(|(_, name)| Definition::Vhost { vhost: name.to_owned() });
        let is_own = |exchange: &super::Exchange| {
            let is_predeclared = exchange.name.starts_with("amq.") || exchange.kind.address().is_some();
            exchange.durable && !exchange.is_gone && !is_predeclared
        };
        let exchanges = self.exchanges.iter().filter(move |(_, exchange)| is_own(exchange));
        let exchanges = exchanges.map(|(id, _)| self.exchange_definition(id));
        let queues = self.queues.iter().filter(|(_, queue)| queue.survives());
        let queues = queues.map(|(id, _)| self.queue_definition(id));
        let bindings = self.bindings.iter().map(|(number, _)| number).filter(|number| self.survives(*number));
        let bindings = bindings.map(|number| self.binding_definition(number));
        vhosts.chain(exchanges).chain(queues).chain(bindings)
    }

    pub(super) fn exchange_definition(&self, id: ExchangeId) -> Definition {
        let exchange = &self.exchanges[id];
        Definition::Exchange {
            vhost: self.vhost_name(exchange.vhost).to_owned(),
            name: exchange.name.to_string(),
            kind: exchange.kind,
            auto_delete: exchange.auto_delete,
            internal: exchange.internal,
            arguments: exchange.arguments.to_vec(),
        }
    }

    pub(super) fn queue_definition(&self, id: QueueId) -> Definition {
        let queue = &self.queues[id];
        Definition::Queue {
            vhost: self.vhost_name(queue.vhost).to_owned(),
            name: queue.name.to_string(),
            auto_delete: queue.auto_delete,
            arguments: queue.arguments.to_vec(),
            creator: queue.creator.clone(),
        }
    }

    pub(super) fn binding_definition(&self, number: BindingId) -> Definition {
        let BindingInfo { source, target, key, arguments } = self.binding_info(number);
        let binding = &self.bindings[number];
        let exchange = &self.exchanges[binding.source];
        let (target, to_exchange) = match target {
            Target::Queue(name) => (name, false),
            Target::Exchange(name) => (name, true),
        };
        Definition::Binding {
            vhost: self.vhost_name(exchange.vhost).to_owned(),
            source: source.to_owned(),
            target: target.to_owned(),
            to_exchange,
            key: key.to_owned(),
            arguments: arguments.as_bytes().to_vec(),
            stored: exchange.conditions[binding.condition].stored.as_deref().cloned(),
        }
    }

    /// Make what a definition describes again. Returns the queue, if it is one.
    ///
    /// # Errors
    /// The error that a client would get: 404 when what it depends on is missing.
    pub fn recover(&mut self, definition: &Definition) -> Result<Option<QueueId>, AmqpError> {
        self.is_recovering = true;
        let done = self.remake(definition);
        self.is_recovering = false;
        done
    }

    fn remake(&mut self, definition: &Definition) -> Result<Option<QueueId>, AmqpError> {
        match definition {
            Definition::Vhost { vhost } => {
                self.add_vhost(vhost);
            }
            Definition::Exchange { vhost, name, kind, auto_delete, internal, arguments } => {
                let settings = ExchangeSettings {
                    kind: *kind,
                    durable: true,
                    auto_delete: *auto_delete,
                    internal: *internal,
                    arguments: RawTable::new(arguments),
                };
                let vhost = self.known_vhost(vhost)?;
                self.make_way(vhost, name, *kind);
                self.declare_exchange(vhost, name, &settings)?;
            }
            Definition::Queue { vhost, name, auto_delete, arguments, creator } => {
                let settings = QueueSettings {
                    durable: true,
                    exclusive: false,
                    auto_delete: *auto_delete,
                    arguments: RawTable::new(arguments),
                    creator: creator.as_ref(),
                };
                let vhost = self.known_vhost(vhost)?;
                return Ok(Some(self.declare_queue(vhost, name, &settings, NOBODY, true)?.0));
            }
            Definition::Binding { vhost, source, target, to_exchange, key, arguments, stored } => {
                let target = if *to_exchange { Target::Exchange(target) } else { Target::Queue(target) };
                let bind = Bind { source, target, key, arguments: RawTable::new(arguments) };
                let find = || stored.clone().ok_or_else(|| "it is not in the journal".to_owned());
                self.bind(self.known_vhost(vhost)?, &bind, NOBODY, &mut |_| find())?;
            }
            // Its stream keeps it.
            Definition::Reader { vhost, stream, .. } => {
                return self.queue(self.known_vhost(vhost)?, stream, NOBODY).map(Some);
            }
        }
        Ok(None)
    }

    /// Remove a predeclared exchange of addresses for one of the same name that a client declared before there were such.
    fn make_way(&mut self, vhost: VhostId, name: &str, kind: ExchangeKind) {
        if let Ok(id) = self.exchange(vhost, name)
            && self.exchanges[id].kind.address().is_some()
            && kind.address().is_none()
        {
            self.remove_exchanges(vec![id]);
        }
    }

    /// Remove what `key` identifies again. Returns the queue, if it is one. Does nothing when it does not exist.
    ///
    /// # Errors
    /// The bytes are not a key.
    pub fn recover_removed(&mut self, key: &DefinitionKey) -> Result<Option<QueueId>, DefinitionError> {
        self.is_recovering = true;
        let done = self.remove_again(key);
        self.is_recovering = false;
        done
    }

    fn remove_again(&mut self, key: &DefinitionKey) -> Result<Option<QueueId>, DefinitionError> {
        let mut fields = DefinitionFields(&key.0);
        let kind = fields.kind()?;
        let Some(vhost) = self.vhost(&fields.text()?) else { return Ok(None) };
        match kind {
            VHOST => drop(self.remove_vhost(vhost)),
            EXCHANGE => {
                if let Ok(id) = self.exchange(vhost, &fields.text()?) {
                    self.remove_exchanges(vec![id]);
                }
            }
            QUEUE => {
                if let Ok(id) = self.queue(vhost, &fields.text()?, NOBODY) {
                    self.remove_queue(id);
                    return Ok(Some(id));
                }
            }
            BINDING => {
                let source = fields.text()?;
                let to_exchange = fields.byte()? == TO_EXCHANGE;
                let (target, key, arguments) = (fields.text()?, fields.text()?, fields.bytes()?);
                let target = if to_exchange { Target::Exchange(&target) } else { Target::Queue(&target) };
                let bind = Bind { source: &source, target, key: &key, arguments: RawTable::new(arguments) };
                // Its source or destination may be gone: then it is too.
                _ = self.unbind(vhost, &bind, NOBODY);
            }
            _ => return Err(DefinitionError("a key of an unknown kind")),
        }
        Ok(None)
    }

    fn known_vhost(&self, name: &str) -> Result<VhostId, AmqpError> {
        self.vhost(name).ok_or_else(errors::no_vhost)
    }
}

//! Definitions: durable exchanges, queues and bindings as bytes, each under its own key, to be recovered after a restart.
//!
//! Changes are reported in the order in which they happened, and in that order make the same topology again. The removal of
//! a queue or exchange includes that of its bindings. The bytes are a version, a kind, and fields after their lengths; a key
//! has only the fields that are part of the identity.

use std::fmt;

use crate::amqp::{AmqpError, RawTable};

use super::bindings::{Bind, Target};
use super::errors;
use super::filter::StoredQuery;
use super::list::BindingInfo;
use super::settings::{ExchangeKind, ExchangeSettings, QueueSettings};
use super::{BindingId, ExchangeId, QueueId, Topology, VhostId};

/// The first byte of a definition.
const VERSION: u8 = 1;

const VHOST: u8 = 1;
const EXCHANGE: u8 = 2;
const QUEUE: u8 = 3;
const BINDING: u8 = 4;

const TO_QUEUE: u8 = 0;
const TO_EXCHANGE: u8 = 1;

/// The owner that recovery uses: recovered queues are not exclusive to any connection.
const NOBODY: super::Owner = super::Owner::MAX;

/// Something that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A vhost.
    Vhost {
        /// Its name.
        vhost: String,
    },
    /// A durable exchange.
    Exchange {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// Its type.
        kind: ExchangeKind,
        /// It is deleted with its last binding.
        auto_delete: bool,
        /// Clients may not publish to it.
        internal: bool,
        /// The fields of its arguments.
        arguments: Vec<u8>,
    },
    /// A durable queue that is not exclusive.
    Queue {
        /// Its vhost.
        vhost: String,
        /// Its name.
        name: String,
        /// It is deleted with its last consumer.
        auto_delete: bool,
        /// The fields of its arguments.
        arguments: Vec<u8>,
    },
    /// A binding between durable parts.
    Binding {
        /// Their vhost.
        vhost: String,
        /// The exchange that it leads from.
        source: String,
        /// The queue or exchange that it leads to.
        target: String,
        /// True when the target is an exchange.
        to_exchange: bool,
        /// The binding's routing key.
        key: String,
        /// The fields of its arguments, sorted by name.
        arguments: Vec<u8>,
        /// The query of the store that the arguments name, as it was when it was bound.
        stored: Option<StoredQuery>,
    },
}

/// The identity of a [`Definition`]: its settings are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKey(Vec<u8>);

/// A change of what survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// It was made or has changed.
    Added(Definition),
    /// It was removed, with all bindings from and to it.
    Removed(DefinitionKey),
}

/// Why bytes are not a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionError(&'static str);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DefinitionError {}

impl Definition {
    /// Its identity.
    #[must_use]
    pub fn key(&self) -> DefinitionKey {
        match self {
            Self::Vhost { vhost } => DefinitionKey::of(VHOST, &[vhost.as_bytes()]),
            Self::Exchange { vhost, name, .. } => DefinitionKey::exchange(vhost, name),
            Self::Queue { vhost, name, .. } => DefinitionKey::queue(vhost, name),
            Self::Binding { vhost, source, target, to_exchange, key, arguments, .. } => {
                let [vhost, source, target, key] = [vhost, source, target, key].map(String::as_bytes);
                DefinitionKey::of(BINDING, &[vhost, source, &[u8::from(*to_exchange)], target, key, arguments])
            }
        }
    }

    /// The definitions that it depends on: it is removed with each of them.
    #[must_use]
    pub fn parents(&self) -> Vec<DefinitionKey> {
        let of_vhost = |vhost: &str| Self::Vhost { vhost: vhost.to_owned() }.key();
        match self {
            Self::Vhost { .. } => Vec::new(),
            Self::Exchange { vhost, .. } | Self::Queue { vhost, .. } => vec![of_vhost(vhost)],
            Self::Binding { vhost, source, target, to_exchange, .. } => {
                let target = match to_exchange {
                    true => DefinitionKey::exchange(vhost, target),
                    false => DefinitionKey::queue(vhost, target),
                };
                vec![of_vhost(vhost), DefinitionKey::exchange(vhost, source), target]
            }
        }
    }

    /// Append its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let mut fields = |kind: u8, fields: &[&[u8]]| {
            out.push(kind);
            fields.iter().for_each(|field| put(out, field));
        };
        match self {
            Self::Vhost { vhost } => fields(VHOST, &[vhost.as_bytes()]),
            Self::Exchange { vhost, name, kind, auto_delete, internal, arguments } => {
                let flags = [u8::from(*auto_delete) | u8::from(*internal) << 1];
                let kind = kind.name().as_bytes();
                fields(EXCHANGE, &[vhost.as_bytes(), name.as_bytes(), kind, &flags, arguments]);
            }
            Self::Queue { vhost, name, auto_delete, arguments } => {
                fields(QUEUE, &[vhost.as_bytes(), name.as_bytes(), &[u8::from(*auto_delete)], arguments]);
            }
            Self::Binding { vhost, source, target, to_exchange, key, arguments, stored } => {
                let to = if *to_exchange { TO_EXCHANGE } else { TO_QUEUE };
                let [vhost, source, target, key] = [vhost, source, target, key].map(String::as_bytes);
                let all: [&[u8]; 6] = [vhost, source, &[to], target, key, arguments];
                match stored {
                    None => fields(BINDING, &all),
                    Some(StoredQuery { language, text }) => {
                        let stored = [language.as_bytes(), text.as_bytes()];
                        fields(BINDING, &[&all[..], &stored[..]].concat());
                    }
                }
            }
        }
    }

    /// Decode what [`Definition::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are of a later version, or not a definition. [`Topology::recover`] checks further.
    pub fn decode(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let mut reader = match bytes {
            [VERSION, rest @ ..] => DefinitionFields(rest),
            [] => return Err(DefinitionError("an empty definition")),
            _ => return Err(DefinitionError("a definition of a later version")),
        };
        let definition = match reader.kind()? {
            VHOST => Self::Vhost { vhost: reader.text()? },
            EXCHANGE => {
                let (vhost, name) = (reader.text()?, reader.text()?);
                let kind = reader.text()?.parse().map_err(|_| DefinitionError("an exchange of an unknown type"))?;
                let flags = reader.byte()?;
                let (auto_delete, internal) = (flags & 1 != 0, flags & 2 != 0);
                Self::Exchange { vhost, name, kind, auto_delete, internal, arguments: reader.bytes()?.to_vec() }
            }
            QUEUE => {
                let (vhost, name, auto_delete) = (reader.text()?, reader.text()?, reader.byte()? != 0);
                Self::Queue { vhost, name, auto_delete, arguments: reader.bytes()?.to_vec() }
            }
            BINDING => {
                let (vhost, source) = (reader.text()?, reader.text()?);
                let to_exchange = reader.byte()? == TO_EXCHANGE;
                let (target, key, arguments) = (reader.text()?, reader.text()?, reader.bytes()?.to_vec());
                let stored = match reader.is_empty() {
                    true => None,
                    false => Some(StoredQuery { language: reader.text()?.into(), text: reader.text()?.into() }),
                };
                Self::Binding { vhost, source, target, to_exchange, key, arguments, stored }
            }
            _ => return Err(DefinitionError("a definition of an unknown kind")),
        };
        reader.finish()?;
        Ok(definition)
    }
}

impl DefinitionKey {
    fn of(kind: u8, fields: &[&[u8]]) -> Self {
        let mut bytes = vec![kind];
        fields.iter().for_each(|field| put(&mut bytes, field));
        Self(bytes)
    }

    pub(super) fn exchange(vhost: &str, name: &str) -> Self {
        Self::of(EXCHANGE, &[vhost.as_bytes(), name.as_bytes()])
    }

    pub(super) fn queue(vhost: &str, name: &str) -> Self {
        Self::of(QUEUE, &[vhost.as_bytes(), name.as_bytes()])
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key with these bytes; [`Topology::recover_removed`] checks it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    // No field is longer than a table: 64 KiB.
    out.extend_from_slice(&(field.len() as u32).to_le_bytes());
    out.extend_from_slice(field);
}

/// The remaining fields of a definition, each after its length.
struct DefinitionFields<'a>(&'a [u8]);

impl<'a> DefinitionFields<'a> {
    const SHORT: DefinitionError = DefinitionError("a definition that ends too soon");

    fn kind(&mut self) -> Result<u8, DefinitionError> {
        let (kind, rest) = self.0.split_first().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(*kind)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DefinitionError> {
        let (length, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(field)
    }

    fn byte(&mut self) -> Result<u8, DefinitionError> {
        match self.bytes()? {
            [byte] => Ok(*byte),
            _ => Err(DefinitionError("a definition with a flag that is none")),
        }
    }

    fn text(&mut self) -> Result<String, DefinitionError> {
        String::from_utf8(self.bytes()?.to_vec())
            .map_err(|_| DefinitionError("a definition with text that is no UTF-8"))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn finish(&self) -> Result<(), DefinitionError> {
        if self.is_empty() { Ok(()) } else { Err(DefinitionError("a definition with more than it should have")) }
    }
}

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
        let is_own =
            |exchange: &super::Exchange| exchange.durable && !exchange.is_gone && !exchange.name.starts_with("amq.");
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

    /// Make again what was recorded. Returns the queue, if it is one.
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
                self.declare_exchange(self.known_vhost(vhost)?, name, &settings)?;
            }
            Definition::Queue { vhost, name, auto_delete, arguments } => {
                let arguments = RawTable::new(arguments);
                let settings = QueueSettings { durable: true, exclusive: false, auto_delete: *auto_delete, arguments };
                let vhost = self.known_vhost(vhost)?;
                return Ok(Some(self.declare_queue(vhost, name, &settings, NOBODY, true)?.0));
            }
            Definition::Binding { vhost, source, target, to_exchange, key, arguments, stored } => {
                let target = if *to_exchange { Target::Exchange(target) } else { Target::Queue(target) };
                let bind = Bind { source, target, key, arguments: RawTable::new(arguments) };
                let find = || stored.clone().ok_or_else(|| "it is not in the journal".to_owned());
                self.bind(self.known_vhost(vhost)?, &bind, NOBODY, &mut |_| find())?;
            }
        }
        Ok(None)
    }

    /// Remove again what was removed. Returns the queue, if it is one. Nothing when it does not exist.
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

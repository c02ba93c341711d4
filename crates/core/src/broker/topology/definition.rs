//! Definitions: durable exchanges, queues and bindings as bytes, each under its own key, to be recovered after a restart.
//!
//! Changes are reported in the order in which they happened, and in that order make the same topology again. The removal of
//! a queue or exchange includes that of its bindings. The bytes are a version, a kind, and fields after their lengths; a key
//! has only the fields that are part of the identity.

use std::fmt;
use std::sync::Arc;

use super::conditions::filter::StoredQuery;
use super::settings::ExchangeKind;

/// The first byte of a definition.
const VERSION: u8 = 1;

pub(super) const VHOST: u8 = 1;
pub(super) const EXCHANGE: u8 = 2;
pub(super) const QUEUE: u8 = 3;
pub(super) const BINDING: u8 = 4;
pub(super) const READER: u8 = 5;

pub(super) const TO_QUEUE: u8 = 0;
pub(super) const TO_EXCHANGE: u8 = 1;

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
        /// Whether it is deleted with its last binding.
        auto_delete: bool,
        /// Whether clients are not allowed to publish to it.
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
        /// Whether it is deleted with its last consumer.
        auto_delete: bool,
        /// The fields of its arguments.
        arguments: Vec<u8>,
        /// The user who declared it; earlier versions did not record that.
        creator: Option<Arc<str>>,
    },
    /// A binding between durable parts.
    Binding {
        /// The vhost of both.
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
    /// The offset of a named reader of a stream.
    Reader {
        /// The vhost of the stream.
        vhost: String,
        /// The stream.
        stream: String,
        /// The name of the reader.
        name: String,
        /// The number of the message that it reads next.
        next: u64,
        /// The last number that was delivered to it; None while it reads. Earlier versions did not record that.
        delivered: Option<u64>,
    },
}

/// The identity of a [`Definition`]: its settings are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionKey(pub(super) Vec<u8>);

/// A change of what survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyChange {
    /// A definition was made or has changed.
    Added(Definition),
    /// A definition was removed, with all bindings from and to it.
    Removed(DefinitionKey),
}

/// Why bytes are not a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionError(pub(super) &'static str);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DefinitionError {}

impl Definition {
    /// The identity of the definition.
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
            Self::Reader { vhost, stream, name, .. } => DefinitionKey::reader(vhost, stream, name),
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
            Self::Reader { vhost, stream, .. } => vec![of_vhost(vhost), DefinitionKey::queue(vhost, stream)],
        }
    }

    /// Append the encoded definition to `out`.
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
            Self::Queue { vhost, name, auto_delete, arguments, creator } => {
                let all: [&[u8]; 4] = [vhost.as_bytes(), name.as_bytes(), &[u8::from(*auto_delete)], arguments];
                match creator {
                    None => fields(QUEUE, &all),
                    Some(creator) => fields(QUEUE, &[&all[..], &[creator.as_bytes()]].concat()),
                }
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
            Self::Reader { vhost, stream, name, next, delivered } => {
                let all: [&[u8]; 4] = [vhost.as_bytes(), stream.as_bytes(), name.as_bytes(), &next.to_le_bytes()];
                match delivered {
                    None => fields(READER, &all),
                    Some(delivered) => fields(READER, &[&all[..], &[&delivered.to_le_bytes()]].concat()),
                }
            }
        }
    }

    /// Decode what [`Definition::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are of a later version, or not a definition. [`super::Topology::recover`] checks further.
    pub fn decode(bytes: &[u8]) -> Result<Self, DefinitionError> {
        let mut decoder = match bytes {
            [VERSION, remaining @ ..] => DefinitionFields(remaining),
            [] => return Err(DefinitionError("an empty definition")),
            _ => return Err(DefinitionError("a definition of a later version")),
        };
        let definition = match decoder.kind()? {
            VHOST => Self::Vhost { vhost: decoder.text()? },
            EXCHANGE => {
                let (vhost, name) = (decoder.text()?, decoder.text()?);
                let kind = decoder.text()?.parse().map_err(|_| DefinitionError("an exchange of an unknown type"))?;
                let flags = decoder.byte()?;
                let (auto_delete, internal) = (flags & 1 != 0, flags & 2 != 0);
                Self::Exchange { vhost, name, kind, auto_delete, internal, arguments: decoder.bytes()?.to_vec() }
            }
            QUEUE => {
                let (vhost, name, auto_delete) = (decoder.text()?, decoder.text()?, decoder.byte()? != 0);
                let arguments = decoder.bytes()?.to_vec();
                let creator = if decoder.is_empty() { None } else { Some(decoder.text()?.into()) };
                Self::Queue { vhost, name, auto_delete, arguments, creator }
            }
            BINDING => {
                let (vhost, source) = (decoder.text()?, decoder.text()?);
                let to_exchange = decoder.byte()? == TO_EXCHANGE;
                let (target, key, arguments) = (decoder.text()?, decoder.text()?, decoder.bytes()?.to_vec());
                let stored = match decoder.is_empty() {
                    true => None,
                    false => Some(StoredQuery { language: decoder.text()?.into(), text: decoder.text()?.into() }),
                };
                Self::Binding { vhost, source, target, to_exchange, key, arguments, stored }
            }
            READER => {
                let (vhost, stream, name) = (decoder.text()?, decoder.text()?, decoder.text()?);
                let next = decoder.number()?;
                let delivered = if decoder.is_empty() { None } else { Some(decoder.number()?) };
                Self::Reader { vhost, stream, name, next, delivered }
            }
            _ => return Err(DefinitionError("a definition of an unknown kind")),
        };
        decoder.finish()?;
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

    /// The key of a queue.
    pub(crate) fn queue(vhost: &str, name: &str) -> Self {
        Self::of(QUEUE, &[vhost.as_bytes(), name.as_bytes()])
    }

    /// The key of a named reader of a stream.
    pub(crate) fn reader(vhost: &str, stream: &str, name: &str) -> Self {
        Self::of(READER, &[vhost.as_bytes(), stream.as_bytes(), name.as_bytes()])
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key with these bytes; [`super::Topology::recover_removed`] checks it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    // No field is longer than a table: 256 KiB.
    out.extend_from_slice(&(field.len() as u32).to_le_bytes());
    out.extend_from_slice(field);
}

/// The remaining fields of a definition, each after its length.
pub(super) struct DefinitionFields<'a>(pub(super) &'a [u8]);

impl<'a> DefinitionFields<'a> {
    const SHORT: DefinitionError = DefinitionError("a definition that ends too soon");

    pub(super) fn kind(&mut self) -> Result<u8, DefinitionError> {
        let (kind, remaining) = self.0.split_first().ok_or(Self::SHORT)?;
        self.0 = remaining;
        Ok(*kind)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DefinitionError> {
        let (length, remaining) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        let (field, remaining) = remaining.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Self::SHORT)?;
        self.0 = remaining;
        Ok(field)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DefinitionError> {
        match self.bytes()? {
            [byte] => Ok(*byte),
            _ => Err(DefinitionError("a definition with a flag that is none")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, DefinitionError> {
        String::from_utf8(self.bytes()?.to_vec())
            .map_err(|_| DefinitionError("a definition with text that is no UTF-8"))
    }

    fn number(&mut self) -> Result<u64, DefinitionError> {
        let bytes = self.bytes()?.try_into().map_err(|_| DefinitionError("an offset that is no number"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn finish(&self) -> Result<(), DefinitionError> {
        if self.is_empty() { Ok(()) } else { Err(DefinitionError("a definition with more than it should have")) }
    }
}

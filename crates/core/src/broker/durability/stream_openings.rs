//! Logs of new streams that the committer is opening, and the connections whose declarations wait for them.

use std::path::PathBuf;

use hashbrown::HashMap;

use crate::journal::{LogOpening, LogOptions};

use crate::broker::clock::Micros;
use crate::broker::durable::DefinitionId;
use crate::broker::ids::{ChannelSlot, ConnectionId, Handle};
use crate::broker::topology::DefinitionKey;

/// The time after which a log that no declaration has taken is removed: its client has gone.
const UNTAKEN_US_MAX: Micros = 10_000_000;

/// The logs that are being opened, by the definitions of their streams.
#[derive(Default)]
pub(super) struct StreamOpenings {
    openings: HashMap<DefinitionKey, StreamOpening>,
    /// The connections that waited for a log which somebody else has taken, or which was dropped.
    overtaken: Vec<ConnectionId>,
}

/// The log of a new stream.
pub(super) struct StreamOpening {
    /// The id that the stream's definition will have, by which the directory is named.
    pub id: DefinitionId,
    pub dir: PathBuf,
    pub options: LogOptions,
    pub log: LogOpening,
    /// The channel that declares it without a name, and the name that it was given.
    generated: Option<(Handle<ChannelSlot>, Box<str>)>,
    /// The connections whose declarations wait for it.
    waiting: Vec<ConnectionId>,
    /// The time since which a declaration may take it.
    done_since: Option<Micros>,
}

impl StreamOpening {
    pub fn new(id: DefinitionId, dir: PathBuf, options: LogOptions, log: LogOpening) -> Self {
        Self { id, dir, options, log, generated: None, waiting: Vec::new(), done_since: None }
    }
}

impl StreamOpenings {
    pub fn get(&self, key: &DefinitionKey) -> Option<&StreamOpening> {
        self.openings.get(key)
    }

    pub fn len(&self) -> usize {
        self.openings.len()
    }

    pub fn insert(&mut self, key: DefinitionKey, opening: StreamOpening) {
        self.openings.insert(key, opening);
    }

    /// Take a log. Other declarations that wait for it go on, and find the stream there, or begin anew.
    pub fn remove(&mut self, key: &DefinitionKey) -> Option<StreamOpening> {
        let mut opening = self.openings.remove(key)?;
        self.overtaken.append(&mut opening.waiting);
        Some(opening)
    }

    /// Let a declaration wait for a log; `generated` is its channel and name if it has been given one.
    pub fn wait(
        &mut self,
        key: &DefinitionKey,
        connection: ConnectionId,
        generated: Option<(Handle<ChannelSlot>, Box<str>)>,
    ) {
        let Some(opening) = self.openings.get_mut(key) else { return };
        opening.generated = opening.generated.take().or(generated);
        if !opening.waiting.contains(&connection) {
            opening.waiting.push(connection);
        }
    }

    /// The name that a channel's stream was given when its declaration began to wait.
    pub fn generated_name(&self, channel: Handle<ChannelSlot>) -> Option<Box<str>> {
        let mut generated = self.openings.values().filter_map(|opening| opening.generated.as_ref());
        generated.find(|(of, _)| *of == channel).map(|(_, name)| name.clone())
    }

    /// Take the connections whose declarations can go on, because the log is there or cannot be opened.
    pub fn take_ready(&mut self, now: Micros) -> Vec<ConnectionId> {
        let mut ready = std::mem::take(&mut self.overtaken);
        for opening in self.openings.values_mut().filter(|opening| opening.log.is_done()) {
            opening.done_since.get_or_insert(now);
            ready.append(&mut opening.waiting);
        }
        ready
    }

    /// Take the logs that nobody has come for.
    pub fn take_untaken(&mut self, now: Micros) -> Vec<StreamOpening> {
        let is_late = |opening: &StreamOpening| opening.done_since.is_some_and(|since| now - since >= UNTAKEN_US_MAX);
        self.openings.extract_if(|_, opening| is_late(opening)).map(|(_, opening)| opening).collect()
    }
}

//! The matching table of a stream's readers: one engine, one match per message, whatever their number.
//!
//! Readers with the same query are one subscription. A reader stays here from the first time that it is live until it goes,
//! so that one that falls back to the log and returns changes nothing in the engine.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::EngineError;
use crate::hierarchy::Hierarchies;
use crate::index::{Engine, NameFilter, Scratch, SubscriptionId};

use crate::broker::ids::ConsumerSlot;
use crate::broker::topology::{ConsumerFilter, Needs, View};

/// The readers of a stream by what they ask for.
#[derive(Debug, Default)]
pub(crate) struct ReaderTable {
    engine: Engine,
    /// The readers of each query.
    readers: HashMap<SubscriptionId, Vec<ConsumerSlot>>,
    /// Subscriptions by the canonical text of their query, which says all of it.
    by_text: HashMap<Box<str>, SubscriptionId>,
    /// Readers without a query.
    always: Vec<ConsumerSlot>,
    /// The numbers of queries that need properties, text and JSON.
    counts: [usize; 3],
    /// The names of properties that make a difference to a query, and perhaps others.
    names: NameFilter,
}

/// Room for matching, kept so that nothing is allocated per message.
#[derive(Debug, Default)]
pub(crate) struct TableScratch {
    room: Scratch,
    matched: Vec<SubscriptionId>,
}

impl ReaderTable {
    /// Add a reader with its query, if it has one.
    pub fn add(&mut self, reader: ConsumerSlot, filter: Option<&ConsumerFilter>) {
        let Some(filter) = filter else { return self.always.push(reader) };
        let id = *self.by_text.entry(filter.query().to_string().into()).or_insert_with(|| {
            count(&mut self.counts, filter.needs(), |count| *count += 1);
            self.engine.add(Arc::clone(filter.shared_query()))
        });
        self.readers.entry(id).or_default().push(reader);
        self.names = self.engine.names_asked();
    }

    /// Remove a reader, which was added with this query.
    pub fn remove(&mut self, reader: ConsumerSlot, filter: Option<&ConsumerFilter>) {
        let Some(filter) = filter else { return self.always.retain(|other| *other != reader) };
        let text = filter.query().to_string();
        let Some(id) = self.by_text.get(&*text).copied() else { return };
        let Some(readers) = self.readers.get_mut(&id) else { return };
        readers.retain(|other| *other != reader);
        if readers.is_empty() {
            self.readers.remove(&id);
            self.by_text.remove(&*text);
            count(&mut self.counts, filter.needs(), |count| *count -= 1);
            self.engine.remove(id).expect("an engine in memory has no file that could be damaged");
            self.names = self.engine.names_asked();
        }
    }

    /// Append the readers that ask for a message to `readers`, each once.
    ///
    /// # Errors
    /// The engine cannot read a part of itself.
    pub fn match_into(
        &self,
        routing_key: &str,
        view: &mut View<'_>,
        scratch: &mut TableScratch,
        readers: &mut Vec<ConsumerSlot>,
    ) -> Result<(), EngineError> {
        readers.extend_from_slice(&self.always);
        if self.readers.is_empty() {
            return Ok(());
        }
        let TableScratch { room, matched } = scratch;
        matched.clear();
        view.with(routing_key, self.needs(), Some(&self.names), |message| {
            self.engine.match_into(message, room, matched)
        })?;
        for id in matched {
            readers.extend_from_slice(&self.readers[id]);
        }
        Ok(())
    }

    /// Follow these hierarchies from the next message on.
    pub fn set_hierarchies(&self, hierarchies: Arc<Hierarchies>) {
        self.engine.set_hierarchies(hierarchies);
    }

    /// The number of distinct queries.
    #[cfg(test)]
    pub fn query_count(&self) -> usize {
        self.readers.len()
    }

    /// The parts of a message that at least one of the queries needs.
    fn needs(&self) -> Needs {
        let [properties, text, json] = self.counts.map(|count| count > 0);
        Needs { properties, text, json }
    }
}

fn count(counts: &mut [usize; 3], needs: Needs, change: impl Fn(&mut usize)) {
    for (count, needed) in counts.iter_mut().zip([needs.properties, needs.text, needs.json]) {
        if needed {
            change(count);
        }
    }
}

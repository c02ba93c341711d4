//! A slow model of the journal: it applies what was recorded, one after the other.

use std::collections::BTreeMap;

use super::DefinitionId;

/// The effect of a record.
#[derive(Clone, Debug)]
pub enum Deed {
    Define(String, Vec<u8>, Vec<String>),
    Forget(String),
    Enqueue(u64, Vec<DefinitionId>),
    Settle(Vec<(DefinitionId, u64)>),
}

/// The live records: by key the number and value, the keys it depends on; by queue the messages in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub definitions: BTreeMap<String, (DefinitionId, Vec<u8>, Vec<String>)>,
    pub queues: BTreeMap<DefinitionId, Vec<u64>>,
}

impl Model {
    pub fn apply(&mut self, sequence: u64, deed: &Deed) {
        match deed {
            Deed::Define(key, value, parents) => {
                let id = self.definitions.get(key).map_or(DefinitionId(sequence), |known| known.0);
                let parents = parents.iter().filter(|parent| self.definitions.contains_key(*parent)).cloned();
                self.definitions.insert(key.clone(), (id, value.clone(), parents.collect()));
            }
            Deed::Forget(key) => {
                if let Some((id, ..)) = self.definitions.remove(key) {
                    self.queues.remove(&id);
                }
                let children = |entry: (&String, &(DefinitionId, Vec<u8>, Vec<String>))| {
                    entry.1.2.contains(key).then(|| entry.0.clone())
                };
                for child in self.definitions.iter().filter_map(children).collect::<Vec<_>>() {
                    self.apply(sequence, &Deed::Forget(child));
                }
            }
            Deed::Enqueue(number, queues) => {
                // A queue that still has it was done with that.
                self.settle(queues.iter().map(|queue| (*queue, *number)));
                queues.iter().for_each(|queue| self.queues.entry(*queue).or_default().push(*number));
            }
            Deed::Settle(places) => self.settle(places.iter().copied()),
        }
    }

    /// Take messages out of queues.
    pub fn settle(&mut self, places: impl Iterator<Item = (DefinitionId, u64)>) {
        for (queue, number) in places {
            if let Some(messages) = self.queues.get_mut(&queue) {
                messages.retain(|held| *held != number);
            }
        }
        self.queues.retain(|_, messages| !messages.is_empty());
    }

    /// Whether a queue has a message.
    pub fn has(&self, queue: DefinitionId, number: u64) -> bool {
        self.queues.get(&queue).is_some_and(|messages| messages.contains(&number))
    }

    /// Whether any queue has a message.
    pub fn is_held(&self, number: u64) -> bool {
        self.queues.values().any(|messages| messages.contains(&number))
    }
}

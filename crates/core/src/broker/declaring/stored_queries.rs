//! Keeps bindings up to date with the store: the queries that they name, and the hierarchies of attributes.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::amqp::AmqpError;

use crate::broker::Broker;
use crate::broker::clock::Micros;
use crate::broker::topology::{Replaced, StoredQuery};
use crate::hierarchy::Hierarchies;

impl Broker {
    /// The keys of the store that bindings name, each once.
    #[must_use]
    pub fn stored_keys(&self) -> Vec<String> {
        self.topology.stored_keys()
    }

    /// Give bindings that name one of `queries` by its key its new text; the next message is matched by it.
    ///
    /// Cost: as [`Topology::replace_stored`](crate::broker::topology::Topology::replace_stored). Consumers keep the query that
    /// they began with.
    ///
    /// # Errors
    /// The journal has no room for further definitions now; then nothing has changed.
    pub fn replace_stored(
        &mut self,
        queries: &HashMap<String, StoredQuery>,
        now: Micros,
    ) -> Result<Replaced, AmqpError> {
        self.clock.advance(now);
        self.durability.check_room()?;
        let replaced = self.topology.replace_stored(queries);
        if replaced.bindings > 0 {
            self.changed();
        }
        Ok(replaced)
    }

    /// Use these hierarchies instead of the ones before, from the next message on. Returns those: dropping many values takes
    /// long. Cost: linear in the attributes, the exchanges and the streams with readers.
    pub fn set_hierarchies(&mut self, hierarchies: Hierarchies, now: Micros) -> Arc<Hierarchies> {
        self.clock.advance(now);
        let before = self.topology.set_hierarchies(hierarchies);
        self.set_hierarchies_of_readers();
        before
    }
}

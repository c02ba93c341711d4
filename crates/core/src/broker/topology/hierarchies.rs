//! The hierarchies of attributes, which `UNDER` follows in the queries of all bindings and consumers.

use std::sync::Arc;

use crate::hierarchy::Hierarchies;

use super::Topology;
use super::conditions::names;
use super::exchange::EngineOrigin;

impl Topology {
    /// Use these hierarchies instead of the ones before, from the next message on. Returns those, because dropping many values
    /// takes long. Cost: linear in the attributes and in the exchanges.
    pub fn set_hierarchies(&mut self, mut hierarchies: Hierarchies) -> Arc<Hierarchies> {
        // The fields of a JSON body have names of their own inside.
        let inside: Vec<_> =
            hierarchies.iter().filter_map(|(name, tree)| Some((names::json_name(name)?, tree.clone()))).collect();
        hierarchies.extend(inside);
        let before = std::mem::replace(&mut self.hierarchies, Arc::new(hierarchies));
        for (_, exchange) in self.exchanges.iter() {
            if let Some(queries) = &exchange.queries {
                queries.engine.set_hierarchies(Arc::clone(&self.hierarchies));
            }
        }
        self.version += 1;
        before
    }

    /// The hierarchies that a new query must do with; None during recovery, when nothing is refused.
    pub(super) fn checked_hierarchies(&self) -> Option<&Hierarchies> {
        (!self.is_recovering).then_some(&*self.hierarchies)
    }

    /// The settings of the next engine.
    pub(super) fn engine_origin(&self) -> EngineOrigin {
        EngineOrigin { room: self.engine_count, hierarchies: Arc::clone(&self.hierarchies) }
    }

    /// The hierarchies in use, for another engine.
    pub(in crate::broker) fn shared_hierarchies(&self) -> Arc<Hierarchies> {
        Arc::clone(&self.hierarchies)
    }

    /// The hierarchies in use.
    #[must_use]
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }
}

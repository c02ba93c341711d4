//! Queries of many shapes, each with messages, and the simple ways to match them.
//!
//! A shape is what queries have in common: two ranges each, one threshold, a long list. The simple ways (`baselines.rs`) are
//! what anybody would write first; an index earns its place where it is faster than all of them. The
//! special thing for a shape (`special.rs`) knows that no query has another one.

pub mod baselines;
pub mod made;
pub mod programs;
pub mod special;

use std::sync::Arc;

use tamis_core::message::Properties;
use tamis_core::query::Query;

/// Queries of one shape, and messages for them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What the queries have in common.
    pub name: &'static str,
    /// The queries; a query's index is its id.
    pub queries: Vec<Arc<Query>>,
    /// The messages.
    pub messages: Vec<Properties>,
}

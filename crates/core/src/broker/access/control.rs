//! The questions that the data plane asks of the control plane.

use crate::broker::topology::StoredQuery;

/// An action of a user on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Make, change or remove it.
    Configure,
    /// Put messages into it.
    Write,
    /// Take messages from it.
    Read,
}

/// The kind of a named resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// An exchange; the default one is called `amq.default`.
    Exchange,
    /// A queue.
    Queue,
    /// A query of the store, by its key.
    Query,
}

/// One question to the control plane.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// The user who asks.
    pub user: &'a str,
    /// The vhost of the resource.
    pub vhost: &'a str,
    /// The kind of access.
    pub verb: Verb,
    /// The kind of resource.
    pub resource: Resource,
    /// Its name.
    pub name: &'a str,
    /// For an exchange of type topic, the routing or binding key.
    pub routing_key: Option<&'a str>,
}

/// Maximum of what a user may have at a time; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections.
    pub connections: Option<u32>,
    /// Queues that the user declared.
    pub queues: Option<u32>,
}

/// The questions of the data plane to the control plane. They are synchronous: answer quickly and never call back.
pub trait Control {
    /// Whether this may be done.
    fn allowed(&mut self, access: &Access<'_>) -> bool;

    /// Whether routing keys matter to what this user may do in this vhost. When not, [`Control::allowed`] is not asked
    /// about each key.
    fn has_topic_rules(&mut self, _user: &str, _vhost: &str) -> bool {
        false
    }

    /// The query that the store keeps under this key.
    ///
    /// # Errors
    /// The reason why there is none, in words.
    fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String>;

    /// Maximum of what this user may have.
    fn limits(&mut self, _user: &str) -> UserLimits {
        UserLimits::default()
    }
}

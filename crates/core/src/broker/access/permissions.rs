//! The permissions of users, as the control plane has answered.

use crate::broker::access::control::Control;
use crate::broker::access::principals::{Principal, Principals};
use crate::broker::ids::PrincipalSlot;
use crate::broker::topology::StoredQuery;
use std::sync::Arc;

/// The control plane, and what it has said.
pub(crate) struct Permissions {
    pub(super) control: Box<dyn Control + Send>,
    pub(super) principals: Principals,
}

impl Permissions {
    /// Nothing is known yet of what `control` says.
    pub fn new(control: Box<dyn Control + Send>) -> Self {
        Self { control, principals: Principals::default() }
    }

    /// A number that changes whenever verdicts are forgotten.
    pub fn version(&self) -> u64 {
        self.principals.version
    }

    /// A user in a vhost.
    pub fn principal(&self, slot: PrincipalSlot) -> &Principal {
        self.principals.get(slot)
    }

    /// A user connects; whether the user may have one more connection.
    pub fn connect(&mut self, user: &str, vhost: &Arc<str>) -> (PrincipalSlot, Result<(), String>) {
        self.principals.connect(&mut *self.control, user, vhost)
    }

    /// A connection of this principal is gone.
    pub fn disconnect(&mut self, slot: PrincipalSlot) {
        self.principals.disconnect(slot);
    }

    /// Forget what this user may do, or what anybody may.
    pub fn forget(&mut self, user: Option<&str>) {
        self.principals.forget(user);
    }

    /// Count a queue that this user declares.
    ///
    /// # Errors
    /// The limit is reached; the queue is not counted.
    pub fn add_queue(&mut self, user: &Arc<str>) -> Result<(), String> {
        self.principals.add_queue(&mut *self.control, user)
    }

    /// Check that this user may declare one more queue.
    ///
    /// # Errors
    /// The limit is reached.
    pub fn check_queues(&mut self, user: &Arc<str>) -> Result<(), String> {
        self.principals.check_queues(&mut *self.control, user)
    }

    /// Count a queue that this user declared before the broker was started, whatever the limit is now. Returns the user.
    pub fn recover_queue(&mut self, user: &str) -> Arc<str> {
        self.principals.recover_queue(user)
    }

    /// A queue that this user declared is gone.
    pub fn remove_queue(&mut self, user: &Arc<str>) {
        self.principals.remove_queue(user);
    }

    /// The query that the store keeps under a key.
    ///
    /// # Errors
    /// The reason why there is none, in words.
    pub fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
        self.control.stored_query(key)
    }
}

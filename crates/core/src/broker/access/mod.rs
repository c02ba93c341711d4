//! Permissions: what a user may do is asked of the control plane once, then remembered.
//!
//! The control plane decides ([`Control`]); the data plane remembers the verdicts for each user in each vhost until it is
//! told to forget them. The memory for verdicts is bounded: a full table is emptied and filled again.

pub(crate) mod control;
pub(crate) mod principals;

use std::sync::Arc;

use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::access::control::{Control, Resource, Verb};
use crate::broker::access::principals::{Principal, Principals};
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, PrincipalSlot};
use crate::broker::topology::{ExchangeInfo, ExchangeKind, StoredQuery};

/// The control plane, and what it has said.
pub(crate) struct Permissions {
    control: Box<dyn Control + Send>,
    principals: Principals,
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

impl Broker {
    /// The user of a channel in its vhost.
    pub(crate) fn principal(&self, channel: ChannelSlot) -> &Principal {
        self.permissions.principal(self.clients[self.clients[channel].connection].principal)
    }

    /// Check that the user of a channel may do this.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn check_access(
        &mut self,
        channel: ChannelSlot,
        verb: Verb,
        resource: Resource,
        name: &str,
    ) -> Result<(), AmqpError> {
        let Permissions { control, principals } = &mut self.permissions;
        let slot = self.clients[self.clients[channel].connection].principal;
        if principals.allows(&mut **control, slot, verb, resource, name) {
            return Ok(());
        }
        let verb = match verb {
            Verb::Configure => "configure",
            Verb::Write => "write",
            Verb::Read => "read",
        };
        let (resource, name) = match (resource, name) {
            (Resource::Exchange, "") => ("exchange", "amq.default"),
            (Resource::Exchange, name) => ("exchange", name),
            (Resource::Queue, name) => ("queue", name),
        };
        let Principal { user, vhost, .. } = principals.get(slot);
        let reason = format!("{verb} access to {resource} '{name}' in vhost '{vhost}' refused for user '{user}'");
        Err(error(ReplyCode::AccessRefused, &reason))
    }

    /// Check that the user of a channel may do this with this routing key, where routing keys matter.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn check_topic_access(
        &mut self,
        channel: ChannelSlot,
        verb: Verb,
        exchange: &str,
        routing_key: &str,
    ) -> Result<(), AmqpError> {
        let (vhost, _) = self.clients.vhost_and_owner(channel);
        let Permissions { control, principals } = &mut self.permissions;
        let slot = self.clients[self.clients[channel].connection].principal;
        if !principals.has_topic_rules(&mut **control, slot) {
            return Ok(());
        }
        let is_topic = |info: ExchangeInfo<'_>| info.settings.kind == ExchangeKind::Topic;
        if !self.topology.exchange_info(vhost, exchange).is_some_and(is_topic)
            || principals.allows_topic(&mut **control, slot, verb, exchange, routing_key)
        {
            return Ok(());
        }
        let Principal { user, vhost, .. } = principals.get(slot);
        let verb = if verb == Verb::Write { "write" } else { "read" };
        let reason = format!(
            "{verb} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' refused for user '{user}'"
        );
        Err(error(ReplyCode::AccessRefused, &reason))
    }
}

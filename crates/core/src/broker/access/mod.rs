//! Permissions: what a user may do is asked of the control plane once, then remembered.
//!
//! The control plane decides ([`Control`](control::Control)); the data plane remembers the verdicts for each user in each vhost until it is
//! told to forget them. The memory for verdicts is bounded: a full table is emptied and filled again.

pub(crate) mod control;
pub(crate) mod permissions;
pub(crate) mod principals;

use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::access::permissions::Permissions;
use crate::broker::access::principals::Principal;
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::topology::{ExchangeInfo, ExchangeKind};

/// The pattern of all routing keys: it stands for a key that nobody knows yet.
pub(crate) const ANY_KEY: &str = "#";

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
            (Resource::Query, name) => ("stored query", name),
        };
        let Principal { user, vhost, .. } = principals.get(slot);
        let reason = format!("{verb} access to {resource} '{name}' in vhost '{vhost}' refused for user '{user}'");
        Err(error(ReplyCode::AccessRefused, &reason))
    }

    /// Check that the user of a channel may do this with this routing key, where routing keys matter. A binding's pattern
    /// is looked at as if it were a key. An exchange that does not exist may become one where they matter.
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
        let is_topic = |info: ExchangeInfo<'_>| {
            info.settings.kind == ExchangeKind::Topic || info.settings.kind.address().is_some()
        };
        if exchange.is_empty()
            || !self.topology.exchange_info(vhost, exchange).is_none_or(is_topic)
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

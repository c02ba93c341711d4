//! Sends a message to the addresses that its keys name.

use smallvec::SmallVec;

use crate::amqp::{AmqpError, ReplyCode};
use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::topology::{AddressKind, Bind, QueueId, Target, VhostId};

/// The addresses of a message: nearly always none or one.
type AddressList<'a> = SmallVec<[(AddressKind, &'a str); 1]>;

impl Broker {
    /// Append the queues of the addresses that a message goes to, each once. Returns whether there are any.
    ///
    /// # Errors
    /// 403: the user may not write there; whatever refuses to make one of them.
    pub(crate) fn route_to_addresses(
        &mut self,
        slot: ChannelSlot,
        exchange: &str,
        (routing_key, further_keys): (&str, &[&str]),
        routed: &mut Vec<QueueId>,
    ) -> Result<bool, AmqpError> {
        let (vhost, _) = self.clients.vhost_and_owner(slot);
        let addresses = self.addresses_in(vhost, exchange, routing_key, further_keys);
        for (kind, address) in &addresses {
            if exchange.is_empty() {
                // By the name of its queue, which is another way to the same exchange.
                self.check_access(slot, Verb::Write, Resource::Exchange, kind.name())?;
                self.check_topic_access(slot, Verb::Write, kind.name(), address)?;
            }
            let user = std::sync::Arc::clone(&self.principal(slot).user);
            let queue = self.reach(vhost, &user, *kind, address)?;
            if !routed.contains(&queue) {
                routed.push(queue);
            }
        }
        Ok(!addresses.is_empty())
    }

    /// The addresses among the keys of a message.
    fn addresses_in<'a>(
        &self,
        vhost: VhostId,
        exchange: &str,
        routing_key: &'a str,
        further_keys: &[&'a str],
    ) -> AddressList<'a> {
        let keys = std::iter::once(routing_key).chain(further_keys.iter().copied());
        match self.address_kind(vhost, exchange) {
            _ if exchange.is_empty() => keys.filter_map(AddressKind::of_queue).collect(),
            Some(kind) => keys.map(|key| (kind, key)).collect(),
            None => AddressList::new(),
        }
    }

    /// The kind of the addresses that an exchange has for routing keys, if it has.
    fn address_kind(&self, vhost: VhostId, exchange: &str) -> Option<AddressKind> {
        AddressKind::ALL.iter().find(|kind| kind.name() == exchange)?;
        self.topology.exchange_info(vhost, exchange)?.settings.kind.address()
    }

    /// Whether what is published by this exchange and key goes to an address.
    pub(crate) fn is_addressed(&self, vhost: VhostId, exchange: &str, key: Option<&str>) -> bool {
        let by_name = exchange.is_empty() && key.is_some_and(|key| AddressKind::of_queue(key).is_some());
        by_name || self.address_kind(vhost, exchange).is_some()
    }

    /// Refuse a binding from or to something with an address: what is there has come from a client whom the broker knows.
    ///
    /// # Errors
    /// 406.
    pub(crate) fn refuse_addressed(&self, vhost: VhostId, bind: &Bind<'_>) -> Result<(), AmqpError> {
        let to = match bind.target {
            Target::Queue(name) => AddressKind::of_queue(name).map(|(kind, _)| kind),
            Target::Exchange(name) => self.address_kind(vhost, name),
        };
        match self.address_kind(vhost, bind.source).or(to) {
            None => Ok(()),
            Some(kind) => {
                let name = kind.name();
                let reason =
                    format!("a {name} has no bindings: publish to exchange '{name}' with its name as the routing key");
                Err(error(ReplyCode::PreconditionFailed, &reason))
            }
        }
    }
}

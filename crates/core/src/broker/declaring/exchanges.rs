//! Declares and deletes exchanges, and records the changes of the topology.

use crate::amqp::method::{ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk};
use crate::amqp::{AmqpError, ReplyCode};

use crate::broker::Broker;
use crate::broker::access::ANY_KEY;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::errors::error;
use crate::broker::ids::ChannelSlot;
use crate::broker::topology::ExchangeSettings;

impl Broker {
    /// Make a vhost, if there is none with this name.
    pub fn add_vhost(&mut self, name: &str) {
        self.topology.add_vhost(name);
        self.changed();
    }

    /// The names of all vhosts.
    pub fn vhosts(&self) -> impl Iterator<Item = &str> {
        self.topology.vhosts().map(|(_, name)| name)
    }

    /// Record what has changed in the topology, as far as it survives a restart.
    pub(crate) fn changed(&mut self) {
        self.durability.take_changes(&mut self.topology);
        self.record_changes();
    }

    /// Carry out exchange.declare.
    pub(crate) fn declare_exchange(&mut self, channel: ChannelSlot, it: &ExchangeDeclare<'_>) -> Result<(), AmqpError> {
        let (vhost, _) = self.clients.vhost_and_owner(channel);
        if it.passive {
            self.topology.check_exchange(vhost, it.exchange)?;
        } else {
            self.check_access(channel, Verb::Configure, Resource::Exchange, it.exchange)?;
            if self.topology.check_exchange(vhost, it.exchange).is_err() {
                self.check_memory_for_definitions()?;
                if it.durable {
                    self.durability.check_room()?;
                }
            }
            let settings = ExchangeSettings {
                kind: it.exchange_type.parse()?,
                durable: it.durable,
                auto_delete: it.auto_delete,
                internal: it.internal,
                arguments: it.arguments,
            };
            if let Some(alternate) = it.arguments.get("alternate-exchange").and_then(|value| value.as_str()) {
                self.check_access(channel, Verb::Read, Resource::Exchange, it.exchange)?;
                self.check_access(channel, Verb::Write, Resource::Exchange, alternate)?;
                self.check_topic_access(channel, Verb::Write, alternate, ANY_KEY)?;
                if self.is_addressed(vhost, alternate, None) {
                    let reason = format!("'{alternate}' cannot be an alternate exchange");
                    return Err(error(ReplyCode::PreconditionFailed, &reason));
                }
            }
            self.topology.declare_exchange(vhost, it.exchange, &settings)?;
            self.changed();
        }
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeDeclareOk {}.into()) }
    }

    /// Carry out exchange.delete.
    pub(crate) fn delete_exchange(&mut self, channel: ChannelSlot, it: &ExchangeDelete<'_>) -> Result<(), AmqpError> {
        let (vhost, _) = self.clients.vhost_and_owner(channel);
        self.check_access(channel, Verb::Configure, Resource::Exchange, it.exchange)?;
        self.topology.delete_exchange(vhost, it.exchange, it.if_unused)?;
        self.changed();
        if it.no_wait { Ok(()) } else { self.reply(channel, ExchangeDeleteOk {}.into()) }
    }
}

//! Makes the queues of addresses on demand, and says who may read them.

use std::sync::Arc;

use crate::amqp::{AmqpError, RawTable, ReplyCode};
use crate::broker::Broker;
use crate::broker::access::control::{Resource, Verb};
use crate::broker::errors::error;
use crate::broker::ids::{ChannelSlot, ConnectionSlot};
use crate::broker::management::event::Event;
use crate::broker::queues::queue::Queue;
use crate::broker::topology::{AddressKind, Declared, DefinitionKey, NOBODY, QueueId, QueueSettings, VhostId};

/// Maximum length of the name of a queue, as of any short string.
const NAME_BYTES_MAX: usize = 255;
/// The cost of making a queue, in steps of a turn.
const MAKE_STEPS: u32 = 40;

impl Broker {
    /// Make the mailbox of a client that has connected with an identity. When it cannot be made now, operators are told, and
    /// it is made when the client reads it.
    pub(crate) fn make_own_mailbox(&mut self, slot: ConnectionSlot) {
        let about = Arc::clone(&self.clients[slot].about);
        if about.identity.is_empty() {
            return;
        }
        let (vhost, user) = (self.clients[slot].vhost, self.user(slot));
        if let Err(refused) = self.reach(vhost, &user, AddressKind::Mailbox, &about.identity) {
            let subject = format!("mailbox '{}'", about.identity);
            self.events.push(Event::Warning {
                connection: self.clients.id(slot),
                subject,
                reason: refused.text.clone(),
            });
        }
    }

    /// The queue of an address that a client wants to read.
    ///
    /// # Errors
    /// 403: it is not the client's to read; whatever refuses to make it.
    pub(crate) fn address_to_read(
        &mut self,
        channel: ChannelSlot,
        kind: AddressKind,
        address: &str,
    ) -> Result<QueueId, AmqpError> {
        let connection = self.clients[channel].connection;
        match kind {
            AddressKind::Mailbox if *self.clients[connection].about.identity != *address => {
                let identity = &self.clients[connection].about.identity;
                let whose = if identity.is_empty() { "none".to_owned() } else { format!("'{identity}'") };
                let reason =
                    format!("mailbox '{address}' is read by the client with that identity alone; this one has {whose}");
                return Err(error(ReplyCode::AccessRefused, &reason));
            }
            AddressKind::Mailbox => {}
            AddressKind::Service => {
                self.check_access(channel, Verb::Read, Resource::Queue, &kind.queue_name(address))?;
            }
        }
        let (vhost, user) = (self.clients[connection].vhost, self.user(connection));
        self.reach(vhost, &user, kind, address)
    }

    fn user(&self, slot: ConnectionSlot) -> Arc<str> {
        Arc::clone(&self.permissions.principal(self.clients[slot].principal).user)
    }

    /// The queue of an address, which is made if there is none.
    ///
    /// # Errors
    /// 406: the address is empty or too long, or the user has too many queues; 506: there is no room for another queue.
    pub(crate) fn reach(
        &mut self,
        vhost: VhostId,
        user: &Arc<str>,
        kind: AddressKind,
        address: &str,
    ) -> Result<QueueId, AmqpError> {
        let name = kind.queue_name(address);
        if let Ok(id) = self.topology.queue(vhost, &name, NOBODY) {
            return Ok(id);
        }
        if address.is_empty() || name.len() > NAME_BYTES_MAX {
            let longest = NAME_BYTES_MAX - kind.prefix().len();
            let reason = format!("the name of a {}: expected 1 to {longest} bytes, not {}", kind.name(), address.len());
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        self.make_address(vhost, user, kind, &name)
    }

    fn make_address(
        &mut self,
        vhost: VhostId,
        user: &Arc<str>,
        kind: AddressKind,
        name: &str,
    ) -> Result<QueueId, AmqpError> {
        let settings = *self.options.addresses.of(kind);
        self.turn.spend(MAKE_STEPS);
        self.check_memory_for_definitions()?;
        if settings.durable {
            self.durability.check_room()?;
            let vhost = self.topology.vhosts().find(|(id, _)| *id == vhost).map_or("", |(_, name)| name);
            self.durability.check_retired(&DefinitionKey::queue(vhost, name), name)?;
        }
        let arguments = settings.arguments();
        let declared = QueueSettings {
            durable: settings.durable,
            exclusive: false,
            auto_delete: false,
            arguments: RawTable::new(&arguments),
            creator: Some(user),
        };
        let (id, is_new) = self.topology.declare_queue(vhost, name, &declared, NOBODY, true)?;
        debug_assert_eq!(is_new, Declared::Created);
        if let Err(reason) = self.permissions.add_queue(user) {
            self.topology.remove_queue(id);
            self.changed();
            return Err(error(ReplyCode::PreconditionFailed, &reason));
        }
        let mut queue = Queue::new(settings.policy(kind), self.unique.next_serial(), self.clock.now());
        queue.creator = Some(Arc::clone(user));
        self.queues.insert(id, queue);
        self.queues.set_timer(id);
        self.changed();
        Ok(id)
    }
}

//! The topology against its definition, and what it refuses.

mod conformance;
mod declaring;
mod definitions;
mod message_views;
mod oracle;
mod random;

use super::*;
use crate::amqp::{BasicProperties, PropertyFields, Table};

/// The connection of a test that does not care.
const ME: Owner = 1;

/// A topology with one vhost, spoken to in few words.
struct TestTopology {
    topology: Topology,
    vhost: VhostId,
    scratch: RouteScratch,
}

impl TestTopology {
    fn new() -> Self {
        let mut topology = Topology::new();
        let vhost = topology.add_vhost("/");
        Self { topology, vhost, scratch: RouteScratch::default() }
    }

    fn exchange(&mut self, name: &str, kind: ExchangeKind, arguments: &Table) {
        let bytes = arguments.to_bytes();
        let arguments = RawTable::new(&bytes);
        let settings = ExchangeSettings { kind, durable: true, auto_delete: false, internal: false, arguments };
        self.topology.declare_exchange(self.vhost, name, &settings).expect("an exchange");
    }

    fn queue(&mut self, name: &str) -> QueueId {
        self.topology.declare_queue(self.vhost, name, &plain(), ME, false).expect("a queue").0
    }

    fn bind(&mut self, source: &str, target: Target<'_>, key: &str, arguments: &Table) -> Result<bool, AmqpError> {
        let bytes = arguments.to_bytes();
        let bind = Bind { source, target, key, arguments: RawTable::new(&bytes) };
        self.topology.bind(self.vhost, &bind, ME, &mut |key| Err(format!("no query '{key}'")))
    }

    fn unbind(&mut self, source: &str, target: Target<'_>, key: &str, arguments: &Table) -> bool {
        let bytes = arguments.to_bytes();
        let bind = Bind { source, target, key, arguments: RawTable::new(&bytes) };
        self.topology.unbind(self.vhost, &bind, ME).expect("unbound")
    }

    /// The names of the queues that a message goes to, sorted.
    fn route(&mut self, exchange: &str, routing_key: &str, headers: &Table, body: &str) -> Vec<String> {
        let headers = headers.to_bytes();
        let headers = (!headers.is_empty()).then_some(RawTable::new(&headers));
        let fields = PropertyFields { headers, ..PropertyFields::default() };
        let mut bytes = Vec::new();
        fields.encode(&mut bytes);
        self.route_with(exchange, routing_key, BasicProperties::from_checked(&bytes), body.as_bytes())
    }

    fn route_with(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: BasicProperties<'_>,
        body: &[u8],
    ) -> Vec<String> {
        let message = Published { exchange, routing_key, further_keys: &[], properties, body };
        let mut queues = Vec::new();
        let count = self.topology.route(self.vhost, &message, &mut self.scratch, &mut queues).expect("routed");
        assert_eq!(count, queues.len());
        let name = |id: &QueueId| self.topology.queue_info(*id).expect("a queue").name.to_owned();
        let mut names: Vec<String> = queues.iter().map(name).collect();
        names.sort();
        names
    }
}

fn plain() -> QueueSettings<'static> {
    QueueSettings { durable: true, exclusive: false, auto_delete: false, arguments: RawTable::default(), creator: None }
}

fn none() -> Table {
    Table::new()
}

fn table<const N: usize>(fields: [(&str, crate::amqp::FieldValue); N]) -> Table {
    fields.into_iter().collect()
}

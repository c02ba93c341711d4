//! The lists of connections, queues, exchanges ... of which `tamis._core.Broker.rows` returns a page.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tamis_core::amqp::RawTable;
use tamis_core::broker::topology::{BindingInfo, ExchangeInfo, Target, Topology, VhostId};
use tamis_core::broker::{ConnectionId, ConnectionOverview, ConsumerOverview, QueueOverview};

use crate::amqp::table_to_py;

/// The items that `list` has for every vhost, each with the vhost's name.
pub(super) fn in_all_vhosts<'a, T: 'a, I: Iterator<Item = T> + 'a>(
    topology: &'a Topology,
    list: impl Fn(&'a Topology, VhostId) -> I + 'a,
) -> impl Iterator<Item = (&'a str, T)> + 'a {
    topology.vhosts().flat_map(move |(id, name)| list(topology, id).map(move |item| (name, item)))
}

/// One page of a list.
pub(super) struct ListPage<'py> {
    pub(super) py: Python<'py>,
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl<'py> ListPage<'py> {
    pub(super) fn of<T>(
        &self,
        items: impl Iterator<Item = T>,
        fill: impl Fn(&Bound<'py, PyDict>, T) -> PyResult<()>,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let rows = PyList::empty(self.py);
        let mut count = 0;
        for (index, item) in items.enumerate() {
            count = index + 1;
            if index >= self.offset && index - self.offset < self.limit {
                let row = PyDict::new(self.py);
                fill(&row, item)?;
                rows.append(row)?;
            }
        }
        Ok((rows, count))
    }
}

pub(super) fn arguments<'py>(py: Python<'py>, arguments: RawTable<'_>) -> PyResult<Bound<'py, PyDict>> {
    // Arguments were checked when they were declared. A table that cannot be read shows as an empty one.
    arguments.parse().map_or_else(|_| Ok(PyDict::new(py)), |table| table_to_py(py, &table))
}

pub(super) fn exchange_to_py(row: &Bound<'_, PyDict>, (vhost, exchange): (&str, ExchangeInfo<'_>)) -> PyResult<()> {
    row.set_item("vhost", vhost)?;
    row.set_item("name", exchange.name)?;
    row.set_item("type", exchange.settings.kind.name())?;
    row.set_item("durable", exchange.settings.durable)?;
    row.set_item("auto_delete", exchange.settings.auto_delete)?;
    row.set_item("internal", exchange.settings.internal)?;
    row.set_item("arguments", arguments(row.py(), exchange.settings.arguments)?)?;
    row.set_item("bindings_from", exchange.bindings_from)?;
    row.set_item("bindings_to", exchange.bindings_to)
}

pub(super) fn binding_to_py(row: &Bound<'_, PyDict>, (vhost, binding): (&str, BindingInfo<'_>)) -> PyResult<()> {
    let (kind, destination) = match binding.target {
        Target::Queue(name) => ("queue", name),
        Target::Exchange(name) => ("exchange", name),
    };
    row.set_item("vhost", vhost)?;
    row.set_item("source", binding.source)?;
    row.set_item("destination", destination)?;
    row.set_item("destination_type", kind)?;
    row.set_item("routing_key", binding.key)?;
    row.set_item("arguments", arguments(row.py(), binding.arguments)?)
}

pub(super) fn connection_to_py(row: &Bound<'_, PyDict>, connection: ConnectionOverview) -> PyResult<()> {
    row.set_item("id", connection.id.to_bits())?;
    row.set_item("user", connection.user)?;
    row.set_item("vhost", connection.vhost)?;
    row.set_item("peer", connection.peer)?;
    row.set_item("client_name", connection.client_name)?;
    row.set_item("identity", connection.identity)?;
    row.set_item("since_us", connection.since)?;
    row.set_item("state", connection.state)?;
    row.set_item("channels", connection.channels)?;
    row.set_item("unacknowledged", connection.unacknowledged)?;
    row.set_item("bytes_in", connection.bytes_in)?;
    row.set_item("bytes_out", connection.bytes_out)?;
    row.set_item("bytes_waiting", connection.bytes_waiting)
}

pub(super) fn queue_to_py(row: &Bound<'_, PyDict>, queue: QueueOverview) -> PyResult<()> {
    row.set_item("vhost", queue.vhost)?;
    row.set_item("name", queue.name)?;
    row.set_item("type", queue.kind.name())?;
    row.set_item("durable", queue.durable)?;
    row.set_item("auto_delete", queue.auto_delete)?;
    row.set_item("owner", queue.owner.map(ConnectionId::to_bits))?;
    row.set_item("arguments", arguments(row.py(), RawTable::new(&queue.arguments))?)?;
    row.set_item("log", queue.log.map(|log| log.to_string_lossy().into_owned()))?;
    row.set_item("ready", queue.ready)?;
    row.set_item("ready_bytes", queue.ready_bytes)?;
    row.set_item("unacknowledged", queue.unacknowledged)?;
    row.set_item("consumers", queue.consumers)?;
    row.set_item("published", queue.published)?;
    let readers = PyList::empty(row.py());
    for reader in queue.readers {
        let it = PyDict::new(row.py());
        it.set_item("name", reader.name)?;
        it.set_item("next", reader.next)?;
        it.set_item("lag", reader.lag)?;
        it.set_item("is_reading", reader.is_reading)?;
        readers.append(it)?;
    }
    row.set_item("named_readers", readers)
}

pub(super) fn consumer_to_py(row: &Bound<'_, PyDict>, consumer: ConsumerOverview) -> PyResult<()> {
    row.set_item("connection", consumer.connection.to_bits())?;
    row.set_item("channel", consumer.channel)?;
    row.set_item("tag", consumer.tag)?;
    row.set_item("vhost", consumer.vhost)?;
    row.set_item("queue", consumer.queue)?;
    row.set_item("no_ack", consumer.no_ack)?;
    row.set_item("exclusive", consumer.exclusive)?;
    row.set_item("prefetch_count", consumer.prefetch_count)?;
    row.set_item("live", consumer.progress.map(|progress| progress.is_live))?;
    row.set_item("lag", consumer.progress.map(|progress| progress.lag))?;
    row.set_item("fallbacks", consumer.progress.map(|progress| progress.fallbacks))?;
    row.set_item("credit", consumer.credit)?;
    row.set_item("unacknowledged", consumer.unacknowledged)
}

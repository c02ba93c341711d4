//! The lists of connections, queues, exchanges ... of which `tamis._core.Broker.rows` returns a page.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tamis_core::amqp::{FieldValue, RawTable, Table};
use tamis_core::broker::topology::{BindingInfo, ExchangeInfo, Target, VhostId};
use tamis_core::broker::{ConnectionId, ConnectionOverview, ConsumerOverview, QueueOverview};

use crate::amqp::table_to_py;

/// A page ends after the row with which its tables and lists take this many bytes: what a client declares may be large, and
/// no message is delivered while a page is made.
const PAGE_BYTES: usize = 256 * 1024;
/// The size of a named reader in a row.
const READER_BYTES: usize = 64;

/// One page of a list.
pub(super) struct ListPage<'py> {
    pub(super) py: Python<'py>,
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl<'py> ListPage<'py> {
    /// The rows of this page. `fill` fills the row of an item, and returns the bytes of its tables and lists.
    pub(super) fn of<T>(
        &self,
        items: impl Iterator<Item = T>,
        fill: impl Fn(&Bound<'py, PyDict>, T) -> PyResult<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(self.py);
        let mut size_bytes = 0;
        for item in items.skip(self.offset).take(self.limit) {
            let row = PyDict::new(self.py);
            size_bytes += fill(&row, item)?;
            rows.append(row)?;
            if size_bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(rows)
    }
}

/// Arguments as a dict that JSON can hold.
fn arguments<'py>(py: Python<'py>, arguments: RawTable<'_>) -> PyResult<Bound<'py, PyDict>> {
    // Arguments were checked when they were declared. A table that cannot be read shows as an empty one.
    arguments.parse().map_or_else(|_| Ok(PyDict::new(py)), |table| table_to_py(py, &finite_table(&table)))
}

/// A table with texts in place of the numbers that JSON lacks: "NaN", "inf" and "-inf".
fn finite_table(table: &Table) -> Table {
    let mut finite = Table::new();
    table.iter().for_each(|(name, value)| finite.push(name, finite_value(value)));
    finite
}

fn finite_value(value: &FieldValue) -> FieldValue {
    match value {
        FieldValue::F32(number) if !number.is_finite() => FieldValue::Text(number.to_string().into_bytes().into()),
        FieldValue::F64(number) if !number.is_finite() => FieldValue::Text(number.to_string().into_bytes().into()),
        FieldValue::Array(values) => FieldValue::Array(values.iter().map(finite_value).collect()),
        FieldValue::Table(table) => FieldValue::Table(finite_table(table)),
        other => other.clone(),
    }
}

pub(super) fn vhost_to_py(row: &Bound<'_, PyDict>, (_, name): (VhostId, &str)) -> PyResult<usize> {
    row.set_item("name", name)?;
    Ok(0)
}

pub(super) fn exchange_to_py(row: &Bound<'_, PyDict>, (vhost, exchange): (&str, ExchangeInfo<'_>)) -> PyResult<usize> {
    row.set_item("vhost", vhost)?;
    row.set_item("name", exchange.name)?;
    row.set_item("type", exchange.settings.kind.name())?;
    row.set_item("durable", exchange.settings.durable)?;
    row.set_item("auto_delete", exchange.settings.auto_delete)?;
    row.set_item("internal", exchange.settings.internal)?;
    row.set_item("arguments", arguments(row.py(), exchange.settings.arguments)?)?;
    row.set_item("bindings_from", exchange.bindings_from)?;
    row.set_item("bindings_to", exchange.bindings_to)?;
    Ok(exchange.settings.arguments.as_bytes().len())
}

pub(super) fn binding_to_py(row: &Bound<'_, PyDict>, (vhost, binding): (&str, BindingInfo<'_>)) -> PyResult<usize> {
    let (kind, destination) = match binding.target {
        Target::Queue(name) => ("queue", name),
        Target::Exchange(name) => ("exchange", name),
    };
    row.set_item("vhost", vhost)?;
    row.set_item("source", binding.source)?;
    row.set_item("destination", destination)?;
    row.set_item("destination_type", kind)?;
    row.set_item("routing_key", binding.key)?;
    row.set_item("arguments", arguments(row.py(), binding.arguments)?)?;
    Ok(binding.arguments.as_bytes().len())
}

pub(super) fn connection_to_py(row: &Bound<'_, PyDict>, connection: ConnectionOverview) -> PyResult<usize> {
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
    row.set_item("bytes_waiting", connection.bytes_waiting)?;
    Ok(0)
}

pub(super) fn queue_to_py(row: &Bound<'_, PyDict>, queue: QueueOverview) -> PyResult<usize> {
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
    let size_bytes = queue.arguments.len() + queue.readers.len() * READER_BYTES;
    let readers = PyList::empty(row.py());
    for reader in queue.readers {
        let it = PyDict::new(row.py());
        it.set_item("name", reader.name)?;
        it.set_item("next", reader.next)?;
        it.set_item("lag", reader.lag)?;
        it.set_item("is_reading", reader.is_reading)?;
        readers.append(it)?;
    }
    row.set_item("named_readers", readers)?;
    Ok(size_bytes)
}

pub(super) fn consumer_to_py(row: &Bound<'_, PyDict>, consumer: ConsumerOverview) -> PyResult<usize> {
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
    row.set_item("unacknowledged", consumer.unacknowledged)?;
    Ok(0)
}

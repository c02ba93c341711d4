//! The class `tamis._core.Broker`: the broker's data plane, which asks a Python object, the control plane.

mod control;
mod events;
mod hierarchies;
mod metrics;
mod overview;
mod settings;

use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tamis_core::broker::topology::StoredQuery;
use tamis_core::broker::{self, BrokerOptions, ConnectionId, Flow, Login, RecoveryReport};

use crate::errors::storage_error;

use control::PyControl;
pub use hierarchies::PyStoredHierarchies;
use overview::ListPage;

/// The number of bytes after which one call returns no further connection's output, and the time: less while a client waits.
/// The signatures of calls repeat the number.
const OUTPUT_BYTES_AT_ONCE: usize = 1024 * 1024;
const OUTPUT_TIME_AT_ONCE: Duration = Duration::from_millis(2);
const ATTENTIVE_OUTPUT_TIME: Duration = Duration::from_micros(250);

/// Return the limits of the broker that no setting changes, by name.
#[pyfunction]
pub(crate) fn broker_limits() -> HashMap<&'static str, u64> {
    broker::fixed_limits().into_iter().collect()
}

/// The number of bindings that changed, the keys whose query cannot be bound, each with the reason, and whether more bindings
/// have to follow.
type Replacement = (usize, Vec<(String, String)>, bool);

/// One connection's output: its number, the bytes to write, whether it stays open, and whether to go on reading it.
type ConnectionOutput<'py> = (u64, Bound<'py, PyBytes>, bool, bool);

/// The output of connections; whether there is more of it now; whether `work` has something to do now; the time at which
/// it will have, when that is earlier than was told before.
type BrokerOutput<'py> = (Vec<ConnectionOutput<'py>>, bool, bool, Option<u64>);

/// The data plane of the AMQP broker: bytes in, bytes out. A process has one, and uses it from one thread.
///
/// `now_us` is the time of a monotonic clock, `wall_us` microseconds since 1970. Nothing that a client sends raises.
///
/// It begins with the contents of the directory `data`; without one, nothing outlives the process.
///
/// Raises:
///     JournalError: the directory's contents cannot be read.
///     OSError: the directory cannot be used.
#[pyclass(name = "Broker", unsendable, module = "tamis._core")]
pub struct PyBroker {
    broker: broker::Broker,
    /// Connections whose output is still to be returned.
    dirty: Vec<ConnectionId>,
    /// Connections whose sockets take no bytes now.
    paused: HashSet<ConnectionId>,
    /// A socket that is readable when the journal's thread has written something.
    wake: Option<UnixStream>,
    recovered: RecoveryReport,
    longest_call: LongestCall,
}

/// The longest call since somebody asked: its time, and what it did.
#[derive(Default)]
struct LongestCall {
    us: u64,
    kind: &'static str,
    method: &'static str,
}

/// The microseconds since the first call.
fn stopwatch_us() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl PyBroker {
    fn new(mut broker: broker::Broker, wake: Option<UnixStream>, recovered: RecoveryReport) -> Self {
        broker.measure_turns(stopwatch_us);
        let (dirty, paused) = <(Vec<ConnectionId>, HashSet<ConnectionId>)>::default();
        Self { broker, dirty, paused, wake, recovered, longest_call: LongestCall::default() }
    }

    /// Note a call that began at `began`, if it is the longest.
    fn note_call(&mut self, kind: &'static str, began: Instant) {
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if us > self.longest_call.us {
            let method = if kind == "receive" || kind == "work" { self.broker.last_method() } else { "" };
            self.longest_call = LongestCall { us, kind, method };
        }
    }

    /// Return the output of one connection. A paused socket gets no bytes, but whether to read it is still returned, and
    /// whether the connection is over.
    fn connection_output<'py>(&mut self, py: Python<'py>, id: ConnectionId) -> ConnectionOutput<'py> {
        let takes_bytes = !self.paused.contains(&id) || self.broker.is_over(id);
        let (data, is_open) = if takes_bytes { self.hand_over(py, id) } else { (PyBytes::new(py, &[]), true) };
        (id.to_bits(), data, is_open, self.broker.wants_input(id))
    }

    /// Take the output of one connection. Returns whether it stays open, too.
    #[expect(unsafe_code, reason = "to fill bytes with zeros first costs a tenth of the time of a large message")]
    fn hand_over<'py>(&mut self, py: Python<'py>, id: ConnectionId) -> (Bound<'py, PyBytes>, bool) {
        let mut left = self.broker.output_len(id);
        // SAFETY: Python returns new bytes of this length, which nobody else has before they are full, or no memory.
        let (data, mut place) = unsafe {
            let data = ffi::PyBytes_FromStringAndSize(std::ptr::null(), left as ffi::Py_ssize_t);
            let data = Bound::from_owned_ptr_or_err(py, data).expect("memory").cast_into_unchecked::<PyBytes>();
            let place = ffi::PyBytes_AsString(data.as_ptr()).cast::<u8>();
            (data, place)
        };
        let flow = self.broker.hand_over(id, &mut |piece| {
            assert!(piece.len() <= left, "more than was announced");
            // SAFETY: there is room for `left` bytes at `place`, and `piece` is the broker's.
            place = unsafe {
                place.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
                place.add(piece.len())
            };
            left -= piece.len();
        });
        assert_eq!(left, 0, "less than was announced");
        (data, flow == Flow::Open)
    }
}

#[pymethods]
impl PyBroker {
    #[new]
    #[pyo3(signature = (control, *, frame_max, channel_max, message_bytes_max, memory_bytes_max, seed, now_us, wall_us, connection_bytes=0, streams_max=16_384, data=None, segment_bytes=67_108_864, syncs=true, confirms_received=false, queries=None, addresses=None))]
    #[expect(clippy::too_many_arguments, reason = "by name in Python")]
    fn open(
        py: Python<'_>,
        control: Py<PyAny>,
        frame_max: u32,
        channel_max: u16,
        message_bytes_max: usize,
        memory_bytes_max: u64,
        seed: u64,
        now_us: u64,
        wall_us: i64,
        connection_bytes: u64,
        streams_max: usize,
        data: Option<PathBuf>,
        segment_bytes: u32,
        syncs: bool,
        confirms_received: bool,
        queries: Option<HashMap<String, u64>>,
        addresses: Option<HashMap<String, HashMap<String, u64>>>,
    ) -> PyResult<Self> {
        let options = BrokerOptions {
            frame_max,
            channel_max,
            message_bytes_max,
            memory_bytes_max,
            connection_bytes,
            streams_max,
            seed,
            confirms_received,
            queries: settings::query_limits(&queries.unwrap_or_default())?,
            addresses: settings::addresses(&addresses.unwrap_or_default())?,
            ..BrokerOptions::default()
        };
        let control = Box::new(PyControl(control));
        let Some(dir) = data else {
            let broker = broker::Broker::new(options, control, now_us, wall_us);
            return Ok(Self::new(broker, None, RecoveryReport::default()));
        };
        let (storage, wake) = settings::storage(dir, segment_bytes, syncs)?;
        let (broker, recovered) = broker::Broker::open(options, control, storage, now_us, wall_us)
            .map_err(|error| storage_error(py, error))?;
        Ok(Self::new(broker, Some(wake), recovered))
    }

    /// Return the contents of the directory at the start: `definitions`, `messages`, `is_clean` and `damage`.
    fn recovered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (fields, recovered) = (PyDict::new(py), &self.recovered);
        fields.set_item("definitions", recovered.definitions)?;
        fields.set_item("messages", recovered.messages)?;
        fields.set_item("is_clean", recovered.is_clean)?;
        let damage = recovered.damage.iter().map(|damage| damage.to_string()).chain(recovered.skipped.clone());
        fields.set_item("damage", damage.collect::<Vec<_>>())?;
        Ok(fields)
    }

    /// Return a descriptor that is readable when `committed` has something to do; its bytes have no meaning.
    fn wake_fd(&self) -> Option<i32> {
        self.wake.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Confirm everything that the journal has written to disk.
    fn committed(&mut self, now_us: u64) {
        let began = Instant::now();
        self.broker.committed(now_us);
        self.note_call("committed", began);
    }

    /// Return the microseconds of the longest call since the last question, and its name: `receive queue.bind`.
    fn take_longest_call(&mut self) -> (u64, String) {
        let LongestCall { us, kind, method } = std::mem::take(&mut self.longest_call);
        (us, format!("{kind} {method}").trim_end().to_owned())
    }

    /// Continue deferred work (streams, freeing many messages) for some milliseconds, and expire what is due.
    #[pyo3(signature = (now_us, bytes_max=1_048_576))]
    fn work<'py>(&mut self, py: Python<'py>, now_us: u64, bytes_max: usize) -> BrokerOutput<'py> {
        let began = Instant::now();
        self.broker.work(now_us);
        self.note_call("work", began);
        self.take_output(py, bytes_max)
    }

    /// Return why the journal has failed; None if it has not. After a failure the process must end.
    fn fatal(&self) -> Option<&str> {
        self.broker.fatal()
    }

    /// Write and sync all records; return when they are on disk.
    fn commit(&self) {
        self.broker.commit_once();
    }

    /// Return the keys of the store that bindings name, each once.
    fn stored_keys(&self) -> Vec<String> {
        self.broker.stored_keys()
    }

    /// Replace all hierarchies. `hierarchies` has those before then: clear it in a thread.
    ///
    /// Cost: linear in the attributes and the exchanges.
    fn set_hierarchies(&mut self, hierarchies: &mut PyStoredHierarchies, now_us: u64) {
        let began = Instant::now();
        hierarchies.swap(|trees| self.broker.set_hierarchies(trees, now_us));
        self.note_call("set_hierarchies", began);
    }

    /// Replace the queries of bindings that name one of `queries` (key: language and text).
    ///
    /// Returns:
    ///     The number of bindings that have changed, the keys whose query cannot be bound, with the reason, and whether
    ///     more bindings have to follow: call it again, without these keys. Or None: the journal has no room now, and
    ///     nothing has changed.
    fn replace_stored(&mut self, queries: HashMap<String, (String, String)>, now_us: u64) -> Option<Replacement> {
        let stored = |(language, text): (String, String)| StoredQuery { language: language.into(), text: text.into() };
        let queries = queries.into_iter().map(|(key, query)| (key, stored(query))).collect();
        let began = Instant::now();
        let replaced = self.broker.replace_stored(&queries, now_us);
        self.note_call("replace_stored", began);
        let replaced = replaced.ok()?;
        let refused = replaced.refused.into_iter().map(|(key, error)| (key, error.text.clone())).collect();
        Some((replaced.bindings, refused, replaced.has_more))
    }

    /// Add a virtual host, unless it exists.
    fn add_vhost(&mut self, name: &str) {
        self.broker.add_vhost(name);
    }

    /// Take over a connection after its open-ok; return its number, which no other connection ever has.
    #[pyo3(signature = (*, user, vhost, frame_max, channel_max, heartbeat_s, peer, client_name, knows_blocked, knows_cancel, qos_is_for_channel, now_us, identity=""))]
    #[expect(clippy::too_many_arguments, reason = "by name in Python")]
    fn connect(
        &mut self,
        user: String,
        vhost: String,
        frame_max: u32,
        channel_max: u16,
        heartbeat_s: u16,
        peer: String,
        client_name: String,
        knows_blocked: bool,
        knows_cancel: bool,
        qos_is_for_channel: bool,
        now_us: u64,
        identity: &str,
    ) -> u64 {
        let login = Login {
            user,
            vhost,
            frame_max,
            channel_max,
            heartbeat_s,
            peer,
            client_name,
            knows_blocked,
            knows_cancel,
            qos_is_for_channel,
            identity: identity.to_owned(),
        };
        self.broker.connect(login, now_us).to_bits()
    }

    /// Take one read of a socket. An error in it becomes a close in the connection's output.
    #[pyo3(signature = (connection, data, now_us, bytes_max=1_048_576))]
    fn receive<'py>(
        &mut self,
        py: Python<'py>,
        connection: u64,
        data: PyBuffer<u8>,
        now_us: u64,
        bytes_max: usize,
    ) -> PyResult<BrokerOutput<'py>> {
        if !data.is_c_contiguous() {
            return Err(PyValueError::new_err("data: expected bytes in one piece"));
        }
        // SAFETY: the buffer is contiguous and lives as long as `data`. Only the event loop's thread writes to it, when it
        // reads a socket, which it does not during this call.
        #[expect(unsafe_code, reason = "to copy each read costs a tenth of the time of a large message")]
        let input = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.item_count()) };
        let began = Instant::now();
        self.broker.receive(ConnectionId::from_bits(connection), input, now_us);
        self.note_call("receive", began);
        Ok(self.take_output(py, bytes_max))
    }

    /// Return the output of connections that have some now; of no further one once it has `bytes_max`.
    #[pyo3(signature = (bytes_max=1_048_576))]
    fn take_output<'py>(&mut self, py: Python<'py>, bytes_max: usize) -> BrokerOutput<'py> {
        let began = Instant::now();
        self.broker.take_dirty(&mut self.dirty);
        let mut connections = std::mem::take(&mut self.dirty).into_iter();
        let (mut outputs, mut left) = (Vec::new(), bytes_max.min(OUTPUT_BYTES_AT_ONCE));
        let time_at_once = if self.broker.is_attentive() { ATTENTIVE_OUTPUT_TIME } else { OUTPUT_TIME_AT_ONCE };
        while left > 0
            && began.elapsed() < time_at_once
            && let Some(id) = connections.next()
        {
            let output = self.connection_output(py, id);
            left = left.saturating_sub(output.1.as_bytes().len());
            outputs.push(output);
        }
        self.dirty = connections.collect();
        self.broker.take_dirty(&mut self.dirty);
        self.note_call("take_output", began);
        (outputs, !self.dirty.is_empty(), self.broker.has_work(), self.broker.take_alarm())
    }

    /// Return whether a client has published a little of late and waits for the answer: then turns are short.
    ///
    /// Cost: some nanoseconds.
    fn is_attentive(&self) -> bool {
        self.broker.is_attentive()
    }

    /// Return whether a connection is to be read in small pieces: it sends the rest of a large body, and a client
    /// waits for its answer.
    ///
    /// Cost: some nanoseconds.
    fn wants_pieces(&self, connection: u64) -> bool {
        self.broker.wants_pieces(ConnectionId::from_bits(connection))
    }

    /// Set whether the socket takes bytes. While it does not, nothing is delivered to the connection.
    fn set_writable(&mut self, connection: u64, is_writable: bool) {
        let id = ConnectionId::from_bits(connection);
        if is_writable {
            self.paused.remove(&id);
            self.dirty.push(id);
        } else {
            self.paused.insert(id);
        }
        self.broker.set_writable(id, is_writable);
    }

    /// Remove a connection whose socket is closed.
    fn disconnect(&mut self, connection: u64, now_us: u64) {
        let id = ConnectionId::from_bits(connection);
        self.paused.remove(&id);
        let began = Instant::now();
        self.broker.disconnect(id, now_us);
        self.note_call("disconnect", began);
    }

    /// Check heartbeats and old segments of streams. Call it about ten times a second.
    fn tick(&mut self, now_us: u64, wall_us: i64) {
        let began = Instant::now();
        self.broker.tick(now_us, wall_us);
        self.note_call("tick", began);
    }

    /// Close all connections with 320 and refuse new ones.
    fn stop(&mut self, reason: &str, now_us: u64) {
        self.broker.stop(reason, now_us);
    }

    /// Close one connection with 320.
    fn close(&mut self, connection: u64, reason: &str, now_us: u64) {
        self.broker.close(ConnectionId::from_bits(connection), reason, now_us);
    }

    /// Forget the offset of a named reader of a stream; return whether there was one.
    ///
    /// Raises:
    ///     ValueError: a consumer reads under that name.
    fn forget_reader(&mut self, vhost: &str, stream: &str, reader: &str) -> PyResult<bool> {
        self.broker.forget_reader(vhost, stream, reader).map_err(PyValueError::new_err)
    }

    /// Forget the cached permissions of `user`, or of all users.
    #[pyo3(signature = (user=None))]
    fn forget_permissions(&mut self, user: Option<&str>) {
        self.broker.forget_permissions(user);
    }

    /// Return the events since the last call, for the log: name and fields.
    fn take_events<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyDict>)>> {
        self.broker.take_events().into_iter().map(|event| events::event_to_py(py, event)).collect()
    }

    /// Tell how much memory the process has without what it had at first: what nothing counts, counts too.
    fn note_process_memory(&mut self, size_bytes: u64) {
        self.broker.note_process_memory(size_bytes);
    }

    /// Return the memory that the data plane counts by itself. It takes some nanoseconds.
    fn memory_counted_bytes(&self) -> u64 {
        self.broker.memory().counted()
    }

    /// Return counters and gauges of the whole broker.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let row = metrics::metrics_to_py(py, &self.broker.metrics())?;
        let memory = self.broker.memory();
        for (name, bytes) in memory.parts() {
            row.set_item(format!("memory_{name}_bytes"), bytes)?;
        }
        row.set_item("memory_counted_bytes", memory.total())?;
        row.set_item("memory_limit_bytes", self.broker.memory_bytes_max())?;
        if let Some(journal) = self.broker.journal_metrics() {
            metrics::journal_to_py(&row, &journal)?;
        }
        Ok(row)
    }

    /// Return a page of vhosts, connections, queues, consumers, exchanges or bindings, and the number of all.
    ///
    /// A page ends before `limit` where its rows are large.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        offset: usize,
        limit: usize,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let (broker, topology) = (&self.broker, self.broker.topology());
        let page = ListPage { py, offset, limit };
        let (exchanges, queues, bindings) = topology.counts();
        let (connections, _, consumers) = broker.client_counts();
        let (rows, count) = match kind {
            "vhosts" => (page.of(topology.vhosts(), overview::vhost_to_py)?, topology.vhosts().count()),
            "connections" => {
                (page.of(broker.connections(), |row, of| overview::connection_to_py(row, of()))?, connections)
            }
            "queues" => (page.of(broker.queues(), |row, of| overview::queue_to_py(row, of()))?, queues),
            "consumers" => (page.of(broker.consumers(), |row, of| overview::consumer_to_py(row, of()))?, consumers),
            "exchanges" => (page.of(topology.exchanges(), overview::exchange_to_py)?, exchanges),
            "bindings" => (page.of(topology.bindings(), overview::binding_to_py)?, bindings),
            _ => return Err(PyValueError::new_err(format!("no list '{kind}'"))),
        };
        Ok((rows, count))
    }
}

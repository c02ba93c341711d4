//! The class `tamis._core.Engine`: subscriptions by id, whose keys belong to the Python side.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tamis_core::error::EngineError;
use tamis_core::index::report::names;
use tamis_core::index::timing::Prepared;
use tamis_core::index::{self, EngineView, MatchedIds, Scratch, SubscriptionId};
use tamis_core::message::{Message, Properties};

use crate::arguments::{self, wrong_type};
use crate::arrow::{self, PyIdLists, UnreadRow};
use crate::convert::{self, PyBody};
use crate::errors::engine_error;
use crate::keys::{PyIds, PyKeyArray};
use crate::opaque::{interruptible, opaque_of};
use crate::query::PyQuery;
use crate::report;

thread_local! {
    static SCRATCH: RefCell<Option<Box<Scratch>>> = RefCell::default();
}

/// Subscriptions by id; `tamis.Engine` adds the keys.
#[pyclass(frozen, module = "tamis._core", name = "Engine")]
pub struct PyEngine(index::Engine);

type VerdictTuple<'py> = (String, Bound<'py, PyAny>, Option<bool>);

impl PyEngine {
    /// Converts the message, releases the GIL, and calls `work` with it. No lock is held.
    fn with_message<R: Send>(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
        body: Option<Bound<'_, PyAny>>,
        work: impl FnOnce(&index::Engine, &Message<'_>) -> Result<R, EngineError> + Send,
    ) -> PyResult<R> {
        let properties = convert::properties(properties)?;
        call_with(py, &properties, topic, body, None, |message| work(&self.0, message))
    }
}

/// Releases the GIL for `work`.
fn call<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R, EngineError> + Send) -> PyResult<R> {
    py.detach(|| interruptible(work))?.map_err(|error| engine_error(py, error))
}

/// Calls `work` with a message of `properties` and the other parts, without the GIL.
fn call_with<R: Send>(
    py: Python<'_>,
    properties: &Properties,
    topic: Option<&Bound<'_, PyAny>>,
    body: Option<Bound<'_, PyAny>>,
    signature: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Message<'_>) -> Result<R, EngineError> + Send,
) -> PyResult<R> {
    let topic = topic.map(|topic| arguments::text(topic, "topic")).transpose()?;
    let body = body.map(PyBody::new).transpose()?;
    let body = body.as_ref().map(PyBody::borrow).transpose()?;
    let signature = arguments::signature(signature)?;
    call(py, || {
        let mut message = Message::of_record(properties, topic, body);
        if let Some(signature) = signature {
            message = message.with_signature(signature);
        }
        work(&message)
    })
}

/// The subscriptions that `message` satisfies.
fn matched(view: &EngineView, message: &Message<'_>) -> Result<MatchedIds, EngineError> {
    let mut scratch = SCRATCH.take().unwrap_or_default(); // taken, not borrowed: a Python function may match, too
    let matched = view.matched_ids(message, &mut scratch)?;
    SCRATCH.set(Some(scratch));
    Ok(matched)
}

/// The keys of `ids`, or the ids where no keys are wanted, or one of them is not in `keys`.
fn answer<'py>(py: Python<'py>, ids: MatchedIds, keys: Option<&PyKeyArray>) -> PyResult<Bound<'py, PyAny>> {
    let keys = keys.map(|keys| keys.keys(py, &ids)).transpose()?.flatten();
    keys.map_or_else(|| PyIds(ids).into_bound_py_any(py), |keys| Ok(keys.into_any()))
}

#[pymethods]
impl PyEngine {
    #[new]
    fn new() -> Self {
        Self(index::Engine::new())
    }

    /// Open a snapshot; `opaque` contains the functions of the expensive predicates that it names.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        verify: &Bound<'_, PyAny>,
        opaque: HashMap<String, Py<PyAny>>,
    ) -> PyResult<Self> {
        let (path, verify) = (arguments::path(path, "path")?, arguments::flag(verify, "verify")?);
        let resolve = |name: &str, cost_ns: f64| {
            let function = opaque.get(name)?;
            Python::attach(|py| opaque_of(name, function.bind(py), cost_ns).ok())
        };
        let opened = py.detach(|| index::Engine::open(&path, verify, &resolve));
        opened.map(Self).map_err(|error| engine_error(py, error))
    }

    /// Return the id that the next subscription gets, unless another thread adds one first.
    fn next_id(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.next_id().0)
    }

    /// Add queries and replace those of existing ids, in one step; return the ids of `added`.
    fn change(
        &self,
        py: Python<'_>,
        added: Vec<PyRef<'_, PyQuery>>,
        replaced: Vec<(u64, PyRef<'_, PyQuery>)>,
    ) -> PyResult<Vec<u64>> {
        let added: Vec<_> = added.iter().map(|query| Arc::clone(&query.0)).collect();
        let replaced: Vec<_> = replaced.iter().map(|(id, query)| (*id, Arc::clone(&query.0))).collect();
        let replaced: Vec<_> = replaced.into_iter().map(|(id, query)| (SubscriptionId(id), query)).collect();
        call(py, || Ok(self.0.change(added, &replaced)?.into_iter().map(|id| id.0).collect()))
    }

    fn remove(&self, py: Python<'_>, subscription_id: u64) -> PyResult<bool> {
        call(py, || self.0.remove(SubscriptionId(subscription_id)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.len())
    }

    fn ids(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        call(py, || Ok(self.0.ids()?.into_iter().map(|id| id.0).collect()))
    }

    fn query(&self, py: Python<'_>, subscription_id: u64) -> PyResult<PyQuery> {
        let found = call(py, || self.0.query(SubscriptionId(subscription_id)))?;
        found.map(PyQuery).ok_or_else(|| PyKeyError::new_err(subscription_id))
    }

    /// The encoded keys of ids, in the order given; None where the snapshot has no such id.
    fn key_bytes<'py>(
        &self,
        py: Python<'py>,
        subscription_ids: Vec<u64>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let found = call(py, || {
            subscription_ids.into_iter().map(|id| self.0.key_bytes(SubscriptionId(id))).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(found.into_iter().map(|key| key.map(|key| PyBytes::new(py, &key))).collect())
    }

    /// The subscriptions that a message satisfies: their keys in ``keys``, or their ids.
    fn r#match<'py>(
        &self,
        py: Python<'py>,
        properties: Option<&Bound<'py, PyAny>>,
        topic: Option<&Bound<'py, PyAny>>,
        body: Option<Bound<'py, PyAny>>,
        signature: Option<&Bound<'py, PyAny>>,
        keys: Option<&PyKeyArray>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = self.0.view();
        let properties = convert::asked_properties(properties, &|name| view.may_ask(name))?;
        let ids = call_with(py, &properties, topic, body, signature, |message| matched(&view, message))?;
        answer(py, ids, keys)
    }

    /// The subscriptions that a record in JSON, bytes or text of one object, satisfies: as ``match``.
    fn match_json<'py>(
        &self,
        py: Python<'py>,
        data: Bound<'py, PyAny>,
        keys: Option<&PyKeyArray>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let refused = arguments::wrong_type("data", "the text or bytes of a JSON object", &data);
        let data = PyBody::new(data).map_err(|_| refused)?;
        let bytes = data.bytes()?;
        let ids = call(py, || {
            let view = self.0.view();
            let properties = view.read_record(bytes)?;
            matched(&view, &Message::of_record(&properties, None, None))
        })?;
        answer(py, ids, keys)
    }

    /// The ids for each row, and the rows that cannot be read: (number, column, reason).
    fn match_batch(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        threads: &Bound<'_, PyAny>,
    ) -> PyResult<(PyIdLists, Vec<UnreadRow>)> {
        let threads = arguments::count(threads, "threads", 1)? as usize;
        let batches = arrow::batches(table)?;
        let matched =
            call(py, || batches.iter().map(|batch| self.0.match_rows(batch, threads)).collect::<Result<Vec<_>, _>>())?;
        Ok(arrow::join(matched))
    }

    /// Return those of `names` for which a query asks, and whether one asks for the topic, and for the body.
    fn asked(&self, py: Python<'_>, names: Vec<String>) -> PyResult<(Vec<String>, bool, bool)> {
        let asked = call(py, || self.0.asked())?;
        let names = names.into_iter().filter(|name| asked.has(name)).collect();
        Ok((names, asked.topic, asked.body))
    }

    /// The names of the expensive predicates, sorted.
    fn expensive(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let asked = call(py, || self.0.asked())?;
        Ok(asked.expensive.into_iter().map(String::from).collect())
    }

    fn hits(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
        body: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(u64, usize, usize)>> {
        self.with_message(py, properties, topic, body, |engine, message| {
            let hits = engine.hits(message)?;
            Ok(hits.into_iter().map(|hit| (hit.id.0, hit.hits, hit.criteria)).collect())
        })
    }

    #[pyo3(signature = (properties, topic, body, off_by, limit))]
    fn near_misses(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
        body: Option<Bound<'_, PyAny>>,
        off_by: &Bound<'_, PyAny>,
        limit: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<u64>> {
        let off_by = arguments::count(off_by, "off_by", 1)? as usize;
        let limit = arguments::count(limit, "limit", 1)? as usize;
        self.with_message(py, properties, topic, body, |engine, message| {
            Ok(engine.near_misses(message, off_by, limit)?.into_iter().map(|id| id.0).collect())
        })
    }

    fn explain<'py>(
        &self,
        py: Python<'py>,
        subscription_id: u64,
        properties: Option<&Bound<'py, PyAny>>,
        topic: Option<&Bound<'py, PyAny>>,
        body: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Option<bool>, Vec<VerdictTuple<'py>>, Vec<String>)> {
        let found = self.with_message(py, properties, topic, body, |engine, message| {
            let query = engine.query(SubscriptionId(subscription_id))?;
            Ok(query.map(|query| query.explain(message, Some(&engine.hierarchies()))))
        })?;
        let Some(explanation) = found else { return Err(PyKeyError::new_err(subscription_id)) };
        let verdict = |v: tamis_core::query::explain::PredicateResult| -> PyResult<VerdictTuple<'py>> {
            Ok((v.text, convert::to_python(py, &v.value)?, v.result))
        };
        let predicates = explanation.predicates.into_iter().map(verdict).collect::<PyResult<_>>()?;
        Ok((explanation.result, predicates, explanation.missing))
    }

    /// Return the fields of `tamis.Report`, with ids where it has keys.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = call(py, || self.0.report())?;
        report::to_python(py, found)
    }

    /// Return the names of the properties that queries ask for, sorted.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || {
            let subscriptions = self.0.subscriptions()?;
            Ok(names(&subscriptions).into_iter().map(str::to_owned).collect())
        })
    }

    /// Match each message, or record in JSON, `rounds` times in the core, after `warm_up` rounds.
    ///
    /// Returns:
    ///     For each message, the median wall time and the median CPU time of the thread in nanoseconds, and the number
    ///     of subscriptions that it satisfies.
    fn time_matches(
        &self,
        py: Python<'_>,
        messages: Vec<Bound<'_, PyAny>>,
        warm_up: &Bound<'_, PyAny>,
        rounds: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(u64, u64, usize)>> {
        let warm_up = arguments::count(warm_up, "warm_up", 0)? as usize;
        let rounds = arguments::count(rounds, "rounds", 0)? as usize;
        let messages = messages.iter().map(prepared).collect::<PyResult<Vec<_>>>()?;
        let times = call(py, || self.0.time_matches(&messages, warm_up, rounds))?;
        Ok(times.into_iter().map(|time| (time.wall_ns, time.cpu_ns, time.matched)).collect())
    }

    fn hierarchy(&self, py: Python<'_>, attribute: &Bound<'_, PyAny>, parents: &Bound<'_, PyAny>) -> PyResult<()> {
        let attribute = arguments::text(attribute, "attribute")?;
        let hierarchy = convert::hierarchy(parents, "parents")?;
        py.detach(|| self.0.set_hierarchy(attribute, hierarchy));
        Ok(())
    }

    /// Write a snapshot; `keys` are the encoded keys by id. Expensive predicates are written by name, if at all.
    fn save(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        keys: Vec<(u64, Vec<u8>)>,
        opaque_names: bool,
    ) -> PyResult<()> {
        let path = arguments::path(path, "path")?;
        let keys: HashMap<u64, Vec<u8>> = keys.into_iter().collect();
        let key_of = |id: SubscriptionId| keys.get(&id.0).cloned().unwrap_or_default();
        call(py, || self.0.save(&path, opaque_names, &key_of))
    }

    /// Return the memory of the queries and their index in the core, in bytes.
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn text_bytes(&self) -> usize {
        self.0.text_bytes()
    }
}

/// A message to measure: (properties, topic, body), or the bytes of a record in JSON.
fn prepared(message: &Bound<'_, PyAny>) -> PyResult<Prepared> {
    if let Ok(text) = message.cast::<PyBytes>() {
        return Ok(Prepared::Json(text.as_bytes().to_vec()));
    }
    let parts: (Bound<'_, PyAny>, String, Option<String>) =
        message.extract().map_err(|_| wrong_type("messages", "(properties, topic, body) or bytes", message))?;
    let (properties, topic, body) = parts;
    Ok(Prepared::Parts { topic, properties: convert::properties(Some(&properties))?, body })
}

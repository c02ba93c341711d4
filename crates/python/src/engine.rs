//! `tamis._core.Engine`: subscriptions by id. Keys are the Python side's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tamis_core::error::EngineError;
use tamis_core::index::{self, Scratch, SubscriptionId};
use tamis_core::message::Message;

use crate::arrow::{self, IdLists};
use crate::convert::{self, PyBody};
use crate::errors::engine_error;
use crate::opaque::interruptible;
use crate::query::Query;
use crate::text::Signature;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// The matching engine behind `tamis.Engine`.
#[pyclass(frozen, module = "tamis._core")]
pub struct Engine(RwLock<index::Engine>);

type Verdict<'py> = (String, Bound<'py, PyAny>, Option<bool>);

impl Engine {
    // A panic while the lock was held has become a Python exception; what it left is still a whole engine.
    fn read(&self) -> RwLockReadGuard<'_, index::Engine> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, index::Engine> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Convert the message, let go of the GIL, and call `work` with the engine locked for reading.
    fn with_message<R: Send>(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: &str,
        body: Option<Bound<'_, PyAny>>,
        signature: Option<&Signature>,
        work: impl FnOnce(&index::Engine, &Message<'_>) -> Result<R, EngineError> + Send,
    ) -> PyResult<R> {
        let properties = convert::properties(properties)?;
        let body = PyBody::new(body)?;
        let body = body.borrow()?;
        let signature = signature.map(|signature| &signature.0);
        self.call(py, || {
            let mut message = Message::new(topic, &properties, body);
            if let Some(signature) = signature {
                message = message.with_signature(signature);
            }
            work(&self.read(), &message)
        })
    }

    /// Let go of the GIL for `work`. Never take the lock with the GIL held: its holder may be waiting for it.
    fn call<R: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<R, EngineError> + Send) -> PyResult<R> {
        py.detach(|| interruptible(work))?.map_err(|error| engine_error(py, error))
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new() -> Self {
        Self(RwLock::new(index::Engine::new()))
    }

    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, verify: bool) -> PyResult<Self> {
        let opened = py.detach(|| index::Engine::open(&path, verify)).map_err(|error| engine_error(py, error))?;
        Ok(Self(RwLock::new(opened)))
    }

    /// Add `added` and replace the queries of the ids in `replaced`, in one step; the ids given to `added`.
    fn change(
        &self,
        py: Python<'_>,
        added: Vec<PyRef<'_, Query>>,
        replaced: Vec<(u64, PyRef<'_, Query>)>,
    ) -> PyResult<Vec<u64>> {
        let added: Vec<_> = added.iter().map(|query| Arc::clone(&query.0)).collect();
        let replaced: Vec<_> = replaced.iter().map(|(id, query)| (*id, Arc::clone(&query.0))).collect();
        self.call(py, || {
            let mut engine = self.write();
            for (id, query) in replaced {
                engine.replace(SubscriptionId(id), query)?;
            }
            Ok(added.into_iter().map(|query| engine.add(query).0).collect())
        })
    }

    fn remove(&self, py: Python<'_>, subscription_id: u64) -> PyResult<bool> {
        self.call(py, || self.write().remove(SubscriptionId(subscription_id)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.read().len())
    }

    fn ids(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.call(py, || Ok(self.read().ids()?.into_iter().map(|id| id.0).collect()))
    }

    fn key_bytes<'py>(&self, py: Python<'py>, subscription_id: u64) -> PyResult<Bound<'py, PyBytes>> {
        let found =
            self.call(py, || Ok(self.read().key_bytes(SubscriptionId(subscription_id))?.map(<[u8]>::to_vec)))?;
        found.map(|key| PyBytes::new(py, &key)).ok_or_else(|| PyKeyError::new_err(subscription_id))
    }

    fn r#match(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: &str,
        body: Option<Bound<'_, PyAny>>,
        signature: Option<&Signature>,
    ) -> PyResult<Vec<u64>> {
        self.with_message(py, properties, topic, body, signature, |engine, message| {
            let mut matched = Vec::new();
            SCRATCH.with_borrow_mut(|scratch| engine.match_into(message, scratch, &mut matched))?;
            Ok(matched.into_iter().map(|id| id.0).collect())
        })
    }

    fn match_batch(&self, py: Python<'_>, table: &Bound<'_, PyAny>, threads: usize) -> PyResult<IdLists> {
        if threads == 0 {
            return Err(PyValueError::new_err("threads: expected at least 1"));
        }
        let batches = arrow::batches(table)?;
        let matched = self.call(py, || {
            let engine = self.read();
            batches.iter().map(|batch| engine.match_batch(batch, threads)).collect::<Result<Vec<_>, _>>()
        });
        matched.map(arrow::join)
    }

    fn hits(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: &str,
        body: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(u64, usize, usize)>> {
        self.with_message(py, properties, topic, body, None, |engine, message| {
            let hits = engine.hits(message)?;
            Ok(hits.into_iter().map(|hit| (hit.id.0, hit.hits, hit.criteria)).collect())
        })
    }

    #[pyo3(signature = (properties, topic, body, off_by, limit))]
    fn near_misses(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: &str,
        body: Option<Bound<'_, PyAny>>,
        off_by: usize,
        limit: usize,
    ) -> PyResult<Vec<u64>> {
        self.with_message(py, properties, topic, body, None, |engine, message| {
            Ok(engine.near_misses(message, off_by, limit)?.into_iter().map(|id| id.0).collect())
        })
    }

    fn explain<'py>(
        &self,
        py: Python<'py>,
        subscription_id: u64,
        properties: Option<&Bound<'py, PyAny>>,
        topic: &str,
        body: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Option<bool>, Vec<Verdict<'py>>, Vec<String>)> {
        let found = self.with_message(py, properties, topic, body, None, |engine, message| {
            let query = engine.query(SubscriptionId(subscription_id))?;
            Ok(query.map(|query| query.explain(message, Some(engine.hierarchies()))))
        })?;
        let Some(explanation) = found else { return Err(PyKeyError::new_err(subscription_id)) };
        let verdict = |v: tamis_core::query::explain::Verdict| -> PyResult<Verdict<'py>> {
            Ok((v.text, convert::to_python(py, &v.value)?, v.result))
        };
        let predicates = explanation.predicates.into_iter().map(verdict).collect::<PyResult<_>>()?;
        Ok((explanation.result, predicates, explanation.missing))
    }

    fn hierarchy(&self, py: Python<'_>, attribute: &str, parents: &Bound<'_, PyAny>) -> PyResult<()> {
        let hierarchy = convert::hierarchy(parents)?;
        py.detach(|| self.write().set_hierarchy(attribute, hierarchy));
        Ok(())
    }

    /// Write a snapshot; `keys` are the encoded keys by id.
    fn save(&self, py: Python<'_>, path: PathBuf, keys: Vec<(u64, Vec<u8>)>) -> PyResult<()> {
        let keys: HashMap<u64, Vec<u8>> = keys.into_iter().collect();
        let key_of = |id: SubscriptionId| keys.get(&id.0).cloned().unwrap_or_default();
        self.call(py, || self.read().save(&path, &key_of))
    }
}

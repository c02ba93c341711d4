//! The class `tamis._core.KeyArray`: the key of each subscription by its id, and `Ids`, what a match found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::PyTraverseError;
use pyo3::exceptions::PyKeyError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tamis_core::index::MatchedIds;

use crate::bitmap::PyBitmap;

/// The number of ids in a block. Ids are never used again: a block whose keys are all gone is freed.
const BLOCK: usize = 256;

type Block = Option<Box<[Option<Py<PyAny>>; BLOCK]>>;

/// The keys of subscriptions by id.
#[pyclass(frozen, module = "tamis._core", name = "KeyArray")]
#[derive(Default)]
pub struct PyKeyArray(Mutex<Vec<Block>>);

impl PyKeyArray {
    fn lock(&self) -> MutexGuard<'_, Vec<Block>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of `ids`, in the order of the ids; None when one of them has no key.
    pub fn keys<'py>(&self, py: Python<'py>, ids: &MatchedIds) -> PyResult<Option<Bound<'py, PyList>>> {
        self.list(py, ids.to_vec().into_iter().map(|id| id.0))
    }

    fn list<'py>(&self, py: Python<'py>, ids: impl Iterator<Item = u64>) -> PyResult<Option<Bound<'py, PyList>>> {
        let keys: Option<Vec<_>> = {
            let blocks = self.lock();
            ids.map(|id| key_in(&blocks, id).map(|key| key.clone_ref(py))).collect()
        };
        keys.map(|keys| PyList::new(py, keys)).transpose()
    }
}

/// The key of `id`, if it has one.
fn key_in(blocks: &[Block], id: u64) -> Option<&Py<PyAny>> {
    let (block, position) = position_of(id)?;
    blocks.get(block)?.as_ref()?[position].as_ref()
}

fn position_of(id: u64) -> Option<(usize, usize)> {
    let id = usize::try_from(id).ok()?;
    Some((id / BLOCK, id % BLOCK))
}

#[pymethods]
impl PyKeyArray {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Set the keys of `ids`, which are as many as `keys`.
    fn update(&self, ids: Vec<u64>, keys: Vec<Py<PyAny>>) {
        let mut replaced = Vec::new(); // dropped after the lock: dropping a key may run Python
        let mut blocks = self.lock();
        for (id, key) in ids.into_iter().zip(keys) {
            let Some((block, position)) = position_of(id) else { continue };
            if blocks.len() <= block {
                blocks.resize_with(block + 1, || None);
            }
            let block = blocks[block].get_or_insert_with(|| Box::new([const { None }; BLOCK]));
            replaced.extend(block[position].replace(key));
        }
        drop(blocks);
    }

    /// Return the keys of ids, in the order given; None when one of them has no key.
    fn all_of<'py>(&self, py: Python<'py>, ids: Vec<u64>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.list(py, ids.into_iter())
    }

    /// Return the ids that have no key, in the order given.
    fn missing(&self, ids: Vec<u64>) -> Vec<u64> {
        let blocks = self.lock();
        ids.into_iter().filter(|id| key_in(&blocks, *id).is_none()).collect()
    }

    /// Return the key of an id; a KeyError when it has none.
    fn __getitem__(&self, py: Python<'_>, subscription_id: u64) -> PyResult<Py<PyAny>> {
        let key = key_in(&self.lock(), subscription_id).map(|key| key.clone_ref(py));
        key.ok_or_else(|| PyKeyError::new_err(subscription_id))
    }

    /// Forget the key of an id.
    fn __delitem__(&self, subscription_id: u64) -> PyResult<()> {
        let removed = position_of(subscription_id).and_then(|(block, position)| {
            let mut blocks = self.lock();
            let entry = blocks.get_mut(block)?;
            let removed = entry.as_mut()?[position].take();
            if entry.as_ref().is_some_and(|block| block.iter().all(Option::is_none)) {
                *entry = None;
            }
            removed
        });
        removed.map(drop).ok_or_else(|| PyKeyError::new_err(subscription_id))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While the lock is held, the keys are in use and no garbage.
        let Ok(blocks) = self.0.try_lock() else { return Ok(()) };
        blocks.iter().flatten().flat_map(|block| block.iter().flatten()).try_for_each(|key| visit.call(key))
    }

    fn __clear__(&self) {
        let blocks = std::mem::take(&mut *self.lock());
        drop(blocks);
    }
}

/// The ids of the subscriptions that a message satisfies, ascending.
#[pyclass(frozen, module = "tamis._core", name = "Ids")]
pub struct PyIds(pub MatchedIds);

#[pymethods]
impl PyIds {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn to_list(&self) -> Vec<u64> {
        self.0.to_vec().iter().map(|id| id.0).collect()
    }

    /// The ids as the bits of a bitmap of `size` bits, which is above all of them.
    fn to_bitmap(&self, size: u64) -> PyBitmap {
        PyBitmap::of(self.0.to_bitmap(size))
    }
}

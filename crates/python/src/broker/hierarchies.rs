//! The class `tamis._core.StoredHierarchies`: trees on their way from the store to the broker, and back to be freed.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use tamis_core::hierarchy::{Hierarchies, Hierarchy};

use crate::errors::engine_error;

/// The hierarchies of all attributes, as a store has them.
///
/// Reading and clearing them releases the interpreter: do both in a thread. Cost: linear in the texts.
///
/// Args:
///     trees: by attribute, the JSON text of an object: value to parent, or to null for a root.
///
/// Raises:
///     ValueError: a text is no such object, or has a cycle or a parent that is not declared.
#[pyclass(module = "tamis._core", name = "StoredHierarchies")]
pub struct PyStoredHierarchies(Arc<Hierarchies>);

impl PyStoredHierarchies {
    /// Take the trees, and leave those that `replace` returns.
    pub(super) fn swap(&mut self, replace: impl FnOnce(Hierarchies) -> Arc<Hierarchies>) {
        let trees = Arc::unwrap_or_clone(std::mem::take(&mut self.0));
        self.0 = replace(trees);
    }
}

#[pymethods]
impl PyStoredHierarchies {
    #[new]
    fn new(py: Python<'_>, trees: HashMap<String, PyBackedStr>) -> PyResult<Self> {
        let read = py.detach(|| {
            let tree = |(name, text): (String, PyBackedStr)| Hierarchy::from_json(&text).map(|tree| (name, tree));
            trees.into_iter().map(tree).collect::<Result<Hierarchies, _>>()
        });
        read.map(|trees| Self(Arc::new(trees))).map_err(|error| engine_error(py, error))
    }

    /// Return the attributes, sorted.
    fn attributes(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Free the memory of the trees.
    fn clear(&mut self, py: Python<'_>) {
        let trees = std::mem::take(&mut self.0);
        py.detach(|| drop(trees));
    }
}

//! The words and signatures of `tamis.words`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tamis_core::text::{self, StopWords};

/// The words of `text` in order, normalised.
#[pyfunction]
pub fn words(text: &str) -> Vec<String> {
    text::words(text).map(|(_, word)| word.into()).collect()
}

/// Term -> positions of one text, without the stop words of its source.
#[pyclass(frozen, module = "tamis.words", name = "Signature")]
pub struct PySignature(pub text::Signature);

#[pymethods]
impl PySignature {
    #[new]
    #[pyo3(signature = (text, stop_words=None))]
    fn new(text: &str, stop_words: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let mut stop = StopWords::new();
        if let Some(words) = stop_words {
            if words.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err(
                    "stop_words: expected words, not one text; see tamis.words.stop_words",
                ));
            }
            for word in words.try_iter()? {
                stop.insert(text::normalise(&word?.extract::<String>()?));
            }
        }
        let plain = stop.is_empty();
        Ok(Self(if plain { text::Signature::of(text) } else { text::Signature::without(text, Arc::new(stop)) }))
    }

    fn positions(&self, term: &str) -> Vec<u32> {
        self.0.positions(&text::normalise(term)).to_vec()
    }

    fn terms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (term, positions) in self.0.terms() {
            dict.set_item(term, positions)?;
        }
        Ok(dict)
    }

    #[getter]
    fn word_count(&self) -> u32 {
        self.0.word_count()
    }

    fn __len__(&self) -> usize {
        self.0.terms().len()
    }

    fn __contains__(&self, term: &str) -> bool {
        !self.0.positions(&text::normalise(term)).is_empty()
    }
}

//! The words and signatures of `tamis.words`.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tamis_core::text::{self, StopWords};

use crate::arguments::{self, wrong_type};

/// Return the words of `text` in order, as queries compare them.
///
/// Args:
///     text: any text.
///
/// Returns:
///     The UAX #29 segments with a letter or a digit, in NFKC, with simple case folding; no stemming, nothing left out.
///
/// Raises:
///     TypeError: `text` is no text.
///
/// Cost: linear in `text`.
#[pyfunction]
pub fn words(text: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let text = arguments::text(text, "text")?;
    Ok(text::words(text).map(|(_, word)| word.into()).collect())
}

/// The positions of each term in a text, without the stop words of its source.
///
/// `match` and `evaluate` take it beside the body that it was made of, and need not find the words again. No result of
/// a query depends on it. ``len`` is the number of terms, and ``in`` asks for one.
///
/// Args:
///     text: the body.
///     stop_words: words that are left out, normalised or not; None leaves nothing out.
///
/// Raises:
///     TypeError: `text` is no text, or `stop_words` are no words.
///
/// Cost: linear in `text`.
///
/// Source: the PNNL paper, section 3.2.
#[pyclass(frozen, module = "tamis.words", name = "Signature")]
pub struct PySignature(pub text::Signature);

#[pymethods]
impl PySignature {
    #[new]
    #[pyo3(signature = (text, stop_words=None))]
    fn new(text: &Bound<'_, PyAny>, stop_words: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let text = arguments::text(text, "text")?;
        let mut stop = StopWords::new();
        if let Some(words) = stop_words {
            if words.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err(
                    "stop_words: expected words, not one text; see tamis.words.stop_words",
                ));
            }
            for word in words.try_iter().map_err(|_| wrong_type("stop_words", "words", words))? {
                stop.insert(text::normalise(arguments::text(&word?, "stop_words: a word")?));
            }
        }
        let plain = stop.is_empty();
        Ok(Self(if plain { text::Signature::of(text) } else { text::Signature::without(text, Arc::new(stop)) }))
    }

    /// Return the positions of `term`, in words from 0, ascending; empty if it is absent or a stop word.
    fn positions(&self, term: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let term = arguments::text(term, "term")?;
        Ok(self.0.positions(&text::normalise(term)).to_vec())
    }

    /// Return every term with its positions.
    fn terms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (term, positions) in self.0.terms() {
            dict.set_item(term, positions)?;
        }
        Ok(dict)
    }

    /// The number of words in the text, including stop words.
    #[getter]
    fn word_count(&self) -> u32 {
        self.0.word_count()
    }

    fn __len__(&self) -> usize {
        self.0.terms().len()
    }

    fn __contains__(&self, term: &Bound<'_, PyAny>) -> PyResult<bool> {
        let term = arguments::text(term, "term")?;
        Ok(!self.0.positions(&text::normalise(term)).is_empty())
    }
}

//! Converts errors of the core into Python exceptions.

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use tamis_core::amqp::AmqpError;
use tamis_core::broker::StorageError;
use tamis_core::error::{EngineError, QueryError};
use tamis_core::journal::{FileError, OpenError, ReadError};
use tamis_core::query::QueryWarning;

/// An exception of a class in `tamis.errors` with `arguments`; the import error when the class cannot be imported.
fn raise<'py, A>(py: Python<'py>, class: &str, arguments: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let instance = py
        .import("tamis.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| Ok(class.cast_into::<PyType>()?))
        .and_then(|class| class.call1(arguments));
    match instance {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A `tamis.QueryError` with the position.
pub fn query_error(py: Python<'_>, error: QueryError) -> PyErr {
    raise(py, "QueryError", (error.text, error.position, error.expected, error.hint))
}

/// A `tamis.QueryWarning`.
pub fn query_warning<'py>(py: Python<'py>, warning: &QueryWarning) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("tamis.errors")?.getattr("QueryWarning")?;
    class.call1((&*warning.text, warning.position, &warning.message, &warning.hint))
}

/// Show an error of a query: with a caret under its position, or on one line.
#[pyfunction]
pub fn show_query_error(text: String, position: usize, expected: String, hint: Option<String>) -> (String, String) {
    let error = QueryError { text, position, expected, hint };
    (error.to_string(), error.summary())
}

/// Show a warning about a query.
#[pyfunction]
pub fn show_query_warning(text: &str, position: usize, message: String, hint: Option<String>) -> String {
    QueryWarning { text: text.into(), position, message, hint }.to_string()
}

/// An OSError with the system's number and the file, where they are known; Python makes a FileNotFoundError of it where it
/// is one.
fn os_error(error: std::io::Error) -> PyErr {
    let (source, path) = match FileError::of(&error) {
        Some(named) => (&named.source, Some(named.path.clone())),
        None => (&error, None),
    };
    match source.raw_os_error() {
        Some(code) => PyOSError::new_err((code, reason(source), path)),
        None => error.into(),
    }
}

/// The system's words for an error, without the number that Rust adds.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// A `tamis.errors.JournalError`, or OSError, for a log that cannot be opened.
pub fn journal_error(py: Python<'_>, error: OpenError) -> PyErr {
    match error {
        OpenError::Io(error) => os_error(error),
        OpenError::Version(reason) | OpenError::NoLog(reason) | OpenError::Incomplete(reason) => {
            raise(py, "JournalError", (reason,))
        }
    }
}

/// A `tamis.errors.JournalError`, or OSError, for what a broker stores.
pub fn storage_error(py: Python<'_>, error: StorageError) -> PyErr {
    match error {
        StorageError::Journal(error) | StorageError::Stream(_, error @ OpenError::Io(_)) => journal_error(py, error),
        StorageError::Definition(_) | StorageError::Spill(_) | StorageError::Stream(..) => {
            raise(py, "JournalError", (error.to_string(),))
        }
    }
}

/// A `tamis.errors.JournalError`, or OSError, for a log that cannot be read any more.
pub fn journal_read_error(py: Python<'_>, error: ReadError) -> PyErr {
    match error {
        ReadError::Io(error) => os_error(error),
        other => raise(py, "JournalError", (other.to_string(),)),
    }
}

/// A `tamis.SnapshotError`, OSError, TypeError or ValueError, depending on who is at fault.
pub fn engine_error(py: Python<'_>, error: EngineError) -> PyErr {
    match error {
        EngineError::Snapshot(reason) => raise(py, "SnapshotError", (reason,)),
        EngineError::Io(error) => os_error(error),
        EngineError::Batch(reason) | EngineError::Opaque(reason) => PyTypeError::new_err(reason),
        EngineError::Row(reason) | EngineError::Hierarchy(reason) => PyValueError::new_err(reason),
    }
}

/// A `tamis.errors.AmqpError` with the reply for the peer.
pub fn amqp_error(py: Python<'_>, error: AmqpError) -> PyErr {
    let (class_id, method_id) = (error.method.class_id, error.method.method_id);
    raise(py, "AmqpError", (error.code.number(), &error.text, class_id, method_id))
}

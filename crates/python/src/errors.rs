//! Where errors of the core become Python exceptions: the one boundary.

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use tamis_core::amqp::AmqpError;
use tamis_core::error::{EngineError, QueryError};

/// An exception class of `tamis.errors` with `arguments`; the import error where that cannot be had.
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

/// `tamis.QueryError` with the place.
pub fn query_error(py: Python<'_>, error: QueryError) -> PyErr {
    raise(py, "QueryError", (error.text, error.position, error.expected, error.hint))
}

/// A `tamis.SnapshotError`, OSError, TypeError or ValueError, by who is at fault.
pub fn engine_error(py: Python<'_>, error: EngineError) -> PyErr {
    match error {
        EngineError::Snapshot(reason) => raise(py, "SnapshotError", (reason,)),
        EngineError::Io(error) => match error.raw_os_error() {
            Some(code) => PyOSError::new_err((code, error.to_string())),
            None => error.into(),
        },
        EngineError::Batch(reason) | EngineError::Opaque(reason) => PyTypeError::new_err(reason),
        EngineError::Row(reason) | EngineError::Hierarchy(reason) => PyValueError::new_err(reason),
    }
}

/// `tamis.errors.AmqpError`: what the peer is to be told.
pub fn amqp_error(py: Python<'_>, error: AmqpError) -> PyErr {
    let (class_id, method_id) = (error.method.class_id, error.method.method_id);
    raise(py, "AmqpError", (error.code.number(), error.text, class_id, method_id))
}

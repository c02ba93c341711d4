//! The function `tamis.opaque`: Python functions as expensive predicates.

use std::cell::RefCell;
use std::fmt;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use tamis_core::expensive::{ExpensivePredicate, Failure, Opaque};
use tamis_core::message::Message;
use tamis_core::query::expr::Predicate;
use tamis_core::query::truth::Truth;

use crate::arguments;
use crate::convert;
use crate::query::PyQuery;

/// A Python function that is called with messages.
struct PyPredicate {
    name: String,
    function: Py<PyAny>,
    cost_ns: f64,
}

/// An expensive predicate that calls `function`, for a new query or for one that is read from a snapshot.
///
/// # Errors
/// TypeError: not callable. ValueError: no name, or a cost that is negative or not finite.
pub fn opaque_of(name: &str, function: &Bound<'_, PyAny>, cost_ns: f64) -> PyResult<Opaque> {
    if !function.is_callable() {
        let found = function.get_type().name()?.to_string();
        return Err(PyTypeError::new_err(format!("opaque '{name}': expected a function, not {found}")));
    }
    if name.is_empty() {
        return Err(PyValueError::new_err("opaque: expected a name"));
    }
    if !cost_ns.is_finite() || cost_ns < 0.0 {
        return Err(PyValueError::new_err(format!("opaque '{name}': expected a cost of 0 or more, and finite")));
    }
    Ok(Opaque::new(PyPredicate { name: name.to_owned(), function: function.clone().unbind(), cost_ns }))
}

/// A query of one expensive predicate.
#[pyfunction]
pub fn opaque(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    function: &Bound<'_, PyAny>,
    cost_us: &Bound<'_, PyAny>,
) -> PyResult<PyQuery> {
    let (name, cost_us) = (arguments::text(name, "name")?, arguments::number(cost_us, "cost_us")?);
    PyQuery::from_predicate(py, Predicate::Opaque(opaque_of(name, function, cost_us * 1e3)?))
}

impl fmt::Debug for PyPredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name)
    }
}

impl ExpensivePredicate for PyPredicate {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    fn test(&self, message: &Message<'_>) -> Result<Truth, Failure> {
        if is_interrupted() {
            return Ok(None); // nobody will see the answer
        }
        Python::attach(|py| {
            self.ask(py, message).map_err(|error| {
                let reason = Failure(error.to_string());
                // An exception that is no `Exception` ends Python's work; it does not make a predicate unknown.
                if !error.is_instance_of::<PyException>(py) {
                    interrupt(py, error, self.function.bind(py));
                }
                reason
            })
        })
    }
}

impl PyPredicate {
    fn ask(&self, py: Python<'_>, message: &Message<'_>) -> PyResult<Truth> {
        let properties = convert::dict(py, message.properties)?;
        let answer = self.function.bind(py).call1((properties, message.topic, convert::body(py, message.body)))?;
        if answer.is_none() {
            return Ok(None);
        }
        let Ok(truth) = answer.cast::<PyBool>() else {
            let found = answer.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected True, False or None, not {found}")));
        };
        Ok(Some(truth.is_true()))
    }
}

/// The state of a call into the core, whose functions may be interrupted.
enum CallState {
    Running,
    Interrupted(PyErr),
}

thread_local! {
    /// The innermost call of this thread into the core; None where there is none, as in the threads of a batch.
    static CALL: RefCell<Option<CallState>> = const { RefCell::new(None) };
}

/// Calls `work`, which may call functions. When one of them raises KeyboardInterrupt or SystemExit in this thread, that
/// is raised instead of the result. No further function is called after it.
pub fn interruptible<R>(work: impl FnOnce() -> R) -> PyResult<R> {
    let outer = CALL.replace(Some(CallState::Running));
    let result = work();
    match CALL.replace(outer) {
        Some(CallState::Interrupted(error)) => Err(error),
        _ => Ok(result),
    }
}

fn is_interrupted() -> bool {
    CALL.with_borrow(|call| matches!(call, Some(CallState::Interrupted(_))))
}

/// Ends the call into the core with `error`. In a thread that Python did not create nobody can receive it, so it goes
/// to `sys.unraisablehook`.
fn interrupt(py: Python<'_>, error: PyErr, function: &Bound<'_, PyAny>) {
    let unheard = CALL.with_borrow_mut(|call| match call {
        Some(call) => {
            *call = CallState::Interrupted(error);
            None
        }
        None => Some(error),
    });
    if let Some(error) = unheard {
        error.write_unraisable(py, Some(function));
    }
}

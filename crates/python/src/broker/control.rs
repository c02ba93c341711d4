//! The control plane as the data plane asks it: a Python object.

use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use tamis_core::broker::topology::StoredQuery;
use tamis_core::broker::{Access, Control, UserLimits, Verb};

/// The control plane: an object with the methods of `tamis.broker.rules.Rules`.
pub(super) struct PyControl(pub(super) Py<PyAny>);

impl PyControl {
    /// Ask the control plane. An exception is a bug there: it is printed, and the answer is the safe one.
    fn ask<T>(&self, question: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>, safe: T) -> T {
        Python::attach(|py| {
            let control = self.0.bind(py);
            question(control).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(control));
                safe
            })
        })
    }
}

impl Control for PyControl {
    fn allowed(&mut self, access: &Access<'_>) -> bool {
        let verb = match access.verb {
            Verb::Configure => "configure",
            Verb::Write => "write",
            Verb::Read => "read",
        };
        let arguments = (access.user, verb, access.vhost, access.name, access.routing_key);
        self.ask(|control| control.call_method1("allowed", arguments)?.extract(), false)
    }

    fn has_topic_rules(&mut self, user: &str, vhost: &str) -> bool {
        self.ask(|control| control.call_method1("has_topic_rules", (user, vhost))?.extract(), true)
    }

    fn stored_query(&mut self, key: &str) -> Result<StoredQuery, String> {
        Python::attach(|py| {
            let answer = self.0.bind(py).call_method1("stored_query", (key,));
            match answer.and_then(|answer| answer.extract::<(String, String)>()) {
                Ok((language, text)) => Ok(StoredQuery { language: language.into(), text: text.into() }),
                Err(error) if error.is_instance_of::<PyLookupError>(py) => Err(error.value(py).to_string()),
                Err(error) => {
                    error.write_unraisable(py, Some(self.0.bind(py)));
                    Err("the store cannot be read".to_owned())
                }
            }
        })
    }

    fn limits(&mut self, user: &str) -> UserLimits {
        let (connections, queues) =
            self.ask(|control| control.call_method1("limits", (user,))?.extract(), (Some(0), Some(0)));
        UserLimits { connections, queues }
    }
}

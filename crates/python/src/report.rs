//! The report on an engine as plain Python values, which `tamis.Report` gives names.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tamis_core::index::SubscriptionId;
use tamis_core::index::report::{OpaqueUse, Report};

/// Returns `report` as a dict, with ids where `tamis.Report` has keys.
pub fn to_python<'py>(py: Python<'py>, report: Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("subscriptions", report.subscriptions)?;
    dict.set_item("distinct_queries", report.distinct_queries)?;
    dict.set_item("predicates", report.predicates)?;
    dict.set_item("distinct_predicates", report.distinct_predicates)?;
    dict.set_item("shared", report.shared)?;
    dict.set_item("duplicates", report.duplicates.into_iter().map(numbers).collect::<Vec<_>>())?;
    dict.set_item("covered", report.covered.into_iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>())?;
    dict.set_item("covered_subscriptions", report.covered_subscriptions)?;
    dict.set_item("candidates_left_out", report.candidates_left_out)?;
    dict.set_item("never_true", numbers(report.never_true))?;
    dict.set_item("always_true", numbers(report.always_true))?;
    dict.set_item("unindexable", numbers(report.unindexable))?;
    let served_by = report.served_by.into_iter().map(|(kind, subscriptions)| (kind.name(), subscriptions));
    dict.set_item("served_by", served_by.collect::<Vec<_>>())?;
    let most_expensive =
        report.most_expensive.into_iter().map(|expensive| (expensive.id.0, expensive.text, expensive.cost_ns));
    dict.set_item("most_expensive", most_expensive.collect::<Vec<_>>())?;
    dict.set_item("opaque", report.opaque.into_iter().map(|used| opaque(py, used)).collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("bytes", report.bytes)?;
    Ok(dict)
}

fn numbers(ids: Vec<SubscriptionId>) -> Vec<u64> {
    ids.into_iter().map(|id| id.0).collect()
}

fn opaque<'py>(py: Python<'py>, used: OpaqueUse) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", used.name)?;
    dict.set_item("subscriptions", used.subscriptions)?;
    dict.set_item("cost_us", used.cost_ns / 1_000.0)?;
    dict.set_item("calls", used.counts.calls)?;
    dict.set_item("errors", used.counts.errors)?;
    dict.set_item("measured_us", used.counts.measured_ns.map(|ns| ns / 1_000.0))?;
    dict.set_item("last_error", used.counts.last_error)?;
    Ok(dict)
}

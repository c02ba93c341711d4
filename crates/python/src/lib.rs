//! Python bindings of `tamis-core`, which convert, detach, call and convert, without any algorithm.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

mod amqp;
mod arguments;
mod arrow;
mod bitmap;
mod broker;
mod convert;
mod engine;
mod errors;
mod journal;
mod keys;
mod memory;
mod opaque;
mod query;
mod report;
mod text;

/// The compiled core of tamis. Its public API is the package `tamis`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<query::PyQuery>()?;
    module.add_class::<engine::PyEngine>()?;
    module.add_class::<keys::PyKeyArray>()?;
    module.add_class::<keys::PyIds>()?;
    module.add_class::<arrow::PyIdLists>()?;
    module.add_class::<bitmap::PyBitmap>()?;
    module.add_class::<broker::PyBroker>()?;
    module.add_class::<broker::PyStoredHierarchies>()?;
    module.add_class::<text::PySignature>()?;
    module.add_class::<journal::PyJournalReader>()?;
    module.add_function(wrap_pyfunction!(broker::broker_limits, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::read_messages, module)?)?;
    module.add_function(wrap_pyfunction!(memory::give_memory_back, module)?)?;
    module.add_function(wrap_pyfunction!(query::selector, module)?)?;
    module.add_function(wrap_pyfunction!(query::boolean, module)?)?;
    module.add_function(wrap_pyfunction!(query::topic, module)?)?;
    module.add_function(wrap_pyfunction!(query::prefix, module)?)?;
    module.add_function(wrap_pyfunction!(query::regex, module)?)?;
    module.add_function(wrap_pyfunction!(query::fields, module)?)?;
    module.add_function(wrap_pyfunction!(query::contains, module)?)?;
    module.add_function(wrap_pyfunction!(query::near, module)?)?;
    module.add_function(wrap_pyfunction!(query::compile_query, module)?)?;
    module.add("LANGUAGES", PyTuple::new(module.py(), tamis_core::query::named::LANGUAGES)?)?;
    module.add_function(wrap_pyfunction!(errors::show_query_error, module)?)?;
    module.add_function(wrap_pyfunction!(errors::show_query_warning, module)?)?;
    module.add_function(wrap_pyfunction!(opaque::opaque, module)?)?;
    module.add_function(wrap_pyfunction!(text::words, module)?)?;
    module.add_function(wrap_pyfunction!(journal::journal_kind, module)?)?;
    module.add_function(wrap_pyfunction!(journal::stream_message, module)?)?;
    module.add_function(wrap_pyfunction!(amqp::amqp_decode_frame, module)?)?;
    module.add_function(wrap_pyfunction!(amqp::amqp_encode_method, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

//! The Arrow C data interface, in and out, through PyCapsules.
//!
//! Source: Arrow specification, "The Arrow PyCapsule Interface".
#![expect(unsafe_code, reason = "the C data interface is a protocol of raw pointers")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ListArray, RecordBatch, StructArray};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use tamis_core::error::EngineError;
use tamis_core::index::batch::{self, BatchMatches};
use tamis_core::message::Message;

use crate::convert;
use crate::errors::engine_error;

use crate::arguments::wrong_type;

/// The record batches of anything with an Arrow stream or array capsule.
pub fn batches(table: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    if table.hasattr("__arrow_c_stream__")? {
        let capsule = table.call_method0("__arrow_c_stream__")?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: the capsule's name says that it holds a stream; `from_raw` moves it out and leaves it released.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) };
        let reader = RecordBatchStreamReader::try_new(stream).map_err(unreadable)?;
        return reader.collect::<Result<_, _>>().map_err(unreadable);
    }
    if table.hasattr("__arrow_c_array__")? {
        let capsules: Bound<'_, PyTuple> = table.call_method0("__arrow_c_array__")?.cast_into()?;
        let schema = capsules.get_item(0)?.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
        let array = capsules.get_item(1)?.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
        // SAFETY: the capsules' names say what they hold; the array is moved out and left released, and the schema
        // is only read while its capsule lives.
        let data = unsafe {
            let array = FFI_ArrowArray::from_raw(array.as_ptr().cast());
            from_ffi(array, schema.cast::<FFI_ArrowSchema>().as_ref())
        };
        return Ok(vec![rows(data.map_err(unreadable)?)?]);
    }
    Err(wrong_type("table", "an Arrow table (an object with __arrow_c_stream__)", table))
}

/// The rows of a struct array, as a record batch.
fn rows(data: ArrayData) -> PyResult<RecordBatch> {
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err(format!("expected rows, a struct array, not one of {}", data.data_type())));
    }
    if let Some(row) = data.nulls().and_then(|nulls| nulls.iter().position(|is_there| !is_there)) {
        return Err(PyTypeError::new_err(format!("expected rows without null, found one in row {row}")));
    }
    Ok(RecordBatch::from(StructArray::from(data)))
}

fn unreadable(error: ArrowError) -> PyErr {
    PyTypeError::new_err(format!("the Arrow table cannot be read: {error}"))
}

/// An Arrow array with a list of subscription ids per row; null for a row that cannot be read.
#[pyclass(frozen, module = "tamis", name = "IdLists")]
pub struct PyIdLists(pub ListArray);

#[pymethods]
impl PyIdLists {
    /// Return the array as Arrow's two capsules, schema and array; `requested_schema` is ignored, as the protocol allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // the protocol lets a producer ignore it
        let (array, schema) = to_ffi(&self.0.to_data()).map_err(unreadable)?;
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema, array))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, row: usize) -> PyResult<Option<Vec<u64>>> {
        if row >= self.0.len() {
            return Err(PyIndexError::new_err(format!("row {row} of {}", self.0.len())));
        }
        Ok(self.0.is_valid(row).then(|| self.ids(row)))
    }

    /// Return a list of ids for every row; None for a row that cannot be read.
    fn to_pylist(&self) -> Vec<Option<Vec<u64>>> {
        (0..self.0.len()).map(|row| self.0.is_valid(row).then(|| self.ids(row))).collect()
    }
}

impl PyIdLists {
    fn ids(&self, row: usize) -> Vec<u64> {
        self.0.value(row).as_primitive::<UInt64Type>().values().to_vec()
    }
}

/// A message as Python sees it: properties, topic and body.
type PyMessage<'py> = (Bound<'py, PyDict>, String, Bound<'py, PyAny>);

/// The message in each row of an Arrow table, as `match_batch` reads it; None for a row that cannot be read.
#[pyfunction]
pub fn read_messages<'py>(py: Python<'py>, table: &Bound<'py, PyAny>) -> PyResult<Vec<Option<PyMessage<'py>>>> {
    let mut messages = Vec::new();
    for batch in batches(table)? {
        let read = batch::read_messages(&batch, |message: Result<Message<'_>, _>| {
            let python = |it: Message<'_>| -> PyResult<_> {
                Ok((convert::dict(py, it.properties)?, it.topic.to_owned(), convert::body(py, it.body)))
            };
            messages.push(message.ok().map(python).transpose()?);
            Ok::<_, RowFailure>(())
        });
        read.map_err(|error| error.into_py(py))?;
    }
    Ok(messages)
}

/// The errors of the core, and those of Python while its objects are made.
enum RowFailure {
    Engine(EngineError),
    Python(PyErr),
}

impl RowFailure {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Engine(error) => engine_error(py, error),
            Self::Python(error) => error,
        }
    }
}

impl From<EngineError> for RowFailure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<PyErr> for RowFailure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// A row that cannot be read: its number in the table, the column, and the reason.
pub type UnreadRow = (usize, String, String);

/// The ids of several batches as one list array, and the rows that cannot be read: (number in all, column, reason).
pub fn join(parts: Vec<BatchMatches>) -> (PyIdLists, Vec<UnreadRow>) {
    let mut first = 0;
    let mut unreadable = Vec::new();
    let mut lists = Vec::with_capacity(parts.len());
    for part in parts {
        unreadable.extend(part.unreadable.into_iter().map(|bad| (first + bad.row, bad.column, bad.reason)));
        first += part.ids.len();
        lists.push(part.ids);
    }
    (PyIdLists(join_lists(lists)), unreadable)
}

fn join_lists(mut lists: Vec<ListArray>) -> ListArray {
    use arrow_array::UInt64Array;
    use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
    if lists.len() == 1 {
        return lists.remove(0);
    }
    let mut builder = ListBuilder::new(PrimitiveBuilder::<UInt64Type>::new());
    for list in &lists {
        for row in 0..list.len() {
            let ids: Arc<dyn Array> = list.value(row);
            let ids: &UInt64Array = ids.as_primitive();
            builder.values().append_slice(ids.values());
            builder.append(list.is_valid(row));
        }
    }
    builder.finish()
}

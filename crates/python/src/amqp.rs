//! AMQP frames for the handshake: methods by name, with their fields as Python values.
//!
//! The data plane decodes its own frames.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use tamis_core::amqp::raw_table::TABLE_DEPTH_MAX;
use tamis_core::amqp::{
    AmqpError, BasicProperties, ContentHeader, FieldValue, FrameKind, MethodId, Table, fields, next_frame,
};

use crate::convert::known;
use crate::errors::amqp_error;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A frame in Python: channel, name, fields, bytes consumed.
type DecodedFrame<'py> = (u16, &'static str, Bound<'py, PyDict>, usize);

/// Return channel, name, fields and size in bytes of the first AMQP frame in `data`; None if it is incomplete.
///
/// The name is a method's ("queue.declare"), "header", "body" or "heartbeat". Long strings are bytes. A header has
/// `body_size` and `properties` (those that are set), a body has `body`. In tables, text is str if it is valid UTF-8,
/// else bytes; a time is a datetime, or the number of seconds if its year is over 9999.
///
/// Raises:
///     AmqpError: the bytes are no frame, or the frame holds no valid method, header or table.
#[pyfunction]
pub fn amqp_decode_frame<'py>(
    py: Python<'py>,
    data: &[u8],
    frame_size_max: usize,
) -> PyResult<Option<DecodedFrame<'py>>> {
    let to_py = |error: AmqpError| amqp_error(py, error);
    let Some((frame, consumed)) = next_frame(data, frame_size_max).map_err(|error| to_py(error.into()))? else {
        return Ok(None);
    };
    let (name, fields) = match frame.kind {
        FrameKind::Method => {
            let (spec, fields) =
                fields::decode(frame.payload).map_err(|error| to_py(error.at(MethodId::of_payload(frame.payload))))?;
            (spec.name, table_to_py(py, &fields)?)
        }
        FrameKind::Header => {
            let header = ContentHeader::decode(frame.payload).map_err(|error| to_py(error.at(MethodId::NONE)))?;
            let fields = PyDict::new(py);
            fields.set_item("body_size", header.body_size)?;
            fields.set_item("properties", properties_to_py(py, header.properties)?)?;
            ("header", fields)
        }
        FrameKind::Body => {
            let fields = PyDict::new(py);
            fields.set_item("body", PyBytes::new(py, frame.payload))?;
            ("body", fields)
        }
        FrameKind::Heartbeat => ("heartbeat", PyDict::new(py)),
    };
    Ok(Some((frame.channel, name, fields, consumed)))
}

/// Return the frame of an AMQP method. Absent fields are false, zero or empty; long strings are bytes or str.
///
/// In tables an int becomes `I` or `l`, a float `d`, a str `S`, bytes `x`, a datetime whole seconds.
///
/// Raises:
///     ValueError: there is no such method or field, or a value does not fit its field.
///     TypeError: a table has a value of a type that AMQP lacks.
#[pyfunction]
pub fn amqp_encode_method<'py>(
    py: Python<'py>,
    channel: u16,
    name: &str,
    fields: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let values = table_from_py(fields, 0)?;
    let mut frame = Vec::new();
    fields::encode(name, &values, channel, &mut frame).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &frame))
}

fn properties_to_py<'py>(py: Python<'py>, properties: BasicProperties<'_>) -> PyResult<Bound<'py, PyDict>> {
    let set = properties.fields();
    let dict = PyDict::new(py);
    for (name, text) in [
        ("content_type", set.content_type),
        ("content_encoding", set.content_encoding),
        ("correlation_id", set.correlation_id),
        ("reply_to", set.reply_to),
        ("expiration", set.expiration),
        ("message_id", set.message_id),
        ("type", set.message_type),
        ("user_id", set.user_id),
        ("app_id", set.app_id),
        ("cluster_id", set.cluster_id),
    ] {
        if let Some(text) = text {
            dict.set_item(name, text)?;
        }
    }
    for (name, number) in [("delivery_mode", set.delivery_mode), ("priority", set.priority)] {
        if let Some(number) = number {
            dict.set_item(name, number)?;
        }
    }
    if let Some(seconds) = set.timestamp {
        dict.set_item("timestamp", timestamp_to_py(py, seconds)?)?;
    }
    if let Some(headers) = set.headers {
        let headers = headers.parse().map_err(|error| amqp_error(py, error.at(MethodId::NONE)))?;
        dict.set_item("headers", table_to_py(py, &headers)?)?;
    }
    Ok(dict)
}

/// A table as a dict.
pub fn table_to_py<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in table.iter() {
        dict.set_item(name, value_to_py(py, value)?)?;
    }
    Ok(dict)
}

/// A field value as a Python value. The depth of a decoded table is bounded, and so is this recursion.
fn value_to_py<'py>(py: Python<'py>, value: &FieldValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        FieldValue::Bool(value) => value.into_bound_py_any(py),
        FieldValue::F32(value) => value.into_bound_py_any(py),
        FieldValue::F64(value) => value.into_bound_py_any(py),
        FieldValue::Decimal { scale, unscaled } => known(py)?.decimal.bind(py).call1((format!("{unscaled}E-{scale}"),)),
        FieldValue::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into_bound_py_any(py),
            Err(_) => Ok(PyBytes::new(py, bytes).into_any()),
        },
        FieldValue::Array(values) => {
            let values = values.iter().map(|value| value_to_py(py, value)).collect::<PyResult<Vec<_>>>()?;
            values.into_bound_py_any(py)
        }
        FieldValue::Timestamp(seconds) => timestamp_to_py(py, *seconds),
        FieldValue::Table(table) => Ok(table_to_py(py, table)?.into_any()),
        FieldValue::Void => Ok(py.None().into_bound(py)),
        FieldValue::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        number => number.as_i64().into_bound_py_any(py),
    }
}

/// A datetime, or the plain number beyond the range of datetime.
fn timestamp_to_py(py: Python<'_>, seconds: u64) -> PyResult<Bound<'_, PyAny>> {
    const YEAR_10000: u64 = 253_402_300_800;
    if seconds >= YEAR_10000 {
        return seconds.into_bound_py_any(py);
    }
    known(py)?.from_micros.bind(py).call1((seconds as i64 * MICROS_PER_SECOND,))
}

fn table_from_py(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Table> {
    let mapping = object
        .cast::<PyMapping>()
        .map_err(|_| PyTypeError::new_err(format!("expected a mapping, not {}", type_of(object))))?;
    let mut table = Table::new();
    for pair in mapping.items()?.iter() {
        let (name, value): (String, Bound<'_, PyAny>) = pair.extract()?;
        let value = value_from_py(&value, depth + 1)
            .map_err(|error| if depth == 0 { error } else { at_name(object.py(), &name, error) })?;
        table.push(&name, value);
    }
    Ok(table)
}

/// Adds the name under which an error occurred to it.
fn at_name(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let message = format!("'{name}': {}", error.value(py));
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(message)
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(message)
    } else {
        error
    }
}

fn value_from_py(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<FieldValue> {
    // The fields of the method are no table of their own. A list may contain itself: without the bound this would not
    // end.
    if depth > TABLE_DEPTH_MAX + 1 {
        return Err(PyValueError::new_err("expected at most 32 levels of tables and lists"));
    }
    let py = object.py();
    let known = known(py)?;
    if object.is_none() {
        Ok(FieldValue::Void)
    } else if let Ok(value) = object.cast::<PyBool>() {
        Ok(value.is_true().into())
    } else if object.is_instance_of::<PyInt>() {
        let wide: i64 =
            object.extract().map_err(|_| PyValueError::new_err("expected an integer of at most 64 bits"))?;
        Ok(i32::try_from(wide).map_or(FieldValue::I64(wide), FieldValue::I32))
    } else if let Ok(value) = object.cast::<PyFloat>() {
        Ok(value.value().into())
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok((&*text.to_cow()?).into())
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Ok(FieldValue::Bytes(bytes.as_bytes().into()))
    } else if object.is_instance_of::<PyByteArray>() {
        Ok(FieldValue::Bytes(object.extract::<Vec<u8>>()?.into()))
    } else if object.is_instance(known.datetime.bind(py))? {
        timestamp_from_py(known.to_micros.bind(py).call1((object,))?.extract()?)
    } else if object.is_instance(known.decimal.bind(py))? {
        decimal_from_py(object)
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let values = object.try_iter()?.map(|item| value_from_py(&item?, depth + 1));
        Ok(FieldValue::Array(values.collect::<PyResult<_>>()?))
    } else if object.cast::<PyMapping>().is_ok() {
        Ok(table_from_py(object, depth)?.into())
    } else {
        Err(PyTypeError::new_err(format!("expected a value that AMQP has a type for, not {}", type_of(object))))
    }
}

fn timestamp_from_py(micros: i64) -> PyResult<FieldValue> {
    u64::try_from(micros.div_euclid(MICROS_PER_SECOND))
        .map(FieldValue::Timestamp)
        .map_err(|_| PyValueError::new_err("expected a datetime of 1970 or later"))
}

fn decimal_from_py(object: &Bound<'_, PyAny>) -> PyResult<FieldValue> {
    let too_long =
        || PyValueError::new_err("expected a decimal whose digits are a 32-bit integer, with at most 255 places");
    let exponent: i64 = object.call_method0("as_tuple")?.getattr("exponent")?.extract().map_err(|_| too_long())?;
    let scale = u8::try_from((-exponent).max(0)).map_err(|_| too_long())?;
    // An exponent over ten has more digits than 32 bits hold; writing them all out could take long.
    if exponent > 10 {
        return Err(too_long());
    }
    let digits = object.call_method1("scaleb", (scale,))?.call_method0("__int__")?;
    Ok(FieldValue::Decimal { scale, unscaled: digits.extract().map_err(|_| too_long())? })
}

fn type_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

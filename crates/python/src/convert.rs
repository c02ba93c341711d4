//! Converts Python values into values of the core, and back.

use std::collections::HashMap;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMemoryView, PyString, PyTuple,
};
use tamis_core::hierarchy::{Hierarchies, Hierarchy};
use tamis_core::message::{Body, NESTING_MAX, Properties, Value};

use crate::arguments::{self, type_of, unicode, wrong_type};
use crate::errors::engine_error;

/// The first microsecond of the year 1 and the last of 9999: neither Python's datetime nor selector text goes beyond
/// them.
pub const DATETIME_US: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// The Python objects that conversion compares with or calls.
pub struct PythonObjects {
    present: Py<PyAny>,
    pub datetime: Py<PyAny>,
    pub decimal: Py<PyAny>,
    pub to_micros: Py<PyAny>,
    to_plain: Py<PyAny>,
    pub from_micros: Py<PyAny>,
}

/// The Python objects, looked up once.
pub fn known(py: Python<'_>) -> PyResult<&PythonObjects> {
    static KNOWN: PyOnceLock<PythonObjects> = PyOnceLock::new();
    KNOWN.get_or_try_init(py, || {
        let message = py.import("tamis.message")?;
        Ok(PythonObjects {
            present: message.getattr("PRESENT")?.unbind(),
            datetime: py.import("datetime")?.getattr("datetime")?.unbind(),
            decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
            to_micros: message.getattr("to_micros")?.unbind(),
            to_plain: message.getattr("to_plain")?.unbind(),
            from_micros: message.getattr("from_micros")?.unbind(),
        })
    })
}

/// The properties of a message from a mapping with text keys; None means no properties.
pub fn properties(mapping: Option<&Bound<'_, PyAny>>) -> PyResult<Properties> {
    asked_properties(mapping, &|_| true)
}

/// Convert only the properties whose name `is_asked`; the others are only checked.
pub fn asked_properties(mapping: Option<&Bound<'_, PyAny>>, is_asked: &dyn Fn(&str) -> bool) -> PyResult<Properties> {
    match mapping {
        None => Ok(Properties::default()),
        Some(object) => map(object, "", 0, is_asked),
    }
}

fn map(object: &Bound<'_, PyAny>, path: &str, depth: usize, is_asked: &dyn Fn(&str) -> bool) -> PyResult<Properties> {
    let mut properties = Properties::default();
    let mut put = |key: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>| -> PyResult<()> {
        let Ok(key) = key.cast::<PyString>() else {
            return Err(PyTypeError::new_err(format!("{}: expected a text key, not {}", place(path), type_of(key))));
        };
        let key = unicode(key, &|| format!("{}: a key", place(path)))?;
        // The path is made only when a nested or wrong value needs it.
        let name = || if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if is_asked(key) {
            properties.insert(key.into(), value_at(item, depth, &name)?);
        } else {
            check(item, depth, &name)?;
        }
        Ok(())
    };
    if let Ok(dict) = object.cast::<PyDict>() {
        let count = dict.len();
        for (key, item) in dict.iter() {
            put(&key, &item)?;
            // Converting may run Python, and so other threads; continuing would panic.
            if dict.len() != count {
                let message = format!("{}: the mapping was changed while it was read", place(path));
                return Err(PyRuntimeError::new_err(message));
            }
        }
    } else if let Ok(mapping) = object.cast::<PyMapping>() {
        for pair in mapping.items()?.iter() {
            let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            put(&key, &item)?;
        }
    } else {
        return Err(wrong_type(&place(path), "a mapping", object));
    }
    Ok(properties)
}

/// The value of the property `name`.
pub fn value(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    value_at(object, 0, &|| name.to_owned())
}

/// Checks that a value can be converted, without doing so where that takes memory.
fn check(object: &Bound<'_, PyAny>, depth: usize, name: &dyn Fn() -> String) -> PyResult<()> {
    match object.cast::<PyString>() {
        Ok(text) => unicode(text, &|| format!("property '{}'", name())).map(drop),
        Err(_) => value_at(object, depth, name).map(drop),
    }
}

fn value_at(object: &Bound<'_, PyAny>, depth: usize, name: &dyn Fn() -> String) -> PyResult<Value> {
    if depth > NESTING_MAX {
        let message = format!("property '{}': expected nesting of at most {NESTING_MAX}", name());
        return Err(PyValueError::new_err(message));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(unicode(text, &|| format!("property '{}'", name()))?.into()));
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return object
            .extract()
            .map(Value::Int)
            .map_err(|_| PyValueError::new_err(format!("property '{}': expected an integer of 64 bits", name())));
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Value::Float(float.value()));
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    rare_value(object, depth, name)
}

/// Converts lists, mappings and the types that are looked up by name.
fn rare_value(object: &Bound<'_, PyAny>, depth: usize, name: &dyn Fn() -> String) -> PyResult<Value> {
    let py = object.py();
    let elements = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| -> PyResult<Value> {
        items.map(|item| value_at(&item, depth + 1, name)).collect::<PyResult<_>>().map(Value::List)
    };
    if let Ok(list) = object.cast::<PyList>() {
        return elements(&mut list.iter());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return elements(&mut tuple.iter());
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let text = std::str::from_utf8(bytes.as_bytes());
        return Ok(text.map_or(Value::Present, |text| Value::Text(text.into())));
    }
    let known = known(py)?;
    if object.is(&known.present) {
        return Ok(Value::Present);
    }
    if object.is_instance(known.datetime.bind(py))? {
        let micros = known.to_micros.bind(py).call1((object,)).and_then(|micros| micros.extract());
        return micros.map(Value::Timestamp).map_err(|error| at_property(py, error, name));
    }
    if object.is_instance(known.decimal.bind(py))? {
        let number = object.call_method0("__float__").and_then(|number| number.extract());
        return number.map(Value::Float).map_err(|error| at_property(py, error, name));
    }
    if object.cast::<PyMapping>().is_ok() {
        return map(object, &name(), depth + 1, &|_| true).map(Value::Map);
    }
    let plain = known.to_plain.bind(py).call1((object,)).map_err(|error| at_property(py, error, name))?;
    value_at(&plain, depth + 1, name)
}

/// The error that a value raised when it was converted (a zone of the user's own, pandas's NaT), with the property's
/// name.
fn at_property(py: Python<'_>, error: PyErr, name: &dyn Fn() -> String) -> PyErr {
    let message = format!("property '{}': {}", name(), error.value(py));
    let named = if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(message)
    } else if error.is_instance_of::<PyValueError>(py) {
        PyValueError::new_err(message)
    } else {
        return error;
    };
    named.set_cause(py, Some(error));
    named
}

fn place(path: &str) -> String {
    if path.is_empty() { "properties".to_owned() } else { format!("property '{path}'") }
}

/// A value of the core as Python shows it, for `explain` and for the functions of expensive predicates.
///
/// An instant beyond Python's range becomes a field without a value: a zone can put it before the year 1, and Arrow and
/// AMQP have later ones.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Timestamp(micros) | Value::Day(micros) if DATETIME_US.contains(micros) => {
            known(py)?.from_micros.bind(py).call1((*micros,))?
        }
        Value::Present | Value::Timestamp(_) | Value::Day(_) => known(py)?.present.clone_ref(py).into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => PyFloat::new(py, *number).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::List(values) => {
            let items: Vec<_> = values.iter().map(|item| to_python(py, item)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Map(properties) => dict(py, properties)?.into_any(),
    })
}

/// A mapping of the core as a new dict.
pub fn dict<'py>(py: Python<'py>, properties: &Properties) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, item) in properties {
        dict.set_item(&**key, to_python(py, item)?)?;
    }
    Ok(dict)
}

/// A body as Python shows it: None, a str, or bytes that are no text.
pub fn body<'py>(py: Python<'py>, body: Body<'_>) -> Bound<'py, PyAny> {
    match body {
        Body::Absent => py.None().into_bound(py),
        Body::Text(text) => PyString::new(py, text).into_any(),
        Body::Binary(bytes) => PyBytes::new(py, bytes).into_any(),
    }
}

/// The body of a message, borrowed from a Python str or bytes for the duration of the call.
pub enum PyBody<'py> {
    /// A str.
    Text(Bound<'py, PyString>),
    /// Bytes.
    Bytes(Bound<'py, PyBytes>),
}

impl<'py> PyBody<'py> {
    /// A body from str or bytes (bytearray and memoryview are copied).
    pub fn new(object: Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self::Text(text.clone()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
            return Ok(Self::Bytes(object.py().get_type::<PyBytes>().call1((object,))?.cast_into()?));
        }
        Err(wrong_type("body", "str, bytes or None", &object))
    }

    /// The bytes, in UTF-8 if they come from a str.
    pub fn bytes(&self) -> PyResult<&[u8]> {
        Ok(match self {
            Self::Text(text) => unicode(text, &|| "data".to_owned())?.as_bytes(),
            Self::Bytes(bytes) => bytes.as_bytes(),
        })
    }

    /// The body as the core sees it.
    pub fn borrow(&self) -> PyResult<Body<'_>> {
        Ok(match self {
            Self::Text(text) => Body::Text(unicode(text, &|| "body".to_owned())?),
            Self::Bytes(bytes) => Body::from_bytes(bytes.as_bytes()),
        })
    }
}

/// The argument `hierarchies`: {attribute: {value: parent or None}}.
pub fn hierarchies(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Hierarchies>> {
    let Some(object) = object else { return Ok(None) };
    let mapping = arguments::mapping(object, "hierarchies", "a mapping of attribute -> {value: parent or None}")?;
    let mut found = Hierarchies::new();
    for pair in mapping.items()?.iter() {
        let (attribute, parents): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
        let attribute = arguments::text(&attribute, "hierarchies: an attribute")?;
        found.insert(attribute.to_owned(), hierarchy(&parents, &format!("hierarchies['{attribute}']"))?);
    }
    Ok(Some(found))
}

/// The argument `name`, which is one hierarchy: {value: parent or None}.
pub fn hierarchy(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Hierarchy> {
    let mapping = arguments::mapping(object, name, "a mapping of value -> parent or None")?;
    let mut parents = HashMap::new();
    for pair in mapping.items()?.iter() {
        let (value, parent): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = pair.extract()?;
        let value = arguments::text(&value, &format!("{name}: a value"))?;
        let parent =
            parent.map(|parent| text_owned(&parent, &format!("{name}: the parent of '{value}'"))).transpose()?;
        parents.insert(value.to_owned(), parent);
    }
    Hierarchy::new(parents).map_err(|error| engine_error(object.py(), error))
}

fn text_owned(object: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    arguments::text(object, name).map(str::to_owned)
}

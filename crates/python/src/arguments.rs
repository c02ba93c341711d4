//! Reads the arguments of calls, so that every error begins with the name of the argument.

use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyMapping, PyString};
use tamis_core::text::Signature;

use crate::text::PySignature;

/// The name of an object's type, for errors.
pub fn type_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The TypeError for the argument `name`.
pub fn wrong_type(name: &str, expected: &str, object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{name}: expected {expected}, not {}", type_of(object)))
}

/// The argument `name`, which is text.
pub fn text<'a>(object: &'a Bound<'_, PyAny>, name: &str) -> PyResult<&'a str> {
    match object.cast::<PyString>() {
        Ok(text) => unicode(text, &|| name.to_owned()),
        Err(_) => Err(wrong_type(name, "text", object)),
    }
}

/// The characters of a str. Python's may have lone surrogates (`json.loads` makes them), which are no Unicode text.
pub fn unicode<'a>(text: &'a Bound<'_, PyString>, place: &dyn Fn() -> String) -> PyResult<&'a str> {
    text.to_str().map_err(|error| match lone_surrogate(text.py(), &error) {
        Some(index) => PyValueError::new_err(format!(
            "{}: expected Unicode text, found half of a surrogate pair at character {index}",
            place()
        )),
        None => error,
    })
}

fn lone_surrogate(py: Python<'_>, error: &PyErr) -> Option<usize> {
    let error = error.value(py).cast::<PyUnicodeEncodeError>().ok()?;
    error.getattr("start").ok()?.extract().ok()
}

/// The argument `name`, which is an integer; one beyond 128 bits becomes the nearest.
pub fn integer(object: &Bound<'_, PyAny>, name: &str) -> PyResult<i128> {
    object.extract().or_else(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(object.py()) {
            return Err(wrong_type(name, "an integer", object));
        }
        Ok(if object.lt(0)? { i128::MIN } else { i128::MAX })
    })
}

/// The argument `name`, which is an integer of at least `least`. All above 32 bits mean the same: more than there can be.
pub fn count(object: &Bound<'_, PyAny>, name: &str, least: i128) -> PyResult<u32> {
    let number = integer(object, name)?;
    if number < least {
        return Err(PyValueError::new_err(format!("{name}: expected at least {least}, not {number}")));
    }
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The argument `name`, which is a number.
pub fn number(object: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    object.extract().map_err(|_| wrong_type(name, "a number", object))
}

/// The argument `name`, which is True or False.
pub fn flag(object: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let flag = object.cast::<PyBool>().map_err(|_| wrong_type(name, "True or False", object))?;
    Ok(flag.is_true())
}

/// The argument `name`, which is the path of a file.
pub fn path(object: &Bound<'_, PyAny>, name: &str) -> PyResult<PathBuf> {
    object.extract().map_err(|_| wrong_type(name, "a path (str or os.PathLike)", object))
}

/// The argument `name`, which is a mapping of what `expected` says.
pub fn mapping<'a, 'py>(
    object: &'a Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<&'a Bound<'py, PyMapping>> {
    object.cast().map_err(|_| wrong_type(name, expected, object))
}

/// The argument `signature`.
pub fn signature<'a>(object: Option<&'a Bound<'_, PyAny>>) -> PyResult<Option<&'a Signature>> {
    let Some(object) = object else { return Ok(None) };
    match object.cast::<PySignature>() {
        Ok(signature) => Ok(Some(&signature.get().0)),
        Err(_) => Err(wrong_type("signature", "a tamis.words.Signature", object)),
    }
}

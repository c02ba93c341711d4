//! The class `tamis.Bitmap`: the papers' bitmap engine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyAttributeError, PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use tamis_core::bitmap::{self, SIZE_MAX};

use crate::arguments;

/// A row of bits, compressed, with every operation of the bitmap engine in the OpenAMQ and Malamute papers.
///
/// ``&``, ``|`` and ``^`` join bitmaps of the same size (a ValueError otherwise), and ``~`` inverts one. ``==``
/// compares size and bits, and ``len`` is the size. A bitmap is thread-safe, and can be copied and pickled. It can
/// change, and so has no hash.
///
/// Args:
///     size: number of bits, 0 to 2^32; all are clear at first.
///
/// Raises:
///     ValueError: `size` is out of bounds.
///     TypeError: an argument is no integer.
///     IndexError: an index is not from 0 to `size` (exclusive).
///
/// Cost: memory for the set bits only (Roaring); each operation on one bit takes well under a microsecond.
///
/// Source: the OpenAMQ paper, "The bitmap engine"; the Malamute paper.
#[pyclass(frozen, module = "tamis", name = "Bitmap")]
pub struct PyBitmap(Mutex<bitmap::Bitmap>);

impl PyBitmap {
    fn lock(&self) -> MutexGuard<'_, bitmap::Bitmap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(bits: bitmap::Bitmap) -> Self {
        Self(Mutex::new(bits))
    }

    /// Calls `work` with the number of the bit `index`. The index is read first: reading it may run Python, which must not
    /// meet the lock.
    fn at<R>(&self, index: &Bound<'_, PyAny>, work: fn(&mut bitmap::Bitmap, u32) -> R) -> PyResult<R> {
        let index = arguments::integer(index, "index")?;
        let mut bits = self.lock();
        let bit = u64::try_from(index).ok().and_then(|index| bits.checked(index));
        let outside =
            || PyIndexError::new_err(format!("index: expected 0 to {} (exclusive), not {index}", bits.size()));
        let bit = bit.ok_or_else(outside)?;
        Ok(work(&mut bits, bit))
    }

    fn bytes(&self) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        self.lock().write(&mut bytes)?;
        Ok(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        bitmap::Bitmap::read(bytes).map(Self::of).map_err(|error| no_bitmap(&error.to_string()))
    }

    fn combine(
        &self,
        other: &Self,
        operation: fn(&bitmap::Bitmap, &bitmap::Bitmap) -> Option<bitmap::Bitmap>,
    ) -> PyResult<Self> {
        let other = other.lock().clone(); // one lock at a time, since the two may be the same bitmap
        let bits = self.lock();
        let sizes = || {
            let (size, other) = (bits.size(), other.size());
            PyValueError::new_err(format!("expected bitmaps of the same size, not of {size} and {other} bits"))
        };
        operation(&bits, &other).map(Self::of).ok_or_else(sizes)
    }
}

#[pymethods]
impl PyBitmap {
    #[new]
    fn new(size: &Bound<'_, PyAny>) -> PyResult<Self> {
        let size = arguments::integer(size, "size")?;
        match u64::try_from(size) {
            Ok(size) if size <= SIZE_MAX => Ok(Self::of(bitmap::Bitmap::new(size))),
            _ => Err(PyValueError::new_err(format!("size: expected 0 to {SIZE_MAX}, not {size}"))),
        }
    }

    /// Set the bit `index`; an IndexError outside the size.
    fn set(&self, index: &Bound<'_, PyAny>) -> PyResult<()> {
        self.at(index, bitmap::Bitmap::set)
    }

    /// Clear the bit `index`; an IndexError outside the size.
    fn clear(&self, index: &Bound<'_, PyAny>) -> PyResult<()> {
        self.at(index, bitmap::Bitmap::clear)
    }

    /// Return whether the bit `index` is set; an IndexError outside the size.
    fn test(&self, index: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.at(index, |bits, bit| bits.test(bit))
    }

    /// Clear every bit.
    fn reset(&self) {
        self.lock().reset();
    }

    /// Return the number of bits that are set.
    fn count(&self) -> u64 {
        self.lock().count()
    }

    /// Return the lowest set bit, or None.
    fn first_set(&self) -> Option<u32> {
        self.lock().first_set()
    }

    /// Return the highest set bit, or None.
    fn last_set(&self) -> Option<u32> {
        self.lock().last_set()
    }

    /// Return the lowest set bit after `index`, or None.
    fn next_set(&self, index: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.at(index, |bits, bit| bits.next_set(bit))
    }

    /// Return the highest set bit before `index`, or None.
    fn previous_set(&self, index: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.at(index, |bits, bit| bits.previous_set(bit))
    }

    /// Return the lowest clear bit, or None.
    fn first_clear(&self) -> Option<u32> {
        self.lock().first_clear()
    }

    /// Return the highest clear bit, or None.
    fn last_clear(&self) -> Option<u32> {
        self.lock().last_clear()
    }

    /// Return the lowest clear bit after `index`, or None.
    fn next_clear(&self, index: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.at(index, |bits, bit| bits.next_clear(bit))
    }

    /// Return the highest clear bit before `index`, or None.
    fn previous_clear(&self, index: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        self.at(index, |bits, bit| bits.previous_clear(bit))
    }

    /// Return the bits that are set in both; ValueError if the sizes differ.
    fn __and__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::and)
    }

    fn __or__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::or)
    }

    fn __xor__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::xor)
    }

    /// Return the bitmap with every bit inverted.
    fn __invert__(&self) -> Self {
        Self::of(self.lock().not())
    }

    fn __eq__(&self, other: &Self) -> bool {
        let other = other.lock().clone();
        *self.lock() == other
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.lock().size())?)
    }

    fn __repr__(&self) -> String {
        let bits = self.lock();
        format!("<tamis.Bitmap of {} bits, {} set>", bits.size(), bits.count())
    }

    /// Write the bitmap to a binary file: its length, a mark, the size, and Roaring's portable format.
    ///
    /// Args:
    ///     file: open for writing bytes.
    ///
    /// Raises:
    ///     TypeError: `file` takes no bytes.
    ///     OSError: it cannot be written.
    fn write(&self, file: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.bytes()?;
        let length = u64::try_from(bytes.len())?.to_le_bytes();
        let written = file.call_method1("write", (PyBytes::new(file.py(), &[&length, bytes.as_slice()].concat()),));
        written.map_err(|error| no_binary_file(error, file))?;
        Ok(())
    }

    /// Read a bitmap that `write` wrote, and no byte after it.
    ///
    /// Args:
    ///     file: open for reading bytes.
    ///
    /// Raises:
    ///     ValueError: the bitmap is damaged, or there is none.
    ///     TypeError: `file` gives no bytes.
    ///     OSError: it cannot be read.
    #[staticmethod]
    fn read(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let length = <[u8; 8]>::try_from(read(file, 8)?).map_err(|_| no_bitmap("the file ends early"))?;
        let length = u64::from_le_bytes(length);
        if length > 2 * SIZE_MAX {
            return Err(no_bitmap("it does not begin as one"));
        }
        let bytes = read(file, length)?;
        if bytes.len() as u64 != length {
            return Err(no_bitmap("the file ends early"));
        }
        Self::from_bytes(&bytes)
    }

    /// Return what `copy` and `pickle` keep: the class, the size, and the bits as `__setstate__` takes them.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (u64,), Bound<'py, PyBytes>)> {
        let size = self.lock().size();
        Ok((py.get_type::<Self>(), (size,), PyBytes::new(py, &self.bytes()?)))
    }

    fn __setstate__(&self, state: &[u8]) -> PyResult<()> {
        let bits = Self::from_bytes(state)?;
        *self.lock() = bits.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }
}

fn no_bitmap(reason: &str) -> PyErr {
    PyValueError::new_err(format!("no bitmap of tamis: {reason}"))
}

fn no_binary_file(error: PyErr, file: &Bound<'_, PyAny>) -> PyErr {
    let py = file.py();
    if error.is_instance_of::<PyAttributeError>(py) || error.is_instance_of::<PyTypeError>(py) {
        return arguments::wrong_type("file", "an open binary file", file);
    }
    error
}

fn read(file: &Bound<'_, PyAny>, size_bytes: u64) -> PyResult<Vec<u8>> {
    let bytes = file.call_method1("read", (size_bytes,)).and_then(|bytes| bytes.extract());
    bytes.map_err(|error| no_binary_file(error, file))
}

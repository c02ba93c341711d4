//! The class `tamis.Bitmap`: the papers' bitmap engine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tamis_core::bitmap::{self, SIZE_MAX};

/// A compressed bitmap of a fixed size.
#[pyclass(frozen, module = "tamis", name = "Bitmap")]
pub struct PyBitmap(Mutex<bitmap::Bitmap>);

impl PyBitmap {
    fn lock(&self) -> MutexGuard<'_, bitmap::Bitmap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(bits: bitmap::Bitmap) -> Self {
        Self(Mutex::new(bits))
    }

    /// The number of the bit `index`, when there is one.
    fn bit(bits: &bitmap::Bitmap, index: i128) -> PyResult<u32> {
        u64::try_from(index)
            .ok()
            .and_then(|index| bits.checked(index))
            .ok_or_else(|| PyIndexError::new_err(format!("bit {index}: expected 0 to {} (exclusive)", bits.size())))
    }

    fn combine(
        &self,
        other: &Self,
        operation: fn(&bitmap::Bitmap, &bitmap::Bitmap) -> Option<bitmap::Bitmap>,
    ) -> PyResult<Self> {
        let other = other.lock().clone(); // one lock at a time, since the two may be the same bitmap
        let bits = self.lock();
        let sizes = || PyValueError::new_err(format!("bitmaps of {} and {} bits", bits.size(), other.size()));
        operation(&bits, &other).map(Self::of).ok_or_else(sizes)
    }
}

#[pymethods]
impl PyBitmap {
    #[new]
    fn new(size: i128) -> PyResult<Self> {
        match u64::try_from(size) {
            Ok(size) if size <= SIZE_MAX => Ok(Self::of(bitmap::Bitmap::new(size))),
            _ => Err(PyValueError::new_err(format!("size: expected 0 to {SIZE_MAX}, not {size}"))),
        }
    }

    fn set(&self, index: i128) -> PyResult<()> {
        let mut bits = self.lock();
        let bit = Self::bit(&bits, index)?;
        bits.set(bit);
        Ok(())
    }

    fn clear(&self, index: i128) -> PyResult<()> {
        let mut bits = self.lock();
        let bit = Self::bit(&bits, index)?;
        bits.clear(bit);
        Ok(())
    }

    fn test(&self, index: i128) -> PyResult<bool> {
        let bits = self.lock();
        Self::bit(&bits, index).map(|bit| bits.test(bit))
    }

    fn reset(&self) {
        self.lock().reset();
    }

    fn count(&self) -> u64 {
        self.lock().count()
    }

    fn first_set(&self) -> Option<u32> {
        self.lock().first_set()
    }

    fn last_set(&self) -> Option<u32> {
        self.lock().last_set()
    }

    fn next_set(&self, index: i128) -> PyResult<Option<u32>> {
        let bits = self.lock();
        Self::bit(&bits, index).map(|bit| bits.next_set(bit))
    }

    fn previous_set(&self, index: i128) -> PyResult<Option<u32>> {
        let bits = self.lock();
        Self::bit(&bits, index).map(|bit| bits.previous_set(bit))
    }

    fn first_clear(&self) -> Option<u32> {
        self.lock().first_clear()
    }

    fn last_clear(&self) -> Option<u32> {
        self.lock().last_clear()
    }

    fn next_clear(&self, index: i128) -> PyResult<Option<u32>> {
        let bits = self.lock();
        Self::bit(&bits, index).map(|bit| bits.next_clear(bit))
    }

    fn previous_clear(&self, index: i128) -> PyResult<Option<u32>> {
        let bits = self.lock();
        Self::bit(&bits, index).map(|bit| bits.previous_clear(bit))
    }

    fn __and__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::and)
    }

    fn __or__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::or)
    }

    fn __xor__(&self, other: &Self) -> PyResult<Self> {
        self.combine(other, bitmap::Bitmap::xor)
    }

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

    fn write(&self, file: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut bytes = Vec::new();
        self.lock().write(&mut bytes)?;
        let length = u64::try_from(bytes.len())?.to_le_bytes();
        file.call_method1("write", (PyBytes::new(file.py(), &[&length, bytes.as_slice()].concat()),))?;
        Ok(())
    }

    #[staticmethod]
    fn read(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        let damaged = |reason: String| PyValueError::new_err(format!("no bitmap of tamis: {reason}"));
        let length: Vec<u8> = file.call_method1("read", (8,))?.extract()?;
        let length = <[u8; 8]>::try_from(length).map_err(|_| damaged("the file ends early".to_owned()))?;
        let length = u64::from_le_bytes(length);
        if length > 2 * SIZE_MAX {
            return Err(damaged("it does not begin as one".to_owned()));
        }
        let bytes: Vec<u8> = file.call_method1("read", (length,))?.extract()?;
        if bytes.len() as u64 != length {
            return Err(damaged("the file ends early".to_owned()));
        }
        bitmap::Bitmap::read(bytes.as_slice()).map(Self::of).map_err(|error| damaged(error.to_string()))
    }
}

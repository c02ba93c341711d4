//! The class `tamis._core.JournalReader`: a log of the broker, read by another process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tamis_core::broker::durable::kind_name;
use tamis_core::broker::stream_record::{self, StreamRecord};
use tamis_core::broker::topology::{BodyMode, properties_seen};
use tamis_core::journal::{
    Damage, Disk, Inspection, LogItem, LogReader, ReadError, RealDisk, Sequence, Start, accept_losses, inspect,
};
use tamis_core::variant::{self, Variant};

use crate::convert;
use crate::errors::{journal_error, journal_read_error};

/// Reads the log that the broker keeps in a directory, also while the broker writes, up to the last synced record.
///
/// Thread-safe; it writes nothing. A number (sequence) counts from 1 and names one record for ever.
///
/// Args:
///     path: the directory.
///     start: the number to begin with; without it, the first record that is kept.
///     time_us: begin with the first record of this time or later, in microseconds since 1970.
///
/// Raises:
///     JournalError: there is no log, or a newer version wrote it.
///     OSError: the directory cannot be read.
#[pyclass(frozen, module = "tamis._core", name = "JournalReader")]
pub struct PyJournalReader {
    path: PathBuf,
    reader: Mutex<LogReader>,
}

/// The first and last missing number, and the reason.
type JournalGap = (u64, u64, &'static str);

/// Exchange, routing key, properties, the same properties as a variant (value, metadata), and body.
type StreamMessage<'py> =
    (String, String, Bound<'py, PyDict>, (Bound<'py, PyBytes>, Bound<'py, PyBytes>), Bound<'py, PyBytes>);

/// A batch of records, and the missing numbers with the reason.
#[derive(Default)]
struct JournalBatch {
    records: Vec<(u64, i64, u8, Vec<u8>)>,
    gaps: Vec<JournalGap>,
}

impl JournalBatch {
    fn read(reader: &mut LogReader, count_max: usize, bytes_max: usize) -> Result<Self, ReadError> {
        let (mut batch, mut bytes) = (Self::default(), 0);
        while batch.records.len() + batch.gaps.len() < count_max && bytes < bytes_max {
            match reader.next()? {
                None => break,
                Some(LogItem::Record(record)) => {
                    bytes += record.body.len();
                    batch.records.push((record.sequence.0, record.time_us, record.kind, record.body.to_vec()));
                }
                Some(LogItem::Damaged(damage)) => batch.gaps.push((damage.first.0, damage.last.0, damage.kind.name())),
                Some(LogItem::Missed(first, last)) => batch.gaps.push((first.0, last.0, "removed")),
            }
        }
        Ok(batch)
    }

    fn into_py<'py>(self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Vec<JournalGap>)> {
        let record = |(sequence, time_us, kind, body): (u64, i64, u8, Vec<u8>)| {
            (sequence, time_us, kind, PyBytes::new(py, &body))
        };
        Ok((PyList::new(py, self.records.into_iter().map(record))?, self.gaps))
    }
}

impl PyJournalReader {
    fn lock(&self) -> MutexGuard<'_, LogReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyJournalReader {
    #[new]
    #[pyo3(signature = (path, start=None, *, time_us=None))]
    fn new(py: Python<'_>, path: PathBuf, start: Option<u64>, time_us: Option<i64>) -> PyResult<Self> {
        let place = match (start, time_us) {
            (None, None) => Start::First,
            (Some(sequence), None) => Start::Sequence(Sequence(sequence)),
            (None, Some(time_us)) => Start::Time(time_us),
            (Some(_), Some(_)) => return Err(PyValueError::new_err("expected start or time_us, not both")),
        };
        let opened = py.detach(|| LogReader::open(&disk(), &path, place));
        let reader = opened.map_err(|error| journal_error(py, error))?;
        Ok(Self { path, reader: Mutex::new(reader) })
    }

    /// Return the next records and gaps; both are empty when all synced records have been read. Call it again later.
    ///
    /// Returns:
    ///     Records as (sequence, microseconds since 1970, kind, body), ascending; at most `count_max`, and no more once
    ///     `bytes_max` is reached. Gaps as (first, last, reason): numbers without a record, because retention has
    ///     "removed" them or they are damaged ("records", "missing").
    #[pyo3(signature = (count_max=1000, bytes_max=4_194_304))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        count_max: usize,
        bytes_max: usize,
    ) -> PyResult<(Bound<'py, PyList>, Vec<JournalGap>)> {
        let batch = py.detach(|| JournalBatch::read(&mut self.lock(), count_max, bytes_max));
        batch.map_err(|error| journal_read_error(py, error))?.into_py(py)
    }

    /// Continue at the record with this number.
    fn seek(&self, sequence: u64) {
        self.lock().seek(Sequence(sequence));
    }

    /// The number of the next record.
    #[getter]
    fn position(&self) -> u64 {
        self.lock().position().0
    }

    /// The id of the log: a new log in the same directory has another id.
    #[getter]
    fn log_id(&self) -> u64 {
        self.lock().log_id()
    }

    /// Return the number of the first record that is kept; `next_sequence` if there is none.
    fn first_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        let first = py.detach(|| self.lock().first_sequence());
        first.map(|first| first.0).map_err(|error| journal_read_error(py, error))
    }

    /// Return the number after that of the last synced record.
    fn next_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        let next = py.detach(|| self.lock().next_sequence());
        next.map(|next| next.0).map_err(|error| journal_read_error(py, error))
    }

    /// Read and check every record of a log. Cost: linear in its size.
    ///
    /// Returns:
    ///     `path`, `synced`, `segments` (each `ordinal`, `file`, `first_sequence`, `record_count`, `kinds` {kind:
    ///     count}, `data_bytes`, `file_bytes`, `is_sealed`, `first_time_us`, `last_time_us`) and `damage` (each `kind`,
    ///     `segment`, `offset`, `size_bytes`, `first_sequence`, `lost_count`), oldest first; and `missing`, a sentence
    ///     for each file without which the log is not opened.
    #[staticmethod]
    fn inspect(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
        let inspection = py.detach(|| inspect(&disk(), &path)).map_err(|error| journal_error(py, error))?;
        report(py, &path, &inspection)
    }

    /// Make the mark of a log fit the files that are there, so that it opens; no broker may use it meanwhile.
    ///
    /// Returns:
    ///     A sentence for each file that was missing, at most 7; none if the log was whole: then nothing is written.
    ///
    /// Raises:
    ///     JournalError: nothing tells which log it is, or a newer version wrote it.
    ///     OSError: a file cannot be read or written.
    #[staticmethod]
    fn accept_losses(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        py.detach(|| accept_losses(&disk(), &path)).map_err(|error| journal_error(py, error))
    }

    fn __repr__(&self) -> String {
        format!("<tamis._core.JournalReader of {} at {}>", self.path.display(), self.position())
    }
}

/// Return the name of a kind of records, in the broker's journal or in the log of a stream; None if it has none.
#[pyfunction]
#[pyo3(signature = (kind, *, is_stream))]
pub fn journal_kind(kind: u8, is_stream: bool) -> Option<&'static str> {
    if is_stream { (kind == stream_record::MESSAGE).then_some("message") } else { kind_name(kind) }
}

/// Return the message in a record of a stream's log.
///
/// Args:
///     kind: the kind of the record.
///     record: the body of the record.
///     query_body: as `x-query-body` of a binding: with "json" the fields of a JSON body are in a property `body`.
///
/// Returns:
///     Exchange, routing key, properties as queries in the broker see them, these properties as a variant (value,
///     metadata), and body. In the properties, times that datetime cannot hold are PRESENT.
///
/// Raises:
///     ValueError: the record is of another kind, or no message, or its properties nest deeper than 100 or take more
///         than 16 MiB.
#[pyfunction]
#[pyo3(signature = (kind, record, query_body = "text"))]
pub fn stream_message<'py>(py: Python<'py>, kind: u8, record: &[u8], query_body: &str) -> PyResult<StreamMessage<'py>> {
    let mode = BodyMode::from_name(query_body)
        .ok_or_else(|| PyValueError::new_err(format!("query_body: expected none, text or json, not '{query_body}'")))?;
    if kind != stream_record::MESSAGE {
        return Err(PyValueError::new_err(format!("a record of kind {kind}, where a message was expected")));
    }
    let decoded = py.detach(|| {
        let message = StreamRecord::decode(record).map_err(|error| error.to_string())?;
        let properties = properties_seen(&message.properties, message.body, mode);
        let variant = variant::encode(&properties)?;
        Ok::<_, String>((message, properties, variant))
    });
    let (message, properties, Variant { value, metadata }) = decoded.map_err(PyValueError::new_err)?;
    let variant = (PyBytes::new(py, &value), PyBytes::new(py, &metadata));
    let names = (message.exchange.to_owned(), message.routing_key.to_owned());
    Ok((names.0, names.1, convert::dict(py, &properties)?, variant, PyBytes::new(py, message.body)))
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn report<'py>(py: Python<'py>, path: &Path, inspection: &Inspection) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("path", path)?;
    result.set_item("synced", inspection.synced.0)?;
    let segments = PyList::empty(py);
    for segment in &inspection.segments {
        let dict = PyDict::new(py);
        dict.set_item("ordinal", segment.ordinal.0)?;
        dict.set_item("file", &segment.file_name)?;
        dict.set_item("first_sequence", segment.first.0)?;
        dict.set_item("record_count", segment.record_count)?;
        let kinds = PyDict::new(py);
        for (kind, count) in &segment.kinds {
            kinds.set_item(kind, count)?;
        }
        dict.set_item("kinds", kinds)?;
        dict.set_item("data_bytes", segment.data_bytes)?;
        dict.set_item("file_bytes", segment.file_bytes)?;
        dict.set_item("is_sealed", segment.is_sealed)?;
        dict.set_item("first_time_us", segment.times_us.0)?;
        dict.set_item("last_time_us", segment.times_us.1)?;
        segments.append(dict)?;
    }
    result.set_item("segments", segments)?;
    let damage = PyList::empty(py);
    for found in &inspection.damage {
        damage.append(damage_dict(py, found)?)?;
    }
    result.set_item("damage", damage)?;
    result.set_item("missing", &inspection.missing)?;
    Ok(result)
}

fn damage_dict<'py>(py: Python<'py>, damage: &Damage) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", damage.kind.name())?;
    dict.set_item("segment", damage.segment.0)?;
    dict.set_item("offset", damage.offset)?;
    dict.set_item("size_bytes", damage.size_bytes)?;
    dict.set_item("first_sequence", damage.first.0)?;
    dict.set_item("lost_count", damage.lost())?;
    Ok(dict)
}

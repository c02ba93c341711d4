//! An append-only log on disk, in segments: records that were reported synced survive every kind of crash.
//!
//! A [`Log`] is one directory. [`Log::append`] puts a record into memory and gives it its number. The thread of a
//! [`Committer`] writes all records that have gathered, syncs them once, and publishes how far the log is synced
//! ([`Log::synced`]). There is no timer: records that are appended during one sync go into the next. A [`LogReader`]
//! sees records only once they are synced, so no reader ever sees two bodies with one number. All files are accessed through
//! [`Disk`]; with a simulated disk and [`Committer::manual`] the tests run the same code without files and threads,
//! through power cuts and errors.
//!
//! The format, and the faults that it must withstand, are described in `docs/adr/0014-the-journal-format.md`.

mod blocks;
mod damage;
pub mod disk;
mod errors;
mod format;
mod inspect;
mod log;
mod opening;
mod options;
mod reader;
mod reader_files;
mod recovery;
mod statistics;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use blocks::{PARTLY_READ_MAX, PIECE_BYTES};
pub use damage::{Damage, DamageKind};
#[cfg(unix)]
pub use disk::real::{DirectoryLock, FileError, RealDisk};
#[cfg(test)]
pub use disk::simulated::{Dice, SimulatedDisk};
pub use disk::unsynced::UnsyncedDisk;
pub use disk::{Disk, DiskFile, Wait};
pub use errors::{AppendError, OpenError, ReadError};
pub use format::footer::RecordHead;
pub(crate) use format::record::HEADER_BYTES;
pub use format::record::{HEAD_BYTES_MAX, Record, Sequence};
pub use format::segment::{Location, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentNumber};
pub use inspect::{Inspection, SegmentReport, inspect};
pub use log::{Appended, Log};
pub use opening::LogOpening;
pub use options::{LogOptions, Retention, SegmentGrowth};
pub use reader::{LogItem, LogReader, Start};
pub use reader_files::FileCount;
pub use recovery::completeness::accept_losses;
pub use recovery::recover::LogRecovery;
pub use statistics::Statistics;
pub(crate) use writing::appending::RecordBody;
pub use writing::committer::{Commit, Committer};

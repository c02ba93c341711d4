//! An append-only log on disk, in segments: what was reported synced is there after a crash, whatever kind it was.
//!
//! A [`Log`] is one directory. [`Log::append`] puts a record into memory and gives it its number; the thread of a
//! [`Committer`] writes whatever has gathered, syncs it once, and publishes how far ([`Log::synced`]). There is no timer:
//! what is appended during one sync goes into the next. A [`LogReader`] sees records only once they are synced, so no number
//! is ever seen with two bodies. All files are touched through [`Disk`]; with a simulated disk and
//! [`Committer::manual`] the tests run the same code without files and threads, through power cuts and errors.
//!
//! The format and what it is to withstand: `docs/adr/0014-the-journal-format.md`.

mod committer;
mod directory;
pub mod disk;
mod footer;
mod inspect;
mod log;
mod mark;
mod reader;
mod record;
mod recovery;
mod scan;
mod segment;
mod statistics;
#[cfg(test)]
mod tests;
mod writing;

pub use committer::{Commit, Committer};
pub use directory::OpenError;
#[cfg(unix)]
pub use disk::real::{DirectoryLock, RealDisk};
#[cfg(test)]
pub use disk::simulated::{Dice, SimulatedDisk};
pub use disk::unsynced::UnsyncedDisk;
pub use disk::{Disk, DiskFile};
pub use footer::RecordHead;
pub use inspect::{Inspection, SegmentReport, inspect};
pub use log::{AppendError, Appended, Log, LogOptions, Retention};
pub use reader::{LogItem, LogReader, ReadError, Start};
pub use record::{HEAD_BYTES_MAX, Record, Sequence};
pub use recovery::LogRecovery;
pub use scan::{Damage, DamageKind};
pub use segment::{Location, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use statistics::Statistics;

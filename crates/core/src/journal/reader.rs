//! Reads a log from any position, while it grows and while retention removes its oldest segments.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use crate::journal::damage::{Damage, DamageKind};
use crate::journal::disk::{Disk, DiskFile, Wait};
use crate::journal::errors::{OpenError, ReadError};
use crate::journal::format::footer::SparsePoint;
use crate::journal::format::mark::LogMark;
use crate::journal::format::record::{Record, Sequence};
use crate::journal::format::segment::{SegmentName, SegmentNumber};
use crate::journal::reader_files::ReaderFile;
use crate::journal::recovery::directory::{Directory, SegmentFile, read_mark};
use crate::journal::recovery::scan::Scanner;
use crate::journal::writing::shared::SharedLog;

/// The position at which a reader starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first record that is kept.
    First,
    /// Behind the last record that is synced now.
    Next,
    /// At this sequence number; when retention has passed it, the reader reports that first.
    Sequence(Sequence),
    /// At the first record of this time or later, in microseconds since 1970.
    Time(i64),
}

/// The next item that a reader delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// A record.
    Record(Record<'a>),
    /// Damaged records, which are skipped; those after them follow.
    Damaged(Damage),
    /// Retention was faster than the reader: the records with these numbers, first and last, are gone.
    Missed(Sequence, Sequence),
}

/// Reads a log in order, each record once, and never one that a crash could still take back.
pub struct LogReader {
    source: LogSource,
    next: Sequence,
    /// The last synced number when the source was last asked.
    synced: Sequence,
    /// Records before this time are skipped, until the first that is not.
    from_time_us: Option<i64>,
    segment: Option<OpenSegment>,
    wait: Wait,
}

/// Tells which segments exist, and how far they are synced.
enum LogSource {
    /// The log itself, in this process.
    Live(Arc<SharedLog>),
    /// The directory, which another process writes.
    Files(Directory, Arc<dyn DiskFile>),
}

struct OpenSegment {
    name: SegmentName,
    /// The first number of the next segment, once there is one.
    following: Option<Sequence>,
    scanner: Scanner,
    /// Other readers find it as long as one has it.
    _file: Arc<ReaderFile>,
}

/// The item at the reader's position.
enum Here {
    /// A record of this length.
    Record(u32),
    /// A record before the requested time, which was skipped.
    Early,
    Damaged(Damage),
    Missed(Sequence, Sequence),
    /// The reader must look at another position first.
    Elsewhere,
}

impl LogReader {
    /// Reads the log in `dir`, which another process may be writing. Nothing is written here.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, start: Start) -> Result<Self, OpenError> {
        let (_, existing) = Directory::find(disk, dir)?;
        let no_log = || OpenError::NoLog(format!("{}: no log of tamis is here", dir.display()));
        let directory = existing.ok_or_else(no_log)?.directory;
        let (_, mark_file) = read_mark(disk.as_ref(), dir)?;
        Self::of(LogSource::Files(directory, mark_file), start).map_err(|error| match error {
            ReadError::Io(error) => OpenError::Io(error),
            other => OpenError::NoLog(format!("{}: {other}", dir.display())),
        })
    }

    pub(crate) fn live(log: Arc<SharedLog>, start: Start) -> Result<Self, ReadError> {
        Self::of(LogSource::Live(log), start)
    }

    fn of(source: LogSource, start: Start) -> Result<Self, ReadError> {
        let synced = source.synced()?;
        let mut reader =
            Self { source, next: synced.next(), synced, from_time_us: None, segment: None, wait: Wait::ForDisk };
        match start {
            Start::First => reader.next = reader.first_sequence()?,
            Start::Next => {}
            Start::Sequence(sequence) => reader.next = sequence.max(Sequence(1)),
            Start::Time(time_us) => reader.seek_time(time_us)?,
        }
        Ok(reader)
    }

    /// The next item; None when everything that is synced has been read, and an item again once more is synced. Reads a
    /// file in pieces of 256 KiB, or of one record where that is larger; a reader that must not wait asks for each piece.
    ///
    /// # Errors
    /// The file system reports an error, [`ReadError::would_wait`] or [`ReadError::is_partly_read`]. The reader stays where
    /// it is.
    #[expect(clippy::should_implement_trait, reason = "what it returns is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>, ReadError> {
        let length = loop {
            if self.next > self.synced {
                self.synced = self.source.synced()?;
                if self.next > self.synced {
                    return Ok(None);
                }
            }
            match self.look()? {
                Here::Elsewhere => {}
                Here::Early => self.next = self.next.next(),
                Here::Damaged(damage) => {
                    self.next = damage.last.next();
                    return Ok(Some(LogItem::Damaged(damage)));
                }
                Here::Missed(first, last) => {
                    self.next = last.next();
                    return Ok(Some(LogItem::Missed(first, last)));
                }
                Here::Record(length) => break length,
            }
        };
        let record = match &mut self.segment {
            Some(open) => open.scanner.take(length)?,
            None => None,
        };
        self.next = self.next.next();
        Ok(record.map(LogItem::Record))
    }

    /// The memory that has the last record, whose body is of `body_bytes`, and where in it the body is: for those who go on
    /// with the bytes of a large one without a copy.
    pub(crate) fn last_body(&self, body_bytes: usize) -> Option<(Arc<Vec<u8>>, Range<usize>)> {
        self.segment.as_ref()?.scanner.taken(body_bytes)
    }

    /// Whether it waits for the disk from now on. It does at first.
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// The sequence number that comes next.
    #[must_use]
    pub fn position(&self) -> Sequence {
        self.next
    }

    /// Whether it skips records until one has the time that it begins at.
    #[must_use]
    pub fn awaits_time(&self) -> bool {
        self.from_time_us.is_some()
    }

    /// Moves to another position.
    pub fn seek(&mut self, sequence: Sequence) {
        self.next = sequence.max(Sequence(1));
        self.from_time_us = None;
        self.segment = None;
    }

    /// Whether a part of a large record is read.
    #[must_use]
    pub fn has_part(&self) -> bool {
        self.segment.as_ref().is_some_and(|open| open.scanner.has_part())
    }

    /// Lets go of a large record of which a part is read, for those who do not ask for the next piece soon.
    pub fn drop_part(&mut self) {
        if let Some(open) = &mut self.segment {
            open.scanner.drop_part();
        }
    }

    /// Lets go of the open file and of what was read ahead. The position stays.
    pub fn rest(&mut self) {
        self.segment = None;
    }

    /// The identity of the log: another log that is created in the same directory has another.
    #[must_use]
    pub fn log_id(&self) -> u64 {
        self.source.directory().log_id
    }

    /// The first sequence number that is kept; the next one when no record is kept.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn first_sequence(&self) -> Result<Sequence, ReadError> {
        let there = self.source.names()?.first().map(|name| name.first);
        let first = self.source.first_kept()?.into_iter().chain(there).min();
        Ok(first.unwrap_or(self.source.synced()?.next()))
    }

    /// The sequence number after the last one that is synced.
    ///
    /// # Errors
    /// The file system reports an error.
    pub fn next_sequence(&self) -> Result<Sequence, ReadError> {
        Ok(self.source.synced()?.next())
    }

    /// Starts in the first segment that has a record of that time or later.
    fn seek_time(&mut self, time_us: i64) -> Result<(), ReadError> {
        for name in self.source.names()? {
            let segment = match self.source.directory().open(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // removed meanwhile
                segment => segment?,
            };
            if segment.trailer()?.is_some_and(|trailer| trailer.time_max_us < time_us) {
                continue;
            }
            let sparse = self.source.sparse(&segment)?;
            let begin = sparse.iter().rfind(|point| point.time_before_us < time_us);
            self.next = begin.map_or(name.first, |point| point.sequence);
            self.from_time_us = Some(time_us);
            return Ok(());
        }
        Ok(())
    }

    /// The item at the position of `self.next`, which is synced.
    fn look(&mut self) -> Result<Here, ReadError> {
        let Some(open) = &mut self.segment else { return self.open_segment() };
        open.scanner.wait = self.wait;
        open.scanner.synced = self.synced;
        if let Some(here) = here(open, self.next, &mut self.from_time_us)? {
            return Ok(here);
        }
        // The bytes read ahead may have been overwritten since; and the segment may no longer be the last, or be gone.
        open.scanner.refresh(self.next);
        if let Some(here) = here(open, self.next, &mut self.from_time_us)? {
            return Ok(here);
        }
        let names = self.source.names()?;
        let Ok(index) = names.binary_search(&open.name) else {
            self.segment = None;
            return Ok(Here::Elsewhere);
        };
        open.following = names.get(index + 1).map(|name| name.first);
        if open.following.is_some_and(|following| following <= self.next) {
            self.segment = None;
            return Ok(Here::Elsewhere);
        }
        self.step_over()
    }

    /// Steps over bytes that should be a record and are none.
    fn step_over(&mut self) -> Result<Here, ReadError> {
        let Some(open) = &mut self.segment else { return Ok(Here::Elsewhere) };
        open.scanner.wait = Wait::ForDisk; // to start over in the middle of a search would say other things of the damage
        let last = open.following.map_or(self.synced, |following| following.previous().min(self.synced));
        open.scanner.refresh(self.synced); // another reader may have read the bytes before the records behind were written
        let offset = open.scanner.offset;
        let is_resynced = open.scanner.resync(self.next, last)?;
        let end = if is_resynced { open.scanner.offset } else { offset };
        let last = match open.scanner.peek()? {
            Ok(decoded) if is_resynced => decoded.record.sequence.previous(),
            _ => last,
        };
        if is_resynced && last < self.next {
            return Ok(Here::Elsewhere); // the damage is before the reader's position, on the way to it
        }
        let damage = Damage {
            kind: DamageKind::Records,
            segment: open.name.ordinal,
            offset,
            size_bytes: end - offset,
            first: self.next,
            last,
        };
        if !is_resynced {
            self.segment = None;
        }
        Ok(Here::Damaged(damage))
    }

    /// Opens the segment that contains `self.next`, near it.
    fn open_segment(&mut self) -> Result<Here, ReadError> {
        let names = self.source.names()?;
        let first = names.first().map_or(self.synced.next(), |name| name.first);
        if self.next < first {
            return self.before_the_first(first);
        }
        let index = names.partition_point(|name| name.first <= self.next);
        let name = names[index - 1];
        let file = match self.source.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Here::Elsewhere), // removed meanwhile
            file => file?,
        };
        let segment = &file.segment;
        let sparse = self.source.sparse(segment)?;
        let begin = sparse.iter().rfind(|point| point.sequence <= self.next);
        let mut scanner = Scanner::new(Arc::clone(&segment.file), segment.seed, segment.file_bytes);
        if let Some(point) = begin {
            scanner.offset = u64::from(point.offset);
        }
        if let LogSource::Live(log) = &self.source {
            scanner.share(&log.blocks, name.ordinal);
        }
        let following = names.get(index).map(|name| name.first);
        self.segment = Some(OpenSegment { name, following, scanner, _file: file });
        Ok(Here::Elsewhere)
    }
}

impl LogReader {
    /// The reason why the records before `first` are absent.
    fn before_the_first(&self, first: Sequence) -> Result<Here, ReadError> {
        let kept = self.source.first_kept()?.unwrap_or(first);
        if self.next < kept {
            return Ok(Here::Missed(self.next, kept.min(first).previous()));
        }
        let (kind, segment) = (DamageKind::Missing, SegmentNumber::default());
        let last = first.previous();
        Ok(Here::Damaged(Damage { kind, segment, offset: 0, size_bytes: 0, first: self.next, last }))
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader of {} at {}", self.source.directory().path.display(), self.next)
    }
}

/// Moves to the record `next` if only records are before it; None when something else is.
fn here(open: &mut OpenSegment, next: Sequence, from_time_us: &mut Option<i64>) -> io::Result<Option<Here>> {
    loop {
        let offset = open.scanner.offset;
        let Ok(decoded) = open.scanner.peek()? else { return Ok(None) };
        let (sequence, length) = (decoded.record.sequence, decoded.length);
        if sequence > next {
            // Its predecessors were lost before it was written: recovery has reported them, and every reader does too.
            let (kind, segment, last) = (DamageKind::Missing, open.name.ordinal, sequence.previous());
            let damage = Damage { kind, segment, offset, size_bytes: 0, first: next, last };
            return Ok(Some(Here::Damaged(damage)));
        }
        if sequence == next {
            let is_early = from_time_us.is_some_and(|time_us| decoded.record.time_us < time_us);
            if is_early {
                open.scanner.advance(length);
                return Ok(Some(Here::Early));
            }
            *from_time_us = None;
            return Ok(Some(Here::Record(length)));
        }
        open.scanner.advance(length);
    }
}

impl LogSource {
    /// The file of a segment, shared with the other readers of a live log.
    fn open(&self, name: SegmentName) -> io::Result<Arc<ReaderFile>> {
        let open = || self.directory().open(name);
        match self {
            Self::Live(log) => log.reader_files.get(name.ordinal, open),
            Self::Files(..) => Ok(Arc::new(ReaderFile::new(open()?))),
        }
    }

    fn directory(&self) -> &Directory {
        match self {
            Self::Live(log) => &log.directory,
            Self::Files(directory, _) => directory,
        }
    }

    fn names(&self) -> io::Result<Vec<SegmentName>> {
        match self {
            Self::Live(log) => Ok(log.names()),
            Self::Files(directory, _) => directory.names(),
        }
    }

    fn synced(&self) -> Result<Sequence, ReadError> {
        match self {
            Self::Live(log) => Ok(log.synced()),
            Self::Files(_, file) => LogMark::read_synced(file.as_ref())?.ok_or(ReadError::NoMark),
        }
    }

    /// The first record that retention has left; None where only the files tell.
    fn first_kept(&self) -> io::Result<Option<Sequence>> {
        let Self::Files(_, file) = self else { return Ok(None) };
        let mark = LogMark::read(file.as_ref())?.ok().flatten();
        Ok(mark.and_then(|mark| mark.extent).map(|extent| extent.first.first))
    }

    /// The sparse index of a segment; empty where there is none yet or it is damaged, so that reading starts at the
    /// first record.
    fn sparse(&self, segment: &SegmentFile) -> io::Result<Vec<SparsePoint>> {
        if let Self::Live(log) = self
            && let Some(sparse) = log.sparse_of(segment.name)
        {
            return Ok(sparse);
        }
        let Some(trailer) = segment.trailer()? else { return Ok(Vec::new()) };
        Ok(trailer.read_sparse(segment.file.as_ref(), segment.file_bytes)?.unwrap_or_default())
    }
}

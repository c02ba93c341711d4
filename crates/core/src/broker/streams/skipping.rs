//! A reader with a query passes over messages that cannot satisfy it, by the summaries of sealed segments.

use crate::journal::{Log, LogReader, SegmentNumber, Sequence};

use crate::broker::streams::summary::RunCondition;
use crate::broker::streams::summary_file::{Sealed, SummaryFile, Verdict};
use crate::broker::topology::ConsumerFilter;

/// The number of messages that are read where there is no summary, before one is looked for again.
const LOOK_AGAIN_AFTER: u64 = 4096;

/// The summaries of the messages ahead of a reader.
#[derive(Debug)]
pub(crate) struct Skipping {
    condition: RunCondition,
    /// The messages before this number have to be read.
    read_until: Sequence,
    summaries: Option<(Sealed, SummaryFile)>,
    room: Vec<u8>,
}

/// The next step of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It reads the message at its position.
    Read,
    /// It has moved, and looks again.
    Moved,
    /// It reads on, and the segments after this one are to be summarized.
    Lacks(SegmentNumber),
}

impl Skipping {
    /// For the query of a consumer; None when every message may satisfy it.
    pub fn of(filter: Option<&ConsumerFilter>) -> Option<Box<Self>> {
        let condition = RunCondition::of(&filter?.query().necessity())?;
        Some(Box::new(Self { condition, read_until: Sequence(0), summaries: None, room: Vec::new() }))
    }

    /// Move a reader over the run at its position, if none of its messages can satisfy the query.
    ///
    /// Cost: one read of at most 10 KiB for each run.
    #[inline]
    pub fn step(&mut self, log: &Log, reader: &mut LogReader) -> Step {
        if reader.position() < self.read_until || reader.awaits_time() { Step::Read } else { self.look(log, reader) }
    }

    /// Close the file of the summaries.
    pub fn rest(&mut self) {
        self.summaries = None;
    }

    fn look(&mut self, log: &Log, reader: &mut LogReader) -> Step {
        let position = reader.position();
        let Some((sealed, file)) = self.summaries.take().filter(|(sealed, _)| sealed.has(position)) else {
            return self.open(log, position);
        };
        match file.look(position, &self.condition, &mut self.room) {
            Verdict::Read(last) => self.read_until = last.next(),
            Verdict::Skip(last) => {
                reader.seek(last.next());
                self.summaries = Some((sealed, file));
                return Step::Moved;
            }
            Verdict::Damaged => {
                log.remove_summary(sealed.ordinal);
                return self.lack(sealed);
            }
        }
        self.summaries = Some((sealed, file));
        Step::Read
    }

    /// Open the summaries of the segment at this position.
    fn open(&mut self, log: &Log, position: Sequence) -> Step {
        let Some(sealed) = Sealed::at(log, position) else {
            self.read_until = Sequence(position.0.saturating_add(LOOK_AGAIN_AFTER));
            return Step::Read;
        };
        match SummaryFile::open(log, sealed) {
            Some(file) => {
                self.summaries = Some((sealed, file));
                Step::Moved
            }
            None => self.lack(sealed),
        }
    }

    /// Read the whole segment, since there are no summaries of it.
    fn lack(&mut self, sealed: Sealed) -> Step {
        self.read_until = sealed.last.next();
        Step::Lacks(SegmentNumber(sealed.ordinal.0 - 1))
    }
}

impl Sealed {
    fn has(&self, sequence: Sequence) -> bool {
        (self.first..=self.last).contains(&sequence)
    }
}

//! The numbers of a stream that keeps no history: each names one message for ever, though no message is on disk.
//!
//! The log of such a stream has no messages. Each of its records takes a block of numbers: while the record with the number
//! `n` is on disk, no broker ever gives a number up to `n` blocks again. The next block is taken long before it is needed, so
//! that nobody waits for the disk. A restart leaves out what remains of the block.

use crate::journal::{AppendError, Log, Sequence};

use crate::broker::streams::stream_record;

/// The numbers in a block.
pub(crate) const BLOCK: u64 = if cfg!(test) { 16 } else { 1 << 20 };

/// The numbers that a stream without history has given, and those that its log has taken.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The first number since the broker began.
    begin: Sequence,
    next: Sequence,
    /// The last number of the blocks whose records are appended.
    taken: u64,
}

impl Numbers {
    /// Those behind all that the log says were taken.
    pub fn after(log: &Log) -> Self {
        let taken = log.next_sequence().previous().0 * BLOCK;
        let begin = Sequence(taken + 1);
        Self { begin, next: begin, taken }
    }

    /// The first number since the broker began: what was missed before cannot be counted.
    pub fn begin(&self) -> Sequence {
        self.begin
    }

    /// The number that the next message gets.
    pub fn next(&self) -> Sequence {
        self.next
    }

    /// The last number that was given and that no crash can take back.
    pub fn safe(&self, log: &Log) -> Sequence {
        self.next.previous().min(Sequence(log.synced().0 * BLOCK))
    }

    /// Give the next number.
    ///
    /// # Errors
    /// There is none left, and the log takes no record.
    pub fn give(&mut self, log: &Log, wall_us: i64) -> Result<Sequence, AppendError> {
        self.take_blocks(log, wall_us)?;
        let number = self.next;
        self.next = number.next();
        Ok(number)
    }

    /// Take a block of numbers when less than half of one is left.
    ///
    /// # Errors
    /// There is no number left, and the log takes no record.
    #[inline]
    pub fn take_blocks(&mut self, log: &Log, wall_us: i64) -> Result<(), AppendError> {
        if self.next.0 + BLOCK / 2 > self.taken {
            match log.append(stream_record::NUMBERS, wall_us, &[], &[]) {
                Ok(_) => self.taken += BLOCK,
                Err(reason) if self.next.0 > self.taken => return Err(reason),
                Err(_) => {} // it is tried again
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::journal::{Committer, Dice, LogOptions, SimulatedDisk};
    use crate::testing::or_few;

    /// Give numbers, commit and cut the power. Returns how many were given twice, though they were safe.
    fn given_twice(records: bool) -> usize {
        let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(7));
        let (mut last_safe, mut twice) = (Sequence(0), 0);
        for _ in 0..or_few(200, 20) {
            let committer = Committer::manual(|| {});
            let dir = Path::new("/data/numbers");
            let opened = Log::open(Arc::new(disk.clone()), dir, LogOptions::default(), &committer);
            let log = opened.expect("opened").0;
            let mut numbers = Numbers::after(&log);
            for _ in 0..dice.below(100) {
                if dice.once_in(4) {
                    committer.commit_once();
                }
                if !records {
                    numbers.taken = u64::MAX / 2;
                }
                let number = numbers.give(&log, 0).expect("a number");
                twice += usize::from(number <= last_safe);
            }
            let safe = if records { numbers.safe(&log) } else { numbers.next.previous() };
            assert!(safe >= log.synced().min(last_safe), "what was safe stays so");
            last_safe = last_safe.max(safe);
            drop(log);
            disk.power_cut(&mut dice);
        }
        twice
    }

    #[test]
    fn a_safe_number_is_never_given_again() {
        assert_eq!(given_twice(true), 0);
    }

    #[test]
    fn control_numbers_that_no_record_takes_are_given_again() {
        assert!(given_twice(false) > 0);
    }
}

//! Publisher confirms: messages are numbered as they are published, and acknowledged in as few acks as possible.
//!
//! A message is confirmed when every log that keeps it has synced it, and at once when none keeps it. Acks go out in order,
//! so that one with `multiple` covers many messages; a refused message gets a nack of its own, at once.

use std::collections::VecDeque;

use crate::broker::ids::LogId;

/// A point up to which a log must be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskMark {
    pub log: LogId,
    pub sequence: u64,
}

/// All marks that must be reached: nearly always one or none.
pub(crate) type DiskMarks = smallvec::SmallVec<[DiskMark; 1]>;

/// An ack for the publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub tag: u64,
    pub multiple: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Confirms {
    pub(super) published: u64,
    /// The number up to which all messages have been acked or nacked.
    pub(super) told: u64,
    /// Messages that wait for a disk, by number.
    pub(super) waiting: VecDeque<(u64, DiskMarks)>,
}

impl Confirms {
    /// Count a message, and return its number. It is confirmed as soon as all messages before it are.
    #[inline]
    pub fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// Confirm the last message, which has this number, only when these marks are reached.
    pub fn wait(&mut self, number: u64, marks: DiskMarks) {
        debug_assert_eq!(number, self.published);
        if !marks.is_empty() {
            self.waiting.push_back((number, marks));
        }
    }

    /// The next ack, if any: for all messages that can be confirmed and have not been.
    pub fn acknowledge(&mut self, is_reached: impl Fn(DiskMark) -> bool) -> Option<Acknowledged> {
        while let Some((_, marks)) = self.waiting.front() {
            if !marks.iter().all(|mark| is_reached(*mark)) {
                break;
            }
            self.waiting.pop_front();
        }
        let done = self.waiting.front().map_or(self.published, |(number, _)| number - 1);
        if done == self.told {
            return None;
        }
        let multiple = done - self.told > 1;
        self.told = done;
        Some(Acknowledged { tag: done, multiple })
    }

    /// Note that the last message was nacked. Messages before it are acked first, or by a later ack, whose range then
    /// covers this number without confirming it.
    pub fn refuse(&mut self, number: u64) {
        if self.told + 1 == number {
            self.told = number;
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> DiskMarks {
        smallvec::smallvec![DiskMark { log: LogId(0), sequence }]
    }

    fn told(confirms: &mut Confirms, synced: u64) -> Option<(u64, bool)> {
        confirms.acknowledge(|mark| mark.sequence <= synced).map(|ack| (ack.tag, ack.multiple))
    }

    #[test]
    fn a_run_is_told_in_one_ack() {
        let mut confirms = Confirms::default();
        assert_eq!(told(&mut confirms, 0), None);
        confirms.publish();
        assert_eq!(told(&mut confirms, 0), Some((1, false)));
        for _ in 0..3 {
            confirms.publish();
        }
        assert_eq!((told(&mut confirms, 0), told(&mut confirms, 0)), (Some((4, true)), None));
    }

    #[test]
    fn nothing_is_told_before_it_is_on_disk() {
        let mut confirms = Confirms::default();
        for sequence in [10, 20, 30] {
            let number = confirms.publish();
            confirms.wait(number, mark(sequence));
        }
        confirms.publish();
        assert_eq!(told(&mut confirms, 9), None);
        assert_eq!(told(&mut confirms, 20), Some((2, true)));
        assert!(confirms.is_waiting());
        assert_eq!(told(&mut confirms, 30), Some((4, true)), "the transient one went behind the third");
        assert!(!confirms.is_waiting());
    }

    #[test]
    fn a_message_in_two_logs_waits_for_both() {
        let mut confirms = Confirms::default();
        let number = confirms.publish();
        confirms.wait(
            number,
            smallvec::smallvec![DiskMark { log: LogId(0), sequence: 5 }, DiskMark { log: LogId(1), sequence: 7 }],
        );
        assert_eq!(confirms.acknowledge(|mark| mark.log == LogId(0)), None);
        assert!(confirms.acknowledge(|_| true).is_some());
    }

    #[test]
    fn a_refused_message_is_not_acknowledged_as_well() {
        let mut confirms = Confirms::default();
        let number = confirms.publish();
        confirms.refuse(number);
        assert_eq!(told(&mut confirms, 0), None);
        confirms.publish();
        assert_eq!(told(&mut confirms, 0), Some((2, false)));
    }
}

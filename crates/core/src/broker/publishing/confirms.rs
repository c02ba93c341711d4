//! Publisher confirms: messages are numbered as they are published, and acknowledged in as few acks as possible.
//!
//! A message is confirmed when every log that keeps it has synced it, and at once when none keeps it. Acks go out in order,
//! so that one with `multiple` covers many messages. A refused message gets a nack of its own, at once, and no ack ever
//! covers it: a client may take the last word for what is true.

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
    /// Messages that wait for a disk, by number; one in several logs is there once for each.
    pub(super) waiting: VecDeque<(u64, DiskMark)>,
    /// Messages that were nacked before all earlier ones were acked or nacked, by number.
    pub(super) refused: VecDeque<u64>,
}

/// Maximum number of messages that are refused while an earlier one waits for a disk: 8 MiB of numbers.
pub(crate) const REFUSED_MAX: usize = 1 << 20;

impl Confirms {
    /// Count a message, and return its number. It is confirmed as soon as all messages before it are.
    #[inline]
    pub fn publish(&mut self) -> u64 {
        self.published += 1;
        self.published
    }

    /// Confirm the last message, which has this number, only when these marks are reached.
    #[inline]
    pub fn wait(&mut self, number: u64, marks: &[DiskMark]) {
        debug_assert_eq!(number, self.published);
        for mark in marks {
            self.waiting.push_back((number, *mark));
        }
    }

    /// The next ack, if any: for all messages that can be confirmed and have not been, up to the next refused one. Call it
    /// until there is none.
    pub fn acknowledge(&mut self, is_reached: impl Fn(DiskMark) -> bool) -> Option<Acknowledged> {
        while self.waiting.front().is_some_and(|(_, mark)| is_reached(*mark)) {
            self.waiting.pop_front();
        }
        let done = self.waiting.front().map_or(self.published, |(number, _)| number - 1);
        let done = self.refused.front().map_or(done, |refused| done.min(refused - 1));
        let count = done - self.told;
        self.told = done;
        self.pass_refused();
        (count > 0).then_some(Acknowledged { tag: done, multiple: count > 1 })
    }

    /// Note that the last message was nacked. False when too many were since the first one that waits for a disk.
    pub fn refuse(&mut self, number: u64) -> bool {
        debug_assert_eq!(number, self.published);
        self.refused.push_back(number);
        self.pass_refused();
        self.refused.len() <= REFUSED_MAX
    }

    /// Let acks cover the messages that were nacked: a planted fault.
    #[cfg(test)]
    pub fn forget_refused(&mut self) {
        self.refused.clear();
    }

    /// Pass over refused messages whose turn has come.
    fn pass_refused(&mut self) {
        while self.refused.front() == Some(&(self.told + 1)) {
            self.refused.pop_front();
            self.told += 1;
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rounds;

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
            confirms.wait(number, &mark(sequence));
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
        confirms.wait(number, &[DiskMark { log: LogId(0), sequence: 5 }, DiskMark { log: LogId(1), sequence: 7 }]);
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

    #[test]
    fn no_range_of_acks_covers_a_refused_message() {
        let mut confirms = Confirms::default();
        let publish = |confirms: &mut Confirms, refused: bool| {
            let number = confirms.publish();
            match refused {
                true => assert!(confirms.refuse(number)),
                false => confirms.wait(number, &mark(number)),
            }
        };
        for refused in [false, false, true, true, false, true] {
            publish(&mut confirms, refused);
        }
        assert_eq!((told(&mut confirms, 1), told(&mut confirms, 1)), (Some((1, false)), None));
        assert_eq!((told(&mut confirms, 2), told(&mut confirms, 2)), (Some((2, false)), None), "and it passes 3 and 4");
        confirms.publish();
        confirms.publish();
        assert_eq!((told(&mut confirms, 5), told(&mut confirms, 5)), (Some((5, false)), Some((8, true))));
        assert!(told(&mut confirms, 9).is_none() && confirms.refused.is_empty());
    }

    /// The answers as a client sees them that keeps the last answer to each number, as Go's does.
    #[test]
    fn every_message_is_told_once_and_right_whatever_the_order() {
        for pattern in rounds(0u32..1 << 10) {
            let (mut confirms, mut told_of) = (Confirms::default(), [None; 10]);
            for index in 0..5 {
                let number = confirms.publish();
                match pattern >> (2 * index) & 3 {
                    0 => {}
                    1 => confirms.wait(number, &mark(number)),
                    2 => confirms.wait(number, &mark(1)),
                    _ => {
                        confirms.refuse(number);
                        told_of[number as usize] = Some(false);
                    }
                }
                tell(&mut confirms, number / 2, &mut told_of);
            }
            tell(&mut confirms, 5, &mut told_of);
            for (index, told) in told_of[1..=5].iter().enumerate() {
                let is_refused = pattern >> (2 * index) & 3 == 3;
                assert_eq!(*told, Some(!is_refused), "{index} of pattern {pattern:010b}");
            }
        }
    }

    /// Take all acks that are due. One with `multiple` covers every number from the first that was not told.
    fn tell(confirms: &mut Confirms, synced: u64, told_of: &mut [Option<bool>]) {
        while let Some((tag, multiple)) = told(confirms, synced) {
            let untold = (1..tag as usize).find(|number| told_of[*number].is_none());
            let first = untold.filter(|_| multiple).unwrap_or(tag as usize);
            for told in &mut told_of[first..=tag as usize] {
                assert_eq!(told.replace(true), None, "one of {first} to {tag} was told before");
            }
        }
    }
}

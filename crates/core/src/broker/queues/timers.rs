//! Timers: the time at which each queue has something to expire, the earliest first.
//!
//! A queue has at most one timer. It is never later than the queue's next deadline, and may be earlier: consumers take the
//! message that would have expired. Then the queue is visited in vain, once, and gets a timer for its next deadline.

use std::collections::BTreeSet;

use crate::broker::clock::{Micros, NEVER};
use crate::broker::topology::QueueId;

/// The timers of all queues: setting, moving and removing one takes logarithmic time.
#[derive(Debug)]
pub(crate) struct Timers {
    set: BTreeSet<(Micros, QueueId)>,
    /// The time of the first: every call looks at it.
    first: Micros,
    /// The time for which the caller has set its alarm; NEVER when it has none.
    told: Micros,
}

impl Default for Timers {
    fn default() -> Self {
        Self { set: BTreeSet::new(), first: NEVER, told: NEVER }
    }
}

impl Timers {
    /// Move the timer of a queue from `old` to `new`; NEVER stands for no timer.
    pub fn move_timer(&mut self, queue: QueueId, old: Micros, new: Micros) {
        if old != NEVER {
            self.set.remove(&(old, queue));
        }
        if new != NEVER {
            self.set.insert((new, queue));
        }
        self.first = self.set.first().map_or(NEVER, |(time, _)| *time);
    }

    /// The queue whose timer has run out first, if one has.
    pub fn due(&self, now: Micros) -> Option<QueueId> {
        if self.is_due(now) { self.set.first().map(|(_, queue)| *queue) } else { None }
    }

    /// Whether a timer has run out.
    #[inline]
    pub fn is_due(&self, now: Micros) -> bool {
        self.first <= now
    }

    /// The time for which the caller has to set its alarm, when that is earlier than what it was told before, or when that
    /// alarm has rung. What is due already needs no alarm. `other` is the time of something else; NEVER for none.
    #[inline]
    pub fn alarm(&mut self, now: Micros, other: Micros) -> Option<Micros> {
        let first = self.first.min(other);
        if first == NEVER || first <= now || (first >= self.told && self.told > now) {
            return None;
        }
        self.told = first;
        Some(first)
    }

    /// The caller has been woken, maybe too early: it is told again what comes next.
    pub fn forget_alarm(&mut self) {
        self.told = NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::slab::SlotId;

    fn queue(number: u32) -> QueueId {
        QueueId::from_index(number)
    }

    #[test]
    fn the_queue_whose_time_is_up_first_comes_first() {
        let mut timers = Timers::default();
        for (number, time) in [(0, 30), (1, 10), (2, 20), (3, 10)] {
            timers.move_timer(queue(number), NEVER, time);
        }
        timers.move_timer(queue(3), 10, 5);
        assert_eq!((timers.due(4), timers.due(5)), (None, Some(queue(3))));
        timers.move_timer(queue(3), 5, NEVER);
        assert_eq!((timers.due(9), timers.due(100)), (None, Some(queue(1))));
    }

    #[test]
    fn an_alarm_is_told_once_and_again_when_it_is_earlier_or_has_rung() {
        let mut timers = Timers::default();
        assert_eq!(timers.alarm(0, NEVER), None);
        timers.move_timer(queue(0), NEVER, 30);
        assert_eq!((timers.alarm(0, NEVER), timers.alarm(0, NEVER)), (Some(30), None));
        timers.move_timer(queue(1), NEVER, 40);
        assert_eq!(timers.alarm(0, NEVER), None, "it is later");
        timers.move_timer(queue(2), NEVER, 20);
        assert_eq!(timers.alarm(0, NEVER), Some(20));
        assert_eq!(timers.alarm(25, NEVER), None, "what is due needs none");
        timers.move_timer(queue(2), 20, NEVER);
        assert_eq!((timers.alarm(25, NEVER), timers.alarm(25, NEVER)), (Some(30), None));
        timers.forget_alarm();
        assert_eq!(timers.alarm(29, NEVER), Some(30), "it was woken too early");
        assert_eq!((timers.alarm(26, 27), timers.alarm(26, 28)), (Some(27), None), "something else comes first");
    }
}

//! What waits for the disk: queues, readers of streams, connections that get messages, and dead letters.
//!
//! A read of bytes that are not in memory fails, and the system begins to read them. Whoever needs them waits here for a
//! millisecond and asks again, and all others go on meanwhile. One that has asked in vain for a second reads in such a way
//! that the broker waits for the disk, and so learns what is wrong with it.
//!
//! ADR 0027 says which reads still wait.

use crate::journal::Wait;

use crate::broker::clock::{Micros, NEVER};
use crate::broker::ids::{ConnectionSlot, ConsumerSlot, Handle};
use crate::broker::topology::QueueId;

/// The time between two tries.
pub(crate) const RETRY_US: Micros = 1_000;
/// The time after which one that has asked in vain waits for the disk.
const PATIENCE_US: Micros = 1_000_000;

/// Since when something has asked the disk in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskWait(Micros);

impl Default for DiskWait {
    fn default() -> Self {
        Self(NEVER)
    }
}

impl DiskWait {
    /// Whether the next read waits for the disk.
    pub fn wait(self, now: Micros) -> Wait {
        if self.0 != NEVER && now.saturating_sub(self.0) > PATIENCE_US { Wait::ForDisk } else { Wait::Never }
    }

    /// Note whether the disk has answered, or was asked in vain.
    pub fn note(&mut self, has_answered: bool, now: Micros) {
        self.0 = if has_answered { NEVER } else { self.0.min(now) };
    }
}

/// Those who ask again soon.
#[derive(Debug)]
pub(crate) struct DiskWaits {
    pub queues: Vec<Handle<QueueId>>,
    pub readers: Vec<Handle<ConsumerSlot>>,
    pub connections: Vec<Handle<ConnectionSlot>>,
    /// The wait of the first dead letter.
    pub letter: DiskWait,
    /// The time of the next try; NEVER when nobody waits.
    retry: Micros,
}

impl Default for DiskWaits {
    fn default() -> Self {
        let (queues, readers, connections) = (Vec::new(), Vec::new(), Vec::new());
        Self { queues, readers, connections, letter: DiskWait::default(), retry: NEVER }
    }
}

impl DiskWaits {
    /// Whether those who wait ask again now.
    #[inline]
    pub fn are_due(&self, now: Micros) -> bool {
        self.retry <= now
    }

    /// The time at which they ask again; NEVER when nobody waits.
    #[inline]
    pub fn retry(&self) -> Micros {
        self.retry
    }

    /// Let those who wait ask again soon.
    pub fn set_retry(&mut self, now: Micros) {
        self.retry = self.retry.min(now + RETRY_US);
    }

    /// Note that they ask again now.
    pub fn forget_retry(&mut self) {
        self.retry = NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_asked_in_vain_for_long_waits_for_the_disk() {
        let mut wait = DiskWait::default();
        assert_eq!(wait.wait(NEVER - 1), Wait::Never, "it has not asked");
        wait.note(false, 10);
        wait.note(false, 500_000);
        assert_eq!(wait.wait(10 + PATIENCE_US), Wait::Never);
        assert_eq!(wait.wait(11 + PATIENCE_US), Wait::ForDisk);
        wait.note(true, 11 + PATIENCE_US);
        assert_eq!(wait.wait(NEVER - 1), Wait::Never);
    }
}

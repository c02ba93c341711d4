//! Credit: how many more messages may be delivered before earlier ones are acknowledged.
//!
//! The wire setting is `prefetch_count` of basic.qos; credit is what is left of it. A consumer has its own credit and shares
//! its channel's (`global`). A delivery takes one of each, and gives both back when it is acknowledged, requeued or dropped.
//! A consumer without acknowledgements (`no_ack`) takes no credit.

/// The remainder of a prefetch limit. A limit of 0 is no limit, as on the wire.
///
/// Outstanding messages are counted even without a limit, because a limit may be set later: then nothing more is delivered
/// until fewer messages than the limit are outstanding, and nothing that was delivered is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    limit: u16,
    outstanding: u32,
}

impl Credit {
    pub fn new(limit: u16) -> Self {
        Self { limit, outstanding: 0 }
    }

    #[inline]
    pub fn is_left(self) -> bool {
        self.limit == 0 || self.outstanding < u32::from(self.limit)
    }

    /// Take one for a delivery. Only when [`Credit::is_left`]; a message that is fetched by basic.get takes none.
    #[inline]
    pub fn take(&mut self) {
        self.outstanding += 1;
    }

    /// Give back `count`. Returns true when nothing was left before and something is now: a waiting consumer may go on.
    #[inline]
    pub fn give(&mut self, count: u32) -> bool {
        debug_assert!(count <= self.outstanding, "more came back than went out");
        let was_left = self.is_left();
        self.outstanding = self.outstanding.saturating_sub(count);
        !was_left && self.is_left()
    }

    /// Set another limit. Returns true when nothing was left before and something is now.
    pub fn set_limit(&mut self, limit: u16) -> bool {
        let was_left = self.is_left();
        self.limit = limit;
        !was_left && self.is_left()
    }

    /// The number that is left; None without a limit.
    pub fn left(self) -> Option<u32> {
        (self.limit > 0).then(|| u32::from(self.limit).saturating_sub(self.outstanding))
    }

    pub fn limit(self) -> u16 {
        self.limit
    }

    pub fn outstanding(self) -> u32 {
        self.outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fewer;

    fn take_all(credit: &mut Credit, at_most: u32) -> u32 {
        (0..at_most).take_while(|_| credit.is_left().then(|| credit.take()).is_some()).count() as u32
    }

    #[test]
    fn no_more_goes_out_than_the_limit() {
        let mut credit = Credit::new(3);
        assert_eq!(take_all(&mut credit, 10), 3);
        assert!(credit.give(1), "one came back, so whoever waited may go on");
        assert!(!credit.give(1), "nobody waited");
        assert_eq!(take_all(&mut credit, 10), 2);
    }

    #[test]
    fn a_limit_of_zero_is_no_limit() {
        let mut credit = Credit::new(0);
        let count = fewer(100_000) as u32;
        assert_eq!(take_all(&mut credit, count), count);
        assert!(!credit.give(count));
        assert_eq!(credit.outstanding(), 0);
    }

    #[test]
    fn a_limit_that_comes_later_waits_for_what_is_outstanding() {
        let mut credit = Credit::new(0);
        take_all(&mut credit, 5);
        assert!(!credit.set_limit(2));
        assert_eq!(credit.left(), Some(0));
        assert!(!credit.give(3), "two are still outstanding");
        assert!(credit.give(1));
        assert_eq!(take_all(&mut credit, 10), 1);
        assert!(credit.set_limit(4), "a wider limit leaves something at once");
        assert!(!credit.set_limit(0));
        assert_eq!((credit.limit(), credit.outstanding(), credit.left()), (0, 2, None));
    }
}

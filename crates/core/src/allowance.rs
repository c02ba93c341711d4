//! The time that matching one message may take, in nanoseconds by the rates below: no clock is read.
//!
//! Whatever reads a text pays for it first. When nothing is left, everything that would read on is unknown, and the match
//! ends soon. A library's message has an unlimited allowance; that of a broker is
//! [`BrokerOptions::match_ns_max`](crate::broker::BrokerOptions).

use std::cell::Cell;

/// The worst time per byte to search for a text of a LIKE pattern.
pub const LIKE_NS: u64 = 2;
/// The worst time per byte of a regular expression's automaton whose states are known.
pub const REGEX_NS: u64 = 3;
/// The time to make a state of a regular expression's automaton, for each state of its program.
pub const REGEX_STATE_NS: u64 = 8;
/// The time per byte to cut a text into words and to file them, when it is not ASCII.
pub const WORDS_NS: u64 = 40;
/// The time per byte to cut a text in ASCII into words and to file them.
const ASCII_WORDS_NS: u64 = 16;
/// The time to begin the signature of a text.
pub const SIGNATURE_NS: u64 = 300;
/// The time to look for a pair of words that stand one after the other in a text.
pub const WORD_PAIR_NS: u64 = 60;
/// The time to look for a word of a phrase after another one.
pub const PHRASE_NS: u64 = 28;
/// The time per word to find a long phrase in one pass.
pub const LONG_PHRASE_NS: u64 = 12;
/// The worst time per byte to compare the positions of two words.
pub const NEAR_NS: u64 = 1;
/// The time per byte to copy or to compare a text.
pub const COPY_NS: u64 = 1;
/// The worst time per byte to look for all needles of a segment at once.
pub const NEEDLES_NS: u64 = 4;
/// The time per byte to parse JSON, without that of its values.
pub const JSON_NS: u64 = 4;
/// The time to make a value of JSON.
pub const JSON_VALUE_NS: u64 = 150;
/// The time per element of a list.
pub const ELEMENT_NS: u64 = 10;
/// The time per predicate or query that is evaluated.
pub const EVALUATION_NS: u64 = 20;

/// The time per byte to cut `text` into words and to file them.
#[must_use]
pub fn words_ns(text: &str) -> u64 {
    if text.is_ascii() { ASCII_WORDS_NS } else { WORDS_NS }
}

/// The time that is left for one message.
#[derive(Debug)]
pub struct Allowance {
    left_ns: Cell<u64>,
    is_over: Cell<bool>,
}

impl Allowance {
    /// An allowance of this many nanoseconds.
    #[must_use]
    pub fn new(ns: u64) -> Self {
        Self { left_ns: Cell::new(ns), is_over: Cell::new(false) }
    }

    /// An allowance that does not end.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Whether it is so large that it never ends: then nothing needs to be measured.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.left_ns.get() > u64::MAX / 2
    }

    /// Pay for `count` times something. False, now and from now on, when less is left.
    #[inline]
    pub fn spend(&self, count: usize, ns: u64) -> bool {
        match self.left_ns.get().checked_sub((count as u64).saturating_mul(ns)) {
            Some(left) => {
                self.left_ns.set(left);
                true
            }
            None => {
                self.left_ns.set(0);
                self.is_over.set(true);
                false
            }
        }
    }

    /// Whether something could not be paid for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// The nanoseconds that are left.
    #[must_use]
    pub fn left_ns(&self) -> u64 {
        self.left_ns.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_paid_for_ends_the_allowance() {
        let allowance = Allowance::new(100);
        assert!(allowance.spend(10, 9) && !allowance.is_over());
        assert!(!allowance.spend(11, 1) && allowance.is_over() && !allowance.spend(1, 1));
        let unlimited = Allowance::unlimited();
        assert!(unlimited.spend(usize::MAX / 4, 1) && unlimited.is_unlimited());
    }
}

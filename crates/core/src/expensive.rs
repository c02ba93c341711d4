//! Expensive predicates: tests with a declared cost, evaluated last and at most once per message.
//!
//! An [`ExpensivePredicate`] is the test itself. An [`Opaque`] shares it between queries, counts its calls, and lets a
//! message remember its answer, so that it is called once however many queries contain it.
//! `query/evaluation/residual.rs` calls it only when no cheaper predicate decides the query.
//!
//! Sources: the ITMO paper, predicates that cost 10 to 500 ns; `docs/semantics.md`, "Hierarchies and expensive predicates".

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use hashbrown::HashMap;

use crate::message::Message;
use crate::mutex::lock;
use crate::query::truth::Truth;

/// One call in this many is timed: reading the clock twice costs as much as a small predicate.
const TIMED_EVERY: u64 = 16;

/// The maximum number of characters of a failure's reason that are kept.
const REASON_CHARACTERS_MAX: usize = 200;

/// A test of a message that costs more than an index may spend on it.
pub trait ExpensivePredicate: Send + Sync + fmt::Debug {
    /// The name for people.
    fn name(&self) -> &str;

    /// The declared cost of a call, in nanoseconds; finite, at least 0. It only decides which predicate is called
    /// first.
    fn cost_ns(&self) -> f64;

    /// True, false or unknown (None) of `message`. The answer must depend on the message alone.
    ///
    /// # Errors
    /// The reason why there is no answer: the predicate is then unknown, and the failure is counted.
    fn test(&self, message: &Message<'_>) -> Result<Truth, Failure>;
}

/// The reason why an expensive predicate could not answer, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// An expensive predicate as queries hold it: shared, counted, and equal only to itself and its clones.
#[derive(Clone, Debug)]
pub struct Opaque(Arc<OpaqueState>);

#[derive(Debug)]
struct OpaqueState {
    /// A number that is never used again, unlike an address: a message may outlive a predicate whose answer it
    /// remembers.
    serial: u64,
    predicate: Box<dyn ExpensivePredicate>,
    calls: AtomicU64,
    errors: AtomicU64,
    timed_calls: AtomicU64,
    timed_ns: AtomicU64,
    last_error: Mutex<Option<String>>,
}

/// Statistics of an expensive predicate's calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpaqueCounts {
    /// The number of calls; using a remembered answer is no call.
    pub calls: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The mean time of the calls that were timed, the first and one in sixteen; None before the first.
    pub measured_ns: Option<f64>,
    /// The reason of the last failure, cut to 200 characters.
    pub last_error: Option<String>,
}

impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        self.serial() == other.serial()
    }
}

impl Opaque {
    /// Shares `predicate`.
    #[must_use]
    pub fn new(predicate: impl ExpensivePredicate + 'static) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(OpaqueState {
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
            predicate: Box::new(predicate),
            calls: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            timed_calls: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
            last_error: Mutex::new(None),
        }))
    }

    /// The name for people; several predicates may have the same.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.predicate.name()
    }

    /// The declared cost of a call, in nanoseconds.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        self.0.predicate.cost_ns()
    }

    /// The serial number, unique in this process and never used again.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.0.serial
    }

    /// True, false or unknown of `message`. The first answer is remembered by the message; a failure is unknown.
    #[must_use]
    pub fn evaluate(&self, message: &Message<'_>) -> Truth {
        message.remembered(self.serial()).unwrap_or_else(|| {
            let truth = self.call(message);
            message.remember(self.serial(), truth);
            truth
        })
    }

    fn call(&self, message: &Message<'_>) -> Truth {
        let timed = self.0.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIMED_EVERY).then(Instant::now);
        let answer = self.0.predicate.test(message);
        if let Some(start) = timed {
            let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.0.timed_ns.fetch_add(elapsed, Ordering::Relaxed);
            self.0.timed_calls.fetch_add(1, Ordering::Relaxed);
        }
        answer.unwrap_or_else(|failure| {
            self.0.errors.fetch_add(1, Ordering::Relaxed);
            let reason = failure.0.chars().take(REASON_CHARACTERS_MAX).collect();
            *lock(&self.0.last_error) = Some(reason);
            None
        })
    }

    /// The statistics of its calls so far, in all queries and engines.
    #[must_use]
    pub fn counts(&self) -> OpaqueCounts {
        let timed_calls = self.0.timed_calls.load(Ordering::Relaxed);
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = || self.0.timed_ns.load(Ordering::Relaxed) as f64 / timed_calls as f64;
        OpaqueCounts {
            calls: self.0.calls.load(Ordering::Relaxed),
            errors: self.0.errors.load(Ordering::Relaxed),
            measured_ns: (timed_calls > 0).then(mean),
            last_error: lock(&self.0.last_error).clone(),
        }
    }
}

/// Expensive predicates by index: a record holds the index instead of the predicate, which cannot be saved as bytes.
#[derive(Clone, Debug, Default)]
pub struct OpaqueTable {
    opaques: Vec<Opaque>,
    indices: HashMap<u64, usize>,
}

impl OpaqueTable {
    /// The index of `opaque`, a new one when it has none yet.
    pub fn index_of(&mut self, opaque: &Opaque) -> usize {
        *self.indices.entry(opaque.serial()).or_insert_with(|| {
            self.opaques.push(opaque.clone());
            self.opaques.len() - 1
        })
    }

    /// All predicates, by index.
    #[must_use]
    pub fn as_slice(&self) -> &[Opaque] {
        &self.opaques
    }
}

/// An expensive predicate that spins for its declared cost and then answers, for tests and benchmarks (the ITMO paper
/// injects 10 to 500 ns).
pub struct InjectedCost<F> {
    name: String,
    cost_ns: f64,
    turns: u64,
    answer: F,
}

/// The maximum time that [`InjectedCost`] spins, whatever cost it declares: a damaged snapshot may contain any number.
const INJECTED_NS_MAX: f64 = 1e6;

impl<F: Fn(&Message<'_>) -> Truth> InjectedCost<F> {
    /// Spins for `cost_ns` nanoseconds of one core (within a few tens of percent, at most a millisecond), then answers
    /// `answer`.
    pub fn new(name: &str, cost_ns: f64, answer: F) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of turns, at least 0")]
        let turns = (cost_ns.min(INJECTED_NS_MAX) / turn_ns()) as u64;
        Self { name: name.to_owned(), cost_ns, turns, answer }
    }
}

impl<F> fmt::Debug for InjectedCost<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InjectedCost({}, {} ns)", self.name, self.cost_ns)
    }
}

impl<F: Fn(&Message<'_>) -> Truth + Send + Sync> ExpensivePredicate for InjectedCost<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_ns(&self) -> f64 {
        self.cost_ns
    }

    fn test(&self, message: &Message<'_>) -> Result<Truth, Failure> {
        spin(self.turns);
        Ok((self.answer)(message))
    }
}

/// Work that the compiler cannot shorten: each iteration waits for the one before.
fn spin(turns: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..turns {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// The time of one iteration of [`spin`] on this machine, measured once: a clock is too slow to spin on for 10 ns.
fn turn_ns() -> f64 {
    const TURNS: u64 = if cfg!(miri) { 1_000 } else { 1_000_000 };
    static TURN_NS: OnceLock<f64> = OnceLock::new();
    *TURN_NS.get_or_init(|| {
        let start = Instant::now();
        spin(TURNS);
        #[expect(clippy::cast_precision_loss, reason = "a measurement")]
        let turn = start.elapsed().as_nanos() as f64 / TURNS as f64;
        turn.max(0.01)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Body, Properties};

    #[derive(Debug)]
    struct Broken;

    impl ExpensivePredicate for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn cost_ns(&self) -> f64 {
            1.0
        }

        fn test(&self, _: &Message<'_>) -> Result<Truth, Failure> {
            Err(Failure("no answer ".repeat(100)))
        }
    }

    fn ask(opaque: &Opaque, times: usize) -> Truth {
        let properties = Properties::default();
        let message = Message::new("", &properties, Body::Absent);
        (0..times).map(|_| opaque.evaluate(&message)).last().flatten()
    }

    #[test]
    fn a_message_remembers_the_answer() {
        for truth in [Some(true), Some(false), None] {
            let opaque = Opaque::new(InjectedCost::new("x", 10.0, move |_| truth));
            assert_eq!(ask(&opaque, 5), truth);
            assert_eq!(opaque.counts().calls, 1);
            assert_eq!(ask(&opaque.clone(), 5), truth);
            assert_eq!(opaque.counts().calls, 2);
        }
    }

    #[test]
    fn a_failure_is_unknown_and_counted_and_its_reason_cut() {
        let opaque = Opaque::new(Broken);
        assert_eq!(ask(&opaque, 2), None);
        let counts = opaque.counts();
        assert_eq!((counts.calls, counts.errors), (1, 1));
        assert_eq!(counts.last_error.map(|reason| reason.len()), Some(REASON_CHARACTERS_MAX));
    }

    #[test]
    fn predicates_are_equal_to_themselves_alone_and_keep_their_index() {
        let [a, b] = [Opaque::new(Broken), Opaque::new(Broken)];
        assert_eq!(a, a.clone());
        assert_ne!(a, b);
        let mut table = OpaqueTable::default();
        assert_eq!([&a, &b, &a, &b].map(|opaque| table.index_of(opaque)), [0, 1, 0, 1]);
        assert_eq!(table.as_slice(), [a, b]);
    }

    #[test]
    fn an_injected_cost_is_about_what_was_asked_for() {
        let opaque = Opaque::new(InjectedCost::new("x", 100_000.0, |_| Some(true)));
        for _ in 0..50 {
            _ = ask(&opaque, 1);
        }
        let measured = opaque.counts().measured_ns.expect("some calls were timed");
        assert!(measured > 30_000.0, "{measured} ns"); // no upper bound: the machine may be busy
    }
}

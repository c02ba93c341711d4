//! The remaining budget of this turn and of this round, and the connections that wait for the next turn.

use crate::amqp::MethodId;
use crate::amqp::method::{BasicAck, BasicGet, BasicNack, BasicPublish, BasicReject};
use crate::broker::clock::Micros;
use crate::broker::ids::{ConnectionSlot, Handle};
use std::collections::VecDeque;

/// The cost of a method that neither publishes nor settles a message: making a binding takes about 5 us.
const METHOD_STEPS: u32 = 16;

/// The time of a step, about.
pub(crate) const STEP_NS: u64 = 250;
/// The number of steps between two readings of the stopwatch.
const MEASURED_STEPS: u32 = 64;
/// The turns that fit into a round: all calls between two of [`Broker::work`](crate::broker::Broker::work).
const TURNS_A_ROUND: u32 = 2;
/// The part of its budget that a turn has when the round is used up: enough for what most clients ask for.
const LATE_PART: u32 = 64;
/// The part of a turn's budget that all readers of streams together have in a round: about a quarter of a millisecond.
const READERS_PART: u32 = 8;
/// The part of a round, and of what readers have in it, while a client publishes now and then and waits for the answer.
const ATTENTIVE_PART: u32 = 16;
/// The part that side work has then of its time.
const ATTENTIVE_TIME_PART: Micros = 4;
/// The most steps that a read of such a client takes, and the number of such reads in succession by which it is known. One
/// that publishes a lot has a small read now and then, too.
const ATTENTIVE_STEPS: u32 = 256;
const ATTENTIVE_READS: u8 = 8;
/// The number of rounds without such a client after which a round is whole again.
const CALM_ROUNDS: u32 = 256;

/// Work that every call goes on with, whoever caused it, and that has a budget of time of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SideWork {
    /// Dead letters are published.
    Letters,
    /// Entries that nobody can reach are released.
    Sweep,
    /// Entries are moved to disk.
    Spill,
}

/// The number of kinds of side work.
const SIDE_WORKS: usize = 3;

/// The budget of this turn and of this round, and the connections that wait for another turn.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The steps of this turn so far.
    spent: u32,
    /// The steps of this turn at which it is over.
    allowance: u32,
    /// The steps of this turn at which somebody looks at the stopwatch next.
    next_look: u32,
    /// The budget of a turn, if the round has room for it.
    budget: u32,
    /// The budget of a turn in this round: less while a client waits for its answer.
    turn_budget: u32,
    /// The round's budget that was left when this turn began. If it is used up, turns are short.
    round: u32,
    /// The round's budget that is left for readers of streams.
    readers: u32,
    /// The time that each kind of side work has taken in this round.
    side_work_us: [Micros; SIDE_WORKS],
    /// Whether a message was published in this turn.
    has_published: bool,
    /// The number of rounds since somebody last published a little.
    calm_rounds: u32,
    /// The caller's time in microseconds, by which steps that take long count more.
    stopwatch: Option<fn() -> Micros>,
    /// The last reading of the stopwatch in this turn, and the number of steps until then.
    looked: Option<(Micros, u32)>,
    pub(super) resting: VecDeque<Handle<ConnectionSlot>>,
    /// The method that was carried out last.
    method: MethodId,
    /// Whether the current frame could not be carried out in this turn.
    repeats: bool,
}

impl Turn {
    /// The first turn, with this budget for each turn.
    pub fn new(budget: u32) -> Self {
        Self {
            spent: 0,
            allowance: budget,
            next_look: MEASURED_STEPS,
            budget,
            turn_budget: budget,
            round: budget.saturating_mul(TURNS_A_ROUND),
            readers: readers_part(budget),
            side_work_us: [0; SIDE_WORKS],
            has_published: false,
            calm_rounds: CALM_ROUNDS,
            stopwatch: None,
            looked: None,
            resting: VecDeque::new(),
            method: MethodId::NONE,
            repeats: false,
        }
    }

    /// Let steps that take longer than they should count as what they take.
    pub fn measure_by(&mut self, stopwatch: fn() -> Micros) {
        self.stopwatch = Some(stopwatch);
    }

    /// Use up some of the budget.
    #[inline]
    pub fn spend(&mut self, steps: u32) {
        self.spent = self.spent.saturating_add(steps);
        if self.spent >= self.next_look {
            self.look();
        }
    }

    /// Use up what the steps since the last look have taken beyond their time.
    #[cold]
    fn look(&mut self) {
        if let Some(stopwatch) = self.stopwatch {
            let now = stopwatch();
            if let Some((before, spent)) = self.looked {
                let steps = now.saturating_sub(before) * 1_000 / STEP_NS;
                let taken = spent.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
                self.spent = self.spent.max(taken);
            }
            self.looked = Some((now, self.spent));
        }
        self.next_look = self.spent.saturating_add(MEASURED_STEPS);
    }

    /// The steps of this turn so far.
    pub fn spent(&self) -> u32 {
        self.spent
    }

    /// The steps that are left in this turn.
    pub fn left(&self) -> u32 {
        self.allowance.saturating_sub(self.spent)
    }

    /// Use up the cost of a method.
    #[inline]
    pub fn spend_method(&mut self, method: MethodId) {
        self.method = method;
        self.spend(match method {
            BasicAck::ID | BasicNack::ID | BasicReject::ID | BasicGet::ID => 1,
            _ => METHOD_STEPS,
        });
    }

    /// Note that a message is published.
    #[inline]
    pub fn note_publish(&mut self) {
        self.method = BasicPublish::ID;
        self.has_published = true;
    }

    /// The method that was carried out last, which takes most of a call that takes long.
    pub fn method(&self) -> MethodId {
        self.method
    }

    /// Whether the budget is used up.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.spent >= self.allowance
    }

    /// Whether the turns since the last call of [`Broker::work`](crate::broker::Broker::work) have taken what they have together.
    pub fn is_round_over(&self) -> bool {
        self.round.saturating_sub(self.spent) == 0
    }

    /// Carry out the current frame in the connection's next turn: in this one it has had no effect.
    pub fn repeat_frame(&mut self) {
        self.repeats = true;
    }

    /// Whether the current frame is carried out in the next turn.
    #[inline]
    pub fn takes_repeat(&mut self) -> bool {
        std::mem::take(&mut self.repeats)
    }

    /// Begin the next turn: with its whole budget, or with a part of it when the round is used up.
    #[inline]
    pub fn begin(&mut self) {
        self.round = self.round.saturating_sub(self.spent);
        self.allowance = self.turn_budget.min(self.round.max(self.budget / LATE_PART).max(1));
        (self.spent, self.next_look, self.looked) = (0, MEASURED_STEPS, None);
        self.has_published = false;
    }

    /// Begin the turn of all readers of streams together: with what is left for them in the round.
    pub fn begin_readers(&mut self) {
        self.begin();
        self.allowance = self.readers;
        self.looked = self.stopwatch.map(|stopwatch| (stopwatch(), 0));
    }

    /// Count what the readers' steps have really taken.
    pub fn look_at_readers(&mut self) {
        self.look();
    }

    /// End the turn of the readers.
    pub fn end_readers(&mut self) {
        self.readers = self.readers.saturating_sub(self.spent);
        self.begin();
    }

    /// Begin the next round: the caller has looked after everybody else.
    pub fn begin_round(&mut self) {
        self.calm_rounds = self.calm_rounds.saturating_add(1);
        let part = if self.is_attentive() { ATTENTIVE_PART } else { 1 };
        self.turn_budget = (self.budget / part).max(1);
        (self.round, self.spent) = (self.turn_budget.saturating_mul(TURNS_A_ROUND), 0);
        self.readers = (readers_part(self.budget) / part).max(1);
        self.side_work_us = [0; SIDE_WORKS];
        self.begin();
    }

    /// End a read of a client. A client that publishes a little, time and again, waits for its answers, and its next message
    /// comes soon: rounds are short from now on. One that publishes a lot waits for itself more than for others.
    /// `small_reads` is the number of its reads in succession that have published a little.
    #[inline]
    pub fn end_read(&mut self, small_reads: &mut u8) {
        if !std::mem::take(&mut self.has_published) {
            return;
        }
        let is_small = self.spent <= ATTENTIVE_STEPS;
        *small_reads = if is_small { small_reads.saturating_add(1) } else { 0 };
        if *small_reads >= ATTENTIVE_READS {
            if !self.is_attentive() {
                self.turn_budget = (self.budget / ATTENTIVE_PART).max(1);
                self.round = self.round.min(self.turn_budget.saturating_mul(TURNS_A_ROUND));
            }
            self.calm_rounds = 0;
        }
    }

    /// Whether somebody has published a little of late, and waits for the answer: then rounds are short.
    pub fn is_attentive(&self) -> bool {
        self.calm_rounds < CALM_ROUNDS
    }

    /// Begin side work, which may take this time in one call. While a client waits, it has a part of that in all calls of
    /// a round together.
    pub fn begin_side_work(&self, kind: SideWork, limit_us: Micros) -> TimeLimit {
        let taken_us = self.side_work_us[kind as usize];
        let part_us = (limit_us / ATTENTIVE_TIME_PART).saturating_sub(taken_us);
        self.time_limit(if self.is_attentive() { part_us } else { limit_us })
    }

    /// End side work that has begun with this limit.
    pub fn end_side_work(&mut self, kind: SideWork, limit: TimeLimit) {
        self.side_work_us[kind as usize] += limit.taken_us();
    }

    /// A limit of time for work that begins now and has a budget of its own.
    pub fn time_limit(&self, limit_us: Micros) -> TimeLimit {
        TimeLimit { stopwatch: self.stopwatch.map(|stopwatch| (stopwatch, stopwatch())), limit_us }
    }

    /// Whether a connection waits for another turn.
    pub fn has_next(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Whether this connection waits for another turn.
    #[cfg(test)]
    pub fn is_waiting(&self, connection: Handle<ConnectionSlot>) -> bool {
        self.resting.contains(&connection)
    }
}

/// A limit of time; never reached where there is no stopwatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit {
    /// The stopwatch, and what it showed at the beginning.
    stopwatch: Option<(fn() -> Micros, Micros)>,
    limit_us: Micros,
}

impl TimeLimit {
    /// Whether the time is up. Cost: about 30 ns.
    pub fn is_reached(self) -> bool {
        self.stopwatch.is_some() && self.taken_us() >= self.limit_us
    }

    /// The time since the beginning; 0 where there is no stopwatch.
    fn taken_us(self) -> Micros {
        self.stopwatch.map_or(0, |(stopwatch, began)| stopwatch().saturating_sub(began))
    }
}

/// The steps that all readers of streams together have in a round.
fn readers_part(budget: u32) -> u32 {
    (budget / READERS_PART).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A time that passes 10 µs whenever somebody looks.
    fn stopwatch() -> Micros {
        static NOW: AtomicU64 = AtomicU64::new(0);
        NOW.fetch_add(10, Ordering::Relaxed)
    }

    /// The time that side work takes in a call, in steps of 10 µs, of 40 that it may have.
    fn taken(turn: &mut Turn, kind: SideWork) -> usize {
        let limit = turn.begin_side_work(kind, 400);
        let taken = std::iter::repeat_with(|| limit.is_reached()).take_while(|is_reached| !is_reached).count();
        turn.end_side_work(kind, limit);
        taken
    }

    #[test]
    fn while_a_client_waits_all_calls_of_a_round_share_the_time_of_side_work() {
        let mut turn = Turn::new(6_400);
        turn.measure_by(stopwatch);
        turn.begin_round();
        assert!((0..3).all(|_| (35..=40).contains(&taken(&mut turn, SideWork::Letters))), "each call has all of it");
        let mut small_reads = 0;
        for _ in 0..ATTENTIVE_READS {
            turn.note_publish();
            turn.end_read(&mut small_reads);
        }
        for _ in 0..2 {
            turn.begin_round();
            assert!((5..=10).contains(&taken(&mut turn, SideWork::Letters)));
            assert_eq!(taken(&mut turn, SideWork::Letters), 0, "it is used up");
            assert!((5..=10).contains(&taken(&mut turn, SideWork::Sweep)), "each kind has its own");
        }
    }
}

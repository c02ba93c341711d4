//! A simulation runs the broker through accidents, from one seed.
//!
//! It has a simulated clock, disk and network, random clients, and a ledger that knows which messages may be lost, which may
//! come twice, and which must not.
//!
//! Clients publish through every type of exchange, to queues with dead letters, times, bounds and to a stream, and in
//! transactions (`paths.rs`). Bytes are cut anywhere on their way in, clients read when they like, connections break in the
//! middle of a frame, the power goes, the disk fills up. After each step every invariant of the broker is checked (`tests/invariants.rs`), and
//! every message that comes is held against the ledger. At the end everything is drained.
//!
//! A failure prints its seed; `TAMIS_SEED=<seed>` runs that one alone, `TAMIS_SIMULATIONS=<count>` runs more of them. A
//! simulation that cannot fail proves nothing: brokers with planted faults must be caught.

mod acting;
mod actor;
mod draining;
mod ledger;
mod paths;
mod run;

use crate::testing::fewer;

/// The faults that can be planted in a broker.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Confirm before the disk has it.
    pub confirms_early: bool,
    /// Drop what a lost channel had instead of putting it back.
    pub forgets_requeue: bool,
    /// Put what comes back at the end.
    pub requeues_last: bool,
    /// Deliver without looking at the credit of a consumer.
    pub ignores_credit: bool,
    /// Let a later ack cover messages that were nacked.
    pub acks_refused: bool,
    /// Begin a commit without knowing whether all of it can be done.
    pub commits_unchecked: bool,
    /// Refuse a commit, instead of letting it wait, while others have filled the journal's room.
    pub commits_crowded: bool,
    /// Settle what was dropped although the journal had no room for its dead letter.
    pub letters_unsaved: bool,
    /// Settle what was dropped although a full queue has made a further letter of its dead letter.
    pub further_unawaited: bool,
    /// Record messages without their time to live.
    pub forgets_expiration: bool,
    /// Make no dead letter of what is dropped.
    pub letters_lost: bool,
    /// Leave out one of several queues.
    pub routes_short: bool,
    /// Confirm a message that has waited for a full queue, and drop it.
    pub loses_waiting: bool,
    /// Do not write to streams.
    pub skips_streams: bool,
    /// Let readers be live before they have read everything.
    pub goes_live_early: bool,
    /// Let a reader that falls back read again from where it became live.
    pub forgets_place: bool,
    /// The offset of a named reader is behind what it has not acknowledged.
    pub forgets_unacknowledged: bool,
    /// Do not mark what is delivered to a named reader again.
    pub forgets_delivered: bool,
    /// A reader passes over one message more than the summary of a run says.
    pub skips_too_far: bool,
    /// Deliver to live readers before the disk has it.
    pub delivers_unsynced: bool,
    /// Answer a purge, or the commit of a transaction that settles something, before the disk has it.
    pub settles_early: bool,
    /// The disk's fault: it says that it has synced, and has not.
    pub disk_pretends: bool,
}

const SEEDS: u64 = fewer(fewer(40)) as u64;
const CONTROL_SEEDS: u64 = 600;

fn seeds() -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("TAMIS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("TAMIS_SIMULATIONS").unwrap_or(SEEDS),
    }
}

#[test]
fn nothing_that_was_confirmed_is_lost_and_nothing_comes_that_was_not_sent() {
    for seed in seeds() {
        println!("TAMIS_SEED={seed}");
        if let Err(violation) = run::run(seed, Faults::default()) {
            panic!("TAMIS_SEED={seed}: {violation}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_seed_always_does_the_same() {
    let steps = |seed| run::run(seed, Faults::default()).expect("no violation");
    assert_eq!(steps(7), steps(7));
}

/// The first seed that catches a fault, and how.
fn caught(faults: Faults) -> String {
    for seed in 1..=CONTROL_SEEDS {
        if let Err(violation) = run::run(seed, faults) {
            println!("caught by seed {seed}: {violation}");
            return violation;
        }
    }
    panic!("not caught: {faults:?}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_confirms_before_it_syncs_is_caught() {
    let violation = caught(Faults { confirms_early: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_disk_that_only_pretends_to_sync_is_caught() {
    caught(Faults { disk_pretends: true, ..Faults::default() });
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_forgets_to_requeue_is_caught() {
    let violation = caught(Faults { forgets_requeue: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_requeues_in_the_wrong_place_is_caught() {
    let violation = caught(Faults { requeues_last: true, ..Faults::default() });
    assert!(violation.contains("stands behind"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_ignores_credit_is_caught() {
    let violation = caught(Faults { ignores_credit: true, ..Faults::default() });
    assert!(violation.contains("over"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_acknowledges_what_it_refused_is_caught() {
    let violation = caught(Faults { acks_refused: true, ..Faults::default() });
    assert!(violation.contains("acknowledged as well"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_commits_a_part_is_caught() {
    let violation = caught(Faults { commits_unchecked: true, ..Faults::default() });
    assert!(violation.contains("is lost") || violation.contains("references"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_makes_no_dead_letters_is_caught() {
    let violation = caught(Faults { letters_lost: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_forgets_the_time_of_messages_over_a_restart_is_caught() {
    let violation = caught(Faults { forgets_expiration: true, ..Faults::default() });
    assert!(violation.contains("after its time"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_leaves_out_a_queue_is_caught() {
    let violation = caught(Faults { routes_short: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_drops_what_has_waited_is_caught() {
    let violation = caught(Faults { loses_waiting: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn a_broker_that_does_not_write_to_its_streams_is_caught() {
    let violation = caught(Faults { skips_streams: true, ..Faults::default() });
    assert!(violation.contains("is lost"), "{violation}");
}

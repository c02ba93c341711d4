//! Random work, power cuts and compaction, against a model that applies the records one by one.

mod life;
mod model;

use super::*;
use crate::testing::{fewer, rounds};
use life::{DoneWith, QueueLife};
use model::{Deed, Model};

const SEGMENT_BYTES: u32 = 8192;

/// The result of a run of several lives.
#[derive(Debug, Default)]
struct SettledTally {
    crashes: usize,
    lost_or_back: usize,
}

/// Live, crash and compare, many times over.
fn live(
    seed: u64,
    lives: usize,
    prepare: impl Fn(&SimulatedDisk),
    meddle: impl Fn(&mut QueueLife<'_>),
) -> SettledTally {
    let (disk, mut dice, mut tally) = (SimulatedDisk::new(), Dice::new(seed), SettledTally::default());
    prepare(&disk);
    let (mut model, mut deeds, mut synced, mut next_number) = (Model::default(), Vec::new(), 0, 1);
    let mut done_with = Vec::new();
    for _ in 0..lives {
        let Some(bench) = JournalHarness::try_open(&disk, SEGMENT_BYTES) else {
            println!("it cannot be opened");
            tally.lost_or_back += 1;
            return tally;
        };
        let next = bench.durable.last.0 + 1;
        // Everything that was recorded before the number that comes next, and nothing else.
        for (sequence, deed) in std::mem::take(&mut deeds).into_iter().filter(|(sequence, _)| *sequence < next) {
            model.apply(sequence, &deed);
            // It came back to them.
            if let Deed::Enqueue(number, queues) = deed {
                done_with.retain(|done: &DoneWith| {
                    done.after >= sequence || done.number != number || !queues.contains(&done.queue)
                });
            }
        }
        let Some(found) = recovered(&bench) else {
            println!("a message cannot be read");
            tally.lost_or_back += 1;
            return tally;
        };
        // What somebody was done with may be gone even where the record of that is not there: nobody waits for it.
        let done = std::mem::take(&mut done_with).into_iter().map(|done| (done.queue, done.number));
        model.settle(done.filter(|(queue, number)| !found.has(*queue, *number)));
        if next <= synced || found != model {
            println!("next {next}, synced {synced}\nfound {found:?}\nmodel {model:?}");
            println!("damage {:?}, lost {}", bench.recovered.damage, bench.durable.lost_count);
            tally.lost_or_back += 1;
            return tally;
        }
        let mut life = QueueLife::new(bench, &mut dice, model.clone(), next_number);
        let steps_max = if life.dice.once_in(2) { 250 } else { 40 };
        for _ in 0..life.dice.below(steps_max) {
            life.step();
            meddle(&mut life);
        }
        next_number = life.next_number;
        synced = life.bench.durable.synced().0;
        deeds = std::mem::take(&mut life.deeds);
        done_with = std::mem::take(&mut life.done_with);
        tally.lost_or_back += usize::from(life.has_lost);
        drop(life);
        disk.power_cut(&mut dice);
        tally.crashes += 1;
    }
    tally
}

/// The recovered state in the model's form; None when a message cannot be read.
fn recovered(bench: &JournalHarness) -> Option<Model> {
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.queues())).ok()?;
    let definitions = bench.recovered.definitions.iter().map(|found| {
        let key = String::from_utf8(found.key.clone()).expect("text");
        let parents = &bench.durable.definitions[&found.id].parents;
        let name_of = |id: &DefinitionId| {
            let parent = bench.recovered.definitions.iter().find(|parent| parent.id == *id).expect("there");
            String::from_utf8(parent.key.clone()).expect("text")
        };
        (key, (found.id, found.value.clone(), parents.iter().map(name_of).collect()))
    });
    Some(Model { definitions: definitions.collect(), queues: read.into_iter().collect() })
}

#[test]
fn what_is_recovered_is_what_was_recorded_whenever_the_power_goes() {
    let seed = seed("what_is_recovered", 41);
    let count = std::env::var("TAMIS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for round in rounds(rounds(0..count)) {
        let tally = live(seed + round, fewer(30), |_| {}, |_| {});
        assert_eq!((tally.lost_or_back, tally.crashes), (0, fewer(30)), "seed {}", seed + round);
    }
}

/// Whether a message vanishes or comes back in one of `runs` runs in which much of what is settled is never recorded.
fn loses_something_settled(test: &str, runs: u64) -> bool {
    let seed = seed(test, 41);
    let forgetful = |life: &mut QueueLife<'_>| {
        if life.dice.once_in(20) {
            life.lose_settled();
        }
    };
    rounds(0..runs).any(|round| live(seed + round, fewer(30), |_| {}, forgetful).lost_or_back > 0)
}

#[test]
fn what_came_back_because_nothing_was_recorded_of_it_stays() {
    assert!(!loses_something_settled("what_came_back", 60));
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_when_copies_do_not_replace_what_was_read_before_it_does_not() {
    COPIES_SAY_LITTLE.set(true);
    // About one run in sixty: a queue has to be done with a message right before it is copied, and then the power goes.
    assert!(loses_something_settled("control_what_came_back", 400));
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_without_syncs_it_is_not() {
    let seed = seed("control_without_syncs", 41);
    let caught =
        (0..20).filter(|round| live(seed + round, 30, |disk| disk.ignore_syncs(true), |_| {}).lost_or_back > 0);
    assert!(caught.count() >= 18);
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_when_segments_go_before_their_copies_are_synced_it_is_not() {
    let seed = seed("control_when_segments_go", 41);
    let hasty = |life: &mut QueueLife<'_>| {
        if !life.bench.durable.moves.is_empty()
            && let Some((_, last)) = life.bench.durable.log.sealed_after(crate::journal::SegmentNumber::default())
        {
            life.bench.durable.log.remove_through(last);
        }
    };
    let caught = (0..20).filter(|round| live(seed + round, 30, |_| {}, hasty).lost_or_back > 0);
    assert!(caught.count() >= 5); // a crash has to fall between the two
}

//! Power cuts at random moments: synced records survive, and no sequence number has two bodies.

use std::collections::HashMap;

use super::*;
use crate::journal::SegmentGrowth;

/// The result of a run of power cuts.
#[derive(Debug, Default)]
struct PowerTally {
    cuts: usize,
    lost: usize,
    changed: usize,
}

/// Append, commit, remove and cut the power, many times over.
fn cut_power(seed: u64, cuts: usize, prepare: impl Fn(&SimulatedDisk)) -> PowerTally {
    let (disk, mut dice, mut tally) = (SimulatedDisk::new(), Dice::new(seed), PowerTally::default());
    prepare(&disk);
    // Bodies that were read or reported synced, by number: they may never change.
    let mut seen: HashMap<u64, u64> = HashMap::new();
    let (mut removed, mut fresh) = (Sequence(0), 0_u64);
    for _ in 0..cuts {
        let (spares_max, has_reserve) = (dice.below(3) as usize, dice.once_in(2));
        let growth = dice.once_in(3).then_some(SegmentGrowth { first_bytes: 4096, usual_bytes: 8192 });
        let options = LogOptions { spares_max, has_reserve, growth, ..small(4096 << dice.below(3)) };
        let Ok(bench) = TestLog::try_open(&disk, options) else {
            tally.lost += seen.len();
            return tally;
        };
        tally.check(&bench, &seen, removed);
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        for _ in 0..dice.below(or_few(60, 20) as u64) {
            if dice.once_in(5) {
                bench.committer.commit_once();
            }
            if dice.once_in(20) {
                removed = removed.max(Sequence(bench.log.synced().0.saturating_sub(30)));
                bench.log.remove_through(removed);
            }
            fresh += 1;
            let size = dice.below(900) as usize;
            let appended = bench.log.append(1, 0, &fresh.to_le_bytes(), &[&body_of(fresh, size)]).expect("appended");
            waiting.push((appended.sequence.0, fresh));
        }
        let synced = bench.log.synced().0;
        seen.extend(waiting.iter().copied().filter(|(sequence, _)| *sequence <= synced));
        drop(bench);
        disk.power_cut(&mut dice);
        tally.cuts += 1;
    }
    tally
}

impl PowerTally {
    fn check(&mut self, bench: &TestLog, seen: &HashMap<u64, u64>, removed: Sequence) {
        let mut found = HashMap::new();
        let mut reader = all_from_first(&bench.log);
        while let Some(item) = reader.next().expect("readable") {
            if let LogItem::Record(record) = item {
                let fresh = u64::from_le_bytes(record.head.try_into().expect("a head of 8 bytes"));
                assert_eq!(record.body, body_of(fresh, record.body.len()), "a torn body");
                found.insert(record.sequence.0, fresh);
            }
        }
        for (sequence, fresh) in seen {
            match found.get(sequence) {
                Some(now) if now != fresh => self.changed += 1,
                None if *sequence > removed.0 => self.lost += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn what_was_reported_synced_survives_every_power_cut() {
    let seed = seed("what_was_reported_synced_survives_every_power_cut", 20_261_122);
    for round in rounds(0..40) {
        let tally = cut_power(seed + round, fewer(25), |_| {});
        assert_eq!((tally.lost, tally.changed), (0, 0), "seed {}", seed + round);
        assert_eq!(tally.cuts, fewer(25));
    }
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_a_committer_whose_syncs_do_nothing_loses() {
    let seed = seed("control_a_committer_whose_syncs_do_nothing_loses", 20_261_122);
    let caught = (0..20).filter(|round| {
        let tally = cut_power(seed + round, 25, |disk| disk.ignore_syncs(true));
        tally.lost + tally.changed > 0
    });
    assert!(caught.count() >= 18);
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_a_mark_that_is_never_synced_makes_whole_logs_look_incomplete() {
    let seed = seed("control_a_mark_that_is_never_synced", 20_261_122);
    let caught = (0..20).filter(|round| {
        let tally = cut_power(seed + round, 25, |disk| disk.ignore_syncs_of(&dir().join("mark")));
        tally.lost > 0
    });
    assert!(caught.count() >= 15);
}

#[test]
fn what_a_reader_has_seen_is_never_another_body_later() {
    let seed = seed("what_a_reader_has_seen_is_never_another_body_later", 99);
    let (disk, mut dice) = (SimulatedDisk::new(), Dice::new(seed));
    let mut seen: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut fresh = 0_u64;
    for _ in rounds(0..300) {
        let bench = TestLog::open(&disk, small(4096));
        let mut readers = [
            all_from_first(&bench.log),
            LogReader::open(&(Arc::new(disk.clone()) as _), dir(), Start::First).expect("a log"),
        ];
        for _ in 0..dice.below(20) {
            fresh += 1;
            bench.log.append(0, 0, &[], &[&body_of(fresh, 60)]).expect("appended");
            if dice.once_in(3) {
                bench.committer.commit_once();
            }
            let reader = &mut readers[dice.below(2) as usize];
            while let Some(item) = reader.next().expect("readable") {
                let LogItem::Record(record) = item else { panic!("{item:?}") };
                let first = seen.entry(record.sequence.0).or_insert_with(|| record.body.to_vec());
                assert_eq!(first, record.body, "number {} has two bodies", record.sequence);
            }
        }
        bench.log.remove_through(Sequence(bench.log.synced().0.saturating_sub(100)));
        drop(bench);
        if dice.once_in(2) {
            disk.power_cut(&mut dice);
        }
    }
}

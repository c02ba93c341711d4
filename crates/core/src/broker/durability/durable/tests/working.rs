//! The journal while it is in use: reading back, compaction, what is refused.

use super::*;
use crate::journal::{AppendError, ReadError, Wait};
use crate::testing::or_few;

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_message_is_read_back_wherever_compaction_put_it() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let queue = bench.define("q");
    let kept: Vec<Saved> = (0..20).map(|number| bench.publish(number, 100, &[queue])).collect();
    bench.commit();
    for number in 100..2000 {
        let saved = bench.publish(number, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        if number % 10 == 0 {
            bench.commit();
            bench.durable.compact(3000, || false);
            for (saved, number) in kept.iter().zip(0..) {
                assert_eq!(number_of(&bench.durable, saved.record), number);
            }
        }
    }
    let again = JournalHarness::open(&disk, 8192);
    let numbers: Vec<u64> = again.queues().remove(0).1;
    assert_eq!(numbers[..20], (0..20).collect::<Vec<_>>());
    assert!(numbers.len() <= 30, "the last batch at the most was not settled on disk");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_log_stays_in_proportion_to_what_is_alive() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let queue = bench.define("q");
    let mut dice = Dice::new(seed("the_log_stays_in_proportion", 3));
    let mut live: Vec<RecordId> = Vec::new();
    let mut largest = 0.0_f64;
    for number in 0..20_000_u64 {
        live.push(bench.publish(number, dice.below(200) as usize, &[queue]).record);
        // Now and then nearly all of them go, and the oldest never.
        let target = if number % 2000 < 1000 { 400 } else { 20 };
        while live.len() > target {
            let place = 5 + dice.below(live.len() as u64 - 5) as usize;
            bench.durable.settled(live.remove(place), queue);
        }
        if number % 20 == 0 {
            bench.commit();
            bench.durable.compact(2 * 20 * 150, || false);
            bench.commit();
        }
        // When much was settled at once it takes some steps.
        if number % 500 == 0 {
            for _ in 0..30 {
                bench.durable.compact(2 * 20 * 150, || false);
                bench.commit();
            }
            let (alive, all) = bench.durable.size_bytes();
            largest = largest.max(all as f64 / (2 * alive + 2 * 8192) as f64);
        }
    }
    println!("largest: {largest:.2} of 2 x live + 2 segments");
    assert!(largest <= 1.0, "{largest}");
    assert_eq!(bench.durable.message_count(), live.len());
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_definition_that_lives_long_does_not_hold_a_dead_journal() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let (queue, other) = (bench.define("q"), bench.define("other"));
    bench.durable.define(b"binding", &[1; 200], &[b"other"], None, 0).expect("defined");
    assert_ne!(queue, other);
    for number in 0..3000 {
        let saved = bench.publish(number, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        if number == 1500 {
            bench.durable.forget(b"other", 0).expect("recorded");
        }
        if number % 10 == 0 {
            bench.commit();
            bench.durable.compact(3000, || false);
        }
    }
    bench.commit();
    let (alive, all) = bench.durable.size_bytes();
    assert!(alive < 100 && all < 3 * 8192, "{alive} of {all}");
    let again = JournalHarness::open(&disk, 8192);
    let keys: Vec<&[u8]> = again.recovered.definitions.iter().map(|found| found.key.as_slice()).collect();
    assert_eq!(keys, [b"q"]);
    assert_eq!(again.recovered.definitions[0].id, queue);
}

#[test]
fn a_spilled_message_can_be_read_until_it_is_released_and_is_gone_after_a_restart() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let queue = bench.define("q");
    let message = TestMessage::new(7, 500);
    let spilled = bench.durable.spill(message.content(), 7).expect("recorded");
    let kept = bench.publish(8, 500, &[queue]);
    bench.durable.settled_but_kept(kept.record, queue);
    for number in 100..or_few(1000, 200) as u64 {
        let saved = bench.publish(number, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        if number % 10 == 0 {
            bench.commit();
            bench.durable.compact(3000, || false);
            let numbers = [spilled, kept].map(|saved| number_of(&bench.durable, saved.record));
            assert_eq!(numbers, [7, 8]);
        }
    }
    bench.durable.release(spilled.record);
    assert_eq!((number_of(&bench.durable, kept.record), bench.durable.message_count()), (8, 1));
    bench.durable.release(kept.record);
    assert_eq!(bench.durable.message_count(), 0);
    bench.durable.spill(message.content(), 7).expect("recorded");
    let kept = bench.publish(9, 500, &[queue]);
    bench.durable.settled_but_kept(kept.record, queue);
    bench.durable.flush(7).expect("recorded");
    bench.commit();
    assert!(JournalHarness::open(&disk, 8192).recovered.messages.is_empty());
}

#[test]
fn publishers_wait_before_anybody_else_does() {
    let disk = SimulatedDisk::new();
    let committer = Committer::manual(|| {});
    let options = DurableOptions { segment_bytes: 65_536, pending_bytes_max: 40_000 };
    let (mut durable, _) = Durable::open(Arc::new(disk), Path::new("/j"), options, &committer).expect("a journal");
    let queue = durable.define(b"q", b"", &[], None, 0).expect("defined").0;
    let mut records = Vec::new();
    let refused = loop {
        let message = TestMessage::new(1, 200);
        match durable.message(message.content(), &[queue], 0, TimeToLive::FOREVER) {
            Ok(saved) => records.push(saved.record),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, AppendError::Busy);
    assert!(durable.is_congested() && records.len() > 50);
    records.iter().for_each(|&record| durable.settled(record, queue));
    durable.flush(0).expect("what was settled is recorded all the same");
    durable.define(b"another", b"", &[], None, 0).expect("and so are definitions");
    committer.commit_once();
    assert!(!durable.is_congested());
    durable.message(TestMessage::new(1, 200).content(), &[queue], 0, TimeToLive::FOREVER).expect("room again");
}

#[test]
fn a_message_that_rots_is_not_delivered_and_does_not_stop_compaction() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let queue = bench.define("q");
    let rotten = bench.publish(1, 300, &[queue]);
    bench.publish(2, 300, &[queue]);
    bench.commit();
    let path = disk.paths().into_iter().find(|path| path.ends_with("00000001-00000000000000000001.segment"));
    let location = bench.durable.slots.location(rotten.record);
    disk.flip(&path.expect("a segment"), location.offset as usize + 100, 1);
    assert!(matches!(bench.durable.load(rotten.record, Wait::ForDisk, &mut Vec::new()), Err(ReadError::Damaged(_))));
    for number in 100..or_few(500, 300) as u64 {
        let saved = bench.publish(number, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        if number % 10 == 0 {
            bench.commit();
            bench.durable.compact(3000, || false);
        }
    }
    assert_eq!(bench.durable.lost_count(), 1);
    assert!(bench.durable.size_bytes().1 < 4 * 8192);
    bench.durable.settled(rotten.record, queue);
    bench.commit();
    let again = JournalHarness::open(&disk, 8192);
    assert_eq!(again.queues()[0].1[0], 2);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_message_whose_queues_cannot_all_be_recorded_is_nowhere() {
    let disk = SimulatedDisk::new();
    let committer = Committer::manual(|| {});
    let options = DurableOptions { segment_bytes: 1 << 20, pending_bytes_max: 100_000 };
    let open = || Durable::open(Arc::new(disk.clone()), Path::new("/data/journal"), options, &committer);
    let (mut durable, _) = open().expect("a journal");
    let mut queues = Vec::new();
    for number in 0..40_000 {
        queues.push(durable.define(format!("q{number}").as_bytes(), b"", &[], None, 0).expect("defined").0);
        if number % 1000 == 999 {
            committer.commit_once();
        }
    }
    // The head of one record names 65,000 bytes of queues, and a second one of that size has no room.
    let message = TestMessage::new(1, 10);
    assert_eq!(durable.message(message.content(), &queues, 0, TimeToLive::FOREVER), Err(AppendError::Busy));
    assert_eq!(durable.message_count(), 0, "nobody has it");
    committer.commit_once();
    while durable.flush(0) == Err(AppendError::Busy) {
        committer.commit_once();
    }
    committer.commit_once();
    drop(durable);
    let (_, recovered) = open().expect("a journal");
    assert_eq!((recovered.messages.len(), recovered.definitions.len()), (0, queues.len()));
}

/// A journal with more dead than live records, whose live ones are spread over all segments.
fn sparse(disk: &SimulatedDisk, options: DurableOptions) -> (JournalHarness, DefinitionId) {
    let mut bench = JournalHarness::open_with(disk, options).expect("a journal");
    let queue = bench.define("q");
    for number in 0..600 {
        let saved = bench.publish(number, 100, &[queue]);
        if !u64::is_multiple_of(number, 10) {
            bench.durable.settled(saved.record, queue);
        }
        bench.commit();
    }
    (bench, queue)
}

fn numbers(disk: &SimulatedDisk) -> Vec<u64> {
    JournalHarness::open(disk, 8192).queues().remove(0).1
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn on_a_full_disk_compaction_copies_half_a_segment_and_the_rest_when_there_is_room() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 8192);
    let queue = bench.define("q");
    // The first segment is alive, and all others are dead.
    for number in 0..50 {
        bench.publish(number, 100, &[queue]);
    }
    let publish_dead = |bench: &mut JournalHarness| {
        let saved = bench.publish(1000, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        bench.commit();
    };
    (0..500).for_each(|_| publish_dead(&mut bench));
    disk.limit(Some(0));
    for _ in 0..200 {
        if !bench.durable.is_full() {
            publish_dead(&mut bench);
        }
    }
    assert!(bench.durable.is_full() && !bench.durable.is_stuck());
    for _ in 0..20 {
        bench.durable.compact(u64::MAX, || false);
        bench.committer.commit_once();
    }
    let copied = bench.durable.copied_while_full;
    assert!((4096..4096 + 200).contains(&copied), "{copied} bytes");
    disk.limit(None);
    for _ in 0..20 {
        bench.committer.commit_once();
        bench.durable.compact(u64::MAX, || false);
    }
    let (alive, all) = bench.durable.size_bytes();
    assert!(all <= 2 * alive + 2 * 8192, "{all} bytes, of which {alive} are alive");
    drop(bench);
    assert_eq!(numbers(&disk), (0..50).collect::<Vec<_>>());
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_could_not_be_copied_for_lack_of_room_is_copied_later() {
    let disk = SimulatedDisk::new();
    // So little that two records wait at a time.
    let options = DurableOptions { segment_bytes: 8192, pending_bytes_max: 400 };
    let (mut bench, _) = sparse(&disk, options);
    let first = bench.durable.log.first_sequence();
    assert!(bench.durable.compact(u64::MAX, || false).is_none() && bench.durable.skipped, "there was no room for all");
    for _ in 0..200 {
        bench.committer.commit_once();
        bench.durable.compact(u64::MAX, || false);
    }
    let (alive, all) = bench.durable.size_bytes();
    assert!(all <= 2 * alive + 2 * 8192, "{all} bytes, of which {alive} are alive");
    assert!(bench.durable.log.first_sequence() > first);
    drop(bench);
    assert_eq!(numbers(&disk), (0..600).step_by(10).collect::<Vec<_>>());
}

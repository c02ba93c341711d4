//! Recovery: order, flags, messages of many queues, definitions of any size.

use super::*;
use crate::testing::{fewer, or_few};

#[test]
fn after_a_crash_all_messages_are_flagged_and_after_a_stop_those_that_were_delivered() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 65_536);
    let (first, second) = (bench.define("first"), bench.define("second"));
    let saved: Vec<Saved> = (0..10).map(|number| bench.publish(number, 10, &[first, second])).collect();
    bench.commit();
    let flags = |bench: &JournalHarness, queue: usize| -> Vec<bool> {
        bench.recovered.queues[queue].entries.iter().map(|entry| entry.redelivered).collect()
    };
    let again = JournalHarness::open(&disk, 65_536);
    assert!(!again.recovered.is_clean && flags(&again, 0) == [true; 10]);
    drop(again);
    bench.durable.settled(saved[0].record, second);
    bench.durable.stop(&[(saved[2].record, first), (saved[0].record, second)], 0).expect("recorded");
    bench.committer.commit_once();
    let stopped = JournalHarness::open(&disk, 65_536);
    assert!(stopped.recovered.is_clean);
    assert_eq!(flags(&stopped, 0), [false, false, true, false, false, false, false, false, false, false]);
    assert_eq!(flags(&stopped, 1), [false; 9]);
    drop(stopped);
    let crashed = JournalHarness::open(&disk, 65_536);
    assert!(!crashed.recovered.is_clean && flags(&crashed, 0) == [true; 10]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_message_may_go_to_more_queues_than_one_head_can_name() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 1 << 20);
    let queues: Vec<DefinitionId> = (0..40_000).map(|number| bench.define(&format!("q{number}"))).collect();
    let saved = bench.publish(7, 100, &queues);
    for queue in &queues[..100] {
        bench.durable.settled(saved.record, *queue);
    }
    bench.commit();
    // All definitions and the message are copied, and found again as they were.
    for round in 0..300 {
        for number in 0..50 {
            let saved = bench.publish(1000 + round * 50 + number, 300, &queues[..1]);
            bench.durable.settled(saved.record, queues[0]);
        }
        bench.commit();
        bench.durable.compact(100_000, || false);
    }
    bench.commit();
    assert!(bench.durable.log.first_sequence() > saved.sequence, "the original is gone");
    let again = JournalHarness::open(&disk, 1 << 20);
    let found = again.queues();
    assert_eq!(found.len(), queues.len() - 100);
    assert!(found.iter().zip(&queues[100..]).all(|((id, numbers), queue)| id == queue && numbers == &[7]));
    let ids: Vec<DefinitionId> = again.recovered.definitions.iter().map(|found| found.id).collect();
    assert_eq!(ids, queues);
}

#[test]
fn definitions_keep_their_number_and_order_and_may_be_large() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 1 << 20);
    let first = bench.define("first");
    let large = vec![9_u8; fewer(200_000)];
    let (second, _) = bench.durable.define(b"second", &large, &[b"first", b"nothing"], None, 0).expect("defined");
    let (third, _) =
        bench.durable.define(&vec![b'k'; fewer(70_000)], b"third", &[b"second"], None, 0).expect("defined");
    assert_eq!(bench.durable.define(b"first", b"changed", &[], None, 0).expect("defined").0, first);
    bench.commit();
    let again = JournalHarness::open(&disk, 1 << 20);
    let found: Vec<_> = again.recovered.definitions.iter().map(|found| (found.id, found.value.as_slice())).collect();
    assert_eq!(found, [(first, &b"changed"[..]), (second, &large), (third, b"third")]);
    bench.durable.forget(b"first", 0).expect("recorded");
    assert_eq!(bench.durable.definition(b"second"), None, "what depends on it goes with it");
    let (anew, _) = bench.durable.define(b"second", b"anew", &[], None, 0).expect("defined");
    assert!(anew > third);
    bench.commit();
    let again = JournalHarness::open(&disk, 1 << 20);
    let found: Vec<_> = again.recovered.definitions.iter().map(|found| (found.id, found.value.as_slice())).collect();
    assert_eq!(found, [(anew, &b"anew"[..])]);
}

#[test]
fn a_queue_of_the_same_name_has_nothing_of_the_one_that_was_deleted() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 65_536);
    let old = bench.define("q");
    bench.publish(1, 10, &[old]);
    bench.durable.forget(b"q", 0).expect("recorded");
    let new = bench.define("q");
    bench.publish(2, 10, &[new]);
    bench.commit();
    assert_eq!(JournalHarness::open(&disk, 65_536).queues(), [(new, vec![2])]);
}

#[test]
fn a_recovered_message_goes_with_the_last_of_its_queues_that_are_left() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 65_536);
    let (gone, left) = (bench.define("gone"), bench.define("left"));
    bench.publish(1, 10, &[gone, left]);
    bench.publish(2, 10, &[gone]);
    bench.durable.forget(b"gone", 0).expect("recorded");
    bench.commit();
    let mut again = JournalHarness::open(&disk, 65_536);
    assert_eq!(again.queues(), [(left, vec![1])]);
    assert_eq!(again.durable.message_count(), 1, "the other one is in no queue");
    let record = again.recovered.messages[0].record;
    again.durable.settled(record, left);
    assert_eq!(again.durable.message_count(), 0);
    again.commit();
    assert!(JournalHarness::open(&disk, 65_536).recovered.messages.is_empty());
}

#[test]
fn messages_of_an_earlier_version_are_recovered_and_copied_as_such() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, 4096);
    let queue = bench.define("q");
    let message = TestMessage::new(7, 100);
    bench.durable.message_of_version_1(message.content(), queue, 7);
    bench.commit();
    let mut bench = JournalHarness::open(&disk, 4096);
    for round in 0..2 {
        let [found] = bench.recovered.messages[..] else { panic!("{:?}", bench.recovered.messages) };
        assert_eq!((found.time_us, found.time_to_live), (7, TimeToLive::IN_PROPERTIES), "round {round}");
        assert_eq!(number_of(&bench.durable, found.record), 7);
        for number in 100..or_few(400, 200) as u64 {
            let saved = bench.publish(number, 100, &[queue]);
            bench.durable.settled(saved.record, queue);
            bench.commit();
            bench.durable.compact(3000, || false);
        }
        bench.commit();
        bench = JournalHarness::open(&disk, 4096);
    }
}

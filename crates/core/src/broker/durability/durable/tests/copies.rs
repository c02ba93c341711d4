//! Copies that compaction made: recovery finds the same whether their originals are still there or not.

use super::*;
use crate::journal::SegmentNumber;

const SEGMENT_BYTES: u32 = 8192;

/// Record and settle until the log is too large, and what was recorded before is in its oldest segment.
fn fill(bench: &mut JournalHarness, queue: DefinitionId) {
    for number in 100..400 {
        let saved = bench.publish(number, 100, &[queue]);
        bench.durable.settled(saved.record, queue);
        bench.commit();
    }
}

/// Compact until the segment that was the oldest is gone.
fn lose_oldest_segment(bench: &mut JournalHarness) {
    let oldest = bench.durable.log.sealed_after(SegmentNumber::default()).expect("a segment").1;
    for _ in 0..20 {
        bench.durable.compact(u64::MAX, || false);
        bench.committer.commit_once();
    }
    assert!(bench.durable.log.first_sequence() > oldest, "it is gone");
}

/// The queues as they are recovered with the originals, and then without them.
fn with_and_without_originals(disk: &SimulatedDisk) -> [Vec<(DefinitionId, Vec<u64>)>; 2] {
    let mut again = JournalHarness::open(disk, SEGMENT_BYTES);
    let with = again.queues();
    lose_oldest_segment(&mut again);
    drop(again);
    [with, JournalHarness::open(disk, SEGMENT_BYTES).queues()]
}

/// A message in two queues, which is copied when the first is done with it. The power goes before that is recorded.
fn copied_while_settled(disk: &SimulatedDisk) -> DefinitionId {
    let mut bench = JournalHarness::open(disk, SEGMENT_BYTES);
    let (first, second) = (bench.define("first"), bench.define("second"));
    let kept = bench.publish(7, 100, &[first, second]);
    fill(&mut bench, second);
    bench.durable.settled(kept.record, first);
    bench.durable.compact(u64::MAX, || false);
    assert_eq!(bench.durable.moves.len(), 3, "two definitions and the message");
    bench.committer.commit_once();
    second
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_message_that_came_back_does_not_vanish_with_its_original() {
    let disk = SimulatedDisk::new();
    let second = copied_while_settled(&disk);
    let [with, without] = with_and_without_originals(&disk);
    assert_eq!(with, without);
    assert_eq!(with, [(second, vec![7])], "the copy says that the first queue is done with it");
}

#[test]
#[cfg_attr(miri, ignore = "a control of another test's answers")]
fn control_when_copies_do_not_replace_what_was_read_before_it_does() {
    COPIES_SAY_LITTLE.set(true);
    let disk = SimulatedDisk::new();
    copied_while_settled(&disk);
    let [with, without] = with_and_without_originals(&disk);
    assert_eq!((with.len(), without.len()), (2, 1));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn positions_that_no_copy_followed_say_nothing() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, SEGMENT_BYTES);
    let queues = ["a", "b", "c"].map(|name| bench.define(name));
    let kept = bench.publish(7, 100, &queues);
    fill(&mut bench, queues[2]);
    // A copy is begun whose queues need more than one record, and the power goes in between.
    let mut head = Vec::new();
    records::put_varint(&mut head, kept.sequence.0);
    records::put_positions(&mut head, &[(queues[0], kept.sequence), (queues[1], kept.sequence)]);
    bench.durable.append(kind::POSITIONS, 0, &head).expect("recorded");
    bench.commit();
    drop(bench);
    let mut again = JournalHarness::open(&disk, SEGMENT_BYTES);
    let record = again.recovered.messages[0].record;
    again.durable.settled(record, queues[0]);
    again.commit();
    lose_oldest_segment(&mut again);
    drop(again);
    let again = JournalHarness::open(&disk, SEGMENT_BYTES);
    assert_eq!(again.queues(), [(queues[1], vec![7]), (queues[2], vec![7])]);
    assert_eq!(again.recovered.messages.len(), 1);
}

#[test]
fn a_queue_may_get_a_message_again_before_it_is_recorded_that_it_was_done_with_it() {
    let disk = SimulatedDisk::new();
    let mut bench = JournalHarness::open(&disk, SEGMENT_BYTES);
    let (first, second) = (bench.define("first"), bench.define("second"));
    let kept = bench.publish(7, 100, &[first, second]);
    bench.publish(8, 100, &[first]);
    bench.durable.settled(kept.record, first);
    bench.durable.enqueued(kept.record, &[first], 0).expect("recorded");
    bench.commit();
    let again = JournalHarness::open(&disk, SEGMENT_BYTES);
    assert_eq!(again.queues(), [(first, vec![8, 7]), (second, vec![7])]);
}

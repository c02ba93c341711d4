//! Tests appending: sequence numbers, locations, segments and retention.

use super::*;
use crate::journal::{HEAD_BYTES_MAX, Location, ReadError, Retention, SegmentGrowth};
use crate::journal::{RecordBody, SegmentNumber};

#[test]
fn what_is_appended_is_read_back_by_number_and_by_place() {
    let bench = TestLog::open(&SimulatedDisk::new(), small(8192));
    let sizes = |number: u64| (number * 37 % 900) as usize;
    let mut places = Vec::new();
    let end = or_few(200, 50) as u64;
    for number in 1..end {
        let appended = bench.append(number, sizes(number)).expect("appended");
        places.push(appended.location);
        if number % 9 == 0 {
            bench.committer.commit_once();
        }
    }
    bench.committer.commit_once();
    assert!(bench.log.segment_count() > end as usize / 40);
    assert_eq!(read_all(all_from_first(&bench.log), sizes), ((1..end).collect(), Vec::new()));
    let mut buffer = Vec::new();
    for (place, number) in places.iter().zip(1..) {
        let record = bench.log.read_at(*place, &mut buffer).expect("there");
        assert_eq!((record.sequence, record.body), (Sequence(number), &*body_of(number, sizes(number))));
    }
}

#[test]
fn nothing_is_visible_before_it_is_synced() {
    let bench = TestLog::open(&SimulatedDisk::new(), small(8192));
    let mut reader = all_from_first(&bench.log);
    bench.append(1, 10).expect("appended");
    assert_eq!((bench.log.synced(), bench.log.next_sequence()), (Sequence(0), Sequence(2)));
    assert!(matches!(reader.next(), Ok(None)));
    bench.committer.commit_once();
    assert_eq!(bench.log.synced(), Sequence(1));
    assert!(matches!(reader.next(), Ok(Some(LogItem::Record(_)))));
    assert!(matches!(reader.next(), Ok(None)));
}

#[test]
fn one_commit_is_one_sync_however_much_was_appended() {
    let bench = TestLog::open(&SimulatedDisk::new(), small(1 << 20));
    bench.commit(1, 2, 10);
    let before = bench.disk.sync_count();
    bench.commit(2, fewer(1000) as u64, 10);
    assert_eq!(bench.disk.sync_count() - before, 1);
    bench.committer.commit_once();
    assert_eq!(bench.disk.sync_count() - before, 1, "nothing to do is no sync");
}

#[test]
fn a_record_that_no_segment_can_hold_is_refused_and_takes_no_number() {
    let bench = TestLog::open(&SimulatedDisk::new(), small(4096));
    let max = bench.log.record_bytes_max();
    let refused = bench.log.append(0, 0, &[], &[&vec![0; max]]).expect_err("too large");
    assert_eq!(refused, AppendError::TooLarge { size_bytes: max + 28, max_bytes: max });
    for number in 1..5 {
        let size = max - 28 - head_of(number).len();
        assert_eq!(bench.append(number, size).expect("appended").sequence, Sequence(number));
    }
    bench.committer.commit_once();
    assert_eq!(bench.log.synced(), Sequence(4));
    let head = vec![7; HEAD_BYTES_MAX];
    let large = TestLog::open(&SimulatedDisk::new(), small(1 << 20));
    let place = large.log.append(0, 0, &head, &[]).expect("appended").location;
    large.committer.commit_once();
    assert_eq!(large.log.read_at(place, &mut Vec::new()).expect("there").head, head);
}

#[test]
fn a_log_goes_on_where_it_was() {
    let disk = SimulatedDisk::new();
    let rounds = or_few(6, 2) as u64;
    for round in 0..rounds {
        let bench = TestLog::open(&disk, small(8192));
        assert_eq!(bench.recovery.next, Sequence(1 + round * 40));
        assert_eq!(bench.recovery.damage, []);
        bench.commit(1 + round * 40, 41 + round * 40, 100);
    }
    let bench = TestLog::open(&disk, small(8192));
    assert_eq!(read_all(all_from_first(&bench.log), |_| 100), ((1..1 + rounds * 40).collect(), Vec::new()));
}

#[test]
fn heads_are_had_without_bodies_and_are_those_of_the_records() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(8192));
    let end = or_few(300, 70) as u64;
    bench.commit(1, end, 100);
    for bench in [
        bench,
        TestLog::open(&disk, small(8192)),
        TestLog::open(&disk, LogOptions { index_heads: false, ..small(8192) }),
    ] {
        let mut heads = Vec::new();
        let damage = bench.log.for_each_head(&mut |head| {
            assert_eq!((head.head, head.kind), (&*head_of(head.sequence.0), kind_of(head.sequence.0)));
            assert_eq!((head.time_us, head.size_bytes as usize), (time_of(head.sequence.0), 128 + head.head.len()));
            heads.push((head.sequence.0, head.location));
        });
        assert_eq!(damage.expect("readable"), []);
        assert_eq!(heads.iter().map(|head| head.0).collect::<Vec<_>>(), (1..end).collect::<Vec<_>>());
        for (number, place) in heads {
            assert_eq!(bench.log.read_at(place, &mut Vec::new()).expect("there").sequence, Sequence(number));
        }
    }
}

#[test]
fn a_log_may_be_opened_with_other_options_at_any_time() {
    let disk = SimulatedDisk::new();
    let mut next = 1;
    for round in rounds(0..40) {
        let growth = (round % 4 == 3).then_some(SegmentGrowth { first_bytes: 4096, usual_bytes: 8192 });
        let options = LogOptions { index_heads: round % 2 == 1, growth, ..small(8192 << (round % 3)) };
        let bench = TestLog::open(&disk, options);
        bench.commit(next, next + 23, 90);
        next += 23;
        let mut heads = 0;
        assert_eq!(bench.log.for_each_head(&mut |_| heads += 1).expect("readable"), []);
        assert_eq!(heads, next - 1);
        assert_eq!(read_all(all_from_first(&bench.log), |_| 90), ((1..next).collect(), Vec::new()));
    }
}

#[test]
fn segments_grow_and_one_that_needs_more_is_larger() {
    let disk = SimulatedDisk::new();
    let growth = Some(SegmentGrowth { first_bytes: 4096, usual_bytes: 16_384 });
    let options = LogOptions { growth, ..small(1 << 18) };
    let sizes = || segments(&disk).iter().map(|path| disk.contents(path).expect("there").len()).collect::<Vec<_>>();
    let bench = TestLog::open(&disk, options);
    bench.commit(1, 150, 200);
    assert_eq!(sizes(), [4096, 8192, 16_384, 16_384]);
    bench.commit(150, 151, 100_000);
    bench.commit(151, 300, 200);
    assert_eq!(sizes()[4..6], [131_072, 16_384]);
    let size_of = |number| if number == 150 { 100_000 } else { 200 };
    drop(bench);
    let bench = TestLog::open(&disk, options);
    assert_eq!(read_all(all_from_first(&bench.log), size_of), ((1..300).collect(), Vec::new()));
    // Control: a record of the first segment of a log that needs more than the first size has it, too.
    let other = TestLog::open(&SimulatedDisk::new(), options);
    other.commit(1, 2, 100_000);
    assert_eq!((segments(&other.disk).len(), other.log.file_bytes()), (1, 131_072));
}

#[test]
fn segments_that_nobody_wants_are_used_again_and_never_show_what_they_had() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(8192));
    let mut reader = all_from_first(&bench.log);
    // Every record has the same size: the old ones lie exactly where the new ones are looked for.
    let size = |number: u64| 100 - head_of(number).len();
    let mut files = 0;
    let rounds = or_few(60, 8) as u64;
    for round in 0..rounds {
        for number in round * 50 + 1..round * 50 + 51 {
            bench.append(number, size(number)).expect("appended");
        }
        bench.committer.commit_once();
        while let Some(item) = reader.next().expect("readable") {
            assert!(
                matches!(item, LogItem::Record(record) if record.body == body_of(record.sequence.0, size(record.sequence.0)))
            );
        }
        bench.log.remove_through(Sequence(round * 50));
        bench.committer.commit_once();
        files = files.max(disk.paths().len());
    }
    assert!(files < 8, "{files} files");
    let first = bench.log.first_sequence();
    let (numbers, damage) = read_all(all_from_first(&bench.log), size);
    assert_eq!((numbers, damage), ((first.0..rounds * 50 + 1).collect(), Vec::new()));
    // Control: the seed without the ordinal, and the old records do verify.
    let path = segments(&disk).pop().expect("one");
    let bytes = disk.contents(&path).expect("there");
    let old = (0..bytes.len() - 28)
        .filter(|&at| crate::journal::format::record::length_of(&bytes[at..]) == Some(128))
        .count();
    assert!(old > read_all(bench.log.reader(Start::Sequence(first_of(&path))).expect("a reader"), size).0.len());
}

fn first_of(path: &Path) -> Sequence {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    crate::journal::format::segment::SegmentName::parse(name).expect("a segment").first
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn bodies_that_others_have_too_are_written_as_those_that_are_copied() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let disk = SimulatedDisk::new();
        let bench = TestLog::open(&disk, small(8192));
        let mut bodies = Vec::new();
        for number in 1..=200 {
            let body = body_of(number, dice.below(2000) as usize);
            let head = (kind_of(number), time_of(number), &head_of(number)[..]);
            let appended = match dice.once_in(2) {
                true => {
                    bench.log.append_record(head, RecordBody::Shared(&Arc::new(body.clone()), 1 + number as usize % 5))
                }
                false => bench.log.append_record(head, RecordBody::Parts(&[&body])),
            };
            bodies.push((appended.expect("appended").location, body));
            match dice.below(20) {
                0 => disk.limit(Some(0)),
                1..=3 => disk.limit(None),
                4..=8 => _ = bench.committer.commit_once(),
                _ => {}
            }
        }
        disk.limit(None);
        (0..3).for_each(|_| _ = bench.committer.commit_once());
        assert_eq!((bench.log.pending_bytes(), bench.log.pending_memory_bytes()), (0, 0), "seed {seed}");
        drop(bench);
        disk.power_cut(&mut dice);
        let bench = TestLog::open(&disk, small(8192));
        for (location, body) in bodies {
            let mut room = Vec::new();
            assert_eq!(bench.log.read_at(location, &mut room).expect("there").body, body, "seed {seed}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn a_clock_that_was_ahead_removes_nothing_new_when_it_is_right_again() {
    let retention = Retention { bytes_max: None, age_us_max: Some(1_000_000) };
    let bench = TestLog::open(&SimulatedDisk::new(), LogOptions { retention, ..small(8192) });
    bench.log.expire(time_of(0) + 1_000_000_000);
    bench.committer.commit_once();
    bench.log.expire(time_of(0));
    bench.commit(1, 1000, 100);
    assert_eq!(bench.log.first_sequence(), Sequence(1));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn retention_removes_whole_segments_by_bytes_and_by_age() {
    let retention = Retention { bytes_max: Some(30_000), age_us_max: None };
    let bench = TestLog::open(&SimulatedDisk::new(), LogOptions { retention, ..small(8192) });
    let place = bench.append(1, 100).expect("appended").location;
    bench.commit(2, 1000, 100);
    assert!(bench.log.size_bytes() <= 30_000 && bench.log.size_bytes() > 15_000);
    assert!(matches!(bench.log.read_at(place, &mut Vec::new()), Err(ReadError::Gone(_))));
    bench.log.set_retention(Retention { bytes_max: None, age_us_max: Some(1_000) });
    bench.log.expire(time_of(999) + 500);
    bench.committer.commit_once();
    let first = bench.log.first_sequence().0;
    assert!((900..950).contains(&first), "{first}");
    bench.log.expire(i64::MAX);
    bench.committer.commit_once();
    assert_eq!(bench.log.segment_count(), 1, "the last one is never removed");
    let mut reader = bench.log.reader(Start::Sequence(Sequence(5))).expect("a reader");
    let first = bench.log.first_sequence();
    assert_eq!(reader.next().expect("readable"), Some(LogItem::Missed(Sequence(5), first.previous())));
}

#[test]
fn a_place_in_a_segment_that_was_used_again_is_gone() {
    let bench = TestLog::open(&SimulatedDisk::new(), small(4096));
    let place = bench.append(1, 100).expect("appended").location;
    bench.commit(2, 100, 100);
    assert_eq!(place, Location { segment: SegmentNumber(1), offset: 64 });
    bench.log.remove_through(Sequence(90));
    bench.commit(100, 200, 100);
    assert!(matches!(bench.log.read_at(place, &mut Vec::new()), Err(ReadError::Gone(_))));
}

#[test]
fn the_thread_commits_what_many_threads_append() {
    let disk = SimulatedDisk::new();
    let wakes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let committer = Committer::start(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    })
    .expect("a thread");
    let (log, _) = Log::open(Arc::new(disk.clone()), dir(), small(1 << 16), &committer).expect("a log");
    let count = or_few(500, 20) as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..count {
                    log.append(1, 0, &[], &[&number.to_le_bytes()]).expect("appended");
                }
            });
        }
    });
    drop(committer); // which commits what is left
    assert_eq!(log.synced(), Sequence(4 * count));
    assert!(wakes.load(std::sync::atomic::Ordering::Relaxed) > 0);
    drop(log);
    assert_eq!(TestLog::open(&disk, small(1 << 16)).recovery.next, Sequence(4 * count + 1));
}

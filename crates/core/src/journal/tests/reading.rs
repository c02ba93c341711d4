//! Tests where readers start, and what they are told while the log grows and shrinks.

use super::*;
use crate::journal::{Disk, Wait};

#[test]
fn a_reader_begins_at_any_number_and_at_any_time() {
    let disk = SimulatedDisk::new();
    let end = or_few(3000, 120) as u64;
    let bench = TestLog::open(&disk, small(or_few(200_000, 8192) as u32));
    bench.commit(1, end, 150);
    assert!(bench.log.segment_count() > 2);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    for number in rounds((1..end).step_by(41)) {
        for start in [Start::Sequence(Sequence(number)), Start::Time(time_of(number)), Start::Time(time_of(number) - 9)]
        {
            for reader in [bench.log.reader(start), LogReader::open(&shared, dir(), start).map_err(|_| unreachable!())]
            {
                let mut reader = reader.expect("a reader");
                assert!(
                    matches!(reader.next(), Ok(Some(LogItem::Record(record))) if record.sequence == Sequence(number))
                );
                assert_eq!(reader.position(), Sequence(number + 1));
            }
        }
    }
    let mut reader = bench.log.reader(Start::Next).expect("a reader");
    assert!(matches!(reader.next(), Ok(None)));
    let mut late = bench.log.reader(Start::Time(time_of(end + 1))).expect("a reader");
    assert!(matches!(late.next(), Ok(None)));
    bench.commit(end, end + 3, 150);
    assert!(matches!(reader.next(), Ok(Some(LogItem::Record(record))) if record.sequence == Sequence(end)));
    assert!(matches!(late.next(), Ok(Some(LogItem::Record(record))) if record.sequence == Sequence(end + 1)));
    reader.seek(Sequence(17));
    assert!(matches!(reader.next(), Ok(Some(LogItem::Record(record))) if record.sequence == Sequence(17)));
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn readers_follow_a_log_that_grows_and_are_told_what_retention_took() {
    let seed = seed("readers_follow", 5);
    let mut dice = Dice::new(seed);
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(4096));
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let mut readers: Vec<(LogReader, u64, u64)> = Vec::new();
    for number in 1..3000 {
        bench.append(number, dice.below(300) as usize).expect("appended");
        if dice.once_in(4) {
            bench.committer.commit_once();
        }
        if dice.once_in(100) {
            bench.log.remove_through(Sequence(bench.log.synced().0.saturating_sub(dice.below(100))));
        }
        if readers.len() < 12 && dice.once_in(30) {
            let start = Start::Sequence(Sequence(dice.below(number) + 1));
            let reader = match dice.once_in(2) {
                true => bench.log.reader(start).expect("a reader"),
                false => LogReader::open(&shared, dir(), start).expect("a log"),
            };
            let next = reader.position().0;
            readers.push((reader, next, 0));
        }
        let count = readers.len() as u64;
        if count > 0 {
            let (reader, next, missed) = &mut readers[dice.below(count) as usize];
            for _ in 0..dice.below(100) {
                match reader.next().expect("readable") {
                    None => break,
                    Some(LogItem::Record(record)) => {
                        assert_eq!(record.sequence.0, *next, "no gap, no repeat");
                        assert_eq!(record.body, body_of(*next, record.body.len()));
                        *next += 1;
                    }
                    Some(LogItem::Missed(first, last)) => {
                        assert_eq!(first.0, *next);
                        *missed += last.0 - first.0 + 1;
                        *next = last.0 + 1;
                    }
                    Some(LogItem::Damaged(damage)) => panic!("{damage:?}"),
                }
            }
        }
    }
    assert!(readers.iter().any(|(_, _, missed)| *missed > 0));
}

#[test]
fn a_directory_without_a_log_is_no_log() {
    let shared: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    shared.create_dir(dir()).expect("made");
    assert!(matches!(LogReader::open(&shared, dir(), Start::First), Err(OpenError::NoLog(_))));
}

#[test]
#[cfg_attr(miri, ignore = "miri has no fallocate")]
fn with_real_files_it_is_the_same() {
    let root = std::env::temp_dir().join(format!("tamis-journal-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&root));
    let dir = root.join("log");
    let disk: Arc<dyn Disk> = Arc::new(crate::journal::RealDisk);
    for round in 0..3_u64 {
        let committer = Committer::start(|| {}).expect("a thread");
        let (log, recovery) = Log::open(Arc::clone(&disk), &dir, small(65_536), &committer).expect("a log");
        assert_eq!((recovery.next, recovery.damage.len()), (Sequence(round * 500 + 1), 0));
        let mut reader = LogReader::open(&disk, &dir, Start::Sequence(recovery.next)).expect("a log");
        for number in round * 500 + 1..round * 500 + 501 {
            log.append(kind_of(number), time_of(number), &head_of(number), &[&body_of(number, 300)]).expect("appended");
        }
        drop(committer);
        let mut count = 0;
        while let Some(LogItem::Record(_)) = reader.next().expect("readable") {
            count += 1;
        }
        assert_eq!(count, 500);
        log.reader(Start::First).expect("a reader");
    }
    let (numbers, damage) = read_all(LogReader::open(&disk, &dir, Start::First).expect("a log"), |_| 300);
    assert_eq!((numbers, damage), ((1..1501).collect(), Vec::new()));
    let lock = crate::journal::DirectoryLock::take(&root).expect("free");
    assert_eq!(crate::journal::DirectoryLock::take(&root).expect_err("taken").kind(), std::io::ErrorKind::WouldBlock);
    drop(lock);
    crate::journal::DirectoryLock::take(&root).expect("free again");
    std::fs::remove_dir_all(&root).expect("removed");
}

#[test]
fn a_summary_goes_with_its_segment_and_nothing_depends_on_it() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(4096));
    bench.commit(1, 200, 100);
    let summaries = |disk: &SimulatedDisk| {
        let names = disk.list(dir()).expect("names").into_iter();
        names.filter(|name| name.ends_with(".summary")).collect::<std::collections::BTreeSet<_>>()
    };
    let mut sealed = Vec::new();
    let mut after = bench.log.sealed_after(super::super::SegmentNumber(0));
    while let Some((ordinal, last)) = after {
        let found = bench.log.sealed_at(last).expect("sealed");
        assert_eq!((found.0, found.2), (ordinal, last));
        assert_eq!(bench.log.sealed_at(found.1), Some(found));
        bench.log.write_summary(ordinal, &[7; 100]).expect("written");
        bench.log.write_summary(ordinal, &ordinal.0.to_le_bytes()).expect("written again");
        sealed.push((ordinal, last));
        after = bench.log.sealed_after(ordinal);
    }
    let (last, end) = sealed[sealed.len() - 1];
    assert!(sealed.len() > 3 && bench.log.last_sealed() == last);
    assert_eq!(bench.log.sealed_at(end.next()), None, "it is being written");
    assert_eq!(summaries(&disk).len(), sealed.len());
    let mut bytes = [0; 8];
    let read = bench.log.open_summary(last).expect("a summary").read_at(0, &mut bytes).expect("read");
    assert_eq!(bytes[..read], last.0.to_le_bytes());
    let (removed, through) = sealed[1];
    bench.log.remove_through(through);
    bench.commit(200, 201, 100);
    assert_eq!(summaries(&disk).len(), sealed.len() - 2);
    bench.log.write_summary(removed, b"late").expect("nobody minds");
    assert!(bench.log.open_summary(removed).is_err() && bench.log.sealed_at(through).is_none());
    drop(bench);
    disk.create(&dir().join("00000001.summary"), 4).expect("an orphan");
    let bench = TestLog::open(&disk, small(4096));
    assert_eq!(summaries(&disk).len(), sealed.len() - 2);
    bench.log.abandon();
    bench.log.write_summary(last, b"late").expect("nobody minds");
    assert!(bench.log.open_summary(last).is_err(), "a log that goes");
}

/// The number of reads of so many readers that go through a log together, some records each in turn.
fn reads_together(disk: &SimulatedDisk, log: &Log, readers: usize) -> u64 {
    let mut readers: Vec<_> = (0..readers).map(|_| all_from_first(log)).collect();
    let before = disk.read_count();
    while readers.iter().any(|reader| reader.position() <= log.synced()) {
        for (index, reader) in readers.iter_mut().enumerate() {
            for _ in 0..50 + index {
                let expected = reader.position();
                match reader.next().expect("readable") {
                    None => break,
                    Some(LogItem::Record(record)) => {
                        assert_eq!((record.sequence, record.body), (expected, &body_of(expected.0, 1_000)[..]));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    disk.read_count() - before
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn readers_that_are_near_each_other_read_the_disk_as_one() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(1 << 20));
    bench.commit(1, 3_000, 1_000);
    let (alone, together) = (reads_together(&disk, &bench.log, 1), reads_together(&disk, &bench.log, 20));
    // Besides blocks of records, each reader reads what it has to know of each segment.
    let segments = 20 * 4 * bench.log.segment_count() as u64;
    assert!(alone >= 12 && together <= 2 * alone + segments, "{alone} alone, {together} together");
    assert!(together < 20 * alone / 2, "{alone} alone, {together} together");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn readers_at_the_end_share_what_comes() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(1 << 20));
    bench.commit(1, 10, 100);
    let mut readers: Vec<_> = (0..20).map(|_| all_from_first(&bench.log)).collect();
    let mut reads = 0;
    for round in 0..20 {
        let before = disk.read_count();
        for reader in &mut readers {
            while let Some(item) = reader.next().expect("readable") {
                let LogItem::Record(record) = item else { panic!("{item:?}") };
                assert_eq!(record.body, body_of(record.sequence.0, 100));
            }
        }
        reads += disk.read_count() - before;
        bench.commit(10 + round * 5, 15 + round * 5, 100);
    }
    assert!(reads <= 20 * 3 + 20 * 4, "{reads}: a read of what is new in each round, and each reader's beginning");
}

/// A reader of a log from its first record on, which must not wait.
fn hurried(log: &Log) -> LogReader {
    let mut reader = all_from_first(log);
    reader.set_wait(Wait::Never);
    reader
}

/// The next step of a reader of large records: the number of a whole one, or none where a part was read or it has to wait.
fn step(reader: &mut LogReader, size: usize) -> Option<u64> {
    match reader.next() {
        Ok(Some(LogItem::Record(record))) => {
            assert_eq!(record.body, body_of(record.sequence.0, size));
            Some(record.sequence.0)
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert!(error.would_wait(), "{error}");
            None
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn large_records_are_read_in_pieces_by_who_must_not_wait() {
    let (disk, size) = (SimulatedDisk::new(), 1 << 20);
    let bench = TestLog::open(&disk, small(8 << 20));
    bench.commit(1, 4, size);
    let (mut reader, mut found) = (hurried(&bench.log), Vec::new());
    for _ in 0..15 {
        found.push(step(&mut reader, size));
    }
    let record = |number| [None, None, None, None, Some(number)];
    assert_eq!(found, [record(1), record(2), record(3)].concat(), "a mebibyte, and the head of the record");
    let mut patient = all_from_first(&bench.log);
    assert_eq!([(); 3].map(|()| step(&mut patient, size)), [Some(1), Some(2), Some(3)]);
    // A disk that lets every third read pass.
    disk.slow_down_reads(3);
    reader.seek(Sequence(1));
    let found: Vec<_> =
        (0..100).filter_map(|_| if reader.position().0 < 4 { step(&mut reader, size) } else { None }).collect();
    assert_eq!(found, [1, 2, 3]);
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn who_wants_the_same_large_record_reads_it_together() {
    let (disk, size) = (SimulatedDisk::new(), 1 << 20);
    let bench = TestLog::open(&disk, small(8 << 20));
    bench.commit(1, 4, size);
    let (mut one, mut other) = (hurried(&bench.log), hurried(&bench.log));
    let mut found = Vec::new();
    while found.len() < 6 {
        found.extend(
            [&mut one, &mut other]
                .into_iter()
                .filter_map(|reader| if reader.position().0 < 4 { step(reader, size) } else { None }),
        );
    }
    assert_eq!(found, [1, 1, 2, 2, 3, 3]);
    let reads_of = |count: usize| {
        let mut readers: Vec<_> = (0..count).map(|_| hurried(&bench.log)).collect();
        let before = disk.read_count();
        for _ in 0..15 {
            readers.iter_mut().filter(|reader| reader.position().0 < 4).for_each(|reader| _ = step(reader, size));
        }
        assert!(readers.iter().all(|reader| reader.position().0 == 4));
        disk.read_count() - before
    };
    let (alone, together) = (reads_of(1), reads_of(10));
    assert!(together <= alone + 9 * 5, "{alone} alone, {together} together");
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn the_memory_of_records_of_which_a_part_is_read_is_counted_and_bounded() {
    let (disk, size) = (SimulatedDisk::new(), 9 << 20);
    let bench = TestLog::open(&disk, small(32 << 20));
    bench.commit(1, 4, size);
    let (mut one, mut other) = (hurried(&bench.log), hurried(&bench.log));
    other.seek(Sequence(3));
    let is_partly_read = |reader: &mut LogReader| reader.next().expect_err("large").is_partly_read();
    assert!(is_partly_read(&mut one) && one.has_part());
    assert!(bench.committer.block_bytes() > size as u64);
    assert!((0..10).all(|_| !is_partly_read(&mut other)), "the first has the memory for it");
    one.drop_part();
    assert!(is_partly_read(&mut other) && !one.has_part());
    assert!(bench.committer.block_bytes() < 2 * size as u64);
    assert!(!is_partly_read(&mut one));
    drop(other);
    assert!(is_partly_read(&mut one));
    while step(&mut one, size) != Some(1) {}
    assert!(bench.committer.block_bytes() < 2 * size as u64, "the whole record, once");
    drop(one);
    assert_eq!(bench.committer.block_bytes(), 0);
}

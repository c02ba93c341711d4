//! Tests errors of the disk: a failed sync ends all writing, and a full disk makes it wait.

use super::*;
use crate::journal::Disk;

#[test]
fn after_a_failed_sync_nothing_is_reported_synced_any_more() {
    for after in 0..6 {
        let bench = TestLog::open(&SimulatedDisk::new(), small(4096));
        bench.disk.fail_sync_after(after);
        let mut number = 0;
        while bench.committer.failed().is_none() {
            number += 1;
            bench.append(number, 200).expect("appended");
            bench.committer.commit_once();
            assert!(number < 1000, "the failure was noticed");
        }
        let synced = bench.log.synced();
        assert!(
            bench.committer.failed().is_some_and(|reason| reason.contains("a sync that was to fail")),
            "{bench:?}",
            bench = bench.log
        );
        assert!(matches!(bench.append(0, 10), Err(AppendError::Failed(_))));
        // The next sync would succeed, and must not be tried.
        let syncs = bench.disk.sync_count();
        for _ in 0..5 {
            bench.committer.commit_once();
        }
        assert_eq!((bench.log.synced(), bench.disk.sync_count()), (synced, syncs));
        assert_eq!(synced, Sequence(number - 1));
    }
}

#[test]
fn a_failed_write_ends_everything_too_and_is_no_torn_record_later() {
    for after in 0..12 {
        let disk = SimulatedDisk::new();
        let bench = TestLog::open(&disk, small(4096));
        disk.fail_write_after(after);
        let mut number = 0;
        while bench.committer.failed().is_none() {
            number += 1;
            bench.append(number, 200).expect("appended");
            bench.committer.commit_once();
        }
        let synced = bench.log.synced().0;
        drop(bench);
        let again = TestLog::open(&disk, small(4096));
        assert_eq!(again.recovery.damage, []);
        assert!(again.recovery.next.0 > synced, "what was reported is there");
        let (numbers, _) = read_all(all_from_first(&again.log), |_| 200);
        assert_eq!(numbers, (1..again.recovery.next.0).collect::<Vec<_>>());
    }
}

#[test]
fn every_log_of_a_committer_stops_with_the_first_failure() {
    let disk = SimulatedDisk::new();
    let committer = Committer::manual(|| {});
    let logs: Vec<Log> = (0..3)
        .map(|number| {
            let dir = PathBuf::from(format!("/data/{number}"));
            Log::open(Arc::new(disk.clone()), &dir, small(4096), &committer).expect("a log").0
        })
        .collect();
    for log in &logs {
        log.append(0, 0, &[], &[b"x"]).expect("appended");
    }
    disk.fail_sync_after(1);
    committer.commit_once();
    assert!(logs.iter().all(|log| log.failed().is_some() && log.synced() == Sequence(0)));
}

#[test]
fn a_full_disk_loses_nothing_and_goes_on_when_there_is_room() {
    let disk = SimulatedDisk::new();
    let options = LogOptions { pending_bytes_max: 20_000, ..small(8192) };
    let bench = TestLog::open(&disk, options);
    bench.commit(1, 30, 200);
    disk.limit(Some(8192 * 3 + 4096));
    let mut number = 30;
    let refused = loop {
        match bench.append(number, 200) {
            Ok(_) => number += 1,
            Err(refused) => break refused,
        }
        bench.committer.commit_once();
        assert!(number < 1000, "memory is bounded");
    };
    assert_eq!(refused, AppendError::Busy);
    assert!(bench.log.is_full() && bench.log.failed().is_none());
    let synced = bench.log.synced();
    assert!(synced >= Sequence(60) && synced < Sequence(number - 1), "{synced} of {number}");
    let (numbers, _) = read_all(all_from_first(&bench.log), |_| 200);
    assert_eq!(numbers.len() as u64, synced.0, "readers go on");
    // Retention makes room as well as an administrator does.
    bench.log.remove_through(Sequence(45));
    for _ in 0..3 {
        bench.committer.commit_once();
    }
    assert!(bench.log.synced() > synced);
    disk.limit(None);
    assert!(!bench.committer.commit_once().is_full);
    bench.committer.commit_once();
    assert!(!bench.log.is_full());
    assert_eq!((bench.log.synced(), bench.log.pending_bytes()), (Sequence(number - 1), 0));
    bench.commit(number, number + 10, 200);
    let first = bench.log.first_sequence().0;
    assert_eq!(read_all(all_from_first(&bench.log), |_| 200), ((first..number + 10).collect(), Vec::new()));
    drop(bench);
    assert_eq!(TestLog::open(&disk, options).recovery.next, Sequence(number + 10));
}

#[test]
fn a_reserve_takes_a_segment_more_on_a_full_disk() {
    let disk = SimulatedDisk::new();
    let options = LogOptions { has_reserve: true, ..small(8192) };
    let bench = TestLog::open(&disk, options);
    bench.commit(1, 5, 200);
    disk.limit(Some(0));
    let mut number = 5;
    let mut append_until = |is_so: fn(&Log) -> bool| {
        while !is_so(&bench.log) {
            bench.append(number, 200).expect("appended");
            bench.committer.commit_once();
            number += 1;
            assert!(number < 1000, "it comes to that");
        }
        number
    };
    let full_at = append_until(Log::is_full);
    assert!(!bench.log.is_stuck());
    assert_eq!((bench.log.synced(), bench.log.pending_bytes()), (Sequence(full_at - 1), 0));
    let stuck_at = append_until(Log::is_stuck);
    assert!(stuck_at - full_at > 20, "a segment holds more than {full_at} to {stuck_at}");
    assert_eq!(bench.log.synced(), Sequence(stuck_at - 2));
    disk.limit(None);
    bench.committer.commit_once();
    assert!(!bench.log.is_full() && !bench.log.is_stuck());
    bench.commit(stuck_at, stuck_at + 100, 200);
    assert_eq!(read_all(all_from_first(&bench.log), |_| 200), ((1..stuck_at + 100).collect(), Vec::new()));
    drop(bench);
    let again = TestLog::open(&disk, options);
    assert_eq!((again.recovery.next, &again.recovery.damage[..]), (Sequence(stuck_at + 100), &[][..]));
}

#[test]
fn a_thread_waits_for_room_and_is_not_held_up_by_it_when_it_ends() {
    let disk = SimulatedDisk::new();
    let committer = Committer::start(|| {}).expect("a thread");
    let (log, _) = Log::open(Arc::new(disk.clone()), dir(), small(4096), &committer).expect("a log");
    disk.limit(Some(4096));
    log.append(0, 0, &[], &[b"x"]).expect("appended");
    wait(|| log.is_full());
    disk.limit(None);
    wait(|| log.synced() == Sequence(1));
    disk.limit(Some(0));
    for _ in 0..100 {
        log.append(0, 0, &[], &[&[1; 100]]).expect("appended");
    }
    wait(|| log.is_full());
    drop(committer);
    assert!(log.synced() < Sequence(101));
}

#[test]
fn a_log_that_waits_when_its_committer_goes_is_let_go_with_its_files() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    let committer = Committer::manual(|| {});
    let (log, _) = Log::open(Arc::clone(&disk), dir(), small(4096), &committer).expect("a log");
    log.append(0, 0, &[], &[b"x"]).expect("appended");
    drop(committer);
    drop(log);
    assert_eq!(Arc::strong_count(&disk), 1);
}

fn wait(condition: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed().as_secs() < 20, "it does not come");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn opening_on_a_full_disk_works_and_appending_waits() {
    let disk = SimulatedDisk::new();
    drop(TestLog::open(&disk, small(4096)));
    disk.limit(Some(0));
    let bench = TestLog::open(&disk, small(4096));
    bench.append(1, 10).expect("appended");
    assert!(bench.committer.commit_once().is_full);
    assert!(disk.free_bytes(dir()).expect("known") == 0);
    disk.limit(None);
    bench.committer.commit_once();
    assert_eq!(bench.log.synced(), Sequence(1));
}

//! The last record is torn at any byte, and nothing else is lost.

use super::*;
use crate::journal::SegmentNumber;
use crate::journal::format::segment::SegmentName;

const RECORDS: u64 = or_few(1000, 100) as u64;
/// How many are committed together.
const BATCH: u64 = RECORDS / 10;
const SIZE: usize = 12;

fn options() -> LogOptions {
    LogOptions { index_heads: false, ..small(1 << 16) }
}

/// A log with one segment of many records, and where each of them begins and the last ends.
fn whole() -> (Vec<u8>, PathBuf, Vec<u32>) {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, options());
    let mut places = Vec::new();
    for number in 1..=RECORDS {
        places.push(bench.append(number, SIZE).expect("appended").location.offset);
        if number % BATCH == 0 {
            bench.committer.commit_once();
        }
    }
    places.push(places[places.len() - 1] + 28 + SIZE as u32 + head_of(RECORDS).len() as u32);
    let path = segments(&disk).remove(0);
    (disk.contents(&path).expect("there"), path, places)
}

/// The result of recovering the segment when only its first `length` bytes were written.
fn recovered(bytes: &[u8], path: &Path, length: usize) -> TestLog {
    let disk = SimulatedDisk::new();
    let mut cut = bytes[..length].to_vec();
    cut.resize(bytes.len(), 0);
    // No mark: after a power cut it may say nothing yet, and then it cannot help.
    let header =
        crate::journal::format::segment::SegmentHeader::decode(&bytes[..64]).expect("our version").expect("whole");
    let first = header.name;
    crate::journal::writing::mark_file::MarkFile::begin(disk_file(&disk), header.log_id, Sequence(0), first)
        .expect("written");
    disk.put(path, cut);
    TestLog::open(&disk, options())
}

fn disk_file(disk: &SimulatedDisk) -> Arc<dyn crate::journal::DiskFile> {
    use crate::journal::Disk;
    disk.create(&dir().join("mark"), 4096).expect("room")
}

#[test]
fn cut_at_every_byte_of_a_thousand_records_every_whole_one_is_kept() {
    let (bytes, path, places) = whole();
    let end = places[places.len() - 1] as usize;
    // Every cut is recovered; reading all of it again each time would be a thousand times a thousand records.
    for length in rounds(rounds(0..=end)) {
        let bench = recovered(&bytes, &path, length);
        // If only zeroes follow, recovery cuts nothing off.
        let same = length + bytes[length..].iter().take_while(|&&byte| byte == 0).count();
        let kept = places.partition_point(|&place| place as usize <= same).saturating_sub(1) as u64;
        assert_eq!(bench.recovery.next, Sequence(kept + 1), "cut at {length}");
        assert_eq!(bench.recovery.damage, [], "cut at {length}");
        if length % 997 == 0 || length + 100 > end {
            bench.commit(kept + 1, kept + 10, SIZE);
            assert_eq!(read_all(all_from_first(&bench.log), |_| SIZE), ((1..kept + 10).collect(), Vec::new()));
        }
    }
}

#[test]
fn the_bytes_behind_a_torn_record_never_come_back() {
    // A torn tail: the first record of the last batch is bad, those behind it are whole, as a disk may leave them that writes in any order.
    let (bytes, path, places) = whole();
    let bad = RECORDS - BATCH + 1;
    let mut torn = bytes;
    torn[places[bad as usize - 1] as usize + 30] ^= 1;
    let bench = recovered(&torn, &path, torn.len());
    assert_eq!(bench.recovery.next, Sequence(bad), "nothing proves that the last batch was synced");
    // A record of the same size takes its place; the old one behind it would follow it.
    bench.commit(bad, bad + 1, SIZE);
    let again = TestLog::open(&bench.disk, options());
    assert_eq!(again.recovery.next, Sequence(bad + 1));
    assert_eq!(read_all(all_from_first(&again.log), |_| SIZE), ((1..bad + 1).collect(), Vec::new()));
    // Control: without zeroes behind the end the old records do come back.
    let mut planted = again.disk.contents(&path).expect("there");
    let after = places[bad as usize] as usize;
    planted[after..].copy_from_slice(&torn[after..]);
    let bench = recovered(&planted, &path, planted.len());
    assert_eq!(bench.recovery.next, Sequence(RECORDS + 1));
}

#[test]
fn rot_before_records_that_prove_it_was_synced_is_reported_and_cuts_nothing_off() {
    let (bytes, path, places) = whole();
    for number in [1, BATCH / 2, BATCH, BATCH + 1, 5 * BATCH + 5, 9 * BATCH] {
        let number = number as usize;
        let mut rotten = bytes.clone();
        rotten[places[number - 1] as usize + 30] ^= 4;
        let bench = recovered(&rotten, &path, rotten.len());
        let lost: Vec<_> = bench.recovery.damage.iter().map(|damage| (damage.first.0, damage.last.0)).collect();
        assert_eq!(lost, [(number as u64, number as u64)]);
        let (numbers, damage) = read_all(all_from_first(&bench.log), |_| SIZE);
        assert_eq!(numbers, (1..=RECORDS).filter(|&kept| kept != number as u64).collect::<Vec<_>>());
        assert_eq!(damage.len(), 1);
    }
}

#[test]
fn what_the_mark_had_seen_and_is_not_there_is_reported() {
    let (segment_bytes, size) = (or_few(8192, 4096) as u32, or_few(100, 20));
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(segment_bytes));
    bench.commit(1, 20, size);
    let path = segments(&disk).remove(0);
    drop(bench);
    // The last record is gone: a torn tail, but for the mark.
    let place = disk.contents(&path).expect("there").iter().rposition(|&byte| byte != 0).expect("a record");
    disk.flip(&path, place, 255);
    let bench = TestLog::open(&disk, small(segment_bytes));
    assert_eq!(
        bench.recovery.damage.iter().map(|damage| (damage.first.0, damage.last.0)).collect::<Vec<_>>(),
        [(19, 19)]
    );
    assert_eq!(bench.recovery.next, Sequence(20), "no number is given twice");
    bench.commit(20, 30, size);
    let (numbers, damage) = read_all(all_from_first(&bench.log), |_| size);
    assert_eq!(numbers, (1..19).chain(20..30).collect::<Vec<_>>());
    assert_eq!(damage.len(), 1);
    let again = TestLog::open(&disk, small(segment_bytes));
    assert_eq!((again.recovery.damage.len(), again.recovery.next), (1, Sequence(30)));
}

#[test]
fn a_segment_that_was_only_begun_is_begun_again() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(4096));
    disk.limit(Some(2 * 4096)); // the mark and one segment
    bench.commit(1, 60, 100);
    let next = bench.log.synced().next();
    assert!(bench.log.is_full() && next < Sequence(60));
    drop(bench);
    disk.limit(None);
    // The power went when the file had its name and not yet its header, or not all of its size either.
    for size in [4096, 0, 100, 4095] {
        let disk = copy_of(&disk);
        disk.put(&dir().join(SegmentName { ordinal: SegmentNumber(2), first: next }.file_name()), vec![0x5a; size]);
        let bench = TestLog::open(&disk, small(4096));
        assert_eq!((bench.recovery.next, bench.recovery.damage.len()), (next, 0));
        bench.commit(next.0, 60, 100);
        let again = TestLog::open(&disk, small(4096));
        assert_eq!(read_all(all_from_first(&again.log), |_| 100), ((1..60).collect(), Vec::new()));
    }
}

fn copy_of(disk: &SimulatedDisk) -> SimulatedDisk {
    let copy = SimulatedDisk::new();
    disk.paths().iter().for_each(|path| copy.put(path, disk.contents(path).expect("there")));
    copy
}

#[test]
fn a_segment_that_was_made_only_in_part_takes_what_fits() {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(16_384));
    disk.limit(Some(4096 + 16_384));
    bench.commit(1, 200, 100);
    let next = bench.log.synced().next();
    drop(bench);
    disk.limit(None);
    disk.put(&dir().join(SegmentName { ordinal: SegmentNumber(2), first: next }.file_name()), vec![0; 5000]);
    let bench = TestLog::open(&disk, small(16_384));
    bench.commit(next.0, next.0 + 1, 6000);
    bench.commit(next.0 + 1, 200, 100);
    let size = |number: u64| if number == next.0 { 6000 } else { 100 };
    let again = TestLog::open(&disk, small(16_384));
    assert_eq!(again.recovery.damage, []);
    assert_eq!(read_all(all_from_first(&again.log), size), ((1..200).collect(), Vec::new()));
}

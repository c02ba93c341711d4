//! Bit rot is never delivered and never skipped in silence.

use super::*;
use crate::journal::format::footer::SegmentContents;
use crate::journal::format::record::{self, Seed};
use crate::journal::format::segment::{self, SegmentName};
use crate::journal::inspect::inspect_segment;
use crate::journal::recovery::directory::Directory;
use crate::journal::{Disk, accept_losses, inspect};

const SEGMENT: u32 = or_few(65_536, 4096) as u32;
const SIZE: usize = or_few(450, 50);

/// Three segments of which the middle one gets the rot, and the numbers in it.
fn three_segments() -> (SimulatedDisk, PathBuf, std::ops::Range<u64>, u64) {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(SEGMENT));
    let mut firsts = Vec::new();
    let mut number = 0;
    while firsts.len() < 3 || number < firsts[2] + 20 {
        number += 1;
        let place = bench.append(number, SIZE).expect("appended").location;
        if place.offset == 64 {
            firsts.push(number);
        }
        if number % 10 == 0 {
            bench.committer.commit_once();
        }
    }
    bench.committer.commit_once();
    let path = segments(&disk).remove(1);
    (disk, path, firsts[1]..firsts[2], number)
}

/// The directory of the log, its segments' names, and the seed of the middle one.
fn known(disk: &SimulatedDisk) -> (Directory, Vec<SegmentName>, Seed) {
    let (listing, found) = Directory::find(&(Arc::new(disk.clone()) as Arc<dyn Disk>), dir()).expect("a log");
    let directory = found.expect("a log").directory;
    let seed = segment::seed(directory.log_id, listing.segments[1].ordinal);
    (directory, listing.segments, seed)
}

/// The bytes between the records and the footer, which hold nothing.
fn unused(directory: &Directory, name: SegmentName) -> std::ops::Range<usize> {
    let segment = directory.open(name).expect("there");
    let (file, file_bytes) = (segment.file.as_ref(), segment.file_bytes);
    let trailer = segment.trailer().expect("readable").expect("sealed");
    let mut contents = SegmentContents::empty(false);
    contents.sparse = trailer.read_sparse(file, file_bytes).expect("readable").expect("whole");
    let mut buffer = Vec::new();
    let heads = trailer.read_heads(file, file_bytes, &mut buffer).expect("readable").map_or(0, <[u8]>::len);
    trailer.end as usize..SEGMENT as usize - heads - contents.encode_end(segment.seed).len()
}

#[test]
fn every_bit_of_a_sealed_segment_that_turns_over_is_reported_and_no_wrong_body_is_read() {
    let (disk, path, rotten, last) = three_segments();
    let (directory, names, seed) = known(&disk);
    let unused = unused(&directory, names[1]);
    assert!(unused.len() < 1024, "{unused:?}");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let clean = inspect(&shared, dir()).expect("a log");
    assert_eq!((clean.damage.len(), clean.segments.len()), (0, 3));
    for bit in rounds(rounds(0..SEGMENT as usize * 8)) {
        let (place, mask) = (bit / 8, 1 << (bit % 8));
        disk.flip(&path, place, mask);
        // All of the log is read, and every body compared, for one bit in 61; the segment is checked for every one.
        if bit % 61 == 0 {
            let reader = LogReader::open(&shared, dir(), Start::First).expect("a log");
            let (numbers, damage) = read_all(reader, |_| SIZE);
            let lost: u64 = damage.iter().map(|damage| damage.lost()).sum();
            assert!(damage.iter().all(|damage| rotten.contains(&damage.first.0)), "{damage:?}");
            assert_eq!(numbers.len() as u64 + lost, last, "bit {bit}");
            assert!(lost <= 1, "one bit takes one record at most: {bit} took {lost}");
            assert!(
                numbers.iter().filter(|number| !rotten.contains(number)).count() as u64
                    == last - (rotten.end - rotten.start)
            );
        }
        let found = inspect_segment(&directory, names[1], names[2]).expect("readable");
        assert_eq!(found.is_empty(), unused.contains(&place), "bit {bit} at {place}: {found:?}");
        disk.flip(&path, place, mask);
    }
    assert!(inspect(&shared, dir()).expect("a log").damage.is_empty());
    // Control: a writer that computes the checksum of what rotted already cannot be caught; and it is not.
    let mut bytes = disk.contents(&path).expect("there");
    let length = record::length_of(&bytes[64..]).expect("a record") as usize;
    bytes[64 + 40] ^= 1;
    let first = &mut bytes[64..64 + length];
    record::seal(first, &[], first[25], seed);
    disk.put(&path, bytes);
    assert!(inspect(&shared, dir()).expect("a log").damage.is_empty());
    let reader = LogReader::open(&shared, dir(), Start::First).expect("a log");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read_all(reader, |_| SIZE)));
    assert!(caught.is_err(), "the comparison of bodies sees a wrong one");
}

#[test]
fn a_log_with_rot_opens_reports_it_and_goes_on() {
    let (disk, path, rotten, last) = three_segments();
    let mut dice = Dice::new(seed("a_log_with_rot", 7));
    let bytes = disk.contents(&path).expect("there");
    for round in rounds(0..60) {
        let mut broken = bytes.clone();
        for _ in 0..=round % 5 {
            let start = dice.below(u64::from(SEGMENT)) as usize;
            let end = (start + dice.below(3000) as usize).min(broken.len());
            broken[start..end].iter_mut().for_each(|byte| *byte = dice.roll() as u8);
        }
        disk.put(&path, broken);
        let bench = TestLog::open(&disk, small(SEGMENT));
        assert_eq!(bench.recovery.next, Sequence(last + 1));
        let (numbers, damage) = read_all(all_from_first(&bench.log), |_| SIZE);
        let lost: u64 = damage.iter().map(|damage| damage.lost()).sum();
        assert_eq!(numbers.len() as u64 + lost, last);
        let elsewhere = numbers.iter().filter(|number| !rotten.contains(number)).count() as u64;
        assert_eq!(elsewhere, last - (rotten.end - rotten.start), "the other segments are whole");
        // Heads are complete as long as the index is; and where it is not, those of the records that are left.
        let mut heads = 0;
        bench.log.for_each_head(&mut |_| heads += 1).expect("readable");
        assert!(heads >= numbers.len() as u64);
    }
}

#[test]
fn a_segment_whose_loss_was_accepted_is_reported_with_its_numbers() {
    let (disk, path, rotten, last) = three_segments();
    Disk::remove(&disk, &path).expect("removed");
    assert_eq!(accept_losses(&(Arc::new(disk.clone()) as _), dir()).expect("accepted").len(), 1);
    let bench = TestLog::open(&disk, small(SEGMENT));
    let lost: Vec<_> = bench.recovery.damage.iter().map(|damage| damage.first.0..damage.last.0 + 1).collect();
    assert_eq!(lost, std::slice::from_ref(&rotten));
    let (numbers, damage) = read_all(all_from_first(&bench.log), |_| SIZE);
    assert_eq!(numbers, (1..=last).filter(|number| !rotten.contains(number)).collect::<Vec<_>>());
    assert_eq!(damage.len(), 1);
}

#[test]
fn a_reader_is_told_of_damage_from_its_place_on_and_of_none_before() {
    let count = or_few(40, 19) as u64;
    let rotten = [3, 6, 7, count];
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, small(SEGMENT));
    let append = |number| bench.append(number, SIZE).expect("appended").location.offset;
    let places: Vec<_> = (1..=count).map(append).collect();
    bench.committer.commit_once();
    let path = segments(&disk).remove(0);
    for number in rotten {
        disk.flip(&path, places[number as usize - 1] as usize + 50, 1);
    }
    let shared: Arc<dyn Disk> = Arc::new(disk);
    for start in (1..=count).step_by(or_few(1, 6)) {
        let reader = LogReader::open(&shared, dir(), Start::Sequence(Sequence(start))).expect("a log");
        let (numbers, damage) = read_all(reader, |_| SIZE);
        let told: Vec<u64> = damage.iter().flat_map(|damage| damage.first.0..=damage.last.0).collect();
        let is_bad = |number: &u64| rotten.contains(number);
        let (bad, good): (Vec<u64>, Vec<u64>) = (start..=count).partition(is_bad);
        assert_eq!((numbers, told), (good, bad), "from {start}");
        assert!(damage.iter().all(|damage| damage.lost() > 0));
    }
}

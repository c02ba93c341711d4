//! Tests logs that lack files: what is missing is named, nothing is changed, and put back it is all there.

use std::collections::BTreeMap;

use super::*;
use crate::journal::{Disk, accept_losses, inspect};

const SIZE: usize = 100;
const END: u64 = 200;

/// A log of several segments, of which retention has removed the first ones.
fn begun() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let bench = TestLog::open(&disk, LogOptions { spares_max: 1, ..small(4096) });
    bench.commit(1, END, SIZE);
    bench.log.remove_through(Sequence(60));
    bench.committer.commit_once();
    assert!(bench.log.first_sequence() > Sequence(30) && bench.log.segment_count() > 4);
    disk
}

fn contents(disk: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.contents(&path).expect("there"))).collect()
}

/// Why the log cannot be opened.
fn refused(disk: &SimulatedDisk) -> Option<String> {
    let committer = Committer::manual(|| {});
    match Log::open(Arc::new(disk.clone()), dir(), small(4096), &committer) {
        Ok(_) => None,
        Err(OpenError::Incomplete(text)) => Some(text),
        Err(other) => panic!("{other:?}"),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned()
}

fn remove(disk: &SimulatedDisk, paths: &[&PathBuf]) {
    paths.iter().for_each(|path| Disk::remove(disk, path).expect("removed"));
}

/// The numbers of all records that are there, each right in every byte.
fn numbers(disk: &SimulatedDisk) -> Vec<u64> {
    read_all(all_from_first(&TestLog::open(disk, small(4096)).log), |_| SIZE).0
}

#[test]
fn each_missing_file_is_named_and_put_back_everything_is_there() {
    let disk = begun();
    let expected = numbers(&disk);
    let kept = contents(&disk);
    let must_be_there = kept.keys().filter(|path| !file_name(path).starts_with("spare"));
    for path in must_be_there {
        Disk::remove(&disk, path).expect("removed");
        let without = contents(&disk);
        for _ in 0..2 {
            let text = refused(&disk).unwrap_or_else(|| panic!("opened without {}", path.display()));
            assert!(text.contains(&format!("{} is missing", file_name(path))), "{text}");
            assert_eq!(contents(&disk), without, "nothing is changed");
        }
        let seen = inspect(&(Arc::new(disk.clone()) as _), dir()).expect("readable");
        assert_eq!(seen.missing, [format!("{} is missing", file_name(path))]);
        assert_eq!(seen.damage.iter().any(|damage| damage.lost() > 0), file_name(path) != "mark", "{:?}", seen.damage);
        disk.put(path, kept[path].clone());
        assert_eq!(contents(&disk), kept);
        assert_eq!(numbers(&disk), expected);
    }
    let spare = kept.keys().find(|path| file_name(path).starts_with("spare")).expect("one is kept");
    Disk::remove(&disk, spare).expect("removed");
    assert_eq!(numbers(&disk), expected, "nothing is in a spare file");
}

#[test]
fn several_missing_files_are_named_together() {
    let disk = begun();
    let paths = segments(&disk);
    remove(&disk, &[&paths[0], &paths[2], &paths[3], &dir().join("mark")]);
    let text = refused(&disk).expect("refused");
    assert!(text.contains("mark is missing") && text.contains("tamis journal accept"), "{text}");
    let disk = begun();
    remove(&disk, &[&paths[0], &paths[2], &paths[3]]);
    let text = refused(&disk).expect("refused");
    for path in [&paths[0], &paths[2]] {
        assert!(text.contains(&file_name(path)), "{text}");
    }
    assert!(text.contains(&format!("{}-*.segment is missing", &file_name(&paths[3])[..8])), "{text}");
    paths[1..].iter().for_each(|path| drop(Disk::remove(&disk, path)));
    let text = refused(&disk).expect("refused");
    assert!(text.contains(&file_name(&paths[0])), "none is left: {text}");
}

#[test]
fn a_reader_of_the_files_tells_what_is_lost_from_what_retention_removed() {
    let disk = begun();
    let paths = segments(&disk);
    let first = TestLog::open(&disk, small(4096)).log.first_sequence();
    Disk::remove(&disk, &paths[0]).expect("removed");
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let mut reader = LogReader::open(&shared, dir(), Start::Sequence(Sequence(3))).expect("a log");
    assert_eq!(reader.next().expect("readable"), Some(LogItem::Missed(Sequence(3), first.previous())));
    let Some(LogItem::Damaged(damage)) = reader.next().expect("readable") else { panic!("not told") };
    assert_eq!(damage.first, first);
    let mut reader = LogReader::open(&shared, dir(), Start::First).expect("a log");
    assert!(matches!(reader.next().expect("readable"), Some(LogItem::Damaged(same)) if same == damage));
}

#[test]
fn a_last_segment_that_is_cut_short_is_not_taken_for_one_that_was_never_finished() {
    let disk = begun();
    let last = segments(&disk).pop().expect("a segment");
    let whole = disk.contents(&last).expect("there");
    disk.put(&last, Vec::new());
    let text = refused(&disk).expect("refused");
    assert!(text.contains(&format!("{} is cut short", file_name(&last))), "{text}");
    disk.put(&last, whole);
    assert_eq!(refused(&disk), None);
}

#[test]
fn a_segment_of_another_log_is_refused_before_it_is_overwritten() {
    let (disk, other) = (begun(), begun());
    let last = segments(&disk).pop().expect("a segment");
    disk.put(&last, other.contents(&last).expect("of the same name"));
    let before = contents(&disk);
    let text = refused(&disk).expect("refused");
    assert!(text.contains(&format!("{} is of another log", file_name(&last))), "{text}");
    assert_eq!(contents(&disk), before);
}

#[test]
fn an_accepted_loss_lets_the_log_go_on_and_no_number_is_given_twice() {
    let expected = numbers(&begun());
    let paths = segments(&begun());
    let count = paths.len();
    for lost in [vec![0], vec![2], vec![count - 1], vec![0, 2, count - 1], (0..count).collect()] {
        for without_mark in [false, true] {
            let disk = begun();
            lost.iter().for_each(|&index| Disk::remove(&disk, &paths[index]).expect("removed"));
            if without_mark {
                Disk::remove(&disk, &dir().join("mark")).expect("removed");
            }
            if without_mark && lost.len() == count {
                continue; // nothing tells that a log was here
            }
            assert!(refused(&disk).is_some());
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let losses = accept_losses(&shared, dir()).expect("accepted");
            assert!(!losses.is_empty());
            assert_eq!(accept_losses(&shared, dir()).expect("nothing to do"), [""; 0]);
            let left = numbers(&disk);
            assert!(left.len() < expected.len() && left.iter().all(|number| expected.contains(number)));
            let bench = TestLog::open(&disk, small(4096));
            let next = bench.recovery.next.0;
            assert!(without_mark || next == END, "{next} of {END}");
            bench.commit(next, next + 100, SIZE);
            drop(bench);
            assert_eq!(numbers(&disk), left.iter().copied().chain(next..next + 100).collect::<Vec<_>>());
            // What is missing from now on is noticed again.
            let last = segments(&disk).pop().expect("a segment");
            Disk::remove(&disk, &last).expect("removed");
            assert!(refused(&disk).is_some_and(|text| text.contains(&file_name(&last))));
        }
    }
}

#[test]
fn any_damage_of_the_mark_is_refused_or_harmless() {
    let disk = begun();
    let expected = numbers(&disk);
    let (path, kept) = (dir().join("mark"), contents(&disk));
    let mut refusals = 0;
    let mut check = |bytes: Vec<u8>, reason: &str| {
        disk.put(&path, bytes);
        match refused(&disk) {
            Some(text) => {
                assert!(text.contains(reason), "{text}");
                refusals += 1;
            }
            None => assert_eq!(numbers(&disk), expected),
        }
        kept.iter().for_each(|(path, bytes)| disk.put(path, bytes.clone()));
    };
    for byte in rounds((0..60).chain(1024..1068).chain(2048..2092)) {
        let mut bytes = kept[&path].clone();
        bytes[byte] ^= 1 << (byte % 8);
        check(bytes, "mark is damaged");
    }
    let seed = seed("any_damage_of_the_mark", 13);
    let mut dice = Dice::new(seed);
    for _ in rounds(0..200) {
        let mut bytes = kept[&path].clone();
        for _ in 0..dice.below(40) {
            let at = [0, 1024, 2048][dice.below(3) as usize] + dice.below(60) as usize;
            bytes[at] = dice.roll() as u8;
        }
        bytes.truncate(if dice.once_in(4) { dice.below(2200) as usize } else { bytes.len() });
        // With the head and the newest extent damaged, the older one still expects what was removed since.
        check(bytes, "/data/journal: ");
    }
    check(vec![0xff; 4096], "mark is damaged");
    check(Vec::new(), "mark is damaged");
    assert!(refusals >= 2);
}

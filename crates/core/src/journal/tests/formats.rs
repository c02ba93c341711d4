//! Tests that files of earlier versions of the format can still be read.

use super::*;
use crate::journal::format::{mark, segment};

/// A log of which every file has version 1, as it was written in 2026: three segments, 120 records with bodies of 100
/// bytes.
const KEPT: [(&str, &[u8]); 4] = [
    ("mark", include_bytes!("../../../tests/data/journal-1/mark")),
    (
        "00000001-00000000000000000001.segment",
        include_bytes!("../../../tests/data/journal-1/00000001-00000000000000000001.segment"),
    ),
    (
        "00000002-00000000000000000051.segment",
        include_bytes!("../../../tests/data/journal-1/00000002-00000000000000000051.segment"),
    ),
    (
        "00000003-00000000000000000101.segment",
        include_bytes!("../../../tests/data/journal-1/00000003-00000000000000000101.segment"),
    ),
];

/// The mark of version 2 of the same log. Its segments have version 1.
const MARK_2: &[u8] = include_bytes!("../../../tests/data/journal-2/mark");

/// The kept log, with this mark.
fn kept(mark: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    KEPT.iter().for_each(|(name, bytes)| disk.put(&dir().join(name), bytes.to_vec()));
    disk.put(&dir().join(KEPT[0].0), mark.to_vec());
    disk
}

#[test]
fn a_log_with_a_mark_of_either_version_is_read_and_goes_on() {
    for mark in [KEPT[0].1, MARK_2] {
        let disk = kept(mark);
        for end in [121, 151, 181] {
            let bench = TestLog::open(&disk, small(8192));
            assert_eq!((bench.recovery.damage.len(), bench.recovery.next), (0, Sequence(end)));
            assert_eq!(read_all(all_from_first(&bench.log), |_| 100), ((1..end).collect(), Vec::new()));
            bench.commit(end, end + 30, 100);
        }
    }
}

#[test]
fn a_mark_of_version_1_is_replaced_in_every_power_cut() {
    let seed = seed("a_mark_of_version_1_is_replaced_in_every_power_cut", 41);
    for round in rounds(0..100) {
        let (disk, mut dice) = (kept(KEPT[0].1), Dice::new(seed + round));
        disk.fail_write_after(dice.below(4));
        assert!(TestLog::try_open(&disk, small(8192)).is_err());
        disk.power_cut(&mut dice);
        let bench = TestLog::open(&disk, small(8192));
        assert_eq!((bench.recovery.damage.len(), bench.recovery.next), (0, Sequence(121)), "seed {}", seed + round);
    }
}

#[test]
fn a_later_format_is_refused_with_both_numbers() {
    for (index, magic, known) in [(0, *b"tamismrk", mark::VERSION), (3, *b"tamisjnl", segment::VERSION)] {
        let disk = kept(KEPT[0].1);
        let (name, bytes) = KEPT[index];
        let mut bytes = bytes.to_vec();
        assert_eq!(bytes[..8], magic);
        bytes[8..12].copy_from_slice(&(known + 1).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        disk.put(&dir().join(name), bytes);
        let committer = Committer::manual(|| {});
        let opened = Log::open(Arc::new(disk.clone()), dir(), small(8192), &committer);
        let Err(OpenError::Version(text)) = opened else { panic!("opened") };
        let expected = format!("journal format {}, and this tamis reads up to {known}", known + 1);
        assert!(text.contains(&expected), "{text}");
        assert_eq!(disk.paths().len(), KEPT.len(), "nothing was made");
    }
}

/// Writes the mark of the kept log: `cargo test -p tamis-core mark_of_this_format -- --ignored`, for a new version only.
#[test]
#[ignore = "writes the mark that is kept in tests/data"]
fn mark_of_this_format() {
    let disk = kept(KEPT[0].1);
    drop(TestLog::open(&disk, small(8192)));
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/journal-{}", mark::VERSION));
    std::fs::create_dir_all(&place).expect("made");
    std::fs::write(place.join("mark"), disk.contents(&dir().join("mark")).expect("there")).expect("written");
}

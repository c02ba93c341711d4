//! Tests that files of earlier versions of the format can still be read.

use super::*;
use crate::journal::OpenError;
use crate::journal::format::segment::VERSION;

/// A log of format 1 as it was written in 2026: three segments, 120 records with bodies of 100 bytes.
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

#[test]
fn a_log_of_format_1_is_read() {
    let disk = SimulatedDisk::new();
    for (name, bytes) in KEPT {
        disk.put(&dir().join(name), bytes.to_vec());
    }
    let bench = TestLog::open(&disk, small(8192));
    assert_eq!(bench.recovery.damage, []);
    assert_eq!(read_all(all_from_first(&bench.log), |_| 100), ((1..121).collect(), Vec::new()));
}

#[test]
fn a_later_format_is_refused_with_both_numbers() {
    for (index, magic) in [(0, *b"tamismrk"), (3, *b"tamisjnl")] {
        let disk = SimulatedDisk::new();
        for (place, (name, bytes)) in KEPT.iter().enumerate() {
            let mut bytes = bytes.to_vec();
            if place == index {
                assert_eq!(bytes[..8], magic);
                bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
                let checksum = crc32c::crc32c(&bytes[..12]);
                bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
            }
            disk.put(&dir().join(name), bytes);
        }
        let committer = Committer::manual(|| {});
        let opened = Log::open(Arc::new(disk.clone()), dir(), small(8192), &committer);
        let Err(OpenError::Version(text)) = opened else { panic!("opened") };
        assert!(text.contains("journal format 2, and this tamis reads up to 1"), "{text}");
        assert_eq!(disk.paths().len(), KEPT.len(), "nothing was made");
    }
}

/// Writes the kept log: `cargo test -p tamis-core journal_of_this_format -- --ignored`, for a new version only.
#[test]
#[ignore = "writes the log that is kept in tests/data"]
fn journal_of_this_format() {
    let disk = SimulatedDisk::new();
    TestLog::open(&disk, small(8192)).commit(1, 121, 100);
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/journal-{VERSION}"));
    std::fs::create_dir_all(&place).expect("made");
    for path in disk.paths() {
        let name = path.file_name().expect("a name");
        std::fs::write(place.join(name), disk.contents(&path).expect("there")).expect("written");
    }
}

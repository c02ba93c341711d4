//! Tests what a snapshot keeps, and snapshots with every kind of damage.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use super::*;
use crate::expensive::{InjectedCost, Opaque, OpaqueTable};
use crate::index::codec;
use crate::index::layout::header::{HEADER_BYTES, SnapshotHeader, VERSION};
use crate::index::layout::pages::PAGE_BYTES;
use crate::index::layout::sections::{SECTION_COUNT, SectionName};

#[test]
fn ids_are_never_used_again_also_after_a_save() {
    let folder = Folder::new("ids");
    let path = folder.file("queries.tamis");
    let mut random = Random(1);
    let engine = Engine::new();
    let first = engine.add(query(&mut random));
    let last = engine.add(query(&mut random));
    assert!(engine.remove(last).expect("in memory"));
    engine.save(&path, false, &key).expect("a writable folder");
    let opened = Engine::open(&path, false, &none).expect("whole");
    assert!(opened.add(query(&mut random)) > last);
    assert_eq!(opened.key_bytes(last).expect("whole"), None);
    assert!(opened.replace(first, query(&mut random)).expect("whole"));
    assert_eq!(opened.key_bytes(first).expect("whole"), None);
    assert!(opened.remove(first).expect("whole"));
    assert_eq!(opened.key_bytes(first).expect("whole"), None);
    assert!(!opened.replace(first, query(&mut random)).expect("whole"));
}

#[test]
fn a_snapshot_of_nothing_opens_and_equal_engines_give_equal_files() {
    let folder = Folder::new("equal");
    let (a, b) = (folder.file("a"), folder.file("b"));
    Engine::new().save(&a, false, &key).expect("a writable folder");
    assert!(Engine::open(&a, true, &none).expect("whole").is_empty());
    for path in [&a, &b] {
        let mut pair = Pair::default();
        pair.change(&mut Random(3), fewer(300));
        pair.engine.save(path, false, &key).expect("a writable folder");
    }
    assert_eq!(std::fs::read(&a).expect("a file"), std::fs::read(&b).expect("a file"));
    assert_eq!(folder.names(), ["a", "b"], "no temporary file is left");
}

#[test]
fn what_is_no_snapshot_is_refused_with_what_was_found_and_expected() {
    let folder = Folder::new("foreign");
    let path = folder.file("file");
    let refusal = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a writable folder");
        Engine::open(&path, false, &none).expect_err("no snapshot").to_string()
    };
    assert!(refusal(b"").contains("is empty"));
    assert!(refusal(b"SQLite format 3\0").contains("is no snapshot of tamis"));
    Engine::new().save(&path, false, &key).expect("a writable folder");
    let mut newer = std::fs::read(&path).expect("a file");
    newer[8] = VERSION as u8 + 1;
    let expected = format!("has format version {}, and this tamis reads version {VERSION}", VERSION + 1);
    assert!(refusal(&newer).contains(&expected));
    assert!(Engine::open(&folder.0, false, &none).expect_err("a folder").to_string().contains("no file"));
    let missing = Engine::open(&folder.file("missing"), false, &none).expect_err("nothing there");
    assert!(matches!(&missing, EngineError::Io(error) if error.kind() == std::io::ErrorKind::NotFound));
    assert!(missing.to_string().contains("cannot open the snapshot"));
    let nowhere = Engine::new().save(&folder.file("no/such/folder"), false, &key).expect_err("no folder");
    assert!(nowhere.to_string().contains("cannot write the snapshot"));
}

/// A small engine, its file, and the answers that it gives.
fn small_snapshot(path: &Path) -> (Vec<u8>, Vec<Properties>, Vec<Option<Vec<SubscriptionId>>>) {
    let mut random = Random(9);
    let mut pair = Pair::default();
    pair.engine.set_hierarchy("a", hierarchy());
    pair.change(&mut random, or_few(40, 6));
    pair.engine.save(path, false, &key).expect("a writable folder");
    let messages: Vec<_> = (0..12).map(|_| properties(&mut random, 2)).collect();
    let engine = Engine::open(path, true, &none).expect("whole");
    let answers = messages.iter().map(|m| answer(&engine, m)).collect();
    (std::fs::read(path).expect("a file"), messages, answers)
}

/// Write into the existing file: some file systems would sync a new file for every byte of damage.
fn put(file: &mut File, offset: usize, bytes: &[u8]) {
    file.seek(SeekFrom::Start(offset as u64)).expect("an offset in the file");
    file.write_all(bytes).expect("a writable folder");
}

/// Change the bytes of the file from `written` to `wanted`.
fn put_changes(file: &mut File, written: &mut [u8], wanted: &[u8]) {
    let changed = (0..wanted.len()).filter(|offset| written[*offset] != wanted[*offset]);
    changed.for_each(|offset| put(file, offset, &wanted[offset..=offset]));
    written.copy_from_slice(wanted);
}

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).expect("a writable folder")
}

fn answer(engine: &Engine, properties: &Properties) -> Option<Vec<SubscriptionId>> {
    let mut matched = Vec::new();
    let message = Message::new("x.y", properties, Body::Text("x y"));
    engine.match_into(&message, &mut Scratch::new(), &mut matched).ok().map(|()| matched)
}

#[test]
fn a_damaged_byte_gives_an_error_or_the_right_answer() {
    let folder = Folder::new("damage");
    let path = folder.file("file");
    let (bytes, messages, answers) = small_snapshot(&path);
    let mut random = Random(11);
    let mut file = writable(&path);
    for offset in rounds(0..bytes.len()) {
        put(&mut file, offset, &[bytes[offset] ^ (1 + random.below(255) as u8)]);
        if let Ok(engine) = Engine::open(&path, false, &none) {
            for (message, expected) in messages.iter().zip(&answers) {
                let actual = answer(&engine, message);
                assert!(actual.is_none() || actual == *expected, "byte {offset}");
            }
            assert!(Engine::open(&path, true, &none).is_err(), "byte {offset}");
        }
        put(&mut file, offset, &bytes[offset..=offset]);
    }
}

#[test]
fn a_truncated_file_is_refused() {
    let folder = Folder::new("cut");
    let path = folder.file("file");
    let (bytes, ..) = small_snapshot(&path);
    let file = writable(&path);
    for length in rounds((0..bytes.len()).rev()) {
        file.set_len(length as u64).expect("a writable folder");
        assert!(matches!(Engine::open(&path, false, &none), Err(EngineError::Snapshot(_))), "{length} bytes");
    }
}

/// Checksums detect accidents, not forgery: any bytes may have checksums that fit, and must not crash either.
#[test]
fn damage_behind_fitting_checksums_never_crashes() {
    let folder = Folder::new("forged");
    let path = folder.file("file");
    let (bytes, messages, _) = small_snapshot(&path);
    let header = SnapshotHeader::decode(&bytes).expect("whole");
    let mut random = Random(13);
    let (mut file, mut written) = (writable(&path), bytes.clone());
    for offset in rounds((12..64 + 16 * SECTION_COUNT).chain(HEADER_BYTES..header.body_end())) {
        let mut forged = bytes.clone();
        forged[offset] = random.below(256) as u8;
        seal(&mut forged, header.body_end());
        put_changes(&mut file, &mut written, &forged);
        let Ok(engine) = Engine::open(&path, false, &none) else { continue };
        messages.iter().for_each(|message| drop(answer(&engine, message)));
        for id in engine.ids().unwrap_or_default() {
            _ = engine.query(id);
            _ = engine.key_bytes(id);
            _ = engine.remove(id);
        }
        _ = Engine::open(&path, true, &none);
    }
}

#[test]
fn a_forged_count_of_leaves_is_refused_before_memory_is_taken_for_it() {
    let folder = Folder::new("counts");
    let path = folder.file("file");
    let (bytes, messages, _) = small_snapshot(&path);
    let header = SnapshotHeader::decode(&bytes).expect("whole");
    let forge = |section| {
        let mut forged = bytes.clone();
        forged[header.extent(section).offset + 7] = 0x7f;
        seal(&mut forged, header.body_end());
        std::fs::write(&path, &forged).expect("a writable folder");
        Engine::open(&path, false, &none)
    };
    let engine = forge(SectionName::Groups).expect("nothing is read yet");
    assert!(messages.iter().all(|message| answer(&engine, message).is_none()));
    assert!(forge(SectionName::Summaries).expect_err("too many").to_string().contains("more leaves than there are"));
}

/// Make every checksum fit again.
fn seal(bytes: &mut [u8], body_end: usize) {
    let header = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    let (body, checksums) = bytes.split_at_mut(body_end);
    for (page, checksum) in body[HEADER_BYTES..].chunks(PAGE_BYTES).zip(checksums.chunks_mut(4)) {
        checksum.copy_from_slice(&crc32c::crc32c(page).to_le_bytes());
    }
}

#[test]
fn random_records_are_refused_or_read_and_never_crash() {
    let mut random = Random(17);
    for _ in rounds(0..20_000) {
        let mut record = Vec::new();
        codec::encode(&query(&mut random), &mut record, &mut OpaqueTable::default());
        for _ in 0..random.below(3) {
            let offset = random.below(record.len());
            record[offset] = random.below(256) as u8;
        }
        _ = codec::decode(&record, &[]);
    }
    let deep = [vec![0], vec![1; 1_000_000]].concat();
    assert!(codec::decode(&deep, &[]).expect_err("too deep").contains("deeper"));
}

#[test]
fn the_deepest_queries_that_the_languages_allow_are_kept() {
    let deep = |begin: &str, middle: &str, end: &str, depth: usize| {
        let text = [&begin.repeat(depth), middle, &end.repeat(depth)].concat();
        crate::query::selector::parse(&text, crate::query::selector::SelectorDialect::Jms).expect(&text)
    };
    for query in [
        deep("NOT ", "a", "", 100),
        deep("(a OR b AND ", "c", ")", 99),
        deep("NOT (a OR ", "b AND c", ")", 50),
        deep("", "a = b", " + 1", 1_000),
    ] {
        let mut record = Vec::new();
        codec::encode(&query, &mut record, &mut OpaqueTable::default());
        assert_eq!(codec::decode(&record, &[]).as_ref(), Ok(&query));
    }
}

#[test]
fn an_expensive_predicate_is_kept_by_its_index_in_a_table() {
    let mut opaques = OpaqueTable::default();
    let [a, b] = ["a", "b"].map(|name| Opaque::new(InjectedCost::new(name, 1.0, |_| None)));
    let [first, second, both] = [vec![&a], vec![&b], vec![&b, &a]].map(|expensive| {
        let expensive = expensive.into_iter().map(|opaque| Predicate::Opaque(opaque.clone()).into()).collect();
        let query = Query::new(Expr::and(expensive)).expect("within the limits");
        let mut record = Vec::new();
        codec::encode(&query, &mut record, &mut opaques);
        (query, record)
    });
    assert_eq!(opaques.as_slice(), [a, b]);
    for (query, record) in [&first, &second, &both] {
        assert_eq!(codec::decode(record, opaques.as_slice()).as_ref(), Ok(query));
    }
    let refused = codec::decode(&second.1, &opaques.as_slice()[..1]);
    assert_eq!(refused.expect_err("beyond the table"), "expensive predicate 1 of 1");
}

#[test]
fn an_engine_with_an_expensive_predicate_is_not_saved() {
    let engine = Engine::new();
    let opaque = Opaque::new(InjectedCost::new("in_my_list", 1.0, |_| Some(true)));
    engine.add(Arc::new(Query::new(Predicate::Opaque(opaque).into()).expect("within the limits")));
    let folder = Folder::new("expensive");
    let path = folder.file("queries.tamis");
    let refused = engine.save(&path, false, &|_| Vec::new()).expect_err("a function has no bytes");
    assert!(refused.to_string().contains("'in_my_list'"), "{refused}");
    assert!(!path.exists());
}

/// One query of every kind of predicate, operand and value.
const EVERY_KIND: [&str; 9] = [
    "symbol = 'ABC' AND price BETWEEN 1 AND 2.5 OR NOT (urgent AND FALSE)",
    "-a + 2 * b / c - 1 <> 4 AND at >= TIMESTAMP '2002-08-22T18:26:25Z' AND at <> DATE '2002-08-22' AND ok = TRUE",
    "region IN ('EU', 'US') AND region NOT LIKE 'x!%%' ESCAPE '!' AND region IS NOT NULL",
    "EXISTS(\"topic\") AND CONTAINS(body, 'two words') AND NEAR(body, 'a', 'b', 7)",
    "TOPIC('a.*.#') OR TOPIC('a.*', 'openamq') OR TOPIC('a.*', 'openamq-program')",
    "PREFIX(topic, 'news.') AND REGEX(header.Subject, '^(?i)re:')",
    "symbol UNDER 'Metals' AND topic = 'x'",
    "ANYCASE(author) = 'James' AND a < 1 AND a <= 2 AND a > 3",
    "(a > 1 OR b < 2 AND urgent) AND (b > 3 OR c <= 4 OR symbol = 'x') AND (a < 5 OR c > 6)",
];

/// The path of the file of a format version: `EVERY_KIND`, the keys "key 0" to "key 8", and a hierarchy.
fn kept_file(version: u32) -> PathBuf {
    format!("{}/tests/data/snapshot-{version}.tamis", env!("CARGO_MANIFEST_DIR")).into()
}

fn every_kind() -> Vec<Query> {
    EVERY_KIND
        .map(|text| crate::query::selector::parse(text, crate::query::selector::SelectorDialect::Jms).expect(text))
        .into()
}

fn metals() -> Hierarchy {
    Hierarchy::new([("Gold", Some("Metals")), ("Metals", None)].map(|(v, p)| (v.into(), p.map(Into::into))).into())
        .expect("a tree")
}

/// When the format changes, the version goes up and another file is kept; this writes it.
#[test]
#[ignore = "writes into the source tree"]
fn keep_a_snapshot_of_this_version() {
    let engine = Engine::new();
    for query in every_kind() {
        engine.add(Arc::new(query));
    }
    engine.set_hierarchy("symbol", metals());
    engine.save(&kept_file(VERSION), false, &key).expect("a writable folder");
}

#[test]
fn a_snapshot_of_this_version_is_read_and_earlier_ones_are_refused() {
    let folder = Folder::new("versions");
    let path = folder.file("queries.tamis");
    for earlier in [8, 9, 10, 11, 12, 13, 14] {
        let refused = Engine::open(&kept_file(earlier), false, &none).expect_err("another index");
        assert!(refused.to_string().contains(&format!("has format version {earlier}")), "{refused}");
    }
    // Not `fs::copy`, whose call of the system miri does not know.
    std::fs::write(&path, std::fs::read(kept_file(VERSION)).expect("a kept file")).expect("a writable folder");
    let engine = Engine::open(&path, true, &none).expect("whole");
    assert_eq!(engine.hierarchies().get("symbol"), Some(&metals()));
    for (id, query) in (0..).map(SubscriptionId).zip(every_kind()) {
        assert_eq!(engine.query(id).expect("whole").as_deref(), Some(&query));
        assert_eq!(engine.key_bytes(id).expect("whole"), Some(key(id)));
    }
    let message =
        [("symbol".into(), Value::Text("Gold".into())), ("urgent".into(), Value::Bool(true))].into_iter().collect();
    let mut matched = Vec::new();
    let message = Message::new("x", &message, Body::Absent);
    engine.match_into(&message, &mut Scratch::new(), &mut matched).expect("whole");
    assert_eq!(matched, [0, 6].map(SubscriptionId));
}

#[test]
#[cfg_attr(miri, ignore = "looks at time")]
fn opening_half_a_million_queries_takes_no_longer_than_opening_one() {
    let folder = Folder::new("large");
    let path = folder.file("file");
    let query = |number: u32| {
        let name = Operand::Reference(Reference::property("symbol"));
        let value = Operand::Literal(Value::Text(format!("symbol {number}").into()));
        Arc::new(Query::new(Predicate::Compare(name, Comparison::Equal, value).into()).expect("a query"))
    };
    let queries: Vec<_> = (0..50_000).map(query).collect();
    let engine = Engine::new();
    engine.change(queries.iter().cycle().take(500_000).cloned().collect(), &[]).expect("in memory");
    engine.save(&path, false, &|_| Vec::new()).expect("a writable folder");
    let start = std::time::Instant::now();
    let engine = Engine::open(&path, false, &none).expect("whole");
    let opened = start.elapsed();
    let message: Properties = [("symbol".into(), Value::Text("symbol 7".into()))].into_iter().collect();
    assert_eq!(answer(&engine, &message).map(|matched| matched.len()), Some(10));
    println!("opened in {opened:?}, first match after {:?}", start.elapsed());
    assert!(opened.as_millis() < 100, "{opened:?}"); // 10 ms is the promise; a busy machine gets some slack
}

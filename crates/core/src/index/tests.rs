//! The engine against brute force, on random queries and messages; snapshots against every kind of damage.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::message::{Body, Properties, Value};
use crate::query::expr::{Comparison, Expr, Name, Operand, Pattern, Predicate, Reference, ValueSet};
use crate::query::like::LikePattern;
use crate::text::Phrase;
use crate::topic::{Dialect, TopicPattern};

/// xorshift64*; a failing test prints its seed.
pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

const NAMES: [&str; 10] = ["a", "b", "c", "a.b", "a.b.c", "b.a", "c.a", "topic", "A", "a.c"];
const TOPICS: [&str; 6] = ["", "x", "x.y", "y", "x.y.z", "x.*"];

fn scalar(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Bool(random.below(2) == 0),
        1 | 2 => Value::Int(random.below(4) as i64 - 1),
        3 => Value::Float(random.pick(&[-0.0, 0.0, 1.0, 1.5, 2.0, 9_007_199_254_740_992.0, f64::INFINITY])),
        4 => Value::Timestamp(random.below(3) as i64),
        5 => Value::Int(random.pick(&[9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX, i64::MIN])),
        _ => Value::Text(random.pick(&["", "x", "y", "x y", "x.y", "1"]).into()),
    }
}

fn message_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => random.pick(&[Value::Null, Value::Present, Value::Float(f64::NAN)]),
        1..=5 => scalar(random),
        6 | 7 => Value::List((0..random.below(4)).map(|_| message_value(random, depth - 1)).collect()),
        _ => Value::Map(properties(random, depth - 1)),
    }
}

fn properties(random: &mut Random, depth: usize) -> Properties {
    (0..random.below(6)).map(|_| (random.pick(&NAMES).into(), message_value(random, depth))).collect()
}

fn reference(random: &mut Random) -> Reference {
    match random.below(12) {
        0 => Reference::Topic,
        1 => Reference::Body,
        2 => Reference::Property(Name { text: "a".into(), any_case: true }),
        _ => Reference::property(random.pick(&NAMES)),
    }
}

fn predicate(random: &mut Random) -> Predicate {
    let (left, right) = (Operand::Reference(reference(random)), Operand::Literal(scalar(random)));
    let text = random.pick(&["x", "y", "x y"]);
    match random.below(24) {
        0 => Predicate::Constant(random.below(2) == 0),
        1 => Predicate::Truth(reference(random)),
        2 => Predicate::Compare(right, Comparison::Equal, left),
        3 => Predicate::Compare(left, random.pick(&[Comparison::NotEqual, Comparison::Less]), right),
        4 => Predicate::Compare(left, Comparison::Equal, Operand::Reference(reference(random))),
        5 => Predicate::Compare(Operand::Negate(Box::new(left)), Comparison::Equal, right),
        6 => Predicate::Between(left, Operand::Literal(Value::Int(0)), right),
        7..=9 => Predicate::In(left, ValueSet::new((0..random.below(4)).map(|_| scalar(random)).collect())),
        10 => Predicate::Like(left, LikePattern::new("x%", Some('!'))),
        11 => Predicate::IsNull(left),
        12 => Predicate::Exists(reference(random)),
        13 => {
            Predicate::Topic(TopicPattern::new(random.pick(&TOPICS), random.pick(&[Dialect::Amqp, Dialect::OpenAmq])))
        }
        14 => Predicate::Prefix(reference(random), text.into()),
        15 => Predicate::Regex(reference(random), Pattern::new("^x").expect("a pattern")),
        16 => Predicate::Under(Reference::property("a"), text.into()),
        17 => Predicate::Contains(Reference::Body, Phrase::new(text).expect("words")),
        18 => {
            let phrase = |text| Phrase::new(text).expect("words");
            Predicate::Near(Reference::Body, phrase("x"), phrase("y"), 3)
        }
        _ => Predicate::Compare(left, Comparison::Equal, right),
    }
}

fn expr(random: &mut Random, depth: usize) -> Expr {
    let children = |random: &mut Random| (0..2 + random.below(2)).map(|_| expr(random, depth - 1)).collect();
    match random.below(if depth == 0 { 4 } else { 9 }) {
        0..=3 => predicate(random).into(),
        4 => expr(random, depth - 1).negate(),
        5 | 6 => Expr::and(children(random)),
        _ => Expr::or(children(random)),
    }
}

fn query(random: &mut Random) -> Arc<Query> {
    let query = if random.below(4) == 0 {
        let criteria = (0..1 + random.below(3)).map(|_| predicate(random).into()).collect();
        Query::fields(criteria, random.below(2) == 0)
    } else {
        Query::new(expr(random, 3))
    };
    Arc::new(query.expect("within the limits"))
}

fn hierarchy() -> Hierarchy {
    let parents = [("x", Some("y")), ("y", None), ("x y", None)];
    Hierarchy::new(parents.map(|(v, p)| (v.to_owned(), p.map(str::to_owned))).into()).expect("a tree")
}

/// An engine and the subscriptions that it should have.
#[derive(Default)]
struct Pair {
    engine: Engine,
    expected: BTreeMap<SubscriptionId, Arc<Query>>,
}

impl Pair {
    fn change(&mut self, random: &mut Random, steps: usize) {
        for _ in 0..steps {
            let known = self.expected.keys().copied().nth(random.below(self.expected.len().max(1)));
            match (random.below(5), known) {
                (0, Some(id)) => {
                    assert!(self.engine.remove(id).expect("whole"));
                    assert!(!self.engine.remove(id).expect("whole"));
                    self.expected.remove(&id);
                }
                (1, Some(id)) => {
                    let query = query(random);
                    assert!(self.engine.replace(id, query.clone()).expect("whole"));
                    self.expected.insert(id, query);
                }
                _ => {
                    let query = query(random);
                    let id = self.engine.add(query.clone());
                    assert!(self.expected.insert(id, query).is_none());
                }
            }
        }
    }

    fn check(&self, random: &mut Random, messages: usize) {
        assert_eq!(self.engine.len(), self.expected.len());
        assert!(self.engine.ids().expect("whole").iter().eq(self.expected.keys()));
        let mut scratch = Scratch::new();
        for _ in 0..messages {
            let properties = properties(random, 3);
            let topic = random.pick(&TOPICS);
            let body = random.pick(&[Body::Absent, Body::Binary, Body::Text("x y"), Body::Text("y 1 x")]);
            let message = Message::new(topic, &properties, body);
            let mut matched = Vec::new();
            self.engine.match_into(&message, &mut scratch, &mut matched).expect("whole");
            assert_eq!(matched, self.brute_force(&message), "{message:?}");
            assert_eq!(self.engine.hits(&message).expect("whole"), self.brute_force_hits(&message), "{message:?}");
        }
    }

    fn brute_force(&self, message: &Message<'_>) -> Vec<SubscriptionId> {
        let hierarchies = Some(self.engine.hierarchies());
        let is_true = |query: &Query| query.evaluate(message, hierarchies) == Some(true);
        self.expected.iter().filter(|(_, query)| is_true(query)).map(|(id, _)| *id).collect()
    }

    fn brute_force_hits(&self, message: &Message<'_>) -> Vec<Hit> {
        let hierarchies = Some(self.engine.hierarchies());
        let fields = self.expected.iter().filter(|(_, query)| query.is_fields());
        let hits = fields.map(|(id, query)| {
            let hits = query.criteria().iter().filter(|c| c.evaluate(message, hierarchies) == Some(true)).count();
            Hit { id: *id, hits, criteria: query.criteria().len() }
        });
        hits.filter(|hit| hit.hits > 0).collect()
    }

    fn reopen(self, path: &Path) -> Self {
        self.engine.save(path, &key).expect("a writable folder");
        let engine = Engine::open(path, true).expect("whole");
        for (id, query) in &self.expected {
            assert_eq!(engine.query(*id).expect("whole").as_deref(), Some(&**query));
            assert_eq!(engine.query(*id).expect("whole").expect("there").is_fields(), query.is_fields());
            assert_eq!(engine.key_bytes(*id).expect("whole"), Some(&*key(*id)));
        }
        Self { engine, expected: self.expected }
    }
}

fn key(id: SubscriptionId) -> Vec<u8> {
    format!("key {}", id.0).into_bytes()
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tamis-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a writable temporary folder");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_engine_agrees_with_brute_force_in_memory_reopened_and_changed() {
    let folder = Folder::new("random");
    for seed in 1..=40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut pair = Pair::default();
        pair.engine.set_hierarchy("a", hierarchy());
        pair.change(&mut random, 150);
        pair.check(&mut random, 100);
        for _ in 0..3 {
            pair = pair.reopen(&folder.file("queries.tamis")); // in the place of the file that is mapped
            pair.check(&mut random, 60);
            pair.change(&mut random, 60);
            pair.check(&mut random, 60);
        }
    }
}

#[test]
fn dead_slots_are_swept_and_leave_no_trace() {
    let mut random = Random(5);
    let mut pair = Pair::default();
    pair.change(&mut random, 50);
    for _ in 0..5_000 {
        let id = pair.engine.add(query(&mut random));
        assert!(pair.engine.remove(id).expect("in memory"));
    }
    pair.check(&mut random, 50);
}

#[test]
fn ids_are_never_used_again_also_after_a_save() {
    let folder = Folder::new("ids");
    let path = folder.file("queries.tamis");
    let mut random = Random(1);
    let mut engine = Engine::new();
    let first = engine.add(query(&mut random));
    let last = engine.add(query(&mut random));
    assert!(engine.remove(last).expect("in memory"));
    engine.save(&path, &key).expect("a writable folder");
    let mut opened = Engine::open(&path, false).expect("whole");
    assert!(opened.add(query(&mut random)) > last);
    assert_eq!(opened.key_bytes(last).expect("whole"), None);
    assert!(opened.replace(first, query(&mut random)).expect("whole"));
    assert_eq!(opened.key_bytes(first).expect("whole"), Some(&*key(first)));
    assert!(opened.remove(first).expect("whole"));
    assert_eq!(opened.key_bytes(first).expect("whole"), None);
    assert!(!opened.replace(first, query(&mut random)).expect("whole"));
}

#[test]
fn a_snapshot_of_nothing_opens_and_equal_engines_give_equal_files() {
    let folder = Folder::new("equal");
    let (a, b) = (folder.file("a"), folder.file("b"));
    Engine::new().save(&a, &key).expect("a writable folder");
    assert!(Engine::open(&a, true).expect("whole").is_empty());
    for path in [&a, &b] {
        let mut pair = Pair::default();
        pair.change(&mut Random(3), 300);
        pair.engine.save(path, &key).expect("a writable folder");
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
        Engine::open(&path, false).expect_err("no snapshot").to_string()
    };
    assert!(refusal(b"").contains("is empty"));
    assert!(refusal(b"SQLite format 3\0").contains("is no snapshot of tamis"));
    Engine::new().save(&path, &key).expect("a writable folder");
    let mut newer = std::fs::read(&path).expect("a file");
    newer[8] = 2;
    assert!(refusal(&newer).contains("has format version 2, and this tamis reads version 1"));
    assert!(Engine::open(&folder.0, false).expect_err("a folder").to_string().contains("no file"));
    let missing = Engine::open(&folder.file("missing"), false).expect_err("nothing there");
    assert!(matches!(&missing, EngineError::Io(error) if error.kind() == std::io::ErrorKind::NotFound));
    assert!(missing.to_string().contains("cannot open the snapshot"));
    let nowhere = Engine::new().save(&folder.file("no/such/folder"), &key).expect_err("no folder");
    assert!(nowhere.to_string().contains("cannot write the snapshot"));
}

/// A small engine, its file, and the answers that it gives.
fn small_snapshot(path: &Path) -> (Vec<u8>, Vec<Properties>, Vec<Option<Vec<SubscriptionId>>>) {
    let mut random = Random(9);
    let mut pair = Pair::default();
    pair.engine.set_hierarchy("a", hierarchy());
    pair.change(&mut random, 40);
    pair.engine.save(path, &key).expect("a writable folder");
    let messages: Vec<_> = (0..12).map(|_| properties(&mut random, 2)).collect();
    let engine = Engine::open(path, true).expect("whole");
    let answers = messages.iter().map(|m| answer(&engine, m)).collect();
    (std::fs::read(path).expect("a file"), messages, answers)
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
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 + random.below(255) as u8;
        std::fs::write(&path, &damaged).expect("a writable folder");
        let Ok(engine) = Engine::open(&path, false) else { continue };
        for (message, expected) in messages.iter().zip(&answers) {
            let found = answer(&engine, message);
            assert!(found.is_none() || found == *expected, "byte {place}");
        }
        assert!(Engine::open(&path, true).is_err(), "byte {place}");
    }
}

#[test]
fn a_truncated_file_is_refused() {
    let folder = Folder::new("cut");
    let path = folder.file("file");
    let (bytes, ..) = small_snapshot(&path);
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).expect("a writable folder");
        assert!(matches!(Engine::open(&path, false), Err(EngineError::Snapshot(_))), "{length} bytes");
    }
}

/// Checksums find accidents, not forgery: behind fitting ones anything may stand, and must not crash either.
#[test]
fn damage_behind_fitting_checksums_never_crashes() {
    let folder = Folder::new("forged");
    let path = folder.file("file");
    let (bytes, messages, _) = small_snapshot(&path);
    let header = format::Header::decode(&bytes).expect("whole");
    let mut random = Random(13);
    for place in (12..64 + 16 * format::SECTION_COUNT).chain(format::HEADER_BYTES..header.body_end()) {
        let mut forged = bytes.clone();
        forged[place] = random.below(256) as u8;
        seal(&mut forged, header.body_end());
        std::fs::write(&path, &forged).expect("a writable folder");
        let Ok(mut engine) = Engine::open(&path, false) else { continue };
        messages.iter().for_each(|message| drop(answer(&engine, message)));
        for id in engine.ids().unwrap_or_default() {
            _ = engine.query(id);
            _ = engine.key_bytes(id);
            _ = engine.remove(id);
        }
        _ = Engine::open(&path, true);
    }
}

/// Make every checksum fit again.
fn seal(bytes: &mut [u8], body_end: usize) {
    let header = crc32c::crc32c(&bytes[..format::HEADER_BYTES - 4]);
    bytes[format::HEADER_BYTES - 4..format::HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    let (body, checksums) = bytes.split_at_mut(body_end);
    for (page, place) in body[format::HEADER_BYTES..].chunks(pages::PAGE_BYTES).zip(checksums.chunks_mut(4)) {
        place.copy_from_slice(&crc32c::crc32c(page).to_le_bytes());
    }
}

#[test]
fn random_records_are_refused_or_read_and_never_crash() {
    let mut random = Random(17);
    for _ in 0..20_000 {
        let mut record = Vec::new();
        codec::encode(&query(&mut random), &mut record);
        for _ in 0..random.below(3) {
            let place = random.below(record.len());
            record[place] = random.below(256) as u8;
        }
        _ = codec::decode(&record);
    }
    let deep = [vec![0], vec![1; 1_000_000]].concat();
    assert!(codec::decode(&deep).expect_err("too deep").contains("deeper"));
}

#[test]
fn the_deepest_queries_that_the_languages_allow_are_kept() {
    let deep = |begin: &str, middle: &str, end: &str, depth: usize| {
        let text = [&begin.repeat(depth), middle, &end.repeat(depth)].concat();
        crate::query::selector::parse(&text, crate::query::selector::Dialect::Jms).expect(&text)
    };
    for query in [
        deep("NOT ", "a", "", 100),
        deep("(a OR b AND ", "c", ")", 99),
        deep("NOT (a OR ", "b AND c", ")", 50),
        deep("", "a = b", " + 1", 1_000),
    ] {
        let mut record = Vec::new();
        codec::encode(&query, &mut record);
        assert_eq!(codec::decode(&record).as_ref(), Ok(&query));
    }
}

/// One query of every kind of predicate, operand and value.
const EVERY_KIND: [&str; 8] = [
    "symbol = 'ABC' AND price BETWEEN 1 AND 2.5 OR NOT (urgent AND FALSE)",
    "-a + 2 * b / c - 1 <> 4 AND at >= TIMESTAMP '2002-08-22T18:26:25Z' AND ok = TRUE",
    "region IN ('EU', 'US') AND region NOT LIKE 'x!%%' ESCAPE '!' AND region IS NOT NULL",
    "EXISTS(\"topic\") AND CONTAINS(body, 'two words') AND NEAR(body, 'a', 'b', 7)",
    "TOPIC('a.*.#') OR TOPIC('a.*', 'openamq') OR TOPIC('a.*', 'openamq-program')",
    "PREFIX(topic, 'news.') AND REGEX(header.Subject, '^(?i)re:')",
    "symbol UNDER 'Metals' AND topic = 'x'",
    "ANYCASE(author) = 'James' AND a < 1 AND a <= 2 AND a > 3",
];

/// Made by version 0.1.0 of tamis: `EVERY_KIND`, the keys "key 0" to "key 7", and a hierarchy.
const VERSION_1: &[u8] = include_bytes!("../../tests/data/snapshot-1.tamis");

fn every_kind() -> Vec<Query> {
    EVERY_KIND.map(|text| crate::query::selector::parse(text, crate::query::selector::Dialect::Jms).expect(text)).into()
}

fn metals() -> Hierarchy {
    Hierarchy::new([("Gold", Some("Metals")), ("Metals", None)].map(|(v, p)| (v.into(), p.map(Into::into))).into())
        .expect("a tree")
}

/// When the format changes, the version goes up and another file is kept; this writes it.
#[test]
#[ignore = "writes into the source tree"]
fn keep_a_snapshot_of_this_version() {
    let mut engine = Engine::new();
    for query in every_kind() {
        engine.add(Arc::new(query));
    }
    engine.set_hierarchy("symbol", metals());
    let path = format!("{}/tests/data/snapshot-{}.tamis", env!("CARGO_MANIFEST_DIR"), format::VERSION);
    engine.save(Path::new(&path), &key).expect("a writable folder");
}

#[test]
fn snapshots_of_every_version_are_read() {
    let folder = Folder::new("versions");
    let path = folder.file("queries.tamis");
    std::fs::write(&path, VERSION_1).expect("a writable folder");
    let engine = Engine::open(&path, true).expect("whole");
    assert_eq!(engine.hierarchies().get("symbol"), Some(&metals()));
    for (id, query) in (0..).map(SubscriptionId).zip(every_kind()) {
        assert_eq!(engine.query(id).expect("whole").as_deref(), Some(&query));
        assert_eq!(engine.key_bytes(id).expect("whole"), Some(&*key(id)));
    }
    let message = [("symbol".into(), Value::Text("Gold".into())), ("urgent".into(), Value::Bool(true))].into();
    let mut matched = Vec::new();
    let message = Message::new("x", &message, Body::Absent);
    engine.match_into(&message, &mut Scratch::new(), &mut matched).expect("whole");
    assert_eq!(matched, [0, 6].map(SubscriptionId));
}

#[test]
fn an_engine_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Engine>();
}

#[test]
fn opening_half_a_million_queries_takes_no_longer_than_opening_one() {
    let folder = Folder::new("large");
    let path = folder.file("file");
    let mut contents = Contents::default();
    for id in 0..500_000 {
        let name = Operand::Reference(Reference::property("symbol"));
        let value = Operand::Literal(Value::Text(format!("symbol {}", id % 50_000).into()));
        let query = Query::new(Predicate::Compare(name, Comparison::Equal, value).into()).expect("a query");
        contents.push(SubscriptionId(id), &query, b"");
    }
    contents.write(&path, 500_000, &Hierarchies::new()).expect("a writable folder");
    let start = std::time::Instant::now();
    let engine = Engine::open(&path, false).expect("whole");
    let opened = start.elapsed();
    let message: Properties = [("symbol".into(), Value::Text("symbol 7".into()))].into();
    assert_eq!(answer(&engine, &message).map(|matched| matched.len()), Some(10));
    println!("opened in {opened:?}, first match after {:?}", start.elapsed());
    assert!(opened.as_millis() < 100, "{opened:?}"); // 10 ms is the promise; a busy machine gets some slack
}

#[test]
fn keys_are_necessary_and_the_rarest_are_taken() {
    let rare = |text: &str| {
        let query = crate::query::selector::parse(text, crate::query::selector::Dialect::Jms).expect("a selector");
        let keys = access::necessary_keys(query.expr(), &|key| if key.is_bool { 0.5 } else { 0.01 });
        keys.map(|keys| keys.len())
    };
    let expected: HashMap<&str, Option<usize>> = [
        ("a = 1", Some(1)),
        ("1 = a", Some(1)),
        ("a IN (1, 1.0, 2)", Some(2)),
        ("urgent AND a IN ('x', 'y')", Some(2)),
        ("a = 1 OR b = 2", Some(2)),
        ("a = 1 OR b > 2", None),
        ("(a = 1 OR b > 2) AND c = 3", Some(1)),
        ("NOT a = 1", None),
        ("TOPIC('x.y')", Some(1)),
        ("TOPIC('x.*')", None),
        ("topic = 'x'", Some(1)),
        ("body = 'x'", None),
        ("FALSE OR a = 1", Some(1)),
        ("FALSE", Some(0)),
        ("a = b", None),
    ]
    .into();
    for (text, count) in expected {
        assert_eq!(rare(text), count, "{text}");
    }
}

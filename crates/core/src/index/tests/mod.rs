//! Tests the engine against brute force on random queries and messages, and what is filed under which key.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod shapes;
mod snapshots;

use super::clause::AccessKey;
use super::compile::clauses::Clauses;
use super::compile::interner::Interner;
use super::*;
use crate::expensive::{InjectedCost, Opaque};
use crate::hierarchy::Hierarchy;
use crate::message::{Body, Properties, Value};
use crate::query::expr::{Comparison, Expr, Operand, Pattern, Predicate, PropertyName, Reference, ValueSet};
use crate::query::like::LikePattern;
use crate::testing::{Random, fewer, or_few, rounds};
use crate::text::{Phrase, Signature};
use crate::topic::{TopicDialect, TopicPattern};

const NAMES: [&str; 10] = ["a", "b", "c", "a.b", "a.b.c", "b.a", "c.a", "topic", "A", "a.c"];
const TOPICS: [&str; 8] = ["", "x", "x.y", "y", "x.y.z", "x.*", "y.x.x", "The x"];
const PATTERNS: [&str; 12] = ["", "x", "x.y", "x.*", "*", "#", "x.#", "#.y", "*.y.#", "#.x.#.x", "x.*.*", "y.#.z"];
const TEXTS: [&str; 16] = [
    "1970-01-01T00:00:00Z",
    "1970-01-01T01:00:00.000001+01:00",
    "1970-01-01",
    "1970-01-02T00:00:00+00:00",
    "",
    "x",
    "y",
    "x y",
    "x.y",
    "1",
    "xy",
    "yxxy",
    "The x",
    "the y and the x",
    "x%y",
    "the x\nand y!",
];
const BODIES: [&str; 5] = ["x y", "y 1 x", "The y and the x", "", "xxyxx the"];
const LIKES: [&str; 22] = [
    "x%", "%x", "%x%", "x", "", "%", "_", "x_y", "%x_y%", "x%y", "_x%", "%y_", "%x%y%", "%the%", "x!%y", "!_%", "%!!%",
    "%e y", "the%x", "_%_", "x y%", "%Y%",
];
const REGEXES: [&str; 9] = ["^x", "x$", "(?i)THE", "x|y", "x.*y", "[xy]{2}", "the (x|y)", "", "\\w+ y"];
const PHRASES: [&str; 11] = ["x", "y", "x y", "the", "The x", "and", "and the", "1", "x x", "the y and", "Y and the X"];

fn scalar(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Bool(random.below(2) == 0),
        1 | 2 => Value::Int(random.below(4) as i64 - 1),
        3 => Value::Float(random.pick(&[-0.0, 0.0, 1.0, 1.5, 2.0, 9_007_199_254_740_992.0, f64::INFINITY])),
        4 => Value::Timestamp(random.below(3) as i64),
        5 => Value::Int(random.pick(&[9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX, i64::MIN])),
        _ => Value::Text(random.pick(&TEXTS).into()),
    }
}

/// A constant of a query. The days are those of the times in [`TEXTS`].
fn literal(random: &mut Random) -> Value {
    if random.below(10) == 0 { Value::Day(random.pick(&[0, 86_400_000_000])) } else { scalar(random) }
}

fn message_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 11 }) {
        10 => Value::List((0..random.below(4)).map(|_| Value::Text(random.pick(&TEXTS).into())).collect()),
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
        2 => Reference::Property(PropertyName { text: random.pick(&["a", "A.b"]).into(), any_case: true }),
        _ => Reference::property(random.pick(&NAMES)),
    }
}

fn predicate(random: &mut Random) -> Predicate {
    let (left, right) = (Operand::Reference(reference(random)), Operand::Literal(literal(random)));
    let text = random.pick(&["x", "y", "x y"]);
    match random.below(30) {
        0 => Predicate::Constant(random.below(2) == 0),
        1 => Predicate::Truth(reference(random)),
        2 => Predicate::Compare(right, Comparison::Equal, left),
        3 => {
            let ops = [Comparison::NotEqual, Comparison::Less, Comparison::GreaterOrEqual];
            Predicate::Compare(left, random.pick(&ops), right)
        }
        4 => Predicate::Compare(left, Comparison::Equal, Operand::Reference(reference(random))),
        5 => Predicate::Compare(Operand::Negate(Box::new(left)), Comparison::Equal, right),
        6 => Predicate::Between(left, Operand::Literal(random.pick(&[Value::Int(0), Value::Day(0)])), right),
        7..=9 => Predicate::In(left, ValueSet::new((0..random.below(4)).map(|_| literal(random)).collect())),
        10 => Predicate::Like(left, LikePattern::new(random.pick(&LIKES), random.pick(&[None, Some('!'), Some('x')]))),
        11 => Predicate::IsNull(left),
        12 => Predicate::Exists(reference(random)),
        13 | 24 => {
            let dialects = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];
            Predicate::Topic(TopicPattern::new(random.pick(&PATTERNS), random.pick(&dialects)))
        }
        14 => Predicate::Prefix(reference(random), random.pick(&["", "x", "the", "y x"]).into()),
        15 => Predicate::Regex(reference(random), Pattern::new(random.pick(&REGEXES)).expect("a pattern")),
        16 => Predicate::Under(Reference::property("a"), text.into()),
        17 | 25 => Predicate::Contains(reference(random), phrase(random)),
        18 => Predicate::Near(reference(random), phrase(random), phrase(random), 1 + random.below(3) as u32),
        26 => Predicate::Like(Operand::Reference(Reference::Body), LikePattern::new(random.pick(&LIKES), None)),
        27 => Predicate::Contains(Reference::Body, phrase(random)),
        _ => Predicate::Compare(left, Comparison::Equal, right),
    }
}

fn phrase(random: &mut Random) -> Phrase {
    Phrase::new(random.pick(&PHRASES)).expect("words")
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
        let stop_lists = [["the", "and"], ["x", "1"]].map(|words| Arc::new(words.map(Box::from).into()));
        for _ in 0..messages {
            let properties = properties(random, 3);
            let topic = random.pick(&TOPICS);
            let text = random.pick(&BODIES);
            let body = random.pick(&[Body::Absent, Body::Binary(b"\xff"), Body::Text(text), Body::Text(text)]);
            let signature = match random.below(3) {
                0 => None,
                1 => Some(Signature::of(text)),
                _ => Some(Signature::without(text, random.pick(&stop_lists))),
            };
            let mut message = Message::new(topic, &properties, body);
            if let Some(signature) = &signature {
                message = message.with_signature(signature);
            }
            let mut matched = Vec::new();
            self.engine.match_into(&message, &mut scratch, &mut matched).expect("whole");
            assert_eq!(matched, self.brute_force(&message), "{message:?}");
            assert_eq!(self.engine.hits(&message).expect("whole"), self.brute_force_hits(&message), "{message:?}");
        }
    }

    fn brute_force(&self, message: &Message<'_>) -> Vec<SubscriptionId> {
        let hierarchies = self.engine.hierarchies();
        let hierarchies = Some(&*hierarchies);
        let is_true = |query: &Query| query.evaluate(message, hierarchies) == Some(true);
        self.expected.iter().filter(|(_, query)| is_true(query)).map(|(id, _)| *id).collect()
    }

    fn brute_force_hits(&self, message: &Message<'_>) -> Vec<Hit> {
        let hierarchies = self.engine.hierarchies();
        let hierarchies = Some(&*hierarchies);
        let fields = self.expected.iter().filter(|(_, query)| query.is_fields());
        let hits = fields.map(|(id, query)| {
            let hits = query.criteria().iter().filter(|c| c.evaluate(message, hierarchies) == Some(true)).count();
            Hit { id: *id, hits, criteria: query.criteria().len() }
        });
        hits.filter(|hit| hit.hits > 0).collect()
    }

    fn reopen(self, path: &Path) -> Self {
        self.engine.save(path, false, &key).expect("a writable folder");
        let engine = Engine::open(path, true, &none).expect("whole");
        for (id, query) in &self.expected {
            assert_eq!(engine.query(*id).expect("whole").as_deref(), Some(&**query));
            assert_eq!(engine.query(*id).expect("whole").expect("there").is_fields(), query.is_fields());
            assert_eq!(engine.key_bytes(*id).expect("whole"), Some(key(*id)));
        }
        Self { engine, expected: self.expected }
    }
}

fn none(_: &str, _: f64) -> Option<Opaque> {
    None
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
    for seed in rounds(rounds(1..=40)) {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut pair = Pair::default();
        pair.engine.set_hierarchy("a", hierarchy());
        pair.change(&mut random, fewer(150));
        pair.check(&mut random, fewer(100));
        for _ in 0..or_few(3, 2) {
            pair = pair.reopen(&folder.file("queries.tamis")); // replaces the file that is mapped
            pair.check(&mut random, fewer(60));
            pair.change(&mut random, fewer(60));
            pair.check(&mut random, fewer(60));
        }
    }
}

#[test]
fn few_queries_which_are_evaluated_one_by_one_agree_with_brute_force() {
    for seed in rounds(rounds(1..=200)) {
        let mut random = Random(seed);
        let mut pair = Pair::default();
        pair.engine.set_hierarchy("a", hierarchy());
        for _ in 0..3 {
            pair.change(&mut random, 10);
            pair.check(&mut random, 40);
        }
    }
}

/// A pattern of a few words, alone or as part of a query.
fn topic_query(random: &mut Random, has_prefixes: bool) -> Arc<Query> {
    let words: Vec<_> = (0..random.below(5)).map(|_| random.pick(&["a", "b", "c", "*", "#"])).collect();
    let dialects = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];
    let topic = Predicate::Topic(TopicPattern::new(&words.join("."), random.pick(&dialects)));
    let expr = match random.below(4) {
        0 => Expr::and(vec![topic.into(), predicate(random).into()]),
        1 if has_prefixes => Expr::or(vec![topic.into(), Predicate::Prefix(Reference::Topic, "a.b".into()).into()]),
        _ => topic.into(),
    };
    Arc::new(Query::new(expr).expect("within the limits"))
}

#[test]
fn new_topics_and_topics_that_come_again_agree_with_brute_force_while_queries_change() {
    for has_prefixes in [false, true] {
        check_topics(has_prefixes);
    }
}

fn check_topics(has_prefixes: bool) {
    let mut random = Random(23);
    let mut pair = Pair::default();
    let (mut scratch, none) = (Scratch::new(), Properties::default());
    for count in [3, 20, 200, 400].map(fewer) {
        for _ in 0..count {
            let query = topic_query(&mut random, has_prefixes);
            pair.expected.insert(pair.engine.add(query.clone()), query);
        }
        for round in 0..4 {
            let properties = if round % 2 == 0 { properties(&mut random, 1) } else { none.clone() };
            for _ in rounds(0..500) {
                let words: Vec<_> = (0..random.below(7)).map(|_| random.pick(&["a", "b", "c", "d"])).collect();
                let topic = words.join(".");
                let message = Message::new(&topic, &properties, Body::Absent);
                let mut matched = Vec::new();
                pair.engine.match_into(&message, &mut scratch, &mut matched).expect("in memory");
                assert_eq!(matched, pair.brute_force(&message), "{topic}");
            }
            if let Some(id) = pair.expected.keys().copied().nth(random.below(count)) {
                assert!(pair.engine.remove(id).expect("in memory"));
                pair.expected.remove(&id);
            }
        }
        pair.engine.settle();
    }
}

#[test]
fn values_that_few_and_that_many_queries_name_agree_with_brute_force() {
    use crate::query::selector::{SelectorDialect, parse};
    const NAMES: [&str; 3] = ["few", "some", "many"]; // by the number of their values
    const VALUES: [usize; 3] = [4, 60, 4_000];
    let mut random = Random(3);
    let test = |random: &mut Random| {
        let of = random.below(NAMES.len());
        let mut values = || format!("'v{}'", random.below(VALUES[of]) * random.below(VALUES[of]) / VALUES[of]);
        let (one, list) = (values(), [values(), values(), values()].join(", "));
        match random.below(12) {
            0 => format!("{} <> {one}", NAMES[of]),
            1 => format!("{} NOT IN ({list})", NAMES[of]),
            2 => format!("({} IS NULL OR {} IN ({list}))", NAMES[of], NAMES[of]),
            3 => format!("({} = {one} OR price > {})", NAMES[of], random.below(100)),
            4 => format!("({} = {one} OR some = 'v{}')", NAMES[of], random.below(60)),
            5 => format!("some UNDER 'v{}'", random.below(60)),
            6 => format!("price BETWEEN {} AND {}", random.below(50), random.below(100)),
            7 => format!("NOT (price <= {}) AND few = {one}", random.below(100)),
            8 => format!("{} IN ({list})", NAMES[of]),
            _ => format!("{} = {one}", NAMES[of]),
        }
    };
    let text = |random: &mut Random| (0..1 + random.below(3)).map(|_| test(random)).collect::<Vec<_>>().join(" AND ");
    let queries: Vec<_> = (0..fewer(4_000))
        .map(|_| Arc::new(parse(&text(&mut random), SelectorDialect::Jms).expect("a selector")))
        .collect();
    let parents = (0..60_usize).map(|value| (format!("v{value}"), (value > 0).then(|| format!("v{}", value / 4))));
    let engine = Engine::new();
    engine.set_hierarchy("some", Hierarchy::new(parents.collect()).expect("a tree"));
    let (at_once, alone) = queries.split_at(fewer(3_000));
    engine.change(at_once.to_vec(), &[]).expect("in memory");
    for query in alone {
        engine.add(Arc::clone(query));
    }
    let mut scratch = Scratch::new();
    for _ in rounds(0..300) {
        let value = |random: &mut Random, of: usize| match random.below(10) {
            0 => Value::Null,
            1 => Value::List((0..2).map(|_| Value::Text(format!("v{}", random.below(VALUES[of])).into())).collect()),
            _ => Value::Text(format!("v{}", random.below(VALUES[of]) * random.below(VALUES[of]) / VALUES[of]).into()),
        };
        let mut properties = Properties::default();
        for (of, name) in NAMES.iter().enumerate().take(3) {
            if random.below(8) > of {
                properties.insert((*name).into(), value(&mut random, of));
            }
        }
        properties.insert("price".into(), Value::Int(random.below(100) as i64));
        let message = Message::new("", &properties, Body::Absent);
        let mut matched = Vec::new();
        engine.match_into(&message, &mut scratch, &mut matched).expect("in memory");
        let is_true = |query: &Arc<Query>| query.is_true(&message, Some(&engine.hierarchies()));
        let expected: Vec<_> =
            (0..).zip(&queries).filter(|(_, query)| is_true(query)).map(|(id, _)| SubscriptionId(id)).collect();
        assert_eq!(matched, expected, "{properties:?}");
    }
}

/// Check what `engine` matches for `properties` against `queries`, which have the ids from `first` on.
fn check_all(engine: &Engine, first: u64, queries: &[Arc<Query>], properties: &Properties) {
    let message = Message::new("", properties, Body::Absent);
    let mut matched = Vec::new();
    engine.match_into(&message, &mut Scratch::new(), &mut matched).expect("in memory");
    let expected = (first..).zip(queries).filter(|(_, query)| query.is_true(&message, None));
    assert_eq!(matched, expected.map(|(id, _)| SubscriptionId(id)).collect::<Vec<_>>(), "{properties:?}");
}

#[test]
fn ids_that_32_bits_do_not_hold_come_after_those_that_they_do() {
    const COUNT: usize = fewer(300);
    const FIRST: u64 = (1 << 32) - COUNT as u64 / 2;
    let mut random = Random(6);
    let engine = Engine::new();
    engine.state.writer.lock().expect("nobody panicked").next_id = FIRST;
    let queries: Vec<_> = (0..COUNT).map(|_| query(&mut random)).collect();
    engine.change(queries.clone(), &[]).expect("in memory");
    for _ in rounds(0..100) {
        check_all(&engine, FIRST, &queries, &properties(&mut random, 2));
    }
}

#[test]
fn all_who_subscribe_to_equal_queries_are_found_also_after_some_have_left() {
    const COUNT: usize = fewer(600);
    let folder = Folder::new("equal-queries");
    for first in [0, (1 << 32) - COUNT as u64 / 2] {
        let mut random = Random(first + 1);
        let mut pair = Pair::default();
        pair.engine.state.writer.lock().expect("nobody panicked").next_id = first;
        // In half of the leaves queries are consecutive; a query with IN is in the leaves of several keys.
        let query = |random: &mut Random| {
            let (value, other, bound) = (random.below(8), random.below(8), random.below(40));
            let text = match random.below(4) {
                0 => format!("a = 'v{value}'"),
                1 => format!("a IN ('v{value}', 'v{other}') AND price > {bound}"),
                2 => format!("a = 'v{value}' AND price > {bound}"),
                _ => format!("a <> 'v{value}' AND price < {bound}"),
            };
            Arc::new(
                crate::query::selector::parse(&text, crate::query::selector::SelectorDialect::Jms).expect("a selector"),
            )
        };
        let queries: Vec<_> = (0..COUNT).map(|_| query(&mut random)).collect();
        pair.engine.change(queries.clone(), &[]).expect("in memory");
        pair.expected = (first..).map(SubscriptionId).zip(queries).collect();
        let check = |pair: &Pair| {
            for (value, price) in rounds(0..9).flat_map(|value| [-1, 7, 20, 41].map(|price| (value, price))) {
                let value = Value::Text(format!("v{value}").into());
                let properties = [("a".into(), value), ("price".into(), Value::Int(price))].into_iter().collect();
                let message = Message::new("", &properties, Body::Absent);
                let mut matched = Vec::new();
                pair.engine.match_into(&message, &mut Scratch::new(), &mut matched).expect("whole");
                assert_eq!(matched, pair.brute_force(&message), "{properties:?}");
            }
        };
        let leave = |pair: &mut Pair, random: &mut Random| {
            for _ in 0..COUNT / 12 {
                let id = pair.expected.keys().copied().nth(random.below(pair.expected.len())).expect("one is left");
                assert!(pair.engine.remove(id).expect("whole") && pair.expected.remove(&id).is_some());
            }
        };
        check(&pair);
        leave(&mut pair, &mut random);
        check(&pair);
        pair = pair.reopen(&folder.file("queries.tamis"));
        check(&pair);
        leave(&mut pair, &mut random);
        check(&pair);
    }
}

#[test]
fn removed_queries_are_swept_and_leave_no_trace() {
    let mut random = Random(5);
    let mut pair = Pair::default();
    pair.change(&mut random, fewer(50));
    for _ in rounds(0..5_000) {
        let id = pair.engine.add(query(&mut random));
        assert!(pair.engine.remove(id).expect("in memory"));
    }
    pair.check(&mut random, fewer(50));
}

/// Change the engine until it has more segments than stay when nobody changes it.
fn wear(pair: &mut Pair, random: &mut Random) {
    while pair.engine.segments() <= 3 {
        pair.change(random, 20);
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs more changes than miri has time for")]
fn an_engine_that_is_no_longer_changed_gets_few_segments() {
    let (mut random, mut pair) = (Random(6), Pair::default());
    wear(&mut pair, &mut random);
    pair.engine.settle();
    assert!(pair.engine.segments() <= 2);
    pair.check(&mut random, 50);
    wear(&mut pair, &mut random);
    let deadline = Instant::now() + Duration::from_secs(60);
    while pair.engine.segments() > 3 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(pair.engine.segments() <= 3, "nobody asked for it");
    pair.check(&mut random, 50);
}

#[test]
#[cfg_attr(miri, ignore = "needs more changes than miri has time for")]
fn an_engine_may_be_changed_while_it_is_compacted() {
    let (mut random, mut pair) = (Random(7), Pair::default());
    let (engine, is_done) = (pair.engine.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            let mut rounds = 0;
            while !is_done.load(Ordering::Relaxed) {
                engine.settle();
                rounds += 1;
            }
            rounds
        });
        for _ in 0..20 {
            pair.change(&mut random, 50);
            pair.check(&mut random, 5);
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(compacting.join().expect("no panic") > 0);
    });
    pair.engine.settle();
    pair.check(&mut random, 50);
}

/// A query of so many random predicates.
fn large_query(random: &mut Random, predicates: usize) -> Arc<Query> {
    let any = (0..predicates).map(|_| predicate(random).into()).collect();
    Arc::new(Query::new(Expr::or(any)).expect("within the limits"))
}

#[test]
#[cfg_attr(miri, ignore = "takes miri minutes")]
fn large_queries_agree_with_brute_force_while_a_thread_indexes_them() {
    let mut random = Random(8);
    for large_one_in in [1, 3, 10] {
        let mut pair = Pair { engine: Engine::quick_to_change(), ..Pair::default() };
        for _ in 0..60 {
            for _ in 0..random.below(6) {
                let predicates = if random.below(large_one_in) == 0 { 150 } else { 12 };
                let query = large_query(&mut random, predicates);
                pair.expected.insert(pair.engine.add(query.clone()), query);
            }
            pair.change(&mut random, 4);
            pair.check(&mut random, 2);
            // The youngest leaves, too, while it may be on its way into a segment.
            if let Some((id, _)) = pair.expected.pop_last() {
                assert!(pair.engine.remove(id).expect("in memory"));
            }
            pair.check(&mut random, 2);
        }
        pair.engine.settle();
        pair.check(&mut random, 50);
    }
}

#[test]
fn equal_queries_that_were_added_last_are_evaluated_once() {
    let expensive = Opaque::new(InjectedCost::new("x", 1.0, |_| Some(true)));
    let query = || Arc::new(Query::new(Predicate::Opaque(expensive.clone()).into()).expect("a query"));
    let engine = Engine::new();
    let ids: Vec<_> = (0..10).map(|_| engine.add(query())).collect();
    assert!(engine.remove(ids[0]).expect("in memory"), "the first, which the others are equal to");
    let (properties, mut scratch, mut matched) = (Properties::default(), Scratch::new(), Vec::new());
    let message = Message::new("", &properties, Body::Absent);
    engine.match_into(&message, &mut scratch, &mut matched).expect("in memory");
    assert_eq!((&matched[..], expensive.counts().calls), (&ids[1..], 1));
}

#[test]
fn an_engine_goes_on_after_a_panic_in_an_expensive_predicate() {
    let answer = |message: &Message<'_>| match message.properties.get("a") {
        Some(Value::Int(13)) => panic!("a mistake in an expensive predicate"),
        _ => Some(true),
    };
    let engine = Engine::new();
    let expensive = engine.add(Arc::new(
        Query::new(Predicate::Opaque(Opaque::new(InjectedCost::new("x", 1.0, answer))).into()).expect("a query"),
    ));
    let matched = |number| {
        let properties = [("a".into(), Value::Int(number))].into_iter().collect();
        let (mut scratch, mut matched) = (Scratch::new(), Vec::new());
        let message = Message::new("", &properties, Body::Absent);
        engine.match_into(&message, &mut scratch, &mut matched).expect("in memory");
        matched
    };
    for in_a_segment in [false, true] {
        assert_eq!(matched(1), [expensive]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| matched(13))).is_err());
        assert_eq!(matched(2), [expensive]);
        if !in_a_segment {
            let mut random = Random(21);
            let ids: Vec<_> = rounds(0..2_000).map(|_| engine.add(query(&mut random))).collect();
            ids.iter().for_each(|id| assert!(engine.remove(*id).expect("in memory")));
        }
    }
}

#[test]
fn an_engine_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Engine>();
}

#[test]
fn what_a_clause_says_is_not_evaluated_again() {
    let needs_evaluation = |text: &str| {
        let query =
            crate::query::selector::parse(text, crate::query::selector::SelectorDialect::Jms).expect("a selector");
        let clauses = Clauses::of(query.expr(), false, &mut Interner::default());
        clauses.is_verified()
    };
    for exact in [
        "a = 1 AND (TOPIC('x.#') OR b LIKE 'x%')",
        "a LIKE '%x' AND a LIKE 'y%' AND a LIKE '%z%'",
        "a NOT LIKE 'x' AND PREFIX(body, 'x')",
        "CONTAINS(body, 'word') AND CONTAINS(a, 'Word')",
        "CONTAINS(body, 'two words') AND CONTAINS(topic, 'two')",
        "a UNDER 'x' AND a UNDER 'y'",
    ] {
        assert!(!needs_evaluation(exact), "{exact}");
    }
    let long = format!("a LIKE '%{}%'", "x".repeat(300));
    for text in ["a LIKE '%x%y%'", "REGEX(a, 'x')", "CONTAINS(body, 'three words here')", "a NOT LIKE '%x%'", &long] {
        assert!(needs_evaluation(text), "{text}");
    }
}

#[test]
fn keys_are_necessary_and_the_rarest_are_taken() {
    let rarest = |text: &str| {
        let query =
            crate::query::selector::parse(text, crate::query::selector::SelectorDialect::Jms).expect("a selector");
        let mut interner = Interner::default();
        let clauses = Clauses::of(query.expr(), false, &mut interner);
        let is_symbol = |key: &&AccessKey| matches!(key, AccessKey::Symbol(_));
        clauses.access.map(|access| (access.keys.iter().filter(is_symbol).count(), access.keys.len()))
    };
    let symbols = |count| Some((count, count));
    let presence = Some((0, 1));
    let expected: HashMap<&str, _> = [
        ("a = 1", symbols(1)),
        ("1 = a", symbols(1)),
        ("a IN (1, 1.0, 2)", symbols(2)),
        ("urgent AND a IN ('x', 'y')", symbols(2)),
        ("a = 1 OR b = 2", symbols(2)),
        ("a = 1 OR b > 2", Some((1, 2))),
        ("(a = 1 OR b > 2) AND c = 3", symbols(1)),
        ("NOT a = 1", presence),
        ("NOT (a <> 1 OR b = 2)", symbols(1)),
        ("NOT a", symbols(1)),
        ("a IS NULL", None),
        ("a IS NOT NULL", presence),
        ("NOT EXISTS(a)", None),
        ("TOPIC('x.y')", symbols(1)),
        ("topic = 'x'", symbols(1)),
        ("body = 'x'", None),
        ("FALSE OR a = 1", symbols(1)),
        ("a UNDER 'x'", symbols(1)),
        ("NOT a UNDER 'x'", presence),
        ("a = b", presence),
        ("TOPIC('x.*') AND a > 1", symbols(1)),
        ("NOT TOPIC('x.*')", None),
        ("a LIKE '%x%'", symbols(1)),
        ("a LIKE 'x' OR a LIKE '_y%'", symbols(2)),
        ("a LIKE '%_%'", presence),
        ("a NOT LIKE '%x%'", presence),
        ("ANYCASE(a) LIKE '%x%'", symbols(1)),
        ("body LIKE '%x%y'", symbols(1)),
        ("PREFIX(topic, 'x')", symbols(1)),
        ("REGEX(a, '(x|y)z')", symbols(2)),
        ("REGEX(a, 'x*')", presence),
        ("CONTAINS(body, 'several words')", symbols(1)),
        ("NEAR(a, 'x', 'y', 2) AND NOT a = 1", symbols(1)),
    ]
    .into();
    for (text, keys) in expected {
        assert_eq!(rarest(text), keys, "{text}");
    }
}

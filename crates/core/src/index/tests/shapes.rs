//! Queries by ranges, lists and ORs of ranges, many of each so that they fill wide groups, against brute force.

use super::*;
use crate::index::layout::sections::SectionName;
use crate::query::selector::{SelectorDialect, parse};

/// A time of the first minutes of 1970.
fn moment(random: &mut Random) -> String {
    format!("1970-01-01T00:{:02}:{:02}Z", random.below(10), random.below(60))
}

fn between(name: &str, random: &mut Random) -> String {
    let low = random.below(1_000) as f64 / random.pick(&[1.0, 8.0]);
    format!("{name} BETWEEN {low:?} AND {:?}", low + random.pick(&[0.0, 0.5, 3.0, 90.0]))
}

fn one_sided(name: &str, random: &mut Random) -> String {
    let limits = ["9007199254740993", "-5", "9223372036854775807", "0.25"];
    let limit = if random.one_in(20) { random.pick(&limits).to_owned() } else { random.below(1_000).to_string() };
    format!("{name} {} {limit}", random.pick(&["<", "<=", ">", ">="]))
}

fn during(random: &mut Random) -> String {
    let (a, b) = (moment(random), moment(random));
    let days = random.pick(&["at >= DATE '1970-01-01'", "at < DATE '1970-01-01'", "at = DATE '1970-01-01'"]);
    match random.below(4) {
        0 => days.to_owned(),
        1 => format!("at = TIMESTAMP '{a}' OR at = '{b}'"),
        _ => format!("at BETWEEN TIMESTAMP '{}' AND TIMESTAMP '{}'", a.clone().min(b.clone()), a.max(b)),
    }
}

fn equal(name: &str, random: &mut Random) -> String {
    format!("{name} = 'v{}'", random.below(6))
}

/// A bound of one of few numbers, which many messages satisfy.
fn wide(random: &mut Random) -> String {
    let name = random.pick(&["x", "y", "n0", "n1"]);
    let limit = random.below(8_000) as f64 / random.pick(&[8.0, 64.0]);
    if random.one_in(2) { format!("{name} > {limit:?}") } else { format!("{name} <= {limit:?}") }
}

/// ANDs and ORs within each other, of what an index decides and now and then of what it does not.
fn tree(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.one_in(6) {
        return match random.below(12) {
            0 => equal("symbol", random),
            1 => equal("tags", random),
            2 => format!("tags <> 'v{}'", random.below(9)),
            3 => format!("symbol IN ('v{}', 'v1')", random.below(6)),
            4 => between("y", random),
            5 => "z IS NULL".to_owned(),
            6 => during(random),
            7 => random.pick(&["tags LIKE '%1'", "x + y > 500", "symbol LIKE 'v%'", "n2 IS NOT NULL"]).to_owned(),
            8 => one_sided("z", random),
            _ => wide(random),
        };
    }
    let count = 2 + random.below(2);
    let parts: Vec<_> = (0..count).map(|_| tree(random, depth - 1)).collect();
    let not = random.pick(&["", "", "", "NOT "]);
    format!("{not}({})", parts.join(random.pick(&[" AND ", " OR "])))
}

fn text(random: &mut Random) -> String {
    let both = |a: String, b: String| format!("{a} AND {b}");
    match random.below(34) {
        30 | 31 => {
            let depth = 1 + random.below(4);
            tree(random, depth)
        }
        32 | 33 => {
            let or = |random: &mut Random| format!("({} OR {})", wide(random), wide(random));
            format!("{} AND {} AND {}", or(random), or(random), or(random))
        }
        20 => format!("tags NOT IN ('v{}', 'v2')", random.below(9)),
        21 => format!("NOT (tags = 'v1') AND NOT (tags IN ('v{}', 'v8'))", random.below(6)),
        22 => format!("NOT (tags <> 'v{}') AND {}", random.below(6), one_sided("x", random)),
        23 => format!("tags IS NOT NULL AND tags <> 'v{}' AND NOT ({})", random.below(9), between("y", random)),
        24 => format!("(tags <> 'v1' OR tags = 'v{}') AND symbol IS NULL", random.below(3)),
        25 => {
            let ors: Vec<_> = (0..6)
                .map(|n| format!("({} OR {})", one_sided(&format!("n{n}"), random), one_sided("z", random)))
                .collect();
            ors.join(" AND ")
        }
        26 => (0..40).map(|n| equal(&format!("r{n}"), random)).collect::<Vec<_>>().join(" OR "),
        27 => {
            let equalities: Vec<_> = (0..3).map(|_| equal(&format!("r{}", random.below(100)), random)).collect();
            equalities.join(" AND ")
        }
        28 => {
            let first = char::from(b'a' + random.below(24) as u8);
            let expression = random.pick(&["\\d$", "\\d?$", "[0-4]", "\\b", "\\w*"]);
            let not = random.pick(&["", "NOT "]);
            format!("{not}REGEX(symbol, '^[{first}-z]{expression}')")
        }
        29 => format!("at <> TIMESTAMP '{}' AND NOT (at = '{}')", moment(random), moment(random)),
        0..=2 => both(between("x", random), between("y", random)),
        3 => between("x", random),
        4 => one_sided("x", random),
        5 => format!("{} OR {}", one_sided("x", random), one_sided("y", random)),
        6 => format!("({}) OR ({})", between("x", random), between("y", random)),
        7 => format!("({}) OR {}", both(between("x", random), between("y", random)), one_sided("z", random)),
        8 => during(random),
        9 => format!("NOT ({}) AND {}", between("x", random), one_sided("y", random)),
        10 => both(equal("symbol", random), equal("tags", random)),
        11 => format!("tags <> 'v1' AND {}", one_sided("x", random)),
        12 => format!("NOT ({}) AND NOT ({})", equal("symbol", random), equal("tags", random)),
        13 => format!(
            "{} AND ({} OR ({}))",
            equal("symbol", random),
            one_sided("x", random),
            both(one_sided("y", random), equal("tags", random))
        ),
        14 => {
            let ranges: Vec<_> = (0..5).map(|_| between(&format!("n{}", random.below(9)), random)).collect();
            ranges.join(" AND ")
        }
        15 => both(equal("tags", random), equal("tags", random)),
        16 => both(one_sided("x", random), one_sided("x", random)),
        17 => format!("tags IS NULL OR {}", between("x", random)),
        18 => format!(
            "tags LIKE '%{}' AND {} AND ({} OR NOT (tags LIKE 'v%'))",
            random.below(6),
            one_sided("x", random),
            one_sided("y", random)
        ),
        _ => format!(
            "(tags = 'v1' OR symbol = 'v2' OR {}) AND ({} OR tags IN ('v3', 'v4'))",
            one_sided("y", random),
            one_sided("x", random)
        ),
    }
}

fn number(random: &mut Random) -> Value {
    match random.below(12) {
        0 => random.pick(&[Value::Float(f64::NAN), Value::Float(f64::INFINITY), Value::Float(f64::NEG_INFINITY)]),
        1 => random.pick(&[Value::Int(9_007_199_254_740_993), Value::Int(i64::MAX), Value::Int(i64::MIN)]),
        2 => random.pick(&[Value::Null, Value::Present, Value::Text("7".into()), Value::Bool(true)]),
        3 | 4 => Value::Float(random.below(8_000) as f64 / 8.0),
        _ => Value::Int(random.below(1_000) as i64),
    }
}

fn word(random: &mut Random) -> Value {
    if random.one_in(12) {
        random.pick(&[Value::Null, Value::Int(3)])
    } else {
        Value::Text(format!("v{}", random.below(8)).into())
    }
}

fn time(random: &mut Random) -> Value {
    match random.below(4) {
        0 => Value::Timestamp(random.below(600_000_000) as i64),
        1 => Value::Text(random.pick(&["1970-01-01", "1969-12-31", "soon"]).into()),
        _ => Value::Text(moment(random).into()),
    }
}

/// A value, or now and then a list of some, or of none.
fn perhaps_several(random: &mut Random, one: fn(&mut Random) -> Value) -> Value {
    if random.one_in(4) { Value::List((0..random.below(4)).map(|_| one(random)).collect()) } else { one(random) }
}

fn properties(random: &mut Random) -> Properties {
    type Make = fn(&mut Random) -> Value;
    let mut all = Properties::default();
    let kinds: [(&str, Make); 6] =
        [("x", number), ("y", number), ("z", number), ("at", time), ("symbol", word), ("tags", word)];
    for (name, one) in kinds {
        if !random.one_in(5) {
            all.insert(name.into(), perhaps_several(random, one));
        }
    }
    all.extend((0..9).map(|n| (format!("n{n}").into(), number(random))));
    all.extend((0..15).map(|_| (format!("r{}", random.below(100)).into(), word(random))));
    all
}

impl Pair {
    fn add_shapes(&mut self, random: &mut Random, count: usize) {
        self.add_texts((0..count).map(|_| text(random)));
    }

    fn add_texts(&mut self, texts: impl Iterator<Item = String>) {
        let parsed = |text: String| Arc::new(parse(&text, SelectorDialect::Jms).expect(&text));
        let queries: Vec<_> = texts.map(parsed).collect();
        let ids = self.engine.change(queries.clone(), &[]).expect("whole");
        self.expected.extend(ids.into_iter().zip(queries));
    }

    fn remove_one_in(&mut self, random: &mut Random, step: usize) {
        let ids: Vec<_> = self.expected.keys().copied().filter(|_| random.one_in(step)).collect();
        for id in ids {
            assert!(self.engine.remove(id).expect("whole"));
            self.expected.remove(&id);
        }
    }

    fn check_shapes(&self, random: &mut Random, messages: usize) {
        let mut scratch = Scratch::new();
        for _ in 0..messages {
            let properties = properties(random);
            let message = Message::new("", &properties, Body::Absent);
            let mut matched = Vec::new();
            self.engine.match_into(&message, &mut scratch, &mut matched).expect("whole");
            let expected = self.brute_force(&message);
            let differs = |id: &&SubscriptionId| matched.contains(id) != expected.contains(id);
            let wrong: Vec<_> = self.expected.keys().filter(differs).map(|id| self.expected[id].to_string()).collect();
            assert!(matched == expected, "{wrong:?} of {properties:?}");
            let ids = self.engine.view().matched_ids(&message, &mut scratch).expect("whole");
            assert_eq!((ids.len(), ids.to_vec()), (matched.len(), matched), "without a list of them");
        }
    }
}

#[test]
fn ranges_lists_and_ors_of_ranges_agree_with_brute_force() {
    let folder = Folder::new("shapes");
    for seed in rounds(1..=3) {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut pair = Pair::default();
        pair.add_shapes(&mut random, or_few(8_000, 300));
        pair.engine.settle();
        pair.check_shapes(&mut random, or_few(60, 5));
        pair.remove_one_in(&mut random, 3);
        pair.check_shapes(&mut random, or_few(20, 2));
        pair.add_shapes(&mut random, or_few(1_500, 40));
        pair.check_shapes(&mut random, or_few(20, 2));
        pair = pair.reopen(&folder.file("queries.tamis"));
        pair.check_shapes(&mut random, or_few(40, 2));
    }
}

/// Mostly one bound of one number; some bounds are beyond 2^53.
fn threshold(random: &mut Random) -> String {
    let mut one = |name: &str| {
        let bound = random.below(1_000_000) as f64 / 1e3;
        format!("{name} {} {bound:?}", random.pick(&["<", "<=", ">", ">="]))
    };
    let (x, other, y) = (one("x"), one("x"), one("y"));
    match random.below(20) {
        0 => format!("{x} OR {other}"),
        1 => y,
        2 => format!("at >= TIMESTAMP '{}'", moment(random)),
        3 => format!("{x} AND {y}"),
        4 => one_sided("x", random),
        5 => format!("x BETWEEN 9007199254740992 AND {}", 9_007_199_254_740_990_i64 + random.below(6) as i64),
        _ => x,
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn thresholds_agree_with_brute_force() {
    let folder = Folder::new("thresholds");
    let mut random = Random(4);
    let mut pair = Pair::default();
    // Some queries have several subscriptions, and there are enough of each side for a run.
    let texts: Vec<_> = (0..14_000).map(|_| threshold(&mut random)).collect();
    pair.add_texts(texts.iter().chain(&texts[..500]).cloned());
    pair.engine.settle();
    let bytes = |pair: &Pair| {
        let version = pair.engine.current();
        let sizes = version.segments.iter().map(|segment| segment.store.length(SectionName::Thresholds));
        sizes.max().expect("a segment")
    };
    assert!(bytes(&pair) > 2 * 64 * 8, "there are bitmaps");
    pair.check_shapes(&mut random, 60);
    pair = pair.reopen(&folder.file("queries.tamis"));
    assert!(bytes(&pair) > 2 * 64 * 8);
    pair.check_shapes(&mut random, 20);
    pair.remove_one_in(&mut random, 50);
    pair.check_shapes(&mut random, 20);
    pair.add_texts((0..300).map(|_| threshold(&mut random)));
    pair.check_shapes(&mut random, 20);
}

/// More attributes than leaves have boxes for, most of them in every message, some as lists; and fewer, each with a wide
/// group of its own, so that the boxes of one attribute lie before or after the leaves of another.
#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn windows_of_many_attributes_agree_with_brute_force() {
    for attributes in [200, 24] {
        let mut random = Random(6);
        let mut pair = Pair::default();
        let window = |random: &mut Random| {
            let name = format!("m{}", random.below(attributes));
            if random.one_in(3) { one_sided(&name, random) } else { between(&name, random) }
        };
        let text = |random: &mut Random| {
            let one = window(random);
            if random.one_in(4) { format!("{one} AND {}", window(random)) } else { one }
        };
        pair.add_texts((0..9_000).map(|_| text(&mut random)));
        pair.engine.settle();
        let mut scratch = Scratch::new();
        for round in 0..40 {
            let mut value = || if round % 2 == 0 { number(&mut random) } else { perhaps_several(&mut random, number) };
            let properties = (0..attributes).map(|n| (format!("m{n}").into(), value()));
            let properties = properties.skip(round % 5 * attributes / 20).collect();
            let message = Message::new("", &properties, Body::Absent);
            let mut matched = Vec::new();
            pair.engine.match_into(&message, &mut scratch, &mut matched).expect("whole");
            assert_eq!(matched, pair.brute_force(&message));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "looks at sizes that take miri minutes")]
fn what_is_kept_of_evaluated_queries_is_counted() {
    let engine = Engine::new();
    let texts = (0..2_000).map(|number| format!("tags <> 'v{number}' AND tags <> 'w'"));
    let queries = texts.map(|text| Arc::new(parse(&text, SelectorDialect::Jms).expect(&text)));
    engine.change(queries.collect(), &[]).expect("whole");
    engine.settle();
    let list = Value::List(["v1", "v2"].map(|tag| Value::Text(tag.into())).into());
    let tags = Properties::from_iter([("tags".into(), list)]);
    let (before, mut matched) = (engine.bytes(), Vec::new());
    let mut bytes_after_a_match = || {
        matched.clear();
        engine.match_into(&Message::new("", &tags, Body::Absent), &mut Scratch::new(), &mut matched).expect("whole");
        assert_eq!(matched.len(), 2_000);
        engine.bytes()
    };
    let after = bytes_after_a_match();
    assert!(after > before + 2_000 * 100, "{before} before, {after} after");
    assert_eq!(bytes_after_a_match(), after, "each is kept once");
}

//! Compares the topic trie with asking every pattern, in time per message by number of patterns, on one core.
//!
//! Plain `cargo bench`, without a harness: it prints tables. Every answer is checked against `TopicPattern::is_match`.
//! The work is seeded: patterns of 3 to 5 words, each a `*` once in 10, a `#` once in 100, else one of 200. A name that
//! matches is a pattern with its wildcards filled in; a new name is words of the same levels, drawn at random, so that no
//! two names are the same; a strange name begins like a new one and goes on with a word that no pattern has.
//! `cargo bench -p tamis-benches --bench topic_trie -- [--counts 1000,1000000] [--json PATH]`; times are CPU time.

use std::hint::black_box;
use std::time::Duration;

use serde_json::{Value, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, micros, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::topic::cache::TopicCache;
use tamis_core::topic::trie::{TopicTrie, TrieScratch, build};
use tamis_core::topic::{TopicDialect, TopicPattern};

const LEVELS: [&str; 5] = ["region", "market", "class", "symbol", "event"];
const WORDS_A_LEVEL: usize = 200;
const NAMES: usize = 100_000;
const RUNS: usize = 3;
/// The number of comparisons of brute force, which takes long; enough for a steady mean.
const BRUTE_FORCE_COMPARISONS: usize = 10_000_000;
const CHECKED: usize = 20;

const COSTS: [ReportColumn; 9] = [
    column("patterns", "patterns", 0),
    column("build_ms", "build ms", 1),
    column("bytes_per_pattern", "bytes", 1),
    column("matching_us", "matching", 3),
    column("new_us", "new", 3),
    column("strange_us", "unknown words", 3),
    column("new_found", "matches of new", 2),
    column("brute_force_us", "brute force", 2),
    column("times", "times", 0),
];
const KNOWN: [ReportColumn; 4] = [
    column("names", "names", 0),
    column("known_us", "known", 3),
    column("new_us", "new", 3),
    column("stored", "stored of new", 0),
];
const ADVERSARIES: [ReportColumn; 4] = [
    column("patterns", "patterns", 0),
    column("words", "words", 0),
    column("trie_us", "trie", 2),
    column("brute_force_us", "brute force", 2),
];

fn main() {
    let arguments = Arguments::from_env(&["counts", "json"]);
    let mut report = BenchReport::new("topic_trie", &arguments);
    report.table("costs", &format!("{NAMES} names, one thread, microseconds per name, bytes per pattern"), &COSTS);
    for count in arguments.numbers("counts", &[1, 10, 1_000, 100_000, 1_000_000]) {
        report.line(measure(&patterns(count, &mut SplitMix64::new(3))));
    }
    report.table("adversaries", "chains of wildcards, microseconds per name", &ADVERSARIES);
    for (title, texts, name) in adversaries() {
        report.line(measure_adversary(title, &texts, &name));
    }
    report.table(
        "cache",
        "names in a cache of that size, microseconds a look-up; new ones are looked up and offered",
        &KNOWN,
    );
    for count in [1_000, 10_000, 100_000] {
        report.line(measure_cache(count));
    }
    report.finish();
}

/// One line of the first table.
fn measure(patterns: &[TopicPattern]) -> Value {
    let all: Vec<&TopicPattern> = patterns.iter().collect();
    let builds = (0..RUNS).map(|_| timed_cpu(|| build(&all))).collect();
    let (bytes, build_time) = median_by(builds, |(_, time)| micros(*time));
    let trie = TopicTrie::new(&bytes).expect("just built");
    let mut random = SplitMix64::new(5);
    let matching: Vec<String> = (0..NAMES).map(|_| matching_name(patterns, &mut random)).collect();
    let new: Vec<String> = (0..NAMES).map(|_| new_name(&mut random)).collect();
    let strange: Vec<String> = (0..NAMES).map(|number| format!("{}.id{number}", new_name(&mut random))).collect();
    let (new_us, new_found) = match_names(&trie, patterns, &new);
    let brute_force_us = brute_force_micros(patterns, &new);
    json!({
        "patterns": patterns.len().to_string(),
        "build_ms": micros(build_time) / 1_000.0,
        "bytes_per_pattern": bytes.len() as f64 / patterns.len() as f64,
        "matching_us": match_names(&trie, patterns, &matching).0,
        "new_us": new_us,
        "strange_us": match_names(&trie, patterns, &strange).0,
        "new_found": new_found,
        "brute_force_us": brute_force_us,
        "times": brute_force_us / new_us,
    })
}

/// One line of the second.
fn measure_adversary(title: &str, texts: &[String], name: &str) -> Value {
    let patterns: Vec<TopicPattern> = texts.iter().map(|text| TopicPattern::new(text, TopicDialect::Amqp)).collect();
    let bytes = build(&patterns.iter().collect::<Vec<_>>());
    let trie = TopicTrie::new(&bytes).expect("just built");
    json!({
        "patterns": title,
        "words": name.split('.').count(),
        "trie_us": match_names(&trie, &patterns, &vec![name.to_owned(); 200]).0,
        "brute_force_us": brute_force_micros(&patterns, &[name.to_owned()]),
    })
}

/// One line of the third: `count` names that are known, in random order, and as many that all differ.
fn measure_cache(count: usize) -> Value {
    let mut cache: TopicCache<Box<[u32]>> = TopicCache::new(2 * count, 20 * count);
    let mut random = SplitMix64::new(5);
    let name = |number: usize| format!("region.market{}.symbol{number}", number % 7);
    for number in (0..count).chain(0..count) {
        cache.offer(&name(number), 1, || [number as u32].into());
    }
    let known: Vec<String> = (0..NAMES).map(|_| name(random.below(count))).collect();
    let mut look_up = || known.iter().filter(|name| cache.get(name).is_some()).count();
    let (found, known_time) = timed_cpu(&mut look_up);
    assert!(found > NAMES * 9 / 10, "two names may share a place among those offered, but few do");
    let new: Vec<String> = (0..NAMES).map(|number| name(count + number)).collect();
    let before = cache.name_count();
    let ((), new_time) = timed_cpu(|| {
        for name in &new {
            if cache.get(name).is_none() {
                cache.offer(name, 1, Box::default);
            }
        }
    });
    json!({
        "names": count.to_string(),
        "known_us": micros(known_time) / NAMES as f64,
        "new_us": micros(new_time) / NAMES as f64,
        "stored": cache.name_count().saturating_sub(before),
    })
}

/// Microseconds and matches per name; a benchmark of wrong answers is worth nothing.
fn match_names(trie: &TopicTrie, patterns: &[TopicPattern], names: &[String]) -> (f64, f64) {
    let (mut scratch, mut matched) = (TrieScratch::default(), Vec::new());
    for name in names.iter().take(CHECKED) {
        matched.clear();
        trie.match_into(name, &mut scratch, &mut matched).expect("a trie in memory is never damaged");
        matched.sort_unstable();
        assert_eq!(matched, brute_force(patterns, name), "the trie and brute force differ");
    }
    let mut found = 0;
    let mut run = || {
        found = 0;
        for name in names {
            matched.clear();
            trie.match_into(name, &mut scratch, &mut matched).expect("a trie in memory is never damaged");
            found += black_box(&matched).len();
        }
    };
    let mut runs: Vec<Duration> = (0..RUNS).map(|_| timed_cpu(&mut run).1).collect();
    runs.sort_unstable();
    (micros(runs[RUNS / 2]) / names.len() as f64, found as f64 / names.len() as f64)
}

/// The mean over as many names as are affordable.
fn brute_force_micros(patterns: &[TopicPattern], names: &[String]) -> f64 {
    let affordable = (BRUTE_FORCE_COMPARISONS / patterns.len()).clamp(1, names.len());
    let (_, took) = timed_cpu(|| {
        for name in &names[..affordable] {
            black_box(brute_force(patterns, name));
        }
    });
    micros(took) / affordable as f64
}

fn brute_force(patterns: &[TopicPattern], name: &str) -> Vec<u32> {
    (0..).zip(patterns).filter(|(_, pattern)| pattern.is_match(name)).map(|(id, _)| id).collect()
}

fn patterns(count: usize, random: &mut SplitMix64) -> Vec<TopicPattern> {
    let pattern = |random: &mut SplitMix64| {
        let words: Vec<String> = (0..3 + random.below(3)).map(|level| pattern_word(level, random)).collect();
        TopicPattern::new(&words.join("."), TopicDialect::Amqp)
    };
    (0..count).map(|_| pattern(random)).collect()
}

fn pattern_word(level: usize, random: &mut SplitMix64) -> String {
    match random.below(100) {
        0 => "#".to_owned(),
        1..=10 => "*".to_owned(),
        _ => level_word(level, random),
    }
}

fn level_word(level: usize, random: &mut SplitMix64) -> String {
    format!("{}{}", LEVELS[level], random.below(WORDS_A_LEVEL))
}

fn new_name(random: &mut SplitMix64) -> String {
    let words: Vec<String> = (0..3 + random.below(3)).map(|level| level_word(level, random)).collect();
    words.join(".")
}

fn matching_name(patterns: &[TopicPattern], random: &mut SplitMix64) -> String {
    let word = |word: &str, random: &mut SplitMix64| match word {
        "*" | "#" => level_word(random.below(LEVELS.len()), random),
        word => word.to_owned(),
    };
    let words: Vec<String> = random.pick(patterns).text().split('.').map(|part| word(part, random)).collect();
    words.join(".")
}

/// Patterns that make a backtracking search explode, and the name that does it.
fn adversaries() -> Vec<(&'static str, Vec<String>, String)> {
    let chain = |n: usize| format!("#.a{n}.#.b{}.#.c{n}.#.z", n % 7);
    let abc: Vec<String> = (0..1_000).map(|n| format!("{}{}", ["a", "b", "c"][n % 3], n % 100)).collect();
    let thousand = vec!["a"; 1_000].join(".");
    vec![
        ("#.a.#.a.#.a.#.a.#.z", vec!["#.a.#.a.#.a.#.a.#.z".to_owned()], vec!["a"; 21].join(".")),
        ("64 x #.a, #.z", vec!["#.a.".repeat(64) + "#.z"], thousand.clone()),
        ("64 x *.#.a, #.z", vec!["*.#.a.".repeat(64) + "#.z"], thousand.clone()),
        ("10,000 #.aN.#.bM.#.cN.#.z", (0..10_000).map(chain).collect(), abc.join(".")),
        ("1 to 1,000 x #.a, #.z", (1..=1_000).map(|n| "#.a.".repeat(n) + "#.z").collect(), thousand),
        ("every 10 of * or a", (0..1_024).map(stars_or_a).collect(), ["a"; 10].join(".")),
    ]
}

/// Ten words: a `*` for each bit that is set, else an `a`.
fn stars_or_a(bits: u32) -> String {
    let words: Vec<&str> = (0..10).map(|bit| if bits >> bit & 1 == 1 { "*" } else { "a" }).collect();
    words.join(".")
}

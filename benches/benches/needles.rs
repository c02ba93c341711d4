//! Compares one pass for many needles with separate searches and with the `aho-corasick` crate, on one core.
//!
//! Plain `cargo bench`, without a harness: it prints tables. Every answer is checked against one search after the
//! other. The work is seeded: texts of made-up words whose frequencies fall as in a language, needles of one word or of
//! two side by side from other such texts. Times are CPU time.
//! `cargo bench -p tamis-benches --bench needles -- [--text PATH --needles PATH] [--counts 100,10000] [--json PATH]`
//! takes the text and the needles, one a line, from files.

use std::hint::black_box;

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;
use serde_json::{Value, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, micros, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::text::needles::{Anchor, NeedleScratch, Needles};

const VOCABULARY: usize = 30_000;
const TEXT_WORDS: usize = 200_000;
const RUNS: usize = 5;
const TEXTS_MAX: usize = 2_000;
/// The number of bytes that are searched one needle after the other, which takes long; enough for a steady mean.
const SEARCHED_BYTES: usize = 100_000_000;
const CHECKED: usize = 20;

const ANYWHERE: [ReportColumn; 8] = [
    column("needles", "needles", 0),
    column("text_bytes", "text bytes", 0),
    column("one_pass_ns", "one pass", 2),
    column("one_by_one_ns", "one by one", 2),
    column("crate_ns", "aho-corasick", 2),
    column("found", "found", 1),
    column("build_ms", "build ms", 2),
    column("bytes_per_needle", "bytes per needle", 0),
];
const ANCHORED: [ReportColumn; 6] = [
    column("anchor", "anchor", 0),
    column("one_pass_ns", "one pass", 1),
    column("one_by_one_ns", "one by one", 0),
    column("found", "found", 2),
    column("build_ms", "build ms", 2),
    column("bytes_per_needle", "bytes per needle", 0),
];

fn main() {
    let arguments = Arguments::from_env(&["text", "needles", "counts", "json"]);
    let (text, needles) = match (arguments.text("text"), arguments.text("needles")) {
        (Some(text), Some(needles)) => (read(text), read(needles).lines().map(str::to_owned).collect()),
        _ => invent(),
    };
    let mut report = BenchReport::new("needles", &arguments);
    report.table("anywhere", "needles anywhere in a text, one thread, nanoseconds per byte of text", &ANYWHERE);
    for count in arguments.numbers("counts", &[1, 2, 4, 8, 16, 32, 100, 1_000, 10_000]) {
        for text_bytes in [60, 1_000, 20_000] {
            report.line(measure_anywhere(&needles[..count.min(needles.len())], &pieces(&text, text_bytes)));
        }
    }
    let title = format!("{} needles at the ends of a text of 60 bytes, one thread, nanoseconds a text", needles.len());
    report.table("anchored", &title, &ANCHORED);
    for anchor in [Anchor::Start, Anchor::End, Anchor::Whole] {
        report.line(measure_anchored(anchor, &needles, &pieces(&text, 60)));
    }
    report.finish();
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// A text and 10,000 needles.
fn invent() -> (String, Vec<String>) {
    let mut random = SplitMix64::new(7);
    let words: Vec<String> = (0..VOCABULARY).map(|_| word(&mut random)).collect();
    let text = (0..TEXT_WORDS).map(|_| frequent(&words, &mut random).to_owned() + " ").collect();
    let needle = |index| match index % 2 {
        0 => random.pick(&words).clone(),
        _ => format!("{} {}", frequent(&words, &mut random), frequent(&words, &mut random)),
    };
    (text, (0..10_000).map(needle).collect())
}

/// A word as often as its rank allows (Zipf).
fn frequent<'a>(words: &'a [String], random: &mut SplitMix64) -> &'a str {
    &words[(words.len() as f64).powf(random.unit()) as usize - 1]
}

fn word(random: &mut SplitMix64) -> String {
    let mut word = String::new();
    while word.len() < 4 || random.below(3) > 0 && word.len() < 12 {
        word.push(char::from(*random.pick(b"bcdfghjklmnpqrstvwxz")));
        word.push(char::from(*random.pick(b"aeiou")));
    }
    word
}

/// The first pieces of `text`, of `bytes` bytes, or a character more.
fn pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > bytes + 4 && pieces.len() < TEXTS_MAX {
        let end = (bytes..).find(|end| rest.is_char_boundary(*end)).expect("the end is one");
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn measure_anywhere(listed: &[String], texts: &[&str]) -> Value {
    let finders: Vec<Finder> = listed.iter().map(Finder::new).collect();
    let one_by_one = |text: &str| -> Vec<u32> {
        let standing = (0..).zip(&finders).filter(|(_, finder)| finder.find(text.as_bytes()).is_some());
        standing.map(|(id, _)| id).collect()
    };
    let mut record = measure(listed, Anchor::Anywhere, texts, one_by_one);
    let text_bytes = texts.iter().map(|text| text.len()).sum::<usize>() as f64 / texts.len() as f64;
    let affordable = (SEARCHED_BYTES / listed.len() / texts[0].len()).clamp(1, texts.len());
    let one_by_one_ns = median_nanos(&texts[..affordable], |text| {
        black_box(one_by_one(text));
    });
    record["needles"] = json!(listed.len().to_string());
    record["text_bytes"] = json!(text_bytes);
    record["one_pass_ns"] = json!(record["one_pass_ns"].as_f64().expect("a figure") / text_bytes);
    record["one_by_one_ns"] = json!(one_by_one_ns / text_bytes);
    record["crate_ns"] = json!(measure_crate(listed, texts) / text_bytes);
    record
}

/// The crate's automaton reports every place of every needle; of each needle the first is kept, as we have to.
fn measure_crate(listed: &[String], texts: &[&str]) -> f64 {
    let automaton = AhoCorasick::new(listed).expect("an automaton of a few megabytes");
    let (mut seen, mut search, mut found) = (vec![0; listed.len()], 0, Vec::new());
    median_nanos(texts, |text| {
        search += 1;
        found.clear();
        for needle in automaton.find_overlapping_iter(text) {
            let needle = needle.pattern();
            if std::mem::replace(&mut seen[needle.as_usize()], search) != search {
                found.push(needle.as_u32());
            }
        }
        black_box(&found);
    })
}

fn measure_anchored(anchor: Anchor, listed: &[String], texts: &[&str]) -> Value {
    let one_by_one = |text: &str| -> Vec<u32> {
        (0..).zip(listed).filter(|(_, needle)| anchor.holds(needle, text)).map(|(id, _)| id).collect()
    };
    let mut record = measure(listed, anchor, texts, one_by_one);
    let affordable = (SEARCHED_BYTES / listed.len() / texts[0].len()).clamp(1, texts.len());
    let one_by_one_ns = median_nanos(&texts[..affordable], |text| {
        black_box(one_by_one(text));
    });
    record["anchor"] = json!(format!("{anchor:?}").to_lowercase());
    record["one_by_one_ns"] = json!(one_by_one_ns);
    record
}

/// The columns of all lines, in nanoseconds per text.
fn measure(listed: &[String], anchor: Anchor, texts: &[&str], expected: impl Fn(&str) -> Vec<u32>) -> Value {
    let (needles, build_time) = timed_cpu(|| Needles::new(listed.iter().map(|needle| (&**needle, anchor))));
    let (mut scratch, mut found) = (NeedleScratch::new(), Vec::new());
    for text in texts.iter().take(CHECKED) {
        found.clear();
        needles.find_into(text, &mut scratch, &mut found);
        found.sort_unstable();
        assert_eq!(found, expected(text), "one pass and one by one differ");
    }
    let mut found_count = 0;
    let one_pass_ns = median_nanos(texts, |text| {
        found.clear();
        needles.find_into(text, &mut scratch, &mut found);
        found_count += found.len();
    });
    json!({
        "one_pass_ns": one_pass_ns,
        "found": found_count as f64 / (texts.len() * RUNS) as f64,
        "build_ms": micros(build_time) / 1_000.0,
        "bytes_per_needle": needles.bytes() as f64 / listed.len() as f64,
    })
}

/// Nanoseconds a text: the median of some runs over all of them.
fn median_nanos(texts: &[&str], mut search: impl FnMut(&str)) -> f64 {
    let run = |_| micros(timed_cpu(|| texts.iter().for_each(|text| search(text))).1);
    median_by((0..RUNS).map(run).collect(), |run| *run) * 1_000.0 / texts.len() as f64
}

//! Compares a text's signature with a map from each word to a list of its positions, on one core.
//!
//! Plain `cargo bench`, without a harness: it prints a table. Both are compared before they are measured. The work is
//! seeded: made-up words whose frequencies fall as in a language, with punctuation; in the mixed text, one word of ten is
//! not ASCII. `cargo bench -p tamis-benches --bench signature -- [--text PATH] [--json PATH]` measures a file; times are
//! CPU time.

use std::collections::HashMap;
use std::hint::black_box;

use serde_json::{Value, json};
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{median_by, micros, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_core::text::{Signature, normalise};
use unicode_segmentation::UnicodeSegmentation;

const VOCABULARY: usize = 20_000;
const TEXT_WORDS: usize = 200_000;
const RUNS: usize = 5;
const CHECKED: usize = 20;
const BETWEEN_WORDS: [&str; 10] = [" ", " ", " ", " ", " ", " ", ", ", ". ", "'s ", "\n"];

const COLUMNS: [ReportColumn; 5] = [
    column("text", "text", 0),
    column("text_bytes", "text bytes", 0),
    column("signature_ns", "signature", 1),
    column("map_ns", "map of lists", 1),
    column("times", "times", 1),
];

fn main() {
    let arguments = Arguments::from_env(&["text", "json"]);
    let texts = match arguments.text("text") {
        Some(path) => vec![("file", std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}")))],
        None => vec![("ascii", invent(0)), ("mixed", invent(10))],
    };
    let mut report = BenchReport::new("signature", &arguments);
    report.table("signature", "one thread, nanoseconds per byte of text", &COLUMNS);
    for (name, text) in &texts {
        for bytes in [100, 2_000, 50_000] {
            report.line(measure(name, &pieces(text, bytes), bytes));
        }
    }
    report.finish();
}

fn measure(name: &str, pieces: &[&str], bytes: usize) -> Value {
    for piece in pieces.iter().take(CHECKED) {
        let signature = Signature::of(piece);
        let terms: HashMap<Box<str>, Vec<u32>> = signature.terms().map(|(t, p)| (t.into(), p.to_vec())).collect();
        assert_eq!(terms, map_of_lists(piece), "the signatures differ");
    }
    let signature_ns = median_nanos(pieces, |piece| {
        black_box(Signature::of(piece));
    });
    let map_ns = median_nanos(pieces, |piece| {
        black_box(map_of_lists(piece));
    });
    json!({"text": name, "text_bytes": bytes, "signature_ns": signature_ns, "map_ns": map_ns, "times": map_ns / signature_ns})
}

fn map_of_lists(text: &str) -> HashMap<Box<str>, Vec<u32>> {
    let mut positions: HashMap<Box<str>, Vec<u32>> = HashMap::new();
    for (position, word) in (0..).zip(text.unicode_words()) {
        positions.entry(normalise(word)).or_default().push(position);
    }
    positions
}

/// `text` in pieces of `bytes` bytes, or a character more.
fn pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > bytes + 4 {
        let end = (bytes..).find(|end| rest.is_char_boundary(*end)).expect("the end is one");
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Nanoseconds per byte: the median of some runs over all pieces.
fn median_nanos(pieces: &[&str], mut work: impl FnMut(&str)) -> f64 {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    let run = |_| micros(timed_cpu(|| pieces.iter().for_each(|piece| work(piece))).1);
    median_by((0..RUNS).map(run).collect(), |run| *run) * 1_000.0 / bytes as f64
}

/// One word of `foreign_each` ends in a letter that is not ASCII; none when that is 0.
fn invent(foreign_each: usize) -> String {
    let mut random = SplitMix64::new(3);
    let vocabulary: Vec<String> = (0..VOCABULARY).map(|_| word(&mut random)).collect();
    let mut text = String::new();
    for at in 1..=TEXT_WORDS {
        // As often as its rank allows (Zipf).
        text += &vocabulary[(VOCABULARY as f64).powf(random.unit()) as usize - 1];
        text += if foreign_each > 0 && at % foreign_each == 0 { "é" } else { "" };
        text += random.pick::<&str>(&BETWEEN_WORDS);
    }
    text
}

fn word(random: &mut SplitMix64) -> String {
    let mut word = String::new();
    while word.len() < 2 || random.below(3) > 0 && word.len() < 12 {
        word.push(char::from(*random.pick(b"bcdfghjklmnpqrstvwxz")));
        word.push(char::from(*random.pick(b"aeiou")));
    }
    word
}

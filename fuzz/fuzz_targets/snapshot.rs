//! A damaged snapshot is refused or used as far as it is intact, and never crashes the process.
//!
//! Random bytes would not get past the header's checksum, so that the input is damage to a good file: where, and which
//! byte stands there instead. With `sealed` the checksums are made to fit again, as a forger would.
#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tamis_core::expensive::{InjectedCost, Opaque};
use tamis_core::error::EngineError;
use tamis_core::hierarchy::Hierarchy;
use tamis_core::index::{Engine, Scratch};
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::Query;
use tamis_core::query::expr::Predicate;
use tamis_core::query::selector::{self, SelectorDialect};

/// The header is a page, and so much of the body shares a checksum (`crates/core/src/index/layout/header.rs`, `pages.rs`).
const PAGE_BYTES: usize = 4_096;

const QUERIES: [&str; 9] = [
    "symbol = 'A' AND price > 10",
    "symbol IN ('A', 'B') OR CONTAINS(body, 'some words')",
    "TOPIC('a.#') AND NOT deleted = TRUE",
    "subject LIKE '%x%' AND REGEX(author, '^J')",
    "symbol = 'A' AND price > 10",
    "region UNDER 'EU'",
    "symbol <> 'B' AND (author = 'James' OR subject = 'a value that is longer than a place in the table')",
    "price BETWEEN 1 AND 20 AND price IS NOT NULL",
    "PREFIX(topic, 'a.') OR author LIKE 'J%'",
];

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let engine = Engine::new();
    for text in QUERIES {
        engine.add(Arc::new(selector::parse(text, SelectorDialect::Jms).expect("a good selector")));
    }
    let expensive = resolve("expensive", 1.0).expect("a function");
    engine.add(Arc::new(Query::new(Predicate::Opaque(expensive).into()).expect("within the limits")));
    let parents = [("EU", None), ("FR", Some("EU"))].map(|(value, parent)| (value.into(), parent.map(Into::into)));
    engine.set_hierarchy("region", Hierarchy::new(parents.into()).expect("a tree"));
    let path = place();
    engine.save(&path, true, &|id| id.0.to_le_bytes().to_vec()).expect("room for a small file");
    std::fs::read(&path).expect("just written")
});

fuzz_target!(|input: (bool, Vec<(u16, u8)>)| {
    let (sealed, damage) = input;
    let mut bytes = GOOD.clone();
    for (offset, byte) in damage {
        let place = usize::from(offset) % bytes.len();
        bytes[place] = byte;
    }
    if sealed {
        seal(&mut bytes);
    }
    let path = place();
    std::fs::write(&path, bytes).expect("room for a small file");
    for verify in [false, true] {
        if let Ok(engine) = Engine::open(&path, verify, &resolve) {
            let _ = use_all_of(&engine);
        }
    }
});

fn resolve(name: &str, cost_ns: f64) -> Option<Opaque> {
    Some(Opaque::new(InjectedCost::new(name, cost_ns, |_| Some(true))))
}

fn place() -> PathBuf {
    std::env::temp_dir().join(format!("tamis-fuzz-{}", std::process::id()))
}

/// Make every checksum fit.
fn seal(bytes: &mut [u8]) {
    let (header, rest) = bytes.split_at_mut(PAGE_BYTES);
    let (described, checksum) = header.split_at_mut(PAGE_BYTES - 4);
    checksum.copy_from_slice(&crc32c::crc32c(described).to_le_bytes());
    // Four bytes for each page of the body stand behind it.
    let pages = rest.len().div_ceil(PAGE_BYTES + 4);
    let (body, checksums) = rest.split_at_mut(rest.len() - 4 * pages);
    for (page, checksum) in body.chunks(PAGE_BYTES).zip(checksums.chunks_mut(4)) {
        checksum.copy_from_slice(&crc32c::crc32c(page).to_le_bytes());
    }
}

/// Match, read every key and query, change, and match again; the first error ends it.
fn use_all_of(engine: &Engine) -> Result<(), EngineError> {
    let mut properties = Properties::default();
    for (name, value) in [("symbol", "A"), ("author", "James"), ("subject", "xyz"), ("region", "FR")] {
        properties.insert(name.into(), Value::Text(value.into()));
    }
    properties.insert("price".into(), Value::Int(12));
    let message = Message::new("a.b", &properties, Body::Text("some words"));
    let matched = engine.match_into(&message, &mut Scratch::new(), &mut Vec::new());
    engine.hits(&message).map(drop).and(matched)?;
    for id in engine.ids()? {
        engine.key_bytes(id)?;
        engine.query(id)?;
    }
    if let Some(first) = engine.ids()?.first() {
        engine.remove(*first)?;
    }
    engine.match_into(&message, &mut Scratch::new(), &mut Vec::new())
}

//! A damaged snapshot is refused, or used as far as it goes: it never crashes the process.
//!
//! Random bytes would not get past the header's checksum, so that the input is damage to a good file: where, and which
//! byte stands there instead.
#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tamis_core::error::EngineError;
use tamis_core::index::{Engine, Scratch};
use tamis_core::message::{Body, Message, Properties, Value};
use tamis_core::query::selector::{self, Dialect};

const QUERIES: [&str; 6] = [
    "symbol = 'A' AND price > 10",
    "symbol IN ('A', 'B') OR CONTAINS(body, 'some words')",
    "TOPIC('a.#') AND NOT deleted = TRUE",
    "subject LIKE '%x%' AND REGEX(author, '^J')",
    "symbol = 'A' AND price > 10",
    "region UNDER 'EU'",
];

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut engine = Engine::new();
    for text in QUERIES {
        engine.add(Arc::new(selector::parse(text, Dialect::Jms).expect("a good selector")));
    }
    let path = place();
    engine.save(&path, &|id| id.0.to_le_bytes().to_vec()).expect("room for a small file");
    std::fs::read(&path).expect("just written")
});

fuzz_target!(|damage: Vec<(u16, u8)>| {
    let mut bytes = GOOD.clone();
    for (offset, byte) in damage {
        let place = usize::from(offset) % bytes.len();
        bytes[place] = byte;
    }
    let path = place();
    std::fs::write(&path, bytes).expect("room for a small file");
    for verify in [false, true] {
        if let Ok(mut engine) = Engine::open(&path, verify) {
            let _ = use_all_of(&mut engine);
        }
    }
});

fn place() -> PathBuf {
    std::env::temp_dir().join(format!("tamis-fuzz-{}", std::process::id()))
}

/// Match, read every key and query, and remove one; the first error ends it.
fn use_all_of(engine: &mut Engine) -> Result<(), EngineError> {
    let mut properties = Properties::new();
    for (name, value) in [("symbol", "A"), ("author", "James"), ("subject", "xyz"), ("region", "EU")] {
        properties.insert(name.into(), Value::Text(value.into()));
    }
    properties.insert("price".into(), Value::Int(12));
    let message = Message::new("a.b", &properties, Body::Text("some words"));
    engine.match_into(&message, &mut Scratch::new(), &mut Vec::new())?;
    engine.hits(&message)?;
    for id in engine.ids()? {
        engine.key_bytes(id)?;
        engine.query(id)?;
    }
    if let Some(first) = engine.ids()?.first() {
        engine.remove(*first)?;
    }
    Ok(())
}

//! A file with any bytes is opened and used, or refused: it never crashes the process.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::index::{Engine, Scratch};
use tamis_core::message::{Body, Message, Properties, Value};

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("tamis-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("room for a small file");
    let Ok(engine) = Engine::open(&path, false) else { return };
    let mut properties = Properties::new();
    properties.insert("symbol".into(), Value::Text("A".into()));
    let message = Message::new("a.b", &properties, Body::Text("some words"));
    let _ = engine.match_into(&message, &mut Scratch::new(), &mut Vec::new());
    let _ = engine.ids();
});

//! Any text is a Boolean filter or an error with a position, and canonical text parses to the same query.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::query::{boolean, selector};

fuzz_target!(|text: &str| match boolean::parse(text) {
    Ok(query) => {
        let canonical = query.to_string();
        let again = selector::parse(&canonical, selector::SelectorDialect::Jms).expect("canonical text can be read");
        assert_eq!(again, query, "{canonical}");
    }
    Err(error) => assert!(error.position <= text.chars().count(), "{error}"),
});

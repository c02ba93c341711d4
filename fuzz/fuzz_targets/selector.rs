//! Any text is a selector or an error with a position, and canonical text parses to the same query.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tamis_core::query::selector::{SelectorDialect, parse};

fuzz_target!(|text: &str| {
    for dialect in [SelectorDialect::Jms, SelectorDialect::Cbm] {
        match parse(text, dialect) {
            Ok(query) => {
                let canonical = query.to_string();
                let again = parse(&canonical, SelectorDialect::Jms).expect("canonical text can be read");
                assert_eq!(again, query, "{canonical}");
            }
            Err(error) => assert!(error.position <= text.chars().count(), "{error}"),
        }
    }
});

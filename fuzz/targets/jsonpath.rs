//! Parses JSON paths and response mappings and applies them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolwright_expr::{JsonPath, Mapping, Scope};

fuzz_target!(|text: &str| {
    let document = json!({ "a": { "b": [1, 2.5, "x", null, { "c": true }] }, "store": { "book": [{ "price": 8.95 }, {}] } });
    if let Ok(path) = JsonPath::parse(text) {
        let _ = path.query(&document);
    }
    if let Ok(mapping) = Mapping::parse(text) {
        let _ = mapping.apply(&document, &Scope::new(&json!({ "q": 1 })));
    }
});

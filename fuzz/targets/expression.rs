//! Parses and evaluates expressions. Both must end with a value or an error and must not panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolwright_expr::{Expression, Scope};

fuzz_target!(|text: &str| {
    if let Ok(expression) = Expression::parse(text) {
        let data = json!({ "a": { "b": [1, 2.5, "x", null, true] }, "text": "héllo", "n": -7, "param": { "name": "q" } });
        let _ = expression.evaluate(&Scope::new(&data));
    }
});

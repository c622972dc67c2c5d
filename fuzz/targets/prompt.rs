//! Compiles and renders prompts with `{{variables}}`. The values of variables must not be interpreted as templates.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolwright_expr::prompt::Prompt;

fuzz_target!(|parts: Vec<&str>| {
    let Ok(prompt) = Prompt::compile(parts.iter().copied()) else { return };
    let context: Map<String, Value> = parts
        .iter()
        .take(4)
        .enumerate()
        .map(|(n, text)| (((b'a' + n as u8) as char).to_string(), json!({ "a": text, "b": [n] })))
        .collect();
    let Ok(rendered) = prompt.render(&context) else { return };
    let empty = prompt.render(&Map::new()).expect("a prompt without values must render if it renders with values");
    assert!(empty.used == rendered.used && empty.missing.len() >= rendered.missing.len());
    if rendered.used.is_empty() {
        assert_eq!(rendered.text, empty.text);
    }
});

//! Parses and renders templates: text, JSON text and JSON values with `${…}`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolwright_expr::{JsonTextTemplate, Scope, Template, ValueTemplate, escape};

fuzz_target!(|text: &str| {
    let data = json!({ "a": { "b": [1, 2.5, "x\"y", null, true] }, "text": "a/b?c=d", "n": -7 });
    let scope = Scope::new(&data);
    if let Ok(template) = Template::parse(text) {
        let _ = template.render(&scope, escape::text);
    }
    if let Ok(template) = JsonTextTemplate::parse(text)
        && let Ok(rendered) = template.render(&scope)
    {
        // A JSON template must render to valid JSON.
        serde_json::from_str::<Value>(&rendered.text).expect("a rendered JSON template must parse");
    }
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && let Ok(template) = ValueTemplate::compile(&value)
    {
        let _ = template.render(&scope);
    }
});

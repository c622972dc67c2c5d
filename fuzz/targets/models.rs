//! Parses model references, price files and scripts, and sends requests to the scripted model.
#![no_main]

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use toolwright_models::{Model, ModelRef, NoSink, PriceList, Prices, Script, ScriptedModel};
use toolwright_types::{ModelRequest, Usage};

fuzz_target!(|input: (&str, &str)| {
    let (text, content) = input;
    let _ = text.parse::<ModelRef>();
    if let Ok(list) = PriceList::from_json(text) {
        let usage = Usage { input_tokens: u64::MAX, output_tokens: 7, cached_input_tokens: 3 };
        let realms = list.realms().map(|(_, prices)| prices);
        for prices in realms.chain([list.default_prices()]) {
            assert!(prices.cost(content, usage).is_none_or(|cost| cost.is_finite() && cost >= 0.0));
        }
    }
    let _ = Prices::from_json(text);
    let Ok(script) = Script::from_json(text) else { return };
    let model = ScriptedModel::new(script);
    let messages = json!([
        { "role": "user", "content": content },
        { "role": "assistant", "content": content, "tool_calls": [{ "id": "1", "name": "echo", "arguments": { "malformed": content } }] },
        { "role": "tool", "id": "1", "name": "echo", "content": content },
    ]);
    for length in 1..=3 {
        let messages: Vec<_> = messages.as_array().into_iter().flatten().take(length).collect();
        let request: ModelRequest = serde_json::from_value(json!({ "model": "m", "messages": messages })).expect("a request");
        let _ = block_on(model.complete(&request, &mut NoSink));
    }
});

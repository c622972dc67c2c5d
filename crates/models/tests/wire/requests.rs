//! What is sent, byte for byte: a changed request is a failed test.

use serde_json::{Map, Value, json};
use toolwright_models::ErrorKind;
use toolwright_types::{Image, ModelRequest};

use crate::server::{Answer, ask};
use crate::support::{KEY, request, user, weather_tool};

/// Everything that a conversation can hold.
pub fn conversation() -> ModelRequest {
    let deals = json!({
        "name": "crm/search-deals", "description": "Finds deals.",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": "#/$defs/Query",
            "$defs": {"Query": {"type": "object", "properties": {"q": {"type": "string", "minLength": 1}, "stage": {"const": "won"}}, "required": ["q"]}},
        },
    });
    let search = json!({"name": "web_search", "description": "Our own search.", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}});
    request(json!({
        "messages": [
            {"role": "system", "content": "You are terse."},
            {"role": "system", "content": "Today is Tuesday."},
            {"role": "user", "content": "Grüße 🙂 — find \"Acme\""},
            {"role": "assistant", "content": "Both.", "tool_calls": [
                {"id": "call_1", "name": "crm/search-deals", "arguments": {"json": {"q": "Acme"}}},
                {"id": "call_2", "name": "web_search", "arguments": {"malformed": "{\"q\": oops"}},
            ], "thinking": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZW5j"},
                {"type": "encrypted_reasoning", "data": "ENC"},
            ]},
            {"role": "tool", "id": "call_1", "name": "crm/search-deals", "content": "[]"},
            {"role": "tool", "id": "call_2", "name": "web_search", "content": "arguments are not JSON", "is_error": true},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": ""},
        ],
        "tools": [weather_tool(), deals, search],
        "temperature": 0.7,
        "max_output_tokens": 1000,
        "parallel_tool_calls": false,
        "extra": {"topP": 0.9, "presencePenalty": 0.5, "seed": 7, "stopSequences": ["END"], "metadata": {"user_id": "u"}},
    }))
}

/// What a model of `provider` is sent; how it answers does not matter.
async fn sent(provider: &str, model: &str, request: &ModelRequest) -> (String, Map<String, Value>, Value) {
    let (_, _, server) = ask(provider, model, Answer::status(500, ""), request).await;
    let asked = server.only();
    let wanted = ["authorization", "x-api-key", "anthropic-version", "x-goog-api-key", "content-type"];
    let headers = wanted.iter().filter_map(|name| {
        let value = asked.headers.get(*name)?.to_str().unwrap().replace(KEY, "KEY");
        Some(((*name).to_owned(), json!(value)))
    });
    (asked.path, headers.collect(), asked.body)
}

async fn snapshot(name: &str, provider: &str, model: &str, request: &ModelRequest) {
    let (path, headers, body) = sent(provider, model, request).await;
    insta::assert_json_snapshot!(name, json!({"path": path, "headers": headers, "body": body}));
}

#[tokio::test]
async fn a_whole_conversation_for_every_provider() {
    snapshot("anthropic_conversation", "anthropic", "claude-sonnet-4-20250514", &conversation()).await;
    snapshot("openai_conversation", "openai", "gpt-4o", &conversation()).await;
    snapshot("responses_conversation", "openai-responses", "gpt-5", &conversation()).await;
    snapshot("gemini_conversation", "google", "gemini-2.5-pro", &conversation()).await;
}

#[tokio::test]
async fn the_shortest_request_for_every_provider() {
    snapshot("anthropic_shortest", "anthropic", "claude-sonnet-4-20250514", &user("hi")).await;
    snapshot("openai_shortest", "openai", "gpt-4o", &user("hi")).await;
    snapshot("responses_shortest", "openai-responses", "gpt-4o", &user("hi")).await;
    snapshot("gemini_shortest", "google", "gemini-2.5-pro", &user("hi")).await;
}

#[tokio::test]
async fn json_is_demanded_in_each_providers_way() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}, "required": ["a"]});
    let ask = |format: Value, tools: Value| {
        request(json!({"messages": [{"role": "user", "content": "hi"}], "response_format": format, "tools": tools}))
    };
    let mut seen = Map::new();
    for (provider, model) in [
        ("anthropic", "claude-sonnet-4-20250514"),
        ("anthropic", "claude-sonnet-4-5"),
        ("openai", "gpt-4o"),
        ("openai-responses", "gpt-4o"),
        ("google", "gemini-2.5-pro"),
        ("google", "gemini-3-pro-preview"),
    ] {
        for (name, format) in [("any", json!("json")), ("schema", json!({"structured": schema}))] {
            for (with, tools) in [("", json!([])), (" with tools", json!([weather_tool()]))] {
                let (_, _, mut body) = sent(provider, model, &ask(format.clone(), tools)).await;
                for known in [
                    "messages",
                    "contents",
                    "input",
                    "tools",
                    "model",
                    "stream",
                    "stream_options",
                    "store",
                    "max_tokens",
                ] {
                    body.as_object_mut().unwrap().shift_remove(known);
                }
                seen.insert(format!("{provider}/{model} {name}{with}"), body);
            }
        }
    }
    insta::assert_json_snapshot!("json_formats", seen);
}

#[tokio::test]
async fn models_that_take_no_temperature_are_not_given_one() {
    let mut asked = user("hi");
    asked.temperature = Some(0.7);
    for (provider, model, given) in [
        ("openai", "gpt-4o", true),
        ("openai", "gpt-5-mini", false),
        ("openai", "o3", false),
        ("openai-responses", "gpt-5", false),
        ("anthropic", "claude-sonnet-4-5", true),
        ("anthropic", "claude-opus-4-7", false),
        ("groq", "llama-3.3-70b-versatile", true),
    ] {
        let (_, _, body) = sent(provider, model, &asked).await;
        assert_eq!(body.get("temperature").is_some(), given, "{model}");
    }
    asked.extra.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2000}));
    let (_, _, body) = sent("anthropic", "claude-sonnet-4-5", &asked).await;
    assert_eq!((body.get("temperature"), &body["thinking"]["budget_tokens"]), (None, &json!(2000)));
}

#[tokio::test]
async fn extra_parameters_are_merged_and_must_not_take_over() {
    let mut asked = user("hi");
    asked.temperature = Some(0.5);
    asked.extra.insert("generationConfig".into(), json!({"thinkingConfig": {"thinkingBudget": 0}}));
    let (_, _, body) = sent("google", "gemini-2.5-flash", &asked).await;
    assert_eq!(body["generationConfig"], json!({"temperature": 0.5, "thinkingConfig": {"thinkingBudget": 0}}));

    for (name, value) in [
        ("stream", json!(false)),
        ("messages", json!([])),
        ("model", json!("x")),
        ("topP", json!("high")),
        ("stopSequences", json!("END")),
    ] {
        let mut asked = user("hi");
        asked.extra.insert(name.into(), value);
        let (reply, _, server) = ask("openai", "gpt-4o", Answer::status(500, ""), &asked).await;
        let error = reply.unwrap_err();
        assert!(error.kind == ErrorKind::InvalidRequest && error.message.contains(name), "{error}");
        assert!(server.asked().is_empty());
    }
}

/// Every provider that takes pictures gets those that are at hand; a model that cannot see is asked without them.
#[tokio::test]
async fn pictures_in_results() {
    let picture =
        |n: u32| json!({ "kind": "image", "url": format!("/blobs/{n}"), "content_type": "image/png", "bytes": 4 });
    let mut asked = request(json!({
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "tool_calls": [
                {"id": "call_1", "name": "camera", "arguments": {"json": {}}},
                {"id": "call_2", "name": "clock", "arguments": {"json": {}}},
            ]},
            {"role": "tool", "id": "call_1", "name": "camera", "content": "{\"bytes\":4}", "images": [picture(1), picture(2)]},
            {"role": "tool", "id": "call_2", "name": "clock", "content": "\"noon\""},
        ],
    }));
    let image = Image { content_type: "image/png".into(), base64: "iVBORw==".into() };
    asked.images.insert("/blobs/1".into(), image);
    snapshot("anthropic_pictures", "anthropic", "claude-sonnet-4-20250514", &asked).await;
    snapshot("openai_pictures", "openai", "gpt-4o", &asked).await;
    snapshot("responses_pictures", "openai-responses", "gpt-5", &asked).await;
    snapshot("gemini_pictures", "google", "gemini-2.5-pro", &asked).await;
    let (_, _, body) = sent("openai", "llama-3.3-70b", &asked).await;
    assert!(!body.to_string().contains("iVBORw"), "{body}");
}

//! Snapshots of the requests that models send. A changed request fails a test.

use serde_json::{Map, Value, json};
use toolwright_models::ErrorKind;
use toolwright_types::{Image, ModelRequest};

use crate::server::{MockResponse, complete};
use crate::support::{KEY, request, user_request, weather_tool};

/// Returns a conversation with every kind of message and parameter.
pub(crate) fn conversation() -> ModelRequest {
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

/// Returns path, headers and body of the request to `provider`. The response does not matter.
async fn sent_request(provider: &str, model: &str, request: &ModelRequest) -> (String, Map<String, Value>, Value) {
    let (_, _, server) = complete(provider, model, MockResponse::status(500, ""), request).await;
    let recorded = server.single_request();
    let relevant = ["authorization", "x-api-key", "anthropic-version", "x-goog-api-key", "content-type"];
    let headers = relevant.iter().filter_map(|name| {
        let value = recorded.headers.get(*name)?.to_str().unwrap().replace(KEY, "KEY");
        Some(((*name).to_owned(), json!(value)))
    });
    (recorded.path, headers.collect(), recorded.body)
}

async fn snapshot(name: &str, provider: &str, model: &str, request: &ModelRequest) {
    let (path, headers, body) = sent_request(provider, model, request).await;
    insta::assert_json_snapshot!(name, json!({"path": path, "headers": headers, "body": body}));
}

#[tokio::test]
async fn full_conversation_matches_the_snapshot_of_each_provider() {
    snapshot("anthropic_conversation", "anthropic", "claude-sonnet-4-20250514", &conversation()).await;
    snapshot("openai_conversation", "openai", "gpt-4o", &conversation()).await;
    snapshot("responses_conversation", "openai-responses", "gpt-5", &conversation()).await;
    snapshot("gemini_conversation", "google", "gemini-2.5-pro", &conversation()).await;
}

#[tokio::test]
async fn minimal_request_matches_the_snapshot_of_each_provider() {
    snapshot("anthropic_minimal", "anthropic", "claude-sonnet-4-20250514", &user_request("hi")).await;
    snapshot("openai_minimal", "openai", "gpt-4o", &user_request("hi")).await;
    snapshot("responses_minimal", "openai-responses", "gpt-4o", &user_request("hi")).await;
    snapshot("gemini_minimal", "google", "gemini-2.5-pro", &user_request("hi")).await;
}

#[tokio::test]
async fn response_format_matches_the_snapshot_of_each_provider() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}, "required": ["a"]});
    let format_request = |format: Value, tools: Value| {
        request(json!({"messages": [{"role": "user", "content": "hi"}], "response_format": format, "tools": tools}))
    };
    let mut bodies = Map::new();
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
                let (_, _, mut body) = sent_request(provider, model, &format_request(format.clone(), tools)).await;
                for unrelated in [
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
                    body.as_object_mut().unwrap().shift_remove(unrelated);
                }
                bodies.insert(format!("{provider}/{model} {name}{with}"), body);
            }
        }
    }
    insta::assert_json_snapshot!("json_formats", bodies);
}

#[tokio::test]
async fn temperature_is_sent_only_to_models_that_accept_it() {
    let mut request = user_request("hi");
    request.temperature = Some(0.7);
    for (provider, model, expected) in [
        ("openai", "gpt-4o", true),
        ("openai", "gpt-5-mini", false),
        ("openai", "o3", false),
        ("openai-responses", "gpt-5", false),
        ("anthropic", "claude-sonnet-4-5", true),
        ("anthropic", "claude-opus-4-7", false),
        ("groq", "llama-3.3-70b-versatile", true),
    ] {
        let (_, _, body) = sent_request(provider, model, &request).await;
        assert_eq!(body.get("temperature").is_some(), expected, "{model}");
    }
    request.extra.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2000}));
    let (_, _, body) = sent_request("anthropic", "claude-sonnet-4-5", &request).await;
    assert_eq!((body.get("temperature"), &body["thinking"]["budget_tokens"]), (None, &json!(2000)));
}

#[tokio::test]
async fn reserved_or_wrongly_typed_extra_parameter_is_rejected() {
    let mut request = user_request("hi");
    request.temperature = Some(0.5);
    request.extra.insert("generationConfig".into(), json!({"thinkingConfig": {"thinkingBudget": 0}}));
    let (_, _, body) = sent_request("google", "gemini-2.5-flash", &request).await;
    assert_eq!(body["generationConfig"], json!({"temperature": 0.5, "thinkingConfig": {"thinkingBudget": 0}}));

    for (name, value) in [
        ("stream", json!(false)),
        ("messages", json!([])),
        ("model", json!("x")),
        ("topP", json!("high")),
        ("stopSequences", json!("END")),
    ] {
        let mut request = user_request("hi");
        request.extra.insert(name.into(), value);
        let (reply, _, server) = complete("openai", "gpt-4o", MockResponse::status(500, ""), &request).await;
        let error = reply.unwrap_err();
        assert!(error.kind == ErrorKind::InvalidRequest && error.message.contains(name), "{error}");
        assert!(server.requests().is_empty());
    }
}

/// Images are sent to a model only if it accepts images.
#[tokio::test]
async fn images_in_results_match_the_snapshot_of_each_provider() {
    let image_reference =
        |n: u32| json!({ "kind": "image", "url": format!("/blobs/{n}"), "content_type": "image/png", "bytes": 4 });
    let mut request = request(json!({
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "tool_calls": [
                {"id": "call_1", "name": "camera", "arguments": {"json": {}}},
                {"id": "call_2", "name": "clock", "arguments": {"json": {}}},
            ]},
            {"role": "tool", "id": "call_1", "name": "camera", "content": "{\"bytes\":4}", "images": [image_reference(1), image_reference(2)]},
            {"role": "tool", "id": "call_2", "name": "clock", "content": "\"noon\""},
        ],
    }));
    let image = Image { content_type: "image/png".into(), base64: "iVBORw==".into() };
    request.images.insert("/blobs/1".into(), image);
    snapshot("anthropic_images", "anthropic", "claude-sonnet-4-20250514", &request).await;
    snapshot("openai_images", "openai", "gpt-4o", &request).await;
    snapshot("responses_images", "openai-responses", "gpt-5", &request).await;
    snapshot("gemini_images", "google", "gemini-2.5-pro", &request).await;
    let (_, _, body) = sent_request("openai", "llama-3.3-70b", &request).await;
    assert!(!body.to_string().contains("iVBORw"), "{body}");
}

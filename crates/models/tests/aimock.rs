//! Tests against aimock, a third-party mock of the providers. Start it with `scripts/with-aimock`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first unexpected value")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{KEY, RecordingSink, client, request, weather_tool};
use toolwright_models::{ErrorKind, Model, ModelConfig, ModelError, ModelFactory, Provider};
use toolwright_types::{Arguments, ModelReply, ModelRequest, StopReason};

const MODELS: [(&str, &str); 4] = [
    ("openai", "gpt-4o"),
    ("openai-responses", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-20250514"),
    ("google", "gemini-2.5-pro"),
];

fn url() -> String {
    std::env::var("TOOLWRIGHT_TEST_AIMOCK_URL").expect(
        "TOOLWRIGHT_TEST_AIMOCK_URL is not set: run the tests as `scripts/with-aimock cargo nextest run -p toolwright-models`",
    )
}

fn model(provider: &str, model: &str) -> Arc<dyn Model> {
    let provider: Provider = provider.parse().unwrap();
    // The URLs come from environment variables, which an operator would set.
    let lookup = |name: &str| match name {
        "OPENAI_BASE_URL" => Some(format!("{}/v1", url())),
        "ANTHROPIC_BASE_URL" | "GEMINI_BASE_URL" => Some(url()),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    };
    let config = ModelConfig { timeout: Duration::from_secs(20), ..ModelConfig::new(provider, model) };
    ModelFactory::new(client()).with_environment(lookup).build(&config).unwrap()
}

fn request_with_tools(text: &str) -> ModelRequest {
    let deals = json!({"name": "crm/search-deals", "description": "Finds deals.", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}});
    request(json!({
        "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": text}],
        "tools": [weather_tool(), deals],
        "temperature": 0.2,
        "max_output_tokens": 500,
    }))
}

async fn complete(
    provider: &str,
    name: &str,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, RecordingSink) {
    let mut sink = RecordingSink::default();
    let reply = model(provider, name).complete(request, &mut sink).await;
    (reply, sink)
}

#[tokio::test]
async fn text_is_streamed_in_several_deltas() {
    for (provider, name) in MODELS {
        let (reply, sink) = complete(provider, name, &request_with_tools("say hello")).await;
        let reply = reply.unwrap();
        assert_eq!(reply.content, "Hallo 🙂, schöne Welt! This text is long enough for several chunks.", "{provider}");
        assert_eq!(reply.stop, StopReason::EndTurn, "{provider}");
        assert!(sink.text.len() > 1 && sink.text.concat() == reply.content, "{provider}: {sink:?}");
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (11, 7), "{provider}");
    }
}

#[tokio::test]
async fn parallel_calls_are_parsed_and_their_results_are_accepted() {
    for (provider, name) in MODELS {
        let mut request = request_with_tools("weather in two cities");
        let (reply, _) = complete(provider, name, &request).await;
        let reply = reply.unwrap();
        assert_eq!(reply.stop, StopReason::ToolUse, "{provider}");
        let calls: Vec<(&str, Arguments)> =
            reply.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
        let expected = [
            ("get_weather", json!({"city": "Köln"})),
            ("get_weather", json!({"city": "Rom"})),
            ("crm/search-deals", json!({"q": "a \"quoted\" text"})),
        ];
        assert_eq!(calls, expected.map(|(name, input)| (name, Arguments::Json(input))), "{provider}");
        let ids: std::collections::BTreeSet<_> = reply.tool_calls.iter().map(|call| &call.id).collect();
        assert_eq!(ids.len(), 3, "{provider}");

        let assistant = json!({"role": "assistant", "content": reply.content, "tool_calls": reply.tool_calls, "thinking": reply.thinking});
        std::sync::Arc::make_mut(&mut request.messages).push(serde_json::from_value(assistant).unwrap());
        for call in &reply.tool_calls {
            let result = json!({"role": "tool", "id": call.id, "name": call.name, "content": "rain", "is_error": call.name != "get_weather"});
            std::sync::Arc::make_mut(&mut request.messages).push(serde_json::from_value(result).unwrap());
        }
        let (reply, _) = complete(provider, name, &request).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.stop),
            ("Rain in Köln, sun in Rom.", StopReason::EndTurn),
            "{provider}"
        );
    }
}

#[tokio::test]
async fn text_and_call_in_one_reply_are_parsed() {
    for (provider, name) in MODELS {
        let (reply, sink) = complete(provider, name, &request_with_tools("text and a call")).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.content.as_str(), reply.stop, reply.tool_calls.len()),
            ("Let me look.", StopReason::ToolUse, 1),
            "{provider}"
        );
        assert_eq!(sink.text.concat(), "Let me look.", "{provider}");
    }
}

#[tokio::test]
async fn malformed_arguments_are_kept_as_text() {
    // Google is not tested, because its format has no textual arguments. Anthropic is not tested, because aimock
    // replaces malformed arguments with `{}`.
    for (provider, name) in MODELS.into_iter().filter(|(provider, _)| provider.starts_with("openai")) {
        let (reply, _) = complete(provider, name, &request_with_tools("broken arguments")).await;
        let arguments = reply.unwrap().tool_calls.remove(0).arguments;
        assert_eq!(arguments, Arguments::Malformed("{\"city\": oops".into()), "{provider}");
    }
}

#[tokio::test]
async fn token_limit_and_refusal_set_the_stop_reason() {
    // For Gemini, aimock always sends STOP.
    for (provider, name) in MODELS.into_iter().filter(|(provider, _)| *provider != "google") {
        let (reply, _) = complete(provider, name, &request_with_tools("run out of room")).await;
        assert_eq!(reply.unwrap().stop, StopReason::MaxTokens, "{provider}");
    }
    let (reply, _) = complete("openai", "gpt-4o", &request_with_tools("decline")).await;
    assert_eq!(reply.unwrap().stop, StopReason::Refusal);
}

#[tokio::test]
async fn thinking_is_kept_with_its_signature() {
    let (reply, sink) = complete("anthropic", "claude-sonnet-4-20250514", &request_with_tools("think first")).await;
    let reply = reply.unwrap();
    assert_eq!((reply.content.as_str(), sink.thinking.as_str()), ("Done.", "Hm, let me see."));
    let expected: Vec<Value> =
        vec![json!({"type": "thinking", "thinking": "Hm, let me see.", "signature": "c2lnbmVk"})];
    assert_eq!(reply.thinking, expected);
}

#[tokio::test]
async fn injected_http_errors_have_the_expected_kind() {
    for (provider, name) in MODELS {
        let error = complete(provider, name, &request_with_tools("too many")).await.0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RateLimit { retry_after: Some(Duration::from_secs(17)) }, "{provider}");
        let error = complete(provider, name, &request_with_tools("too busy")).await.0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Overloaded { retry_after: None }, "{provider}");
        let error = complete(provider, name, &request_with_tools("wrong key")).await.0.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth, "{provider}");
        let error = complete(provider, name, &request_with_tools("no fixture matches this")).await.0.unwrap_err();
        assert!(!error.message.is_empty(), "{provider}");
    }
}

#[tokio::test]
async fn truncated_stream_is_a_network_error() {
    for (provider, name) in MODELS {
        let (reply, sink) = complete(provider, name, &request_with_tools("cut the stream")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Network, "{provider}: {sink:?}");
    }
}

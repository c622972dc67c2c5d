//! Google's Gemini API.

use serde_json::{Value, json};
use toolwright_models::ErrorKind;
use toolwright_types::{Arguments, ModelReply, StopReason, Usage};

use crate::server::{MockResponse, complete};
use crate::support::{RecordingSink, request, user_request, weather_tool};

pub(crate) fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

pub(crate) fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {
        "promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "cachedContentTokenCount": 40, "totalTokenCount": 110}})
}

/// Builds a stream. Google ends its lines with CRLF.
pub(crate) fn stream(chunks: &[Value]) -> MockResponse {
    MockResponse::stream(chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect::<String>())
}

async fn reply(chunks: &[Value]) -> (ModelReply, RecordingSink) {
    let (reply, sink, _) = complete("google", "gemini-2.5-pro", stream(chunks), &user_request("hi")).await;
    (reply.unwrap(), sink)
}

#[tokio::test]
async fn text_is_streamed_with_usage_and_cost() {
    let (reply, sink) =
        reply(&[parts(json!([{"text": "Hall"}])), parts(json!([{"text": "o ✓"}])), finish("STOP")]).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hallo ✓", StopReason::EndTurn));
    assert_eq!(sink.text, ["Hall", "o ✓"]);
    assert_eq!(reply.usage, Usage { input_tokens: 100, output_tokens: 10, cached_input_tokens: 40 });
    assert!((reply.cost_usd.unwrap() - (0.06 * 0.00125 + 0.04 * 0.000125 + 0.01 * 0.01)).abs() < 1e-12);
}

#[tokio::test]
async fn calls_to_the_same_tool_in_different_chunks_have_unique_ids() {
    let call = |city: &str| json!({"functionCall": {"name": "get_weather", "args": {"city": city}}});
    let chunks = [
        parts(json!([call("Rom"), call("Bern")])),
        parts(json!([call("Wien")])),
        parts(json!([{"functionCall": {"name": "get_weather"}}])),
        parts(json!([{"functionCall": {"name": "get_weather", "id": "own", "args": {}}}])),
        finish("STOP"),
    ];
    let (reply, _) = reply(&chunks).await;
    assert_eq!(reply.stop, StopReason::ToolUse);
    let arguments: Vec<_> = reply.tool_calls.iter().map(|call| call.arguments.clone()).collect();
    let expected = [json!({"city": "Rom"}), json!({"city": "Bern"}), json!({"city": "Wien"}), json!({}), json!({})];
    assert_eq!(arguments, expected.map(Arguments::Json));
    let ids: std::collections::BTreeSet<_> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 5, "{ids:?}");
    assert!(ids.contains("own"));
}

#[tokio::test]
async fn thought_signatures_are_repeated_in_the_next_request() {
    let chunks = [
        parts(json!([{"text": "Thinking…", "thought": true}])),
        parts(json!([{"text": "Two.", "thoughtSignature": "sig-text"}])),
        parts(
            json!([{"functionCall": {"name": "get_weather", "args": {}}}, {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": "sig-call"}]),
        ),
        finish("STOP"),
    ];
    let (reply, sink) = reply(&chunks).await;
    assert_eq!((sink.thinking.as_str(), reply.content.as_str()), ("Thinking…", "Two."));
    let expected = [
        json!({"type": "thought_signature", "signature": "sig-text"}),
        json!({"type": "thought_signature", "signature": "sig-call", "call": 1}),
    ];
    assert_eq!(reply.thinking, expected);

    let history = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": reply.content, "tool_calls": reply.tool_calls, "thinking": reply.thinking},
        {"role": "tool", "id": reply.tool_calls[0].id, "name": "get_weather", "content": "sun"},
        {"role": "tool", "id": reply.tool_calls[1].id, "name": "get_weather", "content": "no such city", "is_error": true},
    ]);
    let request = request(json!({"messages": history, "tools": [weather_tool()]}));
    let (_, _, server) =
        complete("google", "gemini-2.5-pro", stream(&[parts(json!([{"text": "ok"}])), finish("STOP")]), &request).await;
    insta::assert_json_snapshot!("gemini_signatures_in_next_request", server.single_request().body["contents"]);
}

#[tokio::test]
async fn finish_reasons_and_blocked_prompts_set_the_stop_reason() {
    for (reason, expected) in [
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
    ] {
        let (reply, _) = reply(&[parts(json!([{"text": "So"}])), finish(reason)]).await;
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{reason}");
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}});
    let (reply, _) = reply(&[blocked]).await;
    assert_eq!((reply.stop, reply.content.as_str()), (StopReason::Refusal, ""));
}

#[tokio::test]
async fn frame_without_candidates_does_not_end_the_reply() {
    let count = json!({"usageMetadata": {"promptTokenCount": 9}, "modelVersion": "gemini-2.5-pro"});
    let (reply, _) =
        reply(&[count, parts(json!([{"text": "Hi"}])), json!({"candidates": [{"newField": 1}]}), finish("STOP")]).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hi", StopReason::EndTurn));
}

#[tokio::test]
async fn error_for_a_malformed_function_call_contains_the_text_of_the_call() {
    let broken = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print(default_api.get_weather("}]});
    let (reply, _, _) = complete("google", "gemini-2.5-pro", stream(&[broken]), &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.contains("default_api.get_weather("), "{error}");
}

#[tokio::test]
async fn stream_without_finish_reason_is_a_network_error() {
    let (reply, sink, _) =
        complete("google", "gemini-2.5-pro", stream(&[parts(json!([{"text": "So"}]))]), &user_request("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Network);
    assert_eq!(sink.text, ["So"]);
    let unavailable = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let (reply, _, _) = complete("google", "gemini-2.5-pro", stream(&[unavailable]), &user_request("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Overloaded { retry_after: None });
}

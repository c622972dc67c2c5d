//! Google's Gemini API.

use serde_json::{Value, json};
use toolwright_models::ErrorKind;
use toolwright_types::{Arguments, ModelReply, StopReason, Usage};

use crate::server::{Answer, ask};
use crate::support::{Heard, request, user, weather_tool};

pub fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

pub fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {
        "promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "cachedContentTokenCount": 40, "totalTokenCount": 110}})
}

/// Google ends its lines with CRLF.
pub fn stream(chunks: &[Value]) -> Answer {
    Answer::stream(chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect::<String>())
}

async fn reply(chunks: &[Value]) -> (ModelReply, Heard) {
    let (reply, heard, _) = ask("google", "gemini-2.5-pro", stream(chunks), &user("hi")).await;
    (reply.unwrap(), heard)
}

#[tokio::test]
async fn text_is_streamed_counted_and_priced() {
    let (reply, heard) =
        reply(&[parts(json!([{"text": "Hall"}])), parts(json!([{"text": "o ✓"}])), finish("STOP")]).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hallo ✓", StopReason::EndTurn));
    assert_eq!(heard.text, ["Hall", "o ✓"]);
    assert_eq!(reply.usage, Usage { input_tokens: 100, output_tokens: 10, cached_input_tokens: 40 });
    assert!((reply.cost_usd.unwrap() - (0.06 * 0.00125 + 0.04 * 0.000125 + 0.01 * 0.01)).abs() < 1e-12);
}

#[tokio::test]
async fn calls_of_one_name_in_different_chunks_have_their_own_ids() {
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
async fn signatures_stay_with_the_part_they_came_with() {
    let chunks = [
        parts(json!([{"text": "Thinking…", "thought": true}])),
        parts(json!([{"text": "Two.", "thoughtSignature": "sig-text"}])),
        parts(
            json!([{"functionCall": {"name": "get_weather", "args": {}}}, {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": "sig-call"}]),
        ),
        finish("STOP"),
    ];
    let (reply, heard) = reply(&chunks).await;
    assert_eq!((heard.thinking.as_str(), reply.content.as_str()), ("Thinking…", "Two."));
    let kept = [
        json!({"type": "thought_signature", "signature": "sig-text"}),
        json!({"type": "thought_signature", "signature": "sig-call", "call": 1}),
    ];
    assert_eq!(reply.thinking, kept);

    let history = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": reply.content, "tool_calls": reply.tool_calls, "thinking": reply.thinking},
        {"role": "tool", "id": reply.tool_calls[0].id, "name": "get_weather", "content": "sun"},
        {"role": "tool", "id": reply.tool_calls[1].id, "name": "get_weather", "content": "no such city", "is_error": true},
    ]);
    let request = request(json!({"messages": history, "tools": [weather_tool()]}));
    let (_, _, server) =
        ask("google", "gemini-2.5-pro", stream(&[parts(json!([{"text": "ok"}])), finish("STOP")]), &request).await;
    insta::assert_json_snapshot!("gemini_signatures_go_back", server.only().body["contents"]);
}

#[tokio::test]
async fn refusals_and_ends() {
    for (word, expected) in [
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
    ] {
        let (reply, _) = reply(&[parts(json!([{"text": "So"}])), finish(word)]).await;
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{word}");
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 9}});
    let (reply, _) = reply(&[blocked]).await;
    assert_eq!((reply.stop, reply.content.as_str()), (StopReason::Refusal, ""));
}

#[tokio::test]
async fn a_frame_without_an_answer_does_not_end_the_reply() {
    let count = json!({"usageMetadata": {"promptTokenCount": 9}, "modelVersion": "gemini-2.5-pro"});
    let (reply, _) =
        reply(&[count, parts(json!([{"text": "Hi"}])), json!({"candidates": [{"newField": 1}]}), finish("STOP")]).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hi", StopReason::EndTurn));
}

#[tokio::test]
async fn a_call_that_google_could_not_read_is_an_error_with_its_text() {
    let broken = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: print(default_api.get_weather("}]});
    let (reply, _, _) = ask("google", "gemini-2.5-pro", stream(&[broken]), &user("hi")).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.message.contains("default_api.get_weather("), "{error}");
}

#[tokio::test]
async fn a_stream_that_ends_without_a_reason_is_not_a_reply() {
    let (reply, heard, _) =
        ask("google", "gemini-2.5-pro", stream(&[parts(json!([{"text": "So"}]))]), &user("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Network);
    assert_eq!(heard.text, ["So"]);
    let unavailable = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let (reply, _, _) = ask("google", "gemini-2.5-pro", stream(&[unavailable]), &user("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Overloaded { retry_after: None });
}

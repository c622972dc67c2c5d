//! Anthropic's Messages API.

use serde_json::{Value, json};
use toolwright_types::{Arguments, ModelReply, StopReason, Usage};

use crate::server::{MockResponse, complete};
use crate::support::{RecordingSink, request, user_request, weather_tool};

const MODEL: &str = "claude-sonnet-4-20250514";

pub(crate) fn start(usage: Value) -> (&'static str, Value) {
    ("message_start", json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "usage": usage}}))
}

pub(crate) fn block(index: u32, block: Value) -> (&'static str, Value) {
    ("content_block_start", json!({"type": "content_block_start", "index": index, "content_block": block}))
}

pub(crate) fn delta(index: u32, delta: Value) -> (&'static str, Value) {
    ("content_block_delta", json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

pub(crate) fn text(index: u32, text: &str) -> (&'static str, Value) {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn input(index: u32, json: &str) -> (&'static str, Value) {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

pub(crate) fn stop(index: u32) -> (&'static str, Value) {
    ("content_block_stop", json!({"type": "content_block_stop", "index": index}))
}

pub(crate) fn end(reason: &str, output: u32) -> [(&'static str, Value); 2] {
    [
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": output}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ]
}

async fn reply(events: Vec<(&'static str, Value)>) -> (ModelReply, RecordingSink) {
    let (reply, sink, _) = complete("anthropic", MODEL, MockResponse::events(events), &user_request("hi")).await;
    (reply.unwrap(), sink)
}

#[tokio::test]
async fn text_is_streamed_with_usage_and_cost() {
    let mut events = vec![
        start(
            json!({"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0, "output_tokens": 1}),
        ),
        ("ping", json!({"type": "ping"})),
        block(0, json!({"type": "text", "text": ""})),
        text(0, "Grüß "),
        text(0, "dich 🙂"),
        stop(0),
    ];
    events.extend(end("end_turn", 12));
    let (reply, sink) = reply(events).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Grüß dich 🙂", StopReason::EndTurn));
    assert_eq!(sink.text, ["Grüß ", "dich 🙂"]);
    assert_eq!(reply.usage, Usage { input_tokens: 1000, output_tokens: 12, cached_input_tokens: 900 });
    let cost = reply.cost_usd.unwrap();
    assert!((cost - (0.1 * 0.003 + 0.9 * 0.0003 + 0.012 * 0.015)).abs() < 1e-12, "{cost}");
}

#[tokio::test]
async fn parallel_calls_keep_their_order_and_malformed_arguments_stay_text() {
    let mut events = vec![
        start(json!({"input_tokens": 5})),
        block(0, json!({"type": "text", "text": ""})),
        text(0, "Both."),
        stop(0),
    ];
    let call =
        |index, id: &str, name: &str| block(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
    events.extend([call(1, "toolu_1", "get_weather"), input(1, "{\"city\": \"Z"), input(1, "ürich\"}"), stop(1)]);
    events.extend([call(2, "toolu_2", "crm__search-deals"), input(2, "{\"q\": oops"), stop(2)]);
    events.extend([call(3, "toolu_3", "invented"), stop(3)]);
    events.extend([call(4, "toolu_4", "get_weather"), input(4, "\"Bern\""), stop(4)]);
    events.extend(end("tool_use", 9));
    let deals = json!({"name": "crm/search-deals", "description": "", "input_schema": {}});
    let request = request(json!({"messages": [{"role": "user", "content": "hi"}], "tools": [weather_tool(), deals]}));
    let (reply, sink, _) =
        complete("anthropic", MODEL, MockResponse::events(events).in_single_byte_chunks(), &request).await;
    let reply = reply.unwrap();
    assert_eq!((reply.content.as_str(), reply.stop), ("Both.", StopReason::ToolUse));
    assert_eq!(sink.text.concat(), "Both.");
    let calls: Vec<_> = reply.tool_calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect();
    let expected = [
        ("toolu_1", "get_weather", Arguments::Json(json!({"city": "Zürich"}))),
        ("toolu_2", "crm/search-deals", Arguments::Malformed("{\"q\": oops".into())),
        ("toolu_3", "invented", Arguments::Json(json!({}))),
        ("toolu_4", "get_weather", Arguments::Json(json!("Bern"))),
    ];
    assert_eq!(calls, expected.map(|(id, name, arguments)| (id.to_owned(), name.to_owned(), arguments)));
}

#[tokio::test]
async fn thinking_is_streamed_and_kept_with_its_signature() {
    let mut events = vec![
        start(json!({"input_tokens": 5})),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        delta(0, json!({"type": "signature_delta", "signature": "bmVk"})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "ZW5j"})),
        stop(1),
        block(2, json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}})),
        input(2, "{}"),
        stop(2),
    ];
    events.extend(end("tool_use", 9));
    let (reply, sink) = reply(events).await;
    assert_eq!(sink.thinking, "Let me see.");
    let expected = [
        json!({"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}),
        json!({"type": "redacted_thinking", "data": "ZW5j"}),
    ];
    assert_eq!(reply.thinking, expected);
    assert_eq!(reply.content, "");
}

#[tokio::test]
async fn stop_reason_of_the_message_sets_the_stop_reason_of_the_reply() {
    for (reason, expected) in [
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        ("stop_sequence", StopReason::EndTurn),
        ("pause_turn", StopReason::EndTurn),
    ] {
        let mut events = vec![start(json!({})), block(0, json!({"type": "text", "text": ""})), text(0, "So"), stop(0)];
        events.extend(end(reason, 1));
        let (reply, _) = reply(events).await;
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{reason}");
    }
}

#[tokio::test]
async fn call_truncated_by_the_token_limit_keeps_its_partial_arguments() {
    let mut events = vec![
        start(json!({})),
        block(0, json!({"type": "tool_use", "id": "t", "name": "get_weather", "input": {}})),
        input(0, "{\"ci"),
    ];
    events.extend(end("max_tokens", 1));
    let (reply, _) = reply(events).await;
    assert_eq!(reply.stop, StopReason::MaxTokens);
    assert_eq!(reply.tool_calls[0].arguments, Arguments::Malformed("{\"ci".into()));
}

#[tokio::test]
async fn events_and_blocks_and_deltas_of_unknown_types_are_ignored() {
    let mut events = vec![
        start(json!({})),
        ("brand_new_event", json!({"type": "brand_new_event"})),
        block(0, json!({"type": "server_tool_use", "id": "s", "name": "web", "input": {}})),
        input(0, "{\"q\": 1}"),
        stop(0),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "citations_delta", "citation": {"url": "x"}})),
        text(1, "Found."),
        stop(1),
    ];
    events.extend(end("end_turn", 1));
    let (reply, _) = reply(events).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Found.", StopReason::EndTurn));
}

#[tokio::test]
async fn empty_reply_is_accepted() {
    let mut events = vec![start(json!({"input_tokens": 3}))];
    events.extend(end("end_turn", 0));
    let (reply, sink) = reply(events).await;
    assert_eq!((reply.content.as_str(), reply.stop, reply.tool_calls.len()), ("", StopReason::EndTurn, 0));
    assert!(sink.text.is_empty());
}

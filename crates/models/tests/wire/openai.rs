//! OpenAI's Chat Completions API and compatible servers.

use serde_json::{Value, json};
use toolwright_types::{Arguments, ModelReply, StopReason, Usage};

use crate::server::{MockResponse, complete};
use crate::support::{RecordingSink, request, user_request, weather_tool};

pub(crate) fn chunk(delta: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

pub(crate) fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub(crate) fn usage(usage: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [], "usage": usage}))
}

pub(crate) const DONE: &str = "data: [DONE]\n\n";

fn calls(calls: Value) -> String {
    chunk(json!({ "tool_calls": calls }))
}

async fn reply(stream: String) -> (ModelReply, RecordingSink) {
    let (reply, sink, _) = complete("openai", "gpt-4o", MockResponse::stream(stream), &user_request("hi")).await;
    (reply.unwrap(), sink)
}

#[tokio::test]
async fn text_is_streamed_with_usage_and_cost() {
    let stream = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "Hel"})),
        ": a comment\n\n".to_owned(),
        chunk(json!({"content": "lo 世界"})),
        finish("stop"),
        usage(json!({"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 400}})),
        DONE.to_owned(),
    ];
    let (reply, sink) = reply(stream.concat()).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hello 世界", StopReason::EndTurn));
    assert_eq!(sink.text, ["Hel", "lo 世界"]);
    assert_eq!(reply.usage, Usage { input_tokens: 1000, output_tokens: 10, cached_input_tokens: 400 });
    assert!((reply.cost_usd.unwrap() - (0.6 * 0.005 + 0.4 * 0.0025 + 0.01 * 0.015)).abs() < 1e-12);
}

#[tokio::test]
async fn interleaved_chunks_of_parallel_calls_are_assigned_to_their_calls() {
    let stream = [
        calls(
            json!([{"index": 0, "id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]),
        ),
        calls(
            json!([{"index": 1, "id": "call_b", "type": "function", "function": {"name": "crm__search", "arguments": ""}}]),
        ),
        calls(
            json!([{"index": 0, "function": {"arguments": "{\"city\":"}}, {"index": 1, "function": {"arguments": "{\"q\": \"a\""}}]),
        ),
        calls(json!([{"index": 0, "function": {"arguments": "\"Köln\"}"}}])),
        calls(json!([{"index": 1, "function": {"arguments": ",,}"}}])),
        calls(
            json!([{"index": 2, "id": "call_c", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]),
        ),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    let search = json!({"name": "crm/search", "description": "", "input_schema": {}});
    let request = request(json!({"messages": [{"role": "user", "content": "hi"}], "tools": [weather_tool(), search]}));
    let response = MockResponse::stream(stream.concat()).in_single_byte_chunks();
    let (reply, _, _) = complete("openai", "gpt-4o", response, &request).await;
    let reply = reply.unwrap();
    assert_eq!((reply.content.as_str(), reply.stop), ("", StopReason::ToolUse));
    let found: Vec<_> = reply.tool_calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect();
    let expected = [
        ("call_a", "get_weather", Arguments::Json(json!({"city": "Köln"}))),
        ("call_b", "crm/search", Arguments::Malformed("{\"q\": \"a\",,}".into())),
        ("call_c", "get_weather", Arguments::Json(json!({}))),
    ];
    assert_eq!(found, expected.map(|(id, name, arguments)| (id.to_owned(), name.to_owned(), arguments)));
}

#[tokio::test]
async fn call_is_not_duplicated_when_indexes_start_at_one() {
    let stream = [
        calls(
            json!([{"index": 1, "id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\""}}]),
        ),
        calls(json!([{"index": 1, "function": {"arguments": ": \"Rom\"}"}}])),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    let (reply, _) = reply(stream.concat()).await;
    assert_eq!(reply.tool_calls.len(), 1);
    assert_eq!(reply.tool_calls[0].arguments, Arguments::Json(json!({"city": "Rom"})));
}

#[tokio::test]
async fn reply_with_calls_has_stop_reason_tool_use_even_if_its_finish_reason_is_stop() {
    let call =
        json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]);
    let (reply, _) = reply([calls(call), finish("stop"), DONE.to_owned()].concat()).await;
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[tokio::test]
async fn finish_reason_sets_the_stop_reason_of_the_reply() {
    for (reason, expected) in
        [("length", StopReason::MaxTokens), ("content_filter", StopReason::Refusal), ("stop", StopReason::EndTurn)]
    {
        let (reply, _) = reply([chunk(json!({"content": "So"})), finish(reason), DONE.to_owned()].concat()).await;
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{reason}");
    }
}

#[tokio::test]
async fn refusal_field_is_returned_as_text() {
    let stream = [
        chunk(json!({"role": "assistant", "content": null, "refusal": ""})),
        chunk(json!({"refusal": "I cannot "})),
        chunk(json!({"refusal": "help with that."})),
        finish("stop"),
        DONE.to_owned(),
    ];
    let (reply, sink) = reply(stream.concat()).await;
    assert_eq!((reply.stop, reply.content.as_str()), (StopReason::Refusal, "I cannot help with that."));
    assert_eq!(sink.text.concat(), "I cannot help with that.");
}

#[tokio::test]
async fn reply_without_a_done_marker_is_complete() {
    let call = json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": 1}"}}]);
    let (reply, _) = reply([chunk(json!({"content": "Hm"})), calls(call), finish("tool_calls")].concat()).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hm", StopReason::ToolUse));
    assert_eq!(reply.tool_calls[0].arguments, Arguments::Json(json!({"city": 1})));
}

#[tokio::test]
async fn reasoning_is_kept_only_for_providers_that_require_it() {
    let stream =
        [chunk(json!({"reasoning_content": "Hm."})), chunk(json!({"content": "Yes"})), finish("stop"), DONE.to_owned()]
            .concat();
    for (provider, kept) in
        [("deepseek", vec![json!({"type": "reasoning_content", "text": "Hm."})]), ("openai", vec![])]
    {
        let (reply, sink, _) =
            complete(provider, "some-model", MockResponse::stream(stream.clone()), &user_request("hi")).await;
        let reply = reply.unwrap();
        assert_eq!((sink.thinking.as_str(), &reply.thinking), ("Hm.", &kept), "{provider}");
        assert_eq!(reply.cost_usd, None, "the cost of a model without a price is unknown");
    }
}

#[tokio::test]
async fn model_name_that_ends_in_an_effort_level_is_sent_unchanged() {
    for (provider, model) in [("mistral", "mistral-medium"), ("openai", "qwen-max"), ("openai", "max")] {
        let stream = [chunk(json!({"content": "Hi"})), finish("stop"), DONE.to_owned()].concat();
        let (_, _, server) = complete(provider, model, MockResponse::stream(stream), &user_request("hi")).await;
        assert_eq!(server.single_request().body["model"], model);
        assert!(server.single_request().body.get("reasoning_effort").is_none());
    }
}

#[tokio::test]
async fn calls_without_ids_get_unique_ids() {
    let call = |index: u32, city: &str| {
        let function = json!({"name": "get_weather", "arguments": json!({"city": city}).to_string()});
        calls(json!([{"index": index, "id": "", "type": "function", "function": function}]))
    };
    let (reply, _) = reply([call(0, "Rom"), call(1, "Bern"), finish("tool_calls"), DONE.to_owned()].concat()).await;
    let found: Vec<_> = reply.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments.clone())).collect();
    let expected = [("call_0", json!({"city": "Rom"})), ("call_1", json!({"city": "Bern"}))];
    assert_eq!(found, expected.map(|(id, input)| (id, Arguments::Json(input))));
}

#[tokio::test]
async fn endless_reply_is_aborted_at_the_size_limit() {
    let megabyte = chunk(json!({"content": "x".repeat(1 << 20)}));
    let endless = MockResponse::stream(megabyte.repeat(10)).then_pause(std::time::Duration::from_secs(30));
    let (reply, _, _) = complete("openai", "gpt-4o", endless, &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert!(error.kind == toolwright_models::ErrorKind::Malformed && error.message.contains("8 MiB"), "{error}");
}

#[tokio::test]
async fn endless_arguments_are_aborted_at_the_size_limit() {
    let function = json!({"name": "get_weather", "arguments": "x".repeat(1 << 20)});
    let megabyte = calls(json!([{"index": 0, "id": "call_1", "type": "function", "function": function}]));
    let endless = MockResponse::stream(megabyte.repeat(10)).then_pause(std::time::Duration::from_secs(30));
    let (reply, _, _) = complete("openai", "gpt-4o", endless, &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert!(error.kind == toolwright_models::ErrorKind::Malformed && error.message.contains("8 MiB"), "{error}");
}

#[tokio::test]
async fn frame_with_too_many_nodes_is_rejected() {
    let frame = chunk(json!({"content": "x", "extra": vec![json!([]); 1_000_000]}));
    let response = MockResponse::stream([frame, finish("stop"), DONE.to_owned()].concat());
    let (reply, _, _) = complete("openai", "gpt-4o", response, &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert!(error.kind == toolwright_models::ErrorKind::Malformed && error.message.contains("JSON nodes"), "{error}");
}

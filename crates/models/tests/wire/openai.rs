//! OpenAI's Chat Completions, and what imitates them.

use serde_json::{Value, json};
use toolwright_types::{Arguments, ModelReply, StopReason, Usage};

use crate::server::{Answer, ask};
use crate::support::{Heard, request, user, weather_tool};

pub fn chunk(delta: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

pub fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

pub fn usage(usage: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [], "usage": usage}))
}

pub const DONE: &str = "data: [DONE]\n\n";

fn calls(calls: Value) -> String {
    chunk(json!({ "tool_calls": calls }))
}

async fn reply(stream: String) -> (ModelReply, Heard) {
    let (reply, heard, _) = ask("openai", "gpt-4o", Answer::stream(stream), &user("hi")).await;
    (reply.unwrap(), heard)
}

#[tokio::test]
async fn text_is_streamed_counted_and_priced() {
    let stream = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "Hel"})),
        ": a comment\n\n".to_owned(),
        chunk(json!({"content": "lo 世界"})),
        finish("stop"),
        usage(json!({"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 400}})),
        DONE.to_owned(),
    ];
    let (reply, heard) = reply(stream.concat()).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hello 世界", StopReason::EndTurn));
    assert_eq!(heard.text, ["Hel", "lo 世界"]);
    assert_eq!(reply.usage, Usage { input_tokens: 1000, output_tokens: 10, cached_input_tokens: 400 });
    assert!((reply.cost_usd.unwrap() - (0.6 * 0.005 + 0.4 * 0.0025 + 0.01 * 0.015)).abs() < 1e-12);
}

#[tokio::test]
async fn parallel_calls_grow_side_by_side() {
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
    let answer = Answer::stream(stream.concat()).in_single_bytes();
    let (reply, _, _) = ask("openai", "gpt-4o", answer, &request).await;
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
async fn a_call_is_not_doubled_when_numbers_begin_at_one() {
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
async fn calls_mean_tool_use_whatever_the_reason_says() {
    let call =
        json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]);
    let (reply, _) = reply([calls(call), finish("stop"), DONE.to_owned()].concat()).await;
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[tokio::test]
async fn a_reply_that_runs_out_of_room_or_declines_says_so() {
    for (word, expected) in
        [("length", StopReason::MaxTokens), ("content_filter", StopReason::Refusal), ("stop", StopReason::EndTurn)]
    {
        let (reply, _) = reply([chunk(json!({"content": "So"})), finish(word), DONE.to_owned()].concat()).await;
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{word}");
    }
}

#[tokio::test]
async fn a_refusal_in_its_own_field_is_not_lost() {
    let stream = [
        chunk(json!({"role": "assistant", "content": null, "refusal": ""})),
        chunk(json!({"refusal": "I cannot "})),
        chunk(json!({"refusal": "help with that."})),
        finish("stop"),
        DONE.to_owned(),
    ];
    let (reply, heard) = reply(stream.concat()).await;
    assert_eq!((reply.stop, reply.content.as_str()), (StopReason::Refusal, "I cannot help with that."));
    assert_eq!(heard.text.concat(), "I cannot help with that.");
}

#[tokio::test]
async fn an_imitation_that_forgets_the_final_mark_is_understood() {
    let call = json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": 1}"}}]);
    let (reply, _) = reply([chunk(json!({"content": "Hm"})), calls(call), finish("tool_calls")].concat()).await;
    assert_eq!((reply.content.as_str(), reply.stop), ("Hm", StopReason::ToolUse));
    assert_eq!(reply.tool_calls[0].arguments, Arguments::Json(json!({"city": 1})));
}

#[tokio::test]
async fn reasoning_is_heard_and_kept_only_for_those_who_want_it_back() {
    let stream =
        [chunk(json!({"reasoning_content": "Hm."})), chunk(json!({"content": "Yes"})), finish("stop"), DONE.to_owned()]
            .concat();
    for (provider, kept) in
        [("deepseek", vec![json!({"type": "reasoning_content", "text": "Hm."})]), ("openai", vec![])]
    {
        let (reply, heard, _) = ask(provider, "some-model", Answer::stream(stream.clone()), &user("hi")).await;
        let reply = reply.unwrap();
        assert_eq!((heard.thinking.as_str(), &reply.thinking), ("Hm.", &kept), "{provider}");
        assert_eq!(reply.cost_usd, None, "an unknown price is not zero");
    }
}

#[tokio::test]
async fn a_models_name_stays_whole() {
    for (provider, model) in [("mistral", "mistral-medium"), ("openai", "qwen-max"), ("openai", "max")] {
        let stream = [chunk(json!({"content": "Hi"})), finish("stop"), DONE.to_owned()].concat();
        let (_, _, server) = ask(provider, model, Answer::stream(stream), &user("hi")).await;
        assert_eq!(server.only().body["model"], model);
        assert!(server.only().body.get("reasoning_effort").is_none());
    }
}

#[tokio::test]
async fn calls_without_ids_are_told_apart() {
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
async fn a_reply_without_end_is_not_read_for_ever() {
    let megabyte = chunk(json!({"content": "x".repeat(1 << 20)}));
    let endless = Answer::stream(megabyte.repeat(10)).then_silence(std::time::Duration::from_secs(30));
    let (reply, _, _) = ask("openai", "gpt-4o", endless, &user("hi")).await;
    let error = reply.unwrap_err();
    assert!(error.kind == toolwright_models::ErrorKind::Malformed && error.message.contains("8 MB"), "{error}");
}

//! OpenAI's Responses API.

use serde_json::{Value, json};
use toolwright_models::ErrorKind;
use toolwright_types::{Arguments, StopReason, Usage};

use crate::server::{MockResponse, complete};
use crate::support::{request, user_request, weather_tool};

fn events(events: &[Value]) -> MockResponse {
    MockResponse::events(events.iter().map(|event| (event["type"].as_str().unwrap(), event.clone())))
}

fn end(kind: &str, fields: Value) -> Value {
    let mut response = json!({"id": "resp_1", "model": "gpt-5", "status": kind, "output": [], "usage": {
        "input_tokens": 20, "output_tokens": 5, "total_tokens": 25, "input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 2}}});
    response.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"type": format!("response.{kind}"), "response": response})
}

fn text(delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": delta})
}

#[tokio::test]
async fn text_and_reasoning_and_calls_of_one_reply_are_parsed() {
    let call = |arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": "call_a", "name": "get_weather", "arguments": arguments});
    let second =
        json!({"type": "function_call", "id": "fd", "call_id": "call_b", "name": "get_weather", "arguments": "{bad"});
    let response = events(&[
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.brand_new", "x": 1}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "ENC"}}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": call("")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"city\": "}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "\"Oslo\"}"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call("{\"city\": \"Oslo\"}")}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": second}),
        text("Looking."),
        end("completed", json!({})),
    ]);
    let request = request(json!({"messages": [{"role": "user", "content": "hi"}], "tools": [weather_tool()]}));
    let (reply, sink, server) = complete("openai-responses", "gpt-5", response, &request).await;
    let reply = reply.unwrap();
    assert_eq!(server.single_request().path, "/v1/responses");
    assert_eq!(
        (reply.content.as_str(), reply.stop, sink.text.concat().as_str()),
        ("Looking.", StopReason::ToolUse, "Looking.")
    );
    assert_eq!(reply.thinking, [json!({"type": "encrypted_reasoning", "data": "ENC"})]);
    assert_eq!(reply.usage, Usage { input_tokens: 20, output_tokens: 5, cached_input_tokens: 8 });
    let arguments: Vec<_> = reply.tool_calls.into_iter().map(|call| (call.id, call.arguments)).collect();
    let expected = [
        ("call_a".to_owned(), Arguments::Json(json!({"city": "Oslo"}))),
        ("call_b".to_owned(), Arguments::Malformed("{bad".into())),
    ];
    assert_eq!(arguments, expected);
}

#[tokio::test]
async fn reason_of_an_incomplete_reply_sets_its_stop_reason() {
    for (reason, expected) in [("max_output_tokens", StopReason::MaxTokens), ("content_filter", StopReason::Refusal)] {
        let incomplete = end("incomplete", json!({"incomplete_details": {"reason": reason}}));
        let (reply, _, _) =
            complete("openai-responses", "gpt-4o", events(&[text("So"), incomplete]), &user_request("hi")).await;
        let reply = reply.unwrap();
        assert_eq!((reply.stop, reply.content.as_str()), (expected, "So"), "{reason}");
    }
}

#[tokio::test]
async fn refusal_is_returned_as_text() {
    let refused = json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No."});
    let (reply, sink, _) =
        complete("openai-responses", "gpt-4o", events(&[refused, end("completed", json!({}))]), &user_request("hi"))
            .await;
    let reply = reply.unwrap();
    assert_eq!((reply.stop, reply.content.as_str(), sink.text.concat().as_str()), (StopReason::Refusal, "No.", "No."));
}

#[tokio::test]
async fn error_code_of_a_failed_response_sets_the_error_kind() {
    let failed = |code: &str| events(&[end("failed", json!({"error": {"code": code, "message": "said so"}}))]);
    for (code, expected) in [
        ("rate_limit_exceeded", ErrorKind::RateLimit { retry_after: None }),
        ("server_error", ErrorKind::Overloaded { retry_after: None }),
        ("invalid_prompt", ErrorKind::InvalidRequest),
    ] {
        let (reply, _, _) = complete("openai-responses", "gpt-4o", failed(code), &user_request("hi")).await;
        let error = reply.unwrap_err();
        assert!(error.kind == expected && error.message.contains("said so"), "{code}: {error:?}");
    }
    let event = events(&[json!({"type": "error", "code": "server_error", "message": "oops"})]);
    let (reply, _, _) = complete("openai-responses", "gpt-4o", event, &user_request("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Overloaded { retry_after: None });
}

#[tokio::test]
async fn interrupted_stream_is_a_network_error() {
    let (reply, _, _) = complete("openai-responses", "gpt-4o", events(&[text("So")]), &user_request("hi")).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Network);
}

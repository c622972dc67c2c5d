//! The interface of the external service HELIX.

use serde_json::json;
use toolwright_models::ErrorKind;
use toolwright_types::{Arguments, StopReason, Usage};

use crate::requests::conversation;
use crate::server::{MockResponse, complete};
use crate::support::{KEY, user_request};

#[tokio::test]
async fn request_matches_the_snapshot_and_response_is_parsed() {
    let response = json!({
        "content": null,
        "toolCalls": [
            {"id": "c1", "toolName": "crm/search-deals", "arguments": {"q": "a"}},
            {"toolName": "crm/search-deals", "arguments": "{\"q\": \"b\"}"},
            {"id": "c3", "toolName": "crm/search-deals", "arguments": "{oops"},
        ],
        "usage": {"inputTokens": 10, "outputTokens": 4},
        "stopReason": "tool_use",
        "reasoningTrace": ["new"],
    });
    let (reply, sink, server) =
        complete("helix", "reasoner-1", MockResponse::status(200, response.to_string()), &conversation()).await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.stop, reply.usage),
        (StopReason::ToolUse, Usage { input_tokens: 10, output_tokens: 4, cached_input_tokens: 0 })
    );
    let arguments: Vec<_> = reply.tool_calls.iter().map(|call| call.arguments.clone()).collect();
    let expected =
        [Arguments::Json(json!({"q": "a"})), Arguments::Json(json!({"q": "b"})), Arguments::Malformed("{oops".into())];
    assert_eq!(arguments, expected);
    assert_eq!(reply.tool_calls[1].id, "call_1");
    assert!(sink.text.is_empty());
    let recorded = server.single_request();
    assert_eq!(
        (recorded.path.as_str(), recorded.headers["authorization"].to_str().unwrap()),
        ("/", &*format!("Bearer {KEY}"))
    );
    insta::assert_json_snapshot!("helix_request", recorded.body);
}

#[tokio::test]
async fn text_is_delivered_as_one_delta() {
    let response = MockResponse::status(200, json!({"content": "Hi there", "stopReason": "end_turn"}).to_string());
    let (reply, sink, _) = complete("helix", "r", response, &user_request("hi")).await;
    assert_eq!(reply.unwrap().content, "Hi there");
    assert_eq!(sink.text, ["Hi there"]);
}

#[tokio::test]
async fn invalid_response_is_an_error() {
    for body in ["", "[]", "{\"toolCalls\": [{}]}", "{\"stopReason\": \"bored\"}"] {
        let (reply, _, _) = complete("helix", "r", MockResponse::status(200, body), &user_request("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Malformed, "{body}");
    }
    let failed = MockResponse::status(429, format!("{{\"error\": \"slow down, {KEY}\"}}")).header("retry-after", "3");
    let (reply, _, _) = complete("helix", "r", failed, &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(3)));
    assert!(error.message.contains("slow down") && !error.message.contains(KEY), "{error}");
}

#[tokio::test]
async fn response_with_too_many_nodes_is_rejected() {
    let body = json!({ "content": "x", "extra": vec![json!([]); 1_000_000] });
    let (reply, _, _) = complete("helix", "r", MockResponse::status(200, body.to_string()), &user_request("hi")).await;
    let error = reply.unwrap_err();
    assert!(error.kind == toolwright_models::ErrorKind::Malformed && error.message.contains("JSON nodes"), "{error}");
}

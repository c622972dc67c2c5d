//! The external reasoner's interface.

use serde_json::json;
use toolwright_models::ErrorKind;
use toolwright_types::{Arguments, StopReason, Usage};

use crate::requests::conversation;
use crate::server::{Answer, ask};
use crate::support::{KEY, user};

#[tokio::test]
async fn the_seeds_request_goes_out_and_its_response_is_understood() {
    let answer = json!({
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
    let (reply, heard, server) =
        ask("helix", "reasoner-1", Answer::status(200, answer.to_string()), &conversation()).await;
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
    assert!(heard.text.is_empty());
    let asked = server.only();
    assert_eq!(
        (asked.path.as_str(), asked.headers["authorization"].to_str().unwrap()),
        ("/", &*format!("Bearer {KEY}"))
    );
    insta::assert_json_snapshot!("helix_request", asked.body);
}

#[tokio::test]
async fn text_is_heard_at_once() {
    let answer = Answer::status(200, json!({"content": "Hi there", "stopReason": "end_turn"}).to_string());
    let (reply, heard, _) = ask("helix", "r", answer, &user("hi")).await;
    assert_eq!(reply.unwrap().content, "Hi there");
    assert_eq!(heard.text, ["Hi there"]);
}

#[tokio::test]
async fn what_is_no_response_is_an_error() {
    for body in ["", "[]", "{\"toolCalls\": [{}]}", "{\"stopReason\": \"bored\"}"] {
        let (reply, _, _) = ask("helix", "r", Answer::status(200, body), &user("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Malformed, "{body}");
    }
    let failed = Answer::status(429, format!("{{\"error\": \"slow down, {KEY}\"}}")).header("retry-after", "3");
    let (reply, _, _) = ask("helix", "r", failed, &user("hi")).await;
    let error = reply.unwrap_err();
    assert_eq!(error.retry_after(), Some(std::time::Duration::from_secs(3)));
    assert!(error.message.contains("slow down") && !error.message.contains(KEY), "{error}");
}

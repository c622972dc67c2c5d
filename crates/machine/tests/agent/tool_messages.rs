//! Tool messages: the results of calls as the model sees them.

use serde_json::json;
use toolwright_machine::agent::{EventKind, PreparedCall};
use toolwright_types::{ErrorCode, ToolError};

use crate::harness::*;

fn tool_contents(limit: u64, result: Result<serde_json::Value, ToolError>) -> (String, String) {
    let mut harness = Harness::new(spec());
    harness.reply(calls(vec![call("a", "search", json!({}))]));
    harness.prepare_as(|call| {
        let mut facts = facts(&call.tool);
        facts.model_output_bytes = limit;
        PreparedCall::Ready(Box::new(facts))
    });
    let search = harness.running().remove(0);
    harness.apply(EventKind::call_ended(envelope_of(&search, result)));
    (harness.tool_contents().remove(0), search.call_id.to_string())
}

#[test]
fn tool_message_contains_the_output_as_compact_json() {
    assert_eq!(tool_contents(32_000, Ok(json!({ "a": [1, 2], "b": null }))).0, r#"{"a":[1,2],"b":null}"#);
}

#[test]
fn tool_message_of_a_failed_call_contains_all_fields_of_the_error() {
    let plain = ToolError::new(ErrorCode::NetworkError, "no route");
    assert_eq!(tool_contents(32_000, Err(plain)).0, r#"{"error":{"code":"NETWORK_ERROR","message":"no route"}}"#);
    let full = ToolError::new(ErrorCode::RateLimit, "slow down").reason("upstream").retry_after(2.5);
    assert_eq!(
        tool_contents(32_000, Err(full)).0,
        r#"{"error":{"code":"RATE_LIMIT","message":"slow down","details":{"reason":"upstream"},"retry_after_s":2.5}}"#
    );
}

#[test]
fn output_over_the_byte_limit_is_truncated_with_a_note() {
    let (content, id) = tool_contents(10, Ok(json!("x".repeat(100))));
    assert_eq!(content, format!("\"xxxxxxxxx\n\n[note: truncated after 10 of 102 bytes; the rest is in {id}]"));
    let (content, _) = tool_contents(4, Ok(json!("ääää")));
    assert!(
        content.starts_with("\"ä\n\n[note: truncated after 3 of 10 bytes"),
        "must not split a character: {content}"
    );
    assert_eq!(tool_contents(102, Ok(json!("x".repeat(100)))).0.len(), 102);
}

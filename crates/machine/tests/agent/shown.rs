//! What the model sees of a result.

use serde_json::json;
use toolwright_machine::agent::{Happened, Prepared};
use toolwright_types::{ErrorCode, ToolError};

use crate::bench::*;

fn told(limit: u64, result: Result<serde_json::Value, ToolError>) -> (String, String) {
    let mut bench = Bench::new(spec());
    bench.reply(calls(vec![call("a", "search", json!({}))]));
    bench.prepare_as(|call| {
        let mut facts = facts(&call.tool);
        facts.model_output_bytes = limit;
        Prepared::Ready(Box::new(facts))
    });
    let search = bench.running().remove(0);
    bench.tell(Happened::ended(receipt(&search, result)));
    (bench.told().remove(0), search.call_id.to_string())
}

#[test]
fn an_output_is_compact_json() {
    assert_eq!(told(32_000, Ok(json!({ "a": [1, 2], "b": null }))).0, r#"{"a":[1,2],"b":null}"#);
}

#[test]
fn an_error_is_its_four_fields() {
    let plain = ToolError::new(ErrorCode::NetworkError, "no route");
    assert_eq!(told(32_000, Err(plain)).0, r#"{"error":{"code":"NETWORK_ERROR","message":"no route"}}"#);
    let full = ToolError::new(ErrorCode::RateLimit, "slow down").reason("upstream").retry_after(2.5);
    assert_eq!(
        told(32_000, Err(full)).0,
        r#"{"error":{"code":"RATE_LIMIT","message":"slow down","details":{"reason":"upstream"},"retry_after_s":2.5}}"#
    );
}

#[test]
fn a_long_output_is_cut_with_a_note_that_says_where_the_rest_is() {
    let (content, id) = told(10, Ok(json!("x".repeat(100))));
    assert_eq!(content, format!("\"xxxxxxxxx\n\n[note: cut after 10 of 102 bytes; the rest is in {id}]"));
    let (content, _) = told(4, Ok(json!("ääää")));
    assert!(content.starts_with("\"ä\n\n[note: cut after 3 of 10 bytes"), "never inside a character: {content}");
    assert_eq!(told(102, Ok(json!("x".repeat(100)))).0.len(), 102);
}

//! Estimates of token counts.

use toolwright_models::{estimate_request_tokens, estimate_tokens};
use toolwright_types::ModelRequest;

#[test]
fn token_estimate_depends_on_the_writing_system() {
    let table = [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("Grüße", 2), ("你好", 2), ("🙂", 1), ("привет", 3)];
    for (text, tokens) in table {
        assert_eq!(estimate_tokens(text), tokens, "{text}");
    }
    let prose = "The quick brown fox jumps over the lazy dog. ".repeat(100);
    // The providers' tokenizers count 10 tokens per sentence.
    assert!((700..1300).contains(&estimate_tokens(&prose)));
}

#[test]
fn token_estimate_of_a_request_includes_messages_and_calls_and_tools() {
    let request: ModelRequest = serde_json::from_value(serde_json::json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "abcd"},
            {"role": "assistant", "tool_calls": [{"id": "1", "name": "abcd", "arguments": {"malformed": "abcd"}}]},
        ],
        "tools": [{"name": "abcd", "description": "abcd", "input_schema": {}}],
    }))
    .unwrap();
    assert_eq!(estimate_request_tokens(&request), (4 + 1) + (4 + 4 + 1 + 1) + (8 + 1 + 1 + 1));
}

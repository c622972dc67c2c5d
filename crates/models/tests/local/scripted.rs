//! Scripted models: rules, placeholders and invalid scripts.

use futures::FutureExt as _;
use serde_json::{Value, json};
use toolwright_models::{ErrorKind, Model as _, ModelError, NoSink, Script, ScriptedModel};
use toolwright_types::{Arguments, ModelReply, ModelRequest, StopReason};

fn request(messages: Value) -> ModelRequest {
    serde_json::from_value(json!({"model": "script", "messages": messages})).unwrap()
}

fn model() -> ScriptedModel {
    let text = json!({
        "rules": [
            {"when": {"user": "weather", "turn": 0}, "reply": {
                "text": "Let me look.", "thinking": "hm",
                "toolCalls": [{"name": "weather", "arguments": {"city": ["{{user}}"]}}, {"name": "broken", "rawArguments": "{oops"}]}},
            {"when": {"afterTool": "weather", "failed": true}, "reply": {"text": "No luck: {{result}}"}},
            {"when": {"afterTool": "weather"}, "reply": {"text": "{{user}} → {{result}}", "stop": "max_tokens",
                "usage": {"inputTokens": 7, "outputTokens": 2, "cachedInputTokens": 5}}},
            {"when": {"system": "pirate"}, "reply": {"text": "Arr"}},
            {"when": {"user": "crash"}, "error": {"kind": "overloaded", "message": "busy"}},
        ],
        "otherwise": {"text": "?"},
    });
    ScriptedModel::new(Script::from_json(&text.to_string()).unwrap())
}

/// Sends a request. The future is ready at once, because a scripted model does no I/O.
fn complete(model: &ScriptedModel, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    model.complete(request, &mut NoSink).now_or_never().unwrap()
}

fn reply_to(messages: Value) -> Result<ModelReply, ModelError> {
    complete(&model(), &request(messages))
}

#[test]
fn first_matching_rule_determines_the_reply() {
    let user = json!({"role": "user", "content": "Weather in {{result}}?"});
    let first = reply_to(json!([user])).unwrap();
    assert_eq!((first.content.as_str(), first.stop), ("Let me look.", StopReason::ToolUse));
    assert_eq!(first.tool_calls[0].id, "scripted_0");
    assert_eq!(first.tool_calls[0].arguments, Arguments::Json(json!({"city": ["Weather in {{result}}?"]})));
    assert_eq!(first.tool_calls[1].arguments, Arguments::Malformed("{oops".into()));
    assert!(first.usage.input_tokens > 0 && first.usage.output_tokens > 0 && first.cost_usd == Some(0.0));

    let assistant = json!({"role": "assistant", "content": "", "tool_calls": first.tool_calls});
    let result = |failed: bool| json!({"role": "tool", "id": "scripted_0", "name": "weather", "content": "rain", "is_error": failed});
    let second = reply_to(json!([user, assistant, result(false)])).unwrap();
    assert_eq!((second.content.as_str(), second.stop), ("Weather in {{result}}? → rain", StopReason::MaxTokens));
    assert_eq!(second.usage.cached_input_tokens, 5);
    assert_eq!(reply_to(json!([user, assistant, result(true)])).unwrap().content, "No luck: rain");
}

#[test]
fn same_request_gets_the_same_reply() {
    let messages = json!([{"role": "user", "content": "weather"}]);
    assert_eq!(reply_to(messages.clone()), reply_to(messages));
}

#[test]
fn script_can_answer_with_an_error_or_a_default_reply() {
    let error = reply_to(json!([{"role": "user", "content": "please CRASH"}])).unwrap_err();
    assert!(error.is_retryable() && error.message.contains("busy"));
    assert_eq!(
        reply_to(json!([{"role": "system", "content": "Be a pirate"}, {"role": "user", "content": "hi"}]))
            .unwrap()
            .content,
        "Arr"
    );
    assert_eq!(reply_to(json!([{"role": "user", "content": "hi"}])).unwrap().content, "?");
    let empty = ScriptedModel::new(Script::from_json("{}").unwrap());
    assert_eq!(complete(&empty, &request(json!([]))).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn script_in_the_request_replaces_the_script_of_the_model() {
    let mut request = request(json!([{"role": "user", "content": "hi"}]));
    request.extra.insert("script".into(), json!({"otherwise": {"text": "own"}}));
    assert_eq!(complete(&model(), &request).unwrap().content, "own");
    request.extra.insert("script".into(), json!({"otherwise": {"txt": "own"}}));
    assert_eq!(complete(&model(), &request).unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[test]
fn invalid_scripts_are_rejected() {
    for text in [
        "[]",
        r#"{"rules": [{}]}"#,
        r#"{"rules": [{"when": {"who": "x"}, "reply": {}}]}"#,
        r#"{"rules": [{"reply": {}, "error": {"kind": "auth"}}]}"#,
    ] {
        assert!(Script::from_json(text).is_err(), "{text}");
    }
}

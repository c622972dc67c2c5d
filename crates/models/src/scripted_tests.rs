use super::*;
use crate::NoSink;

fn request(messages: Value) -> ModelRequest {
    serde_json::from_value(json!({"model": "script", "messages": messages})).unwrap()
}

fn script() -> Scripted {
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
    Scripted::new(Script::from_json(&text.to_string()).unwrap())
}

fn ask(messages: Value) -> Result<ModelReply, ModelError> {
    script().answer(&request(messages), &mut NoSink)
}

#[test]
fn a_conversation_follows_the_rules() {
    let user = json!({"role": "user", "content": "Weather in {{result}}?"});
    let first = ask(json!([user])).unwrap();
    assert_eq!((first.content.as_str(), first.stop), ("Let me look.", StopReason::ToolUse));
    assert_eq!(first.tool_calls[0].id, "scripted_0");
    assert_eq!(first.tool_calls[0].arguments, Arguments::Json(json!({"city": ["Weather in {{result}}?"]})));
    assert_eq!(first.tool_calls[1].arguments, Arguments::Malformed("{oops".into()));
    assert!(first.usage.input_tokens > 0 && first.usage.output_tokens > 0 && first.cost_usd == Some(0.0));

    let assistant = json!({"role": "assistant", "content": "", "tool_calls": first.tool_calls});
    let result = |failed: bool| json!({"role": "tool", "id": "scripted_0", "name": "weather", "content": "rain", "is_error": failed});
    let second = ask(json!([user, assistant, result(false)])).unwrap();
    assert_eq!((second.content.as_str(), second.stop), ("Weather in {{result}}? → rain", StopReason::MaxTokens));
    assert_eq!(second.usage.cached_input_tokens, 5);
    assert_eq!(ask(json!([user, assistant, result(true)])).unwrap().content, "No luck: rain");
}

#[test]
fn the_same_request_gets_the_same_reply() {
    let messages = json!([{"role": "user", "content": "weather"}]);
    assert_eq!(ask(messages.clone()), ask(messages));
}

#[test]
fn failures_and_the_rest() {
    let error = ask(json!([{"role": "user", "content": "please CRASH"}])).unwrap_err();
    assert!(error.can_retry() && error.message.contains("busy"));
    assert_eq!(
        ask(json!([{"role": "system", "content": "Be a pirate"}, {"role": "user", "content": "hi"}])).unwrap().content,
        "Arr"
    );
    assert_eq!(ask(json!([{"role": "user", "content": "hi"}])).unwrap().content, "?");
    let silent = Scripted::new(Script::from_json("{}").unwrap());
    assert_eq!(silent.answer(&request(json!([])), &mut NoSink).unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_request_may_bring_its_own_script() {
    let mut request = request(json!([{"role": "user", "content": "hi"}]));
    request.extra.insert("script".into(), json!({"otherwise": {"text": "own"}}));
    assert_eq!(script().answer(&request, &mut NoSink).unwrap().content, "own");
    request.extra.insert("script".into(), json!({"otherwise": {"txt": "own"}}));
    assert_eq!(script().answer(&request, &mut NoSink).unwrap_err().kind, ErrorKind::InvalidRequest);
}

#[test]
fn wrong_scripts_are_refused() {
    for text in [
        "[]",
        r#"{"rules": [{}]}"#,
        r#"{"rules": [{"when": {"who": "x"}, "reply": {}}]}"#,
        r#"{"rules": [{"reply": {}, "error": {"kind": "auth"}}]}"#,
    ] {
        assert!(Script::from_json(text).is_err(), "{text}");
    }
}

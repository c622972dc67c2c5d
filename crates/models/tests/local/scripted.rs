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

fn scripted(script: Value) -> ScriptedModel {
    ScriptedModel::new(Script::from_value(script).unwrap())
}

/// Returns the text of the reply to a request with these messages and this response format.
fn reply_in(model: &ScriptedModel, messages: Value, format: Value) -> String {
    let mut request = request(messages);
    request.response_format = serde_json::from_value(format).unwrap();
    complete(model, &request).unwrap().content
}

#[test]
fn groups_of_a_pattern_that_matches_a_user_message_fill_placeholders() {
    let model = scripted(json!({
        "rules": [{
            "when": {"match": r"move all (?<company>[\w ]+) deals to (?<stage>[\w -]+)(?<rest>!)?"},
            "reply": {"text": "{{company}} -> {{stage}} = {{stage:compact}}{{rest}} {{other}}"},
        }],
        "otherwise": {"text": "no match"},
    }));
    let user = |text: &str| json!({"role": "user", "content": text});
    let reply = |messages: Value| complete(&model, &request(messages)).unwrap().content;
    let expected = "Acme Corp -> Bought-In Now = boughtinnow {{other}}";
    assert_eq!(reply(json!([user("please MOVE all Acme Corp deals to Bought-In Now")])), expected);
    assert_eq!(reply(json!([user("hello")])), "no match");
    // The latest user message that matches is used, so later messages do not hide the task.
    let (old, task) = (user("move all Old deals to x"), user("move all New deals to y"));
    assert_eq!(reply(json!([old, task, user("continue")])), "New -> y = y {{other}}");
    // A value is inserted as it is.
    assert_eq!(reply(json!([user("move all a deals to user")])), "a -> user = user {{other}}");
}

#[test]
fn rule_can_require_a_property_of_the_response_schema() {
    let model = scripted(json!({
        "rules": [{"when": {"wants": "steps"}, "reply": {"text": "a plan"}}],
        "otherwise": {"text": "no plan"},
    }));
    let schema = |property: &str| json!({"structured": {"type": "object", "properties": {property: {}}}});
    assert_eq!(reply_in(&model, json!([]), schema("steps")), "a plan");
    for format in [schema("summary"), json!("text"), json!("json")] {
        assert_eq!(reply_in(&model, json!([]), format), "no plan");
    }
}

#[test]
fn json_pointers_read_the_last_user_message_and_all_later_results() {
    let model = scripted(json!({"otherwise": {"text":
        "{{user/0/tool}} {{results/0/n}} {{results/1}} {{results/1/n}} {{results/7/n}} {{results/1/n|results/0/n}} {{x|y}}"}}));
    let result = |content: &str| json!({"role": "tool", "id": "c", "name": "t", "content": content, "is_error": false});
    let data = "The results:\n<data name=\"results\">\n[{\"tool\":\"<b>\"}]\n</data>\nUse them.";
    let messages = json!([
        {"role": "user", "content": "first"}, result(r#"{"n": 9}"#),
        {"role": "user", "content": data}, result(r#"{"n": 1}"#), result("text"),
    ]);
    assert_eq!(complete(&model, &request(messages)).unwrap().content, "<b> 1 text ? ? 1 {{x|y}}");
    let message = json!([{"role": "user", "content": r#"[{"tool": "whole message"}]"#}]);
    let whole = complete(&model, &request(message)).unwrap().content;
    assert!(whole.starts_with("whole message ? ?"), "{whole}");
}

#[test]
fn json_reply_escapes_texts_and_keeps_the_types_of_values() {
    let reply = json!({"json": {
        "count": "{{user/count}}", "list": "{{user/list}}", "text": "{{user/count}} of {{user/name}}", "both": "{{user/count}}{{user/name}}",
    }});
    let model = scripted(json!({"otherwise": reply}));
    let user = json!({"count": 3, "list": [1, 2], "name": "\"Acme\""}).to_string();
    let content = complete(&model, &request(json!([{"role": "user", "content": user}]))).unwrap().content;
    let expected = json!({"count": 3, "list": [1, 2], "text": "3 of \"Acme\"", "both": "3\"Acme\""});
    assert_eq!(serde_json::from_str::<Value>(&content).unwrap(), expected);
}

#[test]
fn arguments_keep_the_types_of_values() {
    let arguments = json!({ "id": "{{result/0/id}}", "text": "ticket {{result/0/id}}", "ids": ["{{result/0/id}}"], "result": "{{results/0/1}}" });
    let model = scripted(json!({"otherwise": {"toolCalls": [{"name": "get", "arguments": arguments}]}}));
    let result =
        json!({"role": "tool", "id": "c", "name": "list", "content": r#"[{"id": 7}, null]"#, "is_error": false});
    let reply = complete(&model, &request(json!([{"role": "user", "content": "go"}, result]))).unwrap();
    let expected = json!({ "id": 7, "text": "ticket 7", "ids": [7], "result": null });
    assert_eq!(reply.tool_calls[0].arguments, Arguments::Json(expected));
}

#[test]
fn placeholder_reads_a_result_that_ends_with_notes() {
    let model = scripted(json!({"otherwise": {"text": "{{result/stock}} {{results/0/text}}"}}));
    let content = "{\"stock\":4,\"text\":\"a\\n\\n[note: b]\"}\n\n[note: message of the tool: x]\n\n[note: a person changed the arguments of this call to {\"id\":2}]";
    let result = json!({"role": "tool", "id": "c", "name": "t", "content": content, "is_error": false});
    let reply = complete(&model, &request(json!([{"role": "user", "content": "go"}, result]))).unwrap();
    assert_eq!(reply.content, "4 a\n\n[note: b]");
}

#[test]
fn scripts_can_be_combined_and_earlier_rules_take_precedence() {
    let script = |user: &str, text: &str, otherwise: Value| {
        let rule = json!({"when": {"user": user}, "reply": {"text": text}});
        Script::from_value(json!({"rules": [rule], "otherwise": otherwise})).unwrap()
    };
    let first = script("a", "first", json!({"text": "of first"}));
    let model = ScriptedModel::new(first.clone().followed_by(script("", "second", Value::Null)));
    let reply = |model: &ScriptedModel, text: &str| {
        complete(model, &request(json!([{"role": "user", "content": text}]))).unwrap().content
    };
    assert_eq!((reply(&model, "a").as_str(), reply(&model, "b").as_str()), ("first", "second"));
    let model = ScriptedModel::new(first.clone().followed_by(script("x", "second", Value::Null)));
    assert_eq!(reply(&model, "b"), "of first");
    let model = ScriptedModel::new(first.followed_by(script("x", "second", json!({"text": "of second"}))));
    assert_eq!(reply(&model, "b"), "of second");
}

#[test]
fn invalid_scripts_are_rejected() {
    for text in [
        "[]",
        r#"{"rules": [{"when": {"match": "("}, "reply": {}}]}"#,
        r#"{"rules": [{"when": {"match": "(?<user>x)"}, "reply": {}}]}"#,
        r#"{"rules": [{"when": {"match": "(x{1000}){1000}"}, "reply": {}}]}"#,
        r#"{"rules": [{"reply": {"text": "a", "json": {}}}]}"#,
        r#"{"otherwise": {"text": "a", "json": {}}}"#,
        r#"{"rules": [{}]}"#,
        r#"{"rules": [{"when": {"who": "x"}, "reply": {}}]}"#,
        r#"{"rules": [{"reply": {}, "error": {"kind": "auth"}}]}"#,
    ] {
        assert!(Script::from_json(text).is_err(), "{text}");
    }
}

//! Tests the texts that describe tools to a model: behavior hints, usage notes and the messages of calls.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, envelopes};

crate::on_sqlite!(
    model_sees_the_behavior_hints_of_a_tool_in_its_description,
    usage_notes_are_placed_in_the_system_prompt_if_the_agent_definition_requires_it,
    messages_of_a_successful_call_reach_the_model_and_the_envelope,
    message_mapping_that_does_not_parse_is_rejected
);

/// Returns the first request to the model: the system prompt, and the descriptions of the tools by name.
async fn first_request(server: &Server, response: &Value) -> (String, Value) {
    let bundle = server.get(&format!("runs/{}/export", response["runId"].as_str().unwrap())).await.text;
    let values: Vec<Value> = bundle.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts = values.iter().filter_map(|line| serde_json::from_str::<Value>(line["text"].as_str()?).ok());
    let mut found = (String::new(), json!({}));
    texts.for_each(|text| collect(&text, &mut found));
    found
}

/// Finds the system message and the offered tools in a part of an exported journal.
fn collect(value: &Value, found: &mut (String, Value)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            if fields.get("role") == Some(&json!("system")) {
                found.0 = fields["content"].as_str().unwrap().to_owned();
            }
            if let (Some(Value::String(name)), Some(description), true) =
                (fields.get("name"), fields.get("description"), fields.contains_key("input_schema"))
            {
                found.1[name] = description.clone();
            }
            fields.values().for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

async fn model_sees_the_behavior_hints_of_a_tool_in_its_description(server: Server) {
    let all = json!({ "hasSideEffects": true, "idempotent": true, "estimatedLatency": "slow", "costHint": "high",
        "requiresConfirmation": true });
    server.define_echo("pay", all).await;
    server.define_echo("plain", json!({})).await;
    server
        .define_echo("quick", json!({ "estimatedLatency": "fast", "costHint": "free", "sideEffects": "reads" }))
        .await;
    server
        .define_agent("a", json!([{ "reply": { "text": "ok" } }]), json!({ "toolRefs": ["pay", "plain", "quick"] }))
        .await;
    let (_, descriptions) = first_request(&server, &server.run("a", "hi").await).await;
    let pay =
        "pay\n\nHints: has side effects; idempotent; slow (over 5 s); high cost; a person must confirm each call.";
    let expected = json!({ "pay": pay, "plain": "plain", "quick": "quick\n\nHints: fast (under 100 ms); free." });
    assert_eq!(descriptions, expected);
    // MCP clients get only the hints that the MCP protocol defines.
    let exported = server.get("tools/pay/export/mcp").await.expect(200);
    assert_eq!(exported["annotations"]["destructiveHint"], true);
    assert_eq!(exported["annotations"]["idempotentHint"], true);
}

async fn usage_notes_are_placed_in_the_system_prompt_if_the_agent_definition_requires_it(server: Server) {
    let notes = json!({ "longDescription": "Look twice.", "costHint": "low" });
    server.define_echo("look", notes).await;
    server.define_echo("plain", json!({})).await;
    let long = "look\n\nLook twice.\n\nHints: low cost.";
    let block = "Be brief.\n\nHow to use the tools:\n\nTool `look`:\nLook twice.\nHints: low cost.";
    for (name, placement, prompt, description) in [
        ("a", Value::Null, "Be brief.", long),
        ("b", json!("description"), "Be brief.", long),
        ("c", json!("system"), block, "look"),
        ("d", json!("both"), block, long),
    ] {
        let agent =
            json!({ "systemPrompt": "Be brief.", "toolRefs": ["look", "plain"], "toolUsagePlacement": placement });
        server.define_agent(name, json!([{ "reply": { "text": "ok" } }]), agent).await;
        let (system, descriptions) = first_request(&server, &server.run(name, "hi").await).await;
        assert_eq!((system.as_str(), &descriptions["look"]), (prompt, &json!(description)), "{placement}");
        assert_eq!(descriptions["plain"], "plain");
    }
    let wrong = json!({ "refName": "e", "toolUsagePlacement": "footer" });
    let problem = server.post("agents", wrong).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/toolUsagePlacement", "{problem}");
}

async fn messages_of_a_successful_call_reach_the_model_and_the_envelope(server: Server) {
    let mapped = json!({ "invocation": { "path": "echo", "messageMapping": "$.notes", "responseMapping": "$.rows" } });
    server.define_echo("rows", mapped).await;
    let input = json!({ "rows": 3, "notes": ["2 rows were skipped", "the index is old", null, ""] });
    let envelope = server.call("rows", input.clone()).await;
    assert_eq!(envelope["output"], 3);
    assert_eq!(envelope["metadata"]["messages"], json!(["2 rows were skipped", "the index is old"]), "{envelope}");
    assert_eq!(server.call("rows", json!({ "rows": 1 })).await["metadata"].get("messages"), None);
    let long = server.call("rows", json!({ "rows": 1, "notes": "x".repeat(600) })).await;
    assert_eq!(long["metadata"]["messages"][0].as_str().unwrap().chars().count(), 501);
    let rules = calls_then(json!([{ "name": "rows", "arguments": input }]), "I read: {{result}}");
    server.define_agent("a", rules, json!({ "toolRefs": ["rows"] })).await;
    let response = server.run("a", "hi").await;
    let text = response["responseText"].as_str().unwrap();
    assert!(text.contains("[note: message of the tool: 2 rows were skipped]"), "{text}");
    assert!(text.contains("[note: message of the tool: the index is old]"), "{text}");
    assert_eq!(envelopes(&response)[0]["metadata"]["messages"].as_array().unwrap().len(), 2);
}

async fn message_mapping_that_does_not_parse_is_rejected(server: Server) {
    let tool =
        json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo", "messageMapping": "$.[" } });
    let problem = server.post("tools", tool).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/invocation/messageMapping", "{problem}");
}

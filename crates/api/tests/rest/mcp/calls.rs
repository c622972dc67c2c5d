//! What is offered to whom, what a call becomes, and what can be read.

use serde_json::{Value, json};

use super::Client;
use crate::harness::Server;

crate::on_both_editions!(
    tools_are_offered_to_those_who_may_call_them,
    a_call_is_the_same_call_as_everywhere,
    failures_are_results_with_a_code,
    prompts_and_runs_are_there_to_be_read
);
crate::on_sqlite!(
    nobody_is_let_in_without_a_key,
    pages_of_other_origins_are_refused,
    a_tool_of_the_client_is_refused,
    blobs_are_links
);

async fn nobody_is_let_in_without_a_key(server: Server) {
    let anonymous = Client::of(&server.with_key(""));
    let answer = server.send(anonymous.request("tools/list", json!({}))).await;
    let challenge = answer.headers.get("www-authenticate").unwrap().to_str().unwrap().to_owned();
    answer.problem(401, "unauthenticated");
    let metadata = challenge.strip_prefix("Bearer resource_metadata=\"").unwrap().trim_end_matches('"');
    let path = metadata.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let document = server.with_key("").get(path).await.expect(200);
    assert_eq!(document["resource"], format!("http://{}/mcp", server.address));
    let wrong = Client::of(&server.with_key("not-a-key"));
    server.send(wrong.request("tools/list", json!({}))).await.problem(401, "unauthenticated");
}

async fn pages_of_other_origins_are_refused(server: Server) {
    let client = Client::of(&server);
    for (header, value, status) in [
        ("origin", "http://evil.example", 403),
        ("host", "evil.example", 403),
        ("origin", "http://localhost:3000", 200),
        ("host", "localhost:7411", 200),
    ] {
        let answer = server.send(client.request("tools/list", json!({})).header(header, value)).await;
        assert_eq!(answer.status.as_u16(), status, "{header}: {value}: {}", answer.text);
    }
}

async fn tools_are_offered_to_those_who_may_call_them(server: Server) {
    server.define_echo("t_open", json!({ "inputJsonSchema": { "type": "object" } })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_off", json!({ "enabled": false })).await;
    server.define_echo("t_draft", json!({ "status": "draft" })).await;
    server.define_echo("crm/find.deals", json!({ "sideEffects": "writes", "idempotent": true })).await;
    let client = Client::of(&server);
    assert_eq!(client.names().await, ["crm__find_-deals", "t_open"]);
    let tools = client.result("tools/list", json!({})).await;
    let deals = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "crm__find_-deals").unwrap();
    let hints = json!([true, false, true]);
    let annotations = &deals["annotations"];
    let seen = json!([annotations["destructiveHint"], annotations["readOnlyHint"], annotations["idempotentHint"]]);
    assert_eq!(seen, hints);
    assert_eq!(client.call("crm__find_-deals", json!({ "a": 1 })).await["structuredContent"], json!({ "a": 1 }));

    let member = Client::of(&server.member("ada").await);
    assert_eq!(member.names().await, ["crm__find_-deals", "t_open"]);
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let elsewhere = Client::of(&server.in_realm("other"));
    assert!(elsewhere.names().await.is_empty());
    let reply = elsewhere.reply("tools/call", json!({ "name": "t_open", "arguments": {} })).await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
}

async fn a_call_is_the_same_call_as_everywhere(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let result = Client::of(&server).call("t_echo", json!({ "deal": 7 })).await;
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({ "deal": 7 }));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({ "deal": 7 }));
    let receipt = &result["_meta"]["toolwright/envelope"];
    let direct = server.call("t_echo", json!({ "deal": 7 })).await;
    for field in ["call_id", "name", "version", "input", "output", "error"] {
        assert_eq!(receipt[field], direct[field], "{field}");
    }
    assert_eq!(receipt["metadata"]["principal"], "admin");
}

async fn failures_are_results_with_a_code(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    server.define_echo("t_strict", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let client = Client::of(&server);
    for (tool, arguments, code, reason) in [
        ("t_strict", json!({ "n": "one" }), "VALIDATION_ERROR", "input_schema"),
        ("t_hidden", json!({}), "POLICY_DENIED", "not_available"),
    ] {
        let result = client.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        let error = &result["structuredContent"]["error"];
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!(code), &json!(reason)), "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with(code), "{result}");
        assert_eq!(result["_meta"]["toolwright/envelope"]["error"]["code"], code);
    }
    let reply = client.reply("tools/call", json!({ "name": "t_none", "arguments": {} })).await;
    assert_eq!(reply["error"]["code"], -32602);
    assert!(reply["error"]["message"].as_str().unwrap().contains("t_none"), "{reply}");
}

async fn a_tool_of_the_client_is_refused(server: Server) {
    server.define_echo("t_client", json!({ "isToolFullyExecutedOnServer": false })).await;
    let client = Client::of(&server);
    assert!(client.names().await.is_empty());
    let result = client.call("t_client", json!({})).await;
    assert_eq!(result["structuredContent"]["error"]["details"]["reason"], "client_tool", "{result}");
}

async fn prompts_and_runs_are_there_to_be_read(server: Server) {
    let fragment = json!({ "refName": "greeting", "description": "says hello", "content": "Hello {{user.name}}!" });
    server.post("prompt-fragments", fragment).await.expect(201);
    server.define_agent("t_agent", json!([{ "reply": { "text": "hi" } }]), json!({})).await;
    let run = server.run("t_agent", "hello").await["runId"].as_str().unwrap().to_owned();
    let client = Client::of(&server);
    let prompts = client.result("prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["name"], "greeting");
    assert_eq!(prompts["prompts"][0]["arguments"][0]["name"], "user.name");
    let params = json!({ "name": "greeting", "arguments": { "user.name": "Ada" } });
    let prompt = client.result("prompts/get", params).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello Ada!");
    let unknown = client.reply("prompts/get", json!({ "name": "nobody" })).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

    let uri = format!("toolwright://runs/{run}");
    let resources = client.result("resources/list", json!({})).await;
    assert_eq!(resources["resources"][0]["uri"], uri);
    let ada = Client::of(&server.member("ada").await);
    assert_eq!(ada.result("resources/list", json!({})).await["resources"], json!([]));
    for wrong in [uri.as_str(), "toolwright://runs/none", "toolwright://blobs/none", "file:///etc/passwd"] {
        let reply = ada.reply("resources/read", json!({ "uri": wrong })).await;
        assert_eq!(reply["error"]["data"]["uri"], wrong, "{reply}");
    }
}

async fn blobs_are_links(server: Server) {
    server.define_echo("t_large", json!({ "maxOutputBytes": 1000 })).await;
    let client = Client::of(&server);
    let result = client.call("t_large", json!({ "text": "x".repeat(5000) })).await;
    let link = result["content"].as_array().unwrap().iter().find(|block| block["type"] == "resource_link").unwrap();
    let read = client.result("resources/read", json!({ "uri": link["uri"] })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["text"].as_str().unwrap().len(), 5000);
    assert_eq!(read["contents"][0]["mimeType"], "application/json");
}

//! Tests the tools, calls, prompts and resources of the MCP server.

use serde_json::{Value, json};

use super::Client;
use crate::harness::Server;

crate::on_both_databases!(
    mcp_tool_list_contains_only_active_mcp_tools_of_the_realm,
    mcp_tool_list_shows_the_description_of_an_agentic_tool,
    mcp_call_returns_the_same_envelope_as_a_direct_call,
    failed_mcp_call_is_an_error_result_with_a_code,
    prompts_and_runs_are_readable_over_mcp
);
crate::on_sqlite!(
    mcp_request_without_a_key_is_rejected_with_a_link_to_oauth_metadata,
    mcp_requests_with_a_foreign_origin_or_host_are_rejected,
    client_tool_is_not_callable_over_mcp,
    large_output_is_returned_over_mcp_as_a_resource_link
);

async fn mcp_request_without_a_key_is_rejected_with_a_link_to_oauth_metadata(server: Server) {
    let anonymous = Client::new(&server.with_key(""));
    let answer = server.send(anonymous.request("tools/list", json!({}))).await;
    let challenge = answer.headers.get("www-authenticate").unwrap().to_str().unwrap().to_owned();
    answer.problem(401, "unauthenticated");
    let metadata = challenge.strip_prefix("Bearer resource_metadata=\"").unwrap().trim_end_matches('"');
    let path = metadata.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let document = server.with_key("").get(path).await.expect(200);
    assert_eq!(document["resource"], format!("http://{}/mcp", server.address));
    let invalid = Client::new(&server.with_key("not-a-key"));
    server.send(invalid.request("tools/list", json!({}))).await.problem(401, "unauthenticated");
}

async fn mcp_requests_with_a_foreign_origin_or_host_are_rejected(server: Server) {
    let client = Client::new(&server);
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

async fn mcp_tool_list_contains_only_active_mcp_tools_of_the_realm(server: Server) {
    server.define_echo("t_open", json!({ "inputJsonSchema": { "type": "object" } })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_off", json!({ "enabled": false })).await;
    server.define_echo("t_draft", json!({ "status": "draft" })).await;
    server.define_echo("crm/find.deals", json!({ "sideEffects": "writes", "idempotent": true })).await;
    let client = Client::new(&server);
    assert_eq!(client.tool_names().await, ["crm__find_-deals", "t_open"]);
    let tools = client.result("tools/list", json!({})).await;
    let deals = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "crm__find_-deals").unwrap();
    let hints = json!([true, false, true]);
    let annotations = &deals["annotations"];
    let seen = json!([annotations["destructiveHint"], annotations["readOnlyHint"], annotations["idempotentHint"]]);
    assert_eq!(seen, hints);
    assert_eq!(client.call("crm__find_-deals", json!({ "a": 1 })).await["structuredContent"], json!({ "a": 1 }));

    let member = Client::new(&server.member("ada").await);
    assert_eq!(member.tool_names().await, ["crm__find_-deals", "t_open"]);
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let elsewhere = Client::new(&server.in_realm("other"));
    assert!(elsewhere.tool_names().await.is_empty());
    let reply = elsewhere.reply("tools/call", json!({ "name": "t_open", "arguments": {} })).await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
}

async fn mcp_tool_list_shows_the_description_of_an_agentic_tool(server: Server) {
    let agentic =
        json!({ "executionMode": "agentic", "toolAllocation": { "availableTools": [{ "actionSlug": "echo" }] } });
    let tool =
        json!({ "refName": "t_deals", "description": "Manages deals.", "toolType": "AGENTIC", "agentic": agentic });
    server.post("tools", tool).await.expect(201);
    let tools = Client::new(&server).result("tools/list", json!({})).await;
    let deals = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "t_deals").unwrap();
    let description = deals["description"].as_str().unwrap();
    assert!(description.starts_with("Use this tool to manage deals."), "{description}");
    assert!(description.contains("# Required inputs (always include these):\n- task: "), "{description}");
}

async fn mcp_call_returns_the_same_envelope_as_a_direct_call(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let result = Client::new(&server).call("t_echo", json!({ "deal": 7 })).await;
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({ "deal": 7 }));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({ "deal": 7 }));
    let envelope = &result["_meta"]["toolwright/envelope"];
    let direct = server.call("t_echo", json!({ "deal": 7 })).await;
    for field in ["call_id", "name", "version", "input", "output", "error"] {
        assert_eq!(envelope[field], direct[field], "{field}");
    }
    assert_eq!(envelope["metadata"]["principal"], "admin");
}

async fn failed_mcp_call_is_an_error_result_with_a_code(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    server.define_echo("t_strict", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let client = Client::new(&server);
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

async fn client_tool_is_not_callable_over_mcp(server: Server) {
    server.define_echo("t_client", json!({ "isToolFullyExecutedOnServer": false })).await;
    let client = Client::new(&server);
    assert!(client.tool_names().await.is_empty());
    let result = client.call("t_client", json!({})).await;
    assert_eq!(result["structuredContent"]["error"]["details"]["reason"], "client_tool", "{result}");
}

async fn prompts_and_runs_are_readable_over_mcp(server: Server) {
    let fragment = json!({ "refName": "greeting", "description": "says hello", "content": "Hello {{user.name}}!" });
    server.post("prompt-fragments", fragment).await.expect(201);
    server.define_agent("t_agent", json!([{ "reply": { "text": "hi" } }]), json!({})).await;
    let run = server.run("t_agent", "hello").await["runId"].as_str().unwrap().to_owned();
    let client = Client::new(&server);
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
    let ada = Client::new(&server.member("ada").await);
    assert_eq!(ada.result("resources/list", json!({})).await["resources"], json!([]));
    for invalid in [uri.as_str(), "toolwright://runs/none", "toolwright://blobs/none", "file:///etc/passwd"] {
        let reply = ada.reply("resources/read", json!({ "uri": invalid })).await;
        assert_eq!(reply["error"]["data"]["uri"], invalid, "{reply}");
    }
}

async fn large_output_is_returned_over_mcp_as_a_resource_link(server: Server) {
    server.define_echo("t_large", json!({ "maxOutputBytes": 1000 })).await;
    let client = Client::new(&server);
    let result = client.call("t_large", json!({ "text": "x".repeat(5000) })).await;
    let link = result["content"].as_array().unwrap().iter().find(|block| block["type"] == "resource_link").unwrap();
    let read = client.result("resources/read", json!({ "uri": link["uri"] })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["text"].as_str().unwrap().len(), 5000);
    assert_eq!(read["contents"][0]["mimeType"], "application/json");
}

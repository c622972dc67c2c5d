//! Tests composite tools as tools of agents, agentic tools and MCP clients.

use serde_json::{Value, json};

use super::{ROOT, define_confirmed, define_deals, invoke, reason};
use crate::harness::{Server, calls_then, envelopes, scripted_model};

crate::on_sqlite!(
    agents_and_agentic_tools_use_composite_tools,
    cost_estimate_of_an_agent_includes_the_operations,
    composite_tool_is_listed_and_called_over_mcp
);

async fn agents_and_agentic_tools_use_composite_tools(server: Server) {
    define_deals(&server, json!({})).await;
    let call = |q: &str| json!({ "name": "deals", "arguments": { "q": q } });
    // A call to a composite tool counts as one tool call, although the run of this call calls another tool.
    let rules =
        calls_then(json!([call("find Acme"), call("create it"), call("find nothing")]), "Told: {{result/text}}");
    let two = json!({ "toolRefs": ["deals"], "policy": { "maxToolCalls": 2 }, "executionConfig": { "parallelToolCalls": false } });
    server.define_agent("clerk", rules.clone(), two).await;
    let response = server.run("clerk", "go").await;
    let outputs: Vec<Value> = envelopes(&response).iter().map(|envelope| envelope["output"].clone()).collect();
    let created = json!({ "title": "create it", "source": "composite" });
    assert_eq!(outputs, [json!({ "text": "find Acme" }), created, Value::Null], "{response}");
    assert_eq!(response["status"], "BUDGET_EXCEEDED", "{response}");
    let tree = server.get(&format!("runs/{}/tree", response["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(tree["root"]["children"].as_array().map(Vec::len), Some(2), "{tree}");
    // The embedded model of an agentic tool calls the composite tool.
    let rules = calls_then(json!([call("find Acme")]), "{\"summary\": \"found {{result/text}}\"}");
    let agentic = json!({
        "refName": "assistant", "description": "Helps.", "toolType": "AGENTIC",
        "agentic": {
            "executionMode": "agentic", "embeddedLLMConfig": scripted_model(rules),
            "toolAllocation": { "availableTools": [{ "actionSlug": "deals" }] },
        },
    });
    server.post("tools", agentic).await.expect(201);
    let envelope = server.call("assistant", json!({ "task": "look" })).await;
    assert_eq!(envelope["output"], json!({ "summary": "found find Acme" }), "{envelope}");
    // An agentic tool may be an operation.
    let operations =
        json!([{ "operationSlug": "ask", "actionSlug": "assistant", "parameterMapping": { "task": "q" } }]);
    let definition = json!({ "slug": "desk", "description": "Asks.", "routingMode": "rule_based", "operations": operations, "defaultOperationId": "ask" });
    server.post(ROOT, definition).await.expect(201);
    let asked = invoke(&server, "desk", json!({ "q": "look" })).await.expect(200);
    assert_eq!(asked["data"], json!({ "summary": "found find Acme" }), "{asked}");
    let uses = server.get("tools/crm%2Fsearch/uses").await.expect(200);
    assert_eq!(uses["tools"], json!([{ "refName": "deals", "by": ["operation"] }]), "{uses}");
    let reach = server.get("reach?agent=clerk").await.expect(200);
    let edges = reach["edges"].as_array().unwrap();
    assert!(edges.iter().any(|edge| edge["by"] == "operation" && edge["to"] == "tool:crm/create"), "{reach}");
}

async fn cost_estimate_of_an_agent_includes_the_operations(server: Server) {
    server.define_echo("cheap", json!({ "price": { "perCallUsd": 0.125 } })).await;
    server.define_echo("dear", json!({ "price": { "perCallUsd": 0.25 } })).await;
    server.define_echo("metered", json!({ "price": { "perUnitUsd": 0.25, "units": "$.items" } })).await;
    let slugs = ["cheap", "dear", "missing"];
    let definition = json!({
        "slug": "shop", "description": "Sells.", "routingMode": "agent_driven", "price": { "perCallUsd": 0.5 },
        "operations": slugs.map(|slug| json!({ "operationSlug": slug, "actionSlug": slug })),
    });
    server.post(ROOT, definition).await.expect(201);
    let agent = json!({
        "refName": "a", "toolRefs": ["shop"],
        "llmConfig": { "provider": "anthropic", "model": "claude-sonnet-4-20250514", "maxOutputTokens": 1000 },
        "executionConfig": { "maxIterations": 2 }, "policy": { "maxToolCalls": 2 },
    });
    server.post("agents", agent).await.expect(201);
    let estimate = server.get("agents/a/cost-estimate").await.expect(200);
    // Two model calls at 0.612 dollars, and two calls to the composite tool at 0.75 dollars: 0.5 for the tool and 0.25
    // for its most expensive operation.
    assert_eq!(estimate["bounds"][0]["usd"], 2.724, "{estimate}");
    let metered = json!({ "operations": [{ "operationSlug": "metered", "actionSlug": "metered" }] });
    server.patch(&format!("{ROOT}/shop"), metered).await.expect(200);
    let estimate = server.get("agents/a/cost-estimate").await.expect(200);
    assert_eq!(estimate["worstCaseUsd"], Value::Null, "{estimate}");
}

async fn composite_tool_is_listed_and_called_over_mcp(server: Server) {
    define_deals(&server, json!({})).await;
    define_confirmed(&server, "pay").await;
    let listed = mcp(&server, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "deals").unwrap();
    assert_eq!(tool["description"], "Finds and creates deals.");
    assert_eq!(tool["inputSchema"]["required"], json!(["q"]), "{tool}");
    assert_eq!(tool["annotations"]["readOnlyHint"], false);
    let called = mcp(&server, "tools/call", json!({ "name": "deals", "arguments": { "q": "find" } })).await;
    assert_eq!(called["result"]["structuredContent"], json!({ "text": "find" }), "{called}");
    let refused = mcp(&server, "tools/call", json!({ "name": "deals", "arguments": { "q": "nothing" } })).await;
    let envelope = &refused["result"]["_meta"]["toolwright/envelope"];
    assert_eq!(
        (&refused["result"]["isError"], reason(envelope)),
        (&json!(true), &json!("NO_RULE_MATCHED")),
        "{refused}"
    );
    // An MCP call cannot wait for an approval, so the error message contains the id of the waiting run.
    let waiting = mcp(&server, "tools/call", json!({ "name": "money", "arguments": { "amount": 1 } })).await;
    let message = waiting["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("AWAITING_APPROVAL") && message.contains("run_"), "{waiting}");
    assert_eq!(server.get("approvals").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

/// Sends a request of the latest revision of MCP.
async fn mcp(server: &Server, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut request = server
        .request(reqwest::Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    let answer =
        server.send(request.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))).await;
    let data = answer.text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer.text);
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {}", answer.text))
}

//! Tests the list of all tools, the exports with code, and the route that this code calls. `scripts/check-snippets` runs
//! the code.

use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::agentic_tools::{agentic, deterministic, plan_then};
use crate::harness::{Response, Server, calls_then, envelopes, merge};

crate::on_both_databases!(
    list_has_the_tools_of_all_kinds,
    list_of_all_tools_can_be_filtered,
    list_of_all_tools_is_paged_and_sorted,
    export_contains_the_tool_its_format_and_code,
    export_of_all_tools_contains_only_tools_that_the_caller_may_call_over_the_surface,
    tool_can_be_invoked_by_each_of_its_names,
    invocation_reports_the_result_of_the_call
);
crate::on_sqlite!(
    invalid_filters_of_the_list_are_rejected,
    export_of_an_agentic_tool_hides_its_model,
    model_of_an_agent_sees_the_description_of_an_agentic_tool,
    tools_with_the_same_exported_name_are_left_out_of_the_export_with_a_warning,
    invocation_of_an_agentic_tool_returns_its_result_or_waits_for_an_approval,
    export_filters_select_by_kind_category_and_tag,
    composite_tool_can_be_exported_and_invoked,
    exported_tool_is_invoked_only_with_permission_and_over_an_allowed_surface,
    built_in_tool_can_be_read_exported_and_invoked
);

async fn define_agentic(server: &Server, name: &str, more: Value) -> Value {
    let agentic = json!({
        "executionMode": "agentic",
        "embeddedLLMConfig": { "provider": "anthropic", "model": "claude-sonnet-4" },
        "systemPrompt": "The secret instructions of the model.",
        "toolAllocation": { "availableTools": [{ "actionSlug": "crm/search-deals" }] },
    });
    let tool = json!({ "refName": name, "description": "Manages deals.", "toolType": "AGENTIC", "agentic": agentic });
    server.post("tools", merge(tool, more)).await.expect(201)
}

async fn define_all_kinds(server: &Server) {
    let deals = json!({ "name": "Search", "description": "Finds 100% of the \"deals\".", "category": "crm.deals", "tags": ["sales"] });
    server.define_echo("crm/search-deals", deals).await;
    server.define_echo("crmx", json!({ "category": "crmx", "status": "deprecated" })).await;
    server.define_echo("off", json!({ "enabled": false, "category": "crm" })).await;
    server.define_echo("plan", json!({ "status": "draft" })).await;
    define_agentic(server, "deal-manager", json!({ "name": "Deal Manager", "tags": ["sales", "ai"] })).await;
    let operation = json!({ "operationSlug": "search", "actionSlug": "crm/search-deals", "displayName": "Search" });
    let composite = json!({ "routingMode": "rule_based", "defaultOperationId": "search", "operations": [operation] });
    let router =
        json!({ "refName": "router", "description": "Routes.", "toolType": "COMPOSITE", "composite": composite });
    server.post("tools", router).await.expect(201);
}

async fn list(server: &Server, query: &str) -> Response {
    server.get(&format!("/api/v1/ai-tools{query}")).await
}

async fn slugs(server: &Server, query: &str) -> Vec<String> {
    let page = list(server, query).await.expect(200);
    page["items"].as_array().unwrap().iter().map(|item| item["slug"].as_str().unwrap().to_owned()).collect()
}

async fn invoke(server: &Server, body: Value) -> Response {
    server.post("/api/v1/tools/invoke", body).await
}

fn names(export: &Value) -> Vec<&str> {
    export.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

async fn list_has_the_tools_of_all_kinds(server: Server) {
    define_all_kinds(&server).await;
    let page = list(&server, "").await.expect(200);
    assert_eq!(page["nextCursor"], Value::Null);
    let items = page["items"].as_array().unwrap();
    let shown: Vec<Value> =
        items.iter().map(|item| json!([item["slug"], item["kind"], item["toolType"], item["status"]])).collect();
    let expected = json!([
        ["crm/search-deals", "simple", "FUNCTION", "active"],
        ["crmx", "simple", "FUNCTION", "deprecated"],
        ["deal-manager", "agentic", "AGENTIC", "active"],
        ["off", "simple", "FUNCTION", "disabled"],
        ["plan", "simple", "FUNCTION", "draft"],
        ["router", "composite", "COMPOSITE", "active"],
    ]);
    assert_eq!(json!(shown), expected);
    let mut manager = server.get("/api/v1/ai-tools/deal-manager").await.expect(200);
    assert_eq!(manager, items[2]);
    let stored = server.get("tools/deal-manager").await.expect(200);
    for time in ["createdAt", "updatedAt"] {
        assert_eq!(manager.as_object_mut().unwrap().remove(time), Some(stored[time].clone()));
    }
    let expected = json!({
        "id": stored["id"], "slug": "deal-manager", "name": "Deal Manager", "description": "Manages deals.",
        "kind": "agentic", "toolType": "AGENTIC", "status": "active", "executionMode": "agentic", "category": null,
        "tags": ["sales", "ai"], "version": "1.0.0",
    });
    assert_eq!(manager, expected);
    assert!(!items[0].as_object().unwrap().contains_key("executionMode"));
    server.get("/api/v1/ai-tools/nothing").await.problem(404, "not-found");
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    assert!(slugs(&server.in_realm("other"), "").await.is_empty());
}

async fn list_of_all_tools_can_be_filtered(server: Server) {
    define_all_kinds(&server).await;
    for (query, expected) in [
        ("?kind=agentic", vec!["deal-manager"]),
        ("?kind=composite", vec!["router"]),
        ("?kind=simple&status=active", vec!["crm/search-deals"]),
        ("?status=disabled", vec!["off"]),
        ("?status=draft", vec!["plan"]),
        ("?status=deprecated", vec!["crmx"]),
        ("?status=blocked", vec![]),
        ("?category=crm", vec!["crm/search-deals", "off"]),
        ("?category=crm.deals", vec!["crm/search-deals"]),
        ("?category=crm.d", vec![]),
        ("?tag=sales", vec!["crm/search-deals", "deal-manager"]),
        ("?tag=sales&kind=agentic&text=manager", vec!["deal-manager"]),
        ("?text=DEALS", vec!["crm/search-deals", "deal-manager"]),
        ("?text=search", vec!["crm/search-deals"]),
        ("?text=100%25%20of%20the%20%22deals%22", vec!["crm/search-deals"]),
        ("?text=*", vec![]),
        ("?text=%22%20%7C%7C%20enabled:true%20%7C%7C%20name:%22", vec![]),
        ("?category=crm%22", vec![]),
    ] {
        assert_eq!(slugs(&server, query).await, expected, "{query}");
    }
}

async fn list_of_all_tools_is_paged_and_sorted(server: Server) {
    define_all_kinds(&server).await;
    let (mut seen, mut query) = (Vec::new(), "?kind=simple&limit=3".to_owned());
    loop {
        let page = list(&server, &query).await.expect(200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["slug"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("?kind=simple&limit=3&cursor={cursor}");
    }
    assert_eq!(seen, ["crm/search-deals", "crmx", "off", "plan"]);
    assert_eq!(slugs(&server, "?sort=-createdAt&limit=2").await, ["router", "deal-manager"]);
}

async fn invalid_filters_of_the_list_are_rejected(server: Server) {
    for (query, field) in [
        ("?kind=other", "kind"),
        ("?status=enabled", "status"),
        ("?text=", "text"),
        ("?text=a%0Ab", "text"),
        ("?limit=101", "limit"),
        ("?cursor=x", "cursor"),
        ("?sort=name", "sort"),
    ] {
        let problem = list(&server, query).await.problem(400, "invalid-request");
        assert_eq!(problem["errors"][0]["path"], field, "{problem}");
    }
    list(&server, "?other=1").await.problem(400, "invalid-request");
    server.get("/api/v1/tools/export/mcp?kind=other").await.problem(400, "invalid-request");
    server.get("/api/v1/tools/export/yaml").await.problem(400, "invalid-request");
}

async fn export_contains_the_tool_its_format_and_code(server: Server) {
    let schema = json!({ "id": { "type": "string", "description": "The id.", "required": true } });
    server.define_echo("crm/get-deal", json!({ "name": "Get", "version": "1.2.0", "inputSchema": schema })).await;
    let id = server.get("tools/crm%2Fget-deal").await.expect(200)["id"].clone();
    let simple =
        json!({ "id": id, "slug": "crm/get-deal", "name": "Get", "description": "crm/get-deal", "version": "1.2.0" });
    for (format, compatible) in [
        ("universal", json!(["openai", "anthropic", "gemini", "langchain", "mcp"])),
        ("langchain", json!(["langchain-js", "langchain-python", "llamaindex"])),
        ("openai", json!(["openai"])),
        ("anthropic", json!(["anthropic"])),
        ("gemini", json!(["gemini"])),
    ] {
        let export = server.get(&format!("/api/v1/ai-tools/crm%2Fget-deal/tools/{format}")).await.expect(200);
        assert_eq!(export["simpleTool"], simple, "{format}");
        assert_eq!(export["format"], json!({ "name": format, "version": "1.0", "compatibleWith": compatible }));
        // Besides its name, the tool is the same as in the export without code.
        let mut bare = server.get(&format!("tools/crm%2Fget-deal/export/{format}")).await.expect(200);
        let named = if format == "openai" { &mut bare["function"] } else { &mut bare };
        named["name"] = json!("crm_get_deal");
        assert_eq!(export["tool"], bare, "{format}");
        for language in ["typescript", "python"] {
            let code = export["codeSnippets"][language].as_str().unwrap();
            assert!(code.contains("crm_get_deal") && code.contains("/api/v1/tools/invoke"), "{format}: {code}");
        }
    }
    let export = server.get("/api/v1/ai-tools/crm%2Fget-deal@^1/tools/mcp").await.expect(200);
    assert_eq!((&export["simpleTool"], &export["tool"]), (&simple, &Value::Null));
    assert_eq!(export["format"]["compatibleWith"], json!(["claude-desktop", "mcp-client"]));
    let described = &export["server"];
    assert_eq!((&described["name"], &described["version"]), (&json!("toolwright-crm-get-deal"), &json!("1.2.0")));
    assert_eq!((&described["capabilities"], &described["resources"]), (&json!({ "tools": {} }), &json!([])));
    assert_eq!(described["tools"][0]["name"], "crm_get_deal");
    for file in ["typescript", "python", "packageJson", "claudeDesktopConfig"] {
        assert!(export["serverFile"][file].as_str().unwrap().contains("toolwright-crm-get-deal"), "{file}");
    }
    server.get("/api/v1/ai-tools/crm%2Fget-deal/tools/yaml").await.problem(400, "invalid-request");
    server.get("/api/v1/ai-tools/nothing/tools/mcp").await.problem(404, "not-found");
}

async fn export_of_an_agentic_tool_hides_its_model(server: Server) {
    define_agentic(&server, "hubspot-deal-manager", json!({})).await;
    server.define_echo("simple", json!({})).await;
    let text = "Use this tool to manage deals. It selects the operations that the task needs from these: search deals.\n\n\
        # Required inputs (always include these):\n- task: The task, in natural language.\n\n# What the tool outputs:\n\
        Returns the answer to the task, with a summary of the actions taken and any errors encountered.";
    for format in ["universal", "langchain", "openai", "anthropic", "gemini", "mcp"] {
        let export =
            server.get(&format!("/api/v1/agentic-tools/hubspot-deal-manager/tools/{format}")).await.expect(200);
        let tool = if format == "mcp" { &export["server"]["tools"][0] } else { &export["tool"] };
        let tool = tool.get("function").unwrap_or(tool);
        assert_eq!((&tool["name"], &tool["description"]), (&json!("hubspot_deal_manager"), &json!(text)), "{format}");
        assert_eq!(export["agenticTool"]["executionMode"], "agentic");
        let shown = export.to_string();
        for hidden in ["claude-sonnet", "secret instructions", "crm/search-deals", "systemPrompt"] {
            assert!(!shown.contains(hidden), "{format} shows `{hidden}`");
        }
        let bare = server.get(&format!("tools/hubspot-deal-manager/export/{format}")).await.expect(200);
        assert_eq!(bare.get("function").unwrap_or(&bare)["description"], text, "{format}");
    }
    let problem = server.get("/api/v1/agentic-tools/simple/tools/mcp").await.problem(404, "not-found");
    assert_eq!(problem["detail"], "tool `simple` is not agentic, it is simple");
    server.patch("tools/hubspot-deal-manager", json!({ "longDescription": "My own text." })).await.expect(200);
    let export = server.get("/api/v1/agentic-tools/hubspot-deal-manager/tools/universal").await.expect(200);
    assert_eq!(export["tool"]["description"], "My own text.");
}

async fn model_of_an_agent_sees_the_description_of_an_agentic_tool(server: Server) {
    define_agentic(&server, "deal-manager", json!({})).await;
    let own = json!({ "longDescription": "My own text.", "description": "The short text." });
    define_agentic(&server, "second-manager", own).await;
    let tools = json!({ "toolRefs": ["deal-manager", "second-manager"] });
    server.define_agent("clerk", json!([{ "reply": { "text": "Hello." } }]), tools).await;
    let run = server.run("clerk", "hi").await;
    let bundle = server.get(&format!("runs/{}/export", run["runId"].as_str().unwrap())).await.text;
    assert!(bundle.contains("Use this tool to manage deals. It selects"), "{bundle}");
    assert!(bundle.contains("My own text.") && !bundle.contains("The short text."), "{bundle}");
}

async fn export_of_all_tools_contains_only_tools_that_the_caller_may_call_over_the_surface(server: Server) {
    define_all_kinds(&server).await;
    server.define_echo("for-mcp", json!({ "availableAs": ["mcpTool"] })).await;
    server.define_echo("for-agents", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("open-file", json!({ "isToolFullyExecutedOnServer": false })).await;
    let universal = server.get("/api/v1/tools/export/universal").await.expect(200);
    let tools = names(&universal["tools"]);
    for name in ["crm_search_deals", "deal_manager", "for_agents", "open_file", "echo"] {
        assert!(tools.contains(&name), "no {name}: {tools:?}");
    }
    for name in ["crmx", "off", "plan", "for_mcp", "search_tools"] {
        assert!(!tools.contains(&name), "{name}: {tools:?}");
    }
    assert_eq!((&universal["format"]["name"], universal.get("warnings")), (&json!("universal"), None));
    assert!(universal["codeSnippets"]["python"].as_str().unwrap().contains("\"deal_manager\": \"deal-manager\""));
    let mcp = server.get("/api/v1/tools/export/mcp").await.expect(200);
    let tools = names(&mcp["server"]["tools"]);
    assert!(tools.contains(&"for_mcp") && !tools.contains(&"for_agents") && !tools.contains(&"open_file"), "{tools:?}");
    assert_eq!((&mcp["server"]["name"], &mcp["tools"]), (&json!("toolwright"), &Value::Null));
    for format in ["langchain", "openai", "anthropic", "gemini"] {
        let export = server.get(&format!("/api/v1/tools/export/{format}")).await.expect(200);
        assert_eq!(export["tools"].as_array().unwrap().len(), universal["tools"].as_array().unwrap().len(), "{format}");
    }
}

async fn export_filters_select_by_kind_category_and_tag(server: Server) {
    define_all_kinds(&server).await;
    for (query, expected) in [
        ("kind=agentic", vec!["deal_manager"]),
        ("kind=composite", vec!["router"]),
        ("category=crm", vec!["crm_search_deals"]),
        ("category=crm.d", vec![]),
        ("tag=sales", vec!["crm_search_deals", "deal_manager"]),
        ("tag=sales&kind=simple", vec!["crm_search_deals"]),
    ] {
        let export = server.get(&format!("/api/v1/tools/export/universal?{query}")).await.expect(200);
        assert_eq!(names(&export["tools"]), expected, "{query}");
    }
}

async fn tools_with_the_same_exported_name_are_left_out_of_the_export_with_a_warning(server: Server) {
    server.define_echo("crm/get-deal", json!({})).await;
    server.define_echo("crm_get_deal", json!({ "category": "other" })).await;
    let export = server.get("/api/v1/tools/export/universal").await.expect(200);
    assert!(!names(&export["tools"]).contains(&"crm_get_deal"));
    let warning = "`crm/get-deal` and `crm_get_deal` are left out, because all have the exported name `crm_get_deal`";
    assert_eq!(export["warnings"], json!([warning]));
    // The name counts as ambiguous even if a filter selects only one of the tools.
    let filtered = server.get("/api/v1/tools/export/mcp?category=other").await.expect(200);
    assert_eq!((&filtered["server"]["tools"], &filtered["warnings"]), (&json!([]), &json!([warning])));
    let problem = invoke(&server, json!({ "tool": "crm_get_deal" })).await.problem(400, "invalid-request");
    let detail = problem["detail"].as_str().unwrap();
    for tool in ["`crm/get-deal`", "`crm_get_deal`", "use the id of one of them"] {
        assert!(detail.contains(tool), "{detail}");
    }
    let id = server.get("tools/crm_get_deal").await.expect(200)["id"].clone();
    assert_eq!(invoke(&server, json!({ "tool": id })).await.expect(200)["meta"]["tool"], "crm_get_deal");
    let other = invoke(&server, json!({ "tool": "crm/get-deal" })).await.expect(200);
    assert_eq!(other["meta"]["tool"], "crm/get-deal");
}

async fn tool_can_be_invoked_by_each_of_its_names(server: Server) {
    server.define_echo("crm/get.deal-A", json!({})).await;
    let long = format!("crm/{}", "long-".repeat(20));
    let long = long.trim_end_matches('-');
    server.define_echo(long, json!({})).await;
    let id = server.get("tools/crm%2Fget.deal-A").await.expect(200)["id"].clone();
    for name in [
        json!("crm/get.deal-A"),
        json!("CRM/get.deal-a"),
        id,
        json!("crm_get_deal_a"),
        json!("crm__get_-deal-A"),
        json!("crm/get.deal-A@^1"),
    ] {
        let result = invoke(&server, json!({ "tool": name, "params": { "n": 1 } })).await.expect(200);
        assert_eq!(
            (&result["data"], &result["meta"]["tool"]),
            (&json!({ "n": 1 }), &json!("crm/get.deal-A")),
            "{name}"
        );
    }
    let path = format!("tools/{}/export", long.replace('/', "%2F"));
    for format in ["universal", "mcp"] {
        let name = server.get(&format!("{path}/{format}")).await.expect(200)["name"].clone();
        assert_eq!(name.as_str().unwrap().len(), 64, "{name}");
        assert_eq!(invoke(&server, json!({ "tool": name })).await.expect(200)["meta"]["tool"], long);
    }
    invoke(&server, json!({ "tool": "crm_get_deal" })).await.problem(404, "not-found");
    invoke(&server, json!({ "tool": "crm/get.deal-A@^2" })).await.problem(404, "not-found");
    invoke(&server, json!({ "params": {} })).await.problem(400, "invalid-request");
}

async fn invocation_reports_the_result_of_the_call(server: Server) {
    let list = json!({ "inputJsonSchema": { "type": "array", "items": { "type": "number" } } });
    server.define_echo("sum", list).await;
    let answer = invoke(&server, json!({ "tool": "sum", "params": { "value": [1, 2] } })).await;
    let run = answer.headers["x-run-id"].to_str().unwrap().to_owned();
    let result = answer.expect(200);
    assert_eq!((&result["success"], &result["data"]), (&json!(true), &json!([1, 2])));
    assert_eq!((&result["meta"]["executionId"], &result["meta"]["totalCost"]), (&json!(run), &json!(0.0)));
    assert!(result["meta"]["durationMs"].is_u64());
    assert_eq!((result.get("message"), result.get("error"), result.get("warnings")), (None, None, None));
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["subject"], "sum");

    let refused = invoke(&server, json!({ "tool": "sum", "params": { "value": ["x"] } })).await.expect(200);
    assert_eq!((&refused["success"], &refused["data"]), (&json!(false), &Value::Null));
    assert_eq!(refused["error"]["code"], "VALIDATION_ERROR");
    assert_eq!(
        (&refused["error"]["details"]["reason"], &refused["message"]),
        (&json!("input_schema"), &refused["error"]["message"])
    );

    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    let invocation = json!({ "method": "POST", "path": "/echo", "messageMapping": "$.method" });
    let talkative = json!({ "invocation": invocation, "sideEffects": "reads", "status": "deprecated", "maxOutputBytes": 64, "price": { "perCallUsd": 0.25 } });
    server.define_http_tool("talk", &faults.base_url(), "/echo", talkative).await;
    let result = invoke(&server, json!({ "tool": "talk" })).await.expect(200);
    let told = (json!("POST"), json!(0.25));
    assert_eq!((&result["message"], &result["meta"]["totalCost"]), (&told.0, &told.1), "{result}");
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("is deprecated") && warnings.contains("read all of it from /api/v1/ai/blobs/"),
        "{result}"
    );
    faults.shutdown().await;

    server.define_echo("open", json!({ "isToolFullyExecutedOnServer": false })).await;
    let waiting = invoke(&server, json!({ "tool": "open", "params": { "path": "a" } })).await.expect(202);
    assert_eq!(
        (&waiting["status"], &waiting["clientActions"][0]["toolRef"]),
        (&json!("AWAITING_CLIENT"), &json!("open"))
    );
}

async fn invocation_of_an_agentic_tool_returns_its_result_or_waits_for_an_approval(server: Server) {
    server.define_echo("save", json!({ "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "save", "arguments": { "n": 1 } }]), "Saved.");
    server.define_agentic_tool(agentic("note-keeper", &["save"], rules), json!({})).await;
    let result = invoke(&server, json!({ "tool": "note_keeper", "params": { "task": "Save it." } })).await.expect(200);
    assert_eq!((&result["success"], &result["data"]), (&json!(true), &json!({ "summary": "Saved." })), "{result}");
    let run = server.get(&format!("runs/{}", result["meta"]["executionId"].as_str().unwrap())).await.expect(200);
    assert_eq!((&run["kind"], &run["subject"]), (&json!("tool"), &json!("note-keeper")));

    let plan = plan_then(json!([{ "step": 1, "parameters": { "n": 2 } }]), "Saved.");
    let approved = json!({ "requiresPlanApproval": true });
    server.define_agentic_tool(deterministic("planner", &["save"], plan), approved).await;
    let waiting = invoke(&server, json!({ "tool": "planner", "params": { "task": "Save it." } })).await.expect(202);
    let approval = &waiting["approvals"][0];
    let (child, call) = (approval["runId"].as_str().unwrap(), approval["callId"].as_str().unwrap());
    server.post(&format!("runs/{child}/approvals/{call}"), json!({ "decision": "approve" })).await.expect(200);
    let path = format!("runs/{}", waiting["runId"].as_str().unwrap());
    let ended = server.poll_until(&path, |run| run["status"] == "COMPLETED").await;
    assert_eq!(envelopes(&ended)[0]["output"]["summary"], "Saved.", "{ended}");
}

async fn composite_tool_can_be_exported_and_invoked(server: Server) {
    define_all_kinds(&server).await;
    let export = server.get("/api/v1/composite-tools/router/tools/universal").await.expect(200);
    assert_eq!((&export["compositeTool"]["slug"], &export["tool"]["name"]), (&json!("router"), &json!("router")));
    assert_eq!(export, server.get("/api/v1/ai-tools/router/tools/universal").await.expect(200));
    let result = invoke(&server, json!({ "tool": "router", "params": { "q": 1 } })).await.expect(200);
    assert_eq!((&result["data"], &result["meta"]["tool"]), (&json!({ "q": 1 }), &json!("router")), "{result}");
    let problem = server.get("/api/v1/composite-tools/deal-manager/tools/mcp").await.problem(404, "not-found");
    assert_eq!(problem["detail"], "tool `deal-manager` is not composite, it is agentic");
}

async fn exported_tool_is_invoked_only_with_permission_and_over_an_allowed_surface(server: Server) {
    server.define_echo("crm/get-deal", json!({ "availableAs": ["mcpTool"] })).await;
    let reason = async |body: Value| {
        let result = invoke(&server, body).await.expect(200);
        (result["success"].clone(), result["error"]["details"]["reason"].clone())
    };
    assert_eq!(reason(json!({ "tool": "crm_get_deal" })).await, (json!(false), json!("not_available")));
    assert_eq!(reason(json!({ "tool": "crm_get_deal", "surface": "mcpTool" })).await, (json!(true), Value::Null));
    invoke(&server, json!({ "tool": "crm_get_deal", "surface": "workflowStep" })).await.problem(400, "invalid-request");
    let member = server.member("ada").await;
    invoke(&member, json!({ "tool": "crm_get_deal", "surface": "mcpTool" })).await.expect(200);
    let guest = server.with_key(&server.issue_key(json!({ "principal": "guest", "roles": [] })).await);
    let answer = invoke(&guest, json!({ "tool": "crm/get-deal", "surface": "mcpTool" })).await.expect(200);
    assert_eq!((&answer["success"], &answer["error"]["code"]), (&json!(false), &json!("POLICY_DENIED")));
    invoke(&guest, json!({ "tool": "crm_get_deal" })).await.problem(404, "not-found");
    let export = guest.get("/api/v1/tools/export/universal").await.expect(200);
    assert_eq!(export["tools"], json!([]));
}

async fn built_in_tool_can_be_read_exported_and_invoked(server: Server) {
    let item = server.get("/api/v1/ai-tools/echo").await.expect(200);
    assert_eq!(
        (&item["id"], &item["kind"], &item["status"]),
        (&json!("builtin/echo"), &json!("simple"), &json!("active"))
    );
    let export = server.get("/api/v1/ai-tools/echo/tools/openai").await.expect(200);
    assert_eq!(
        (&export["simpleTool"]["id"], &export["tool"]["function"]["name"]),
        (&json!("builtin/echo"), &json!("echo"))
    );
    assert_eq!(
        invoke(&server, json!({ "tool": "echo", "params": { "a": 1 } })).await.expect(200)["data"],
        json!({ "a": 1 })
    );
}

//! Tests the tools of an agent: selection, versions, search and pins.

use serde_json::{Value, json};

use crate::harness::{Server, calls_then, envelopes, error_reasons};

crate::on_both_databases!(
    pins_contain_the_envelope_that_their_selector_selects,
    stale_pin_contains_the_last_successful_call_of_the_same_agent_and_owner
);
crate::on_sqlite!(
    tools_selected_by_name_precede_those_selected_by_category_or_tag,
    tool_that_is_not_offered_to_the_model_can_be_found_and_called,
    agent_calls_the_tool_version_that_its_definition_requires,
    default_name_of_a_pin_is_the_tool_name_with_the_suffix_result
);

async fn pins_contain_the_envelope_that_their_selector_selects(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("look", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("off", json!({ "enabled": false })).await;
    let calls = json!([
        { "name": "look", "arguments": { "n": "bad" } }, { "name": "look", "arguments": { "n": 1 } },
        { "name": "look", "arguments": { "n": 2 } }, { "name": "off" }
    ]);
    let rules = json!([
        { "when": { "turn": 0 }, "reply": { "toolCalls": calls } },
        { "when": { "turn": 1 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "n": "worse" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    server.define_agent("first", rules.clone(), json!({ "toolRefs": ["look", "off"] })).await;
    let first = server.run("first", "go").await;
    let two = envelopes(&first).into_iter().find(|envelope| envelope["input"] == json!({ "n": 2 })).unwrap();
    let ids: Vec<Value> = envelopes(&first).iter().map(|envelope| envelope["call_id"].clone()).collect();
    let pin = |name: &str, selector: Value, on_missing: &str| json!({ "name": name, "selector": selector, "on_missing": on_missing });
    let pins = json!([
        pin("latest", json!({ "tool": "LOOK" }), "null"),
        pin("first", json!({ "tool": "look", "strategy": "first_success" }), "error"),
        pin("exact", json!({ "tool": "look", "strategy": "by_call_id", "call_id": two["call_id"] }), "error"),
        pin("off", json!({ "tool": "off" }), "null"),
        pin("never", json!({ "tool": "never_called" }), "null"),
        pin("never_stale", json!({ "tool": "never_called", "strategy": "first_success" }), "stale_last_success"),
    ]);
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look", "off"], "pins": pins })).await;
    let response = server.run("a", "go").await;
    let shown = &response["pins"];
    assert_eq!(shown.as_object().unwrap().len(), 6, "{shown}");
    assert_eq!(shown["latest"]["input"], json!({ "n": "worse" }), "the latest call is selected even if it failed");
    assert_eq!(shown["first"]["input"], json!({ "n": 1 }));
    assert_eq!(shown["exact"]["input"], json!({ "n": 2 }));
    for null in ["off", "never", "never_stale"] {
        assert_eq!(shown[null], Value::Null, "{null}");
    }
    assert_eq!(response["outputs"]["tool_order"], json!(ids), "the same calls have the same ids in every run");
    assert_eq!(response["status"], "COMPLETED");
    // A missing pin with `on_missing: error` fails the run.
    let pins = json!([
        pin("gone", json!({ "tool": "never_called" }), "error"),
        pin("there", json!({ "tool": "look" }), "null")
    ]);
    server.define_agent("b", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    let response = server.run("b", "go").await;
    assert_eq!((&response["status"], &response["reason"]), (&json!("ERROR"), &json!("pin_missing")), "{response}");
    assert!(response["message"].as_str().unwrap().contains("`gone`"));
    assert_eq!(response["outputs"]["response"], "Done.", "core outputs are always present");
    assert_eq!(envelopes(&response).len(), 5);
}

async fn default_name_of_a_pin_is_the_tool_name_with_the_suffix_result(server: Server) {
    server.define_echo("look", json!({})).await;
    let pins = json!([{ "selector": { "tool": "look" } }, { "name": null, "selector": { "tool": "other" } }]);
    let rules = calls_then(json!([{ "name": "look", "arguments": { "n": 1 } }]), "Done.");
    let agent = server.define_agent("a", rules, json!({ "toolRefs": ["look"], "pins": pins })).await;
    assert_eq!(agent["pins"][0]["name"], "look_result");
    let response = server.run("a", "go").await;
    assert_eq!(response["pins"]["look_result"]["output"], json!({ "n": 1 }), "{}", response["pins"]);
    assert_eq!(response["pins"]["other_result"], Value::Null);
    let twice =
        json!([{ "selector": { "tool": "look" } }, { "selector": { "tool": "look", "strategy": "first_success" } }]);
    let problem =
        server.post("agents", json!({ "refName": "b", "pins": twice })).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/pins/1/name", "{problem}");
}

async fn stale_pin_contains_the_last_successful_call_of_the_same_agent_and_owner(server: Server) {
    server.define_echo("look", json!({})).await;
    let rules = json!([
        { "when": { "user": "look", "turn": 0 }, "reply": { "toolCalls": [{ "name": "look", "arguments": { "at": "{{user}}" } }] } },
        { "reply": { "text": "Done." } }
    ]);
    let pins = json!([{ "name": "p", "selector": { "tool": "look" }, "on_missing": "stale_last_success" }]);
    server.define_agent("a", rules.clone(), json!({ "toolRefs": ["look"], "pins": pins })).await;
    server.define_agent("b", rules.clone(), json!({ "toolRefs": ["look"], "pins": pins })).await;
    assert_eq!(server.run("a", "nothing yet").await["pins"]["p"], Value::Null);
    server.run("a", "look here").await;
    let latest = server.run("a", "look there").await;
    let stale = server.run("a", "say something").await;
    assert_eq!(stale["pins"]["p"], latest["pins"]["p"]);
    assert_eq!(stale["pins"]["p"]["input"], json!({ "at": "look there" }));
    // Runs of other agents or other principals do not get this envelope.
    assert_eq!(server.run("b", "say something").await["pins"]["p"], Value::Null);
    let member = server.member("someone").await;
    assert_eq!(member.run("a", "say something").await["pins"]["p"], Value::Null);
    // The agent `c` acts as `robot` for everyone, but its callers do not see each other's results.
    server.member("robot").await;
    let service = json!({ "toolRefs": ["look"], "pins": pins, "principalRef": "robot" });
    server.define_agent("c", rules, service).await;
    let own = server.run("c", "look here").await;
    assert_eq!(member.run("c", "say something").await["pins"]["p"], Value::Null);
    assert_eq!(server.run("c", "say something").await["pins"]["p"], own["pins"]["p"]);
    // A later GET of the run returns the same pins as the original response.
    let again = server.get(&format!("runs/{}", stale["runId"].as_str().unwrap())).await.expect(200);
    assert_eq!(again["pins"], stale["pins"]);
    // The pin remains in the response after its tool is disabled.
    server.patch("tools/look", json!({ "enabled": false })).await.expect(200);
    let off = server.run("a", "look once more").await;
    assert_eq!(off["pins"].as_object().unwrap().len(), 1);
    assert_eq!(off["status"], "COMPLETED");
}

fn names(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["refName"].as_str().unwrap().to_owned()).collect()
}

async fn tools_selected_by_name_precede_those_selected_by_category_or_tag(server: Server) {
    for (name, more) in [
        ("zeta", json!({ "category": "crm", "tags": ["t"] })),
        ("alpha", json!({ "category": "crm.deals" })),
        ("crmx", json!({ "category": "crmx" })),
        ("tagged", json!({ "tags": ["t"] })),
        ("named", json!({})),
        ("named_too", json!({ "category": "crm" })),
        ("excluded", json!({ "category": "crm", "tags": ["t"] })),
        ("disabled", json!({ "category": "crm", "enabled": false })),
        ("blocked", json!({ "category": "crm", "status": "blocked" })),
        ("not_for_agents", json!({ "category": "crm", "availableAs": ["workflowStep"] })),
    ] {
        server.define_echo(name, more).await;
    }
    server.define_agent("helper", json!([]), json!({ "description": "Helps." })).await;
    server.define_agent("sleeper", json!([]), json!({ "enabled": false })).await;
    let access = json!({ "toolRefs": ["named", "named_too", "NAMED", "excluded", "gone"], "toolCategories": ["crm"], "toolTags": ["t"],
        "excludedToolRefs": ["EXCLUDED"], "delegateAgentRefs": ["helper", "sleeper", "missing"] });
    server.define_agent("a", json!([]), access.clone()).await;
    let page = server.get("agents/a/tools").await.expect(200);
    let found = names(&page);
    assert_eq!(found[..2], ["named", "named_too"], "tools selected by name come first, in the order of the definition");
    let mut by_category = found[2..4].to_vec();
    by_category.sort();
    assert_eq!(by_category, ["alpha", "zeta"], "then tools of the category and its subcategories: {found:?}");
    assert_eq!(found[4..], ["tagged", "helper"], "then tools selected by tag, then delegates: {found:?}");
    let delegate = &page["items"].as_array().unwrap()[5];
    assert_eq!((&delegate["delegate"], &delegate["shown"]), (&json!(true), &json!(true)), "{delegate}");
    // If the number of tools in the context is limited, the tool `search_tools` counts as one of them. The other
    // offered tools are those that match the message best.
    server.patch("agents/a", json!({ "maxToolsInContext": 2 })).await.expect(200);
    let page = server.get("agents/a/tools?message=the%20tagged%20one").await.expect(200);
    let shown: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["shown"] == true)
        .map(|tool| tool["refName"].as_str().unwrap())
        .collect();
    assert_eq!(shown, ["tagged"], "{page}");
    assert_eq!(names(&page), found, "hidden tools are still listed");
    // Tools that the principal may not call are absent from the list.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.issue_key(json!({ "principal": "stranger", "realm": "other" })).await;
    server.patch("agents/a", json!({ "principalRef": "stranger" })).await.expect(200);
    assert_eq!(
        names(&server.get("agents/a/tools").await.expect(200)),
        ["helper"],
        "permission is checked before delegates are added"
    );
}

async fn tool_that_is_not_offered_to_the_model_can_be_found_and_called(server: Server) {
    for n in 0..20 {
        server.define_echo(&format!("filler_{n}"), json!({ "description": "Does nothing of use." })).await;
    }
    server
        .define_echo("send_invoice", json!({ "description": "Bills a customer for an order.", "category": "money" }))
        .await;
    server.define_echo("secret_invoice", json!({ "description": "Bills a customer for an order." })).await;
    let rules = json!([
        { "when": { "turn": 0, "offers": "send_invoice" }, "reply": { "text": "It was not hidden." } },
        { "when": { "turn": 0, "offers": "search_tools" }, "reply": { "toolCalls": [{ "name": "search_tools", "arguments": { "query": "bill a customer" } }] } },
        { "when": { "turn": 1, "offers": "secret_invoice" }, "reply": { "text": "It found too much." } },
        { "when": { "turn": 1, "offers": "send_invoice" }, "reply": { "toolCalls": [{ "name": "send_invoice", "arguments": { "to": "North" } }] } },
        { "when": { "afterTool": "send_invoice", "failed": false }, "reply": { "text": "Sent to {{result/to}}." } }
    ]);
    let fillers: Vec<String> = (0..20).map(|n| format!("filler_{n}")).collect();
    let access = json!({ "toolRefs": fillers, "toolCategories": ["money"], "maxToolsInContext": 3 });
    server.define_agent("a", rules.clone(), access.clone()).await;
    let response = server.run("a", "filler please").await;
    assert_eq!(response["responseText"], "Sent to North.", "{response}");
    let found = &envelopes(&response)[0]["output"]["tools"];
    assert_eq!(found[0]["name"], "send_invoice", "{found}");
    assert!(!found.to_string().contains("secret_invoice"), "the search covers only tools of the agent: {found}");
    // The model can call a tool of the agent by name, even if the tool was not offered in the context.
    let rules = calls_then(json!([{ "name": "send_invoice" }]), "Done.");
    server.define_agent("b", rules, access).await;
    assert_eq!(error_reasons(&server.run("b", "filler please").await), [Value::Null]);
}

async fn agent_calls_the_tool_version_that_its_definition_requires(server: Server) {
    let tool = |version: &str| json!({ "refName": "t", "toolType": "FUNCTION", "version": version, "invocation": { "path": "echo" } });
    server.post("tools", tool("1.0.0")).await.expect(201);
    for version in ["1.5.0", "2.0.0"] {
        server.put("tools/t", tool(version)).await.expect(200);
    }
    for (at, (wanted, version)) in
        [("t", "2.0.0"), ("t@^1", "1.5.0"), ("t@1.0.0", "1.0.0"), ("T@<2", "1.5.0")].into_iter().enumerate()
    {
        let name = format!("a{at}");
        server
            .define_agent(&name, calls_then(json!([{ "name": "t" }]), "Done."), json!({ "toolRefs": [wanted] }))
            .await;
        assert_eq!(envelopes(&server.run(&name, "go").await)[0]["version"], version, "{wanted}");
    }
    server.define_agent("none", calls_then(json!([{ "name": "t" }]), "Done."), json!({ "toolRefs": ["t@^9"] })).await;
    assert_eq!(names(&server.get("agents/none/tools").await.expect(200)), Vec::<String>::new());
    assert_eq!(error_reasons(&server.run("none", "go").await), ["not_allowed"]);
}

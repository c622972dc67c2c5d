//! What the systems of providers call things: fetched by tools, used for names and prompts.

use serde_json::{Value, json};

use crate::harness::{Edition, Home, Server, calls_then, promptly, receipts, scripted, with};

crate::on_both_editions!(
    reference_data_is_fetched_by_a_tool_and_kept,
    a_name_becomes_the_id_that_the_tool_wants,
    a_run_keeps_what_names_meant_when_they_were_looked_up,
    prompts_tell_what_there_is,
    wrong_sources_are_refused_with_their_places,
);

/// A provider whose users are what its tool is told they are.
fn provider(users: Value) -> Value {
    let source = json!({ "dataType": "users", "toolRef": "crm/users", "input": { "users": users }, "extractionPath": "$.users",
        "lookupFields": ["email"], "metadataFields": ["role"], "ttlSeconds": 3600 });
    json!({ "refName": "crm", "referenceData": [source] })
}

fn users() -> Value {
    json!([{ "id": 7, "name": "Ada Lovelace", "email": "ada@x.org", "role": "owner" }, { "id": 8, "name": "Bo" }, { "name": "nobody" }])
}

async fn begin(server: &Server) {
    server.define_echo("crm/users", json!({})).await;
    server.post("tool-providers", provider(users())).await.expect(201);
    let synced = server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    assert_eq!((&synced["results"][0]["created"], &synced["results"][0]["failed"]), (&json!(2), &json!(1)), "{synced}");
}

async fn define_assign(server: &Server) {
    let schema = json!({ "type": "object", "properties": { "owner_id": { "type": ["integer", "string"] }, "watchers": { "type": "array" } } });
    let more = json!({ "providerRef": "crm", "resolve": { "owner_id": "users", "watchers": "users" }, "inputJsonSchema": schema });
    server.define_echo("crm/assign", more).await;
}

async fn reference_data_is_fetched_by_a_tool_and_kept(server: Server) {
    begin(&server).await;
    let kept = server.get("tool-providers/crm/reference-data").await.expect(200);
    let ada = &kept["items"][0];
    assert_eq!(
        (&ada["id"], &ada["name"], &ada["status"]),
        (&json!(7), &json!("Ada Lovelace"), &json!("active")),
        "{kept}"
    );
    assert_eq!(ada["metadata"], json!({ "role": "owner", "email": "ada@x.org" }));
    assert!(kept["syncs"][0]["nextAt"].is_string() && kept["syncs"][0]["error"].is_null(), "{kept}");
    let page = server.get("tool-providers/crm/reference-data?limit=1&dataType=users").await.expect(200);
    let next = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("tool-providers/crm/reference-data?limit=1&cursor={next}")).await.expect(200);
    assert_eq!((&rest["items"][0]["name"], &rest["nextCursor"]), (&json!("Bo"), &Value::Null));

    let changed = json!([{ "id": 7, "name": "Ada King" }, { "id": 9, "name": "Cy" }]);
    server.put("tool-providers/crm", provider(changed)).await.expect(200);
    let synced =
        server.post("tool-providers/crm/sync?dataType=users", json!({})).await.expect(200)["results"][0].clone();
    let counts = ["itemsFound", "created", "updated", "deleted", "failed"].map(|count| synced[count].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1, 1, 0], "{synced}");
    let kept = server.get("tool-providers/crm/reference-data").await.expect(200);
    assert_eq!(kept["items"][1]["status"], "deleted");

    // A fetch that fails says so, and what was there stays.
    server.delete("tools/crm%2Fusers").await.expect(204);
    let synced = server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    assert!(synced["results"][0]["errors"][0].as_str().unwrap().contains("POLICY_DENIED"), "{synced}");
    let kept = server.get("tool-providers/crm/reference-data").await.expect(200);
    assert_eq!((kept["items"].as_array().unwrap().len(), kept["syncs"][0]["error"].is_string()), (3, true));

    server.post("tool-providers/crm/sync?dataType=teams", json!({})).await.problem(404, "not-found");
    server.post("tool-providers/none/sync", json!({})).await.problem(404, "not-found");
    server.get("tool-providers/crm/reference-data?limit=0").await.problem(400, "invalid-request");
    server.get("tool-providers/crm/reference-data?cursor=x").await.problem(400, "invalid-request");
    let member = server.member("someone").await;
    member.post("tool-providers/crm/sync", json!({})).await.problem(403, "forbidden");
}

async fn a_name_becomes_the_id_that_the_tool_wants(server: Server) {
    begin(&server).await;
    define_assign(&server).await;
    let call =
        async |input: Value| server.post("tools/crm%2Fassign/execute", json!({ "input": input })).await.expect(200);
    let envelope = call(json!({ "owner_id": "ada lovelace", "watchers": ["Bo", "8", "ada@x.org"] })).await;
    assert_eq!(envelope["output"], json!({ "owner_id": 7, "watchers": [8, "8", 7] }), "{envelope}");
    assert_eq!(envelope["input"]["owner_id"], "ada lovelace", "the receipt keeps what was given");
    assert_eq!(
        envelope["metadata"]["resolved_inputs"]["owner_id"],
        json!({ "original": "ada lovelace", "resolved": 7 })
    );

    let envelope = call(json!({ "owner_id": "Cy" })).await;
    assert_eq!(envelope["output"], json!({ "owner_id": "Cy" }));
    assert!(
        envelope["metadata"]["warnings"][0].as_str().unwrap().contains("nothing in `users` is called `Cy`"),
        "{envelope}"
    );
    assert!(envelope["metadata"].get("resolved_inputs").is_none());
    let envelope = call(json!({ "owner_id": 8 })).await;
    assert_eq!((&envelope["output"], envelope["metadata"].get("warnings")), (&json!({ "owner_id": 8 }), None));
}

async fn a_run_keeps_what_names_meant_when_they_were_looked_up(server: Server) {
    begin(&server).await;
    define_assign(&server).await;
    let rules = calls_then(json!([{ "name": "crm/assign", "arguments": { "owner_id": "Bo" } }]), "done");
    let agent = json!({ "refName": "clerk", "systemPrompt": "Assign.", "toolRefs": ["crm/assign"], "llmConfig": scripted(rules) });
    server.post("agents", agent).await.expect(201);
    let run = server.post("agents/clerk/execute", json!({ "userMessage": "go" })).await.expect(200);
    let receipt = &receipts(&run)[0];
    assert_eq!(receipt["output"], json!({ "owner_id": 8 }), "{run}");
    assert_eq!(receipt["metadata"]["resolved_inputs"]["owner_id"]["resolved"], 8);
    let bundle = server.get(&format!("runs/{}/export", run["runId"].as_str().unwrap())).await;
    assert_eq!(bundle.status.as_u16(), 200);
    let facts =
        bundle.text.lines().filter(|line| line.contains("\"resolved_inputs\"") && line.contains("definition_hash"));
    assert!(facts.count() >= 1, "the journal says what the name meant: {}", bundle.text);

    // Today the name means someone else; in the recording it does not.
    server.put("tool-providers/crm", provider(json!([{ "id": 99, "name": "Bo" }]))).await.expect(200);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    let request = server.request(reqwest::Method::POST, "runs/replay").body(bundle.text);
    let replayed = server.send(request).await.expect(200);
    assert_eq!(replayed["identical"], true, "{replayed}");
    let call = json!({ "input": { "owner_id": "Bo" } });
    assert_eq!(server.post("tools/crm%2Fassign/execute", call).await.expect(200)["output"], json!({ "owner_id": 99 }));
}

async fn prompts_tell_what_there_is(server: Server) {
    begin(&server).await;
    let agent = |name: &str, prompt: &str| json!({ "refName": name, "systemPrompt": prompt, "llmConfig": scripted(json!([{ "reply": { "text": "ok" } }])) });
    for (name, prompt, context, told) in [
        (
            "one",
            "Users:\n{{reference_data.users}}",
            json!({}),
            "# users\\n2 items\\n\\n- **Ada Lovelace** (ID: `7`)\\n  - email: ada@x.org\\n  - role: owner\\n- **Bo** (ID: `8`)",
        ),
        ("all", "{{reference_data}}", json!({}), "# users\\n2 items"),
        ("none", "{{reference_data.stages}}", json!({}), "No stages data available."),
        ("own", "{{reference_data.users}}", json!({ "reference_data": { "users": "just me" } }), "just me"),
    ] {
        server.post("agents", agent(name, prompt)).await.expect(201);
        let path = format!("agents/{name}/execute");
        let run = server.post(&path, json!({ "userMessage": "go", "context": context })).await.expect(200);
        let bundle = server.get(&format!("runs/{}/export", run["runId"].as_str().unwrap())).await.text;
        assert!(bundle.contains(told), "{name}: {bundle}");
    }
}

async fn wrong_sources_are_refused_with_their_places(server: Server) {
    let source = |more: Value| with(json!({ "dataType": "users", "toolRef": "t" }), more);
    for (sources, path) in [
        (json!([source(json!({ "dataType": "a b" }))]), "/referenceData/0/dataType"),
        (json!([source(json!({})), source(json!({}))]), "/referenceData/1/dataType"),
        (json!([source(json!({ "toolRef": "" }))]), "/referenceData/0/toolRef"),
        (json!([source(json!({ "extractionPath": "$[" }))]), "/referenceData/0/extractionPath"),
        (json!([source(json!({ "ttlSeconds": 1 }))]), "/referenceData/0/ttlSeconds"),
        (json!([source(json!({ "unknown": 1 }))]), "/referenceData/0/unknown"),
    ] {
        let body = json!({ "refName": "p", "referenceData": sources });
        let problem = server.post("tool-providers", body.clone()).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
    }
    let tool = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "resolve": { "a": "users" } });
    let problem = server.post("tools", tool).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/resolve");
}

/// What waited for a person is prepared again by the next server, and names mean what they meant then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waited_gets_what_its_name_meant() {
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) = home.start().await;
    let provider = |users: Value| json!({ "refName": "crm", "referenceData": [{ "dataType": "users", "toolRef": "list", "input": { "users": users }, "extractionPath": "$.users" }] });
    server.define_echo("list", json!({})).await;
    server.post("tool-providers", provider(json!([{ "id": 8, "name": "Bo" }]))).await.expect(201);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    server.define_echo("assign", json!({ "providerRef": "crm", "resolve": { "owner": "users" }, "requiresConfirmation": true, "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "assign", "arguments": { "owner": "Bo" } }]), "done");
    server
        .post("agents", json!({ "refName": "clerk", "toolRefs": ["assign"], "llmConfig": scripted(rules) }))
        .await
        .expect(201);
    let waiting = server.post("agents/clerk/execute", json!({ "userMessage": "go" })).await.expect(200);
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");

    server.put("tool-providers/crm", provider(json!([{ "id": 99, "name": "Bo" }]))).await.expect(200);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    running.stop().await;
    let (server, running) = home.start().await;
    let (run, call) = (waiting["runId"].as_str().unwrap(), waiting["approvals"][0]["callId"].as_str().unwrap());
    let path = format!("runs/{run}/approvals/{call}");
    let response = promptly(server.post(&path, json!({ "decision": "approve" }))).await.expect(200);
    assert_eq!(receipts(&response)[0]["output"], json!({ "owner": 8 }), "{response}");
    running.stop().await;
    home.remove().await;
}

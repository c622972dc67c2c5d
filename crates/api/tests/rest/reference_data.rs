//! Tests reference data of providers: synchronisation, the resolution of names in tool inputs, and prompts.

use serde_json::{Value, json};

use crate::harness::{Deployment, Server, Storage, calls_then, envelopes, merge, scripted_model, within_two_seconds};

crate::on_both_databases!(
    reference_data_is_fetched_with_a_tool_and_stored,
    name_in_the_input_is_resolved_to_its_id,
    failed_call_with_an_unknown_name_lists_the_closest_names,
    replay_uses_the_recorded_id_of_a_name,
    prompt_is_filled_with_reference_data,
    invalid_reference_source_is_rejected_with_its_path,
);

/// Returns a provider whose reference data are `users`. The tool `crm/users`, which fetches the reference data, returns
/// its input.
fn provider(users: Value) -> Value {
    let source = json!({ "dataType": "users", "toolRef": "crm/users", "input": { "users": users }, "extractionPath": "$.users",
        "lookupFields": ["email"], "metadataFields": ["role"], "ttlSeconds": 3600 });
    json!({ "refName": "crm", "referenceData": [source] })
}

fn users() -> Value {
    json!([{ "id": 7, "name": "Ada Lovelace", "email": "ada@x.org", "role": "owner" }, { "id": 8, "name": "Bo" }, { "name": "nobody" }])
}

async fn define_and_sync_users(server: &Server) {
    server.define_echo("crm/users", json!({})).await;
    server.post("tool-providers", provider(users())).await.expect(201);
    let synced = server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    assert_eq!((&synced["results"][0]["created"], &synced["results"][0]["failed"]), (&json!(2), &json!(1)), "{synced}");
}

async fn define_assign_tool(server: &Server) {
    let schema = json!({ "type": "object", "properties": { "owner_id": { "type": ["integer", "string"] }, "watchers": { "type": "array" } } });
    let more = json!({ "providerRef": "crm", "resolve": { "owner_id": "users", "watchers": "users" }, "inputJsonSchema": schema });
    server.define_echo("crm/assign", more).await;
}

async fn reference_data_is_fetched_with_a_tool_and_stored(server: Server) {
    define_and_sync_users(&server).await;
    let stored = server.get("tool-providers/crm/reference-data").await.expect(200);
    let ada = &stored["items"][0];
    assert_eq!(
        (&ada["id"], &ada["name"], &ada["status"]),
        (&json!(7), &json!("Ada Lovelace"), &json!("active")),
        "{stored}"
    );
    assert_eq!(ada["metadata"], json!({ "role": "owner", "email": "ada@x.org" }));
    assert!(stored["syncs"][0]["nextSyncAt"].is_string() && stored["syncs"][0]["error"].is_null(), "{stored}");
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
    let stored = server.get("tool-providers/crm/reference-data").await.expect(200);
    assert_eq!(stored["items"][1]["status"], "deleted");

    // A failed sync is reported and keeps the stored items.
    server.delete("tools/crm%2Fusers").await.expect(204);
    let synced = server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    assert!(synced["results"][0]["errors"][0].as_str().unwrap().contains("POLICY_DENIED"), "{synced}");
    let stored = server.get("tool-providers/crm/reference-data").await.expect(200);
    assert_eq!((stored["items"].as_array().unwrap().len(), stored["syncs"][0]["error"].is_string()), (3, true));

    server.post("tool-providers/crm/sync?dataType=teams", json!({})).await.problem(404, "not-found");
    server.post("tool-providers/none/sync", json!({})).await.problem(404, "not-found");
    server.get("tool-providers/crm/reference-data?limit=0").await.problem(400, "invalid-request");
    server.get("tool-providers/crm/reference-data?cursor=x").await.problem(400, "invalid-request");
    let member = server.member("someone").await;
    member.post("tool-providers/crm/sync", json!({})).await.problem(403, "forbidden");
}

async fn name_in_the_input_is_resolved_to_its_id(server: Server) {
    define_and_sync_users(&server).await;
    define_assign_tool(&server).await;
    let call =
        async |input: Value| server.post("tools/crm%2Fassign/execute", json!({ "input": input })).await.expect(200);
    let envelope = call(json!({ "owner_id": "ada lovelace", "watchers": ["Bo", "8", "ada@x.org"] })).await;
    assert_eq!(envelope["output"], json!({ "owner_id": 7, "watchers": [8, "8", 7] }), "{envelope}");
    assert_eq!(envelope["input"]["owner_id"], "ada lovelace", "the envelope keeps the original input");
    assert_eq!(
        envelope["metadata"]["resolved_inputs"]["owner_id"],
        json!({ "original": "ada lovelace", "resolved": 7 })
    );

    let envelope = call(json!({ "owner_id": "Cy" })).await;
    assert_eq!(envelope["output"], json!({ "owner_id": "Cy" }));
    assert!(
        envelope["metadata"]["warnings"][0].as_str().unwrap().contains("`users` has no item named `Cy`"),
        "{envelope}"
    );
    assert!(envelope["metadata"].get("resolved_inputs").is_none());
    let envelope = call(json!({ "owner_id": 8 })).await;
    assert_eq!((&envelope["output"], envelope["metadata"].get("warnings")), (&json!({ "owner_id": 8 }), None));
}

async fn failed_call_with_an_unknown_name_lists_the_closest_names(server: Server) {
    define_and_sync_users(&server).await;
    let schema = json!({ "type": "object", "properties": { "owner_id": { "type": "integer" } } });
    let more = json!({ "providerRef": "crm", "resolve": { "owner_id": "users" }, "inputJsonSchema": schema });
    server.define_echo("crm/assign", more).await;
    let envelope = server.call("crm%2Fassign", json!({ "owner_id": "Ada Lovelance" })).await;
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
    let expected = "owner_id: `users` has no item named `Ada Lovelance`; the closest names are `Ada Lovelace`";
    assert!(envelope["error"]["message"].as_str().unwrap().ends_with(expected), "{envelope}");
    assert_eq!(envelope["error"]["details"]["unknownNames"], json!([expected]));
}

async fn replay_uses_the_recorded_id_of_a_name(server: Server) {
    define_and_sync_users(&server).await;
    define_assign_tool(&server).await;
    let rules = calls_then(json!([{ "name": "crm/assign", "arguments": { "owner_id": "Bo" } }]), "done");
    let agent = json!({ "refName": "clerk", "systemPrompt": "Assign.", "toolRefs": ["crm/assign"], "llmConfig": scripted_model(rules) });
    server.post("agents", agent).await.expect(201);
    let run = server.post("agents/clerk/execute", json!({ "userMessage": "go" })).await.expect(200);
    let envelope = &envelopes(&run)[0];
    assert_eq!(envelope["output"], json!({ "owner_id": 8 }), "{run}");
    assert_eq!(envelope["metadata"]["resolved_inputs"]["owner_id"]["resolved"], 8);
    let bundle = server.get(&format!("runs/{}/export", run["runId"].as_str().unwrap())).await;
    assert_eq!(bundle.status.as_u16(), 200);
    let facts =
        bundle.text.lines().filter(|line| line.contains("\"resolved_inputs\"") && line.contains("definition_hash"));
    assert!(facts.count() >= 1, "the journal records the resolution: {}", bundle.text);

    // The name now resolves to another id, but the replay uses the id in the journal.
    server.put("tool-providers/crm", provider(json!([{ "id": 99, "name": "Bo" }]))).await.expect(200);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    let request = server.request(reqwest::Method::POST, "runs/replay").body(bundle.text);
    let replayed = server.send(request).await.expect(200);
    assert_eq!(replayed["identical"], true, "{replayed}");
    let call = json!({ "input": { "owner_id": "Bo" } });
    assert_eq!(server.post("tools/crm%2Fassign/execute", call).await.expect(200)["output"], json!({ "owner_id": 99 }));
}

async fn prompt_is_filled_with_reference_data(server: Server) {
    define_and_sync_users(&server).await;
    let agent = |name: &str, prompt: &str| json!({ "refName": name, "systemPrompt": prompt, "llmConfig": scripted_model(json!([{ "reply": { "text": "ok" } }])) });
    for (name, prompt, context, expected) in [
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
        assert!(bundle.contains(expected), "{name}: {bundle}");
    }
}

async fn invalid_reference_source_is_rejected_with_its_path(server: Server) {
    let source = |more: Value| merge(json!({ "dataType": "users", "toolRef": "t" }), more);
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

/// After the restart, the server prepares the waiting call again. It uses the id that the journal recorded for the
/// name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_approved_after_a_restart_uses_the_recorded_id_of_a_name() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let provider = |users: Value| json!({ "refName": "crm", "referenceData": [{ "dataType": "users", "toolRef": "list", "input": { "users": users }, "extractionPath": "$.users" }] });
    server.define_echo("list", json!({})).await;
    server.post("tool-providers", provider(json!([{ "id": 8, "name": "Bo" }]))).await.expect(201);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    server.define_echo("assign", json!({ "providerRef": "crm", "resolve": { "owner": "users" }, "requiresConfirmation": true, "sideEffects": "writes" })).await;
    let rules = calls_then(json!([{ "name": "assign", "arguments": { "owner": "Bo" } }]), "done");
    server
        .post("agents", json!({ "refName": "clerk", "toolRefs": ["assign"], "llmConfig": scripted_model(rules) }))
        .await
        .expect(201);
    let waiting = server.post("agents/clerk/execute", json!({ "userMessage": "go" })).await.expect(200);
    assert_eq!(waiting["status"], "AWAITING_APPROVAL", "{waiting}");

    server.put("tool-providers/crm", provider(json!([{ "id": 99, "name": "Bo" }]))).await.expect(200);
    server.post("tool-providers/crm/sync", json!({})).await.expect(200);
    running.stop().await;
    let (server, running) = deployment.start().await;
    let (run, call) = (waiting["runId"].as_str().unwrap(), waiting["approvals"][0]["callId"].as_str().unwrap());
    let path = format!("runs/{run}/approvals/{call}");
    let response = within_two_seconds(server.post(&path, json!({ "decision": "approve" }))).await.expect(200);
    assert_eq!(envelopes(&response)[0]["output"], json!({ "owner": 8 }), "{response}");
    running.stop().await;
    deployment.remove().await;
}

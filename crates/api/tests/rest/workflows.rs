//! Tests the definitions of workflows, step registrations and condition bindings.

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::harness::{Response, Server};

crate::on_both_databases!(
    workflow_can_be_created_versioned_read_and_removed,
    workflow_with_invalid_steps_is_rejected_with_json_pointers,
    workflow_can_be_written_and_read_as_yaml,
    step_registration_and_condition_binding_can_be_written_and_read_as_yaml,
    errors_of_a_yaml_workflow_have_lines_and_columns,
    check_of_a_workflow_returns_all_issues_and_writes_nothing,
    workflow_is_drawn_as_a_graph_in_three_formats,
    workflows_are_compared_with_versions_and_definitions,
    step_registration_and_condition_binding_can_be_created_changed_and_removed,
    invalid_step_registrations_and_condition_bindings_are_rejected,
    deletion_of_a_part_of_a_workflow_names_the_workflow,
    uses_of_a_tool_contain_workflows_and_step_registrations,
    lists_of_workflow_definitions_are_filtered_and_compared,
    members_read_workflow_definitions_and_do_not_write_them,
    workflow_definitions_of_another_realm_do_not_exist
);

fn workflow(name: &str, steps: Value) -> Value {
    json!({ "name": name, "version": "1.0.0", "steps": steps })
}

fn step(name: &str, handler: &str) -> Value {
    json!({ "name": name, "handlerRef": handler })
}

async fn send_yaml(server: &Server, method: Method, path: &str, text: &str) -> Response {
    let request = server.request(method, path).header(CONTENT_TYPE, "application/yaml").body(text.to_owned());
    server.send(request).await
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["refName"].as_str().unwrap()).collect()
}

async fn workflow_can_be_created_versioned_read_and_removed(server: Server) {
    let created = server.post("workflows", workflow("Orders/Fulfil", json!([step("a", "echo")]))).await;
    assert_eq!(created.headers["etag"], "\"1\"");
    let created = created.expect(201);
    assert!(created["id"].as_str().unwrap().starts_with("wf_"), "{created}");
    assert_eq!((&created["refName"], &created["name"]), (&json!("Orders/Fulfil"), &json!("Orders/Fulfil")));
    for reference in ["Orders%2FFulfil", "orders%2ffulfil", "orders%2ffulfil@^1", created["id"].as_str().unwrap()] {
        assert_eq!(server.get(&format!("workflows/{reference}")).await.expect(200), created);
    }
    server.post("workflows", workflow("orders/fulfil", json!([step("a", "echo")]))).await.problem(409, "duplicate");
    // The server accepts a definition exactly as a GET request returned it.
    assert_eq!(server.put("workflows/orders%2ffulfil", created.clone()).await.expect(200)["revision"], 2);

    let mut second = workflow("Orders/Fulfil", json!([step("a", "echo"), step("b", "echo")]));
    second["version"] = json!("2.0.0");
    second["inputSchema"] = json!({ "type": "object", "required": ["order"], "properties": { "order": {} } });
    second["outputSchema"] = json!({ "anyOf": [{ "type": "object" }, { "type": "null" }] });
    server.put("workflows/orders%2ffulfil", second).await.expect(200);
    let versions = server.get("workflows/orders%2ffulfil/versions").await.expect(200);
    let listed: Vec<&Value> = versions["items"].as_array().unwrap().iter().map(|item| &item["version"]).collect();
    assert_eq!(listed, ["2.0.0", "1.0.0"]);
    assert_eq!(server.get("workflows/orders%2ffulfil?version=^1").await.expect(200)["version"], "1.0.0");
    let patch = json!({ "version": "2.0.0", "description": "Fulfils orders.", "layout": { "a": { "x": 1 } } });
    let patched = server.patch("workflows/orders%2ffulfil", patch).await.expect(200);
    assert_eq!((&patched["description"], &patched["layout"]["a"]["x"]), (&json!("Fulfils orders."), &json!(1)));
    let diff = server.get("workflows/orders%2ffulfil/revisions/3/diff/4").await.expect(200);
    assert!(diff["changes"].to_string().contains("/description"), "{diff}");
    assert_eq!(
        server.get("workflows/orders%2ffulfil/revisions").await.expect(200)["items"].as_array().unwrap().len(),
        4
    );

    let stale = server.request(Method::DELETE, "workflows/orders%2ffulfil").header("if-match", "\"1\"");
    server.send(stale).await.problem(412, "stale-revision");
    server.delete("workflows/orders%2ffulfil").await.expect(204);
    server.get("workflows/orders%2ffulfil").await.problem(404, "not-found");
}

async fn workflow_with_invalid_steps_is_rejected_with_json_pointers(server: Server) {
    let problem = server.post("workflows", workflow("empty", json!([]))).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/steps", "{problem}");
    for (body, path, expected) in [
        (workflow("w", json!([step("1a", "echo")])), "/steps/0/name", "start with a letter"),
        (workflow("w", json!([step("item", "echo")])), "/steps/0/name", "another meaning"),
        (workflow("w", json!([step("a", "echo"), step("a", "echo")])), "/steps/1/name", "rename one"),
        (
            workflow(
                "w",
                json!([{ "name": "load", "handlerRef": "echo" }, { "name": "b", "handlerRef": "echo", "dependsOn": ["laod"] }]),
            ),
            "/steps/1/dependsOn/0",
            "did you mean `load`?",
        ),
        (workflow("Quantum.wait", json!([step("a", "echo")])), "/refName", "`quantum.`"),
        (workflow("not a name", json!([step("a", "echo")])), "/refName", "use letters"),
        (
            workflow("w", json!([{ "name": "a", "handlerRef": "echo", "retries": 3 }])),
            "/steps/0/retries",
            "unknown field",
        ),
        (workflow("w", json!([{ "name": "a", "handlerRef": "echo", "timeout": "soon" }])), "/steps/0/timeout", "30s"),
        (workflow("w", json!([["a", "echo"]])), "/steps/0", "must be an object, not an array"),
        (
            workflow("w", json!([{ "name": "a", "handlerRef": "echo", "retry": [3] }])),
            "/steps/0/retry",
            "must be an object, not an array",
        ),
        (
            json!({ "refName": "w", "limits": ["1m"], "steps": [step("a", "echo")] }),
            "/limits",
            "must be an object, not an array",
        ),
        (json!({ "refName": "w", "name": "x".repeat(129), "steps": [step("a", "echo")] }), "/name", "128"),
        (
            json!({ "refName": "w", "securityUri": "ai://x", "steps": [step("a", "echo")] }),
            "/securityUri",
            "ai://workflows",
        ),
    ] {
        let problem = server.post("workflows", body.clone()).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(expected), "{body}: {problem}");
    }
    // `route.large` is the case `large` of the branch `route`.
    let cases = json!({ "cases": [{ "name": "large", "when": "${input.amount > 100}" }], "default": "small" });
    let branches = json!([
        { "name": "route", "handlerRef": "quantum.flow.branch", "input": cases },
        { "name": "b", "handlerRef": "echo", "dependsOn": ["route.large"] },
    ]);
    server.post("workflows", workflow("branches", branches)).await.expect(201);
    let guarded =
        json!({ "refName": "guarded", "securityUri": "ai://workflows/guarded/execute", "steps": [step("a", "echo")] });
    server.post("workflows", guarded).await.expect(201);
}

async fn workflow_can_be_written_and_read_as_yaml(server: Server) {
    let text = "name: nightly\nversion: 1.0.0\nsteps:\n- name: load\n  handlerRef: echo\n  onError:\n    fallback: notify\n- name: notify\n  handlerRef: echo\n  input: { text: '${steps.load.error.code}' }\n  timeout: 90s\n";
    let created = send_yaml(&server, Method::POST, "workflows", text).await.expect(201);
    assert_eq!((&created["refName"], &created["steps"][1]["timeout"]), (&json!("nightly"), &json!("90s")));

    let read = server.get("workflows/nightly?format=yaml").await;
    assert_eq!(
        (read.headers["content-type"].to_str().unwrap(), &read.headers["etag"]),
        ("application/yaml", &"\"1\"".parse().unwrap())
    );
    for managed in ["revision", "createdBy", "contentHash"] {
        assert!(!read.text.contains(managed), "{}", read.text);
    }
    assert!(read.text.contains("fallback: notify"), "{}", read.text);
    let accepted = server
        .send(server.request(Method::GET, "workflows/nightly").header(ACCEPT, "text/html, application/yaml"))
        .await;
    assert_eq!(accepted.text, read.text);
    let json = server
        .send(server.request(Method::GET, "workflows/nightly?format=json").header(ACCEPT, "application/yaml"))
        .await;
    assert_eq!(json.expect(200), created);

    // The printed text is accepted, and writing it changes nothing.
    let again = send_yaml(&server, Method::PUT, "workflows/nightly", &read.text).await.expect(200);
    assert_eq!((&again["revision"], &again["contentHash"]), (&json!(2), &created["contentHash"]));
    server.get("workflows/nightly?format=gram").await.problem(400, "invalid-request");
    server.get("tools/echo?format=yaml").await.problem(400, "invalid-request");
}

async fn step_registration_and_condition_binding_can_be_written_and_read_as_yaml(server: Server) {
    for (collection, text) in [
        ("step-registrations", "name: part\ntoolRef: echo\ninputMapping:\n  text: ${input.orders}\n"),
        ("condition-bindings", "name: part\ncondition: ${input.amount > 1000}\n"),
    ] {
        let created = send_yaml(&server, Method::POST, collection, text).await.expect(201);
        let read = server.get(&format!("{collection}/part?format=yaml")).await;
        assert_eq!(read.headers["content-type"], "application/yaml");
        let again = send_yaml(&server, Method::PUT, &format!("{collection}/part"), &read.text).await.expect(200);
        assert_eq!(again["contentHash"], created["contentHash"], "{}", read.text);
        let problem = send_yaml(&server, Method::PUT, &format!("{collection}/part"), "name: part\ncolour: red\n").await;
        let problem = problem.problem(422, "invalid-definition");
        let error = problem["errors"].as_array().unwrap().iter().find(|error| error["path"] == "/colour").unwrap();
        assert_eq!((&error["line"], &error["column"]), (&json!(2), &json!(9)), "{problem}");
    }
}

async fn check_of_a_workflow_returns_all_issues_and_writes_nothing(server: Server) {
    let valid = server.post("workflows/check", workflow("w", json!([step("a", "echo")]))).await.expect(200);
    assert_eq!(valid, json!({ "valid": true, "issues": [] }));
    let text =
        "name: check\nsteps:\n- name: load\n  handlerRef: echo\n- name: b\n  handlerRef: echo\n  dependsOn: [laod]\n";
    let checked = send_yaml(&server, Method::POST, "workflows/check", text).await.expect(200);
    assert_eq!(checked["valid"], false);
    assert_eq!(
        checked["issues"],
        json!([
            { "severity": "error", "code": "reserved_name", "path": "/refName", "message": "`check` is the name of a route",
                "hint": "choose another name", "line": 1, "column": 1 },
            { "severity": "error", "code": "unknown_step", "path": "/steps/1/dependsOn/0",
                "message": "step `laod` does not exist", "hint": "did you mean `load`?", "line": 7, "column": 15 },
        ])
    );
    let unreadable = "name: w\nsteps:\n- { name: a, handlerRef: echo, retries: 3 }\n";
    let checked = send_yaml(&server, Method::POST, "workflows/check", unreadable).await.expect(200);
    assert_eq!(
        (&checked["issues"][0]["code"], &checked["issues"][0]["path"]),
        (&json!("invalid_field"), &json!("/steps/0/retries")),
        "{checked}"
    );
    server.get("workflows/w").await.problem(404, "not-found");
    send_yaml(&server, Method::POST, "workflows/check", "a: [").await.problem(400, "invalid-yaml");

    server.post("workflows", workflow("w", json!([step("a", "echo")]))).await.expect(201);
    let stored = server.post("workflows/w@^1/check", json!({})).await.expect(200);
    assert_eq!(stored, json!({ "valid": true, "issues": [] }));
    server.post("workflows/missing/check", json!({})).await.problem(404, "not-found");
    server.post("workflows/w/check?version=9.0.0", json!({})).await.problem(404, "not-found");
    let member = server.member("ada").await;
    member.post("workflows/check", workflow("w", json!([step("a", "echo")]))).await.problem(403, "forbidden");
    member.post("workflows/w/check", json!({})).await.expect(200);
}

async fn errors_of_a_yaml_workflow_have_lines_and_columns(server: Server) {
    let text = "name: nightly\nsteps:\n- name: load\n  handlerRef: echo\n- name: 2nd\n  handlerRef: echo\n  dependsOn: [load, laod]\n";
    let problem = send_yaml(&server, Method::POST, "workflows", text).await.problem(422, "invalid-definition");
    let places: Vec<(&Value, &Value, &Value)> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (&error["path"], &error["line"], &error["column"]))
        .collect();
    assert_eq!(
        places,
        [(&json!("/steps/1/name"), &json!(5), &json!(9)), (&json!("/steps/1/dependsOn/1"), &json!(7), &json!(21))],
        "{problem}"
    );
    let problem =
        send_yaml(&server, Method::POST, "workflows", "name: x\nsteps: [\n").await.problem(400, "invalid-yaml");
    assert_eq!(problem["errors"][0]["line"], 3, "{problem}");
    send_yaml(&server, Method::POST, "workflows", "name: x\nname: y\n").await.problem(400, "invalid-yaml");
    send_yaml(&server, Method::POST, "workflows", "- 1\n").await.problem(422, "invalid-definition");
    // Other kinds of definitions are read as JSON.
    send_yaml(&server, Method::POST, "prompt-fragments", "name: x\n").await.problem(400, "invalid-json");
}

async fn workflow_is_drawn_as_a_graph_in_three_formats(server: Server) {
    let steps = json!([step("load", "echo"), { "name": "b", "handlerRef": "echo", "dependsOn": ["load"] }]);
    server.post("workflows", workflow("w", steps)).await.expect(201);
    let second = json!({ "name": "w", "version": "2.0.0", "steps": [step("other", "echo")] });
    server.put("workflows/w", second).await.expect(200);
    for (query, media_type, expected) in [
        ("@^1/graph", "text/plain; charset=utf-8", "s0 --> s1"),
        ("/graph?format=mermaid&version=1.0.0", "text/plain; charset=utf-8", "flowchart LR"),
        ("/graph?format=dot&version=1.0.0", "text/vnd.graphviz; charset=utf-8", "s0 -> s1"),
        ("/graph?format=svg", "image/svg+xml", ">other</text>"),
    ] {
        let drawn = server.get(&format!("workflows/w{query}")).await;
        assert_eq!(drawn.headers["content-type"], media_type, "{}", drawn.text);
        assert!(drawn.text.contains(expected), "{query}: {}", drawn.text);
        assert_eq!(drawn.headers["content-security-policy"], "default-src 'none'; style-src 'unsafe-inline'");
    }
    server.get("workflows/w/graph?format=png").await.problem(400, "invalid-request");
    server.get("workflows/missing/graph").await.problem(404, "not-found");
    let large: Vec<Value> = (0..2001).map(|at| step(&format!("s{at}"), "echo")).collect();
    server.post("workflows", workflow("large", large.into())).await.expect(201);
    server.get("workflows/large/graph").await;
    let refused = server.get("workflows/large/graph?format=svg").await.problem(400, "invalid-request");
    assert!(refused["detail"].as_str().unwrap().contains("2000 steps, got 2001"), "{refused}");
}

async fn workflows_are_compared_with_versions_and_definitions(server: Server) {
    server.post("workflows", workflow("w", json!([step("load", "echo")]))).await.expect(201);
    let second = json!({ "name": "w", "version": "2.0.0", "steps": [step("load", "echo"), step("b", "echo")] });
    server.put("workflows/w", second.clone()).await.expect(200);
    let compared = server.post("workflows/w@1.0.0/diff", json!({ "ref": "w@^2" })).await.expect(200);
    assert_eq!(compared["equal"], false);
    assert_eq!(compared["steps"], json!([{ "change": "added", "name": "b", "handlerRef": "echo" }]));
    assert_eq!(compared["fields"], json!([{ "path": "/version", "before": "1.0.0", "after": "2.0.0" }]));
    assert!(compared["text"].as_str().unwrap().contains("+ step b: echo\n"), "{compared}");
    let compared = server.post("workflows/w/diff", json!({ "definition": second })).await.expect(200);
    assert_eq!((&compared["equal"], &compared["text"]), (&json!(true), &json!("")));

    let invalid = json!({ "definition": { "name": "w", "steps": 1 } });
    let problem = server.post("workflows/w/diff", invalid).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/definition/steps", "{problem}");
    server.post("workflows/w/diff", json!({})).await.problem(400, "invalid-request");
    server.post("workflows/w/diff", json!({ "ref": "missing" })).await.problem(404, "not-found");
    server.post("workflows/w/diff?version=9", json!({ "ref": "w" })).await.problem(404, "not-found");
}

async fn step_registration_and_condition_binding_can_be_created_changed_and_removed(server: Server) {
    let registration = json!({ "name": "validate_orders", "toolRef": "echo@^1", "inputMapping": { "text": "${input.orders}" },
        "outputMapping": { "errors": "${output.text}" } });
    let created = server.post("step-registrations", registration).await.expect(201);
    assert!(created["id"].as_str().unwrap().starts_with("step_"), "{created}");
    assert_eq!((&created["name"], &created["refName"]), (&json!("validate_orders"), &json!("validate_orders")));
    assert_eq!(server.put("step-registrations/Validate_orders", created.clone()).await.expect(200)["revision"], 2);
    let patched = server.patch("step-registrations/validate_orders", json!({ "enabled": false })).await.expect(200);
    assert_eq!((&patched["enabled"], &patched["toolRef"]), (&json!(false), &json!("echo@^1")));
    let renamed = server.patch("step-registrations/validate_orders", json!({ "name": "other" })).await;
    assert_eq!(renamed.problem(422, "invalid-definition")["errors"][0]["path"], "/name");
    server.delete("step-registrations/validate_orders").await.expect(204);

    let condition = json!({ "refName": "is-large", "condition": "${input.amount > 1000}" });
    let created = server.post("condition-bindings", condition.clone()).await.expect(201);
    assert!(created["id"].as_str().unwrap().starts_with("cond_"), "{created}");
    assert_eq!((&created["name"], &created["refName"]), (&json!("is-large"), &json!("is-large")));
    server.post("condition-bindings", condition).await.problem(409, "duplicate");
    server.patch("condition-bindings/is-large", json!({ "condition": "${input.amount > 2000}" })).await.expect(200);
    let first = server.get("condition-bindings/is-large?version=1").await.expect(200);
    assert_eq!(first["condition"], "${input.amount > 1000}");
    server.delete("condition-bindings/is-large").await.expect(204);
}

async fn invalid_step_registrations_and_condition_bindings_are_rejected(server: Server) {
    for (collection, body, path, expected) in [
        ("step-registrations", json!({ "name": "s", "toolRef": "" }), "/toolRef", "name of a tool"),
        ("step-registrations", json!({ "name": "s", "toolRef": "echo@soon" }), "/toolRef", "version requirement"),
        (
            "step-registrations",
            json!({ "name": "s", "toolRef": "echo", "inputMapping": { "a/b": "${input" } }),
            "/inputMapping/a~1b",
            "}",
        ),
        (
            "step-registrations",
            json!({ "name": "s", "toolRef": "echo", "outputMapping": { "x": "${1 +}" } }),
            "/outputMapping/x",
            "",
        ),
        ("step-registrations", json!({ "name": "quantum.s", "toolRef": "echo" }), "/name", "`quantum.`"),
        (
            "step-registrations",
            json!({ "name": "a", "refName": "b", "toolRef": "echo" }),
            "/name",
            "must be equal to `refName`",
        ),
        ("step-registrations", json!({ "toolRef": "echo" }), "", "name"),
        ("condition-bindings", json!({ "name": "c", "condition": "input.ok" }), "/condition", "one `${…}` expression"),
        ("condition-bindings", json!({ "name": "c", "condition": "${a} ${b}" }), "/condition", "one `${…}` expression"),
        ("condition-bindings", json!({ "name": "c", "condition": "${a ==}" }), "/condition", ""),
        ("condition-bindings", json!({ "name": "QUANTUM.c", "condition": "${a}" }), "/name", "`quantum.`"),
    ] {
        let problem = server.post(collection, body.clone()).await.problem(422, "invalid-definition");
        assert_eq!(problem["errors"][0]["path"], path, "{body}: {problem}");
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains(expected), "{body}: {problem}");
    }
    let saved = server.post("step-registrations", json!({ "name": "s", "toolRef": "later" })).await.expect(201);
    assert_eq!(saved["warnings"], json!(["no tool `later` exists yet"]));
}

async fn deletion_of_a_part_of_a_workflow_names_the_workflow(server: Server) {
    server.define_echo("crm/find", json!({})).await;
    server.post("step-registrations", json!({ "name": "find", "toolRef": "crm/find" })).await.expect(201);
    server.post("condition-bindings", json!({ "name": "is-large", "condition": "${input.large}" })).await.expect(201);
    let steps = json!([{ "name": "a", "handlerRef": "Find", "conditionRef": "Is-Large" }, step("b", "CRM/find@^1")]);
    server.post("workflows", workflow("fulfil", steps)).await.expect(201);
    for (path, warning) in [
        ("condition-bindings/is-large", "workflow `fulfil` uses this condition binding"),
        ("tools/crm%2Ffind", "workflow `fulfil` uses this tool; step registration `find` uses this tool"),
        ("step-registrations/find", "workflow `fulfil` uses this step registration"),
    ] {
        assert_eq!(server.delete(path).await.expect(200), json!({ "warnings": [warning] }), "{path}");
    }
}

async fn uses_of_a_tool_contain_workflows_and_step_registrations(server: Server) {
    server.define_echo("crm/find", json!({})).await;
    server.define_echo("load", json!({})).await;
    server.post("step-registrations", json!({ "name": "load", "toolRef": "crm/find@^1" })).await.expect(201);
    server
        .post("workflows", workflow("direct", json!([step("a", "crm/find"), step("b", "crm/find")])))
        .await
        .expect(201);
    server.post("workflows", workflow("registered", json!([step("a", "load")]))).await.expect(201);
    let uses = server.get("tools/crm%2Ffind/uses").await.expect(200);
    assert_eq!(uses["workflows"], json!([{ "refName": "direct", "by": ["step"] }]));
    assert_eq!(uses["stepRegistrations"], json!([{ "refName": "load", "by": ["tool"] }]));
    // The handler `load` is the step registration and not the tool with its name.
    assert_eq!(server.get("tools/load/uses").await.expect(200)["workflows"], json!([]));
}

async fn lists_of_workflow_definitions_are_filtered_and_compared(server: Server) {
    for name in ["a", "b", "c"] {
        server.post("workflows", workflow(name, json!([step("x", "echo")]))).await.expect(201);
        server
            .post("step-registrations", json!({ "name": name, "toolRef": "echo", "enabled": name != "b" }))
            .await
            .expect(201);
        server.post("condition-bindings", json!({ "name": name, "condition": "${input.ok}" })).await.expect(201);
    }
    for collection in ["workflows", "step-registrations", "condition-bindings"] {
        let page = server.get(&format!("{collection}?limit=2&sort=-refName")).await.expect(200);
        assert_eq!(names(&page), ["c", "b"], "{collection}");
        let rest = format!("{collection}?limit=2&sort=-refName&cursor={}", page["nextCursor"].as_str().unwrap());
        assert_eq!(names(&server.get(&rest).await.expect(200)), ["a"], "{collection}");
        for filter in ["refName=b", "name=b", "query=refName:b"] {
            let found = server.get(&format!("{collection}?{filter}")).await.expect(200);
            assert_eq!(names(&found), ["b"], "{collection}?{filter}");
        }
        assert_eq!(server.get(&format!("{collection}/count")).await.expect(200), json!({ "count": 3 }));
        let queried =
            server.post(&format!("{collection}/query"), json!({ "filter": { "refName": "c" } })).await.expect(200);
        assert_eq!(names(&queried), ["c"], "{collection}");
        server.get(&format!("{collection}?colour=red")).await.problem(400, "invalid-request");
        server.get(&format!("{collection}/a?colour=red")).await.problem(400, "invalid-request");
        server.get(&format!("{collection}/missing")).await.problem(404, "not-found");
        assert_eq!(server.get(&format!("{collection}/a?check=true")).await.expect(200)["warnings"], Value::Null);
    }
    assert_eq!(names(&server.get("step-registrations?enabled=false").await.expect(200)), ["b"]);
}

async fn workflow_definitions_of_another_realm_do_not_exist(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let other = server.in_realm("other");
    for (collection, body) in [
        ("workflows", workflow("w", json!([step("x", "echo")]))),
        ("step-registrations", json!({ "name": "w", "toolRef": "echo" })),
        ("condition-bindings", json!({ "name": "w", "condition": "${input.ok}" })),
    ] {
        let created = server.post(collection, body.clone()).await.expect(201);
        for reference in ["w", created["id"].as_str().unwrap()] {
            let path = format!("{collection}/{reference}");
            other.get(&path).await.problem(404, "not-found");
            other.put(&path, body.clone()).await.problem(404, "not-found");
            other.patch(&path, json!({ "description": "taken" })).await.problem(404, "not-found");
            other.delete(&path).await.problem(404, "not-found");
            other.get(&format!("{path}/versions")).await.problem(404, "not-found");
            other.get(&format!("{path}/revisions")).await.problem(404, "not-found");
        }
        assert_eq!(other.get(&format!("{collection}/count")).await.expect(200), json!({ "count": 0 }));
        // The same name can exist in both realms.
        other.post(collection, body).await.expect(201);
        assert_eq!(server.get(&format!("{collection}/w")).await.expect(200), created);
    }
    server.post("workflows", workflow("only-here", json!([step("x", "echo")]))).await.expect(201);
    for route in ["check", "diff"] {
        let refused = other.post(&format!("workflows/only-here/{route}"), json!({ "ref": "w" })).await;
        refused.problem(404, "not-found");
    }
    other.get("workflows/only-here/graph").await.problem(404, "not-found");
    other.post("workflows/w/diff", json!({ "ref": "only-here" })).await.problem(404, "not-found");
}

async fn members_read_workflow_definitions_and_do_not_write_them(server: Server) {
    let member = server.member("ada").await;
    let bodies = [
        ("workflows", workflow("w", json!([step("x", "echo")]))),
        ("step-registrations", json!({ "name": "w", "toolRef": "echo" })),
        ("condition-bindings", json!({ "name": "w", "condition": "${input.ok}" })),
    ];
    for (collection, body) in bodies {
        server.post(collection, body.clone()).await.expect(201);
        member.get(&format!("{collection}/w")).await.expect(200);
        member.post(collection, body.clone()).await.problem(403, "forbidden");
        member.put(&format!("{collection}/w"), body).await.problem(403, "forbidden");
        member.delete(&format!("{collection}/w")).await.problem(403, "forbidden");
    }
}

//! Tests gram over REST: parsing, signatures, and queries over the definitions of a realm.

use serde_json::{Value, json};

use crate::harness::Server;

crate::on_both_databases!(
    gram_text_is_parsed_to_a_json_pattern,
    gram_syntax_error_is_reported_with_line_and_column,
    gram_signature_is_converted_to_a_json_schema,
    gram_query_matches_agents_and_tools_of_the_realm,
    gram_query_sees_changed_definitions_at_once,
    gram_query_requires_access_to_the_realm,
    gram_query_does_not_match_definitions_of_other_realms
);

async fn gram_text_is_parsed_to_a_json_pattern(server: Server) {
    let text = "[a:Agent {model: \"m\"} | [t:Tool | (x::Text)==>(::String)]]";
    let pattern = server.post("gram/parse", json!({ "gram": text })).await.expect(200);
    assert_eq!(pattern["subject"], json!({ "identity": "a", "labels": ["Agent"], "properties": { "model": "m" } }));
    assert_eq!(pattern["elements"][0]["elements"][0]["elements"][0]["subject"]["identity"], "x");
}

async fn gram_syntax_error_is_reported_with_line_and_column(server: Server) {
    let problem = server.post("gram/parse", json!({ "gram": "(a)\n(b {k: })" })).await.problem(422, "invalid-gram");
    let error = &problem["errors"][0];
    assert_eq!(
        (&error["path"], &error["line"], &error["column"]),
        (&json!("/gram"), &json!(2), &json!(8)),
        "{problem}"
    );
    assert!(problem["detail"].as_str().unwrap().contains("2:8"), "{problem}");
    let hostile = server.post("gram/parse", json!({ "gram": "[".repeat(1 << 20) })).await;
    hostile.problem(422, "invalid-gram");
    server.post("gram/parse", json!({ "text": "(a)" })).await.problem(400, "invalid-request");
    server.with_key("").post("gram/parse", json!({ "gram": "(a)" })).await.problem(401, "unauthenticated");
}

async fn gram_signature_is_converted_to_a_json_schema(server: Server) {
    let signature = "(personName::Text)==>(age::Int {default:18})==>(::String)";
    let answer = server.post("gram/schema", json!({ "signature": signature })).await.expect(200);
    let schema = json!({ "type": "object", "properties": { "personName": { "type": "string" }, "age": { "type": "integer", "default": 18 } }, "required": ["personName"] });
    assert_eq!(answer, json!({ "schema": schema }));
    let invalid = server.post("gram/schema", json!({ "signature": "(a::Nothing)==>(::String)" })).await;
    let invalid = invalid.problem(422, "invalid-gram");
    assert!(invalid["detail"].as_str().unwrap().contains("Nothing"), "{invalid}");
    let cut = server.post("gram/schema", json!({ "signature": "(a::Text)==>" })).await.problem(422, "invalid-gram");
    assert_eq!(cut["errors"][0]["line"], 1);
}

/// Runs a query. Returns one string per match, with the identities of the matched elements.
async fn query_identities(server: &Server, query: &str) -> Vec<String> {
    let answer = server.post("gram/query", json!({ "query": query })).await.expect(200);
    assert_eq!(answer["truncated"], false);
    let identity = |pattern: &Value| pattern["subject"]["identity"].as_str().unwrap().to_owned();
    let matches = answer["matches"].as_array().unwrap().iter();
    matches.map(|one| one.as_object().unwrap().values().map(identity).collect::<Vec<_>>().join(" ")).collect()
}

async fn define_catalog(server: &Server) {
    let tools = [
        json!({ "refName": "crm/find", "toolType": "FUNCTION", "tags": ["crm"], "invocation": { "path": "echo" } }),
        json!({ "refName": "crm/store", "toolType": "FUNCTION", "tags": ["crm"], "sideEffects": "writes", "invocation": { "path": "echo" } }),
    ];
    for tool in tools {
        server.post("tools", tool).await.expect(201);
    }
    let agents = [
        json!({ "refName": "clerk", "toolTags": ["crm"] }),
        json!({ "refName": "careful", "toolTags": ["crm"], "requiresApproval": true }),
        json!({ "refName": "reader", "toolRefs": ["crm/find", "calculator"], "delegateAgentRefs": ["clerk"] }),
    ];
    for agent in agents {
        server.post("agents", agent).await.expect(201);
    }
}

async fn gram_query_matches_agents_and_tools_of_the_realm(server: Server) {
    define_catalog(&server).await;
    let unguarded = r#"(agent:Agent {requiresApproval:: absent})==>(tool:Tool {sideEffects: "writes", requiresConfirmation:: absent})"#;
    assert_eq!(query_identities(&server, unguarded).await, ["clerk crm/store", "reader crm/store"]);
    assert_eq!(
        query_identities(&server, "[agent:Agent | (`calculator`)]").await,
        ["reader"],
        "built-in tools are part of the graph"
    );
    assert_eq!(query_identities(&server, "(a:Agent)-[:DELEGATES_TO]->(b)").await, ["reader clerk"]);
    let invalid = server.post("gram/query", json!({ "query": "(a" })).await.problem(422, "invalid-gram");
    assert_eq!((&invalid["errors"][0]["path"], &invalid["errors"][0]["line"]), (&json!("/query"), &json!(1)));
}

async fn gram_query_does_not_match_definitions_of_other_realms(server: Server) {
    define_catalog(&server).await;
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    assert!(query_identities(&server.in_realm("other"), "(a:Agent)").await.is_empty());
    assert_eq!(query_identities(&server, "(a:Agent)").await.len(), 3);
}

async fn gram_query_sees_changed_definitions_at_once(server: Server) {
    define_catalog(&server).await;
    let writers = r#"[agent:Agent | (tool:Tool {sideEffects: "writes"})]"#;
    assert_eq!(query_identities(&server, writers).await, ["careful crm/store", "clerk crm/store"]);
    server.patch("agents/reader", json!({ "toolRefs": ["crm/store"] })).await.expect(200);
    assert_eq!(query_identities(&server, writers).await.len(), 3);
    server.patch("tools/crm%2Fstore", json!({ "sideEffects": "reads" })).await.expect(200);
    assert!(query_identities(&server, writers).await.is_empty());
    assert_eq!(query_identities(&server, "(a:Agent)").await.len(), 3);
    assert_eq!(server.delete("agents/reader").await.status, 204);
    assert_eq!(query_identities(&server, "(a:Agent)").await, ["careful", "clerk"]);
}

async fn gram_query_requires_access_to_the_realm(server: Server) {
    define_catalog(&server).await;
    let everything = "(x)";
    let all = query_identities(&server, everything).await;
    assert_eq!(
        query_identities(&server.member("someone").await, everything).await,
        all,
        "members can read their realm"
    );
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let key = server.issue_key(json!({ "principal": "stranger", "realm": "other" })).await;
    let stranger = server.with_key(&key);
    assert!(query_identities(&stranger.in_realm("other"), "(a:Agent)").await.is_empty());
    stranger.in_realm("default").post("gram/query", json!({ "query": everything })).await.problem(403, "forbidden");
}

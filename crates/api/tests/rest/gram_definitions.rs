//! Tests definitions in gram over REST: texts that are applied, definitions that are returned as gram, and tools that
//! are made from a signature.

use serde_json::{Value, json};

use crate::harness::{Response, Server, calls_then, envelopes};

crate::on_both_databases!(
    applying_a_gram_text_writes_only_new_and_changed_definitions,
    gram_text_with_one_invalid_definition_writes_nothing,
    gram_text_that_changes_a_tool_of_other_agents_is_rejected_without_overwrite,
    applying_a_definition_that_was_returned_as_gram_changes_nothing
);
crate::on_sqlite!(
    tool_from_gram_uses_the_default_of_its_parameter,
    dry_run_of_a_gram_text_reports_the_changes_and_writes_nothing,
    applying_gram_needs_the_permission_to_write,
    tool_is_created_from_name_description_and_signature,
    tool_with_an_invalid_signature_is_rejected,
    patch_replaces_the_schemas_of_a_tool_by_a_signature
);

/// A text with an agent and its tool. The parameter of the tool has a default, and the library contains the function.
const GREETER: &str = r#"[greeter:Agent {
  description: "Agent description",
  instruction: "Greet.",
  model: "default"
} |
  [sayHello:ToolSpecification {
    description: "Returns a friendly greeting"
  } |
    (personName::Text {default:"world"})==>(::String)
  ]
]
"#;

async fn apply(server: &Server, gram: &str) -> Response {
    server.post("gram/apply", json!({ "gram": gram })).await
}

/// Returns the outcomes as `kind name outcome`.
fn outcomes(applied: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let definitions = applied["definitions"].as_array().unwrap().iter();
    definitions.map(|one| [&one["kind"], &one["refName"], &one["outcome"]].map(text).join(" ")).collect()
}

async fn tool_from_gram_uses_the_default_of_its_parameter(server: Server) {
    apply(&server, GREETER).await.expect(200);
    let envelope = server.call("sayHello", json!({})).await;
    assert_eq!(envelope["output"], "Hello, world! Nice to meet you.", "{envelope}");
    assert_eq!(
        server.call("sayHello", json!({ "personName": "Ada" })).await["output"],
        "Hello, Ada! Nice to meet you."
    );
    server
        .define_agent(
            "caller",
            calls_then(json!([{ "name": "sayHello" }]), "done"),
            json!({ "toolRefs": ["sayHello"] }),
        )
        .await;
    let response = server.run("caller", "hello").await;
    assert_eq!(envelopes(&response)[0]["output"], "Hello, world! Nice to meet you.", "{response}");
}

async fn applying_a_gram_text_writes_only_new_and_changed_definitions(server: Server) {
    let applied = apply(&server, GREETER).await.expect(200);
    assert_eq!(outcomes(&applied), ["agent greeter created", "tool sayHello created"]);
    assert_eq!(applied["dryRun"], false);
    let no_tool = |one: &Value| one["warnings"].to_string().contains("no tool");
    assert!(!applied["definitions"].as_array().unwrap().iter().any(no_tool), "the text has the tool: {applied}");
    for path in ["agents/greeter", "tools/sayHello"] {
        assert_eq!(server.get(path).await.expect(200)["source"], "gram", "{path}");
    }
    let changed = GREETER.replace("Greet.", "Greet politely.");
    let applied = apply(&server, &changed).await.expect(200);
    assert_eq!(outcomes(&applied), ["agent greeter updated", "tool sayHello unchanged"]);
    assert_eq!(server.get("tools/sayHello").await.expect(200)["revision"], 1);
    assert_eq!(server.get("agents/greeter").await.expect(200)["systemPrompt"], "Greet politely.");
    let next = changed.replace("model: \"default\"", "model: \"default\", version: \"2.0.0\"");
    assert_eq!(outcomes(&apply(&server, &next).await.expect(200))[0], "agent greeter updated");
    assert_eq!(server.get("agents/greeter/versions").await.expect(200)["items"].as_array().unwrap().len(), 2);
}

async fn gram_text_with_one_invalid_definition_writes_nothing(server: Server) {
    let other = "[other:Agent {instruction: \"x\", model: \"default\"}]\n";
    let cases = [
        ("[bad:Agent {model: \"default\"}]", 2, "instruction"),
        ("[t:Tool {description: \"d\", timeoutMs: 0} | ()==>(::String)]", 2, "/timeoutMs"),
        (
            "[a:Agent {instruction: \"x\", model: \"default\"} |\n  [t:Tool {description: \"d\", rateLimit.perSecond: 0, rateLimit.burst: 1} | ()==>(::String)]]",
            3,
            "/rateLimit",
        ),
        ("(a)->(b)", 2, "arrow"),
    ];
    for (text, line, because) in cases {
        let problem = apply(&server, &format!("{other}{text}")).await.problem(422, "invalid-gram");
        let error = &problem["errors"][0];
        assert_eq!((&error["path"], &error["line"]), (&json!("/gram"), &json!(line)), "{problem}");
        assert!(error["message"].as_str().unwrap().contains(because), "{problem}");
        server.get("agents/other").await.problem(404, "not-found");
    }
}

async fn gram_text_that_changes_a_tool_of_other_agents_is_rejected_without_overwrite(server: Server) {
    apply(&server, GREETER).await.expect(200);
    let mine = GREETER.replace("greeter:Agent", "mine:Agent");
    assert_eq!(outcomes(&apply(&server, &mine).await.expect(200)), ["agent mine created", "tool sayHello unchanged"]);
    let changed = mine.replace("Returns a friendly greeting", "Insults the user");
    let problem = apply(&server, &changed).await.problem(409, "tool-in-use");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("tool `sayHello`") && detail.contains("agent `greeter`"), "{problem}");
    assert!(!detail.contains("`mine`"), "the text has this agent: {problem}");
    assert_eq!(server.get("tools/sayHello").await.expect(200)["description"], "Returns a friendly greeting");
    // An agent that requires the old version is not affected by a new one.
    server.patch("agents/greeter", json!({ "toolRefs": ["sayHello@1.0.0"] })).await.expect(200);
    let next = changed.replace("Insults the user\"", "Insults the user\", version: \"2.0.0\"");
    apply(&server, &next).await.expect(200);
    apply(&server, &changed).await.problem(409, "tool-in-use");
    let forced = server.post("gram/apply", json!({ "gram": changed, "overwrite": true })).await.expect(200);
    assert_eq!(outcomes(&forced)[1], "tool sayHello updated");
    // A text that replaces a built-in tool also changes the tool for the agents that use it.
    server.post("agents", json!({ "refName": "counter", "toolRefs": ["calculator"] })).await.expect(201);
    let calculator = "[calculator:Tool {description: \"d\"} | (expression::Text)==>(::String)]";
    let problem = apply(&server, calculator).await.problem(409, "tool-in-use");
    assert!(problem["detail"].as_str().unwrap().contains("agent `counter`"), "{problem}");
}

async fn dry_run_of_a_gram_text_reports_the_changes_and_writes_nothing(server: Server) {
    let applied = server.post("gram/apply", json!({ "gram": GREETER, "dryRun": true })).await.expect(200);
    assert_eq!(outcomes(&applied), ["agent greeter created", "tool sayHello created"]);
    assert_eq!(applied["dryRun"], true);
    server.get("agents/greeter").await.problem(404, "not-found");
    assert_eq!(server.get("tools/sayHello").await.expect(200)["source"], "built-in");
}

async fn applying_gram_needs_the_permission_to_write(server: Server) {
    apply(&server.member("reader").await, GREETER).await.problem(403, "forbidden");
    server.get("agents/greeter").await.problem(404, "not-found");
}

async fn applying_a_definition_that_was_returned_as_gram_changes_nothing(server: Server) {
    apply(&server, GREETER).await.expect(200);
    let tool = server.get("tools/sayHello?format=gram").await;
    assert_eq!(tool.headers["content-type"], "text/plain; charset=utf-8");
    let expected = "[sayHello:ToolSpecification {description: \"Returns a friendly greeting\"} |\n  (personName::String {default: \"world\"})==>(::String)\n]\n";
    assert_eq!(tool.text, expected);
    let agent = server.get("agents/greeter?format=gram&version=1.0.0").await;
    assert!(agent.text.starts_with("[greeter:Agent {"), "{}", agent.text);
    let applied = apply(&server, &format!("{}{}", agent.text, tool.text)).await.expect(200);
    assert_eq!(outcomes(&applied), ["agent greeter unchanged", "tool sayHello unchanged"]);
    let built_in = server.get("tools/calculator?format=gram").await;
    assert!(built_in.text.starts_with("[calculator:ToolSpecification {"), "{}", built_in.text);
    server.get("agents/greeter?format=gram&version=9.0.0").await.problem(404, "not-found");
    server.get("agents/greeter?format=yaml").await.problem(400, "invalid-request");
    server.post("prompt-fragments", json!({ "refName": "f", "content": "x" })).await.expect(201);
    server.get("prompt-fragments/f?format=gram").await.problem(400, "invalid-request");
}

async fn tool_is_created_from_name_description_and_signature(server: Server) {
    let body = json!({ "name": "sayHello", "description": "Greets.", "signature": "(personName::Text {default: \"you\"})==>(::String)" });
    let tool = server.post("tools", body).await.expect(201);
    assert_eq!((&tool["toolType"], &tool["invocation"]["path"]), (&json!("FUNCTION"), &json!("sayHello")), "{tool}");
    let input = json!({ "type": "object", "properties": { "personName": { "type": "string", "default": "you" } }, "required": [] });
    assert_eq!((&tool["inputJsonSchema"], &tool["outputJsonSchema"]), (&input, &json!({ "type": "string" })), "{tool}");
    assert!(tool.get("signature").is_none(), "the schema is the only stored form: {tool}");
    assert_eq!(server.call("sayHello", json!({})).await["output"], "Hello, you! Nice to meet you.");
    let by_code = json!({ "refName": "twice", "description": "Doubles.", "signature": "(n::Int)==>(::Int)",
        "invocation": { "path": "echo" } });
    assert_eq!(server.post("tools", by_code).await.expect(201)["invocation"]["path"], "echo");
}

async fn tool_with_an_invalid_signature_is_rejected(server: Server) {
    let cases = [
        (json!({ "signature": "(a::Nothing)==>(::String)", "description": "d" }), "/signature", "Nothing"),
        (json!({ "signature": "(a::Text)==>", "description": "d" }), "/signature", "1:"),
        (json!({ "signature": 7, "description": "d" }), "/signature", "must be a text"),
        (json!({ "signature": "()==>(::String)" }), "/description", "must have a description"),
        (json!({ "signature": "()==>(::String)", "description": " " }), "/description", "must have a description"),
        (
            json!({ "signature": "()==>(::String)", "description": "d", "inputJsonSchema": {} }),
            "/signature",
            "inputJsonSchema",
        ),
        (json!({ "description": "d" }), "", "toolType"),
    ];
    for (fields, path, because) in cases {
        let body = crate::harness::merge(json!({ "refName": "greet" }), fields);
        let problem = server.post("tools", body).await.problem(422, "invalid-definition");
        let error = &problem["errors"][0];
        assert_eq!(error["path"], path, "{problem}");
        assert!(error["message"].as_str().unwrap().contains(because), "{problem}");
    }
    server.get("tools/greet").await.problem(404, "not-found");
}

async fn patch_replaces_the_schemas_of_a_tool_by_a_signature(server: Server) {
    let body = json!({ "refName": "echo2", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "inputSchema": { "a": { "type": "string" } } });
    server.post("tools", body).await.expect(201);
    let tool = server.patch("tools/echo2", json!({ "signature": "(b::Int)==>(::Object)" })).await.expect(200);
    assert_eq!(tool["inputJsonSchema"]["properties"], json!({ "b": { "type": "integer" } }), "{tool}");
    assert_eq!(tool.get("inputSchema"), None, "{tool}");
    let tool = server.patch("tools/echo2", json!({ "signature": "(c::Text)==>(::Object)" })).await.expect(200);
    assert_eq!(tool["inputJsonSchema"]["properties"], json!({ "c": { "type": "string" } }), "{tool}");
    let problem = server.patch("tools/echo2", json!({ "signature": "(b::X)==>(::Object)" })).await;
    assert_eq!(problem.problem(422, "invalid-definition")["errors"][0]["path"], "/signature");
}

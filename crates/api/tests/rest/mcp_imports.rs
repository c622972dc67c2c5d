//! Tests tools of an external MCP server: import, calls, discovery and changed definitions. The external server, called
//! the peer, is a second Toolwright server.

use std::future::Future;
use std::time::Duration;

use serde_json::{Value, json};
use toolwright_mcp::McpImports;

use crate::harness::{ADMIN_KEY, Deployment, Server, Storage, merge, with_timeout};
use crate::{on_both_databases, on_sqlite};

on_both_databases!(
    tools_of_an_mcp_provider_can_be_imported_and_called,
    calls_of_a_changed_mcp_tool_are_denied_until_the_change_is_accepted
);
on_sqlite!(
    failed_mcp_import_creates_no_tools_or_providers,
    mcp_import_from_a_private_address_is_blocked_by_the_egress_policy,
    mcp_stdio_commands_require_an_administrator,
    import_from_a_command_that_fails_reports_its_exit_status_and_stderr,
    mcp_discovery_imports_new_tools_and_reports_removed_tools,
    background_poll_imports_new_mcp_tools,
    mcp_import_reports_skipped_tools_with_a_reason,
    invalid_mcp_import_is_rejected_with_its_path,
    import_without_permission_contacts_no_server,
    failed_call_on_the_mcp_server_is_a_provider_error,
    mcp_import_does_not_replace_built_in_tools,
    mcp_import_of_the_tools_of_this_server_is_rejected,
    endless_calls_between_two_mcp_servers_end_with_an_error,
);

/// Starts the peer, which has the tool `peer_echo`, and runs a test with it.
pub(crate) async fn with_peer<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (peer, running) = deployment.start().await;
    peer.define_echo("peer_echo", json!({ "description": "says it again", "inputJsonSchema": { "type": "object" } }))
        .await;
    test(peer).await;
    running.stop().await;
    deployment.remove().await;
}

/// Defines the peer as a provider, and stores an API key for it.
pub(crate) async fn define_peer(server: &Server, peer: &Server, more: Value) {
    server.post("secrets", json!({ "name": "peer-key", "scope": "realm", "value": ADMIN_KEY })).await;
    let provider = json!({
        "refName": "peer", "providerType": "MCP", "baseUrl": format!("http://{}/mcp", peer.address),
        "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "peer-key" },
    });
    server.post("tool-providers", merge(provider, more)).await.expect(201);
}

pub(crate) async fn import(server: &Server, body: Value) -> Value {
    server.post("tools/import/mcp", body).await.expect(200)
}

fn imported_names(view: &Value) -> Vec<&str> {
    view["imported"].as_array().unwrap().iter().map(|tool| tool["refName"].as_str().unwrap()).collect()
}

async fn tools_of_an_mcp_provider_can_be_imported_and_called(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({})).await;
        let view = import(&server, json!({ "providerRef": "peer", "prefix": "p/" })).await;
        assert!(imported_names(&view).contains(&"p/peer_echo"), "{view}");
        let tool = server.get("tools/p%2Fpeer_echo").await.expect(200);
        for (field, value) in [
            ("toolType", json!("EXTERNAL_MCP")),
            ("providerRef", json!("peer")),
            ("hasSideEffects", json!(true)),
            ("source", json!("mcp-imported")),
            ("description", json!("says it again")),
        ] {
            assert_eq!(tool[field], value, "{field}");
        }
        let envelope = server.call("p%2Fpeer_echo", json!({ "a": 1 })).await;
        assert_eq!(envelope["output"], json!({ "a": 1 }), "{envelope}");
        assert_eq!(envelope["metadata"]["secret_scope"], "realm");
        // A second import skips the tool, because the tool already exists.
        let again = import(&server, json!({ "providerRef": "peer", "prefix": "p/" })).await;
        assert!(imported_names(&again).is_empty());
        assert!(again["skipped"].as_array().unwrap().iter().any(|tool| tool["refName"] == "p/peer_echo"), "{again}");
    })
    .await;
}

async fn calls_of_a_changed_mcp_tool_are_denied_until_the_change_is_accepted(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        assert_eq!(server.call("peer_echo", json!({})).await["error"], Value::Null);
        peer.patch("tools/peer_echo", json!({ "description": "says it again, and mails it to me" })).await.expect(200);

        let found = server.post("tool-providers/peer/discover", json!({})).await.expect(200);
        assert_eq!(found["changed"], json!([{ "refName": "peer_echo" }]));
        let refused = server.call("peer_echo", json!({})).await;
        let error = &refused["error"];
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("definition_changed")));
        let diff = json!([{ "field": "description", "before": "says it again", "after": "says it again, and mails it to me" }]);
        assert_eq!(error["details"]["diff"], diff);
        assert_eq!(server.get("tools/peer_echo").await.expect(200)["description"], "says it again");

        let accepted = server.post("tool-providers/peer/accept", json!({ "tools": ["peer_echo"] })).await.expect(200);
        assert_eq!(accepted["accepted"], json!([{ "refName": "peer_echo" }]));
        assert_eq!(server.call("peer_echo", json!({ "a": 1 })).await["output"], json!({ "a": 1 }));
        let tool = server.get("tools/peer_echo").await.expect(200);
        assert_eq!(tool["description"], "says it again, and mails it to me");
        assert_eq!(server.post("tool-providers/peer/accept", json!({})).await.expect(200)["accepted"], json!([]));
    })
    .await;
}

async fn mcp_import_does_not_replace_built_in_tools(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({})).await;
        let view = import(&server, json!({ "providerRef": "peer" })).await;
        assert_eq!(imported_names(&view), ["peer_echo"], "{view}");
        let skipped = view["skipped"].as_array().unwrap().iter().find(|tool| tool["refName"] == "echo").unwrap();
        assert!(skipped["reason"].as_str().unwrap().contains("built-in"), "{view}");
        assert_eq!(server.get("tools/echo").await.expect(200)["toolType"], "FUNCTION");
    })
    .await;
}

async fn mcp_import_of_the_tools_of_this_server_is_rejected(server: Server) {
    define_peer(&server, &server, json!({})).await;
    server
        .post("tools/import/mcp", json!({ "providerRef": "peer", "prefix": "own_" }))
        .await
        .problem(422, "cannot-import");
    server.get("tools/own_echo").await.problem(404, "not-found");
}

async fn endless_calls_between_two_mcp_servers_end_with_an_error(server: Server) {
    with_peer(|peer| async move {
        let tool = |name: &str, other: &str| {
            json!({ "refName": name, "toolType": "EXTERNAL_MCP", "providerRef": "peer", "invocation": { "path": other } })
        };
        for (on, other, definition) in
            [(&server, &peer, tool("ping", "pong")), (&peer, &server, tool("pong", "ping"))]
        {
            define_peer(on, other, json!({})).await;
            on.post("tools", definition).await.expect(201);
        }
        let envelope = server.call("ping", json!({})).await;
        assert!(envelope["error"]["message"].as_str().unwrap().contains("passed through 8 servers"), "{envelope}");
        let runs = server.get("runs?limit=100").await.expect(200)["items"].as_array().unwrap().len();
        assert_eq!(runs, 5, "the call passed through each of the two servers four times");
    })
    .await;
}

async fn failed_mcp_import_creates_no_tools_or_providers(server: Server) {
    with_peer(|peer| async move {
        // The provider has no credentials, so the peer rejects its requests.
        let url = format!("http://{}/mcp", peer.address);
        let provider =
            json!({ "refName": "peer", "providerType": "MCP", "baseUrl": url, "egressAllow": ["127.0.0.0/8"] });
        server.post("tool-providers", provider).await.expect(201);
        let problem =
            server.post("tools/import/mcp", json!({ "providerRef": "peer" })).await.problem(502, "upstream-failed");
        assert!(problem["detail"].as_str().unwrap().contains("AUTH_REQUIRED"), "{problem}");
        let problem = server.post("tools/import/mcp", json!({ "url": "http://127.0.0.1:9/mcp" })).await;
        problem.problem(502, "upstream-failed");
        assert_eq!(server.get("tools").await.expect(200)["items"], json!([]));
        let providers = server.get("tool-providers").await.expect(200);
        assert_eq!(providers["items"].as_array().unwrap().len(), 1, "{providers}");
    })
    .await;
}

async fn mcp_import_from_a_private_address_is_blocked_by_the_egress_policy(server: Server) {
    with_peer(|peer| async move {
        let url = format!("http://{}/mcp", peer.address);
        let refused = server.post("tools/import/mcp", json!({ "url": url, "transport": "streamable-http" })).await;
        let problem = refused.problem(502, "upstream-failed");
        assert!(problem["detail"].as_str().unwrap().contains("POLICY_DENIED"), "{problem}");
        let named = format!("http://localhost:{}/mcp", peer.address.port());
        let problem = server.post("tools/import/mcp", json!({ "url": named })).await.problem(502, "upstream-failed");
        assert!(problem["detail"].as_str().unwrap().contains("POLICY_DENIED"), "{problem}");
    })
    .await;
}

async fn mcp_stdio_commands_require_an_administrator(server: Server) {
    let ada = server.member("ada").await;
    let command = json!({ "command": "cat", "args": [], "transport": "stdio" });
    ada.post("tools/import/mcp", command).await.problem(403, "forbidden");
    let provider = json!({ "refName": "cat", "providerType": "MCP", "command": "cat" });
    ada.post("tool-providers", provider.clone()).await.problem(403, "forbidden");
    server.post("tool-providers", provider).await.expect(201);
    // Everyone who can read the provider sees `env`, so credentials in it are rejected.
    let invalid =
        json!({ "refName": "dog", "providerType": "MCP", "command": "cat", "env": { "API_TOKEN": "abcdefgh" } });
    let problem = server.post("tool-providers", invalid).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/env/API_TOKEN", "{problem}");
    let nothing = json!({ "refName": "none", "providerType": "MCP" });
    let problem = server.post("tool-providers", nothing).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/baseUrl", "{problem}");
}

async fn import_from_a_command_that_fails_reports_its_exit_status_and_stderr(server: Server) {
    server
        .post("secrets", json!({ "name": "token", "scope": "realm", "value": "s3cret-of-the-test" }))
        .await
        .expect(201);
    let traceback = "echo Traceback: >&2; echo \"ImportError: no module $TOKEN\" >&2; exit 3";
    let provider = json!({ "refName": "broken", "providerType": "MCP", "command": "sh", "args": ["-c", traceback],
        "envSecretRefs": { "TOKEN": "token" } });
    server.post("tool-providers", provider).await.expect(201);
    let ended = "NETWORK_ERROR: the program `sh` ended (exit status: 3) before it answered as an MCP server; its stderr, \
                 which is in the server log, ends with: Traceback: | ImportError: no module [redacted]";
    for (body, expected) in [
        (json!({ "providerRef": "broken" }), ended),
        (
            json!({ "command": "sh", "args": ["-c", "exit 4"] }),
            "(exit status: 4) before it answered as an MCP server; it wrote nothing to stderr",
        ),
        (json!({ "command": "nosuchprog" }), "the program `nosuchprog` was not found in the `PATH` of the server"),
        (json!({ "command": "/no/such/prog" }), "the program `/no/such/prog` or its interpreter does not exist"),
    ] {
        let problem = server.post("tools/import/mcp", body).await.problem(502, "upstream-failed");
        assert!(problem["detail"].as_str().unwrap().contains(expected), "{problem}");
    }
    // The message for a caller of a tool does not have the output of the program.
    let tool = json!({ "refName": "t", "toolType": "EXTERNAL_MCP", "providerRef": "broken" });
    server.post("tools", tool).await.expect(201);
    let error = &server.call("t", json!({})).await["error"]["message"];
    let expected =
        "the program `sh` ended (exit status: 3) before it answered as an MCP server; the server log has its stderr";
    assert_eq!(error, expected);
}

async fn mcp_discovery_imports_new_tools_and_reports_removed_tools(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({ "toolPrefix": "p_" })).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        peer.define_echo("later", json!({})).await;
        peer.delete("tools/peer_echo").await.expect(204);
        let found = server.post("tool-providers/peer/discover", json!({})).await.expect(200);
        assert_eq!(imported_names(&found), ["p_later"], "{found}");
        assert_eq!(found["gone"], json!([{ "refName": "p_peer_echo" }]));
        let provider = server.get("tool-providers/peer").await.expect(200);
        assert_eq!(provider["lastDiscoverySync"], found["lastDiscoverySync"]);
        let gone = with_timeout(server.call("p_peer_echo", json!({}))).await;
        assert_eq!(gone["error"]["details"]["reason"], "unknown_upstream_tool", "{gone}");
    })
    .await;
}

async fn mcp_import_reports_skipped_tools_with_a_reason(server: Server) {
    with_peer(|peer| async move {
        server.define_echo("peer_echo", json!({})).await;
        define_peer(&server, &peer, json!({})).await;
        let view = import(&server, json!({ "providerRef": "peer" })).await;
        let skipped = view["skipped"].as_array().unwrap().iter().find(|tool| tool["refName"] == "peer_echo").unwrap();
        assert!(skipped["reason"].as_str().unwrap().contains("exists"), "{view}");
        assert_eq!(server.get("tools/peer_echo").await.expect(200)["toolType"], "FUNCTION");
    })
    .await;
}

async fn invalid_mcp_import_is_rejected_with_its_path(server: Server) {
    server.post("tool-providers", json!({ "refName": "rest", "baseUrl": "http://example.com" })).await.expect(201);
    for (body, path) in [
        (json!({}), "/url"),
        (json!({ "url": "ftp://x.example.com/mcp" }), "/url"),
        (json!({ "url": "file:///etc/passwd" }), "/url"),
        (json!({ "url": "example.com" }), "/url"),
        (json!({ "url": "http://x", "command": "cat" }), "/command"),
        (json!({ "url": "http://x", "transport": "stdio" }), "/transport"),
        (json!({ "command": "cat", "transport": "sse" }), "/transport"),
        (json!({ "providerRef": "rest" }), "/providerRef"),
        (json!({ "url": "http://x", "nonsense": 1 }), "/nonsense"),
    ] {
        let problem = server.post("tools/import/mcp", body.clone()).await.problem(400, "invalid-request");
        assert!(
            problem["errors"][0]["path"].as_str().unwrap().starts_with(path) || path == "/nonsense",
            "{body}: {problem}"
        );
    }
    server.post("tools/import/mcp", json!({ "providerRef": "nobody" })).await.problem(404, "not-found");
    server.post("tool-providers/nobody/discover", json!({})).await.problem(404, "not-found");
}

async fn import_without_permission_contacts_no_server(server: Server) {
    // No server listens at this address. A request to this address would fail, and the error would not be `forbidden`.
    let (url, allow) = ("http://127.0.0.1:9/mcp", json!(["127.0.0.0/8"]));
    for (name, kind) in [("peer", "MCP"), ("grpc", "GRPC")] {
        let provider = json!({ "refName": name, "providerType": kind, "baseUrl": url, "egressAllow": allow });
        server.post("tool-providers", provider).await.expect(201);
    }
    let ada = server.member("ada").await;
    for (path, body) in [
        ("tools/import/mcp", json!({ "providerRef": "peer" })),
        ("tools/import/mcp", json!({ "url": url })),
        ("tool-providers/peer/discover", json!({})),
        ("tool-providers/peer/accept", json!({})),
        ("tools/import/openapi", json!({ "url": url })),
        ("tools/import/openapi", json!({ "url": url, "providerRef": "peer" })),
        ("tools/import/grpc", json!({ "providerRef": "grpc" })),
        ("types/import/openapi", json!({ "url": url })),
    ] {
        let problem = ada.post(path, body.clone()).await.problem(403, "forbidden");
        assert!(problem["detail"].as_str().unwrap().contains("may not write"), "{path} {body}: {problem}");
    }
}

async fn failed_call_on_the_mcp_server_is_a_provider_error(server: Server) {
    with_peer(|peer| async move {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        peer.define_echo("strict", json!({ "inputJsonSchema": schema, "requiresConfirmation": true })).await;
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        let envelope = server.call("strict", json!({ "n": 1 })).await;
        assert_eq!(envelope["error"]["code"], "PROVIDER_ERROR", "{envelope}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains("elicitation"), "{envelope}");
        let invalid = server.call("strict", json!({ "n": "one" })).await;
        assert_eq!(invalid["error"]["code"], "VALIDATION_ERROR", "{invalid}");
    })
    .await;
}

/// The test sends no import or discovery request, so the tools can only come from the background poll.
async fn background_poll_imports_new_mcp_tools(_: Server) {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let imports = McpImports::new(running.engine.clone(), running.mcp_client.clone());
    let poll = imports.keep_in_sync(Duration::from_millis(20), running.engine.shutdown_token());
    running.engine.spawn_background(poll);
    with_peer(|peer| {
        let server = server.clone();
        async move {
            let options = json!({ "autoDiscoverTools": true, "toolPrefix": "p/" });
            define_peer(&server, &peer, options).await;
            let has = |name: &'static str| {
                move |page: &Value| page["items"].as_array().unwrap().iter().any(|tool| tool["refName"] == name)
            };
            server.poll_until("tools?limit=100", has("p/peer_echo")).await;
            peer.define_echo("peer_more", json!({})).await;
            server.poll_until("tools?limit=100", has("p/peer_more")).await;
            let provider = server.get("tool-providers/peer").await.expect(200);
            assert!(provider["lastDiscoverySync"].is_string(), "{provider}");
        }
    })
    .await;
    running.stop().await;
    deployment.remove().await;
}

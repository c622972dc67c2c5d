//! Tools of another MCP server, which here is a second server of our own: imported, called, pinned, accepted.

use std::future::Future;
use std::time::Duration;

use serde_json::{Value, json};
use toolwright_mcp::Imports;

use crate::harness::{ADMIN_KEY, Edition, Home, Server, soon, with};
use crate::{on_both_editions, on_sqlite};

on_both_editions!(tools_of_a_provider_are_imported_and_called, a_changed_definition_is_refused_until_accepted);
on_sqlite!(
    nothing_is_left_of_an_import_that_fails,
    a_private_address_is_out_of_reach,
    commands_are_for_administrators,
    discovery_brings_in_what_is_new,
    servers_are_asked_now_and_then_by_themselves,
    an_import_says_what_it_skips_and_why,
    what_is_no_import_is_refused,
    failures_of_the_other_server_are_the_providers,
);

/// Runs a test with another server that has the tool `peer_echo`.
pub async fn with_peer<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let home = Home::new(Edition::Sqlite).await;
    let (peer, running) = home.start().await;
    peer.define_echo("peer_echo", json!({ "description": "says it again", "inputJsonSchema": { "type": "object" } }))
        .await;
    test(peer).await;
    running.stop().await;
    home.remove().await;
}

/// The peer as a provider, with a key for it.
pub async fn define_peer(server: &Server, peer: &Server, more: Value) {
    server.post("secrets", json!({ "name": "peer-key", "scope": "realm", "value": ADMIN_KEY })).await;
    let provider = json!({
        "refName": "peer", "providerType": "MCP", "baseUrl": format!("http://{}/mcp", peer.address),
        "egressAllow": ["127.0.0.0/8"], "auth": { "authType": "bearer", "secretRef": "peer-key" },
    });
    server.post("tool-providers", with(provider, more)).await.expect(201);
}

pub async fn import(server: &Server, body: Value) -> Value {
    server.post("tools/import/mcp", body).await.expect(200)
}

fn imported(view: &Value) -> Vec<&str> {
    view["imported"].as_array().unwrap().iter().map(|tool| tool["refName"].as_str().unwrap()).collect()
}

async fn tools_of_a_provider_are_imported_and_called(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({})).await;
        let view = import(&server, json!({ "providerRef": "peer", "prefix": "p/" })).await;
        assert!(imported(&view).contains(&"p/peer_echo"), "{view}");
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
        // The same again changes nothing.
        let again = import(&server, json!({ "providerRef": "peer", "prefix": "p/" })).await;
        assert!(imported(&again).is_empty());
        assert!(again["skipped"].as_array().unwrap().iter().any(|tool| tool["refName"] == "p/peer_echo"), "{again}");
    })
    .await;
}

async fn a_changed_definition_is_refused_until_accepted(server: Server) {
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

async fn nothing_is_left_of_an_import_that_fails(server: Server) {
    with_peer(|peer| async move {
        // No credentials for it.
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

async fn a_private_address_is_out_of_reach(server: Server) {
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

async fn commands_are_for_administrators(server: Server) {
    let ada = server.member("ada").await;
    let command = json!({ "command": "cat", "args": [], "transport": "stdio" });
    ada.post("tools/import/mcp", command).await.problem(403, "forbidden");
    let provider = json!({ "refName": "cat", "providerType": "MCP", "command": "cat" });
    ada.post("tool-providers", provider.clone()).await.problem(403, "forbidden");
    server.post("tool-providers", provider).await.expect(201);
    // A credential does not belong into an environment that everybody can read.
    let wrong =
        json!({ "refName": "dog", "providerType": "MCP", "command": "cat", "env": { "API_TOKEN": "abcdefgh" } });
    let problem = server.post("tool-providers", wrong).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/env/API_TOKEN", "{problem}");
    let nothing = json!({ "refName": "none", "providerType": "MCP" });
    let problem = server.post("tool-providers", nothing).await.problem(422, "invalid-definition");
    assert_eq!(problem["errors"][0]["path"], "/baseUrl", "{problem}");
}

async fn discovery_brings_in_what_is_new(server: Server) {
    with_peer(|peer| async move {
        define_peer(&server, &peer, json!({ "toolPrefix": "p_" })).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        peer.define_echo("later", json!({})).await;
        peer.delete("tools/peer_echo").await.expect(204);
        let found = server.post("tool-providers/peer/discover", json!({})).await.expect(200);
        assert_eq!(imported(&found), ["p_later"], "{found}");
        assert_eq!(found["gone"], json!([{ "refName": "p_peer_echo" }]));
        let provider = server.get("tool-providers/peer").await.expect(200);
        assert_eq!(provider["lastDiscoverySync"], found["lastDiscoverySync"]);
        let gone = soon(server.call("p_peer_echo", json!({}))).await;
        assert_eq!(gone["error"]["details"]["reason"], "unknown_upstream_tool", "{gone}");
    })
    .await;
}

async fn an_import_says_what_it_skips_and_why(server: Server) {
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

async fn what_is_no_import_is_refused(server: Server) {
    server.post("tool-providers", json!({ "refName": "rest", "baseUrl": "http://example.com" })).await.expect(201);
    for (body, place) in [
        (json!({}), "/url"),
        (json!({ "url": "http://x", "command": "cat" }), "/command"),
        (json!({ "url": "http://x", "transport": "stdio" }), "/transport"),
        (json!({ "command": "cat", "transport": "sse" }), "/transport"),
        (json!({ "providerRef": "rest" }), "/providerRef"),
        (json!({ "url": "http://x", "nonsense": 1 }), "/nonsense"),
    ] {
        let problem = server.post("tools/import/mcp", body.clone()).await.problem(400, "invalid-request");
        assert!(
            problem["errors"][0]["path"].as_str().unwrap().starts_with(place) || place == "/nonsense",
            "{body}: {problem}"
        );
    }
    server.post("tools/import/mcp", json!({ "providerRef": "nobody" })).await.problem(404, "not-found");
    server.post("tool-providers/nobody/discover", json!({})).await.problem(404, "not-found");
}

async fn failures_of_the_other_server_are_the_providers(server: Server) {
    with_peer(|peer| async move {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        peer.define_echo("strict", json!({ "inputJsonSchema": schema, "requiresConfirmation": true })).await;
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer" })).await;
        let envelope = server.call("strict", json!({ "n": 1 })).await;
        assert_eq!(envelope["error"]["code"], "PROVIDER_ERROR", "{envelope}");
        assert!(envelope["error"]["message"].as_str().unwrap().contains("elicitation"), "{envelope}");
        let wrong = server.call("strict", json!({ "n": "one" })).await;
        assert_eq!(wrong["error"]["code"], "VALIDATION_ERROR", "{wrong}");
    })
    .await;
}

/// Nobody has called the peer, so nothing but a poll finds what it has.
async fn servers_are_asked_now_and_then_by_themselves(_: Server) {
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) = home.start().await;
    let imports = Imports::new(running.engine.clone(), running.mcp_client.clone());
    let poll = imports.keep_in_sync(Duration::from_millis(20), running.engine.stopping());
    running.engine.in_background(poll);
    with_peer(|peer| {
        let server = server.clone();
        async move {
            let wishes = json!({ "autoDiscoverTools": true, "toolPrefix": "p/" });
            define_peer(&server, &peer, wishes).await;
            let has = |name: &'static str| {
                move |page: &Value| page["items"].as_array().unwrap().iter().any(|tool| tool["refName"] == name)
            };
            server.until("tools?limit=100", has("p/peer_echo")).await;
            peer.define_echo("peer_more", json!({})).await;
            server.until("tools?limit=100", has("p/peer_more")).await;
            let noted = server.get("tool-providers/peer").await.expect(200);
            assert!(noted["lastDiscoverySync"].is_string(), "{noted}");
        }
    })
    .await;
    running.stop().await;
    home.remove().await;
}

//! Tests OAuth logins: renewal, expiry, ownership and redaction of tokens.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::oauth_proxy::{Handle, OAuthProxy};
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_types::{Clock, SystemClock};

use crate::harness::{ADMIN_KEY, Deployment, Response, RunningServer, Server, Storage};
use crate::{on_both_databases, on_sqlite};

on_both_databases!(
    expired_login_is_renewed_once_for_concurrent_calls,
    revoked_access_token_fails_one_call_and_is_then_renewed
);
on_sqlite!(
    valid_token_is_used_if_its_renewal_fails,
    call_that_waits_for_a_token_renewal_times_out,
    login_is_not_sent_to_another_server_and_not_used_as_a_bearer_token_or_model_key,
    error_for_a_revoked_login_names_the_login_command,
    login_of_one_user_is_not_used_for_another_user,
    secret_that_is_not_a_login_is_rejected,
    oauth_tokens_are_redacted_in_outputs_and_journals,
    token_renewal_obeys_the_egress_policy,
    oauth_token_endpoint_is_required_except_for_mcp_providers,
);

const FAR_PAST: &str = "2020-01-01T00:00:00Z";
const FAR_FUTURE: &str = "2100-01-01T00:00:00Z";

/// A second Toolwright server, used as an MCP server behind an OAuth proxy.
struct GatedPeer {
    gate: Handle,
    deployment: Deployment,
    running: RunningServer,
}

impl GatedPeer {
    /// Starts the second server and its OAuth proxy, and defines the proxy as the provider `gate`. Does not import its
    /// tools.
    async fn start(server: &Server) -> Self {
        let deployment = Deployment::new(Storage::Sqlite).await;
        let (peer, running) = deployment.start().await;
        peer.define_echo("peer_echo", json!({ "inputJsonSchema": { "type": "object" } })).await;
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let gate = OAuthProxy::start(LOOPBACK, http, &format!("http://{}/mcp", peer.address), ADMIN_KEY).await.unwrap();
        let provider = json!({
            "refName": "gate", "providerType": "MCP", "baseUrl": gate.url("/mcp"), "egressAllow": ["127.0.0.0/8"],
            "auth": { "authType": "oauth2", "secretRef": "gate-login" },
        });
        server.post("tool-providers", provider).await.expect(201);
        Self { gate, deployment, running }
    }

    async fn stop(self) {
        self.gate.shutdown().await;
        self.running.stop().await;
        self.deployment.remove().await;
    }
}

/// Stores a login whose access token is valid until `expires_at`.
async fn log_in(server: &Server, gate: &Handle, expires_at: &str) -> Response {
    let grant = gate.create_login(FAR_PAST, expires_at).to_string();
    server.post("secrets", json!({ "name": "gate-login", "scope": "user", "value": grant })).await
}

async fn import_tools(server: &Server) {
    let view = server.post("tools/import/mcp", json!({ "providerRef": "gate" })).await.expect(200);
    assert!(view["imported"].to_string().contains("peer_echo"), "{view}");
}

async fn assert_call_succeeds(server: &Server) {
    let envelope = server.call("peer_echo", json!({ "a": 1 })).await;
    assert_eq!((&envelope["output"], &envelope["error"]), (&json!({ "a": 1 }), &Value::Null), "{envelope}");
}

/// Calls the tool and returns its `AUTH_REQUIRED` error.
async fn expect_auth_error(server: &Server) -> Value {
    let error = server.call("peer_echo", json!({})).await["error"].clone();
    assert_eq!(error["code"], "AUTH_REQUIRED", "{error}");
    assert!(error["message"].as_str().unwrap().contains("toolwright mcp login gate"), "{error}");
    error
}

async fn expired_login_is_renewed_once_for_concurrent_calls(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    import_tools(&server).await;
    assert_eq!(gated.gate.renewals(), 1);
    assert_call_succeeds(&server).await;
    assert_eq!(gated.gate.renewals(), 1, "the token is valid for an hour");

    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    join_all((0..16).map(|_| assert_call_succeeds(&server))).await;
    assert_eq!((gated.gate.renewals(), gated.gate.refresh_token_reuses()), (2, 0));
    // The provider issues a new refresh token with every renewal, and the next renewal must use it.
    gated.gate.set_token_lifetime(0);
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    for renewals in 3..6 {
        assert_call_succeeds(&server).await;
        assert_eq!((gated.gate.renewals(), gated.gate.refresh_token_reuses()), (renewals, 0));
    }
    gated.stop().await;
}

async fn revoked_access_token_fails_one_call_and_is_then_renewed(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    assert_call_succeeds(&server).await;
    gated.gate.revoke_tokens();
    assert_eq!(expect_auth_error(&server).await["details"]["reason"], "mcp_auth");
    assert_call_succeeds(&server).await;
    assert_eq!((gated.gate.renewals(), gated.gate.refresh_token_reuses()), (1, 0));
    gated.stop().await;
}

async fn valid_token_is_used_if_its_renewal_fails(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    // This token is still valid, but it expires so soon that the server tries to renew it.
    let soon = SystemClock.now().saturating_add(Duration::from_secs(25));
    log_in(&server, &gated.gate, &soon.to_string()).await.expect(201);
    for status in [500, 429, 404] {
        gated.gate.fail_renewals(Some(status));
        assert_call_succeeds(&server).await;
    }
    // This token is expired, so the failed renewal is reported as the error of the call.
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    for (status, code) in [(500, "PROVIDER_ERROR"), (429, "RATE_LIMIT"), (404, "PROVIDER_ERROR")] {
        gated.gate.fail_renewals(Some(status));
        let error = server.call("peer_echo", json!({})).await["error"].clone();
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!(code), &json!("oauth2_token")), "{error}");
        if status == 429 {
            assert_eq!(error["retry_after_s"], 7.0, "{error}");
        }
    }
    gated.gate.fail_renewals(None);
    assert_call_succeeds(&server).await;
    assert_eq!((gated.gate.renewals(), gated.gate.refresh_token_reuses()), (1, 0));
    gated.stop().await;
}

async fn call_that_waits_for_a_token_renewal_times_out(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    server.patch("tools/peer_echo", json!({ "timeoutMs": 300 })).await.expect(200);
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    gated.gate.answer_renewals(false);
    // The second call joins the renewal that the first call started, and times out too.
    for _ in 0..2 {
        let error = server.call("peer_echo", json!({})).await["error"].clone();
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("TIMEOUT"), &json!("deadline")), "{error}");
    }
    gated.gate.answer_renewals(true);
    server.patch("tools/peer_echo", json!({ "timeoutMs": 30_000 })).await.expect(200);
    assert_call_succeeds(&server).await;
    assert_eq!(
        (gated.gate.renewals(), gated.gate.refresh_token_reuses()),
        (1, 0),
        "the result of the abandoned renewal was stored"
    );
    gated.stop().await;
}

async fn login_is_not_sent_to_another_server_and_not_used_as_a_bearer_token_or_model_key(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    let other = gated.gate.url("/mcp").replace("127.0.0.1", "localhost");
    server.patch("tool-providers/gate", json!({ "baseUrl": other })).await.expect(200);
    assert_eq!(expect_auth_error(&server).await["details"]["reason"], "no_login");
    // A secret that contains an OAuth login must not be sent as a bearer token or as the API key of a model.
    let bearer =
        json!({ "baseUrl": gated.gate.url("/mcp"), "auth": { "authType": "bearer", "secretRef": "gate-login" } });
    server.patch("tool-providers/gate", bearer).await.expect(200);
    let error = server.call("peer_echo", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("AUTH_REQUIRED"), &json!("secret")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("is a login"), "{error}");
    let llm = json!({ "provider": "openai", "model": "gpt-4o", "baseUrl": "https://models.example.com/v1", "apiKeySecretRef": "gate-login" });
    server.post("agents", json!({ "refName": "curious", "llmConfig": llm })).await.expect(201);
    let response = server.run("curious", "hello").await;
    assert!(response.to_string().contains("is a login"), "{response}");
    gated.stop().await;
}

async fn error_for_a_revoked_login_names_the_login_command(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    import_tools(&server).await;
    gated.gate.revoke_logins();
    log_in(&server, &gated.gate, FAR_PAST).await.expect(201);
    gated.gate.revoke_logins();
    for _ in 0..2 {
        assert_eq!(expect_auth_error(&server).await["details"]["reason"], "login_ended");
    }
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    assert_call_succeeds(&server).await;
    gated.stop().await;
}

async fn login_of_one_user_is_not_used_for_another_user(server: Server) {
    let gated = GatedPeer::start(&server).await;
    let ada = server.member("ada").await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    assert_call_succeeds(&server).await;
    assert_eq!(expect_auth_error(&ada).await["details"]["reason"], "missing_secret");
    log_in(&ada, &gated.gate, FAR_FUTURE).await.expect(201);
    assert_call_succeeds(&ada).await;
    gated.stop().await;
}

async fn secret_that_is_not_a_login_is_rejected(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    let token = json!({ "name": "gate-login", "scope": "user", "value": "a token that somebody pasted" });
    server.post("secrets", token).await.expect(201);
    assert_eq!(expect_auth_error(&server).await["details"]["reason"], "no_login");
    gated.stop().await;
}

async fn oauth_tokens_are_redacted_in_outputs_and_journals(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    let pasted = server.call("peer_echo", json!({ "said": "Bearer gate-access-000001" })).await;
    assert_eq!(pasted["output"], json!({ "said": "Bearer [redacted]" }));
    let answer = server.post("tools/peer_echo/execute", json!({ "input": {} })).await;
    let bundle = server.get(&format!("runs/{}/export", answer.headers["x-run-id"].to_str().unwrap())).await.text;
    let secrets = server.get("secrets").await.text;
    for seen in [&pasted.to_string(), &answer.text, &bundle, &secrets] {
        assert!(!seen.contains("gate-access") && !seen.contains("gate-refresh"), "{seen}");
    }
    gated.stop().await;
}

async fn token_renewal_obeys_the_egress_policy(server: Server) {
    let gated = GatedPeer::start(&server).await;
    log_in(&server, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&server).await;
    let mut grant = gated.gate.create_login(FAR_PAST, FAR_PAST);
    grant["tokenEndpoint"] = json!("http://169.254.169.254/token");
    let secret = json!({ "name": "gate-login", "scope": "user", "value": grant.to_string() });
    server.post("secrets", secret).await.expect(201);
    let error = server.call("peer_echo", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("egress")), "{error}");
    gated.stop().await;
}

async fn oauth_token_endpoint_is_required_except_for_mcp_providers(server: Server) {
    let auth = json!({ "authType": "oauth2", "secretRef": "s" });
    let rest = json!({ "refName": "rest", "baseUrl": "https://example.com", "auth": auth });
    let problem = server.post("tool-providers", rest).await.problem(422, "invalid-definition");
    let paths: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["path"].clone()).collect();
    assert_eq!(paths, ["/auth/tokenEndpoint"]);
    let mcp = json!({ "refName": "mcp", "providerType": "MCP", "baseUrl": "https://example.com", "auth": auth });
    server.post("tool-providers", mcp).await.expect(201);
}

/// A refresh token may be used only once, so two servers with one database must not both use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_with_one_database_renew_a_login_once() {
    let deployment = Deployment::new(Storage::PostgresAndRedis).await;
    let ((one, first), (two, second)) = (deployment.start().await, deployment.start().await);
    let gated = GatedPeer::start(&one).await;
    log_in(&one, &gated.gate, FAR_FUTURE).await.expect(201);
    import_tools(&one).await;
    for renewals in 1..4 {
        log_in(&one, &gated.gate, FAR_PAST).await.expect(201);
        join_all((0..8).flat_map(|_| [assert_call_succeeds(&one), assert_call_succeeds(&two)])).await;
        assert_eq!((gated.gate.renewals(), gated.gate.refresh_token_reuses()), (renewals, 0));
    }
    gated.stop().await;
    first.stop().await;
    second.stop().await;
    deployment.remove().await;
}

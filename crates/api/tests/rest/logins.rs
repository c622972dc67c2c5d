//! Providers that somebody logs in to: tokens that are renewed in time, once, and for whoever logged in.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use toolwright_testkit::LOOPBACK;
use toolwright_testkit::gatehouse::{Gatehouse, Handle};
use toolwright_tools::http::{Egress, HttpClient};
use toolwright_types::{Clock, SystemClock};

use crate::harness::{ADMIN_KEY, Answer, Edition, Home, Running, Server};
use crate::{on_both_editions, on_sqlite};

on_both_editions!(a_login_is_renewed_before_it_expires_and_once_for_all, a_refused_token_is_renewed_for_the_next_call);
on_sqlite!(
    what_is_still_good_is_used_when_it_cannot_be_renewed,
    a_call_waits_for_a_renewal_no_longer_than_for_itself,
    a_login_is_for_one_server,
    a_login_that_has_ended_says_how_to_log_in_again,
    a_login_is_whose_it_is,
    what_is_no_login_is_told,
    tokens_are_nowhere_to_be_seen,
    renewals_obey_the_egress_rules,
    only_mcp_servers_say_themselves_where_to_log_in,
);

const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const FAR_AWAY: &str = "2100-01-01T00:00:00Z";

/// Another server, and a gate before it.
struct Gated {
    gate: Handle,
    home: Home,
    running: Running,
}

impl Gated {
    /// The gate, as the provider `gate` of a server, whose tools are not imported yet.
    async fn of(server: &Server) -> Self {
        let home = Home::new(Edition::Sqlite).await;
        let (peer, running) = home.start().await;
        peer.define_echo("peer_echo", json!({ "inputJsonSchema": { "type": "object" } })).await;
        let http = HttpClient::new(Egress::everything()).unguarded().unwrap();
        let gate = Gatehouse::start(LOOPBACK, http, &format!("http://{}/mcp", peer.address), ADMIN_KEY).await.unwrap();
        let provider = json!({
            "refName": "gate", "providerType": "MCP", "baseUrl": gate.url("/mcp"), "egressAllow": ["127.0.0.0/8"],
            "auth": { "authType": "oauth2", "secretRef": "gate-login" },
        });
        server.post("tool-providers", provider).await.expect(201);
        Self { gate, home, running }
    }

    async fn end(self) {
        self.gate.shutdown().await;
        self.running.stop().await;
        self.home.remove().await;
    }
}

/// Logs in with a token that is good until then.
async fn log_in(server: &Server, gate: &Handle, expires_at: &str) -> Answer {
    let grant = gate.log_in(LONG_AGO, expires_at).to_string();
    server.post("secrets", json!({ "name": "gate-login", "scope": "user", "value": grant })).await
}

async fn import(server: &Server) {
    let view = server.post("tools/import/mcp", json!({ "providerRef": "gate" })).await.expect(200);
    assert!(view["imported"].to_string().contains("peer_echo"), "{view}");
}

async fn works(server: &Server) {
    let envelope = server.call("peer_echo", json!({ "a": 1 })).await;
    assert_eq!((&envelope["output"], &envelope["error"]), (&json!({ "a": 1 }), &Value::Null), "{envelope}");
}

/// The error of a call that is not let through.
async fn refused(server: &Server) -> Value {
    let error = server.call("peer_echo", json!({})).await["error"].clone();
    assert_eq!(error["code"], "AUTH_REQUIRED", "{error}");
    assert!(error["message"].as_str().unwrap().contains("toolwright mcp login gate"), "{error}");
    error
}

async fn a_login_is_renewed_before_it_expires_and_once_for_all(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    import(&server).await;
    assert_eq!(gated.gate.renewals(), 1);
    works(&server).await;
    assert_eq!(gated.gate.renewals(), 1, "the token is good for an hour");

    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    join_all((0..16).map(|_| works(&server))).await;
    assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (2, 0));
    // What a renewal brought is what the next one is made with.
    gated.gate.tokens_live(0);
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    for renewals in 3..6 {
        works(&server).await;
        assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (renewals, 0));
    }
    gated.end().await;
}

async fn a_refused_token_is_renewed_for_the_next_call(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    works(&server).await;
    gated.gate.revoke_tokens();
    assert_eq!(refused(&server).await["details"]["reason"], "mcp_auth");
    works(&server).await;
    assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (1, 0));
    gated.end().await;
}

async fn what_is_still_good_is_used_when_it_cannot_be_renewed(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    // Good for another while, and due already.
    let soon = SystemClock.now().later(Duration::from_secs(25));
    log_in(&server, &gated.gate, &soon.to_string()).await.expect(201);
    for status in [500, 429, 404] {
        gated.gate.fail_renewals(Some(status));
        works(&server).await;
    }
    // One that is over is of no use, and the failure says what it is.
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    for (status, code) in [(500, "PROVIDER_ERROR"), (429, "RATE_LIMIT"), (404, "PROVIDER_ERROR")] {
        gated.gate.fail_renewals(Some(status));
        let error = server.call("peer_echo", json!({})).await["error"].clone();
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!(code), &json!("oauth2_token")), "{error}");
        if status == 429 {
            assert_eq!(error["retry_after_s"], 7.0, "{error}");
        }
    }
    gated.gate.fail_renewals(None);
    works(&server).await;
    assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (1, 0));
    gated.end().await;
}

async fn a_call_waits_for_a_renewal_no_longer_than_for_itself(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    server.patch("tools/peer_echo", json!({ "timeoutMs": 300 })).await.expect(200);
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    gated.gate.answer_renewals(false);
    // The second one waits for what the first one left behind.
    for _ in 0..2 {
        let error = server.call("peer_echo", json!({})).await["error"].clone();
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("TIMEOUT"), &json!("deadline")), "{error}");
    }
    gated.gate.answer_renewals(true);
    server.patch("tools/peer_echo", json!({ "timeoutMs": 30_000 })).await.expect(200);
    works(&server).await;
    assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (1, 0), "what nobody waited for was kept");
    gated.end().await;
}

async fn a_login_is_for_one_server(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    let other = gated.gate.url("/mcp").replace("127.0.0.1", "localhost");
    server.patch("tool-providers/gate", json!({ "baseUrl": other })).await.expect(200);
    assert_eq!(refused(&server).await["details"]["reason"], "no_login");
    // Nor is the whole of it ever sent as a token.
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
    gated.end().await;
}

async fn a_login_that_has_ended_says_how_to_log_in_again(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    import(&server).await;
    gated.gate.end_logins();
    log_in(&server, &gated.gate, LONG_AGO).await.expect(201);
    gated.gate.end_logins();
    for _ in 0..2 {
        assert_eq!(refused(&server).await["details"]["reason"], "login_ended");
    }
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    works(&server).await;
    gated.end().await;
}

async fn a_login_is_whose_it_is(server: Server) {
    let gated = Gated::of(&server).await;
    let ada = server.member("ada").await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    works(&server).await;
    assert_eq!(refused(&ada).await["details"]["reason"], "missing_secret");
    log_in(&ada, &gated.gate, FAR_AWAY).await.expect(201);
    works(&ada).await;
    gated.end().await;
}

async fn what_is_no_login_is_told(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    let token = json!({ "name": "gate-login", "scope": "user", "value": "a token that somebody pasted" });
    server.post("secrets", token).await.expect(201);
    assert_eq!(refused(&server).await["details"]["reason"], "no_login");
    gated.end().await;
}

async fn tokens_are_nowhere_to_be_seen(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    let pasted = server.call("peer_echo", json!({ "said": "Bearer gate-access-000001" })).await;
    assert_eq!(pasted["output"], json!({ "said": "Bearer [redacted]" }));
    let answer = server.post("tools/peer_echo/execute", json!({ "input": {} })).await;
    let bundle = server.get(&format!("runs/{}/export", answer.headers["x-run-id"].to_str().unwrap())).await.text;
    let secrets = server.get("secrets").await.text;
    for seen in [&pasted.to_string(), &answer.text, &bundle, &secrets] {
        assert!(!seen.contains("gate-access") && !seen.contains("gate-refresh"), "{seen}");
    }
    gated.end().await;
}

async fn renewals_obey_the_egress_rules(server: Server) {
    let gated = Gated::of(&server).await;
    log_in(&server, &gated.gate, FAR_AWAY).await.expect(201);
    import(&server).await;
    let mut grant = gated.gate.log_in(LONG_AGO, LONG_AGO);
    grant["tokenEndpoint"] = json!("http://169.254.169.254/token");
    let secret = json!({ "name": "gate-login", "scope": "user", "value": grant.to_string() });
    server.post("secrets", secret).await.expect(201);
    let error = server.call("peer_echo", json!({})).await["error"].clone();
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("egress")), "{error}");
    gated.end().await;
}

async fn only_mcp_servers_say_themselves_where_to_log_in(server: Server) {
    let auth = json!({ "authType": "oauth2", "secretRef": "s" });
    let rest = json!({ "refName": "rest", "baseUrl": "https://example.com", "auth": auth });
    let problem = server.post("tool-providers", rest).await.problem(422, "invalid-definition");
    let places: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| error["path"].clone()).collect();
    assert_eq!(places, ["/auth/clientId", "/auth/tokenEndpoint"]);
    let mcp = json!({ "refName": "mcp", "providerType": "MCP", "baseUrl": "https://example.com", "auth": auth });
    server.post("tool-providers", mcp).await.expect(201);
}

/// Two servers on one database do not use up what a renewal needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_renew_a_login_once() {
    let home = Home::new(Edition::PostgresAndRedis).await;
    let ((one, first), (two, second)) = (home.start().await, home.start().await);
    let gated = Gated::of(&one).await;
    log_in(&one, &gated.gate, FAR_AWAY).await.expect(201);
    import(&one).await;
    for renewals in 1..4 {
        log_in(&one, &gated.gate, LONG_AGO).await.expect(201);
        join_all((0..8).flat_map(|_| [works(&one), works(&two)])).await;
        assert_eq!((gated.gate.renewals(), gated.gate.reuses()), (renewals, 0));
    }
    gated.end().await;
    first.stop().await;
    second.stop().await;
    home.remove().await;
}

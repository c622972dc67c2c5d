//! Authentication: tokens, API keys, OAuth2. The module `mtls` tests client certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Json;
use axum::http::StatusCode;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolwright_testkit::{Faults, LOOPBACK};

use crate::world::{World, failure};

async fn with_auth(auth: Value) -> World {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world
}

fn client_credentials(world: &World) -> Value {
    json!({ "authType": "oauth2", "clientId": "demo-client", "secretRef": "client-secret", "tokenEndpoint": world.faults.url("/token"), "scopes": ["a", "b"] })
}

async fn with_oauth() -> World {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "auth": client_credentials(&world) }));
    world.secret("client-secret", "demo-client-secret-not-real");
    world.get("t", "/oauth-protected", json!({}));
    world
}

#[tokio::test]
async fn oauth2_secret_must_contain_the_client_id_if_the_provider_has_none() {
    let world = World::start().await;
    let auth = json!({ "authType": "oauth2", "secretRef": "client", "tokenEndpoint": world.faults.url("/token") });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.get("t", "/oauth-protected", json!({}));
    world.secret("client", "demo-client:demo-client-secret-not-real");
    assert!(world.call("t", json!({})).await.is_success());
    world.secret("client", "demo-client-secret-not-real");
    let message = failure(&world.call("t", json!({})).await);
    assert!(
        message.starts_with("AUTH_REQUIRED oauth2_token") && message.contains("clientId:clientSecret"),
        "{message}"
    );
}

/// Asserts that the upstream receives the header `header` with the value `expected`.
async fn assert_header_sent(auth: Value, secret: &str, header: &str, expected: &str) {
    let world = World::start().await;
    let recorder = crate::recorder::Recorder::start(0).await;
    world.provider(json!({ "refName": "recorder", "baseUrl": recorder.url, "auth": auth }));
    world.secret("s", secret);
    world.get("t", "/x", json!({ "providerRef": "recorder" }));
    world.output("t", json!({})).await;
    assert_eq!(recorder.header(header), [Some(expected.to_owned())]);
}

#[tokio::test]
async fn bearer_token_is_sent_in_the_authorization_header() {
    assert_header_sent(
        json!({ "authType": "bearer", "secretRef": "s" }),
        "t0ken-of-8",
        "authorization",
        "Bearer t0ken-of-8",
    )
    .await;
}

#[tokio::test]
async fn api_key_is_sent_in_the_configured_header() {
    assert_header_sent(json!({ "authType": "api_key", "secretRef": "s" }), "k3y-of-eight", "x-api-key", "k3y-of-eight")
        .await;
    assert_header_sent(
        json!({ "authType": "api_key", "secretRef": "s", "headerName": "X-Auth" }),
        "k3y-of-eight",
        "x-auth",
        "k3y-of-eight",
    )
    .await;
}

#[tokio::test]
async fn whitespace_around_a_secret_is_trimmed() {
    assert_header_sent(
        json!({ "authType": "bearer", "secretRef": "s" }),
        " t0ken-of-8\n",
        "authorization",
        "Bearer t0ken-of-8",
    )
    .await;
}

#[tokio::test]
async fn error_for_a_secret_with_a_line_break_does_not_contain_the_secret() {
    let world = with_auth(json!({ "authType": "bearer", "secretRef": "s" })).await;
    world.secret("s", "two\nlines-of-secret");
    world.get("t", "/echo", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(
        failure(&envelope),
        "AUTH_REQUIRED secret: the secret contains characters that are not allowed in a header"
    );
}

#[tokio::test]
async fn concurrent_calls_share_one_token_request() {
    let world = with_oauth().await;
    let calls = join_all((0..8).map(|_| world.output("t", json!({})))).await;
    assert_eq!(calls, vec![json!({ "ok": true }); 8]);
    world.output("t", json!({})).await;
    assert_eq!(world.faults.tokens_issued(), 1);
}

#[tokio::test]
async fn revoked_token_is_replaced_within_the_same_attempt() {
    let world = with_oauth().await;
    world.output("t", json!({})).await;
    world.faults.revoke_tokens();
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.is_success(), "{:?}", envelope.error);
    assert_eq!((world.faults.tokens_issued(), envelope.metadata.attempt), (2, 1));
}

#[tokio::test]
async fn concurrent_calls_replace_a_revoked_token_once() {
    let world = with_oauth().await;
    world.output("t", json!({})).await;
    world.faults.revoke_tokens();
    join_all((0..8).map(|_| world.output("t", json!({})))).await;
    assert_eq!(world.faults.tokens_issued(), 2);
}

/// An upstream that has revoked `token-1`. At `/late`, it waits for a signal before it rejects the token.
struct Revoking {
    issued: AtomicU32,
    late_arrived: Notify,
    late_may_go: Notify,
}

impl Revoking {
    async fn answer(&self, path: &str, authorization: &str) -> (StatusCode, Json<Value>) {
        if path == "/token" {
            let n = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
            return (StatusCode::OK, Json(json!({ "access_token": format!("token-{n}"), "expires_in": "3600" })));
        }
        if authorization != "Bearer token-1" {
            return (StatusCode::OK, Json(json!("admitted")));
        }
        if path == "/late" {
            self.late_arrived.notify_one();
            self.late_may_go.notified().await;
        }
        (StatusCode::UNAUTHORIZED, Json(json!("revoked")))
    }
}

/// The first call replaces the token before the second call receives the rejection of the old token.
#[tokio::test]
async fn rejection_of_the_old_token_does_not_invalidate_the_new_token() {
    let upstream =
        Arc::new(Revoking { issued: AtomicU32::new(0), late_arrived: Notify::new(), late_may_go: Notify::new() });
    let shared = Arc::clone(&upstream);
    let app = axum::Router::new().fallback(move |uri: axum::http::Uri, headers: axum::http::HeaderMap| async move {
        let authorization = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        shared.answer(uri.path(), authorization).await
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let world = World::start().await;
    let auth =
        json!({ "authType": "oauth2", "clientId": "c", "secretRef": "s", "tokenEndpoint": format!("{url}/token") });
    world.provider(json!({ "refName": "revoking", "baseUrl": url, "auth": auth }));
    world.secret("s", "value-of-the-secret");
    for name in ["early", "late"] {
        world.get(name, &format!("/{name}"), json!({ "providerRef": "revoking", "timeoutMs": 10_000 }));
    }
    let calls = async {
        futures::join!(world.output("late", json!({})), async {
            upstream.late_arrived.notified().await;
            assert_eq!(world.output("early", json!({})).await, json!("admitted"));
            upstream.late_may_go.notify_one();
        })
    };
    tokio::select! {
        (late, ()) = calls => assert_eq!(late, json!("admitted")),
        ended = async { axum::serve(listener, app).await } => panic!("{ended:?}"),
    }
    assert_eq!(upstream.issued.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn upstream_that_rejects_the_renewed_token_is_not_called_again() {
    let world = with_oauth().await;
    world.get("t", "/status/401", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert!(
        failure(&envelope).starts_with("AUTH_REQUIRED http_status: the upstream answered 401"),
        "{}",
        failure(&envelope)
    );
    assert_eq!((world.faults.hits("/status/401"), world.faults.tokens_issued()), (2, 2));
}

#[tokio::test]
async fn wrong_client_secret_is_an_authentication_failure() {
    let world = with_oauth().await;
    world.secret("client-secret", "a-wrong-client-secret");
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "AUTH_REQUIRED oauth2_token: the token endpoint answered 401 Unauthorized");
    assert_eq!(world.faults.hits("/oauth-protected"), 0);
}

#[tokio::test]
async fn unavailable_token_endpoint_is_retried() {
    for (endpoint, code) in [
        ("/status/503?times=1&key=a", "PROVIDER_ERROR"),
        ("/status/429?retry_after=0", "RATE_LIMIT"),
        ("/drop", "NETWORK_ERROR"),
    ] {
        let world = World::start().await;
        let mut auth = client_credentials(&world);
        auth["tokenEndpoint"] = json!(world.faults.url(endpoint));
        world.provider(json!({ "refName": "faults", "auth": auth }));
        world.secret("client-secret", "demo-client-secret-not-real");
        world.get("t", "/oauth-protected", json!({ "defaultRetryCount": 1, "defaultRetryBackoff": "none" }));
        let envelope = world.call("t", json!({})).await;
        assert_eq!(envelope.metadata.attempt, 2, "{endpoint}: {:?}", envelope.error);
        // The first endpoint fails once and then answers 200 without a token. The response without a token is not
        // retried.
        let expected = if endpoint.contains("times") { "AUTH_REQUIRED" } else { code };
        assert!(failure(&envelope).starts_with(expected), "{endpoint}: {}", failure(&envelope));
    }
}

#[tokio::test]
async fn client_id_and_secret_with_dots_and_stars_are_sent_unchanged() {
    let world = World::start().await;
    // Like most servers, the fixture does not form-decode Basic credentials. So the values here contain only characters
    // that form encoding leaves unchanged.
    let other = Faults::builder().client("my-client_1.a*", "s3cret-with_dots.and*stars").start(LOOPBACK).await.unwrap();
    let auth = json!({ "authType": "oauth2", "clientId": "my-client_1.a*", "secretRef": "s", "tokenEndpoint": other.url("/token") });
    world.provider(json!({ "refName": "other", "baseUrl": other.base_url(), "auth": auth }));
    world.secret("s", "s3cret-with_dots.and*stars");
    world.get("t", "/oauth-protected", json!({ "providerRef": "other" }));
    assert_eq!(world.output("t", json!({})).await, json!({ "ok": true }));
}

#[tokio::test]
async fn compressed_responses_are_decoded() {
    let world = World::start().await;
    for (path, encoding) in [("/gzip", "gzip"), ("/brotli", "br")] {
        world.get("t", path, json!({}));
        assert_eq!(world.output("t", json!({})).await, json!({ "ok": true, "encoding": encoding }));
    }
}

#[tokio::test]
async fn token_of_a_login_is_sent_and_its_rejection_is_recorded() {
    let world = World::start().await;
    let auth = json!({ "authType": "oauth2", "secretRef": "login" });
    world.provider(json!({ "refName": "faults", "providerType": "MCP", "auth": auth }));
    world.get("t", "/echo", json!({}));
    assert_eq!(
        failure(&world.call("t", json!({})).await),
        "AUTH_REQUIRED missing_secret: no secret `login` for you, your realm or your org; log in with `toolwright mcp login faults`"
    );
    world.secret("login", "");
    assert_eq!(
        failure(&world.call("t", json!({})).await),
        "AUTH_REQUIRED login_ended: the login has ended; log in again with `toolwright mcp login faults`"
    );
    world.secret("login", "t0ken-of-8");
    assert_eq!(world.output("t", json!({})).await["headers"]["authorization"], "Bearer [redacted]");
    let rejections = || world.secrets.refused.lock().unwrap().len();
    assert_eq!(rejections(), 0);
    world.get("u", "/status/401", json!({}));
    let refused = failure(&world.call("u", json!({})).await);
    assert!(
        refused.ends_with("try once more, and if that does not help, log in again with `toolwright mcp login faults`"),
        "{refused}"
    );
    assert_eq!(rejections(), 1);
    world.get(
        "v",
        "/status/401",
        json!({ "errorHandling": { "401": { "action": "fallback", "fallbackToolRef": "t" } } }),
    );
    world.output("v", json!({})).await;
    assert_eq!(rejections(), 2, "a rejection is recorded even if a fallback answers");
    world.get("w", "/status/500", json!({}));
    failure(&world.call("w", json!({})).await);
    assert_eq!(rejections(), 2, "other failures do not reject the token");
}

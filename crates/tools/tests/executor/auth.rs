//! How a call proves who it is: tokens, keys, OAuth2. Certificates have a module of their own.

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

/// The upstream must see the secret although the envelope must not: the protected resource is the witness.
async fn is_admitted(auth: Value, secret: &str, header: &str, expected: &str) {
    let world = World::start().await;
    let recorder = crate::recorder::Recorder::start(0).await;
    world.provider(json!({ "refName": "recorder", "baseUrl": recorder.url, "auth": auth }));
    world.secret("s", secret);
    world.get("t", "/x", json!({ "providerRef": "recorder" }));
    world.output("t", json!({})).await;
    assert_eq!(recorder.header(header), [Some(expected.to_owned())]);
}

#[tokio::test]
async fn a_bearer_token_goes_into_the_authorization_header() {
    is_admitted(json!({ "authType": "bearer", "secretRef": "s" }), "t0ken-of-8", "authorization", "Bearer t0ken-of-8")
        .await;
}

#[tokio::test]
async fn an_api_key_goes_where_the_provider_says() {
    is_admitted(json!({ "authType": "api_key", "secretRef": "s" }), "k3y-of-eight", "x-api-key", "k3y-of-eight").await;
    is_admitted(
        json!({ "authType": "api_key", "secretRef": "s", "headerName": "X-Auth" }),
        "k3y-of-eight",
        "x-auth",
        "k3y-of-eight",
    )
    .await;
}

#[tokio::test]
async fn space_around_a_secret_is_an_accident_of_the_editor() {
    is_admitted(
        json!({ "authType": "bearer", "secretRef": "s" }),
        " t0ken-of-8\n",
        "authorization",
        "Bearer t0ken-of-8",
    )
    .await;
}

#[tokio::test]
async fn a_secret_that_no_header_can_carry_is_not_shown() {
    let world = with_auth(json!({ "authType": "bearer", "secretRef": "s" })).await;
    world.secret("s", "two\nlines-of-secret");
    world.get("t", "/echo", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "AUTH_REQUIRED secret: the secret holds characters that no header can carry");
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_used_by_all() {
    let world = with_oauth().await;
    let calls = join_all((0..8).map(|_| world.output("t", json!({})))).await;
    assert_eq!(calls, vec![json!({ "ok": true }); 8]);
    world.output("t", json!({})).await;
    assert_eq!(world.faults.tokens_issued(), 1);
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_once() {
    let world = with_oauth().await;
    world.output("t", json!({})).await;
    world.faults.revoke_tokens();
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.is_success(), "{:?}", envelope.error);
    assert_eq!((world.faults.tokens_issued(), envelope.metadata.attempt), (2, 1));
}

#[tokio::test]
async fn parallel_calls_replace_a_revoked_token_once_together() {
    let world = with_oauth().await;
    world.output("t", json!({})).await;
    world.faults.revoke_tokens();
    join_all((0..8).map(|_| world.output("t", json!({})))).await;
    assert_eq!(world.faults.tokens_issued(), 2);
}

/// An upstream that has revoked `token-1`, and says so at `/late` only when it is told to.
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

/// The early call has replaced the token by the time the late one hears that the old one is refused.
#[tokio::test]
async fn who_hears_late_of_a_revoked_token_does_not_throw_away_the_new_one() {
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
async fn an_upstream_that_refuses_fresh_tokens_is_asked_twice_and_no_more() {
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
async fn a_wrong_client_secret_is_an_authentication_failure() {
    let world = with_oauth().await;
    world.secret("client-secret", "a-wrong-client-secret");
    let envelope = world.call("t", json!({})).await;
    assert_eq!(failure(&envelope), "AUTH_REQUIRED oauth2_token: the token endpoint answered 401 Unauthorized");
    assert_eq!(world.faults.hits("/oauth-protected"), 0);
}

#[tokio::test]
async fn a_token_endpoint_that_is_down_is_tried_again_like_any_upstream() {
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
        // After its failure the first one answers 200 without a token, which is the end of it.
        let expected = if endpoint.contains("times") { "AUTH_REQUIRED" } else { code };
        assert!(failure(&envelope).starts_with(expected), "{endpoint}: {}", failure(&envelope));
    }
}

#[tokio::test]
async fn client_ids_and_secrets_with_odd_characters_survive_the_way() {
    let world = World::start().await;
    // The fixture compares what it decodes from Basic as it is, like most servers; these need no form encoding.
    let other = Faults::builder().client("my-client_1.a*", "s3cret-with_dots.and*stars").start(LOOPBACK).await.unwrap();
    let auth = json!({ "authType": "oauth2", "clientId": "my-client_1.a*", "secretRef": "s", "tokenEndpoint": other.url("/token") });
    world.provider(json!({ "refName": "other", "baseUrl": other.base_url(), "auth": auth }));
    world.secret("s", "s3cret-with_dots.and*stars");
    world.get("t", "/oauth-protected", json!({ "providerRef": "other" }));
    assert_eq!(world.output("t", json!({})).await, json!({ "ok": true }));
}

#[tokio::test]
async fn compressed_answers_are_read() {
    let world = World::start().await;
    for (path, encoding) in [("/gzip", "gzip"), ("/brotli", "br")] {
        world.get("t", path, json!({}));
        assert_eq!(world.output("t", json!({})).await, json!({ "ok": true, "encoding": encoding }));
    }
}

#[tokio::test]
async fn a_login_is_sent_as_the_token_of_the_moment_and_noted_when_it_is_refused() {
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
    let noted = || world.vault.refused.lock().unwrap().len();
    assert_eq!(noted(), 0);
    world.get("u", "/status/401", json!({}));
    let refused = failure(&world.call("u", json!({})).await);
    assert!(
        refused.ends_with("try once more, and if that does not help, log in again with `toolwright mcp login faults`"),
        "{refused}"
    );
    assert_eq!(noted(), 1);
    world.get(
        "v",
        "/status/401",
        json!({ "errorHandling": { "401": { "action": "fallback", "fallbackToolRef": "t" } } }),
    );
    world.output("v", json!({})).await;
    assert_eq!(noted(), 2, "also when another tool stands in");
    world.get("w", "/status/500", json!({}));
    failure(&world.call("w", json!({})).await);
    assert_eq!(noted(), 2, "other failures say nothing about the token");
}

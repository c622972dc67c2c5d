//! Redaction, tested with a canary. The canary is a secret that is sent to a server, which returns it in many
//! encodings. The canary must not appear in envelopes, logs or the cache.

use std::io;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::test_functions;
use crate::world::{World, failure};

const CANARY: &str = "canary/S3cret+value=77";

/// The canary and its reversible encodings.
fn encodings() -> Vec<String> {
    let percent = utf8_percent_encode(CANARY, NON_ALPHANUMERIC).to_string();
    vec![
        CANARY.into(),
        STANDARD.encode(CANARY),
        URL_SAFE_NO_PAD.encode(CANARY),
        percent,
        "canary%2fS3cret%2bvalue%3d77".into(),
    ]
}

fn assert_clean(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for encoding in encodings() {
        assert!(!text.contains(&encoding), "{place} contains `{encoding}`: {text}");
    }
    assert!(!text.to_lowercase().contains("s3cret"), "{place} contains a part of the canary: {text}");
}

/// A log writer that records the events of all levels, with all fields.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    pub(crate) fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_span_events(FmtSpan::FULL)
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(self.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

async fn world_with_canary(value: &str) -> World {
    let world = World::start().await;
    world.provider(
        json!({ "refName": "faults", "auth": { "authType": "api_key", "headerName": "X-Key", "secretRef": "canary" } }),
    );
    world.secret("canary", value);
    world
}

/// Calls `t`, asserts that the canary appears nowhere, and returns the envelope as JSON.
async fn call_and_assert_clean(world: &World, input: Value) -> Value {
    let log = Log::default();
    let capturing = log.capture();
    let envelope = serde_json::to_value(world.call("t", input).await).unwrap();
    drop(capturing);
    assert!(log.text().contains("tool_call"), "nothing was logged: {}", log.text());
    assert_clean("the log", log.text().as_bytes());
    assert_clean("the envelope", envelope.to_string().as_bytes());
    for payload in world.blobs.payloads.lock().unwrap().iter() {
        assert_clean("a blob", &payload.bytes);
    }
    for (key, value) in world.cache.stored.lock().unwrap().iter() {
        assert_clean("a cache key", key.to_string().as_bytes());
        assert_clean("a cached result", value);
    }
    envelope
}

#[tokio::test]
async fn echoed_secret_is_redacted_in_the_output_and_the_cache_and_the_log() {
    let world = world_with_canary(CANARY).await;
    world.get("t", "/echo", json!({ "cache": "forever" }));
    let envelope = call_and_assert_clean(&world, json!({})).await;
    assert_eq!(envelope["output"]["headers"]["x-key"], "[redacted]");
    assert_eq!(world.cache.stored.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn secret_with_a_trailing_newline_is_redacted() {
    let world = world_with_canary(&format!("{CANARY}\n")).await;
    world.get("t", "/echo", json!({}));
    assert_eq!(call_and_assert_clean(&world, json!({})).await["output"]["headers"]["x-key"], "[redacted]");
}

#[tokio::test]
async fn encoded_secret_in_the_input_is_redacted() {
    let world = world_with_canary(CANARY).await;
    world.rest(
        "t",
        json!({ "method": "POST", "path": "/echo?q=${param.all}", "headers": { "X-B": "${param.one}" } }),
        json!({}),
    );
    // The input contains the secret, as if the caller had copied it.
    let basic = STANDARD.encode(format!("user:{CANARY}"));
    let envelope =
        call_and_assert_clean(&world, json!({ "all": encodings().join(" "), "one": CANARY, CANARY: basic })).await;
    assert!(
        envelope["input"]["one"] == "[redacted]"
            && envelope["input"]["[redacted]"].as_str().unwrap().contains("[redacted]"),
        "{envelope}"
    );
}

#[tokio::test]
async fn secret_is_redacted_before_the_response_mapping() {
    let world = world_with_canary(CANARY).await;
    for (mapping, left) in
        [("headers['x-key'].split('/')", json!(["[redacted]"])), ("headers['x-key'].lowerAscii()", json!("[redacted]"))]
    {
        world.rest("t", json!({ "path": "/echo", "responseMapping": mapping }), json!({}));
        assert_eq!(call_and_assert_clean(&world, json!({})).await["output"], left);
    }
}

#[tokio::test]
async fn large_output_is_redacted_before_truncation() {
    let world = world_with_canary(CANARY).await;
    let template = json!({ "pad": "x".repeat(300), "copies": vec![CANARY; 40] });
    let invocation = json!({ "method": "POST", "path": "/echo", "bodyTemplate": template });
    for limit in (64..=120).step_by(7) {
        world.rest(
            "t",
            invocation.clone(),
            json!({ "maxOutputBytes": limit, "outputJsonSchema": { "type": "string" } }),
        );
        assert_eq!(call_and_assert_clean(&world, json!({})).await["truncated"], true);
    }
}

/// The server answers 400 with the request's key in a long text, so that truncation could split the key.
#[tokio::test]
async fn error_body_is_redacted_before_truncation() {
    let world = World::start().await;
    let complain = |headers: axum::http::HeaderMap| async move {
        let key = headers["x-key"].to_str().unwrap().to_owned();
        (
            axum::http::StatusCode::BAD_REQUEST,
            [("x-request-id", key.clone())],
            format!("{}{}", "bad key ".repeat(249), key.repeat(3)),
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let auth = json!({ "authType": "api_key", "headerName": "X-Key", "secretRef": "canary" });
    world.provider(
        json!({ "refName": "strict", "baseUrl": format!("http://{}", listener.local_addr().unwrap()), "auth": auth }),
    );
    world.secret("canary", CANARY);
    world.get("t", "/", json!({ "providerRef": "strict" }));
    let app = axum::Router::new().fallback(complain);
    let envelope = tokio::select! {
        envelope = call_and_assert_clean(&world, json!({})) => envelope,
        ended = async { axum::serve(listener, app).await } => panic!("{ended:?}"),
    };
    assert!(envelope["error"]["details"]["body"].as_str().unwrap().ends_with("bad key [redacte"), "{envelope}");
}

#[tokio::test]
async fn secret_in_a_redirect_is_redacted() {
    let world = world_with_canary(CANARY).await;
    let leak = format!("/echo?leak={}", utf8_percent_encode(CANARY, NON_ALPHANUMERIC));
    let to = utf8_percent_encode(&leak, NON_ALPHANUMERIC).to_string();
    world.get("t", &format!("/redirect?to={to}"), json!({}));
    call_and_assert_clean(&world, json!({})).await;
    world.get("t", &format!("/redirect?status=300&to={to}"), json!({}));
    call_and_assert_clean(&world, json!({})).await;
}

#[tokio::test]
async fn access_token_is_redacted() {
    let world = World::start().await;
    let auth = json!({ "authType": "oauth2", "clientId": "demo-client", "secretRef": "client", "tokenEndpoint": world.faults.url("/token") });
    world.provider(json!({ "refName": "faults", "auth": auth }));
    world.secret("client", "demo-client-secret-not-real");
    let log = Log::default();
    let capturing = log.capture();
    for (path, fails) in [("/echo", false), ("/oauth-protected", false), ("/status/400", true)] {
        world.get("t", path, json!({ "cache": "forever" }));
        let envelope = world.call("t", json!({})).await;
        assert_eq!(envelope.is_success(), !fails);
        let text = serde_json::to_string(&envelope).unwrap();
        assert!(!text.contains("fixture-access-token") && !text.contains("not-real"), "{text}");
    }
    drop(capturing);
    let cached = world
        .cache
        .stored
        .lock()
        .unwrap()
        .iter()
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect::<String>();
    for place in [cached, log.text()] {
        assert!(!place.contains("fixture-access-token") && !place.contains("not-real"), "{place}");
    }
}

#[tokio::test]
async fn secret_in_function_output_and_errors_is_redacted() {
    let world = World::with_functions(
        toolwright_tools::Library::new("tests")
            .with_dyn(test_functions::tool("returns", |_| async { Ok(json!({ CANARY: [CANARY] })) }))
            .with_dyn(test_functions::tool("complains", |_| async {
                let mut failure = toolwright_tools::ToolFailure::invalid(format!("bad secret {CANARY}"));
                failure.error = failure.error.detail("secret", CANARY);
                Err(failure)
            })),
    )
    .await;
    world.provider(json!({ "refName": "faults", "auth": { "authType": "bearer", "secretRef": "canary" } }));
    world.secret("canary", CANARY);
    for path in ["returns", "complains"] {
        world.function("t", path, json!({ "providerRef": "faults" }));
        call_and_assert_clean(&world, json!({})).await;
    }
    assert_eq!(failure(&world.call("t", json!({})).await), "VALIDATION_ERROR -: bad secret [redacted]");
}

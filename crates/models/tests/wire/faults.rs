//! Errors and connection failures, for all providers.

use std::time::Duration;

use serde_json::json;
use toolwright_models::{ErrorKind, ModelError};

use crate::anthropic::{block, start, text};
use crate::gemini::{parts, stream as gemini_stream};
use crate::openai::chunk;
use crate::server::{MockResponse, MockServer, complete};
use crate::support::{KEY, RecordingSink, user_request};

const MODELS: [(&str, &str); 5] = [
    ("anthropic", "claude-sonnet-4"),
    ("openai", "gpt-4o"),
    ("openai-responses", "gpt-4o"),
    ("google", "gemini-2.5-pro"),
    ("helix", "reasoner"),
];

async fn error(provider: &str, model: &str, response: MockResponse) -> ModelError {
    complete(provider, model, response, &user_request("hi")).await.0.unwrap_err()
}

/// Returns the start of a stream of `provider`.
fn partial_stream(provider: &str) -> MockResponse {
    match provider {
        "anthropic" => {
            MockResponse::events([start(json!({})), block(0, json!({"type": "text", "text": ""})), text(0, "So")])
        }
        "google" => gemini_stream(&[parts(json!([{"text": "So"}]))]),
        "openai-responses" => {
            let delta = json!({"type": "response.output_text.delta", "delta": "So"});
            MockResponse::events([("response.output_text.delta", delta)])
        }
        _ => MockResponse::stream(chunk(json!({"content": "So"}))),
    }
}

#[tokio::test]
async fn http_error_status_sets_error_kind_and_retry_after() {
    for (provider, model) in MODELS {
        let limited = MockResponse::status(429, r#"{"error": {"message": "slow down", "type": "rate_limit_error"}}"#);
        let error = error(provider, model, limited.header("retry-after", "7")).await;
        assert_eq!(error.kind, ErrorKind::RateLimit { retry_after: Some(Duration::from_secs(7)) }, "{provider}");
        assert!(error.message.contains("slow down") && error.message.contains("429"), "{error}");
        for (status, kind) in [
            (529, ErrorKind::Overloaded { retry_after: None }),
            (500, ErrorKind::Overloaded { retry_after: None }),
            (401, ErrorKind::Auth),
            (400, ErrorKind::InvalidRequest),
            (404, ErrorKind::InvalidRequest),
        ] {
            let error = self::error(provider, model, MockResponse::status(status, "<html>busy</html>")).await;
            assert_eq!(error.kind, kind, "{provider} {status}");
        }
    }
}

#[tokio::test]
async fn key_in_a_providers_error_is_redacted() {
    for (provider, model) in MODELS {
        let server = MockServer::start([MockResponse::status(
            401,
            format!("{{\"error\": {{\"message\": \"wrong key {KEY}\"}}}}"),
        )])
        .await;
        let client = server.model(provider, model);
        let error = client.complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
        assert!(error.message.contains("[redacted]"), "{error}");
        let headers = format!("{:?}", server.single_request().headers);
        assert!(headers.contains(KEY), "the key must be sent in a header");
        assert!(!server.single_request().path.contains(KEY), "the key must not be part of the URL");
    }
}

#[tokio::test]
async fn interrupted_stream_is_a_network_error() {
    for (provider, model) in MODELS.into_iter().filter(|(provider, _)| *provider != "helix") {
        let (reply, sink, _) =
            complete(provider, model, partial_stream(provider).then_disconnect(), &user_request("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Network, "{provider}");
        assert_eq!(sink.text, ["So"], "{provider}");
        // A stream that ends early without a connection error is a network error too.
        let (reply, _, _) = complete(provider, model, partial_stream(provider), &user_request("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Network, "{provider}");
    }
}

#[tokio::test]
async fn reply_that_pauses_longer_than_the_timeout_fails() {
    let long = Duration::from_secs(30);
    for (provider, model) in MODELS {
        let before = MockResponse::stream("").then_pause(long);
        for response in [before, partial_stream(provider).then_pause(long)] {
            let server = MockServer::start([response]).await;
            let client = server.model_with_timeout(provider, model, Duration::from_millis(200));
            let error = client.complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Timeout, "{provider}: {error}");
        }
    }
}

#[tokio::test]
async fn stream_with_pauses_under_the_timeout_does_not_time_out() {
    let pause = Duration::from_millis(150);
    let response = partial_stream("openai").then_pause(pause).then(": still here\n\n").then_pause(pause);
    let response = response.then(crate::openai::finish("stop")).then(crate::openai::DONE);
    let server = MockServer::start([response]).await;
    let client = server.model_with_timeout("openai", "gpt-4o", Duration::from_millis(250));
    let reply = client.complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap();
    assert_eq!(reply.content, "So");
}

#[tokio::test]
async fn connection_failure_is_a_network_error_without_the_url() {
    let server = MockServer::start([MockResponse::status(200, "")]).await;
    for (provider, model) in MODELS {
        let config = toolwright_models::ModelConfig {
            base_url: Some("http://127.0.0.1:9/secret-path".into()),
            api_key: Some(KEY.into()),
            ..toolwright_models::ModelConfig::new(provider.parse().unwrap(), model)
        };
        let models = toolwright_models::ModelFactory::new(crate::support::client()).with_environment(|_| None);
        let client = models.build(&config).unwrap();
        let error = client.complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network, "{provider}: {error}");
        assert!(!error.message.contains("secret-path"), "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn stream_with_invalid_json_or_utf8_is_a_malformed_reply() {
    for (provider, model) in [("anthropic", "claude-sonnet-4"), ("openai", "gpt-4o"), ("google", "gemini-2.5-pro")] {
        let name = if provider == "anthropic" { "event: content_block_delta\n" } else { "" };
        let error = self::error(provider, model, MockResponse::stream(format!("{name}data: {{oops\n\n"))).await;
        assert_eq!(error.kind, ErrorKind::Malformed, "{provider}: {error}");
        let error =
            self::error(provider, model, MockResponse::stream(vec![b'd', b'a', 0xff, 0xfe, b'\n', b'\n'])).await;
        assert_eq!(error.kind, ErrorKind::Malformed, "{provider}: {error}");
    }
}

#[tokio::test]
async fn error_event_within_a_stream_sets_the_error_kind() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let events = [start(json!({})), ("error", overloaded)];
    let error = self::error("anthropic", "claude-sonnet-4", MockResponse::events(events)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded { retry_after: None });
    let stream = format!(
        "{}data: {}\n\n",
        chunk(json!({"content": "So"})),
        json!({"error": {"message": "no", "type": "server_error"}})
    );
    let error = self::error("openai", "gpt-4o", MockResponse::stream(stream)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded { retry_after: None });
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let redirect_target = MockServer::start([MockResponse::status(200, "")]).await;
    for (provider, model) in MODELS {
        let response = MockResponse::status(307, "").header("location", redirect_target.url.clone());
        assert_eq!(error(provider, model, response).await.kind, ErrorKind::InvalidRequest, "{provider}");
    }
    assert!(redirect_target.requests().is_empty());
}

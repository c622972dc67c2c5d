//! What breaks, for every provider alike.

use std::time::Duration;

use serde_json::json;
use toolwright_models::{ErrorKind, ModelError};

use crate::anthropic::{block, start, text};
use crate::gemini::{parts, stream as gemini_stream};
use crate::openai::chunk;
use crate::server::{Answer, Server, ask};
use crate::support::{Heard, KEY, user};

const ALL: [(&str, &str); 5] = [
    ("anthropic", "claude-sonnet-4"),
    ("openai", "gpt-4o"),
    ("openai-responses", "gpt-4o"),
    ("google", "gemini-2.5-pro"),
    ("helix", "reasoner"),
];

async fn error(provider: &str, model: &str, answer: Answer) -> ModelError {
    ask(provider, model, answer, &user("hi")).await.0.unwrap_err()
}

/// A stream of `provider` that has begun.
fn begun(provider: &str) -> Answer {
    match provider {
        "anthropic" => Answer::events([start(json!({})), block(0, json!({"type": "text", "text": ""})), text(0, "So")]),
        "google" => gemini_stream(&[parts(json!([{"text": "So"}]))]),
        "openai-responses" => {
            let delta = json!({"type": "response.output_text.delta", "delta": "So"});
            Answer::events([("response.output_text.delta", delta)])
        }
        _ => Answer::stream(chunk(json!({"content": "So"}))),
    }
}

#[tokio::test]
async fn statuses_are_told_apart_and_waits_are_read() {
    for (provider, model) in ALL {
        let limited = Answer::status(429, r#"{"error": {"message": "slow down", "type": "rate_limit_error"}}"#);
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
            let error = self::error(provider, model, Answer::status(status, "<html>busy</html>")).await;
            assert_eq!(error.kind, kind, "{provider} {status}");
        }
    }
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_not_passed_on() {
    for (provider, model) in ALL {
        let server =
            Server::start([Answer::status(401, format!("{{\"error\": {{\"message\": \"wrong key {KEY}\"}}}}"))]).await;
        let asked = server.model(provider, model);
        let error = asked.complete(&user("hi"), &mut Heard::default()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
        assert!(error.message.contains("[redacted]"), "{error}");
        let headers = format!("{:?}", server.only().headers);
        assert!(headers.contains(KEY), "the key was sent");
        assert!(!server.only().path.contains(KEY), "the key is no part of the address");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_middle_is_a_network_error() {
    for (provider, model) in ALL.into_iter().filter(|(provider, _)| *provider != "helix") {
        let (reply, heard, _) = ask(provider, model, begun(provider).then_break(), &user("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Network, "{provider}");
        assert_eq!(heard.text, ["So"], "{provider}");
        // It also is when the stream just ends.
        let (reply, _, _) = ask(provider, model, begun(provider), &user("hi")).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Network, "{provider}");
    }
}

#[tokio::test]
async fn silence_is_a_timeout_before_and_within_a_reply() {
    let long = Duration::from_secs(30);
    for (provider, model) in ALL {
        let before = Answer::stream("").then_silence(long);
        for answer in [before, begun(provider).then_silence(long)] {
            let server = Server::start([answer]).await;
            let asked = server.model_with(provider, model, Duration::from_millis(200));
            let error = asked.complete(&user("hi"), &mut Heard::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Timeout, "{provider}: {error}");
        }
    }
}

#[tokio::test]
async fn slow_is_not_silent() {
    let pause = Duration::from_millis(150);
    let answer = begun("openai").then_silence(pause).then(": still here\n\n").then_silence(pause);
    let answer = answer.then(crate::openai::finish("stop")).then(crate::openai::DONE);
    let server = Server::start([answer]).await;
    let asked = server.model_with("openai", "gpt-4o", Duration::from_millis(250));
    let reply = asked.complete(&user("hi"), &mut Heard::default()).await.unwrap();
    assert_eq!(reply.content, "So");
}

#[tokio::test]
async fn nobody_there_is_a_network_error_without_an_address() {
    let server = Server::start([Answer::status(200, "")]).await;
    for (provider, model) in ALL {
        let config = toolwright_models::ModelConfig {
            base_url: Some("http://127.0.0.1:9/secret-path".into()),
            api_key: Some(KEY.into()),
            ..toolwright_models::ModelConfig::new(provider.parse().unwrap(), model)
        };
        let models = toolwright_models::Models::new(crate::support::client()).with_environment(|_| None);
        let asked = models.build(&config).unwrap();
        let error = asked.complete(&user("hi"), &mut Heard::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Network, "{provider}: {error}");
        assert!(!error.message.contains("secret-path"), "{error}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn what_is_not_json_or_not_text_is_malformed() {
    for (provider, model) in [("anthropic", "claude-sonnet-4"), ("openai", "gpt-4o"), ("google", "gemini-2.5-pro")] {
        let name = if provider == "anthropic" { "event: content_block_delta\n" } else { "" };
        let error = self::error(provider, model, Answer::stream(format!("{name}data: {{oops\n\n"))).await;
        assert_eq!(error.kind, ErrorKind::Malformed, "{provider}: {error}");
        let error = self::error(provider, model, Answer::stream(vec![b'd', b'a', 0xff, 0xfe, b'\n', b'\n'])).await;
        assert_eq!(error.kind, ErrorKind::Malformed, "{provider}: {error}");
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_keeps_its_kind() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let events = [start(json!({})), ("error", overloaded)];
    let error = self::error("anthropic", "claude-sonnet-4", Answer::events(events)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded { retry_after: None });
    let stream = format!(
        "{}data: {}\n\n",
        chunk(json!({"content": "So"})),
        json!({"error": {"message": "no", "type": "server_error"}})
    );
    let error = self::error("openai", "gpt-4o", Answer::stream(stream)).await;
    assert_eq!(error.kind, ErrorKind::Overloaded { retry_after: None });
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = Server::start([Answer::status(200, "")]).await;
    for (provider, model) in ALL {
        let answer = Answer::status(307, "").header("location", elsewhere.url.clone());
        assert_eq!(error(provider, model, answer).await.kind, ErrorKind::InvalidRequest, "{provider}");
    }
    assert!(elsewhere.asked().is_empty());
}

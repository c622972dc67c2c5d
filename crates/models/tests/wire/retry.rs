//! Retries and fallbacks. Most tests use fake models and simulated time, one uses a real connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use toolwright_models::{ErrorKind, Model, ModelError, RetryPolicy, RetryingModel, Script, ScriptedModel, Sink};
use toolwright_types::{ModelReply, ModelRequest, RetryDelays};

use crate::openai::{DONE, chunk, finish};
use crate::server::{MockResponse, MockServer};
use crate::support::{RecordingSink, user_request};

/// A model that returns the listed errors, one per request, each after optional output. Then it echoes the user
/// message.
struct FailingModel {
    failures: Mutex<Vec<(Option<&'static str>, ErrorKind)>>,
    attempts: Mutex<Vec<tokio::time::Instant>>,
}

impl FailingModel {
    fn new(failures: impl IntoIterator<Item = (Option<&'static str>, ErrorKind)>) -> Arc<Self> {
        let mut failures: Vec<_> = failures.into_iter().collect();
        failures.reverse();
        Arc::new(Self { failures: Mutex::new(failures), attempts: Mutex::default() })
    }

    fn attempt_count(&self) -> usize {
        self.attempts.lock().unwrap().len()
    }

    fn delays(&self) -> Vec<Duration> {
        self.attempts.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Model for FailingModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            self.attempts.lock().unwrap().push(tokio::time::Instant::now());
            let failure = self.failures.lock().unwrap().pop();
            if let Some((output, kind)) = failure {
                output.into_iter().for_each(|text| sink.text(text));
                return Err(ModelError::new(kind, "test failure"));
            }
            ScriptedModel::new(Script::echo()).complete(request, sink).await
        })
    }
}

const NETWORK: (Option<&str>, ErrorKind) = (None, ErrorKind::Network);

async fn complete(model: &RetryingModel) -> (Result<ModelReply, ModelError>, RecordingSink) {
    let mut sink = RecordingSink::default();
    let reply = model.complete(&user_request("hello"), &mut sink).await;
    (reply, sink)
}

#[tokio::test(start_paused = true)]
async fn transient_errors_are_retried_at_most_three_times() {
    let busy = (None, ErrorKind::Overloaded { retry_after: None });
    let model = FailingModel::new([NETWORK, (None, ErrorKind::Timeout), busy]);
    let (reply, sink) = complete(&RetryingModel::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((model.attempt_count(), sink.restarts), (4, 0), "without output there is no restart");
    let ranges = [(250, 500), (500, 1000), (1000, 2000)];
    for (delay, (min, max)) in model.delays().iter().zip(ranges) {
        assert!((min..=max + 1).contains(&delay.as_millis()), "{delay:?}");
    }
    let model = FailingModel::new([NETWORK; 9]);
    let (reply, _) = complete(&RetryingModel::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!((reply.unwrap_err().kind, model.attempt_count()), (ErrorKind::Network, 4));
}

#[tokio::test(start_paused = true)]
async fn retry_waits_as_long_as_the_provider_asks_unless_the_wait_exceeds_the_maximum() {
    let limited = |seconds| (None, ErrorKind::RateLimit { retry_after: Some(Duration::from_secs(seconds)) });
    let model = FailingModel::new([limited(12)]);
    assert!(complete(&RetryingModel::new(model.clone(), RetryPolicy::default())).await.0.is_ok());
    assert!(model.delays()[0] >= Duration::from_secs(12));
    let model = FailingModel::new([limited(3600)]);
    let (reply, _) = complete(&RetryingModel::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!(reply.unwrap_err().retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(model.attempt_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried() {
    for kind in [ErrorKind::Auth, ErrorKind::InvalidRequest, ErrorKind::Malformed, ErrorKind::Unsupported] {
        let model = FailingModel::new([(None, kind)]);
        let (reply, _) = complete(&RetryingModel::new(model.clone(), RetryPolicy::default())).await;
        assert_eq!((reply.unwrap_err().kind, model.attempt_count()), (kind, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn sink_is_restarted_only_if_the_failed_attempt_had_output() {
    let model = FailingModel::new([(Some("hel"), ErrorKind::Network), NETWORK, (Some("he"), ErrorKind::Timeout)]);
    let (reply, sink) = complete(&RetryingModel::new(model, RetryPolicy::default())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((sink.text.concat().as_str(), sink.restarts), ("hello", 2));
}

#[tokio::test(start_paused = true)]
async fn fallback_is_used_when_retries_are_exhausted() {
    let fallback = FailingModel::new([NETWORK]);
    let policy = RetryPolicy { max_retries: 1, ..RetryPolicy::default() };
    let primary = FailingModel::new([(Some("hm"), ErrorKind::Network), NETWORK, NETWORK]);
    let (reply, sink) = complete(&RetryingModel::new(primary.clone(), policy).with_fallback(fallback.clone())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((primary.attempt_count(), fallback.attempt_count(), sink.restarts), (2, 2, 1));
    for (kind, expected) in [(ErrorKind::Malformed, 1), (ErrorKind::Auth, 0), (ErrorKind::InvalidRequest, 0)] {
        let fallback = FailingModel::new([]);
        let model = RetryingModel::new(FailingModel::new([(None, kind)]), policy).with_fallback(fallback.clone());
        assert_eq!(complete(&model).await.0.is_ok(), expected == 1, "{kind:?}");
        assert_eq!(fallback.attempt_count(), expected, "{kind:?}");
    }
}

#[tokio::test]
async fn interrupted_connection_is_retried() {
    let interrupted = MockResponse::stream(chunk(json!({"content": "Hal"}))).then_disconnect();
    let complete_response =
        MockResponse::stream([chunk(json!({"content": "Hallo"})), finish("stop"), DONE.to_owned()].concat());
    let server = MockServer::start([MockResponse::status(503, ""), interrupted, complete_response]).await;
    let policy = RetryPolicy {
        delays: RetryDelays::exponential(Duration::from_millis(10), Duration::from_secs(30)),
        ..RetryPolicy::default()
    };
    let (reply, sink) = complete(&RetryingModel::new(server.model("openai", "gpt-4o"), policy)).await;
    assert_eq!(reply.unwrap().content, "Hallo");
    assert_eq!((sink.text.concat().as_str(), sink.restarts), ("Hallo", 1));
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests.iter().all(|request| request.body == requests[0].body),
        "every attempt must send the same request"
    );
}

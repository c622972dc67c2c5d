//! Asking again: with fake models in virtual time, and once over a real connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;
use toolwright_models::{ErrorKind, Model, ModelError, RetryPolicy, Retrying, Script, Scripted, Sink};
use toolwright_types::{ModelReply, ModelRequest};

use crate::openai::{DONE, chunk, finish};
use crate::server::{Answer, Server};
use crate::support::{Heard, user};

/// Fails in these ways in turn, after it has said something or nothing; then answers.
struct Failing {
    failures: Mutex<Vec<(Option<&'static str>, ErrorKind)>>,
    asked: Mutex<Vec<tokio::time::Instant>>,
}

impl Failing {
    fn new(failures: impl IntoIterator<Item = (Option<&'static str>, ErrorKind)>) -> Arc<Self> {
        let mut failures: Vec<_> = failures.into_iter().collect();
        failures.reverse();
        Arc::new(Self { failures: Mutex::new(failures), asked: Mutex::default() })
    }

    fn times(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn pauses(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Model for Failing {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(tokio::time::Instant::now());
            let failure = self.failures.lock().unwrap().pop();
            if let Some((said, kind)) = failure {
                said.into_iter().for_each(|said| sink.text(said));
                return Err(ModelError::new(kind, "by test"));
            }
            Scripted::new(Script::echo()).complete(request, sink).await
        })
    }
}

const NETWORK: (Option<&str>, ErrorKind) = (None, ErrorKind::Network);

async fn ask(model: &Retrying) -> (Result<ModelReply, ModelError>, Heard) {
    let mut heard = Heard::default();
    let reply = model.complete(&user("hello"), &mut heard).await;
    (reply, heard)
}

#[tokio::test(start_paused = true)]
async fn passing_trouble_is_waited_out_at_most_three_times() {
    let busy = (None, ErrorKind::Overloaded { retry_after: None });
    let model = Failing::new([NETWORK, (None, ErrorKind::Timeout), busy]);
    let (reply, heard) = ask(&Retrying::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((model.times(), heard.restarts), (4, 0), "nothing was heard, so nothing is taken back");
    let limits = [(250, 500), (500, 1000), (1000, 2000)];
    for (pause, (least, most)) in model.pauses().iter().zip(limits) {
        assert!((least..=most + 1).contains(&pause.as_millis()), "{pause:?}");
    }
    let model = Failing::new([NETWORK; 9]);
    let (reply, _) = ask(&Retrying::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!((reply.unwrap_err().kind, model.times()), (ErrorKind::Network, 4));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_honoured_and_one_that_is_too_long_is_not_waited_for() {
    let limited = |seconds| (None, ErrorKind::RateLimit { retry_after: Some(Duration::from_secs(seconds)) });
    let model = Failing::new([limited(12)]);
    assert!(ask(&Retrying::new(model.clone(), RetryPolicy::default())).await.0.is_ok());
    assert!(model.pauses()[0] >= Duration::from_secs(12));
    let model = Failing::new([limited(3600)]);
    let (reply, _) = ask(&Retrying::new(model.clone(), RetryPolicy::default())).await;
    assert_eq!(reply.unwrap_err().retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(model.times(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_help_is_not_tried() {
    for kind in [ErrorKind::Auth, ErrorKind::InvalidRequest, ErrorKind::Malformed, ErrorKind::Unsupported] {
        let model = Failing::new([(None, kind)]);
        let (reply, _) = ask(&Retrying::new(model.clone(), RetryPolicy::default())).await;
        assert_eq!((reply.unwrap_err().kind, model.times()), (kind, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_is_taken_back_once() {
    let model = Failing::new([(Some("hel"), ErrorKind::Network), NETWORK, (Some("he"), ErrorKind::Timeout)]);
    let (reply, heard) = ask(&Retrying::new(model, RetryPolicy::default())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((heard.text.concat().as_str(), heard.restarts), ("hello", 2));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_answers_when_patience_is_over() {
    let fallback = Failing::new([NETWORK]);
    let policy = RetryPolicy { retries: 1, ..RetryPolicy::default() };
    let primary = Failing::new([(Some("hm"), ErrorKind::Network), NETWORK, NETWORK]);
    let (reply, heard) = ask(&Retrying::new(primary.clone(), policy).with_fallback(fallback.clone())).await;
    assert_eq!(reply.unwrap().content, "hello");
    assert_eq!((primary.times(), fallback.times(), heard.restarts), (2, 2, 1));
    for (kind, asked) in [(ErrorKind::Malformed, 1), (ErrorKind::Auth, 0), (ErrorKind::InvalidRequest, 0)] {
        let fallback = Failing::new([]);
        let model = Retrying::new(Failing::new([(None, kind)]), policy).with_fallback(fallback.clone());
        assert_eq!(ask(&model).await.0.is_ok(), asked == 1, "{kind:?}");
        assert_eq!(fallback.times(), asked, "{kind:?}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_mended() {
    let broken = Answer::stream(chunk(json!({"content": "Hal"}))).then_break();
    let whole = Answer::stream([chunk(json!({"content": "Hallo"})), finish("stop"), DONE.to_owned()].concat());
    let server = Server::start([Answer::status(503, ""), broken, whole]).await;
    let policy = RetryPolicy { first_pause: Duration::from_millis(10), ..RetryPolicy::default() };
    let (reply, heard) = ask(&Retrying::new(server.model("openai", "gpt-4o"), policy)).await;
    assert_eq!(reply.unwrap().content, "Hallo");
    assert_eq!((heard.text.concat().as_str(), heard.restarts), ("Hallo", 1));
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|one| one.body == asked[0].body), "the same request each time");
}

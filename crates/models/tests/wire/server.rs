//! A mock server that sends prepared responses and records the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{self, Request};
use axum::response::Response;
use futures::StreamExt as _;
use serde_json::Value;
use toolwright_models::{Model, ModelConfig, ModelError, ModelFactory, Provider};
use toolwright_types::{ModelReply, ModelRequest};

use crate::support::{KEY, RecordingSink, client};

/// A prepared response.
#[derive(Clone)]
pub(crate) struct MockResponse {
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<BodyChunk>,
}

#[derive(Clone)]
enum BodyChunk {
    Text(Bytes),
    Pause(Duration),
    Disconnect,
}

impl MockResponse {
    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, chunks: vec![BodyChunk::Text(Bytes::from(body.into()))] }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// A stream of events. An event with an empty name has no `event` field.
    pub(crate) fn events<'a>(events: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let text: String = events
            .into_iter()
            .map(|(name, data)| {
                let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
                format!("{name}data: {data}\n\n")
            })
            .collect();
        Self::stream(text)
    }

    pub(crate) fn stream(text: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, chunks: vec![BodyChunk::Text(text.into())] }
    }

    pub(crate) fn then(mut self, text: impl Into<Bytes>) -> Self {
        self.chunks.push(BodyChunk::Text(text.into()));
        self
    }

    pub(crate) fn then_pause(mut self, duration: Duration) -> Self {
        self.chunks.push(BodyChunk::Pause(duration));
        self
    }

    pub(crate) fn then_disconnect(mut self) -> Self {
        self.chunks.push(BodyChunk::Disconnect);
        self
    }

    /// Splits the body into chunks of one byte.
    pub(crate) fn in_single_byte_chunks(mut self) -> Self {
        let split = |chunk: BodyChunk| match chunk {
            BodyChunk::Text(text) => text.chunks(1).map(|byte| BodyChunk::Text(Bytes::copy_from_slice(byte))).collect(),
            other => vec![other],
        };
        self.chunks = self.chunks.into_iter().flat_map(split).collect();
        self
    }

    fn into_response(self) -> Response {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let chunks = futures::stream::iter(self.chunks).then(|chunk| async move {
            match chunk {
                BodyChunk::Text(text) => Ok(text),
                BodyChunk::Pause(duration) => {
                    tokio::time::sleep(duration).await;
                    Ok(Bytes::new())
                }
                // The delay lets the client receive the chunks before the disconnect.
                BodyChunk::Disconnect => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Err(std::io::Error::other("disconnected"))
                }
            }
        });
        response.body(Body::from_stream(chunks)).unwrap()
    }
}

/// A request that the server received.
#[derive(Clone)]
pub(crate) struct RecordedRequest {
    pub path: String,
    pub headers: axum::http::HeaderMap,
    pub body: Value,
}

type Shared = Arc<Mutex<State>>;

struct State {
    responses: VecDeque<MockResponse>,
    requests: Vec<RecordedRequest>,
}

/// The mock server. It stops with the runtime of the test.
pub(crate) struct MockServer {
    pub url: String,
    shared: Shared,
}

impl MockServer {
    /// Starts a server that sends the responses in order, and then repeats the last one.
    pub(crate) async fn start(responses: impl IntoIterator<Item = MockResponse>) -> Self {
        let state = State { responses: responses.into_iter().collect(), requests: Vec::new() };
        let shared: Shared = Arc::new(Mutex::new(state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(respond).with_state(shared.clone());
        #[expect(clippy::disallowed_methods, reason = "the task ends with the runtime of the test")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, shared }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().unwrap().requests.clone()
    }

    /// Returns the only request. Panics if there was none or more than one.
    pub(crate) fn single_request(&self) -> RecordedRequest {
        let requests = self.requests();
        assert_eq!(requests.len(), 1);
        requests.into_iter().next().unwrap()
    }

    /// Creates a model of `provider` that connects to this server.
    pub(crate) fn model(&self, provider: &str, model: &str) -> Arc<dyn Model> {
        self.model_with_timeout(provider, model, Duration::from_secs(10))
    }

    pub(crate) fn model_with_timeout(&self, provider: &str, model: &str, timeout: Duration) -> Arc<dyn Model> {
        let provider: Provider = provider.parse().unwrap();
        let is_openai_compatible =
            matches!(provider.as_str(), "openai" | "openai-responses" | "deepseek" | "mistral" | "groq");
        let base_url = Some(if is_openai_compatible { format!("{}/v1", self.url) } else { self.url.clone() });
        let api_key = Some(KEY.into());
        let config = ModelConfig { base_url, api_key, timeout, ..ModelConfig::new(provider, model) };
        ModelFactory::new(client()).with_environment(|_| None).build(&config).unwrap()
    }
}

async fn respond(extract::State(shared): extract::State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut state = shared.lock().unwrap();
    state.requests.push(RecordedRequest {
        path: head.uri.to_string(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    });
    let responses = &mut state.responses;
    let response = if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() };
    response.unwrap().into_response()
}

/// Sends a request to a model of `provider` whose server sends `response`.
pub(crate) async fn complete(
    provider: &str,
    model: &str,
    response: MockResponse,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, RecordingSink, MockServer) {
    let server = MockServer::start([response]).await;
    let mut sink = RecordingSink::default();
    let reply = server.model(provider, model).complete(request, &mut sink).await;
    (reply, sink, server)
}

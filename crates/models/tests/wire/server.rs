//! A server that answers as it is told and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use serde_json::Value;
use toolwright_models::{Model, ModelConfig, ModelError, Models, Provider};
use toolwright_types::{ModelReply, ModelRequest};

use crate::support::{Heard, KEY, client};

/// One answer.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Text(Bytes),
    Silence(Duration),
    Break,
}

impl Answer {
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, pieces: vec![Piece::Text(Bytes::from(body.into()))] }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// A stream of events; each has a name or none.
    pub fn events<'a>(events: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let text: String = events
            .into_iter()
            .map(|(name, data)| {
                let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
                format!("{name}data: {data}\n\n")
            })
            .collect();
        Self::stream(text)
    }

    pub fn stream(text: impl Into<Bytes>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, pieces: vec![Piece::Text(text.into())] }
    }

    pub fn then(mut self, text: impl Into<Bytes>) -> Self {
        self.pieces.push(Piece::Text(text.into()));
        self
    }

    pub fn then_silence(mut self, length: Duration) -> Self {
        self.pieces.push(Piece::Silence(length));
        self
    }

    pub fn then_break(mut self) -> Self {
        self.pieces.push(Piece::Break);
        self
    }

    /// The same bytes, one by one.
    pub fn in_single_bytes(mut self) -> Self {
        let split = |piece: Piece| match piece {
            Piece::Text(text) => text.chunks(1).map(|byte| Piece::Text(Bytes::copy_from_slice(byte))).collect(),
            other => vec![other],
        };
        self.pieces = self.pieces.into_iter().flat_map(split).collect();
        self
    }

    fn into_response(self) -> Response {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let pieces = futures::stream::iter(self.pieces).then(|piece| async move {
            match piece {
                Piece::Text(text) => Ok(text),
                Piece::Silence(length) => {
                    tokio::time::sleep(length).await;
                    Ok(Bytes::new())
                }
                // Long enough for what was sent before to arrive.
                Piece::Break => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Err(std::io::Error::other("broken off"))
                }
            }
        });
        response.body(Body::from_stream(pieces)).unwrap()
    }
}

/// What the server was asked.
#[derive(Clone)]
pub struct Asked {
    pub path: String,
    pub headers: axum::http::HeaderMap,
    pub body: Value,
}

type Shared = Arc<Mutex<(VecDeque<Answer>, Vec<Asked>)>>;

/// The server, for as long as the test lasts.
pub struct Server {
    pub url: String,
    shared: Shared,
}

impl Server {
    /// Gives these answers in turn; then the last one for ever.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let shared: Shared = Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new())));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(shared.clone());
        #[expect(clippy::disallowed_methods, reason = "ends with the runtime of its test")]
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, shared }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.lock().unwrap().1.clone()
    }

    /// The only request.
    pub fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1);
        asked.into_iter().next().unwrap()
    }

    /// A model of `provider` that is reached here.
    pub fn model(&self, provider: &str, model: &str) -> Arc<dyn Model> {
        self.model_with(provider, model, Duration::from_secs(10))
    }

    pub fn model_with(&self, provider: &str, model: &str, timeout: Duration) -> Arc<dyn Model> {
        let provider: Provider = provider.parse().unwrap();
        let openai = matches!(provider.as_str(), "openai" | "openai-responses" | "deepseek" | "mistral" | "groq");
        let base_url = Some(if openai { format!("{}/v1", self.url) } else { self.url.clone() });
        let api_key = Some(KEY.into());
        let config = ModelConfig { base_url, api_key, timeout, ..ModelConfig::new(provider, model) };
        Models::new(client()).with_environment(|_| None).build(&config).unwrap()
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut shared = shared.lock().unwrap();
    shared.1.push(Asked {
        path: head.uri.to_string(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    });
    let answer = if shared.0.len() > 1 { shared.0.pop_front() } else { shared.0.front().cloned() };
    answer.unwrap().into_response()
}

/// Asks a model of `provider` that gives `answer`.
pub async fn ask(
    provider: &str,
    model: &str,
    answer: Answer,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, Heard, Server) {
    let server = Server::start([answer]).await;
    let mut heard = Heard::default();
    let reply = server.model(provider, model).complete(request, &mut heard).await;
    (reply, heard, server)
}

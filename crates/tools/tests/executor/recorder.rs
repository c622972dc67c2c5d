//! A server that records the requests that it receives, for tests that compare the requests.

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// A server that answers the first `failures` requests with 503, and all later requests with 200.
pub(crate) struct Recorder {
    pub url: String,
    log: Arc<Log>,
    _server: JoinSet<()>,
}

struct Log {
    failures: usize,
    requests: Mutex<Vec<HeaderMap>>,
}

impl Recorder {
    pub(crate) async fn start(failures: usize) -> Self {
        let log = Arc::new(Log { failures, requests: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(record).with_state(Arc::clone(&log));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, log, _server: server }
    }

    /// Returns the value of one header in each request.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        let value = |request: &HeaderMap| request.get(name).map(|value| value.to_str().unwrap().to_owned());
        self.log.requests.lock().unwrap().iter().map(value).collect()
    }
}

async fn record(State(log): State<Arc<Log>>, request: Request) -> Response {
    let mut requests = log.requests.lock().unwrap();
    requests.push(request.headers().clone());
    if requests.len() <= log.failures {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    Json(json!({ "ok": true })).into_response()
}

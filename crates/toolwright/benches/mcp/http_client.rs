//! Generates load with an HTTP client library, like typical MCP clients, and parses each response as JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::percentiles::Latencies;
use crate::server::KEY;

/// The headers and the body of a request that is sent repeatedly.
#[derive(Clone)]
pub(crate) struct Call {
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Sends calls repeatedly on several connections. Each connection waits for a response before its next call. `open`
/// prepares a connection and returns the call to repeat on it.
pub(crate) fn load(
    address: &str,
    open: impl AsyncFn(&reqwest::Client, &str) -> Call,
    connections: usize,
    duration: Duration,
) -> Latencies {
    // The library requires a TLS provider, although the benchmark uses no TLS. Installing a second one fails, and the
    // error is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url: Arc<str> = format!("http://{address}/mcp").into();
        let mut callers = Vec::new();
        for _ in 0..connections {
            let client = reqwest::Client::builder().tcp_nodelay(true).build().unwrap();
            let call = open(&client, &url).await;
            callers.push((client, call));
        }
        let started = Instant::now();
        let mut workers = tokio::task::JoinSet::new();
        for (client, call) in callers {
            let url = Arc::clone(&url);
            workers.spawn(async move {
                let mut micros = Vec::new();
                while started.elapsed() < duration {
                    let start = Instant::now();
                    let (_, message) = send(&client, &url, &call).await;
                    assert!(message["result"].is_object(), "{message}");
                    micros.push(start.elapsed().as_secs_f64() * 1e6);
                }
                micros
            });
        }
        let all = workers.join_all().await.into_iter().flatten().collect();
        Latencies::new(all, started.elapsed())
    })
}

/// Sends one request. Returns the session id and the message of the response.
pub(crate) async fn send(client: &reqwest::Client, url: &str, call: &Call) -> (Option<String>, Value) {
    let request = client
        .post(url)
        .bearer_auth(KEY)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(call.body.clone());
    let request = call.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let response = request.send().await.unwrap().error_for_status().unwrap();
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let mut events =
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
    let message = events.next_back().unwrap_or(&text);
    (session, serde_json::from_str(message).unwrap_or_default())
}

//! Load as programs make it: through an HTTP library, and each answer is read as JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::percentiles::Latencies;
use crate::server::KEY;

/// What is sent again and again on a connection.
#[derive(Clone)]
pub struct Call {
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Keeps connections busy, each with a call that `open` has made for it, one at a time.
pub fn load(
    address: &str,
    open: impl AsyncFn(&reqwest::Client, &str) -> Call,
    connections: usize,
    duration: Duration,
) -> Latencies {
    // The library wants one, although nothing here is encrypted. Whoever was first has set it.
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
        let begun = Instant::now();
        let mut busy = tokio::task::JoinSet::new();
        for (client, call) in callers {
            let url = Arc::clone(&url);
            busy.spawn(async move {
                let mut micros = Vec::new();
                while begun.elapsed() < duration {
                    let start = Instant::now();
                    let (_, message) = send(&client, &url, &call).await;
                    assert!(message["result"].is_object(), "{message}");
                    micros.push(start.elapsed().as_secs_f64() * 1e6);
                }
                micros
            });
        }
        let all = busy.join_all().await.into_iter().flatten().collect();
        Latencies::new(all, begun.elapsed())
    })
}

/// One request: the session that its answer names, and the message that it is.
pub async fn send(client: &reqwest::Client, url: &str, call: &Call) -> (Option<String>, Value) {
    let request = client
        .post(url)
        .bearer_auth(KEY)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(call.body.clone());
    let request = call.headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let answer = request.send().await.unwrap().error_for_status().unwrap();
    let session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let text = answer.text().await.unwrap();
    let mut events =
        text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
    let message = events.next_back().unwrap_or(&text);
    (session, serde_json::from_str(message).unwrap_or_default())
}

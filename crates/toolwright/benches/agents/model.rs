//! A model over HTTP that responds at once, and a slow HTTP service. Both use plain HTTP/1.1 on loopback.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;

use crate::{CALLS, TURNS};

/// Starts the model's HTTP service and returns its address.
pub(crate) fn serve() -> SocketAddr {
    listen(Router::new().route("/v1/chat/completions", post(complete)))
}

/// Returns the address of the slow HTTP service, which the first call to this function starts.
pub(crate) fn slow_service() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| listen(Router::new().route("/slow", get(respond_slowly))))
}

async fn respond_slowly() -> &'static str {
    tokio::time::sleep(Duration::from_millis(200)).await;
    "{}"
}

/// Responds in OpenAI's streaming format: with four tool calls in each of the first [`TURNS`] turns, and with a text
/// after that.
async fn complete(body: Bytes) -> impl IntoResponse {
    let text = std::str::from_utf8(&body).unwrap();
    let turn = text.matches("\"role\":\"tool\"").count() / CALLS;
    let delta = if turn < TURNS {
        let calls = crate::calls("lookup", turn).into_iter().enumerate().map(|(index, call)| {
            json!({ "index": index, "id": format!("c{turn}-{index}"), "type": "function", "function": { "name": call["name"], "arguments": call["arguments"].to_string() } })
        });
        json!({ "tool_calls": calls.collect::<Vec<_>>() })
    } else {
        json!({ "content": "Done." })
    };
    let finish = if turn < TURNS { "tool_calls" } else { "stop" };
    let chunk = |choices: serde_json::Value, usage: serde_json::Value| json!({ "id": "x", "object": "chat.completion.chunk", "created": 0, "model": "gpt-4o", "choices": choices, "usage": usage });
    let stream = [
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), json!(null)),
        chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish }]), json!(null)),
        chunk(json!([]), json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 })),
    ];
    let text: String =
        stream.iter().map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect();
    ([(CONTENT_TYPE, "text/event-stream")], text)
}

/// Serves `router` on a separate thread until the process ends. Returns the address.
fn listen(router: Router) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(axum::serve::ListenerExt::tap_io(listener, |io| io.set_nodelay(true).unwrap()), router)
                .await
                .unwrap();
        });
    });
    receiver.recv().unwrap()
}

//! Sends arbitrary bytes from a real HTTP server to the client of each provider. Each request must end with a reply or
//! an error.
#![no_main]

use std::sync::{Arc, LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use toolwright_models::{Model, ModelConfig, ModelFactory, NoSink};
use toolwright_types::ModelRequest;

struct Fixture {
    runtime: Runtime,
    body: Arc<Mutex<Vec<u8>>>,
    models: Vec<Arc<dyn Model>>,
    request: ModelRequest,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let body: Arc<Mutex<Vec<u8>>> = Arc::default();
    runtime.spawn(serve(listener, Arc::clone(&body)));
    // The client requires a TLS provider, although nothing is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().expect("a client");
    let models = ModelFactory::new(client);
    let build = |name: &str, path: &str| {
        let mut config = ModelConfig::from(name.parse::<toolwright_models::ModelRef>().expect("a model"));
        config.base_url = Some(format!("{url}{path}"));
        config.api_key = Some("fuzz-api-key".to_owned().into());
        models.build(&config).expect("a client")
    };
    let models = [("openai/gpt-4o", "/v1"), ("openai-responses/gpt-5", "/v1"), ("anthropic/claude-sonnet-4-5", ""), ("google/gemini-2.5-pro", ""), ("helix/reasoner", "")]
        .map(|(name, path)| build(name, path))
        .into();
    let request = serde_json::from_value(json!({
        "model": "m",
        "messages": [{ "role": "user", "content": "hi" }],
        "tools": [{ "name": "crm/find", "description": "d", "input_schema": { "type": "object" } }],
    }));
    Fixture { runtime, body, models, request: request.expect("a request") }
});

/// Answers each request with the bytes that `body` currently contains.
async fn serve(listener: TcpListener, body: Arc<Mutex<Vec<u8>>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let body = Arc::clone(&body);
        tokio::spawn(async move {
            let mut received = Vec::new();
            let mut chunk = [0; 16 * 1024];
            while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                received.extend_from_slice(&chunk[..read]);
                if !is_complete(&received) {
                    continue;
                }
                received.clear();
                let bytes = body.lock().expect("one thread").clone();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", bytes.len());
                let response = [head.as_bytes(), &bytes].concat();
                if stream.write_all(&response).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn is_complete(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    request.len() >= end + 4 + length.unwrap_or(0)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (model_index, bytes) = input;
    let fixture = &*FIXTURE;
    *fixture.body.lock().expect("one thread") = bytes.to_vec();
    let model = &fixture.models[usize::from(model_index) % fixture.models.len()];
    if let Err(error) = fixture.runtime.block_on(model.complete(&fixture.request, &mut NoSink)) {
        assert!(!error.to_string().contains("fuzz-api-key"), "an error must not contain the API key");
    }
});

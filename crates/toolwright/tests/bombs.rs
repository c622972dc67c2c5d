//! Tests that bombs neither stop nor block the server. A bomb is small foreign data that is expensive to process. The
//! server of the tests has little memory, so a bomb that is not limited kills it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use toolwright_tools::http::{EgressPolicy, HttpClient};

const ADMIN_KEY: &str = "the-admin-key-of-the-bomb-tests";
/// The address space of the server, in kilobytes. A server in a debug build needs about half of it.
const ADDRESS_SPACE: &str = "3000000";
/// How many bombs run at the same time.
const BOMBS: usize = 4;

struct Server {
    child: Child,
    url: String,
    client: reqwest::Client,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // `exec` replaces the shell with the server, so the child's process id is the server's process id.
        let mut child = Command::new("sh")
            .args(["-c", r#"ulimit -v "$0" && exec "$@""#, ADDRESS_SPACE, env!("CARGO_BIN_EXE_toolwright")])
            .args(["serve", "--bind", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .env("TOOLWRIGHT_ADMIN_KEY", ADMIN_KEY)
            .env("TOOLWRIGHT_EGRESS_ALLOW", "127.0.0.0/8")
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("no URL: `{line}`")).to_owned();
        let client = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        Self { child, url, client, _folder: folder }
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = self.client.post(format!("{}/api/v1/ai/{path}", self.url)).bearer_auth(ADMIN_KEY).json(body);
        request.send().await.unwrap().json().await.unwrap()
    }

    async fn create_tool(&self, tool: Value) {
        let created = self.post("tools", &tool).await;
        assert_eq!(created["refName"], tool["refName"], "{created}");
    }

    async fn health(&self) -> StatusCode {
        self.client.get(format!("{}/healthz", self.url)).send().await.unwrap().status()
    }

    /// Runs many bombs at the same time, and checks that the server still answers. Returns the response to one of the
    /// bombs.
    async fn explode(&self, path: &str, body: Value) -> Value {
        let bombs = join_all((0..BOMBS).map(|_| self.post(path, &body)));
        let (answers, health) = tokio::join!(bombs, self.health());
        assert_eq!(health, 200);
        assert!(answers.iter().all(|answer| answer["error"]["code"] == answers[0]["error"]["code"]), "{answers:?}");
        // The server is alive.
        let listed = self.client.get(format!("{}/api/v1/ai/tools", self.url)).bearer_auth(ADMIN_KEY).send().await;
        assert_eq!(listed.unwrap().status(), 200);
        answers.into_iter().next().unwrap()
    }
}

/// A schema of less than 3 KB. Each of its definitions refers twice to the next one.
fn doubling_schema() -> Value {
    let definition = |n: usize| json!({ "anyOf": [{ "$ref": format!("#/$defs/{}", n + 1) }, { "$ref": format!("#/$defs/{}", n + 1) }] });
    let mut definitions: Map<String, Value> = (0..40).map(|n| (n.to_string(), definition(n))).collect();
    definitions.insert("40".into(), json!({ "type": "string" }));
    json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/0" } }, "$defs": definitions })
}

fn echo(extra: Value) -> Value {
    let mut tool = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    tool
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the task ends with the runtime of the test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Starts an MCP server with two tools. The schema of one tool is a bomb, and the response of the other tool is a bomb.
async fn mcp_server() -> String {
    async fn answer(body: Bytes) -> Response {
        let message: Value = serde_json::from_slice(&body).unwrap();
        let tools = json!([
            { "name": "schema", "inputSchema": doubling_schema() },
            { "name": "answer", "inputSchema": { "type": "object" } },
        ]);
        let server = json!({ "name": "bombs", "version": "1" });
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": server })
            }
            "tools/list" => json!({ "tools": tools }),
            "tools/call" => {
                let (before, after) = (r#"{"content":[],"structuredContent":{"a":["#, "[]]}}");
                let lists = "[],".repeat(8_000_000);
                let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{before}{lists}{after}}}"#, message["id"]);
                return ([(CONTENT_TYPE, "application/json")], text).into_response();
            }
            _ if message["id"].is_null() => return axum::http::StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({ "code": -32601, "message": "unknown method" });
                return axum::Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).into_response();
            }
        };
        axum::Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
    }
    let no_stream = || async { axum::http::StatusCode::METHOD_NOT_ALLOWED };
    serve(Router::new().route("/mcp", post(answer).get(no_stream))).await + "/mcp"
}

#[tokio::test]
async fn validation_against_a_schema_of_exponential_cost_is_stopped() {
    let server = Server::start();
    server.create_tool(echo(json!({ "inputJsonSchema": doubling_schema() }))).await;
    let envelope = server.explode("tools/t/execute", json!({ "input": { "x": 1 } })).await;
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
    assert!(envelope["error"]["message"].as_str().unwrap().contains("steps; use less data"), "{envelope}");
    // A value that needs little work is accepted.
    let envelope = server.post("tools/t/execute", &json!({ "input": { "x": "a" } })).await;
    assert_eq!(envelope["output"], json!({ "x": "a" }), "{envelope}");
}

#[tokio::test]
async fn server_answers_other_requests_while_bombs_are_executed() {
    let server = Server::start();
    server.create_tool(echo(json!({ "inputJsonSchema": doubling_schema() }))).await;
    let body = json!({ "input": { "x": 1 } });
    let bombs = join_all((0..BOMBS).map(|_| server.post("tools/t/execute", &body)));
    tokio::select! {
        biased;
        answers = bombs => panic!("the bombs ended first: {answers:?}"),
        status = server.health() => assert_eq!(status, 200),
    }
}

#[tokio::test]
async fn server_answers_other_requests_while_records_are_validated() {
    let server = Server::start();
    let created = server.post("types", &json!({ "name": "Order", "jsonSchema": doubling_schema() })).await;
    assert_eq!(created["name"], "Order", "{created}");
    let body = json!({ "rootType": "Order", "entity": { "x": 1 } });
    let save = || async {
        let request = server.client.post(format!("{}/api/query/save", server.url)).bearer_auth(ADMIN_KEY).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    tokio::select! {
        biased;
        answers = join_all((0..BOMBS).map(|_| save())) => panic!("the bombs ended first: {answers:?}"),
        status = server.health() => assert_eq!(status, 200),
    }
    let problem = save().await;
    assert!(problem.to_string().contains("steps; use less data"), "{problem}");
}

#[tokio::test]
async fn server_answers_other_requests_while_large_schemas_are_compiled() {
    let server = Server::start();
    let properties: Map<String, Value> = (0..20_000)
        .map(|n| (format!("p{n}"), json!({ "type": "string", "pattern": format!("^[a-z]{{{}}}$", n % 50) })))
        .collect();
    let tool = |n: usize| {
        let schema = json!({ "type": "object", "properties": properties });
        echo(json!({ "refName": format!("t{n}"), "inputJsonSchema": schema }))
    };
    let tools: Vec<Value> = (0..BOMBS).map(tool).collect();
    tokio::select! {
        biased;
        answers = join_all(tools.iter().map(|tool| server.post("tools", tool))) => panic!("the bombs ended first: {answers:?}"),
        status = server.health() => assert_eq!(status, 200),
    }
}

#[tokio::test]
async fn mcp_message_with_too_many_nodes_is_rejected() {
    let server = Server::start();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":[{}[]]}}}}}}"#,
        "[],".repeat(1_000_000)
    );
    let request = server.client.post(format!("{}/mcp", server.url)).bearer_auth(ADMIN_KEY).body(body);
    let request =
        request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json, text/event-stream");
    assert_eq!(request.send().await.unwrap().status(), 413);
}

#[tokio::test]
async fn validation_against_the_schema_of_an_imported_mcp_tool_is_stopped() {
    let server = Server::start();
    let import = json!({ "url": mcp_server().await });
    let imported = server.post("tools/import/mcp", &import).await;
    assert_eq!(imported["imported"].as_array().map(Vec::len), Some(2), "{imported}");
    let envelope = server.explode("tools/schema/execute", json!({ "input": { "x": 1 } })).await;
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
    for format in ["universal", "langchain", "mcp", "openai", "anthropic", "gemini"] {
        let url = format!("{}/api/v1/ai/tools/schema/export/{format}", server.url);
        assert_eq!(server.client.get(url).bearer_auth(ADMIN_KEY).send().await.unwrap().status(), 200, "{format}");
    }
}

#[tokio::test]
async fn oversized_json_answer_of_an_mcp_server_is_rejected() {
    let server = Server::start();
    server.post("tools/import/mcp", &json!({ "url": mcp_server().await })).await;
    let envelope = server.post("tools/answer/execute", &json!({ "input": {} })).await;
    assert_eq!(envelope["error"]["code"], "PROVIDER_ERROR", "{envelope}");
    assert_eq!(envelope["error"]["details"]["reason"], "response_too_large", "{envelope}");
}

#[tokio::test]
async fn compressed_answer_that_expands_beyond_the_limit_is_rejected() {
    let mut compressor = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    compressor.write_all(b"[").unwrap();
    for _ in 0..21_000 {
        compressor.write_all("[],".repeat(1_000).as_bytes()).unwrap();
    }
    compressor.write_all(b"[]]").unwrap();
    let body = Bytes::from(compressor.finish().unwrap());
    assert!(body.len() < 100_000, "{}", body.len());
    let bomb = move || async move { ([(CONTENT_TYPE, "application/json"), (CONTENT_ENCODING, "gzip")], body) };
    let url = serve(Router::new().route("/", get(bomb))).await;
    let server = Server::start();
    let invocation = json!({ "method": "GET", "path": url });
    server.create_tool(json!({ "refName": "t", "toolType": "EXTERNAL_REST", "invocation": invocation })).await;
    let envelope = server.explode("tools/t/execute", json!({ "input": {} })).await;
    assert_eq!(envelope["error"]["code"], "PROVIDER_ERROR", "{envelope}");
    assert_eq!(envelope["error"]["details"]["reason"], "response_too_large", "{envelope}");
}

#[tokio::test]
async fn evaluation_of_an_expensive_json_path_is_stopped() {
    let server = Server::start();
    // A pattern that is a literal in the selector is compiled only once, so it is accepted even if it is expensive.
    let words = vec!["a"; 20_000];
    let literal = json!({ "selector": "$[?search(@,'(a{0,60}b{0,60}c{0,60}){0,3}d')]", "document": words });
    assert_eq!(server.post("jsonpath", &literal).await, json!({ "nodes": [] }));
    let patterns: Vec<String> = (0..20_000).map(|n| format!("(a{{0,60}}b{{0,60}}){{0,3}}{n}")).collect();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for (selector, document) in
        [("$[?search('a',@)]", json!(patterns)), ("$..*..*..*..*..*..*", deep), ("$[?count($..*)>1]", json!(words))]
    {
        let problem = server.explode("jsonpath", json!({ "selector": selector, "document": document })).await;
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(422), &json!("invalid-expression")),
            "{selector} {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains("steps; use less data"), "{selector} {problem}");
    }
}

#[tokio::test]
async fn deadline_of_a_call_includes_the_check_of_its_output() {
    let server = Server::start();
    let late = json!({ "outputJsonSchema": doubling_schema(), "timeoutMs": 50 });
    server.create_tool(echo(late)).await;
    let envelope = server.explode("tools/t/execute", json!({ "input": { "x": 1 } })).await;
    assert_eq!(envelope["error"]["code"], "TIMEOUT", "{envelope}");
}

//! Tests the MCP server over HTTP, with clients of the latest protocol revision, which has no sessions, and of an older
//! revision.

mod calls;
mod elicitation;
mod fast_path;
mod messages;
mod progress;
mod sessions;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Response, Server, with_timeout};

const LATEST_VERSION: &str = "2026-07-28";

const OLDER_VERSION: &str = "2025-11-25";

/// A client of the latest protocol revision, with or without support for elicitation.
#[derive(Clone)]
struct Client {
    server: Server,
    elicitation: bool,
}

impl Client {
    fn new(server: &Server) -> Self {
        Self { server: server.clone(), elicitation: false }
    }

    fn with_elicitation(server: &Server) -> Self {
        Self { server: server.clone(), elicitation: true }
    }

    fn request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let capabilities = if self.elicitation { json!({ "elicitation": { "form": {} } }) } else { json!({}) };
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(LATEST_VERSION);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let mut request = post(&self.server)
            .header("mcp-protocol-version", LATEST_VERSION)
            .header("mcp-method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        request
    }

    /// Sends a request and returns the reply, which contains a result or an error.
    async fn reply(&self, method: &str, params: Value) -> Value {
        reply(self.server.send(self.request(method, params)).await)
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].take()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Repeats a call with answers to the elicitation requests in `requested`.
    async fn answer_elicitation(&self, tool: &str, arguments: Value, requested: &Value, answers: Value) -> Value {
        let state = &requested["requestState"];
        let params = json!({ "name": tool, "arguments": arguments, "inputResponses": answers, "requestState": state });
        self.result("tools/call", params).await
    }

    async fn tool_names(&self) -> Vec<String> {
        let tools = self.result("tools/list", json!({})).await;
        let names = tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("t_") || name.starts_with('_') || name.contains("__")).collect()
    }
}

fn post(server: &Server) -> reqwest::RequestBuilder {
    server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream")
}

/// Returns the last message of a response. The response is JSON or an event stream.
fn reply(answer: Response) -> Value {
    match answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()) {
        Some(kind) if kind.starts_with("text/event-stream") => {
            let mut data = answer.text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            let last = data.rfind(|data| !data.is_empty());
            serde_json::from_str(last.unwrap_or_else(|| panic!("no message: {}", answer.text))).unwrap()
        }
        _ => answer.json(),
    }
}

/// A session of a client with an older protocol revision.
struct Session {
    server: Server,
    id: String,
}

impl Session {
    async fn initialize(server: &Server, capabilities: Value) -> Self {
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": OLDER_VERSION, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } } });
        let answer = server.send(post(server).json(&initialize)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let id = answer.headers.get("mcp-session-id").unwrap().to_str().unwrap().to_owned();
        assert_eq!(reply(answer)["result"]["protocolVersion"], OLDER_VERSION);
        let session = Self { server: server.clone(), id };
        session.notify("notifications/initialized", json!({})).await;
        session
    }

    fn request(&self, message: &Value) -> reqwest::RequestBuilder {
        let request = post(&self.server).header("mcp-protocol-version", OLDER_VERSION);
        request.header("mcp-session-id", &self.id).json(message)
    }

    async fn notify(&self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        assert_eq!(self.server.send(self.request(&message)).await.status, 202);
    }

    /// Opens the event stream on which the server sends notifications.
    async fn listen(&self) -> Stream {
        let request = self.server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        let request = request.header("mcp-protocol-version", OLDER_VERSION).header("mcp-session-id", &self.id);
        Stream::open(request).await
    }

    async fn stream(&self, id: u64, method: &str, params: Value) -> Stream {
        Stream::open(self.request(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))).await
    }
}

/// An event stream of JSON-RPC messages.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// Reads messages until one satisfies `predicate`, and returns that message.
    async fn wait_for(&mut self, predicate: impl Fn(&Value) -> bool) -> Value {
        with_timeout(async {
            loop {
                while let Some((block, rest)) = self.text.split_once("\n\n") {
                    let data = block.lines().find_map(|line| line.strip_prefix("data:")).map(str::trim);
                    let message = data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap());
                    self.text = rest.to_owned();
                    if let Some(message) = message.filter(|message: &Value| predicate(message)) {
                        return message;
                    }
                }
                let chunk = self.response.chunk().await.unwrap().expect("the stream ended");
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        })
        .await
    }

    async fn notification(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method).await
    }
}
